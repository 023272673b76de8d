//! Processes of steps: what they do next, what they remember, what they tell properties.

use rowlock_model::schedule::Statement;
use rowlock_model::{Column, DbError, Dialect, Reply, Value};
use rowlock_scenarios::monitor::{EventMonitor, Remark};
use rowlock_scenarios::script::{Act, Answer, Script, ScriptState, Told};
use rowlock_scenarios::{Case, Scenario, Source};

fn case(rest: &str) -> Case {
    let text = format!("title = 'x'\ndatabases = ['postgres']\n{rest}");
    let scenario = Scenario::parse(Source::new("x.toml", text));
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    scenario.cases.into_iter().next().expect("there is a case")
}

fn script(case: &Case) -> Script {
    Script::of(&case.processes[0], Dialect::Postgres).expect("it has steps")
}

/// A process at work, with a clock that it must not read unless it says so.
struct Play {
    script: Script,
    state: ScriptState,
    clock: Option<i64>,
}

impl Play {
    fn of(case: &Case) -> Play {
        let script = script(case);
        let state = script.start();
        Play {
            script,
            state,
            clock: None,
        }
    }

    fn next(&mut self) -> (String, Act) {
        let clock = self.clock;
        let now = || clock.expect("nothing here reads the clock");
        let next = self.script.next(&mut self.state, &now);
        let next = next.expect("every expression has a value");
        (next.step.to_string(), next.act)
    }

    fn sends(&mut self) -> (String, String, Vec<Value>) {
        match self.next() {
            (step, Act::Send(Statement { sql, args, .. })) => (step, sql.to_string(), args),
            other => panic!("{other:?} sends nothing"),
        }
    }

    fn done(&mut self, answer: Answer) -> Vec<Told> {
        let told = self.script.done(&mut self.state, &answer, &|| 0);
        told.expect("every expression has a value")
    }
}

fn affected(n: u64) -> Answer {
    Answer::Exec(Ok(Reply {
        affected: n,
        ..Reply::tag("UPDATE")
    }))
}

fn tag(tag: &str) -> Answer {
    Answer::Exec(Ok(Reply::tag(tag)))
}

fn row(name: &str, value: impl Into<Value>) -> Answer {
    let column = Column {
        name: name.into(),
        type_name: "text".into(),
    };
    Answer::Exec(Ok(Reply {
        columns: [column].into(),
        rows: [[value.into()].into()].into(),
        affected: 1,
        ..Reply::tag("SELECT")
    }))
}

fn error(code: &str) -> Answer {
    Answer::Exec(Err(DbError::postgres(code, "no")))
}

const CLAIM: &str = r"
bounds = { rounds = 2 }
[[process]]
name = 'w'
vars = { tries = 0 }
[[process.step]]
sql = '''BEGIN'''
[[process.step]]
name = 'look'
sql = '''SELECT id FROM job'''
set = { tries = 'tries + 1' }
[[process.step]]
name = 'take'
when = 'look.rows > 0'
sql = '''UPDATE job SET owner = :process, tries = :tries WHERE id = :look.id'''
retry = ['serialization']
[[process.step]]
name = 'commit'
sql = '''COMMIT'''
[[always]]
name = 'once'
event = 'take.affected == 1'
per = 'look.id'
at_most = 1
";

#[test]
fn bindings_conditions_and_the_end() {
    let mut play = Play::of(&case(CLAIM));
    assert_eq!(play.sends().0, "step1");
    play.done(tag("BEGIN"));
    assert_eq!(play.sends().0, "look");
    play.done(row("id", 7));
    let (step, sql, args) = play.sends();
    assert_eq!(step, "take");
    assert_eq!(sql, "UPDATE job SET owner = $1, tries = $2 WHERE id = $3");
    assert_eq!(args, ["w".into(), Value::Int(1), Value::Int(7)]);
    let told = play.done(affected(1));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].per, Some(Value::Int(7)));
    assert_eq!(play.sends().0, "commit");
    play.done(tag("COMMIT"));
    assert_eq!(play.next().1, Act::End);
    assert!(play.state.has_ended());
}

#[test]
fn a_step_whose_condition_fails_is_left_out() {
    let mut play = Play::of(&case(CLAIM));
    play.next();
    play.done(tag("BEGIN"));
    play.next();
    play.done(tag("SELECT"));
    assert_eq!(play.sends().0, "commit");
}

#[test]
fn a_retry_rolls_back_forgets_results_keeps_variables_and_is_a_round() {
    let mut play = Play::of(&case(CLAIM));
    for round in 1..=2 {
        assert_eq!(play.sends().0, "step1");
        play.done(tag("BEGIN"));
        play.next();
        play.done(row("id", 7));
        assert_eq!(play.sends().2[1], Value::Int(round));
        play.done(error("40001"));
        if round == 1 {
            let (step, sql, _) = play.sends();
            assert_eq!((&*step, &*sql), ("rollback", "ROLLBACK"));
            play.done(tag("ROLLBACK"));
        }
    }
    // The bound on rounds is used up.
    assert_eq!(play.next().1, Act::Stop);
}

#[test]
fn other_errors_stop_the_process() {
    let mut play = Play::of(&case(CLAIM));
    play.next();
    play.done(error("42601"));
    assert_eq!(play.next().1, Act::Stop);
}

/// What nobody will read again is not remembered, so that runs that differ in it only are equal.
#[test]
fn states_that_the_process_cannot_tell_apart_are_equal() {
    let case = case(CLAIM);
    let after = |id: i32, n: u64| {
        let mut play = Play::of(&case);
        play.next();
        play.done(tag("BEGIN"));
        play.next();
        play.done(row("id", id));
        let between = play.state.clone();
        play.next();
        play.done(affected(n));
        (between, play.state)
    };
    let (one, two) = (after(1, 1), after(2, 0));
    assert_ne!(one.0, two.0);
    assert_eq!(one.1, two.1);
}

#[test]
fn a_lost_connection_is_opened_again_before_its_next_use() {
    let mut play = Play::of(&case(
        r"
bounds = { rounds = 2 }
[[process]]
name = 'w'
step = [{ sql = '''SELECT 1''', retry = ['connection-lost'] }]
",
    ));
    play.next();
    play.done(Answer::Exec(Err(DbError::connection_lost("gone"))));
    assert_eq!(play.next().1, Act::Connect);
    play.done(Answer::Connected(Ok(())));
    assert_eq!(play.sends().1, "SELECT 1");
}

#[test]
fn only_a_whole_rollback_ends_the_transaction() {
    let mut play = Play::of(&case(
        r"
bounds = { rounds = 2 }
[[process]]
name = 'w'
step = [
  { sql = '''BEGIN''' },
  { sql = '''ROLLBACK TO SAVEPOINT a''' },
  { sql = '''SELECT 1''', retry = ['other'] },
]
",
    ));
    play.next();
    play.done(tag("BEGIN"));
    play.next();
    play.done(tag("ROLLBACK"));
    play.next();
    play.done(error("XX000"));
    assert_eq!(play.sends().0, "rollback");
}

#[test]
fn the_client_stops_waiting_as_often_as_the_bounds_say() {
    let case = case(
        r"
bounds = { cancels = 1 }
[[process]]
name = 'w'
step = [
  { name = 'lock', sql = '''SELECT 1''', cancel = true },
  { name = 'again', when = '''lock.class == 'cancelled-by-client' ''', sql = '''SELECT 2''', cancel = true },
]
",
    );
    let script = script(&case);
    let mut state = script.start();
    let now = || 0;
    assert!(script.next(&mut state, &now).expect("a value").cancel);
    script
        .done(&mut state, &Answer::Cancelled, &now)
        .expect("a value");
    let next = script.next(&mut state, &now).expect("a value");
    assert_eq!((&*next.step, next.cancel), ("again", false));
}

#[test]
fn rounds_repeat_until_the_condition_holds() {
    let mut play = Play::of(&case(
        r"
[[process]]
name = 'w'
repeat = true
until = 'poll.n == 2'
step = [{ name = 'poll', sql = '''SELECT 1''' }]
",
    ));
    for n in [1, 3] {
        let before = play.state.clone();
        assert_eq!(play.sends().0, "poll");
        play.done(row("n", n));
        play.next();
        // Without a bound, and with nobody who reads it, the round is not counted.
        assert_eq!(play.state, before);
    }
    play.done(row("n", 2));
    assert_eq!(play.next().1, Act::End);
}

#[test]
fn the_clock_is_read_only_where_it_is_named() {
    let mut play = Play::of(&case(
        r"
[[process]]
name = 'w'
step = [{ sql = '''SELECT 1''' }, { sql = '''SELECT :now''' }]
",
    ));
    play.next();
    play.done(row("n", 1));
    play.clock = Some(5);
    assert_eq!(play.sends().2, [Value::TimestampTz(5)]);
}

#[test]
fn operands_that_do_not_go_together_are_told_with_their_place() {
    let case = case(
        r"
[[process]]
name = 'w'
step = [{ name = 'a', sql = '''SELECT 1''' }, { when = 'a.x > 3', sql = '''SELECT 2''' }]
",
    );
    let script = script(&case);
    let mut state = script.start();
    script
        .done(&mut state, &row("x", "text"), &|| 0)
        .expect("a value");
    let error = script
        .next(&mut state, &|| 0)
        .expect_err("text is not a number");
    assert_eq!(error.message, "`text` and `3` cannot be compared");
}

fn told(per: Option<Value>, ends: bool) -> Told {
    Told {
        property: 0,
        ends,
        per,
        args: Vec::new(),
    }
}

#[test]
fn monitors_count_each_value_for_itself_and_stop_where_it_makes_no_difference() {
    let monitors = EventMonitor::of(&case(CLAIM));
    let monitor = &monitors[0];
    let mut state = monitor.start();
    let see = |state: &mut _, n: i64| monitor.see(state, 0, &told(Some(n.into()), false), None);
    assert_eq!(see(&mut state, 7), Remark::Fine);
    assert_eq!(see(&mut state, 8), Remark::Fine);
    let twice = "happened twice for `7`, at most once expected";
    assert_eq!(see(&mut state, 7), Remark::Violated(twice.into()));
    let before = state.clone();
    assert_eq!(see(&mut state, 7), Remark::Violated(twice.into()));
    assert_eq!(state, before);
    // The order in which the values came is not remembered.
    let mut other = monitor.start();
    for n in [8, 7, 7] {
        see(&mut other, n);
    }
    assert_eq!(state, other);
}

const INSIDE: &str = r"
[[process]]
name = 'w'
count = 3
step = [{ name = 'lock', sql = '''SELECT 1''' }, { name = 'free', sql = '''SELECT 2''' }]
[[always]]
name = 'one at a time'
event = 'lock.rows == 1'
until = 'free.ran'
at_most = 1
[[at_end]]
name = 'some lock'
event = 'lock.ran'
at_least = 2
[[sometimes]]
name = 'freed'
event = 'free.ran'
";

#[test]
fn monitors_know_who_is_inside() {
    let monitors = EventMonitor::of(&case(INSIDE));
    let monitor = &monitors[0];
    let (enter, leave) = (told(None, false), told(None, true));
    let mut state = monitor.start();
    assert_eq!(monitor.see(&mut state, 0, &enter, None), Remark::Fine);
    assert_eq!(monitor.see(&mut state, 0, &enter, None), Remark::Fine);
    assert_eq!(monitor.see(&mut state, 0, &leave, None), Remark::Fine);
    assert_eq!(monitor.see(&mut state, 1, &enter, None), Remark::Fine);
    let both = "w-2 and w-3 are inside at once, at most 1 may be";
    assert_eq!(
        monitor.see(&mut state.clone(), 2, &enter, None),
        Remark::Violated(both.into())
    );
    // A crash ends it as well.
    monitor.gone(&mut state, 1);
    assert_eq!(monitor.see(&mut state, 2, &enter, None), Remark::Fine);
}

#[test]
fn monitors_ask_at_the_end_and_once_in_an_exploration() {
    let monitors = EventMonitor::of(&case(INSIDE));
    let (end, once) = (&monitors[2], &monitors[1]);
    assert_eq!((&**end.name(), &**once.name()), ("some lock", "freed"));
    let mut state = end.start();
    let lock = Told {
        property: end.property(),
        ..told(None, false)
    };
    let never = "never happened, at least 2 times expected";
    assert_eq!(end.at_end(&state), Remark::Violated(never.into()));
    end.see(&mut state, 0, &lock, None);
    let few = "happened once, at least 2 times expected";
    assert_eq!(end.at_end(&state), Remark::Violated(few.into()));
    end.see(&mut state, 1, &lock, None);
    assert_eq!(end.at_end(&state), Remark::Fine);
    let freed = Told {
        property: once.property(),
        ..told(None, false)
    };
    let mut state = once.start();
    assert_eq!(once.see(&mut state, 0, &freed, None), Remark::Happened);
}

#[test]
fn a_query_decides_whether_the_event_counts() {
    let case = case(
        r"
[[process]]
name = 'w'
step = [{ name = 'take', sql = '''SELECT 1''' }]
[[always]]
name = 'still mine'
event = 'take.ran'
sql = '''SELECT 1 FROM job WHERE id = :take.id AND owner <> :process'''
",
    );
    let monitors = EventMonitor::of(&case);
    let query = "SELECT 1 FROM job WHERE id = $1 AND owner <> $2";
    assert_eq!(monitors[0].query(), Some(query));
    let mut play = Play::of(&case);
    play.next();
    let told = play.done(row("id", 7));
    assert_eq!(told[0].args, [Value::Int(7), "w".into()]);
    let mut state = monitors[0].start();
    assert_eq!(
        monitors[0].see(&mut state, 0, &told[0], Some(&[])),
        Remark::Fine
    );
    let rows = [[Value::Int(1)].into()];
    let wrong = "w: the query returned (1)";
    assert_eq!(
        monitors[0].see(&mut state, 0, &told[0], Some(&rows)),
        Remark::Violated(wrong.into())
    );
    let values = told[0].values();
    assert_eq!(Told::from_values(&values).as_ref(), Some(&told[0]));
}
