//! Every pinned schedule of the corpus on a live server: each step must come out as the scenario
//! says, with the same sessions waiting for the same others.
//!
//! Schedules for a server that is not installed are ignored, by name and with the reason; with
//! `ROWLOCK_REQUIRE_LIVE=1` they fail instead.

#[path = "live/needs.rs"]
mod needs;
#[path = "live/needs_pooler.rs"]
mod needs_pooler;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use needs::needs;
use rowlock_model::Dialect;
use rowlock_real::server::{Flavour, installed};
use rowlock_real::{Journal, RealStage, Target};
use rowlock_scenarios::replay::{Conclusion, Replay, Script, StepVerdict, replay};
use rowlock_scenarios::scenario::{Case, Scenario};
use rowlock_scenarios::source::Source;

/// How often a schedule is tried where the server may take another branch.
const ATTEMPTS: usize = 20;

/// Stages that no test uses at present. Each is a server of its own: what one schedule does must
/// not show in another's snapshots.
type Stages = Arc<Mutex<Vec<(Dialect, RealStage)>>>;

fn main() {
    let arguments = Arguments::from_args();
    let found = installed();
    let stages = Stages::default();
    let mut trials = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    for file in ["bugs", "locks"]
        .map(|name| files(&folder.join(name)))
        .concat()
    {
        let text = std::fs::read_to_string(&file).expect("a scenario can be read");
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let source = Source::new(file.display().to_string(), text);
        let scenario = Scenario::parse(source).unwrap_or_else(|error| panic!("{error}"));
        for case in scenario.cases {
            let database = case.database;
            let case = Arc::new(case);
            for index in 0..case.pinned.len() {
                let title = title(&name, &case, index);
                let (pinned, stages) = (Arc::clone(&case), Arc::clone(&stages));
                let trial = Trial::test(title, move || confirm(&stages, &pinned, index));
                let pooled = case.pooler > 0;
                let trial = needs(trial, database, &found);
                trials.push(needs_pooler::needs_pooler(trial, pooled));
            }
        }
    }
    assert!(!trials.is_empty(), "the corpus has pinned schedules");
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Servers end before the process does.
    drop(stages);
    conclusion.exit();
}

fn title(file: &str, case: &Case, index: usize) -> String {
    let parts = [file, &case.variant, &case.key(), &case.pinned[index].name];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("::")
}

/// The scenario files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "toml") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn confirm(stages: &Stages, case: &Case, index: usize) -> Result<(), Failed> {
    let idle = {
        let mut stages = stages.lock().expect("no panic while locked");
        let at = stages.iter().position(|(d, _)| *d == case.database);
        at.map(|at| stages.remove(at).1)
    };
    let mut stage = match idle {
        Some(stage) => stage,
        None => RealStage::open(&target(case.database))?,
    };
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let run = replay(&mut stage, Script::Pinned(case, &case.pinned[index]))?;
        let other_branch = run
            .steps
            .iter()
            .any(|step| matches!(step.verdict, StepVerdict::OtherBranch { .. }));
        last = Some(run);
        if !other_branch {
            break;
        }
    }
    let mut stages = stages.lock().expect("no panic while locked");
    stages.push((case.database, stage));
    match last {
        Some(run) if run.conclusion == Conclusion::Confirmed => Ok(()),
        Some(run) => Err(report(&run).into()),
        None => unreachable!("at least one attempt"),
    }
}

/// The server on which schedules of a database were observed.
fn target(database: Dialect) -> Target {
    match database {
        Dialect::Postgres => Target::Postgres,
        Dialect::MySql => Target::MySql(Flavour::MySql, None),
        Dialect::MariaDb => Target::MySql(Flavour::MariaDb, Some("10.11".to_owned())),
        Dialect::Sqlite => Target::Sqlite(Journal::Rollback),
    }
}

/// What happened, step by step.
fn report(run: &Replay) -> String {
    let mut text = format!("{}: {:?}\n", run.server, run.conclusion);
    for step in &run.steps {
        let outcomes: Vec<String> = step
            .events
            .iter()
            .map(|e| match &e.outcome {
                Some(outcome) => format!("{}: {outcome}", e.actor),
                None => e.actor.to_string(),
            })
            .collect();
        text.push_str(&format!("  {}  {}\n", step.token, outcomes.join("; ")));
        match &step.verdict {
            StepVerdict::Same => {}
            StepVerdict::Differs { expected, got } => {
                text.push_str(&format!("    differs: expected {expected}, got {got}\n"));
            }
            StepVerdict::OtherBranch { expected, got } => {
                text.push_str(&format!(
                    "    other branch: expected {expected}, got {got}\n"
                ));
            }
        }
    }
    for query in run.finals.iter().filter(|query| !query.same) {
        text.push_str(&format!(
            "  {}\n    expected {}, got {}\n",
            query.sql, query.expected, query.got
        ));
    }
    text
}
