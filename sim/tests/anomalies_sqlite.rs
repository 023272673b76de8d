//! The SQLite columns of the matrix of isolation anomalies, on the simulator: every cell as it was
//! observed on SQLite itself (the same table is observed anew on it by the tests of live sessions).

use std::path::Path;

use rowlock_scenarios::anomaly::{self, Cell};
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::stage::SimStage;

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/anomalies");
    std::fs::read_to_string(folder.join(name)).expect("the anomalies can be read")
}

#[test]
fn every_cell_is_as_observed() {
    let anomalies = anomaly::parse(&read("anomalies.toml")).expect("anomalies");
    let cells = Cell::parse(&read("matrix.tsv")).expect("a matrix");
    let mut compared = 0;
    let mut differences = Vec::new();
    for cell in cells.iter().filter(|cell| cell.engine == "SQLite") {
        let wal = cell.level.starts_with("WAL");
        let mut stage = SimStage::new("simulated SQLite", move || match wal {
            true => Sqlite::default().with_log(),
            false => Sqlite::default(),
        });
        let script = anomalies.iter().find(|a| a.name == cell.anomaly);
        let script = script.expect("a script for the cell");
        let mut level = cell.conditions().expect("the level is understood");
        let mut got = anomaly::run(&mut stage, script, &level).expect("the script runs");
        if cell.difference(&got).is_some() {
            // Who of several waiters is first is open.
            level.latest_first = true;
            got = anomaly::run(&mut stage, script, &level).expect("the script runs");
        }
        compared += 1;
        if let Some(difference) = cell.difference(&got) {
            differences.push(format!("{}, {}: {difference}", cell.level, cell.anomaly));
        }
    }
    assert_eq!(compared, 88);
    assert!(
        differences.is_empty(),
        "{} of {compared} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}
