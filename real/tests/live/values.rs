//! Values of every type, by both protocols.

use rowlock_model::{Session, Value};

use crate::{Test, TestResult, block_on, run, session};

pub(crate) const TESTS: &[Test] = &[
    ("values_of_every_type", values_of_every_type),
    ("arguments_are_typed_by_their_variant", arguments),
    ("columns_of_empty_results", columns_of_empty_results),
    ("tags_and_counts", tags_and_counts),
    ("notices", notices),
    ("enums_are_named", enums_are_named),
    ("scripts", scripts),
];

/// Expression, type name, value as it prints.
const VALUES: &[(&str, &str, &str)] = &[
    ("1::int2", "int2", "1"),
    ("-1::int4", "int4", "-1"),
    ("9223372036854775807", "int8", "9223372036854775807"),
    ("true", "bool", "true"),
    ("1.5::float4", "float4", "1.5"),
    ("0.1::float8", "float8", "0.1"),
    ("1.10::numeric", "numeric", "1.10"),
    ("-12345678.000100::numeric", "numeric", "-12345678.000100"),
    ("0::numeric", "numeric", "0"),
    ("'NaN'::numeric", "numeric", "NaN"),
    ("'ä'::text", "text", "ä"),
    ("'x'::varchar(5)", "varchar", "x"),
    ("'x'::char(3)", "bpchar", "x  "),
    ("'x'::name", "name", "x"),
    ("'{\"a\": 1}'::json", "json", "{\"a\": 1}"),
    ("'{\"a\":1}'::jsonb", "jsonb", "{\"a\": 1}"),
    ("'\\x00ff'::bytea", "bytea", "\\x00ff"),
    ("'2026-11-30'::date", "date", "2026-11-30"),
    ("'12:30:00.25'::time", "time", "12:30:00.25"),
    (
        "'2026-11-30 12:30'::timestamp",
        "timestamp",
        "2026-11-30 12:30:00",
    ),
    (
        "'2026-11-30 12:30+02'::timestamptz",
        "timestamptz",
        "2026-11-30 10:30:00+00",
    ),
    (
        "'0044-03-15 12:00 BC'::timestamp",
        "timestamp",
        "-043-03-15 12:00:00",
    ),
    (
        "'1 year 2 mons 3 days 04:05:06.7'::interval",
        "interval",
        "1 year 2 mons 3 days 04:05:06.7",
    ),
    (
        "'-1 days -00:00:01'::interval",
        "interval",
        "-1 days -00:00:01",
    ),
    (
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
        "uuid",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    ("'{1,NULL,3}'::int4[]", "int4[]", "{1,NULL,3}"),
    ("'{a,\"b,c\"}'::text[]", "text[]", "{a,b,c}"),
    ("'{}'::int8[]", "int8[]", "{}"),
    ("'7'::xid8", "xid8", "7"),
    ("'7'::xid", "xid", "7"),
    ("'(0,1)'::tid", "tid", "(0,1)"),
    ("7::oid", "oid", "7"),
    ("'16/B374D848'::pg_lsn", "pg_lsn", "16/B374D848"),
    ("NULL::int4", "int4", "NULL"),
    ("pg_advisory_xact_lock(1)", "void", ""),
    ("'ab'::\"char\"", "char", "a"),
];

fn values_of_every_type() -> TestResult {
    block_on(async {
        let mut session = session().await;
        for (expression, type_name, printed) in VALUES {
            let text = run(&mut session, &format!("SELECT {expression} AS v")).await;
            let binary = session
                .exec(
                    &format!("SELECT {expression} AS v WHERE $1"),
                    &[Value::Bool(true)],
                )
                .await?;
            assert_eq!(&*text.columns[0].type_name, *type_name, "{expression}");
            assert_eq!(text.rows[0][0].to_string(), *printed, "{expression}");
            assert_eq!(binary.columns, text.columns, "{expression}");
            assert_eq!(binary.rows, text.rows, "{expression}, extended protocol");
        }
        Ok(())
    })
}

fn arguments() -> TestResult {
    let decimal: rust_decimal::Decimal = "12345.6789".parse().expect("a decimal");
    let values = [
        (Value::Int(1), "bigint"),
        (Value::text("x"), "text"),
        (Value::Bool(true), "boolean"),
        (Value::Decimal(decimal), "numeric"),
        (Value::Float(0.5), "double precision"),
        (Value::TimestampTz(1), "timestamp with time zone"),
        (Value::Timestamp(1), "timestamp without time zone"),
        (Value::Date(1), "date"),
        (Value::Bytes([0, 1].into()), "bytea"),
        (
            Value::Array([Value::Int(1), Value::Null].into()),
            "bigint[]",
        ),
        (Value::Array([Value::text("x")].into()), "text[]"),
    ];
    block_on(async {
        let mut session = session().await;
        for (value, type_name) in values {
            let reply = session
                .exec(
                    "SELECT pg_typeof($1)::text, $1",
                    std::slice::from_ref(&value),
                )
                .await?;
            assert_eq!(reply.rows[0][0], Value::text(type_name));
            assert_eq!(reply.rows[0][1], value);
        }
        let reply = session
            .exec("SELECT $1::int4 IS NULL", &[Value::Null])
            .await?;
        assert_eq!(reply.scalar(), Some(&Value::Bool(true)));
        Ok(())
    })
}

fn columns_of_empty_results() -> TestResult {
    block_on(async {
        let mut session = session().await;
        let text = run(&mut session, "SELECT 1 AS a, 'x'::text AS b WHERE false").await;
        let binary = session
            .exec(
                "SELECT 1 AS a, 'x'::text AS b WHERE $1",
                &[Value::Bool(false)],
            )
            .await?;
        assert_eq!(text.columns.len(), 2);
        assert_eq!(text, binary);
        assert_eq!(&*text.tag, "SELECT");
        Ok(())
    })
}

fn tags_and_counts() -> TestResult {
    block_on(async {
        let mut session = session().await;
        let expected = [
            (
                "CREATE TEMP TABLE t (id int PRIMARY KEY)",
                "CREATE TABLE",
                0,
            ),
            ("INSERT INTO t SELECT generate_series(1, 3)", "INSERT", 3),
            ("UPDATE t SET id = id + 10 WHERE id > 1", "UPDATE", 2),
            ("BEGIN", "BEGIN", 0),
            ("DELETE FROM t WHERE id = 1 RETURNING id", "DELETE", 1),
            ("SAVEPOINT a", "SAVEPOINT", 0),
            ("ROLLBACK TO a", "ROLLBACK", 0),
            ("COMMIT", "COMMIT", 0),
            ("SET lock_timeout = 0", "SET", 0),
        ];
        for (sql, tag, affected) in expected {
            let reply = run(&mut session, sql).await;
            assert_eq!((&*reply.tag, reply.affected), (tag, affected), "{sql}");
        }
        // A transaction that failed is rolled back by COMMIT, and only the tag tells.
        run(&mut session, "BEGIN").await;
        session.exec("SELECT 1/0", &[]).await.expect_err("an error");
        assert_eq!(&*run(&mut session, "COMMIT").await.tag, "ROLLBACK");
        let reply = session
            .exec("UPDATE t SET id = id + $1", &[Value::Int(100)])
            .await?;
        assert_eq!((&*reply.tag, reply.affected), ("UPDATE", 2));
        assert!(reply.columns.is_empty());
        Ok(())
    })
}

fn notices() -> TestResult {
    block_on(async {
        let mut session = session().await;
        let reply = run(&mut session, "COMMIT").await;
        assert_eq!(&*reply.notices[0].severity, "WARNING");
        assert_eq!(
            &*reply.notices[0].message,
            "there is no transaction in progress"
        );
        let reply = run(&mut session, "DROP TABLE IF EXISTS no_such_table").await;
        assert_eq!(&*reply.notices[0].severity, "NOTICE");
        Ok(())
    })
}

/// Types that the session had no name for, in both protocols, inside a transaction.
fn enums_are_named() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "DROP TYPE IF EXISTS job_state").await;
        run(
            &mut session,
            "CREATE TYPE job_state AS ENUM ('ready', 'done')",
        )
        .await;
        run(&mut session, "BEGIN").await;
        let text = run(
            &mut session,
            "SELECT 'done'::job_state AS s, '{ready}'::job_state[] AS a",
        )
        .await;
        let binary = session
            .exec(
                "SELECT 'done'::job_state AS s, '{ready}'::job_state[] AS a WHERE $1",
                &[Value::Bool(true)],
            )
            .await?;
        assert_eq!(&*text.columns[0].type_name, "job_state");
        assert_eq!(&*text.columns[1].type_name, "job_state[]");
        assert_eq!(text.rows[0][0], Value::text("done"));
        assert_eq!(text.rows[0][1], Value::Array([Value::text("ready")].into()));
        assert_eq!(text, binary);
        run(&mut session, "COMMIT").await;
        run(&mut session, "DROP TYPE job_state").await;
        Ok(())
    })
}

fn scripts() -> TestResult {
    use rowlock_model::TransactionStatus;
    block_on(async {
        let mut session = session().await;
        let batch = session.batch("SELECT 1; SELECT 2 AS b WHERE false").await?;
        assert_eq!(batch.replies.len(), 2);
        assert_eq!(&*batch.replies[1].columns[0].name, "b");
        assert_eq!(batch.status, TransactionStatus::Idle);
        let batch = session
            .batch("BEGIN; SELECT 1; SELECT 1/0; SELECT 2")
            .await?;
        assert_eq!(batch.replies.len(), 2);
        assert_eq!(batch.error.as_ref().map(|e| &*e.code), Some("22012"));
        assert_eq!(batch.status, TransactionStatus::Failed);
        let batch = session.batch("ROLLBACK; BEGIN").await?;
        assert_eq!(batch.status, TransactionStatus::InTransaction);
        // Outside a transaction a script is one: the error undoes what came before it.
        session
            .batch("ROLLBACK; CREATE TEMP TABLE u (id int)")
            .await?;
        let batch = session
            .batch("INSERT INTO u VALUES (1); SELECT 1/0")
            .await?;
        assert_eq!(batch.replies.len(), 1);
        let reply = run(&mut session, "SELECT count(*) FROM u").await;
        assert_eq!(reply.scalar(), Some(&Value::Int(0)));
        let error = session
            .batch("COPY u FROM STDIN")
            .await
            .expect_err("no COPY");
        assert_eq!(&*error.code, "08P01");
        Ok(())
    })
}
