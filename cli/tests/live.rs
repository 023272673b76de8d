//! The command against a live PostgreSQL: what the simulator finds, the server shows.
//!
//! Where no PostgreSQL is installed these tests are ignored, by name; with `ROWLOCK_REQUIRE_LIVE=1`
//! they fail instead.

#[path = "live/plans.rs"]
mod plans;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock::Dialect;
use rowlock::real::server::{self, PostgresServer};

type TestResult = Result<(), Failed>;

/// A named test.
type Test = (&'static str, fn() -> TestResult);

const TESTS: [Test; 5] = [
    ("a_database_that_is_not_disposable_is_left_alone", refuses),
    ("what_check_finds_replay_confirms", confirms),
    ("simulator_and_server_agree_on_the_corpus", agrees),
    ("servers_starts_them", starts),
    ("plans_of_claims_are_the_servers", plans),
];

/// Longer ones, run by name.
const DEEP: [Test; 1] = [("plans_of_many_claims", many_plans)];

fn main() {
    let arguments = Arguments::from_args();
    let found = server::installed();
    let installed = found
        .iter()
        .any(|server| server.dialect == Dialect::Postgres);
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let trials = TESTS.into_iter().map(|(name, test)| {
        let trial = Trial::test(format!("postgres::{name}"), test);
        trial.with_ignored_flag(!installed && !required)
    });
    let deep = DEEP
        .into_iter()
        .map(|(name, test)| Trial::test(format!("postgres::{name}"), test).with_ignored_flag(true));
    libtest_mimic::run(&arguments, trials.chain(deep).collect()).exit();
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the workspace is above")
        .to_owned()
}

fn rowlock(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowlock"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the command runs")
}

/// Fails with everything that the command said unless it ended with `code`.
fn expect_exit(output: &Output, code: i32) -> TestResult {
    if output.status.code() == Some(code) {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!(
        "{}, expected {code}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
    .into())
}

fn refuses() -> TestResult {
    let server = PostgresServer::start()?;
    let socket = server.directory().display().to_string();
    let url = format!("postgres://postgres:s3cret@localhost/postgres?host={socket}");
    let output = rowlock(&["replay", "cli/tests/cmd/check.in/race.toml", "--on", &url]);
    expect_exit(&output, 4)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !said.contains("disposable") || said.contains("s3cret") {
        return Err(said.into());
    }
    Ok(())
}

/// Every violation that `check` finds in the corpus shows on the server as well, step by step.
fn confirms() -> TestResult {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schedules");
    // It may be there from an earlier run.
    let _ = std::fs::remove_dir_all(&directory);
    let directory = directory.to_str().ok_or("a path that is no text")?;
    let checked = rowlock(&[
        "check",
        "scenarios/bugs",
        "scenarios/claims",
        "scenarios/guards",
        "scenarios/locks",
        "scenarios/skew",
        "--write-schedules",
        directory,
    ]);
    expect_exit(&checked, 0)?;
    let replayed = rowlock(&["replay", directory, "--on", "postgres"]);
    expect_exit(&replayed, 0)
}

fn agrees() -> TestResult {
    expect_exit(&rowlock(&["mirror", "scenarios", "--on", "postgres"]), 0)
}

fn plans() -> TestResult {
    plans::compare(20, 25, 15)
}

/// `cargo test -p rowlock --test live -- --ignored plans_of_many_claims`
fn many_plans() -> TestResult {
    plans::compare(400, 60, 1)
}

fn starts() -> TestResult {
    expect_exit(&rowlock(&["servers", "--start"]), 0)
}
