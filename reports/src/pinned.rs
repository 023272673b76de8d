//! Pinned schedules as frames, with the outcomes that the file expects.

use rowlock_model::schedule::Statement;
use rowlock_scenarios::pinned::{Expected, Pinned, PinnedAction, SessionRef, session_label};
use rowlock_scenarios::scenario::{Step, StepAction};

use crate::frame::{Frame, Kind, Said, Tone};

/// The events of a pinned schedule, each followed by the waiters that it lets go on.
pub fn frames(pinned: &Pinned) -> Vec<Frame> {
    let mut frames = Vec::new();
    for event in &pinned.events {
        let mut frame = frame(pinned, event.action);
        frame.outcome = match frame.kind {
            Kind::Crash | Kind::Notice | Kind::Kill | Kind::Advance(_) => None,
            _ => said(&event.expected.own),
        };
        frames.push(frame);
        for (session, step, expected) in &event.expected.then {
            frames.push(Frame {
                actor: session_label(&pinned.processes, *session),
                kind: Kind::Resume,
                step: Some(step_of(pinned, session.process, *step).name.to_string()),
                statement: None,
                outcome: said(expected),
            });
        }
    }
    frames
}

fn step_of(pinned: &Pinned, process: usize, step: usize) -> &Step {
    &pinned.processes[process].steps()[step]
}

fn frame(pinned: &Pinned, action: PinnedAction) -> Frame {
    let process = |process: usize| SessionRef {
        process,
        session: 0,
    };
    let (session, kind, step) = match action {
        PinnedAction::Step(p, s) | PinnedAction::Lose(p, s, _) => {
            let step = step_of(pinned, p, s);
            let session = SessionRef {
                process: p,
                session: step.session,
            };
            let kind = match action {
                PinnedAction::Lose(_, _, loss) => Kind::Lose(loss),
                _ => Kind::Step,
            };
            (session, kind, Some(step))
        }
        PinnedAction::Observe(observer) => {
            let observer = &pinned.observers[observer];
            return Frame {
                step: Some(format!("?{}", observer.name)),
                ..bare(String::new(), Kind::Observe)
            };
        }
        PinnedAction::Advance(by) => {
            let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            return bare(String::new(), Kind::Advance(micros));
        }
        PinnedAction::Crash(p) => (process(p), Kind::Crash, None),
        PinnedAction::Notice(p) => (process(p), Kind::Notice, None),
        PinnedAction::Kill(session) => (session, Kind::Kill, None),
        PinnedAction::Deadlock(session) => (session, Kind::Deadlock, None),
        PinnedAction::Expire(session) => (session, Kind::Expire, None),
        PinnedAction::Resume(session) => (session, Kind::Resume, None),
        PinnedAction::Continue(session) => (session, Kind::Continue, None),
        PinnedAction::Route(session, backend) => (session, Kind::Route(backend), None),
        PinnedAction::Late(session) => (session, Kind::Late, None),
    };
    Frame {
        step: step.map(|step| step.name.to_string()),
        statement: step.and_then(statement),
        ..bare(session_label(&pinned.processes, session), kind)
    }
}

fn bare(actor: String, kind: Kind) -> Frame {
    Frame {
        actor,
        kind,
        step: None,
        statement: None,
        outcome: None,
    }
}

/// What a step sends, with bindings as the file has them; also what it does by itself, in words.
fn statement(step: &Step) -> Option<Statement> {
    let (sql, batch) = match &step.action {
        StepAction::Sql(bound) => (bound.text.text.clone(), false),
        StepAction::Batch(text) => (text.text.clone(), true),
        StepAction::App(what) => (format!("({what})").into(), false),
        StepAction::Sleep(_) | StepAction::Close => return None,
    };
    Some(Statement {
        sql,
        args: Vec::new(),
        batch,
    })
}

fn said(expected: &Expected) -> Option<Said> {
    let (text, tone) = match expected {
        Expected::Any => return None,
        Expected::Lost => ("lost".to_owned(), Tone::Refused),
        Expected::Waits(None) => ("waits".to_owned(), Tone::Waits),
        Expected::Waits(Some(behind)) => (format!("waits for {}", behind.join(", ")), Tone::Waits),
        Expected::Pauses(_) => (expected.to_string(), Tone::Waits),
        Expected::Text(text) if text.starts_with("error ") => (text.to_string(), Tone::Refused),
        Expected::Text(text) => (text.to_string(), Tone::Done),
    };
    Some(Said { text, tone })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use rowlock_scenarios::{Scenario, Source};

    use super::*;
    use crate::lanes::Lanes;

    #[test]
    fn expected_outcomes_are_drawn_as_found_ones() {
        let text = r#"
title = "t"
databases = ["postgres"]

[[pinned]]
name = "observed"
schedule = "A1 B1 A:crash +3s A:notice"
outcome = { "postgres" = ["1 affected", "waits (A)", "ok", "ok", "ok; B:B1 error 23505"] }

[[pinned.step]]
process = "A"
sql = '''INSERT INTO job VALUES (1)'''

[[pinned.step]]
process = "B"
sql = '''INSERT INTO job VALUES (1)'''
"#;
        let scenario = Scenario::parse(Source::new("t.toml", text)).unwrap();
        let frames = frames(&scenario.cases[0].pinned[0]);
        let drawn = format!("lanes:\n{}", Lanes::new(&frames, 90).render());
        expect![[r#"
            lanes:
                  A                                          B
               1  A1: INSERT INTO job VALUES (1)
                  → 1 affected
               2                                             B1: INSERT INTO job VALUES (1)
                                                             → waits for A
               3  ──── A crashes ─────────────────────────────────────────────────────────────────────
               4  ──── the clock moves by 3s ─────────────────────────────────────────────────────────
               5  ──── the server notices that A is gone ─────────────────────────────────────────────
               6                                             B1 goes on → error 23505
        "#]].assert_eq(&drawn);
    }
}
