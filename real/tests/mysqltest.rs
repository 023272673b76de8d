//! Tests of MySQL and MariaDB themselves on live servers: what they print is what their authors shipped.
//!
//! The trees are not part of this project. They are fetched when the tests run (`./provision mysql-tests
//! mariadb-tests`). Where that fails, or the server is not installed, the tests are ignored, by name
//! and with the reason; with `ROWLOCK_REQUIRE_LIVE=1` they fail instead.

#[path = "live/needs.rs"]
mod needs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use needs::needs;
use rowlock_real::RealStage;
use rowlock_real::server::{self, Flavour, MySqlServer};
use rowlock_scenarios::mysqltest;

const EQUAL: &str = include_str!("mysqltest/equal.txt");

/// Stages without special options that no test uses at present.
type Stages = Arc<Mutex<Vec<(Flavour, RealStage)>>>;

fn main() {
    let arguments = Arguments::from_args();
    let found = server::installed();
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let stages = Stages::default();
    let mut roots: Vec<(&str, Option<PathBuf>)> = Vec::new();
    let mut trials = Vec::new();
    for line in EQUAL.lines().filter(|line| !line.starts_with('#')) {
        let (tree, file) = line.split_once(' ').expect("tree and file");
        let flavour = match tree {
            "mysql" => Flavour::MySql,
            _ => Flavour::MariaDb,
        };
        if !roots.iter().any(|(known, _)| *known == tree) {
            let root = if arguments.list { None } else { fetch(tree) };
            roots.push((tree, root));
        }
        let root = roots.iter().find(|(known, _)| *known == tree);
        let root = root.and_then(|(_, root)| root.clone());
        let is_missing = root.is_none();
        let (stages, name) = (Arc::clone(&stages), file.to_owned());
        let trial = Trial::test(format!("{tree}/{file}"), move || {
            let root = root.ok_or("its tree cannot be fetched: see ./provision")?;
            one(&stages, flavour, &root, &name)
        });
        trials.push(match is_missing && !required {
            true => trial
                .with_kind("its tree cannot be fetched: see ./provision")
                .with_ignored_flag(true),
            false => needs(trial, flavour.dialect(), &found),
        });
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Servers end before the process does.
    drop(stages);
    conclusion.exit();
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

fn one(stages: &Stages, flavour: Flavour, root: &Path, file: &str) -> Result<(), Failed> {
    let script = root.join(file);
    let options = mysqltest::options_of(&script);
    let version = (flavour == Flavour::MariaDb).then_some("10.11");
    let idle = {
        let mut stages = stages.lock().expect("no panic while locked");
        let at = stages
            .iter()
            .position(|(f, _)| *f == flavour && options.is_empty());
        at.map(|at| stages.remove(at).1)
    };
    let mut stage = match idle {
        Some(stage) => stage,
        None => {
            let server = MySqlServer::start_with(flavour, version, &options)?;
            RealStage::on_mysql_server(Arc::new(server))?
        }
    };
    let run = mysqltest::run(&mut stage, &script, root);
    if options.is_empty() && run.error.is_none() {
        let mut stages = stages.lock().expect("no panic while locked");
        stages.push((flavour, stage));
    }
    let result = mysqltest::result_of(&script).ok_or("there is no result")?;
    let expected = std::fs::read(result)?;
    let expected = String::from_utf8_lossy(&expected);
    if let Some(error) = run.error {
        let last: Vec<&str> = run.output.lines().rev().take(3).collect();
        return Err(format!("{error}\nafter: {last:?}").into());
    }
    match mysqltest::difference(&expected, &run.output) {
        None => Ok(()),
        Some((line, expected, got)) => {
            Err(format!("line {line}:\n  - {expected}\n  + {got}").into())
        }
    }
}
