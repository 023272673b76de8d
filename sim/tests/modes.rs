//! Other ways to explore than all at once, and questions about loops.

use std::ops::ControlFlow;

use rowlock_model::verdict::{Bounds, Interleavings, Limits, Verdict, Violation};
use rowlock_model::{DbError, ErrorClass, Guarantee, Isolation, Session as _};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::{Checkpoints, Control, Explorer, Random, Reductions, Strategy, Worker};
use rowlock_sim::toy::{self, Mutant, Toy};

fn queue(workers: usize, jobs: u8, crashes: u32) -> Explorer<Toy> {
    Explorer::new(Toy::new(jobs))
        .steps("worker", (), toy::worker)
        .count(workers)
        .bounds(Bounds {
            crashes,
            ..Bounds::default()
        })
        .prompt_notice()
}

fn violation(verdict: Verdict) -> Box<Violation> {
    match verdict {
        Verdict::Violated(violation) => violation,
        other => panic!("{other}"),
    }
}

/// The numbers that a path-count over the same workload gives (see `explore_toy.rs`).
#[test]
fn an_exhausted_search_says_how_many_interleavings_it_stands_for() {
    let explorer = queue(3, 2, 0).reductions(Reductions::NONE);
    let found = explorer
        .run_detailed(&mut |_| ControlFlow::Continue(()))
        .expect("explored");
    assert_eq!(
        found.exploration.counts.interleavings,
        Some(Interleavings::Exactly(6_360))
    );
    // With reductions it is not said.
    assert_eq!(
        queue(3, 2, 0).run().expect("explored").counts.interleavings,
        None
    );
}

const COUNTER: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (1, 0)";

/// Three workers, and an update that is lost as soon as two of them meet.
fn lost_update() -> Explorer<Postgres> {
    let work = |mut worker: Worker| async move {
        let mut session = worker.session();
        let found = session.exec("SELECT v FROM t WHERE id = 1", &[]).await?;
        let v = found
            .scalar()
            .and_then(rowlock_model::Value::as_int)
            .unwrap_or(0);
        let new = [rowlock_model::Value::Int(v + 1)];
        session
            .exec("UPDATE t SET v = $1 WHERE id = 1", &new)
            .await
            .map(|_| ())
    };
    Explorer::new(Postgres::default())
        .setup(COUNTER)
        .process("worker", work)
        .count(3)
        .at_end("all are counted", "SELECT v FROM t WHERE v < 3")
}

#[test]
fn what_one_delay_reaches_is_found_first_and_made_small() {
    let all = lost_update().run().expect("explored");
    let (all, states) = (violation(all.verdict), all.counts.states);
    let first = lost_update()
        .anytime(&mut |_| ControlFlow::Continue(()))
        .expect("explored");
    assert!(
        first.counts.states < states,
        "{} of {states}",
        first.counts.states
    );
    let first = violation(first.verdict);
    assert_eq!(first.property, all.property);
    assert_eq!(first.schedule.events, all.schedule.events);
    // What needs no faults and holds is explored to its end.
    let holds = queue(3, 2, 1).anytime(&mut |_| ControlFlow::Continue(()));
    assert_eq!(holds.expect("explored").verdict, Verdict::Holds);
}

#[test]
fn random_failures_come_out_as_the_smallest_schedule() {
    let expected = violation(lost_update().run().expect("explored").verdict);
    for (seed, strategy) in [
        (1, Strategy::Uniform),
        (2, Strategy::Pct { depth: 3 }),
        (3, Strategy::Pos),
        (4, Strategy::Urw),
        (5, Strategy::Uniform),
    ] {
        let random = Random {
            seed,
            strategy,
            ..Random::default()
        };
        let found = lost_update().random(random, &mut |_| ControlFlow::Continue(()));
        let found = violation(found.expect("run").verdict);
        assert_eq!(
            found.schedule.events, expected.schedule.events,
            "{strategy:?}"
        );
    }
}

/// Crashes are spread over a run: the states behind a late one are met as well.
#[test]
fn crashes_of_random_runs_come_late_as_well() {
    let all = queue(3, 2, 1)
        .reductions(Reductions::NONE)
        .run()
        .expect("explored");
    let random = Random {
        executions: 20_000,
        ..Random::default()
    };
    let sampled = queue(3, 2, 1).random(random, &mut |_| ControlFlow::Continue(()));
    let sampled = sampled.expect("run");
    let (met, states) = (sampled.counts.states, all.counts.states);
    assert!(met * 10 >= states * 9, "{met} of {states} states");
    let Verdict::Incomplete(coverage) = sampled.verdict else {
        panic!("{}", sampled.verdict)
    };
    for part in [
        "distinct states",
        "Chao1",
        "Good-Turing",
        "rare states may be many more",
    ] {
        assert!(coverage.contains(part), "{coverage}");
    }
}

/// Runs with a checkpoint at each look, and goes on from the one with this number.
fn resumed(explorer: impl Fn() -> Explorer<Toy>, at: usize) {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let whole = explorer().long(
        None,
        &mut Checkpoints {
            due: &mut || true,
            save: &mut |bytes| {
                all.push(bytes.to_vec());
                Ok(())
            },
        },
        &mut |_| ControlFlow::Continue(()),
    );
    let whole = whole.expect("explored");
    let from = all.get(at).expect("so many checkpoints");
    let rest = explorer().long(
        Some(from),
        &mut Checkpoints {
            due: &mut || false,
            save: &mut |_| Ok(()),
        },
        &mut |_| ControlFlow::Continue(()),
    );
    let mut rest = rest.expect("explored");
    rest.counts.polls = whole.counts.polls;
    assert_eq!(rest, whole);
}

#[test]
fn a_search_goes_on_from_each_checkpoint() {
    let plain = || queue(4, 3, 0).reductions(Reductions::NONE);
    for at in 0..2 {
        resumed(plain, at);
    }
    assert_eq!(plain().run().expect("explored").verdict, Verdict::Holds);
    let with_crash = || queue(4, 3, 1).reductions(Reductions::NONE);
    resumed(with_crash, 3);
    let mutant = || {
        Explorer::new(Toy::new(3).with(Mutant::ClaimWaits))
            .steps("worker", (), toy::worker)
            .count(4)
            .reductions(Reductions::NONE)
    };
    resumed(mutant, 0);
}

#[test]
fn a_long_search_that_is_too_long_says_so() {
    let few = queue(4, 3, 0).reductions(Reductions::NONE).limits(Limits {
        states: 100,
        ..Limits::default()
    });
    let mut saved = 0;
    let found = few.long(
        None,
        &mut Checkpoints {
            due: &mut || false,
            save: &mut |_| {
                saved += 1;
                Ok(())
            },
        },
        &mut |_| ControlFlow::Continue(()),
    );
    let found = found.expect("explored").verdict;
    assert_eq!(found, Verdict::Incomplete("100 states".to_owned()));
    assert_eq!(saved, 1);
}

/// Tries a lock until it has it, or does not.
async fn try_until(mut worker: Worker, locked: bool) -> Result<Control<bool>, DbError> {
    let mut session = worker.session();
    if locked {
        session.exec("SELECT pg_advisory_unlock(1)", &[]).await?;
        return Ok(Control::Again(false));
    }
    let got = session
        .exec("SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT", &[])
        .await;
    match got {
        Err(error) if error.class == ErrorClass::Contention => Ok(Control::Again(false)),
        Err(error) => Err(error),
        Ok(_) => Ok(Control::Done),
    }
}

/// Takes the row, changes it and gives it back, again and again.
async fn toggle(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
    let mut session = worker.session();
    session.exec("BEGIN", &[]).await?;
    session
        .exec("UPDATE t SET v = 1 - v WHERE id = 1", &[])
        .await?;
    session.exec("COMMIT", &[]).await?;
    Ok(Control::Again(()))
}

#[test]
fn who_is_refused_for_ever_while_others_commit_starves() {
    let starves = Explorer::new(Postgres::default())
        .setup(COUNTER)
        .steps("toggle", (), toggle)
        .steps("poor", false, try_until)
        .guarantee(Guarantee::NoStarvation);
    let found = violation(starves.run().expect("explored").verdict);
    assert_eq!(found.property, "no starvation");
    assert!(
        found.detail.contains("poor can be refused"),
        "{}",
        found.detail
    );
    // Who is alone gets it.
    let alone = Explorer::new(Postgres::default())
        .setup(COUNTER)
        .steps("poor", false, try_until)
        .without_contention()
        .guarantee(Guarantee::NoStarvation)
        .guarantee(Guarantee::CanFinish);
    assert_eq!(alone.run().expect("explored").verdict, Verdict::Holds);
}

#[test]
fn a_place_without_a_way_to_the_end_is_found() {
    // Who takes the lock keeps it and goes on for ever; the other one waits for it for ever.
    let keep = |mut worker: Worker, has: bool| async move {
        let mut session = worker.session();
        let sql = match has {
            true => "SELECT 1",
            false => "SELECT pg_advisory_lock(1)",
        };
        session.exec(sql, &[]).await.map(|_| Control::Again(true))
    };
    let once = |mut worker: Worker| async move {
        let mut session = worker.session();
        session.exec("SELECT pg_advisory_lock(1)", &[]).await?;
        session
            .exec("SELECT pg_advisory_unlock(1)", &[])
            .await
            .map(|_| ())
    };
    let trapped = Explorer::new(Postgres::default())
        .steps("keep", false, keep)
        .process("once", once)
        .guarantee(Guarantee::CanFinish);
    let found = violation(trapped.run().expect("explored").verdict);
    assert_eq!(found.property, "can finish");
    let fine = Explorer::new(Postgres::default())
        .process("a", once)
        .process("b", once)
        .isolation(Isolation::ReadCommitted)
        .guarantee(Guarantee::CanFinish);
    assert_eq!(fine.run().expect("explored").verdict, Verdict::Holds);
}

/// Source-DPOR with sleep sets needs as many runs as there are orders of what depends on each other:
/// counted by brute force for the same workload.
#[test]
fn run_by_run_takes_one_run_for_each_order_of_what_depends_on_each_other() {
    for (workers, jobs) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        let all = queue(workers, jobs, 0).reductions(Reductions::NONE);
        let all = all.survey().expect("explored");
        let traces = queue(workers, jobs, 0).traces(1_000_000).expect("explored");
        let traces = traces.expect("few enough");
        assert_eq!(traces.missing_in(&all), None);
        assert_eq!(all.missing_in(&traces), None);
        if (workers, jobs) == (3, 2) {
            assert_eq!(traces.states, 393);
        }
    }
}

#[test]
fn run_by_run_comes_to_the_verdict_of_the_search_and_shows_the_same_schedule() {
    let on = |explorer: Explorer<Postgres>| {
        explorer
            .run_by_run(&mut |_| ControlFlow::Continue(()))
            .expect("explored")
    };
    let all = violation(lost_update().run().expect("explored").verdict);
    let found = on(lost_update());
    assert!(found.counts.executions > 0 && found.counts.states == 0);
    let found = violation(found.verdict);
    assert_eq!(found.property, all.property);
    assert_eq!(found.schedule.events, all.schedule.events);
    let holds = queue(3, 2, 1).run_by_run(&mut |_| ControlFlow::Continue(()));
    assert_eq!(holds.expect("explored").verdict, Verdict::Holds);
}

#[test]
fn run_by_run_gives_up_at_its_limits() {
    let limited = |limits: Limits| {
        let explorer = queue(3, 2, 0).limits(limits);
        let found = explorer.run_by_run(&mut |_| ControlFlow::Break("time".to_owned()));
        found.expect("explored").verdict
    };
    let runs = Limits {
        states: 5,
        ..Limits::default()
    };
    let depth = Limits {
        depth: 4,
        ..Limits::default()
    };
    assert_eq!(limited(runs), Verdict::Incomplete("5 runs".to_owned()));
    let long = "a run of 4 events";
    assert_eq!(limited(depth), Verdict::Incomplete(long.to_owned()));
    let time = limited(Limits::default());
    assert_eq!(time, Verdict::Incomplete("time".to_owned()));
}

/// Locks are seen in the middle of transactions that have nothing to do with each other.
#[test]
fn run_by_run_tries_every_order_if_a_property_looks_at_locks() {
    let holds = |lock: &'static str| {
        move |mut worker: Worker| async move {
            let mut session = worker.session();
            for sql in ["BEGIN", lock, "ROLLBACK"] {
                session.exec(sql, &[]).await?;
            }
            Ok::<(), DbError>(())
        }
    };
    let both = Explorer::new(Postgres::default())
        .setup("CREATE TABLE a (n int); CREATE TABLE b (n int)")
        .process("a", holds("LOCK TABLE a IN SHARE MODE"))
        .process("b", holds("LOCK TABLE b IN SHARE MODE"))
        .without_contention()
        .always(
            "one lock",
            "SELECT 1 FROM pg_locks WHERE mode = 'ShareLock' AND locktype = 'relation' HAVING count(*) > 1",
        );
    let found = both.run_by_run(&mut |_| ControlFlow::Continue(()));
    let found = violation(found.expect("explored").verdict);
    assert_eq!(found.property, "one lock");
}
