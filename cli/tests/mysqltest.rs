//! Tests of MySQL and MariaDB themselves on the simulator: what they print is what their authors shipped.
//!
//! The trees are not part of this project. They are fetched when the tests run (`./provision mysql-tests
//! mariadb-tests`). Where that fails, the tests are ignored, by name and with the reason; with
//! `ROWLOCK_REQUIRE_LIVE=1` they fail instead. `mysqltest/simulated.txt` says which files come out equal,
//! and why the others do not: that is checked as well.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock_model::DbError;
use rowlock_real::server;
use rowlock_scenarios::mysqltest;
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;
use rowlock_sim::stage::SimStage;

const FILES: &str = include_str!("mysqltest/simulated.txt");

/// A file of a test tree, and what is expected of it.
struct File {
    tree: &'static str,
    path: &'static str,
    /// Why its output is not the shipped one: parts of what is said of it, with ` | ` between them.
    reason: Option<&'static str>,
}

fn files() -> Vec<File> {
    let mut files = Vec::new();
    for line in FILES.lines().filter(|line| !line.starts_with('#')) {
        let (file, reason) = match line.split_once(": ") {
            Some((file, reason)) => (file, Some(reason)),
            None => (line, None),
        };
        let (tree, path) = file.split_once(' ').expect("tree and file");
        files.push(File { tree, path, reason });
    }
    files
}

fn main() {
    let arguments = Arguments::from_args();
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let mut roots: Vec<(&str, Option<PathBuf>)> = Vec::new();
    let mut trials = Vec::new();
    for file in files() {
        if !roots.iter().any(|(known, _)| *known == file.tree) {
            let root = if arguments.list {
                None
            } else {
                fetch(file.tree)
            };
            roots.push((file.tree, root));
        }
        let root = roots.iter().find(|(known, _)| *known == file.tree);
        let root = root.and_then(|(_, root)| root.clone());
        let is_missing = root.is_none();
        let trial = Trial::test(format!("{}/{}", file.tree, file.path), move || {
            let root = root.ok_or("its tree cannot be fetched: see ./provision")?;
            check(&file, &root)
        });
        trials.push(match is_missing && !required {
            true => trial
                .with_kind("its tree cannot be fetched: see ./provision")
                .with_ignored_flag(true),
            false => trial,
        });
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The top of a test tree; fetched if it is not there.
fn fetch(tree: &str) -> Option<PathBuf> {
    let name = format!("{tree}-tests");
    if server::test_tree(&name).is_none() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let status = Command::new(project.join("provision")).arg(&name).status();
        if !status.is_ok_and(|status| status.success()) {
            return None;
        }
    }
    server::test_tree(&name)
}

fn check(file: &File, root: &Path) -> Result<(), Failed> {
    match (difference(file, root)?, file.reason) {
        (None, None) => Ok(()),
        (Some(difference), None) => Err(difference.into()),
        (Some(difference), Some(reason)) if is_said(&difference, reason) => Ok(()),
        (Some(difference), Some(reason)) => {
            Err(format!("listed because of `{reason}`, but\n{difference}").into())
        }
        (None, Some(reason)) => Err(format!("equal, but listed because of `{reason}`").into()),
    }
}

/// Where a file is left, how much of its output is the shipped one is part of the reason.
fn is_said(difference: &str, reason: &str) -> bool {
    reason.split(" | ").all(|part| difference.contains(part))
        && (!difference.starts_with("equal as far as") || reason.starts_with("equal as far as"))
}

/// In what the output differs from the shipped one, or why it ends early.
fn difference(file: &File, root: &Path) -> Result<Option<String>, Failed> {
    let script = root.join(file.path);
    if !script.is_file() {
        return Ok(Some("there is no such file in the tree".to_owned()));
    }
    let options = mysqltest::options_of(&script);
    let flavour = match file.tree {
        "mysql" => Flavour::MYSQL,
        _ => Flavour::MARIADB_10_11,
    };
    let fresh = move || -> Result<InnoDb, DbError> { InnoDb::new(flavour).started_with(&options) };
    if let Err(error) = fresh() {
        return Ok(Some(error.to_string()));
    }
    let fresh = move || fresh().expect("the options were tried");
    let mut stage = SimStage::new(format!("simulated {}", flavour.dialect()), fresh);
    let run = mysqltest::run(&mut stage, &script, root);
    let result = mysqltest::result_of(&script).ok_or("there is no result")?;
    let expected = std::fs::read(result)?;
    let expected = String::from_utf8_lossy(&expected);
    if let Some(error) = run.error {
        // What was printed until then is compared.
        let printed = run.output.lines().count();
        let begin: Vec<&str> = expected.lines().take(printed).collect();
        let difference = mysqltest::difference(&begin.join("\n"), &run.output);
        let equal = difference.map_or(printed, |(line, ..)| line - 1);
        let all = expected.lines().count();
        return Ok(Some(format!(
            "equal as far as line {equal} of {all}: {error}"
        )));
    }
    let difference = mysqltest::difference(&expected, &run.output);
    Ok(difference.map(|(line, expected, got)| format!("line {line}:\n  - {expected}\n  + {got}")))
}
