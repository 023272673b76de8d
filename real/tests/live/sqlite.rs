//! SQLite, which is built in: these tests run everywhere.

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, ErrorClass, Reply, TransactionStatus, Value};
use rowlock_real::{Journal, RealStage, Target};
use rowlock_scenarios::stage::{Answer, Stage, StageError};

use crate::{Test, TestResult};

pub(crate) const TESTS: &[Test] = &[
    ("values_tags_and_counts", values),
    ("errors", errors),
    ("rollback_journal_conflicts", rollback_journal),
    ("wal_conflicts", wal),
    ("scripts_and_their_transactions", scripts),
    ("a_killed_session_releases_its_locks", killed),
];

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT NOT NULL); \
    INSERT INTO t VALUES (1, 0), (2, 0);";

fn open(journal: Journal) -> Result<RealStage, StageError> {
    let mut stage = RealStage::open(&Target::Sqlite(journal))?;
    stage.reset(&[TABLE.to_owned()])?;
    Ok(stage)
}

fn exec(stage: &mut RealStage, session: SessionId, sql: &str) -> Result<Reply, DbError> {
    exec_with(stage, session, sql, &[])
}

fn exec_with(
    stage: &mut RealStage,
    session: SessionId,
    sql: &str,
    args: &[Value],
) -> Result<Reply, DbError> {
    match answer(stage, session, sql, args, false) {
        Answer::Exec(result) => result,
        other => panic!("{other:?}"),
    }
}

fn answer(
    stage: &mut RealStage,
    session: SessionId,
    sql: &str,
    args: &[Value],
    batch: bool,
) -> Answer {
    let statement = Statement {
        sql: sql.into(),
        args: args.to_vec(),
        batch,
    };
    stage
        .send(session, &statement)
        .expect("the session is idle");
    let mut completions = stage.settle(None).expect("nothing blocks");
    assert_eq!(completions.len(), 1);
    completions.remove(0).answer
}

fn values() -> TestResult {
    let mut stage = open(Journal::Rollback)?;
    let s = stage.connect("a", None)?;
    let reply = exec_with(
        &mut stage,
        s,
        "SELECT ?, ?, ?, x'00ff' AS b, NULL",
        &[Value::Int(1), Value::text("ä"), Value::Float(0.5)],
    )?;
    let expected = [
        Value::Int(1),
        Value::text("ä"),
        Value::Float(0.5),
        Value::Bytes([0, 255].into()),
        Value::Null,
    ];
    assert_eq!(*reply.rows[0], expected);
    let reply = exec(&mut stage, s, "SELECT id, n FROM t WHERE 0")?;
    assert_eq!(&*reply.columns[1].name, "n");
    let reply = exec(&mut stage, s, "UPDATE t SET n = 1")?;
    assert_eq!((&*reply.tag, reply.affected), ("UPDATE", 2));
    let reply = exec(&mut stage, s, "BEGIN")?;
    assert_eq!((&*reply.tag, reply.affected), ("BEGIN", 0));
    let reply = exec(&mut stage, s, "DELETE FROM t RETURNING id")?;
    assert_eq!((reply.rows.len(), reply.affected), (2, 2));
    Ok(())
}

fn errors() -> TestResult {
    let mut stage = open(Journal::Rollback)?;
    let s = stage.connect("a", None)?;
    for (sql, code, class) in [
        ("INSERT INTO t VALUES (1, 1)", "1555", ErrorClass::Unique),
        (
            "INSERT INTO t VALUES (3, NULL)",
            "1299",
            ErrorClass::Constraint,
        ),
        ("SELECT * FROM nothing", "1", ErrorClass::Invalid),
        ("SELEC", "1", ErrorClass::Invalid),
    ] {
        let error = exec(&mut stage, s, sql).expect_err(sql);
        assert_eq!((&*error.code, error.class), (code, class), "{sql}");
    }
    let error = stage
        .connect("b", Some(rowlock_model::Isolation::ReadCommitted))
        .expect_err("no such level");
    assert!(error.message.contains("read committed"));
    Ok(())
}

fn rollback_journal() -> TestResult {
    let mut stage = open(Journal::Rollback)?;
    let (a, b) = (stage.connect("a", None)?, stage.connect("b", None)?);
    exec(&mut stage, a, "BEGIN IMMEDIATE")?;
    let error = exec(&mut stage, b, "BEGIN IMMEDIATE").expect_err("one writer");
    assert_eq!((&*error.code, error.class), ("5", ErrorClass::Contention));
    exec(&mut stage, a, "UPDATE t SET n = 1 WHERE id = 1")?;
    // A reader blocks the commit, which may be tried again.
    exec(&mut stage, b, "BEGIN")?;
    exec(&mut stage, b, "SELECT * FROM t")?;
    let error = exec(&mut stage, a, "COMMIT").expect_err("there is a reader");
    assert_eq!(&*error.code, "5");
    exec(&mut stage, b, "COMMIT")?;
    exec(&mut stage, a, "COMMIT")?;
    let reply = stage.query("SELECT n FROM t WHERE id = 1")??;
    assert_eq!(reply.scalar(), Some(&Value::Int(1)));
    Ok(())
}

fn wal() -> TestResult {
    let mut stage = open(Journal::Wal)?;
    let (a, b) = (stage.connect("a", None)?, stage.connect("b", None)?);
    exec(&mut stage, b, "BEGIN")?;
    exec(&mut stage, b, "SELECT * FROM t")?;
    exec(&mut stage, a, "UPDATE t SET n = 1 WHERE id = 1")?;
    let error = exec(&mut stage, b, "UPDATE t SET n = 2").expect_err("an old snapshot");
    assert_eq!(
        (&*error.code, error.class),
        ("517", ErrorClass::Serialization)
    );
    Ok(())
}

fn scripts() -> TestResult {
    let mut stage = open(Journal::Rollback)?;
    let s = stage.connect("a", None)?;
    let script = "BEGIN; INSERT INTO t VALUES (3, 3); INSERT INTO t VALUES (1, 1); SELECT 1";
    let Answer::Batch(Ok(batch)) = answer(&mut stage, s, script, &[], true) else {
        panic!("a script is answered");
    };
    assert_eq!(batch.replies.len(), 2);
    assert_eq!(batch.error.map(|e| e.class), Some(ErrorClass::Unique));
    // The error undid its statement only.
    assert_eq!(batch.status, TransactionStatus::InTransaction);
    let script = "INSERT OR ROLLBACK INTO t VALUES (1, 1)";
    let Answer::Batch(Ok(batch)) = answer(&mut stage, s, script, &[], true) else {
        panic!("a script is answered");
    };
    assert_eq!(batch.status, TransactionStatus::Idle);
    Ok(())
}

fn killed() -> TestResult {
    let mut stage = open(Journal::Rollback)?;
    let (a, b) = (stage.connect("a", None)?, stage.connect("b", None)?);
    exec(&mut stage, a, "BEGIN IMMEDIATE")?;
    exec(&mut stage, a, "UPDATE t SET n = 1")?;
    stage.terminate(a)?;
    exec(&mut stage, b, "UPDATE t SET n = n + 10")?;
    let error = exec(&mut stage, a, "COMMIT").expect_err("gone");
    assert_eq!(error.class, ErrorClass::ConnectionLost);
    let reply = stage.query("SELECT n FROM t WHERE id = 1")??;
    assert_eq!(reply.scalar(), Some(&Value::Int(10)));
    Ok(())
}
