//! Scenarios of steps on simulated MySQL and MariaDB: switches between two record locks of one statement.

use rowlock_model::verdict::{Exploration, Verdict, Violation};
use rowlock_scenarios::{Scenario, Source};
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;
use rowlock_sim::scenario::explorer;

fn explore(flavour: Flavour, toml: &str) -> Exploration {
    let database = if flavour.is_mariadb() {
        "mariadb"
    } else {
        "mysql"
    };
    let text = format!("title = 't'\ndatabases = ['{database}']\n{toml}");
    let scenario = Scenario::parse(Source::new("test.toml", text));
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let explorer = explorer(&scenario.cases[0], InnoDb::new(flavour), &|_, _, _| None);
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
            let outcome = event.outcome.as_ref().map(ToString::to_string);
            format!("{} {}", event.actor, outcome.unwrap_or_default())
        })
        .collect()
}

const TWO_UPDATES: &str = "
setup = '''
CREATE TABLE account (id INT PRIMARY KEY, amount INT NOT NULL);
INSERT INTO account VALUES (1, 100), (2, 200);
'''
process = [
    { name = 'upward', step = [{ name = 'raise', sql = 'UPDATE account SET amount = amount + 1' }] },
    { name = 'downward', step = [
        { name = 'lower', sql = 'UPDATE account SET amount = amount - 1 ORDER BY id DESC' },
    ] },
]

[[always]]
name = 'no deadlock'
event = \"step.class == 'deadlock'\"
at_most = 0
";

#[test]
fn two_updates_that_go_opposite_ways_deadlock_between_their_rows() {
    for flavour in [
        Flavour::MYSQL,
        Flavour::MARIADB_10_11,
        Flavour::MARIADB_11_8,
    ] {
        let found = explore(flavour, &format!("granularity = 'row'\n{TWO_UPDATES}"));
        let found = violation(found);
        let pauses = steps(&found);
        assert!(
            pauses.iter().any(|step| step == "downward pauses"),
            "{pauses:#?}"
        );
        // Neither waits for the other before it has a row: statement by statement nothing happens.
        let found = explore(flavour, TWO_UPDATES);
        assert_eq!(found.verdict, Verdict::Holds, "{:?}", found.counts);
    }
}

/// A worker holds row 1, and says so. A guard counts the rows of the group, then those of them that can be
/// locked, and passes if the counts are equal. A producer adds a row that comes first.
const TWO_COUNTS: &str = "
isolation = ['read committed']
setup = '''
CREATE TABLE job (id INT PRIMARY KEY, pri INT NOT NULL, grp VARCHAR(8) NOT NULL, KEY gp (grp, pri));
INSERT INTO job VALUES (1, 10, 'g'), (2, 20, 'g');
'''

[[process]]
name = 'holder'
connect = 'SET autocommit = 0'
step = [
    { name = 'take', sql = 'SELECT id FROM job WHERE id = 1 FOR UPDATE' },
    { name = 'say', sql = \"SELECT GET_LOCK('held', 0)\" },
]

[[process]]
name = 'guard'
step = [{ name = 'check', sql = '''
SELECT (SELECT COUNT(*) FROM job FORCE INDEX (gp) WHERE grp = 'g')
     = (SELECT COUNT(*) FROM (SELECT id FROM job FORCE INDEX (gp) WHERE grp = 'g'
                              ORDER BY pri LIMIT 2 FOR UPDATE SKIP LOCKED) AS l) AS free''' }]

[[process]]
name = 'producer'
step = [{ name = 'add', sql = \"INSERT INTO job VALUES (3, 5, 'g')\" }]

[[always]]
name = 'a guard passes only if nothing of the group is in work'
event = 'check.free == 1'
sql = \"SELECT 1 WHERE IS_FREE_LOCK('held') = 0\"
";

#[test]
fn a_guard_of_two_counts_passes_if_a_row_comes_between_them() {
    for flavour in [Flavour::MYSQL, Flavour::MARIADB_10_11] {
        let found = explore(flavour, &format!("granularity = 'row'\n{TWO_COUNTS}"));
        let found = violation(found);
        let steps = steps(&found);
        let add = steps.iter().rposition(|step| step == "producer 1 affected");
        let check = steps.iter().rposition(|step| step == "guard 1 row (1)");
        assert!(add.is_some() && add < check, "{steps:#?}");
        let found = explore(flavour, TWO_COUNTS);
        assert_eq!(found.verdict, Verdict::Holds, "{:?}", found.counts);
    }
    // A count that is older than the row ends the statement.
    let found = explore(
        Flavour::MARIADB_11_8,
        &format!("granularity = 'row'\n{TWO_COUNTS}"),
    );
    assert_eq!(found.verdict, Verdict::Holds, "{:?}", found.counts);
}
