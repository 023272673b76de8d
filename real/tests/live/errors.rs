//! What the server refuses, as errors of the model.

use std::time::Duration;

use rowlock_model::{DbError, ErrorClass, Session, Value};

use crate::{Test, TestResult, block_on, run, session};

pub(crate) const TESTS: &[Test] = &[
    (
        "unique_violation_names_constraint_and_row",
        unique_violation,
    ),
    ("constraints_of_other_kinds", constraints),
    ("nowait_and_lock_timeout_are_contention", contention),
    ("serialization_failure", serialization_failure),
    (
        "failed_transactions_refuse_until_their_end",
        failed_transaction,
    ),
    ("cancelled_statements", cancelled),
    ("killed_sessions_are_lost", killed),
    ("positions_are_byte_offsets", positions),
    ("several_statements_in_one_are_refused", several_statements),
];

async fn refused(session: &mut impl Session, sql: &str) -> DbError {
    match session.exec(sql, &[]).await {
        Ok(reply) => panic!("{sql} succeeded: {reply:?}"),
        Err(error) => error,
    }
}

fn unique_violation() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "CREATE TEMP TABLE t (id int PRIMARY KEY)").await;
        run(&mut session, "INSERT INTO t VALUES (1)").await;
        let by_text = refused(&mut session, "INSERT INTO t VALUES (1)").await;
        assert_eq!(by_text.class, ErrorClass::Unique);
        assert_eq!(&*by_text.code, "23505");
        assert_eq!(
            &*by_text.message,
            "duplicate key value violates unique constraint \"t_pkey\""
        );
        assert_eq!(
            by_text.detail.as_deref(),
            Some("Key (id)=(1) already exists.")
        );
        assert_eq!(by_text.constraint.as_deref(), Some("t_pkey"));
        let prepared = session
            .exec("INSERT INTO t VALUES ($1)", &[Value::Int(1)])
            .await
            .expect_err("the key exists");
        assert_eq!(prepared, by_text);
        Ok(())
    })
}

fn constraints() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(
            &mut session,
            "CREATE TEMP TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0), \
             parent int REFERENCES t)",
        )
        .await;
        for (sql, code, constraint) in [
            ("INSERT INTO t VALUES (1, NULL)", "23502", None),
            ("INSERT INTO t VALUES (1, 0)", "23514", Some("t_n_check")),
            (
                "INSERT INTO t VALUES (1, 1, 7)",
                "23503",
                Some("t_parent_fkey"),
            ),
        ] {
            let error = refused(&mut session, sql).await;
            assert_eq!(error.class, ErrorClass::Constraint, "{sql}");
            assert_eq!(&*error.code, code, "{sql}");
            assert_eq!(error.constraint.as_deref(), constraint, "{sql}");
        }
        Ok(())
    })
}

fn contention() -> TestResult {
    block_on(async {
        let (mut a, mut b) = (session().await, session().await);
        run(&mut a, "BEGIN").await;
        run(&mut a, "SELECT pg_advisory_xact_lock(1001)").await;
        run(&mut b, "SET lock_timeout = '20ms'").await;
        let error = refused(&mut b, "SELECT pg_advisory_lock(1001)").await;
        assert_eq!(
            (&*error.code, error.class),
            ("55P03", ErrorClass::Contention)
        );
        assert_eq!(&*error.message, "canceling statement due to lock timeout");
        run(&mut a, "CREATE TABLE contended (id int)").await;
        run(&mut a, "COMMIT").await;
        run(&mut a, "BEGIN").await;
        run(&mut a, "LOCK TABLE contended").await;
        let error = refused(&mut b, "SELECT * FROM contended FOR UPDATE NOWAIT").await;
        assert_eq!(
            (&*error.code, error.class),
            ("55P03", ErrorClass::Contention)
        );
        run(&mut a, "DROP TABLE contended").await;
        run(&mut a, "COMMIT").await;
        Ok(())
    })
}

fn serialization_failure() -> TestResult {
    block_on(async {
        let (mut a, mut b) = (session().await, session().await);
        run(&mut a, "CREATE TABLE counted (n int)").await;
        run(&mut a, "INSERT INTO counted VALUES (0)").await;
        run(&mut b, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        run(&mut b, "SELECT n FROM counted").await;
        run(&mut a, "UPDATE counted SET n = 1").await;
        let error = refused(&mut b, "UPDATE counted SET n = 2").await;
        assert_eq!(
            (&*error.code, error.class),
            ("40001", ErrorClass::Serialization)
        );
        run(&mut b, "ROLLBACK").await;
        run(&mut a, "DROP TABLE counted").await;
        Ok(())
    })
}

fn failed_transaction() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "BEGIN").await;
        refused(&mut session, "SELECT * FROM no_such_table").await;
        for args in [&[][..], &[Value::Int(1)]] {
            let error = session
                .exec("SELECT $1::int8", args)
                .await
                .expect_err("the transaction has failed");
            assert_eq!(&*error.code, "25P02");
            assert_eq!(error.class, ErrorClass::TransactionAborted);
        }
        run(&mut session, "ROLLBACK").await;
        run(&mut session, "SELECT 1").await;
        Ok(())
    })
}

fn cancelled() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "SET statement_timeout = '20ms'").await;
        let error = refused(&mut session, "SELECT pg_sleep(60)").await;
        assert_eq!(
            (&*error.code, error.class),
            ("57014", ErrorClass::Cancelled)
        );
        Ok(())
    })
}

fn killed() -> TestResult {
    block_on(async {
        let (mut killer, mut idle, mut busy) = (session().await, session().await, session().await);
        run(&mut idle, "BEGIN").await;
        let (idle_pid, busy_pid) = (idle.backend(), busy.backend());
        let sleeping = tokio::spawn(async move {
            let error = refused(&mut busy, "SELECT pg_sleep(60)").await;
            (busy, error)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        for pid in [idle_pid, busy_pid] {
            run(
                &mut killer,
                &format!("SELECT pg_terminate_backend({pid}, 5000)"),
            )
            .await;
        }
        let (mut busy, while_busy) = sleeping.await?;
        let while_idle = refused(&mut idle, "SELECT 1").await;
        for error in [while_busy, while_idle] {
            assert_eq!(
                (&*error.code, error.class),
                ("57P01", ErrorClass::ConnectionLost)
            );
        }
        for session in [&mut idle, &mut busy] {
            let error = refused(session, "SELECT 1").await;
            assert_eq!(error.class, ErrorClass::ConnectionLost);
            assert_eq!(
                session.batch("SELECT 1").await.map_err(|e| e.class),
                Err(error.class)
            );
        }
        Ok(())
    })
}

fn several_statements() -> TestResult {
    block_on(async {
        let mut session = session().await;
        let error = refused(&mut session, "CREATE TEMP TABLE t (); SELECT 1").await;
        assert_eq!(&*error.code, "42601");
        refused(&mut session, "SELECT * FROM t").await;
        run(&mut session, "SELECT 1;").await;
        let function =
            "CREATE FUNCTION pg_temp.two() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END";
        run(&mut session, function).await;
        Ok(())
    })
}

fn positions() -> TestResult {
    block_on(async {
        let mut session = session().await;
        let sql = "SELECT 'ä', no_such_column";
        let error = refused(&mut session, sql).await;
        let position = error.position.expect("the server points at the name");
        assert!(sql[position..].starts_with("no_such_column"));
        assert_eq!(error.class, ErrorClass::Invalid);
        Ok(())
    })
}
