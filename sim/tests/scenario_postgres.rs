//! Scenarios of steps on the simulated PostgreSQL: sessions that are closed, lost and opened again.

use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Exploration, Verdict, Violation};
use rowlock_scenarios::{Scenario, Source};
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::explore::Random;
use rowlock_sim::scenario::explorer;

const SETUP: &str = "
databases = ['postgres']
setup = '''
CREATE TABLE job (id INT PRIMARY KEY, n INT NOT NULL);
INSERT INTO job VALUES (1, 0);
'''
";

fn scenario(toml: &str) -> Scenario {
    let text = format!("title = 't'\n{SETUP}{toml}");
    Scenario::parse(Source::new("test.toml", text)).unwrap_or_else(|error| panic!("{error}"))
}

fn explore(toml: &str) -> Exploration {
    let scenario = scenario(toml);
    let explorer = explorer(&scenario.cases[0], Postgres::new(0), &|_, _, _| None);
    let explorer = explorer.expect("there is no actor");
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

fn steps(violation: &Violation) -> Vec<String> {
    let events = violation.schedule.events.iter();
    events
        .map(|event| {
            let step = event.step.as_deref().unwrap_or("-");
            let outcome = event.outcome.as_ref().map(ToString::to_string);
            format!("{} {step} {}", event.actor, outcome.unwrap_or_default())
        })
        .collect()
}

#[test]
fn a_closed_session_is_opened_again_and_its_locks_are_free() {
    let found = explore(
        "
[[process]]
name = 'p'
count = 2
step = [
    { name = 'lock', sql = 'SELECT pg_advisory_lock(1)' },
    { name = 'close', close = true },
    { name = 'add', sql = 'UPDATE job SET n = n + 1' },
]

[[at_end]]
name = 'both'
sql = 'SELECT n FROM job WHERE n <> 2'

[[at_end]]
name = 'free'
sql = \"SELECT 1 FROM pg_locks WHERE locktype = 'advisory'\"
",
    );
    assert_eq!(found.verdict, Verdict::Holds);
    assert!(found.counts.waits > 0, "{:?}", found.counts);
}

#[test]
fn a_lost_connection_is_retried_on_a_new_one() {
    let toml = "
bounds = { losses = 1 }
contention = 'none'

[[process]]
name = 'p'
step = [{ name = 'add', sql = 'UPDATE job SET n = n + 1', retry = ['connection-lost'] }]

[[always]]
name = 'once'
sql = 'SELECT n FROM job WHERE n > 1'
";
    let found = violation(explore(toml));
    assert_eq!(found.property, "once");
    assert_eq!(
        steps(&found),
        ["p add error 08006", "p add ", "p add 1 affected"]
    );
    assert!(matches!(found.schedule.events[0].choice, Choice::Lose(..)));
}

#[test]
fn a_client_that_stops_waiting_keeps_its_session() {
    let found = explore(
        "
bounds = { cancels = 1 }

[[process]]
name = 'holder'
step = [
    { sql = 'BEGIN' },
    { name = 'add', sql = 'UPDATE job SET n = n + 1' },
    { sql = 'COMMIT' },
]

[[process]]
name = 'impatient'
step = [
    { name = 'add', sql = 'UPDATE job SET n = n + 1', cancel = true },
    { name = 'again', when = \"add.class = 'cancelled-by-client'\", sql = 'UPDATE job SET n = n + 1' },
]

[[sometimes]]
name = 'both statements of the impatient take effect'
sql = 'SELECT n FROM job WHERE n = 3'
",
    );
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn random_executions_and_replay_agree_with_the_search() {
    let toml = "
[[process]]
name = 'p'
count = 3
step = [
    { name = 'read', sql = 'SELECT n FROM job' },
    { name = 'write', sql = 'UPDATE job SET n = :read.n + 1' },
]

[[at_end]]
name = 'no update is lost'
sql = 'SELECT n FROM job WHERE n <> 3'
";
    let scenario = scenario(toml);
    let new = || explorer(&scenario.cases[0], Postgres::new(0), &|_, _, _| None).unwrap();
    let searched = violation(new().run().unwrap());
    let random = Random {
        seed: 3,
        executions: 100,
        ..Random::default()
    };
    let sampled = new().random(random, &mut |_| ControlFlow::Continue(()));
    let sampled = violation(sampled.unwrap());
    assert_eq!(sampled.property, searched.property);
    assert_eq!(
        sampled.schedule.events.len(),
        searched.schedule.events.len()
    );
    for found in [searched, sampled] {
        let replayed = new().replay(&found.schedule).unwrap();
        assert_eq!(replayed.schedule, found.schedule);
        assert_eq!(replayed.violation, Some((found.property, found.detail)));
    }
}
