//! The command against live servers: what the simulator finds, the server shows.
//!
//! Where a server is not installed its tests are ignored, by name; with `ROWLOCK_REQUIRE_LIVE=1`
//! they fail instead.

#[path = "live/plans.rs"]
mod plans;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock::Dialect;
use rowlock::real::server::{self, PostgresServer};

type TestResult = Result<(), Failed>;

/// A named test.
type Test = (&'static str, fn() -> TestResult);

const TESTS: [Test; 3] = [
    ("a_database_that_is_not_disposable_is_left_alone", refuses),
    ("servers_starts_them", starts),
    ("plans_of_claims_are_the_servers", plans),
];

/// Longer ones, run by name.
const DEEP: [Test; 1] = [("plans_of_many_claims", many_plans)];

/// The databases on which all that is found is shown, and their names in commands and files.
const DATABASES: [(Dialect, &str); 4] = [
    (Dialect::Postgres, "postgres"),
    (Dialect::MySql, "mysql"),
    (Dialect::MariaDb, "mariadb"),
    (Dialect::Sqlite, "sqlite"),
];

fn main() {
    let arguments = Arguments::from_args();
    let found = server::installed();
    let is_installed = |dialect| found.iter().any(|server| server.dialect == dialect);
    let installed = is_installed(Dialect::Postgres);
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let trials = TESTS.into_iter().map(|(name, test)| {
        let trial = Trial::test(format!("postgres::{name}"), test);
        trial.with_ignored_flag(!installed && !required)
    });
    let deep = DEEP
        .into_iter()
        .map(|(name, test)| Trial::test(format!("postgres::{name}"), test).with_ignored_flag(true));
    let of_all = DATABASES.into_iter().flat_map(|(dialect, name)| {
        let confirms = move || confirms(name);
        let agrees = move || agrees(name);
        let test = "what_check_finds_replay_confirms";
        let confirms = Trial::test(format!("{name}::{test}"), confirms);
        let test = "simulator_and_server_agree_on_the_corpus";
        let agrees = Trial::test(format!("{name}::{test}"), agrees);
        let ignored = !is_installed(dialect) && !required;
        [confirms, agrees].map(|trial| trial.with_ignored_flag(ignored))
    });
    let trials = of_all.chain(trials).chain(deep).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the workspace is above")
        .to_owned()
}

fn rowlock(arguments: &[impl AsRef<OsStr>]) -> Output {
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
fn confirms(database: &str) -> TestResult {
    let suffix = format!("-{database}-");
    let mut replay = vec!["replay".to_owned(), "--on".to_owned(), database.to_owned()];
    for entry in std::fs::read_dir(schedules())? {
        let path = entry?.path().display().to_string();
        let file = path.rsplit('/').next().unwrap_or(&path);
        // Only PostgreSQL can be stopped between two row locks.
        let stops = std::fs::read_to_string(&path)?.contains("\ngranularity: row\n");
        if file.contains(&suffix) && (!stops || database == "postgres") {
            replay.push(path);
        }
    }
    if replay.len() < 20 {
        return Err(format!("{} schedules", replay.len() - 3).into());
    }
    expect_exit(&rowlock(&replay), 0)
}

/// The schedules of all that `check` finds, in a folder: made once.
fn schedules() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schedules");
        // It may be there from an earlier run.
        let _ = std::fs::remove_dir_all(&directory);
        let target = directory.display().to_string();
        let checked = rowlock(&["check", "scenarios", "--write-schedules", &target]);
        expect_exit(&checked, 0).unwrap_or_else(|error| panic!("{error:?}"));
        directory
    })
}

fn agrees(database: &str) -> TestResult {
    expect_exit(&rowlock(&["mirror", "scenarios", "--on", database]), 0)
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
