//! The guard with a scripted session: every failure at every call, cancellation at every await.

mod run;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::fake::{Call, FakeHost, FakeSession, rows};
use crate::{DbError, ErrorClass, Reply, Value};

const PID: i64 = 4711;

type Scripted = Result<Reply, DbError>;

/// What a server answers to which every lock is free.
fn usual(sql: &str) -> Reply {
    let answer = |column: &str| rows(&[column, "pid"], &[&[Value::Bool(true), PID.into()]]);
    if sql.contains("unlock") {
        answer("unlocked")
    } else if sql.contains("pg_backend_pid") {
        answer("held")
    } else {
        Reply::tag("SELECT")
    }
}

/// A server whose answers may be replaced.
fn server(mut other: impl FnMut(&Call) -> Option<Scripted> + Send + 'static) -> FakeHost {
    FakeHost::new(0, move |call: &Call| {
        other(call).unwrap_or_else(|| Ok(usual(&call.sql)))
    })
}

fn timeout() -> DbError {
    DbError::postgres("55P03", "canceling statement due to lock timeout")
}

fn lost() -> DbError {
    DbError::connection_lost("postgresql://app:hunter22@db/x is gone")
}

/// Not from the server, though it carries the server's code.
fn imposter() -> DbError {
    DbError::new(ErrorClass::Other, "55P03", "a pool has no connection")
}

/// Proves once, and says whether the proof failed.
struct Prove {
    host: FakeHost,
    swallow: bool,
    fail: bool,
}

impl Body<FakeSession> for Prove {
    type Output = ();
    type Error = String;

    async fn run(&mut self, guard: &mut Guard<FakeSession>) -> Result<(), String> {
        let proof = guard.require_ownership(&self.host).await;
        if self.fail {
            return Err("the body".to_owned());
        }
        match proof {
            Err(error) if !self.swallow => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

fn body(host: &FakeHost) -> Prove {
    Prove {
        host: host.clone(),
        swallow: false,
        fail: false,
    }
}

fn run(host: &FakeHost, body: &mut Prove) -> Result<(), GuardedError<String>> {
    host.run(guarded(host, "alpha", GuardOptions::default(), body))
}

#[test]
fn three_statements_take_it_one_proves_it_one_gives_it_back() {
    let host = server(|_| None);
    run(&host, &mut body(&host)).unwrap();
    assert_eq!(host.open_sessions(), 0);
    let proof = "1 SELECT pg_backend_pid() AS pid, EXISTS (SELECT 1 FROM pg_locks \
         WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() \
         AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 1) AS held \
         [2388754483, 2243291422]";
    assert_eq!(
        host.take_log(),
        [
            "1 connect",
            "1 SELECT set_config('lock_timeout', $1, false) [30000]",
            "1 SELECT pg_advisory_lock($1) [-8187121688807872226]",
            proof,
            proof,
            "1 SELECT pg_advisory_unlock($1) AS unlocked, pg_backend_pid() AS pid \
             [-8187121688807872226]",
            "1 close",
        ]
    );
}

#[test]
fn every_failure_at_every_call() {
    // Calls: 0 connect, 1 deadline, 2 lock, 3 proof of the acquisition, 4 proof of the body,
    // 5 unlock, 6 close.
    for number in 0..=6 {
        for failure in [timeout(), lost(), imposter()] {
            let fails = failure.clone();
            let host = server(move |call| (call.number == number).then(|| Err(fails.clone())));
            let error = run(&host, &mut body(&host)).unwrap_err();
            let expected = match (number, failure.class) {
                (2, ErrorClass::Contention) => "another writer holds the configuration",
                (0..=3, _) => "the write guard is not available",
                (4, _) => "the guarded work failed",
                _ => "the release of the write guard is not confirmed",
            };
            assert_eq!(error.to_string(), expected, "call {number}");
            let kind = match number {
                0..=3 => matches!(error, GuardedError::NotHeld(_)),
                4 => matches!(error, GuardedError::Body(_)),
                _ => matches!(error, GuardedError::Doubt(_)),
            };
            assert!(kind, "call {number}: {error:?}");
            assert_eq!(host.open_sessions(), 0, "call {number}");
            // What failed was not tried again, and the connection was closed, once.
            let closes = host
                .take_log()
                .iter()
                .filter(|l| l.ends_with("close"))
                .count();
            assert_eq!(closes, usize::from(number > 0), "call {number}");
        }
    }
}

#[test]
fn cancelled_at_any_await_it_leaves_no_connection_behind() {
    for polls in 0.. {
        let host = server(|_| None);
        let mut own = body(&host);
        let ready = {
            let mut work = pin!(guarded(&host, "alpha", GuardOptions::default(), &mut own));
            let mut context = Context::from_waker(Waker::noop());
            (0..polls).any(|_| work.as_mut().poll(&mut context).is_ready())
        };
        assert_eq!(host.open_sessions(), 0, "cancelled after {polls} polls");
        if ready {
            assert!(polls > 7, "an await for each call");
            break;
        }
    }
}

#[test]
fn a_cancelled_proof_leaves_the_guard_retired() {
    let host = server(|_| None);
    host.run(async {
        let mut guard = Guard::acquire(&host, "a", GuardOptions::default())
            .await
            .unwrap();
        {
            let mut proof = pin!(guard.require_ownership(&host));
            let mut context = Context::from_waker(Waker::noop());
            assert!(proof.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(host.open_sessions(), 0, "with a reply on its way");
        let again = guard.require_ownership(&host).await;
        assert!(matches!(again, Err(GuardError::Ownership(_))));
        let release = guard.release(&host).await;
        assert!(matches!(release, Err(GuardError::Release(_))));
    });
}

#[test]
fn a_proof_is_of_this_session_and_of_this_process() {
    let answers = [
        rows(&["held", "pid"], &[&[Value::Bool(false), PID.into()]]),
        rows(&["held", "pid"], &[&[Value::Bool(true), (PID + 1).into()]]),
        rows(&["held", "pid"], &[]),
        rows(&["held", "pid"], &[&[Value::Null, PID.into()]]),
    ];
    for answer in answers {
        let given = answer.clone();
        let host = server(move |call| (call.number == 4).then(|| Ok(given.clone())));
        host.run(async {
            let mut guard = Guard::acquire(&host, "a", GuardOptions::default())
                .await
                .unwrap();
            for _ in 0..2 {
                let lost = guard.require_ownership(&host).await;
                assert!(matches!(lost, Err(GuardError::Ownership(_))));
            }
        });
        let log = host.take_log();
        assert_eq!(log[5..], ["1 close"], "closed once, and not asked again");
    }
}

#[test]
fn a_release_is_confirmed_by_the_process_that_locked() {
    let unlocked = |yes: Value, pid: i64| rows(&["unlocked", "pid"], &[&[yes, pid.into()]]);
    for answer in [
        unlocked(Value::Bool(false), PID),
        unlocked(Value::Bool(true), PID + 1),
        unlocked(Value::Null, PID),
        rows(&["unlocked", "pid"], &[]),
    ] {
        let host = server(move |call| call.sql.contains("unlock").then(|| Ok(answer.clone())));
        host.run(async {
            let mut guard = Guard::acquire(&host, "a", GuardOptions::default())
                .await
                .unwrap();
            for _ in 0..2 {
                let release = guard.release(&host).await;
                assert!(
                    matches!(release, Err(GuardError::Release(_))),
                    "and it stays so"
                );
            }
        });
        assert_eq!(host.open_sessions(), 0);
    }
}

#[test]
fn released_twice_is_released_once() {
    let host = server(|_| None);
    host.run(async {
        let mut guard = Guard::acquire(&host, "a", GuardOptions::default())
            .await
            .unwrap();
        guard.release(&host).await.unwrap();
        guard.release(&host).await.unwrap();
        let late = guard.require_ownership(&host).await;
        assert!(matches!(late, Err(GuardError::Ownership(_))));
    });
    assert_eq!(host.take_log().len(), 6);
}

#[test]
fn the_bodys_error_comes_before_those_of_cleaning_up() {
    let host = server(|call| (call.sql == "close").then(|| Err(lost())));
    let mut own = body(&host);
    own.fail = true;
    let error = run(&host, &mut own).unwrap_err();
    assert_eq!(error, GuardedError::Body("the body".to_owned()));
    assert!(!host.take_log().iter().any(|line| line.contains("unlock")));
}

#[test]
fn a_swallowed_proof_is_found_out_at_the_end() {
    let host = server(|call| (call.number == 4).then(|| Err(lost())));
    let mut own = body(&host);
    own.swallow = true;
    let error = run(&host, &mut own).unwrap_err();
    assert!(matches!(error, GuardedError::Doubt(GuardError::Release(_))));
}

/// The whole chain of an error as one text.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[test]
fn errors_have_fixed_texts_and_causes_without_secrets() {
    let failure = DbError::postgres("53300", "too many connections for hunter22")
        .with_detail("host=db password='hunter 22' token hunter22");
    let host = server(move |call| (call.number == 1).then(|| Err(failure.clone())));
    let options = GuardOptions {
        secrets: Secrets::none().and("hunter22"),
        ..GuardOptions::default()
    };
    let error = host.run(Guard::acquire(&host, "a", options)).unwrap_err();
    assert_eq!(
        chain(&error),
        "the write guard is not available: 53300: too many connections for ***: \
         host=db password=*** token ***"
    );
}

#[test]
fn mutations_make_the_mistake_that_they_name() {
    let log = |mutation| {
        let host = server(|_| None);
        let options = GuardOptions {
            mutation: Some(mutation),
            deadline: Deadline::from_seconds(0.001).unwrap(),
            ..GuardOptions::default()
        };
        host.run(Guard::acquire(&host, "alpha", options)).unwrap();
        host.take_log()
    };
    assert!(log(Mutation::FloorDeadline)[1].ends_with("[0]"), "for ever");
    assert!(log(Mutation::ProveByLocking)[3].contains("pg_try_advisory_lock"));
    assert!(!log(Mutation::ProveWithoutPid)[3].contains("pid = "));
    assert!(!log(Mutation::ProveWithoutKind)[3].contains("objsubid"));
    assert_ne!(
        log(Mutation::SwappedKey)[2],
        log(Mutation::ProveWithoutPid)[2]
    );
}
