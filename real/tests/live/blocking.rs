//! The stage: who is blocked, by whom, and what becomes of it.

use std::time::{Duration, Instant};

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, ErrorClass, Isolation, Reply, Value};
use rowlock_real::RealStage;
use rowlock_scenarios::stage::{Answer, Completion, Stage, StageError};

use crate::{Test, TestResult, stage};

pub(crate) const TESTS: &[Test] = &[
    ("row_locks_block", row_locks),
    ("advisory_locks_block", advisory_locks),
    ("table_locks_block", table_locks),
    ("queued_waiters_block_each_other", queued_waiters),
    ("a_running_statement_is_awaited", running_statement),
    ("the_planned_victim_dies", planned_victim),
    ("unplanned_deadlocks_stay", unplanned_deadlock),
    ("terminated_sessions_release", terminated_session),
    ("lost_clients_are_noticed_later", lost_client),
    ("a_reset_leaves_nothing", reset),
    ("isolation_of_a_session", isolation),
    ("time_passes", time_passes),
    ("setup_errors_are_told", setup_errors),
];

const ACCOUNTS: &str = "CREATE TABLE account (id int PRIMARY KEY, n int); \
    INSERT INTO account VALUES (1, 0), (2, 0)";

/// A stage with sessions `a`, `b`, ... on it.
fn with_sessions(setup: &str, n: usize) -> Result<(RealStage, Vec<SessionId>), StageError> {
    let mut stage = stage(setup);
    let sessions = ["a", "b", "c", "d"]
        .into_iter()
        .take(n)
        .map(|label| stage.connect(label, None))
        .collect::<Result<_, _>>()?;
    Ok((stage, sessions))
}

pub(crate) fn send(stage: &mut RealStage, session: SessionId, sql: &str) -> Result<(), StageError> {
    let statement = Statement {
        sql: sql.into(),
        args: Vec::new(),
        batch: false,
    };
    stage.send(session, &statement)
}

/// Sends and settles.
pub(crate) fn step(
    stage: &mut RealStage,
    session: SessionId,
    sql: &str,
) -> Result<Vec<Completion>, StageError> {
    send(stage, session, sql)?;
    stage.settle(None)
}

/// The answer of a session among completions, which must be there.
pub(crate) fn answer(completions: &[Completion], session: SessionId) -> &Result<Reply, DbError> {
    let found = completions.iter().find(|c| c.session == session);
    match found.map(|c| &c.answer) {
        Some(Answer::Exec(result)) => result,
        other => panic!("session {} gave {other:?}", session.0),
    }
}

/// Runs statements that must be answered with success at once.
pub(crate) fn run(stage: &mut RealStage, session: SessionId, statements: &[&str]) -> TestResult {
    for sql in statements {
        let completions = step(stage, session, sql)?;
        answer(&completions, session)
            .as_ref()
            .map_err(DbError::clone)?;
    }
    Ok(())
}

/// Who waits for whom, by number, and for what.
pub(crate) fn waits(stage: &mut RealStage) -> Result<Vec<(u8, Vec<u8>, String)>, StageError> {
    let blocked = stage.blocked()?;
    Ok(blocked
        .into_iter()
        .map(|b| {
            let blockers = b.blockers.iter().map(|s| s.0).collect();
            (b.session.0, blockers, b.object)
        })
        .collect())
}

fn row_locks() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    run(
        &mut stage,
        s[0],
        &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
    )?;
    assert!(
        step(
            &mut stage,
            s[1],
            "UPDATE account SET n = n + 10 WHERE id = 1"
        )?
        .is_empty()
    );
    let object = "the end of the transaction of a".to_owned();
    assert_eq!(waits(&mut stage)?, [(1, vec![0], object)]);
    // Still blocked, not done, however often one looks.
    assert!(stage.settle(None)?.is_empty());
    let completions = step(&mut stage, s[0], "COMMIT")?;
    assert_eq!(completions.len(), 2);
    assert_eq!(
        answer(&completions, s[1]).as_ref().map(|r| r.affected),
        Ok(1)
    );
    assert!(waits(&mut stage)?.is_empty());
    let reply = stage.query("SELECT n FROM account WHERE id = 1")??;
    assert_eq!(reply.scalar(), Some(&Value::Int(11)));
    Ok(())
}

fn advisory_locks() -> TestResult {
    let (mut stage, s) = with_sessions("", 2)?;
    run(&mut stage, s[0], &["SELECT pg_advisory_lock(5000000000)"])?;
    assert!(
        step(
            &mut stage,
            s[1],
            "SELECT pg_advisory_lock_shared(5000000000)"
        )?
        .is_empty()
    );
    let object = "advisory lock 5000000000".to_owned();
    assert_eq!(waits(&mut stage)?, [(1, vec![0], object)]);
    let completions = step(&mut stage, s[0], "SELECT pg_advisory_unlock(5000000000)")?;
    assert_eq!(completions.len(), 2);
    Ok(())
}

fn table_locks() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    run(
        &mut stage,
        s[0],
        &["BEGIN", "LOCK TABLE account IN ACCESS EXCLUSIVE MODE"],
    )?;
    assert!(step(&mut stage, s[1], "SELECT * FROM account")?.is_empty());
    let object = "table account (AccessShareLock)".to_owned();
    assert_eq!(waits(&mut stage)?, [(1, vec![0], object)]);
    // The observer does not wait for ever either.
    let started = Instant::now();
    let error = stage.query("SELECT * FROM account")?.expect_err("locked");
    assert_eq!(error.class, ErrorClass::Contention);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(step(&mut stage, s[0], "COMMIT")?.len(), 2);
    Ok(())
}

fn queued_waiters() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 3)?;
    let update = "UPDATE account SET n = n + 1 WHERE id = 1";
    run(&mut stage, s[0], &["BEGIN", update])?;
    for session in &s[1..] {
        run(&mut stage, *session, &["BEGIN"])?;
        assert!(step(&mut stage, *session, update)?.is_empty());
    }
    let waits = waits(&mut stage)?;
    assert_eq!(waits[0].1, [0]);
    assert_eq!(waits[1].1, [1], "the second waits in the queue of the row");
    assert_eq!(waits[1].2, "row (0,1) of account");
    let completions = step(&mut stage, s[0], "COMMIT")?;
    assert_eq!(completions.len(), 2, "one of the two got the row");
    Ok(())
}

fn running_statement() -> TestResult {
    let (mut stage, s) = with_sessions("", 1)?;
    let completions = step(&mut stage, s[0], "SELECT pg_sleep(0.2)")?;
    answer(&completions, s[0])
        .as_ref()
        .map_err(DbError::clone)?;
    Ok(())
}

/// Two sessions lock two rows in opposite order.
fn close_cycle(stage: &mut RealStage, s: &[SessionId]) -> TestResult {
    run(
        stage,
        s[0],
        &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
    )?;
    run(
        stage,
        s[1],
        &["BEGIN", "UPDATE account SET n = 1 WHERE id = 2"],
    )?;
    assert!(step(stage, s[0], "UPDATE account SET n = 1 WHERE id = 2")?.is_empty());
    assert!(step(stage, s[1], "UPDATE account SET n = 1 WHERE id = 1")?.is_empty());
    Ok(())
}

fn planned_victim() -> TestResult {
    for victim in [0, 1] {
        let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
        stage.plan_victims(&[s[victim]])?;
        close_cycle(&mut stage, &s)?;
        assert_eq!(waits(&mut stage)?.len(), 2);
        let completions = stage.deadlock(s[victim])?;
        let error = answer(&completions, s[victim])
            .as_ref()
            .expect_err("a deadlock");
        assert_eq!((&*error.code, error.class), ("40P01", ErrorClass::Deadlock));
        assert!(
            error
                .detail
                .as_ref()
                .is_some_and(|d| d.contains("waits for"))
        );
        // The other one got its row.
        answer(&completions, s[1 - victim])
            .as_ref()
            .map_err(DbError::clone)?;
    }
    Ok(())
}

fn unplanned_deadlock() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    close_cycle(&mut stage, &s)?;
    stage.advance(Duration::from_millis(1_500))?;
    assert!(stage.settle(None)?.is_empty());
    assert_eq!(waits(&mut stage)?.len(), 2);
    Ok(())
}

fn terminated_session() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 3)?;
    let update = "UPDATE account SET n = n + 1 WHERE id = 1";
    run(&mut stage, s[0], &["BEGIN", update])?;
    assert!(step(&mut stage, s[1], update)?.is_empty());
    stage.terminate(s[1])?;
    let completions = stage.settle(None)?;
    let error = answer(&completions, s[1]).as_ref().expect_err("killed");
    assert_eq!(
        (&*error.code, error.class),
        ("57P01", ErrorClass::ConnectionLost)
    );
    assert!(step(&mut stage, s[2], update)?.is_empty());
    stage.terminate(s[0])?;
    let completions = stage.settle(None)?;
    assert_eq!(
        answer(&completions, s[2]).as_ref().map(|r| r.affected),
        Ok(1)
    );
    let completions = step(&mut stage, s[0], "SELECT 1")?;
    let error = answer(&completions, s[0]).as_ref().expect_err("killed");
    assert_eq!(&*error.code, "57P01");
    Ok(())
}

fn lost_client() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    run(
        &mut stage,
        s[0],
        &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
    )?;
    stage.drop_client(s[0])?;
    assert!(
        step(
            &mut stage,
            s[1],
            "UPDATE account SET n = n + 10 WHERE id = 1"
        )?
        .is_empty()
    );
    stage.terminate(s[0])?;
    let completions = stage.settle(None)?;
    assert_eq!(
        answer(&completions, s[1]).as_ref().map(|r| r.affected),
        Ok(1)
    );
    let reply = stage.query("SELECT n FROM account WHERE id = 1")??;
    assert_eq!(reply.scalar(), Some(&Value::Int(10)));
    Ok(())
}

fn reset() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    run(
        &mut stage,
        s[0],
        &["SELECT pg_advisory_lock(1)", "BEGIN", "LOCK TABLE account"],
    )?;
    assert!(step(&mut stage, s[1], "SELECT * FROM account")?.is_empty());
    stage.reset(&["CREATE TABLE fresh (id int)".to_owned()])?;
    let session = stage.connect("a", None)?;
    assert_eq!(session, SessionId(0));
    let sql = "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), \
        (SELECT count(*) FROM pg_tables WHERE schemaname = 'public'), \
        (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name NOT LIKE 'rowlock %')";
    let completions = step(&mut stage, session, sql)?;
    let reply = answer(&completions, session).clone()?;
    assert_eq!(&*reply.rows[0], [0, 1, 1].map(Value::from));
    Ok(())
}

fn isolation() -> TestResult {
    let mut stage = stage("");
    for (i, level) in Isolation::ALL.into_iter().enumerate() {
        let session = stage.connect(&format!("s{i}"), Some(level))?;
        let completions = step(&mut stage, session, "SHOW transaction_isolation")?;
        let reply = answer(&completions, session).clone()?;
        assert_eq!(reply.scalar(), Some(&Value::text(level.name())));
        let completions = step(&mut stage, session, "SHOW application_name")?;
        let reply = answer(&completions, session).clone()?;
        assert_eq!(reply.scalar(), Some(&Value::from(format!("s{i}"))));
    }
    Ok(())
}

fn time_passes() -> TestResult {
    let (mut stage, s) = with_sessions(ACCOUNTS, 2)?;
    run(
        &mut stage,
        s[0],
        &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
    )?;
    run(&mut stage, s[1], &["SET lock_timeout = '300ms'"])?;
    assert!(step(&mut stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?.is_empty());
    stage.advance(Duration::from_millis(600))?;
    let completions = stage.settle(None)?;
    let error = answer(&completions, s[1]).as_ref().expect_err("a timeout");
    assert_eq!(&*error.code, "55P03");
    Ok(())
}

fn setup_errors() -> TestResult {
    let mut stage = stage("");
    let error = stage
        .reset(&["CREATE TABLE t (id int);\nCREATE TABEL u (id int)".to_owned()])
        .expect_err("a syntax error");
    assert_eq!(
        error.message,
        "set-up failed: error 42601: syntax error at or near \"TABEL\", at `TABEL u (id int)`"
    );
    // The stage is still of use.
    stage.reset(&[])?;
    Ok(())
}
