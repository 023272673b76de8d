//! Faults, time and cancellation, on the simulated PostgreSQL.

use std::time::Duration;

use rowlock_model::schedule::{Choice, Loss};
use rowlock_model::verdict::{Bounds, Exploration, Verdict, Violation};
use rowlock_model::{DbError, ErrorClass, Host, Session, Value};
use rowlock_sim::database::Answer;
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Explorer, Inspect, Monitor, Remark, Seen, Watch, What, Worker};

/// 2025-11-30 10:53:20 UTC.
const START_MICROS: i64 = 1_764_500_000_000_000;

const JOB: &str = "CREATE TABLE job (id INT PRIMARY KEY, n INT NOT NULL, until TIMESTAMPTZ);
    INSERT INTO job VALUES (1, 0, '2025-11-30 10:53:30+00')";

fn explorer() -> Explorer<Postgres> {
    Explorer::new(Postgres::new(START_MICROS)).setup(JOB)
}

fn run(explorer: Explorer<Postgres>) -> Exploration {
    explorer.run().unwrap_or_else(|error| panic!("{error}"))
}

fn violation(exploration: Exploration) -> Violation {
    match exploration.verdict {
        Verdict::Violated(violation) => *violation,
        other => panic!(
            "expected a violation, found {other}: {:?}",
            exploration.counts
        ),
    }
}

/// The schedule in words.
fn events(violation: &Violation) -> Vec<String> {
    let event = |event: &rowlock_model::schedule::Event| {
        let what = match (&event.choice, &event.statement) {
            (Choice::Step(..), Some(statement)) => statement.sql.to_string(),
            (Choice::Lose(_, _, loss), Some(statement)) => format!("{} ({loss})", statement.sql),
            (Choice::Step(..), None) => "goes on".to_owned(),
            (Choice::Advance(micros), _) => format!("+{micros}us"),
            (choice, _) => format!("{choice:?}")
                .split('(')
                .next()
                .unwrap_or("")
                .to_owned(),
        };
        match &event.outcome {
            Some(outcome) => format!("{} {what}: {outcome}", event.actor),
            None => format!("{} {what}", event.actor),
        }
    };
    violation.schedule.events.iter().map(event).collect()
}

fn class_of(seen: &Seen<'_>) -> Option<ErrorClass> {
    match seen.what {
        What::Statement {
            answer: Some(answer),
            ..
        } => answer.error().map(|error| error.class),
        _ => None,
    }
}

async fn holder(mut worker: Worker) -> Result<(), DbError> {
    let mut session = worker.session();
    session.exec("BEGIN", &[]).await?;
    session.exec("UPDATE job SET n = n + 1", &[]).await?;
    session.exec("COMMIT", &[]).await?;
    Ok(())
}

async fn impatient(mut worker: Worker) {
    let mut session = worker.session();
    let sql = "SELECT n FROM job WHERE id = 1 FOR UPDATE NOWAIT";
    let _ = session.exec(sql, &[]).await;
}

/// Violated when a lock is not to be had although its holder has crashed.
struct LockOfTheDead;

impl Monitor for LockOfTheDead {
    type State = bool;

    fn name(&self) -> &str {
        "no lock of the dead"
    }

    fn start(&self) -> bool {
        false
    }

    fn see(&self, crashed: &mut bool, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        *crashed |= matches!(seen.choice, Choice::Crash(_));
        match class_of(seen) {
            Some(ErrorClass::Contention) if *crashed => Remark::Violated("locked".to_owned()),
            _ => Remark::Fine,
        }
    }
}

fn crash(mut explorer: Explorer<Postgres>) -> Explorer<Postgres> {
    explorer = explorer
        .process("holder", holder)
        .process("other", impatient);
    explorer.monitor(LockOfTheDead).bounds(Bounds {
        crashes: 1,
        ..Bounds::default()
    })
}

#[test]
fn a_crash_leaves_a_half_open_session_until_the_server_notices() {
    let found = violation(run(crash(explorer())));
    assert_eq!(
        events(&found),
        [
            "holder BEGIN: ok",
            "holder UPDATE job SET n = n + 1: 1 affected",
            "holder Crash",
            "other SELECT n FROM job WHERE id = 1 FOR UPDATE NOWAIT: error 55P03",
        ]
    );
    // With a server that notices at once there is no such lock.
    let found = run(crash(explorer()).prompt_notice());
    assert_eq!(found.verdict, Verdict::Holds);
}

async fn increments(mut worker: Worker) -> Result<(), DbError> {
    const SQL: &str = "UPDATE job SET n = n + 1";
    let mut session = worker.session();
    match session.exec(SQL, &[]).await {
        Err(error) if error.class == ErrorClass::ConnectionLost => {
            let mut again = worker.host.connect().await?;
            again.exec(SQL, &[]).await?;
        }
        other => drop(other?),
    }
    Ok(())
}

fn lossy(explorer: Explorer<Postgres>) -> Explorer<Postgres> {
    explorer
        .process("p", increments)
        .without_contention()
        .bounds(Bounds {
            losses: 1,
            ..Bounds::default()
        })
}

#[test]
fn a_statement_whose_reply_is_lost_may_have_taken_effect() {
    let found = violation(run(
        lossy(explorer()).always("once", "SELECT n FROM job WHERE n > 1")
    ));
    assert_eq!(
        events(&found),
        [
            "p UPDATE job SET n = n + 1 (reply-lost): error 08006",
            "p/2 goes on",
            "p/2 UPDATE job SET n = n + 1: 1 affected",
        ]
    );
    assert_eq!(found.detail, "1 row: (2)");
}

#[test]
fn a_connection_is_lost_in_three_ways() {
    let mut watched = lossy(explorer());
    for loss in [Loss::NotArrived, Loss::ReplyLost, Loss::StillRunning] {
        let see = move |seen: &Seen<'_>| match seen.choice {
            Choice::Lose(_, _, lost) if lost == loss => Remark::Happened,
            _ => Remark::Fine,
        };
        watched = watched.monitor(Watch::new(loss.to_string(), see).must_happen());
    }
    let late = |seen: &Seen<'_>| match (seen.choice, seen.what) {
        (
            Choice::Late(_),
            What::Statement {
                answer: Some(Answer::Exec(Ok(_))),
                ..
            },
        ) => Remark::Happened,
        _ => Remark::Fine,
    };
    let noticed = |seen: &Seen<'_>| match seen.choice {
        Choice::Notice(_) => Remark::Happened,
        _ => Remark::Fine,
    };
    watched = watched
        .monitor(Watch::new("late", late).must_happen())
        .monitor(Watch::new("noticed", noticed).must_happen());
    assert_eq!(run(watched).verdict, Verdict::Holds);
}

#[test]
fn a_killed_session_ends_its_waiting_statement() {
    let killed = |seen: &Seen<'_>| match seen.choice {
        Choice::Kill(_) if class_of(seen) == Some(ErrorClass::ConnectionLost) => Remark::Happened,
        _ => Remark::Fine,
    };
    let later = |seen: &Seen<'_>| match seen.choice {
        Choice::Step(..) if class_of(seen) == Some(ErrorClass::ConnectionLost) => Remark::Happened,
        _ => Remark::Fine,
    };
    let tolerant = |worker: Worker| async move {
        let _ = holder(worker).await;
    };
    let found = run(explorer()
        .process("p", tolerant)
        .count(2)
        .monitor(Watch::new("killed while it waits", killed).must_happen())
        .monitor(Watch::new("hears of it later", later).must_happen())
        .bounds(Bounds {
            kills: 1,
            ..Bounds::default()
        }));
    assert_eq!(found.verdict, Verdict::Holds);
}

async fn taker(mut worker: Worker) -> Result<(), DbError> {
    let mut session = worker.session();
    let now = Value::TimestampTz(worker.host.now_micros());
    session
        .exec("UPDATE job SET n = n + 1 WHERE until < $1", &[now])
        .await?;
    Ok(())
}

#[test]
fn the_clock_moves_to_what_processes_believe_to_be_the_deadline() {
    let take = |skew: i64| {
        let explorer = explorer()
            .process("p", |worker: Worker| async move {
                worker.host.sleep(Duration::from_micros(1)).await;
                taker(worker).await
            })
            .skew_micros(skew)
            .without_contention()
            .always("untaken", "SELECT n FROM job WHERE n > 0")
            .bounds(Bounds {
                clock: 1,
                ..Bounds::default()
            });
        events(&violation(run(explorer)))
    };
    // The lease ends 10 s after the start; `<` needs a moment more.
    assert_eq!(
        take(0),
        [
            " +10001000us",
            "p goes on",
            "p UPDATE job SET n = n + 1 WHERE until < $1: 1 affected",
        ]
    );
    assert_eq!(take(4_000_000)[0], " +6001000us");
    // A clock that is 20 s ahead sees it over at once.
    assert_eq!(take(20_000_000)[0], " +1us");
}

#[test]
fn a_cancelled_request_leaves_its_transaction_open() {
    let request = |worker: Worker, ()| async move {
        holder(worker)
            .await
            .map(|()| rowlock_sim::explore::Control::<()>::Done)
    };
    let found = violation(run(explorer()
        .add(rowlock_sim::explore::ProcessSpec::steps("handler", (), request).cancellable())
        .without_contention()
        .monitor(Watch::new(
            "no transaction in a transaction",
            |seen: &Seen<'_>| match seen.what {
                What::Statement {
                    answer: Some(Answer::Exec(Ok(reply))),
                    ..
                } if reply.notices.iter().any(|n| n.message.contains("already")) => {
                    Remark::Violated(reply.notices[0].message.to_string())
                }
                _ => Remark::Fine,
            },
        ))
        .bounds(Bounds {
            cancels: 1,
            ..Bounds::default()
        })));
    assert_eq!(
        events(&found),
        ["handler Cancel", "handler BEGIN: ok", "handler BEGIN: ok"]
    );
    assert_eq!(found.detail, "there is already a transaction in progress");
}

#[test]
fn a_bound_of_zero_injects_nothing() {
    let found = run(explorer().process("p", holder).count(2));
    assert_eq!(found.verdict, Verdict::Holds);
    assert!(found.counts.waits > 0);
}

#[test]
fn writers_of_different_tables_do_not_contend() {
    let write = |table: &'static str| {
        move |mut worker: Worker| async move {
            let mut session = worker.session();
            let sql = format!("UPDATE {table} SET n = n + 1");
            session.exec(&sql, &[]).await.map(drop)
        }
    };
    let two = || {
        explorer()
            .setup("CREATE TABLE other (n INT); INSERT INTO other VALUES (0)")
            .process("p", write("job"))
    };
    let found = run(two().process("q", write("other")));
    assert_eq!(found.verdict, Verdict::Vacuous("nothing contended".into()));
    let found = run(two().process("q", write("job")));
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn a_cancelled_process_is_done_and_what_it_sent_arrives() {
    let found = violation(run(explorer()
        .process("p", holder)
        .cancellable()
        .without_contention()
        .at_end("the work is done", "SELECT n FROM job WHERE n = 0")
        .bounds(Bounds {
            cancels: 1,
            ..Bounds::default()
        })));
    assert_eq!(events(&found), ["p Cancel", "p BEGIN: ok"]);
}
