//! The library as a user's test sees it: the example of the README, its failure text, and the
//! replay of the schedule that the failure writes.

use std::panic::catch_unwind;
use std::path::Path;

use rowlock::{DbError, Explorer, Session, Verify};

const README: &str = include_str!("../../README.md");

/// The example of the README.
async fn claim(session: &mut impl Session) -> Result<(), DbError> {
    let found = session
        .exec("SELECT id FROM job WHERE state = 'ready' LIMIT 1", &[])
        .await?;
    let Some(id) = found.first("id").cloned() else {
        return Ok(());
    };
    session
        .exec(
            "UPDATE job SET state = 'running', runs = runs + 1 WHERE id = $1",
            &[id],
        )
        .await?;
    Ok(())
}

/// The repair: look and lock at once, inside of one transaction.
async fn claim_locked(session: &mut impl Session) -> Result<(), DbError> {
    session.exec("BEGIN", &[]).await?;
    let look = "SELECT id FROM job WHERE state = 'ready' LIMIT 1 FOR UPDATE SKIP LOCKED";
    let found = session.exec(look, &[]).await?;
    if let Some(id) = found.first("id").cloned() {
        let take = "UPDATE job SET state = 'running', runs = runs + 1 WHERE id = $1";
        session.exec(take, &[id]).await?;
    }
    session.exec("COMMIT", &[]).await?;
    Ok(())
}

fn queue() -> Explorer<impl rowlock::sim::database::Database> {
    Explorer::new(rowlock::postgres())
        .setup(
            "CREATE TABLE job (id int PRIMARY KEY, state text, runs int);
             INSERT INTO job VALUES (1, 'ready', 0)",
        )
        .always("a job runs once", "SELECT id FROM job WHERE runs > 1")
}

fn broken() -> Explorer<impl rowlock::sim::database::Database> {
    queue()
        .process("worker", |mut worker| async move {
            claim(&mut worker.session()).await
        })
        .count(2)
}

/// The text of the panic that `run` ends with.
fn panic_text(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(run).expect_err("it panics");
    let text = panic.downcast::<String>().expect("with a text");
    *text
}

/// The failure is the one that the README shows.
#[test]
fn no_job_runs_twice() {
    let text = panic_text(|| {
        broken().assert_holds();
    });
    let shown = README
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("the README shows a failure");
    // Where the schedule is written depends on the machine.
    let lanes = text.split("replay it:").next().unwrap_or_default().trim();
    let lanes_shown = shown.split("replay it:").next().unwrap_or_default().trim();
    assert_eq!(lanes, lanes_shown, "the failure is:\n{text}");
    let file = text
        .split("ROWLOCK_REPLAY=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("the failure names the schedule");
    assert!(Path::new(file).exists(), "{text}");
    assert!(text.contains("cargo test no_job_runs_twice"), "{text}");
}

#[test]
fn the_repair_holds() {
    let repaired = queue().process("worker", |mut worker| async move {
        claim_locked(&mut worker.session()).await
    });
    let exploration = repaired.count(2).assert_holds();
    assert!(exploration.counts.states > 10, "{exploration:?}");
}

#[test]
fn what_is_known_to_be_wrong_can_be_said_to_be() {
    let violation = broken().assert_violated("a job runs once");
    assert_eq!(violation.schedule.events.len(), 4);
    let text = panic_text(|| {
        broken().assert_violated("something else");
    });
    assert!(
        text.contains("expected `violated: something else`"),
        "{text}"
    );
}

/// The test `follows` is run again by itself, once along the schedule that it wrote.
#[test]
fn a_written_schedule_is_followed() {
    const NAME: &str = "only_when_called";
    let run = |replay: Option<&Path>| {
        let program = std::env::current_exe().expect("this test has a path");
        let mut command = std::process::Command::new(program);
        command.args([NAME, "--exact", "--ignored", "--nocapture"]);
        if let Some(file) = replay {
            command.env("ROWLOCK_REPLAY", file);
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    };
    let (good, text) = run(None);
    assert!(!good, "{text}");
    let file = text
        .split("ROWLOCK_REPLAY=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("the failure names the schedule");
    let (good, text) = run(Some(Path::new(file)));
    assert!(!good, "{text}");
    assert!(text.contains("violated: a job runs once"), "{text}");
    assert!(
        !text.contains("ROWLOCK_REPLAY="),
        "it was explored again: {text}"
    );
}

#[test]
#[ignore = "fails on purpose; run by a_written_schedule_is_followed"]
fn only_when_called() {
    broken().assert_holds();
}
