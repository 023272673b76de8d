//! What the reductions leave out is nothing that counts: random small programs are explored with
//! reductions, without, and interleaving by interleaving, and must come to the same ends and the same
//! violations. And each rule matters: where it is broken on purpose, something is lost.
//!
//! `cargo test --release -p rowlock-sim --test reductions -- --ignored` runs 5,000 programs a set.

mod programs;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use rowlock_model::schedule::Choice;
use rowlock_model::verdict::Bounds;
use rowlock_sim::explore::{
    Broken, Explorer, Inspect, Monitor, Reductions, Remark, Seen, Survey, What,
};
use rowlock_sim::toy::{self, Toy};

use programs::{Program, ToyProgram};

const SLEEP_SETS: Reductions = Reductions {
    sleep_sets: true,
    ..Reductions::NONE
};
const INVISIBLE_STEPS: Reductions = Reductions {
    invisible_steps: true,
    ..Reductions::NONE
};

/// Steps that an enumeration may take; most small programs stay below.
const ENUMERATION_MAX: u64 = 20_000;

/// Something that can be explored again and again.
trait Subject: std::fmt::Debug {
    fn survey(&self, reductions: Reductions, broken: Broken) -> Survey;
    fn enumerate(&self) -> Option<Survey>;
}

impl Subject for Program {
    fn survey(&self, reductions: Reductions, broken: Broken) -> Survey {
        let explorer = self.explorer().reductions(reductions).broken(broken);
        explorer.survey().expect("it can be explored")
    }

    fn enumerate(&self) -> Option<Survey> {
        let explorer = self.explorer();
        explorer.enumerate(ENUMERATION_MAX).expect("it can be run")
    }
}

impl Subject for ToyProgram {
    fn survey(&self, reductions: Reductions, broken: Broken) -> Survey {
        let explorer = self.explorer().reductions(reductions).broken(broken);
        explorer.survey().expect("it can be explored")
    }

    fn enumerate(&self) -> Option<Survey> {
        let explorer = self.explorer();
        explorer.enumerate(ENUMERATION_MAX).expect("it can be run")
    }
}

/// Compares a survey with the one that knows everything.
fn compare(all: &Survey, some: &Survey, what: &str) -> Result<(), String> {
    match (all.missing_in(some), some.missing_in(all)) {
        (Some(lost), _) => Err(format!("{what}: {lost}")),
        (None, Some(invented)) => Err(format!("{what}, the other way round: {invented}")),
        (None, None) => Ok(()),
    }
}

fn agree(subject: &impl Subject) -> Result<(), String> {
    let all = subject.survey(Reductions::NONE, Broken::Nothing);
    let sleep = subject.survey(SLEEP_SETS, Broken::Nothing);
    compare(&all, &sleep, "sleep sets")?;
    if sleep.states != all.states || sleep.transitions > all.transitions {
        return Err(format!(
            "sleep sets visit {} states in {} steps instead of {} in {}",
            sleep.states, sleep.transitions, all.states, all.transitions
        ));
    }
    let invisible = subject.survey(INVISIBLE_STEPS, Broken::Nothing);
    compare(&all, &invisible, "invisible steps")?;
    let both = subject.survey(Reductions::ALL, Broken::Nothing);
    compare(&all, &both, "all reductions")?;
    if let Some(runs) = subject.enumerate() {
        compare(&runs, &all, "the search")?;
    }
    Ok(())
}

/// Runs a check on random programs; a program that fails is made smaller, and shown with the schedule
/// of what is lost.
fn check<S: Strategy>(
    cases: u32,
    strategy: &S,
    check: impl Fn(&S::Value) -> Result<(), String>,
) where
    S::Value: std::fmt::Debug,
{
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng());
    let result = runner.run(strategy, |program| {
        check(&program).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, program)) => panic!("{why}\n{program:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

fn rng() -> proptest::test_runner::TestRng {
    use proptest::test_runner::{RngAlgorithm, TestRng};
    TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32])
}

#[test]
fn random_sql_programs_lose_nothing() {
    check(300, &programs::sql(), agree);
}

#[test]
fn random_toy_programs_lose_nothing() {
    check(300, &programs::toy(), agree);
}

#[test]
#[ignore = "takes minutes in release"]
fn many_random_sql_programs_lose_nothing() {
    check(5_000, &programs::sql(), agree);
}

#[test]
#[ignore = "takes minutes in release"]
fn many_random_toy_programs_lose_nothing() {
    check(5_000, &programs::toy(), agree);
}

/// Whether a broken rule loses something in one of so many random programs.
fn loses<S: Strategy>(cases: u32, strategy: &S, broken: Broken) -> bool
where
    S::Value: Subject,
{
    let mut runner = TestRunner::new_with_rng(Config::default(), rng());
    (0..cases).any(|_| {
        let program = strategy.new_tree(&mut runner).expect("a program").current();
        let all = program.survey(Reductions::NONE, Broken::Nothing);
        let some = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            program.survey(Reductions::ALL, broken)
        }));
        // A footprint that is too small is noticed at once as well.
        some.map_or(true, |some| compare(&all, &some, "").is_err())
    })
}

#[test]
fn sleeping_whether_or_not_steps_commute_loses_something() {
    assert!(loses(300, &programs::toy(), Broken::Conflicts));
}

#[test]
fn reads_that_do_not_count_lose_something() {
    assert!(loses(300, &programs::sql(), Broken::Reads));
}

#[test]
fn invisible_steps_that_read_what_others_write_lose_something() {
    assert!(loses(300, &programs::sql(), Broken::PrivateReads));
}

fn workers(n: usize, m: u8, crashes: u32) -> Explorer<Toy> {
    Explorer::new(Toy::new(m))
        .steps("worker", (), toy::worker)
        .count(n)
        .bounds(Bounds {
            crashes,
            ..Bounds::default()
        })
        .prompt_notice()
}

/// The second worker is the first to commit.
struct SecondFirst;

impl Monitor for SecondFirst {
    type State = u8;

    fn name(&self) -> &str {
        "the first one commits first"
    }

    fn start(&self) -> u8 {
        0
    }

    fn see(&self, first: &mut u8, seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        let Some(process) = seen.process.filter(|_| !self.ignores(seen)) else {
            return Remark::Fine;
        };
        if *first == 0 {
            *first = process.0 + 1;
        }
        match *first {
            2 => Remark::Violated("the second was faster".to_owned()),
            _ => Remark::Fine,
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        let commit = matches!(seen.choice, Choice::Step(_, request) if request.0 == 2);
        !commit || !matches!(seen.what, What::Statement { .. })
    }
}

#[test]
fn events_that_a_monitor_sees_are_tried_in_every_order() {
    let survey = |broken| {
        let explorer = workers(2, 2, 0).monitor(SecondFirst).broken(broken);
        explorer.survey().expect("it can be explored")
    };
    assert_eq!(survey(Broken::Nothing).violated.len(), 1);
    assert!(survey(Broken::Monitors).violated.is_empty());
}

#[test]
fn workers_that_claim_lose_nothing() {
    for (n, m) in [(3, 2), (3, 4), (4, 3)] {
        for crashes in 0..=2 {
            let survey = |reductions| {
                let explorer = workers(n, m, crashes).reductions(reductions);
                explorer.survey().expect("it can be explored")
            };
            let all = survey(Reductions::NONE);
            let sleep = survey(SLEEP_SETS);
            assert_eq!(sleep.states, all.states, "({n},{m},{crashes})");
            for reductions in [SLEEP_SETS, INVISIBLE_STEPS, Reductions::ALL] {
                let some = survey(reductions);
                let what = format!("({n},{m},{crashes}) {reductions:?}");
                compare(&all, &some, &what).unwrap_or_else(|lost| panic!("{lost}"));
                println!("{what}: {} {}", some.states, some.transitions);
            }
        }
    }
}
