//! The matrix of isolation anomalies, observed anew: every cell on the server that it was observed on.
//!
//! Levels of a server that is not installed are ignored, by name and with the reason; with
//! `ROWLOCK_REQUIRE_LIVE=1` they fail instead. MariaDB 11.8 is never required.

#[path = "live/needs.rs"]
mod needs;

use std::path::Path;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use needs::needs;
use rowlock_real::server::{Flavour, Installed, installed};
use rowlock_real::{Journal, RealStage, Target};
use rowlock_scenarios::anomaly::{self, Anomaly, Cell};

/// Stages that no test uses at present, by the server that they are on.
type Stages = Arc<Mutex<Vec<(String, RealStage)>>>;

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/anomalies");
    std::fs::read_to_string(folder.join(name)).expect("the anomalies can be read")
}

fn main() {
    let arguments = Arguments::from_args();
    let anomalies = anomaly::parse(&read("anomalies.toml")).expect("anomalies");
    let anomalies: Arc<Vec<Anomaly>> = Arc::new(anomalies);
    let cells = Cell::parse(&read("matrix.tsv")).expect("a matrix");
    let found = installed();
    let stages = Stages::default();
    let mut levels: Vec<Vec<Cell>> = Vec::new();
    for cell in cells {
        let same = |other: &Cell| {
            (&other.engine, &other.version, &other.level)
                == (&cell.engine, &cell.version, &cell.level)
        };
        match levels.iter_mut().find(|level| level.iter().all(same)) {
            Some(level) => level.push(cell),
            None => levels.push(vec![cell]),
        }
    }
    let trials = levels.into_iter().map(|cells| {
        let Cell {
            engine,
            version,
            level,
            ..
        } = cells[0].clone();
        let (anomalies, stages) = (Arc::clone(&anomalies), Arc::clone(&stages));
        let (target, name) = target(&engine, &version, &level);
        let dialect = target.dialect();
        let trial = Trial::test(format!("{engine} {version}, {level}"), move || {
            observe(&stages, &target, &name, &anomalies, &cells)
        });
        match optional(&engine, &version, &found) {
            Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
            None => needs(trial, dialect, &found),
        }
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // Servers end before the process does.
    drop(stages);
    conclusion.exit();
}

/// Why a level is not required here.
fn optional(engine: &str, version: &str, found: &[Installed]) -> Option<String> {
    let wanted = format!("MariaDB {}", release(version));
    let is_newer = engine == "MariaDB" && !wanted.ends_with("10.11");
    let is_there = found
        .iter()
        .any(|server| server.version.starts_with(&wanted));
    (is_newer && !is_there).then(|| format!("{wanted} is not installed: ./provision mariadb-11.8"))
}

/// `10.11` of `10.11.19`.
fn release(version: &str) -> &str {
    version
        .rsplit_once('.')
        .map_or(version, |(release, _)| release)
}

/// The server of a level, and a name for it.
fn target(engine: &str, version: &str, level: &str) -> (Target, String) {
    match engine {
        "MySQL" => (Target::MySql(Flavour::MySql, None), engine.to_owned()),
        "MariaDB" => {
            let release = release(version).to_owned();
            let name = format!("{engine} {release}");
            (Target::MySql(Flavour::MariaDb, Some(release)), name)
        }
        _ => {
            let journal = match level.starts_with("WAL") {
                true => Journal::Wal,
                false => Journal::Rollback,
            };
            (Target::Sqlite(journal), format!("{engine} {journal:?}"))
        }
    }
}

fn observe(
    stages: &Stages,
    target: &Target,
    name: &str,
    anomalies: &[Anomaly],
    cells: &[Cell],
) -> Result<(), Failed> {
    let idle = {
        let mut stages = stages.lock().expect("no panic while locked");
        let at = stages.iter().position(|(n, _)| n == name);
        at.map(|at| stages.remove(at).1)
    };
    let mut stage = match idle {
        Some(stage) => stage,
        None => RealStage::open(target)?,
    };
    let mut differences = Vec::new();
    for cell in cells {
        let anomaly = anomalies.iter().find(|a| a.name == cell.anomaly);
        let anomaly = anomaly.ok_or_else(|| format!("no script for {}", cell.anomaly))?;
        let mut level = cell.conditions()?;
        let mut got = anomaly::run(&mut stage, anomaly, &level)?;
        if cell.difference(&got).is_some() && level.busy_timeout.is_some() {
            level.latest_first = true;
            got = anomaly::run(&mut stage, anomaly, &level)?;
        }
        if let Some(difference) = cell.difference(&got) {
            differences.push(format!("{}: {difference}", cell.anomaly));
        }
    }
    let mut stages = stages.lock().expect("no panic while locked");
    stages.push((name.to_owned(), stage));
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("\n").into()),
    }
}
