//! Scenarios of steps as explorations, on the toy database.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::verdict::{Exploration, Verdict};
use rowlock_scenarios::scenario::Process;
use rowlock_scenarios::{Scenario, Source};
use rowlock_sim::explore::{ExploreError, ProcessSpec};
use rowlock_sim::scenario::explorer;
use rowlock_sim::toy::{Mutant, Toy};

fn no_actors(
    _: &Process,
    _: &str,
    _: &BTreeMap<Arc<str>, Value>,
) -> Option<Result<ProcessSpec, String>> {
    None
}

fn explore(toml: &str, toy: Toy) -> Result<Exploration, ExploreError> {
    let source = Source::new("test.toml", toml);
    let scenario = Scenario::parse(source).unwrap_or_else(|error| panic!("{error}"));
    let explorer = explorer(&scenario.cases[0], toy, &no_actors).expect("there is no actor");
    explorer.run()
}

const WORKERS: &str = "
title = 'workers of the toy'
databases = ['postgres']

[[process]]
name = 'worker'
count = 2
repeat = true
until = 'claim.rows = 0'

[[process.step]]
name = 'claim'
sql = 'claim'

[[process.step]]
name = 'mark'
when = 'claim.rows > 0'
sql = 'update :claim.row'

[[process.step]]
name = 'publish'
when = 'claim.rows > 0'
sql = 'commit'

[[process.step]]
name = 'finish'
when = 'claim.rows > 0'
sql = 'done :claim.row'

[[always]]
name = 'no row twice'
event = 'claim.rows > 0'
per = 'claim.row'
at_most = 1

[[at_end]]
name = 'both rows'
event = 'finish.affected = 1'
at_least = 2
at_most = 2

[[at_end]]
name = 'nothing left'
sql = 'pending'
";

#[test]
fn workers_of_steps_converge_and_hold() {
    let found = explore(WORKERS, Toy::new(2)).expect("it can be explored");
    assert_eq!(found.verdict, Verdict::Holds);
    // Two looping workers over two rows, with the rows already seen in the monitor's state.
    assert!(found.counts.states < 200, "{:?}", found.counts);
    // Before and after each step, for each of two rows, and the claim of none: once for both processes,
    // which are two of one kind.
    assert_eq!(found.counts.polls, 20);
}

#[test]
fn a_mutant_violates_the_monitor_with_a_readable_schedule() {
    let toy = Toy::new(2).with(Mutant::ClaimIgnoresLocks);
    let found = explore(WORKERS, toy).expect("it can be explored");
    let Verdict::Violated(violation) = found.verdict else {
        panic!("{}", found.verdict);
    };
    assert_eq!(violation.property, "no row twice");
    assert_eq!(
        violation.detail,
        "happened twice for `0`, at most once expected"
    );
    let events: Vec<String> = violation
        .schedule
        .events
        .iter()
        .map(|event| {
            let step = event.step.as_deref().unwrap_or("-");
            let outcome = event.outcome.as_ref().expect("each is a statement");
            format!("{} {step}: {outcome}", event.actor)
        })
        .collect();
    assert_eq!(
        events,
        ["worker-1 claim: 1 row (0)", "worker-2 claim: 1 row (0)"]
    );
    assert_eq!(violation.matters, [0, 1]);
}

#[test]
fn an_unknown_statement_ends_the_process_with_its_error() {
    let toml = WORKERS.replace("sql = 'commit'", "sql = 'comit'");
    let found = explore(&toml, Toy::new(2)).expect("it can be explored");
    let Verdict::Violated(violation) = found.verdict else {
        panic!("{}", found.verdict);
    };
    // Its sessions are closed, so that its lock is free and the other worker claims the row again.
    assert_eq!(violation.property, "no row twice");
}
