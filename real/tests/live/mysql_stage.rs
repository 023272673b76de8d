//! The stage on MySQL and MariaDB: who is blocked, by whom, and what becomes of it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rowlock_model::schedule::SessionId;
use rowlock_model::{ErrorClass, Isolation, Value};
use rowlock_real::server::Flavour;
use rowlock_real::{RealStage, Target};
use rowlock_scenarios::stage::{Stage, StageError};

use crate::TestResult;
use crate::blocking::{answer, run, send, step, waits};

/// A named test on a server of either flavour.
type Test = (&'static str, fn(Flavour) -> TestResult);

pub(crate) const TESTS: &[Test] = &[
    ("stage_names_the_blocker_of_a_row", row_locks),
    (
        "stage_names_the_owner_of_a_row_just_inserted",
        implicit_locks,
    ),
    ("stage_names_no_later_waiter", queued_waiters),
    ("stage_sees_user_locks", user_locks),
    ("stage_sees_metadata_locks", metadata_locks),
    ("stage_waits_for_what_only_runs", running_statement),
    ("stage_lets_the_server_break_deadlocks", deadlock),
    ("stage_ends_sessions", ended_sessions),
    ("stage_leaves_lost_clients_open", lost_client),
    ("stage_waits_for_lock_timeouts", lock_timeout),
    ("stage_resets_everything", reset),
];

/// Stages that no test uses at present.
static IDLE: Mutex<Vec<(Flavour, RealStage)>> = Mutex::new(Vec::new());

/// Stops the servers.
pub(crate) fn stop() {
    IDLE.lock().unwrap_or_else(|e| e.into_inner()).clear();
}

const ACCOUNTS: &str = "CREATE TABLE account (id INT PRIMARY KEY, n INT); \
    INSERT INTO account VALUES (1, 0), (2, 0), (3, 0)";

/// Runs a test on a stage with sessions `a`, `b`, ...
fn with(
    flavour: Flavour,
    n: usize,
    test: impl FnOnce(&mut RealStage, &[SessionId]) -> TestResult,
) -> TestResult {
    let idle = {
        let mut idle = IDLE.lock().unwrap_or_else(|e| e.into_inner());
        let at = idle.iter().position(|(f, _)| *f == flavour);
        at.map(|at| idle.remove(at).1)
    };
    let mut stage = match idle {
        Some(stage) => stage,
        None => RealStage::open(&Target::MySql(flavour, None))?,
    };
    stage.reset(&[ACCOUNTS.to_owned()])?;
    let sessions = connect(&mut stage, n)?;
    test(&mut stage, &sessions)?;
    let mut idle = IDLE.lock().unwrap_or_else(|e| e.into_inner());
    idle.push((flavour, stage));
    Ok(())
}

fn connect(stage: &mut RealStage, n: usize) -> Result<Vec<SessionId>, StageError> {
    let labels = ["a", "b", "c", "d"].into_iter().take(n);
    labels.map(|label| stage.connect(label, None)).collect()
}

/// Who waits for whom.
fn edges(stage: &mut RealStage) -> Result<Vec<(u8, Vec<u8>)>, StageError> {
    Ok(waits(stage)?.into_iter().map(|(s, b, _)| (s, b)).collect())
}

fn row_locks(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        run(
            stage,
            s[0],
            &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
        )?;
        assert!(step(stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?.is_empty());
        let waiting = waits(stage)?;
        assert_eq!((waiting[0].0, &*waiting[0].1), (1, &[0][..]));
        assert!(waiting[0].2.contains("account"), "{}", waiting[0].2);
        let done = step(stage, s[0], "COMMIT")?;
        assert!(answer(&done, s[0]).is_ok());
        assert_eq!(answer(&done, s[1]).as_ref().map(|r| r.affected), Ok(1));
        assert_eq!(edges(stage)?, []);
        Ok(())
    })
}

fn implicit_locks(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        run(stage, s[0], &["BEGIN", "INSERT INTO account VALUES (7, 0)"])?;
        assert!(step(stage, s[1], "INSERT INTO account VALUES (7, 1)")?.is_empty());
        assert_eq!(edges(stage)?, [(1, vec![0])]);
        let done = step(stage, s[0], "COMMIT")?;
        assert_eq!(
            answer(&done, s[1]).as_ref().map_err(|e| &*e.code).err(),
            Some("1062")
        );
        Ok(())
    })
}

fn queued_waiters(flavour: Flavour) -> TestResult {
    with(flavour, 3, |stage, s| {
        run(
            stage,
            s[0],
            &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
        )?;
        for session in [s[1], s[2]] {
            let sql = "UPDATE account SET n = n + 1 WHERE id = 1";
            assert!(step(stage, session, sql)?.is_empty());
        }
        assert_eq!(edges(stage)?, [(1, vec![0]), (2, vec![0, 1])]);
        let done = step(stage, s[0], "COMMIT")?;
        assert_eq!(done.len(), 3);
        Ok(())
    })
}

fn user_locks(flavour: Flavour) -> TestResult {
    with(flavour, 3, |stage, s| {
        run(stage, s[0], &["SELECT GET_LOCK('it', 0)"])?;
        for session in [s[1], s[2]] {
            assert!(step(stage, session, "SELECT GET_LOCK('it', 30)")?.is_empty());
        }
        assert_eq!(edges(stage)?, [(1, vec![0]), (2, vec![0, 1])]);
        let done = step(stage, s[0], "SELECT RELEASE_LOCK('it')")?;
        let got = answer(&done, s[1]).as_ref().map(|r| r.scalar().cloned());
        assert_eq!(got, Ok(Some(Value::Int(1))));
        assert_eq!(edges(stage)?, [(2, vec![1])]);
        Ok(())
    })
}

fn metadata_locks(flavour: Flavour) -> TestResult {
    with(flavour, 3, |stage, s| {
        run(stage, s[0], &["BEGIN", "SELECT * FROM account"])?;
        assert!(step(stage, s[1], "ALTER TABLE account ADD COLUMN z INT")?.is_empty());
        assert!(step(stage, s[2], "SELECT * FROM account")?.is_empty());
        assert_eq!(edges(stage)?, [(1, vec![0]), (2, vec![1])]);
        let done = step(stage, s[0], "COMMIT")?;
        assert_eq!(done.len(), 3);
        Ok(())
    })
}

fn running_statement(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        let begin = Instant::now();
        send(stage, s[0], "SELECT SLEEP(1)")?;
        assert_eq!(stage.settle(None)?.len(), 1);
        assert!(begin.elapsed() >= Duration::from_millis(900));
        Ok(())
    })
}

fn deadlock(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        for (session, id) in [(s[0], 1), (s[1], 2)] {
            let update = format!("UPDATE account SET n = 1 WHERE id = {id}");
            run(stage, session, &["BEGIN", &update])?;
        }
        assert!(step(stage, s[0], "UPDATE account SET n = 2 WHERE id = 2")?.is_empty());
        // Equal weights: who closes the cycle dies, and the other goes on in the same step.
        let done = step(stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?;
        let error = answer(&done, s[1]).as_ref().expect_err("the victim");
        assert_eq!((&*error.code, error.class), ("1213", ErrorClass::Deadlock));
        assert_eq!(answer(&done, s[0]).as_ref().map(|r| r.affected), Ok(1));
        assert_eq!(edges(stage)?, []);
        Ok(())
    })
}

fn ended_sessions(flavour: Flavour) -> TestResult {
    with(flavour, 3, |stage, s| {
        run(
            stage,
            s[0],
            &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
        )?;
        run(stage, s[0], &["SELECT GET_LOCK('it', 0)"])?;
        assert!(step(stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?.is_empty());
        assert!(step(stage, s[2], "SELECT GET_LOCK('it', 30)")?.is_empty());
        stage.terminate(s[0])?;
        assert_eq!(stage.settle(None)?.len(), 2);
        let reply = stage.query("SELECT n FROM account WHERE id = 1")??;
        assert_eq!(reply.scalar(), Some(&Value::Int(2)));
        let done = step(stage, s[0], "SELECT 1")?;
        let error = answer(&done, s[0]).as_ref().expect_err("killed");
        assert_eq!(error.class, ErrorClass::ConnectionLost);
        // A waiting session is told at once.
        run(
            stage,
            s[1],
            &["BEGIN", "UPDATE account SET n = 3 WHERE id = 2"],
        )?;
        assert!(step(stage, s[2], "UPDATE account SET n = 4 WHERE id = 2")?.is_empty());
        stage.terminate(s[2])?;
        let done = stage.settle(None)?;
        let error = answer(&done, s[2]).as_ref().expect_err("killed");
        assert_eq!(error.class, ErrorClass::ConnectionLost);
        Ok(())
    })
}

fn lost_client(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        run(
            stage,
            s[0],
            &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
        )?;
        stage.drop_client(s[0])?;
        assert!(step(stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?.is_empty());
        assert_eq!(edges(stage)?, [(1, vec![0])]);
        stage.terminate(s[0])?;
        assert_eq!(stage.settle(None)?.len(), 1);
        Ok(())
    })
}

fn lock_timeout(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        run(
            stage,
            s[0],
            &["BEGIN", "UPDATE account SET n = 1 WHERE id = 1"],
        )?;
        run(
            stage,
            s[1],
            &["SET SESSION innodb_lock_wait_timeout = 1", "BEGIN"],
        )?;
        assert!(step(stage, s[1], "UPDATE account SET n = 2 WHERE id = 1")?.is_empty());
        stage.advance(Duration::from_millis(2_500))?;
        let done = stage.settle(None)?;
        let error = answer(&done, s[1]).as_ref().expect_err("timed out");
        assert_eq!(
            (&*error.code, error.class),
            ("1205", ErrorClass::Contention)
        );
        Ok(())
    })
}

fn reset(flavour: Flavour) -> TestResult {
    with(flavour, 2, |stage, s| {
        run(
            stage,
            s[0],
            &[
                "BEGIN",
                "UPDATE account SET n = 1",
                "SELECT GET_LOCK('it', 0)",
            ],
        )?;
        assert!(step(stage, s[1], "ALTER TABLE account ADD COLUMN z INT")?.is_empty());
        stage.reset(&["CREATE TABLE other (id INT PRIMARY KEY)".to_owned()])?;
        let session = stage.connect("a", Some(Isolation::ReadCommitted))?;
        let done = step(stage, session, "SELECT GET_LOCK('it', 0)")?;
        let got = answer(&done, session).as_ref().map(|r| r.scalar().cloned());
        assert_eq!(got, Ok(Some(Value::Int(1))));
        let tables = stage.query("SHOW TABLES")??;
        assert_eq!(tables.scalar(), Some(&Value::from("other")));
        let level = match flavour {
            Flavour::MySql => "SELECT @@transaction_isolation",
            Flavour::MariaDb => "SELECT @@tx_isolation",
        };
        let done = step(stage, session, level)?;
        let got = answer(&done, session).as_ref().map(|r| r.scalar().cloned());
        assert_eq!(got, Ok(Some(Value::from("READ-COMMITTED"))));
        let error = stage
            .reset(&["CREATE TABLE t (".to_owned()])
            .expect_err("no SQL");
        assert!(
            error.message.starts_with("set-up failed: error 1064"),
            "{error}"
        );
        Ok(())
    })
}
