//! The explorer on the toy database: counts, mutants, determinism.
//!
//! The expected counts of states and transitions are those of an independent, hand-written model of
//! the same workload in a general model checker; the numbers of interleavings are exact as well.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Bounds, Exploration, Verdict, Violation};
use rowlock_model::{Host, Session};
use rowlock_sim::explore::Strategy;
use rowlock_sim::explore::{
    Control, Detailed, ExploreError, Explorer, Inspect, Monitor, Random, Reductions, Remark, Seen,
    Worker,
};
use rowlock_sim::toy::{self, Mutant, Toy};

fn workers(toy: Toy, n: usize, crashes: u32) -> Explorer<Toy> {
    Explorer::new(toy)
        .steps("worker", (), toy::worker)
        .count(n)
        .bounds(Bounds {
            crashes,
            ..Bounds::default()
        })
        .prompt_notice()
        .reductions(Reductions::NONE)
}

fn run(explorer: Explorer<Toy>) -> Detailed {
    explorer
        .run_detailed(&mut |_| ControlFlow::Continue(()))
        .expect("the exploration can be carried out")
}

fn violation(exploration: Exploration) -> Violation {
    match exploration.verdict {
        Verdict::Violated(violation) => *violation,
        other => panic!("expected a violation, found {other}"),
    }
}

#[test]
fn states_and_transitions_are_those_of_the_plain_model() {
    let cases = [
        // workers, rows, crashes, states, transitions
        (3, 2, 0, 199, 459),
        (3, 4, 0, 1_722, 4_686),
        (4, 2, 0, 654, 1_864),
        (4, 4, 0, 11_276, 39_312),
        (5, 4, 0, 57_426, 236_530),
        (4, 4, 1, 38_252, 159_200),
    ];
    for (n, m, crashes, states, transitions) in cases {
        let found = run(workers(Toy::new(m), n, crashes)).exploration;
        assert_eq!(found.verdict, Verdict::Holds, "({n},{m},{crashes})");
        assert_eq!(found.counts.states, states, "({n},{m},{crashes})");
        assert_eq!(found.counts.transitions, transitions, "({n},{m},{crashes})");
    }
}

/// The workload as a plain model: what each worker holds, and the rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    /// Of each row: pending, running or done; its owner and who has locked it, one up.
    rows: Vec<(u8, u8, u8)>,
    /// Of each worker: its next statement (4 = it has quit, 5 = it has crashed), and its row.
    workers: Vec<(u8, usize)>,
    crashes: u32,
}

impl Model {
    fn step(&self, worker: usize) -> Model {
        let mut next = self.clone();
        let me = worker as u8 + 1;
        let (statement, at) = self.workers[worker];
        next.workers[worker] = match statement {
            0 => match self.rows.iter().position(|row| row.0 == 0 && row.2 == 0) {
                Some(free) => {
                    next.rows[free].2 = me;
                    (1, free)
                }
                None => (4, 0),
            },
            1 => (2, at),
            2 => {
                next.rows[at] = (1, me, 0);
                (3, at)
            }
            _ => {
                if next.rows[at].0 == 1 && next.rows[at].1 == me {
                    next.rows[at] = (2, 0, 0);
                }
                (0, 0)
            }
        };
        next
    }

    fn crash(&self, worker: usize) -> Model {
        let mut next = self.clone();
        for row in &mut next.rows {
            if row.2 == worker as u8 + 1 {
                row.2 = 0;
            }
        }
        next.workers[worker] = (5, 0);
        next.crashes -= 1;
        next
    }

    fn next(&self) -> Vec<Model> {
        let mut all = Vec::new();
        for (at, worker) in self.workers.iter().enumerate() {
            if worker.0 < 4 {
                all.push(self.step(at));
                if self.crashes > 0 {
                    all.push(self.crash(at));
                }
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            if row.0 == 1 && self.workers[usize::from(row.1) - 1].0 == 5 {
                let mut next = self.clone();
                next.rows[at] = (0, 0, 0);
                all.push(next);
            }
        }
        all
    }

    /// States and transitions.
    fn counts(workers: usize, rows: usize, crashes: u32) -> (u64, u64) {
        let first = Model {
            rows: vec![(0, 0, 0); rows],
            workers: vec![(0, 0); workers],
            crashes,
        };
        let mut seen = std::collections::HashSet::from([first.clone()]);
        let (mut open, mut transitions) = (vec![first], 0);
        while let Some(state) = open.pop() {
            for next in state.next() {
                transitions += 1;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        (seen.len() as u64, transitions)
    }
}

fn counts_as_the_model(workers_max: usize) {
    for n in 3..=workers_max {
        for m in 2..=4u8 {
            for crashes in 0..=2 {
                let found = workers(Toy::new(m), n, crashes).run();
                let counts = found.expect("it can be explored").counts;
                let model = Model::counts(n, usize::from(m), crashes);
                let what = format!("({n},{m},{crashes})");
                assert_eq!((counts.states, counts.transitions), model, "{what}");
            }
        }
    }
}

#[test]
fn states_are_those_of_a_model_with_every_number_of_crashes() {
    counts_as_the_model(if cfg!(debug_assertions) { 3 } else { 4 });
}

#[test]
#[ignore = "takes a minute in debug builds"]
fn states_of_five_workers_are_those_of_a_model() {
    assert_eq!(Model::counts(5, 4, 1), (228_126, 1_090_630));
    assert_eq!(Model::counts(5, 4, 2), (395_976, 2_195_980));
    counts_as_the_model(5);
}

#[test]
fn code_is_polled_once_a_history() {
    // 1 start, 5 answers to the claim, 3 more for each of 4 rows, of which the last begins anew.
    let found = run(workers(Toy::new(4), 5, 0)).exploration;
    assert_eq!(found.counts.polls, 18);
    // The whole loop in one future remembers what it has done, until it is over.
    let looping = Explorer::new(Toy::new(4)).process("worker", toy::looping_worker);
    let looping = looping.count(5).reductions(Reductions::NONE);
    let found = run(looping).exploration;
    assert_eq!(found.counts.states, 267_652);
    assert_eq!(found.counts.polls, 77);
}

#[test]
fn states_are_few_where_interleavings_are_many() {
    let found = run(workers(Toy::new(2), 3, 0));
    assert_eq!(found.interleavings, Some(6_360.0));
    let found = run(workers(Toy::new(3), 4, 0));
    assert_eq!(found.exploration.counts.states, 3_043);
    let interleavings = found.interleavings.expect("there is no cycle");
    assert!((3.4e7..3.6e7).contains(&interleavings), "{interleavings}");
}

/// No two workers hold the same row between claim and done.
struct OneHolder;

impl Monitor for OneHolder {
    type State = Vec<(u8, i64)>;

    fn name(&self) -> &str {
        "one holder"
    }

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn see(&self, holders: &mut Self::State, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        use rowlock_sim::database::Answer;
        use rowlock_sim::explore::What;
        let Some(process) = seen.process else {
            return Remark::Fine;
        };
        if matches!(seen.choice, Choice::Crash(_)) {
            holders.retain(|(holder, _)| *holder != process.0);
        }
        let What::Statement {
            answer: Some(Answer::Exec(Ok(reply))),
            ..
        } = seen.what
        else {
            return Remark::Fine;
        };
        if &*reply.tag == "SELECT"
            && let Some(row) = reply.scalar().and_then(rowlock_model::Value::as_int)
        {
            let other = holders.iter().any(|(_, held)| *held == row);
            holders.push((process.0, row));
            holders.sort_unstable();
            if other {
                return Remark::Violated(format!("row {row} has two holders"));
            }
        }
        if &*reply.tag == "UPDATE" && reply.affected == 1 {
            // Either the mark (still held) or the end of the work; the end has no lock any more.
            if matches!(seen.choice, Choice::Step(_, request) if request.0 == 3) {
                holders.retain(|(holder, _)| *holder != process.0);
            }
        }
        Remark::Fine
    }
}

#[test]
fn mutants_are_found_with_shortest_schedules() {
    let toy = Toy::new(2).with(Mutant::ClaimIgnoresLocks);
    let found = violation(run(workers(toy, 3, 0).monitor(OneHolder)).exploration);
    assert_eq!(found.property, "one holder");
    assert_eq!(found.schedule.events.len(), 2);
    assert_eq!(found.matters, [0, 1]);
    let found = run(workers(Toy::new(2), 3, 0).monitor(OneHolder)).exploration;
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn a_waiting_claim_resumes_promptly_in_schedules() {
    let toy = || Toy::new(2).with(Mutant::ClaimWaits);
    let found = run(workers(toy(), 2, 0)).exploration;
    assert_eq!(found.verdict, Verdict::Holds);
    assert!(found.counts.waits > 0);
    // The state in which both jobs are running is reached through a wait, and the waiter goes on
    // as soon as it can.
    let both = run(workers(toy(), 2, 0).monitor(BothRunning(0))).exploration;
    let schedule = violation(both).schedule;
    let kinds: Vec<String> = schedule
        .events
        .iter()
        .map(|event| format!("{} {}", event.actor, event.outcome.as_ref().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [
            "worker-1 1 row (0)",
            "worker-1 1 affected",
            "worker-2 waits",
            "worker-1 ok",
            "worker-2 1 row (1)",
        ]
    );
}

/// Violated when a session resumes.
struct BothRunning(u8);

impl Monitor for BothRunning {
    type State = ();

    fn name(&self) -> &str {
        "nobody resumes"
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        match seen.choice {
            Choice::Resume(_) => Remark::Violated(format!("{}", self.0)),
            _ => Remark::Fine,
        }
    }
}

#[test]
fn the_same_exploration_twice_gives_the_same_bytes() {
    let explore = || {
        let toy = Toy::new(3).with(Mutant::ClaimIgnoresLocks);
        run(workers(toy, 3, 1).monitor(OneHolder))
    };
    assert_eq!(explore(), explore());
    let random = |seed| {
        let random = Random {
            seed,
            executions: 500,
            ..Random::default()
        };
        workers(Toy::new(3), 3, 1)
            .random(random, &mut |_| ControlFlow::Continue(()))
            .expect("the executions can be carried out")
    };
    assert_eq!(random(7), random(7));
    assert_ne!(random(7).counts, random(8).counts);
}

const STRATEGIES: [Strategy; 4] = [
    Strategy::Uniform,
    Strategy::Pct { depth: 3 },
    Strategy::Pos,
    Strategy::Urw,
];

#[test]
fn random_executions_find_a_mutant_and_shrink_it() {
    for strategy in STRATEGIES {
        let toy = Toy::new(3).with(Mutant::ClaimIgnoresLocks);
        let random = Random {
            seed: 1,
            executions: 1_000,
            strategy,
        };
        let found = workers(toy, 3, 0)
            .monitor(OneHolder)
            .random(random, &mut |_| ControlFlow::Continue(()))
            .expect("the executions can be carried out");
        assert_eq!(violation(found).schedule.events.len(), 2, "{strategy:?}");
    }
}

#[test]
fn every_strategy_reaches_nearly_every_state_of_a_small_workload() {
    for strategy in STRATEGIES {
        let random = Random {
            seed: 1,
            executions: 3_000,
            strategy,
        };
        let run = || {
            workers(Toy::new(2), 3, 0)
                .random(random, &mut |_| ControlFlow::Continue(()))
                .expect("the executions can be carried out")
        };
        let found = run();
        assert_eq!(found, run(), "{strategy:?}");
        // All 199 but the initial one can be met.
        let states = found.counts.states;
        assert!((150..=198).contains(&states), "{strategy:?}: {states}");
        let Verdict::Incomplete(text) = &found.verdict else {
            panic!("{strategy:?}: {}", found.verdict);
        };
        assert!(
            text.contains("Chao1") && text.contains("Good-Turing"),
            "{text}"
        );
    }
}

#[test]
fn a_schedule_is_replayed_and_an_impossible_one_refused() {
    let mutant = || workers(Toy::new(2).with(Mutant::ClaimIgnoresLocks), 2, 0).monitor(OneHolder);
    let found = violation(run(mutant()).exploration);
    let replayed = mutant().replay(&found.schedule).expect("it is possible");
    assert_eq!(replayed.schedule, found.schedule);
    assert_eq!(replayed.violation, Some((found.property, found.detail)));

    let mut impossible = found.schedule;
    impossible.events[1].choice = Choice::Resume(rowlock_model::schedule::SessionId(1));
    let error = mutant().replay(&impossible).expect_err("nobody waits");
    assert_eq!(
        error.to_string(),
        "event 2 of the schedule, worker-2 resumes, is not possible here; \
         possible: worker-1 request 1, worker-2 request 0"
    );
}

#[test]
fn a_nondeterministic_process_is_reported() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let flaky = |mut worker: Worker| async move {
        let mut session = worker.session();
        let even = CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let _ = session
            .exec(if even { "claim" } else { "commit" }, &[])
            .await;
    };
    let error = Explorer::new(Toy::new(1))
        .process("flaky", flaky)
        .count(2)
        .run();
    let text = error.expect_err("it is noticed").to_string();
    assert_eq!(
        text,
        "process `flaky-1` is not deterministic: after the same history it went on differently\n\
         history:\n  start\nfirst run:  claim\nsecond run: commit"
    );
}

#[test]
fn a_panic_is_a_violation_and_a_foreign_await_an_error() {
    let panics = |mut worker: Worker| async move {
        let mut session = worker.session();
        let reply = session.exec("claim", &[]).await.expect("it is well-formed");
        assert!(reply.scalar().is_some(), "no job left");
    };
    let found = Explorer::new(Toy::new(1))
        .process("p", panics)
        .count(2)
        .run();
    let found = violation(found.expect("the exploration can be carried out"));
    assert_eq!(found.property, "panic");
    assert_eq!(found.detail, "p-2: no job left");

    let foreign = |_: Worker| std::future::pending::<()>();
    let error = Explorer::new(Toy::new(1)).process("p", foreign).run();
    assert!(
        matches!(error, Err(ExploreError::Actor { .. })),
        "{error:?}"
    );
}

#[test]
fn a_process_that_waits_for_ever_is_a_violation() {
    let leaks = |mut worker: Worker| async move {
        let mut session = worker.session();
        let _ = session.exec("claim", &[]).await;
    };
    let toy = Toy::new(1).with(Mutant::ClaimWaits);
    let found = Explorer::new(toy).process("leaks", leaks).count(2).run();
    let found = violation(found.expect("the exploration can be carried out"));
    assert_eq!(found.property, "stuck");
    assert_eq!(found.detail, "leaks-2 waits for row 0 held by leaks-1");
}

#[test]
fn nothing_contended_is_vacuous() {
    let alone = || Explorer::new(Toy::new(2)).steps("worker", (), toy::worker);
    let found = alone().run().expect("the exploration can be carried out");
    assert_eq!(found.verdict, Verdict::Vacuous("nothing contended".into()));
    let found = alone().without_contention().run().expect("it can");
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn tasks_timers_and_notifications_of_one_process() {
    use rowlock_model::Task as _;
    use std::time::Duration;
    // A task holds the claim; the main task gives up after a while and aborts it.
    let process = |mut worker: Worker| async move {
        let host = worker.host.clone();
        let mut session = worker.session();
        let claim = host.spawn(async move { session.exec("claim", &[]).await });
        let late = host
            .timeout(Duration::from_secs(1), claim.join())
            .await
            .is_err();
        host.note("gave up", &[late.into()]);
        late.then_some(()).map_or(Ok::<(), ()>(()), |()| Ok(()))
    };
    let bounds = Bounds {
        clock: 1,
        ..Bounds::default()
    };
    let found = Explorer::new(Toy::new(1))
        .process("p", process)
        .bounds(bounds)
        .without_contention()
        .monitor(
            rowlock_sim::explore::Watch::new("it gives up", |seen| match seen.what {
                rowlock_sim::explore::What::Note { values, .. }
                    if values[0].as_bool() == Some(true) =>
                {
                    Remark::Happened
                }
                _ => Remark::Fine,
            })
            .must_happen(),
        )
        .run()
        .expect("the exploration can be carried out");
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn a_step_function_keeps_its_local_state() {
    let step = |mut worker: Worker, done: u8| async move {
        let mut session = worker.session();
        match toy::work_once(&mut session).await {
            Ok(Some(_)) if done < 1 => Control::Again(done + 1),
            _ => Control::Done,
        }
    };
    let found = Explorer::new(Toy::new(3))
        .steps("worker", 0u8, step)
        .count(2)
        .run();
    let found = found.expect("the exploration can be carried out");
    assert_eq!(found.verdict, Verdict::Holds);
}
