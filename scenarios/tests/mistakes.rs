//! Every kind of mistake in a scenario or schedule file, with the place and the words in which it is
//! told.

use proptest::prelude::*;
use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::{Scenario, Source};

/// A scenario that is right; mistakes are made by replacing a part of it.
const RIGHT: &str = r"title = 'two workers'
databases = ['postgres', 'mysql']
setup = '''
CREATE TABLE job (id INT PRIMARY KEY, owner TEXT);
'''

[[process]]
name = 'worker'
count = 2
vars = { seen = 0 }

[[process.step]]
name = 'look'
sql = '''
SELECT id FROM job
LIMIT 1
'''
set = { seen = 'seen + 1' }

[[process.step]]
name = 'take'
when = 'look.rows > 0'
sql = '''UPDATE job SET owner = :process WHERE id = :look.id'''
retry = ['serialization']

[[always]]
name = 'one owner'
event = 'take.affected == 1'
at_most = 1

[[pinned]]
name = 'as reported'
schedule = 'worker-1:look +5s worker-1:take'
outcome = { 'postgres' = ['1 row (1)', 'ok', '1 affected'] }

[expect]
'postgres' = 'violated: one owner'
";

/// What is told of the scenario with `old` replaced by `new`.
fn told(old: &str, new: &str) -> String {
    assert_eq!(
        RIGHT.matches(old).count(),
        1,
        "`{old}` must stand there once"
    );
    match Scenario::parse(Source::new("x.toml", RIGHT.replace(old, new))) {
        Ok(_) => "nothing".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_scenario_is_right() {
    let scenario = Scenario::parse(Source::new("x.toml", RIGHT)).expect("it is right");
    assert_eq!(scenario.cases.len(), 2);
}

#[test]
fn mistakes_in_scenarios() {
    let table = [
        // TOML and keys.
        (
            "count = 2",
            "count = ",
            "x.toml:9:9: string values must be quoted, expected literal string",
        ),
        (
            "count = 2",
            "counts = 2",
            "x.toml:9:1: a process has no key `counts`\n    help: did you mean `count`?",
        ),
        (
            "count = 2",
            "count = 'two'",
            "x.toml:9:9: `count` must be an integer, not text",
        ),
        (
            "count = 2",
            "count = 0",
            "x.toml:9:9: `count` must be from 1 to 16",
        ),
        (
            "title = 'two workers'",
            "source = []",
            "x.toml:1:1: a scenario has no `title`",
        ),
        // Names of databases, levels, classes.
        (
            "'mysql']",
            "'oracle']",
            "x.toml:2:26: unknown database `oracle`; expected one of: postgres, mysql, mariadb, sqlite",
        ),
        (
            "'mysql']",
            "'postgres']",
            "x.toml:2:26: `postgres` stands here twice",
        ),
        (
            "setup = '''",
            "isolation = ['snapshot']\nsetup = '''",
            "x.toml:3:14: unknown isolation level `snapshot`; expected one of: read uncommitted, read committed, repeatable read, serializable",
        ),
        (
            "'mysql']\n",
            "'sqlite']\nisolation = ['read committed']\n",
            "x.toml:3:14: sqlite has no isolation level `read committed`",
        ),
        (
            "['serialization']",
            "['serialisation']",
            "x.toml:24:10: there is no error class `serialisation`; did you mean `serialization`?",
        ),
        // Expressions and bindings, inside the text.
        (
            "'look.rows > 0'",
            "'lok.rows > 0'",
            "x.toml:22:9: there is no step `lok`; did you mean `look`?",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > \"a\"'",
            "x.toml:22:21: expected a value\n    help: text is written in single quotes",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > '",
            "x.toml:22:21: expected a value",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > 0 0'",
            "x.toml:22:23: expected an operator or the end of the expression",
        ),
        (
            "'look.rows > 0'",
            "'look.rows'",
            "x.toml:22:9: expected a condition, this is a number",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > process'",
            "x.toml:22:9: the left side is a number, the right side is text",
        ),
        (
            "'look.rows > 0'",
            "'0 < look.rows < 5'",
            "x.toml:22:23: comparisons cannot be chained\n    help: join them with `and`",
        ),
        (
            "'look.rows > 0'",
            "'take.rows > 0'",
            "x.toml:22:9: the result of step `take` is not known yet",
        ),
        (
            "'look.rows > 0'",
            "'look > 0'",
            "x.toml:22:9: `look` is a step; say what of it, as in `look.rows`",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > 0 ; 1'",
            "x.toml:22:23: `;` means nothing in an expression",
        ),
        (
            "'look.rows > 0'",
            "'look.rows > 99999999999999999999'",
            "x.toml:22:21: not an integer of 64 bits",
        ),
        (
            ":look.id'''",
            ":lok.id'''",
            "x.toml:23:53: there is no step `lok`; did you mean `look`?",
        ),
        (
            "LIMIT 1\n",
            "LIMIT :n\n",
            "x.toml:16:7: there is no variable `n`",
        ),
        (
            "LIMIT 1\n",
            "LIMIT $1\n",
            "x.toml:16:7: a placeholder of postgres without an argument\n    help: bind a value with `:name`",
        ),
        (
            "LIMIT 1\n",
            "LIMIT ?\n",
            "x.toml:16:7: a placeholder of mysql without an argument\n    help: bind a value with `:name`",
        ),
        (
            "LIMIT 1\n",
            "LIMIT 1;\nSELECT 2\n",
            "x.toml:17:1: a second statement; `sql` is one, several are a `batch`",
        ),
        (
            "'seen + 1'",
            "'sen + 1'",
            "x.toml:18:17: there is no variable `sen`; did you mean `seen`?",
        ),
        // Steps and processes.
        (
            "name = 'take'",
            "name = 'look'",
            "x.toml:21:8: two steps are named `look`",
        ),
        (
            "name = 'take'",
            "name = 'crash'",
            "x.toml:21:8: `crash` has a meaning of its own and cannot name a step",
        ),
        (
            "name = 'take'",
            "name = 'take it'",
            "x.toml:21:8: `take it` cannot name a step: letters, digits and `_` only",
        ),
        (
            "retry = ['serialization']",
            "app = 'x'",
            "x.toml:20:1: a step has `sql` or `app`, not both",
        ),
        (
            "retry = ['serialization']",
            "session = 2",
            "x.toml:24:1: the process has no session 2; set `sessions`",
        ),
        (
            "retry = ['serialization']",
            "on_error = 'go on'",
            "x.toml:24:12: `go on` is neither `stop` nor `continue`",
        ),
        (
            "name = 'worker'",
            "name = '1st'",
            "x.toml:8:8: `1st` is not a process name",
        ),
        (
            "count = 2",
            "until = 'true'",
            "x.toml:9:1: `until` is for a process with `repeat = true`",
        ),
        (
            "count = 2",
            "skew = '20s'",
            "x.toml:9:8: `20s` is not a skew; write `+20s` or `-500ms`",
        ),
        (
            "set = { seen = 'seen + 1' }",
            "sleep = '5 days'",
            "x.toml:12:1: a step has `sql` or `sleep`, not both\nx.toml:18:9: `5 days` is not a duration; write `15s`, `200ms`, `5min` or `1h`",
        ),
        // Properties.
        (
            "'take.affected == 1'",
            "'tak.affected == 1'",
            "x.toml:28:10: there is no step `tak`; did you mean `take`?",
        ),
        (
            "at_most = 1",
            "at_least = 1",
            "x.toml:29:1: an `always` has no key `at_least`\n    help: its keys: at_most, event, name, per, sql, until",
        ),
        (
            "event = 'take.affected == 1'",
            "sql = 'SELECT :process'",
            "x.toml:28:15: a query has bindings only together with an `event`\nx.toml:29:1: an `always` has no key `at_most`\n    help: its keys: event, name, sql",
        ),
        (
            "event = 'take.affected == 1'\n",
            "",
            "x.toml:26:1: a property has `sql`, an `event`, or both",
        ),
        // Pinned schedules.
        (
            "worker-1:take'",
            "worker-3:take'",
            "x.toml:33:31: there is no process `worker-3`; the processes: worker-1, worker-2",
        ),
        (
            "worker-1:take'",
            "take'",
            "x.toml:33:31: several processes have a step `take`; write `process:take`",
        ),
        (
            "worker-1:take'",
            "worker-1:tke'",
            "x.toml:33:31: there is no step `tke`; did you mean `take`?",
        ),
        (
            "worker-1:take'",
            "worker-1:take!gone'",
            "x.toml:33:31: `gone` is not a loss; write not-arrived, reply-lost or still-running",
        ),
        (
            "+5s",
            "+5",
            "x.toml:33:27: `5` is not a duration; write `15s`, `200ms`, `5min` or `1h`",
        ),
        (
            "'ok', '1 affected']",
            "'1 affected']",
            "x.toml:34:26: 2 outcomes for 3 tokens",
        ),
        (
            "'1 affected']",
            "'one affected']",
            "x.toml:34:46: `one affected` is not an outcome",
        ),
        (
            "'1 affected']",
            "'ok; worker-9:take ok']",
            "x.toml:34:46: there is no process `worker-9`; the processes: worker-1, worker-2",
        ),
        (
            "'postgres' = [",
            "'sqlite' = [",
            "x.toml:34:13: `sqlite` is not among the `databases`",
        ),
        // Expectations.
        (
            "'postgres' = 'violated",
            "'postgres/serializable' = 'violated",
            "x.toml:37:1: `serializable` is not among the levels that are checked on postgres",
        ),
        (
            "'violated: one owner'",
            "'violated: one ownr'",
            "x.toml:37:14: there is no property `one ownr`; did you mean `one owner`?",
        ),
        (
            "'violated: one owner'",
            "'fine'",
            "x.toml:37:14: `fine` is not a verdict; write holds, violated: NAME, vacuous, incomplete or unsupported",
        ),
    ];
    let mut wrong = Vec::new();
    for (old, new, expected) in table {
        let told = told(old, new);
        if told != expected {
            wrong.push(format!(
                "{old:?} -> {new:?}\n  expected {expected:?}\n  told     {told:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn several_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = RIGHT
        .replace("count = 2", "counts = 2")
        .replace(":look.id", ":lok.id")
        .replace("'violated: one owner'", "'fine'");
    let error = Scenario::parse(Source::new("x.toml", text)).expect_err("it is wrong");
    let lines: Vec<usize> = error
        .problems
        .iter()
        .map(|problem| error.position(problem).line)
        .collect();
    assert_eq!(lines, [9, 23, 37]);
}

#[test]
fn a_variable_that_nothing_reads_is_a_mistake() {
    let text = RIGHT.replace("'seen + 1'", "'1'");
    let error = Scenario::parse(Source::new("x.toml", text)).expect_err("it is wrong");
    assert_eq!(
        error.to_string(),
        "x.toml:10:10: variable `seen` is never read"
    );
}

const SCHEDULE: &str = "rowlock schedule 1
database: postgres
isolation: read committed
process a
setup:
  | CREATE TABLE t (x INT);

events
a look #0: SELECT x FROM t
  -> 1 row (1, 'x')
  columns x int4, y text
a crash
";

#[test]
fn mistakes_in_schedules() {
    let table = [
        (
            "schedule 1",
            "schedule 2",
            "x:1:1: a schedule file of another version\n    help: this program reads `rowlock schedule 1`",
        ),
        (
            "rowlock schedule 1",
            "hello",
            "x:1:1: the first line is not `rowlock schedule 1`",
        ),
        (
            "database: postgres",
            "database: oracle",
            "x:2:11: unknown database `oracle`; expected one of: postgres, mysql, mariadb, sqlite",
        ),
        (
            "database: postgres\n",
            "",
            "x:7:1: no `database:` before the events",
        ),
        (
            "isolation: read",
            "levels: read",
            "x:3:1: `levels` is not a header\n    help: headers: title, variant, property, detail, check, database, isolation, bounds, granularity, pooler, matters, process-ids, transaction-ids, process, connect, setup; then `events`",
        ),
        (
            "process a",
            "process a, skew 20s",
            "x:4:17: expected a duration as in `+30s`, `-500ms` or `+12us`",
        ),
        (
            "setup:\n  | CREATE TABLE t (x INT);",
            "setup:",
            "x:5:7: expected a text, or lines that begin with `  | `",
        ),
        (
            "events\n",
            "",
            "x:8:1: `a` is not a header\n    help: headers: title, variant, property, detail, check, database, isolation, bounds, granularity, pooler, matters, process-ids, transaction-ids, process, connect, setup; then `events`",
        ),
        (
            "a look #0",
            "b look #0",
            "x:9:1: `b` is not in the table of processes; say the process with `%`",
        ),
        (
            "a look #0",
            "a look 0",
            "x:9:8: expected `#` and the number of the request",
        ),
        (
            "a look #0",
            "a look",
            "x:9:7: expected ` #` and the number of the request",
        ),
        (
            "1 row (1, 'x')",
            "2 rows (1, 'x')",
            "x:10:21: 1 rows stand here, not 2",
        ),
        ("(1, 'x')", "(1, 'x)", "x:10:19: the quote is not closed"),
        (
            "(1, 'x')",
            "(1, date 2026-02-30)",
            "x:10:21: there is no such day",
        ),
        (
            "(1, 'x')",
            "(1, money 3)",
            "x:10:16: `money` is not a type of values",
        ),
        (
            "(1, 'x')",
            "(1 'x')",
            "x:10:14: expected `, ` or the end of the values",
        ),
        (
            "-> 1 row (1, 'x')",
            "-> fine",
            "x:10:6: expected `ok`, a count, `error`, `waits` or `pauses`",
        ),
        (
            "-> 1 row (1, 'x')",
            "-> error 23505 oops: x",
            "x:10:18: `oops` is not an error class",
        ),
        (
            "columns x int4, y text",
            "detail 'x'",
            "x:11:3: this does not belong to the outcome above",
        ),
        (
            "a crash",
            "  a crash",
            "x:12:3: this does not belong to the outcome above",
        ),
    ];
    let mut wrong = Vec::new();
    for (old, new, expected) in table {
        assert_eq!(
            SCHEDULE.matches(old).count(),
            1,
            "`{old}` must stand there once"
        );
        let told = match ScheduleFile::parse(Source::new("x", SCHEDULE.replace(old, new))) {
            Ok(_) => "nothing".into(),
            Err(error) => error.to_string(),
        };
        if told != expected {
            wrong.push(format!(
                "{old:?} -> {new:?}\n  expected {expected:?}\n  told     {told:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A text with some places overwritten by fragments that mean something in it.
fn damaged(text: &'static str) -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "", "'", "\"", "'''", "\n", "[", "]", "{", "}", "=", "é", "\u{2028}", "\\", ":", "::", ".",
        ";", "$$", "$1", "/*", "--", "#", "(", "1", "+", "-", "@", "%", "|", "  | ", ":= '",
        " not ", "is",
    ]);
    let place = (0..text.len(), 0usize..4, fragment);
    prop::collection::vec(place, 1..4).prop_map(move |places| {
        let mut text = text.to_owned();
        for (at, length, fragment) in places {
            let boundary = |at: usize| (0..=at).rev().find(|i| text.is_char_boundary(*i));
            let start = boundary(at.min(text.len())).unwrap_or(0);
            let end = boundary((at + length).min(text.len())).unwrap_or(0);
            text.replace_range(start..end.max(start), fragment);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever stands in a file: it is read, or told with places that are in the file.
    #[test]
    fn damaged_scenarios_are_told(text in damaged(RIGHT)) {
        if let Err(error) = Scenario::parse(Source::new("x", text.clone())) {
            prop_assert!(!error.problems.is_empty());
            for problem in &error.problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{:?}", problem);
            }
        }
    }

    #[test]
    fn damaged_schedules_are_told(text in damaged(SCHEDULE)) {
        if let Err(error) = ScheduleFile::parse(Source::new("x", text.clone())) {
            for problem in &error.problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{:?}", problem);
            }
        }
    }
}

#[test]
fn levels_and_texts_of_each_database() {
    let databases = "databases = ['postgres', 'mysql']";
    let with = |line: &str| told(databases, &format!("{databases}\n{line}"));
    let level =
        "isolation = { postgres = ['serializable'], 'mysql, mariadb' = ['read committed'] }";
    assert!(with(level).contains("`mariadb` is not among the `databases`"));
    assert!(with(level).contains("x.toml:3:"), "{}", with(level));
    assert!(with("isolation = { oracle = ['serializable'] }").contains("oracle"));
    assert!(with("isolation = { postgres = [] }").contains("no level"));
    assert!(with("isolation = { postgres = ['snapshot'] }").contains("snapshot"));
    let twice = "isolation = { postgres = ['serializable'], 'postgres, mysql' = ['serializable'] }";
    assert!(with(twice).contains("the levels of postgres stand here twice"));
    let look = "sql = '''\nSELECT id FROM job\nLIMIT 1\n'''";
    let missing = told(look, "sql = { postgres = 'SELECT id FROM job' }");
    assert!(missing.contains("`sql` has no text for mysql"), "{missing}");
    let unknown = told(
        look,
        "sql = { postgres = 'SELECT 1', mysql = 'SELECT 1', oracle = 'x' }",
    );
    assert!(unknown.contains("oracle"), "{unknown}");
    let right = told(
        look,
        "sql = { postgres = 'SELECT id FROM job', 'mysql, mariadb' = 'SELECT id FROM job LIMIT 1' }",
    );
    assert_eq!(right, "nothing");
}
