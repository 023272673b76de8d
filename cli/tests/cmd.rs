//! The command line: what is printed, where, and the exit code. `TRYCMD=overwrite cargo test -p
//! rowlock --test cmd` rewrites the expected output; read the difference.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn commands() {
    trycmd::TestCases::new()
        .env("NO_COLOR", "1")
        .case("tests/cmd/*.md");
}

fn rowlock(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowlock"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/check.in"))
        .output()
        .expect("the command runs")
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let explore = || rowlock(&["check", ".", "--format", "json", "--steps"]);
    let first = explore();
    assert!(first.stdout.len() > 1_000, "{first:?}");
    assert_eq!(first.stdout, explore().stdout);
    let random = |seed| {
        let arguments = [
            "check",
            "race.toml",
            "--random",
            "200",
            "--format",
            "json",
            "--seed",
        ];
        rowlock(&[&arguments[..], &[seed]].concat()).stdout
    };
    assert_eq!(random("7"), random("7"));
}

#[test]
fn a_written_schedule_can_be_replayed_and_shown() {
    let directory = scratch("written");
    let directory = directory.to_str().expect("a path in UTF-8");
    let checked = rowlock(&["check", "race.toml", "--write-schedules", directory]);
    assert!(checked.status.success(), "{checked:?}");
    let file = format!("{directory}/race-postgres-read-committed.schedule");
    let replayed = rowlock(&["replay", &file, "--on", "sim"]);
    assert!(replayed.status.success(), "{replayed:?}");
    let shown = rowlock(&["show", &file]);
    let lanes = String::from_utf8(shown.stdout).expect("text");
    assert!(
        lanes.contains("worker-1") && lanes.contains("worker-2"),
        "{lanes}"
    );
}

#[test]
fn a_finding_in_an_isolation_spec_can_be_replayed() {
    let directory = scratch("spec");
    let directory = directory.to_str().expect("a path in UTF-8");
    let spec = "../spec.in/deadlock.spec";
    let checked = rowlock(&["check", spec, "--write-schedules", directory]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let file = format!("{directory}/deadlock-postgres-read-committed.schedule");
    let replayed = rowlock(&["replay", &file, "--on", "sim"]);
    assert!(replayed.status.success(), "{replayed:?}");
}

#[test]
fn nobody_reading_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowlock"))
        .args(["list", "."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/check.in"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command runs");
    // Closed before anything can have been written that fits no buffer.
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// An empty directory for one test.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It may be there from an earlier run.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}
