//! Sessions on MariaDB and MySQL, on those of them that are installed.

use std::sync::{Arc, Mutex};

use rowlock_model::{Dialect, ErrorClass, Host, Reply, Session, TransactionStatus, Value};
use rowlock_real::server::{Flavour, MySqlServer};
use rowlock_real::{MySqlTarget, RealHost, RealSession};

use crate::{TestResult, block_on};

/// A named test on a server of either flavour.
type Test = (&'static str, fn(Flavour) -> TestResult);

pub(crate) const TESTS: &[Test] = &[
    ("values_of_every_type", values),
    ("tags_counts_and_columns", tags),
    ("arguments", arguments),
    ("errors", errors),
    ("scripts", scripts),
    ("a_dropped_server_is_gone", dropped),
];

static SERVERS: Mutex<Vec<(Flavour, Arc<MySqlServer>)>> = Mutex::new(Vec::new());

/// Stops the shared servers.
pub(crate) fn stop_servers() {
    SERVERS.lock().unwrap_or_else(|e| e.into_inner()).clear();
}

/// The shared server of a flavour.
fn server(flavour: Flavour) -> Arc<MySqlServer> {
    let mut servers = SERVERS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some((_, server)) = servers.iter().find(|(f, _)| *f == flavour) {
        return Arc::clone(server);
    }
    let server = Arc::new(MySqlServer::start(flavour).expect("a throwaway server starts"));
    servers.push((flavour, Arc::clone(&server)));
    server
}

/// A session in the database `name`, which it creates anew.
async fn session(flavour: Flavour, name: &str) -> RealSession {
    let server = server(flavour);
    let mut admin = RealHost::new("test", server.target())
        .connect()
        .await
        .expect("a session");
    run(&mut admin, &format!("DROP DATABASE IF EXISTS {name}")).await;
    run(&mut admin, &format!("CREATE DATABASE {name}")).await;
    another(flavour, name).await
}

/// Creates the database `name` anew.
pub(crate) async fn fresh(flavour: Flavour, name: &str) {
    drop(session(flavour, name).await);
}

/// Where the database `name` is.
pub(crate) fn target(flavour: Flavour, name: &str) -> MySqlTarget {
    server(flavour).target().with_database(name)
}

/// The socket of the shared server.
pub(crate) fn socket(flavour: Flavour) -> std::path::PathBuf {
    server(flavour).directory().join("s")
}

async fn another(flavour: Flavour, name: &str) -> RealSession {
    let target = server(flavour).target().with_database(name);
    RealHost::new("test", target)
        .connect()
        .await
        .expect("a session")
}

async fn run(session: &mut RealSession, sql: &str) -> Reply {
    match session.exec(sql, &[]).await {
        Ok(reply) => reply,
        Err(error) => panic!("{sql}: {error}"),
    }
}

fn values(flavour: Flavour) -> TestResult {
    /// Type, literal, name, value as it prints.
    const VALUES: &[(&str, &str, &str, &str)] = &[
        ("TINYINT", "-1", "tinyint", "-1"),
        ("SMALLINT UNSIGNED", "65535", "smallint unsigned", "65535"),
        ("INT", "-7", "int", "-7"),
        (
            "BIGINT UNSIGNED",
            "18446744073709551615",
            "bigint unsigned",
            "18446744073709551615",
        ),
        (
            "BIGINT",
            "-9223372036854775808",
            "bigint",
            "-9223372036854775808",
        ),
        ("FLOAT", "1.5", "float", "1.5"),
        ("DOUBLE", "-0.1", "double", "-0.1"),
        ("DECIMAL(10,2)", "1.10", "decimal", "1.10"),
        ("VARCHAR(9)", "'ä'", "varchar", "ä"),
        ("CHAR(3)", "'x'", "char", "x"),
        ("TEXT", "'x'", "text", "x"),
        ("BLOB", "x'00ff'", "blob", "\\x00ff"),
        ("VARBINARY(4)", "x'ff'", "varbinary", "\\xff"),
        ("DATE", "'2026-11-30'", "date", "2026-11-30"),
        (
            "DATETIME(6)",
            "'2026-11-30 12:30:00.25'",
            "datetime",
            "2026-11-30 12:30:00.25",
        ),
        ("TIME", "'-01:00:01'", "time", "-01:00:01"),
        ("YEAR", "2026", "year", "2026"),
        ("ENUM('a','b')", "'b'", "enum", "b"),
        ("BIT(8)", "b'101'", "bit", "5"),
        ("INT", "NULL", "int", "NULL"),
    ];
    block_on(async {
        let mut session = session(flavour, "vals").await;
        for (declared, literal, name, printed) in VALUES {
            run(&mut session, &format!("CREATE TABLE v (v {declared})")).await;
            run(&mut session, &format!("INSERT INTO v VALUES ({literal})")).await;
            let text = run(&mut session, "SELECT v FROM v").await;
            let binary = session
                .exec("SELECT v FROM v WHERE ? = 1", &[Value::Int(1)])
                .await?;
            assert_eq!(&*text.columns[0].type_name, *name, "{declared}");
            if *declared != "TIME" {
                assert_eq!(text.rows[0][0].to_string(), *printed, "{declared}");
            }
            assert_eq!(binary.columns, text.columns, "{declared}");
            assert_eq!(binary.rows, text.rows, "{declared}, prepared");
            run(&mut session, "DROP TABLE v").await;
        }
        Ok(())
    })
}

fn tags(flavour: Flavour) -> TestResult {
    block_on(async {
        let mut session = session(flavour, "tags").await;
        for (sql, tag, affected) in [
            (
                "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
                "CREATE TABLE",
                0,
            ),
            ("INSERT INTO t VALUES (1, 0), (2, 0)", "INSERT", 2),
            // Only what changes counts.
            ("UPDATE t SET n = 1 WHERE id = 2", "UPDATE", 1),
            ("UPDATE t SET n = 1", "UPDATE", 1),
            ("UPDATE t SET n = 1", "UPDATE", 0),
            ("BEGIN", "BEGIN", 0),
            ("DELETE FROM t WHERE id = 1", "DELETE", 1),
            ("COMMIT", "COMMIT", 0),
        ] {
            let reply = run(&mut session, sql).await;
            assert_eq!((&*reply.tag, reply.affected), (tag, affected), "{sql}");
            assert!(reply.columns.is_empty());
        }
        let target = server(flavour).target().with_database("tags");
        let mut matching = RealHost::new("test", target.with_found_rows(true))
            .connect()
            .await?;
        let reply = run(&mut matching, "UPDATE t SET n = 1").await;
        assert_eq!(reply.affected, 1, "one row is left, and it matches");
        let text = run(&mut session, "SELECT id, n FROM t WHERE id = 7").await;
        let binary = session
            .exec("SELECT id, n FROM t WHERE id = ?", &[Value::Int(7)])
            .await?;
        assert_eq!(&*text.columns[1].name, "n");
        assert_eq!(text, binary);
        Ok(())
    })
}

fn arguments(flavour: Flavour) -> TestResult {
    let decimal: rust_decimal::Decimal = "1.10".parse()?;
    let values = [
        ("BIGINT", Value::Int(-1)),
        ("VARCHAR(9)", Value::text("ä")),
        ("DOUBLE", Value::Float(0.5)),
        ("DECIMAL(9,2)", Value::Decimal(decimal)),
        ("DATETIME(6)", Value::Timestamp(1_500_000)),
        ("DATE", Value::Date(1)),
        ("VARBINARY(9)", Value::Bytes([0, 255].into())),
        ("INT", Value::Null),
    ];
    block_on(async {
        let mut session = session(flavour, "args").await;
        for (declared, value) in values {
            run(&mut session, &format!("CREATE TABLE v (v {declared})")).await;
            session
                .exec("INSERT INTO v VALUES (?)", std::slice::from_ref(&value))
                .await?;
            let reply = run(&mut session, "SELECT v FROM v").await;
            assert_eq!(reply.scalar(), Some(&value), "{declared}");
            run(&mut session, "DROP TABLE v").await;
        }
        Ok(())
    })
}

fn errors(flavour: Flavour) -> TestResult {
    block_on(async {
        let mut a = session(flavour, "errs").await;
        let mut b = another(flavour, "errs").await;
        assert_eq!(
            a.dialect(),
            if flavour == Flavour::MariaDb {
                Dialect::MariaDb
            } else {
                Dialect::MySql
            }
        );
        run(
            &mut a,
            "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)",
        )
        .await;
        run(&mut a, "INSERT INTO t VALUES (1, 0)").await;
        for (sql, code, class) in [
            ("INSERT INTO t VALUES (1, 1)", "1062", ErrorClass::Unique),
            (
                "INSERT INTO t VALUES (2, NULL)",
                "1048",
                ErrorClass::Constraint,
            ),
            ("SELECT * FROM nothing", "1146", ErrorClass::Invalid),
            ("SELEC", "1064", ErrorClass::Invalid),
            ("SELECT 1; SELECT 2", "1064", ErrorClass::Invalid),
        ] {
            let error = a.exec(sql, &[]).await.expect_err(sql);
            assert_eq!((&*error.code, error.class), (code, class), "{sql}");
        }
        run(&mut a, "BEGIN").await;
        run(&mut a, "SELECT * FROM t WHERE id = 1 FOR UPDATE").await;
        let nowait = b
            .exec("SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT", &[])
            .await;
        assert_eq!(nowait.map_err(|e| e.class), Err(ErrorClass::Contention));
        run(&mut b, "SET innodb_lock_wait_timeout = 1").await;
        let error = b.exec("UPDATE t SET n = 1", &[]).await.expect_err("locked");
        assert_eq!(
            (&*error.code, error.class),
            ("1205", ErrorClass::Contention)
        );
        run(&mut b, &format!("KILL {}", a.backend())).await;
        let error = a.exec("COMMIT", &[]).await.expect_err("killed");
        assert_eq!(error.class, ErrorClass::ConnectionLost);
        Ok(())
    })
}

fn scripts(flavour: Flavour) -> TestResult {
    block_on(async {
        let mut session = session(flavour, "scripts").await;
        let batch = session
            .batch("CREATE TABLE t (id INT PRIMARY KEY); BEGIN; SELECT 1")
            .await?;
        let tags: Vec<&str> = batch.replies.iter().map(|r| &*r.tag).collect();
        assert_eq!(tags, ["CREATE TABLE", "BEGIN", "SELECT"]);
        assert_eq!(batch.status, TransactionStatus::InTransaction);
        let batch = session
            .batch("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); SELECT 1")
            .await?;
        assert_eq!(batch.replies.len(), 1);
        assert_eq!(batch.error.map(|e| e.class), Some(ErrorClass::Unique));
        assert_eq!(batch.status, TransactionStatus::InTransaction);
        let batch = session.batch("COMMIT").await?;
        assert_eq!(batch.status, TransactionStatus::Idle);
        Ok(())
    })
}

fn dropped(flavour: Flavour) -> TestResult {
    let server = MySqlServer::start(flavour)?;
    let directory = server.directory().to_owned();
    let pid = std::fs::read_to_string(directory.join("pid"))?;
    drop(server);
    assert!(!directory.exists());
    let alive = std::process::Command::new("kill")
        .args(["-0", pid.trim()])
        .stderr(std::process::Stdio::null())
        .status()?;
    assert!(!alive.success());
    Ok(())
}
