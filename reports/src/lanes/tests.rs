//! Golden lanes of hand-made schedules. `UPDATE_EXPECT=1 cargo test -p rowlock-reports` rewrites
//! them; review the difference.

use expect_test::expect;
use rowlock_model::schedule::{Choice, Event, ProcessId, RequestId, SessionId};
use rowlock_model::{Column, DbError, Outcome, Reply, Value};

use super::*;

/// With a first line that is not indented: expectations lose the indentation that all lines share.
fn shown(lanes: &Lanes<'_>) -> String {
    format!("lanes:\n{}", lanes.render())
}

fn statement(sql: &str, args: &[Value]) -> Option<Statement> {
    Some(Statement {
        sql: sql.into(),
        args: args.to_vec(),
        batch: false,
    })
}

fn step(actor: &str, step: &str, sql: &str, outcome: Outcome) -> Event {
    Event {
        choice: Choice::Step(ProcessId(0), RequestId(0)),
        actor: actor.into(),
        step: Some(step.into()),
        statement: statement(sql, &[]),
        outcome: Some(outcome),
    }
}

fn bare(choice: Choice, actor: &str, step: Option<&str>, outcome: Option<Outcome>) -> Event {
    Event {
        choice,
        actor: actor.into(),
        step: step.map(Into::into),
        statement: None,
        outcome,
    }
}

fn ok(tag: &str) -> Outcome {
    Outcome::Done(Reply::tag(tag))
}

fn affected(n: u64) -> Outcome {
    Outcome::Done(Reply {
        affected: n,
        ..Reply::tag("UPDATE")
    })
}

fn one(value: i64) -> Outcome {
    Outcome::Done(Reply {
        columns: [Column {
            name: "id".into(),
            type_name: "int8".into(),
        }]
        .into(),
        rows: [[Value::Int(value)].into()].into(),
        ..Reply::tag("SELECT")
    })
}

fn waits(behind: &str) -> Outcome {
    Outcome::Waits(vec![behind.to_owned()])
}

const LOOK: &str = "SELECT id FROM job WHERE state = 'ready' LIMIT 1";
const TAKE: &str = "UPDATE job SET state = 'running', owner = 'x'\n   WHERE id = 1";

fn race() -> Vec<Event> {
    vec![
        step("worker-1", "begin", "BEGIN", ok("BEGIN")),
        step("worker-1", "look", LOOK, one(1)),
        step("worker-2", "look", LOOK, one(1)),
        step("worker-1", "take", TAKE, affected(1)),
        step("worker-2", "take", TAKE, waits("worker-1")),
        step("worker-1", "commit", "COMMIT", ok("COMMIT")),
        bare(
            Choice::Resume(SessionId(1)),
            "worker-2",
            Some("take"),
            Some(affected(1)),
        ),
    ]
}

#[test]
fn waiting_is_a_bar_and_marked_steps_stand_out() {
    let events = race();
    let frames = Frame::all(&events);
    let mut lanes = Lanes::new(&frames, 80);
    lanes.matters = &[3, 6];
    expect![[r#"
        lanes:
              worker-1                              worker-2
           1  begin: BEGIN → ok
           2  look: SELECT id FROM job WHERE stat…
              → 1 row (1)
           3                                        look: SELECT id FROM job WHERE stat…
                                                    → 1 row (1)
        ●  4  take: UPDATE job SET … WHERE id = 1
              → 1 affected
           5                                        take: UPDATE job SET … WHERE id = 1
                                                    → waits for worker-1
           6  commit: COMMIT → ok                   │
        ●  7                                        take goes on → 1 affected

          2, 3  SELECT id FROM job WHERE state = 'ready' LIMIT 1
          4, 5  UPDATE job SET state = 'running', owner = 'x'
                WHERE id = 1
    "#]]
    .assert_eq(&shown(&lanes));
}

#[test]
fn faults_and_the_clock_go_across_all_lanes() {
    let deadlock = DbError::postgres("40P01", "deadlock detected");
    let mut lost = step("b", "take", TAKE, affected(1));
    lost.choice = Choice::Lose(ProcessId(1), RequestId(1), Loss::ReplyLost);
    let events = vec![
        step("a", "take", TAKE, affected(1)),
        step("b", "take", TAKE, waits("a")),
        bare(
            Choice::Deadlock(SessionId(1)),
            "b",
            Some("take"),
            Some(Outcome::Failed(deadlock)),
        ),
        bare(Choice::Crash(ProcessId(0)), "a", None, None),
        bare(Choice::Advance(30_000_000), "", None, None),
        bare(Choice::Notice(SessionId(0)), "a", None, None),
        lost,
        bare(Choice::Kill(SessionId(1)), "b", None, None),
    ];
    expect![[r#"
        lanes:
              a                                b
           1  take: UPDATE job SET … WHERE i…
              → 1 affected
           2                                   take: UPDATE job SET … WHERE i…
                                               → waits for a
           3                                   take is the deadlock victim
                                               → error 40P01: deadlock detect…
           4  ──── a crashes ─────────────────────────────────────────────────
           5  ──── the clock moves by 30s ────────────────────────────────────
           6  ──── the server notices that a is gone ─────────────────────────
           7  ──── b loses its connection after its statement took effect: take ────
              UPDATE job SET state = 'running', owner = 'x' WHERE id = 1
           8  ──── the server ends the session of b ──────────────────────────

          1, 2  UPDATE job SET state = 'running', owner = 'x'
                WHERE id = 1
    "#]]
    .assert_eq(&shown(&Lanes::new(&Frame::all(&events), 70)));
}

#[test]
fn narrow_lanes_keep_the_step_and_the_outcome() {
    let mut events = race();
    events.push(step("reaper/2", "reap", TAKE, affected(0)));
    events.push(step("reaper", "look", LOOK, one(2)));
    expect![[r#"
        lanes:
              worker-1            worker-2            reaper/2            reaper
           1  begin: BEGIN → ok
           2  look: SELECT id F…
              → 1 row (1)
           3                      look: SELECT id F…
                                  → 1 row (1)
           4  take: UPDATE job…
              → 1 affected
           5                      take: UPDATE job…
                                  → waits for worke…
           6  commit: COMMIT      │
              → ok                │
           7                      take goes on
                                  → 1 affected
           8                                          reap: UPDATE job…
                                                      → 0 affected
           9                                                              look: SELECT id F…
                                                                          → 1 row (2)

        2, 3, 9  SELECT id FROM job WHERE state = 'ready' LIMIT 1
        4, 5, 8  UPDATE job SET state = 'running', owner = 'x'
                 WHERE id = 1
    "#]]
    .assert_eq(&shown(&Lanes::new(&Frame::all(&events), 40)));
}

#[test]
fn arguments_messages_and_notes() {
    let mut first = step(
        "worker-1",
        "insert",
        "INSERT INTO job VALUES ($1, $2)",
        Outcome::Failed(
            DbError::postgres(
                "23505",
                "duplicate key value violates unique constraint \"job_pkey\"",
            )
            .with_detail("Key (id)=(1) already exists."),
        ),
    );
    first.statement = statement(
        "INSERT INTO job VALUES ($1, $2)",
        &[Value::Int(1), Value::Null],
    );
    first.step = None;
    let events = vec![first];
    let frames = Frame::all(&events);
    let mut lanes = Lanes::new(&frames, 60);
    lanes.verbose = true;
    lanes.notes.insert(0, "live: 1 affected".to_owned());
    expect![[r#"
        lanes:
              worker-1
           1  INSERT INTO job VALUES ($1, $2)
              → error 23505: duplicate key value violates unique co…
              live: 1 affected

             1  INSERT INTO job VALUES ($1, $2)
                arguments: 1, NULL

             1  → error 23505: duplicate key value violates unique constraint "job_pkey"
    "#]]
    .assert_eq(&shown(&lanes));
}

#[test]
fn colour_changes_no_column() {
    let events = race();
    let frames = Frame::all(&events);
    let mut lanes = Lanes::new(&frames, 80);
    lanes.matters = &[3, 6];
    let plain = lanes.render();
    lanes.palette = Palette::coloured();
    let coloured = lanes.render();
    assert_ne!(plain, coloured);
    let stripped: String = anstyle_strip(&coloured);
    assert_eq!(plain, stripped);
}

/// Removes `ESC [ .. m`.
fn anstyle_strip(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(|c| *c == 'm');
        } else {
            out.push(c);
        }
    }
    out
}
