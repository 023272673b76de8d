//! The matrix of isolation anomalies on simulated MySQL and MariaDB: every cell as it was observed on the
//! server (`anomalies/matrix.tsv`).

use rowlock_scenarios::anomaly::{self, Cell};
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;
use rowlock_sim::stage::SimStage;

/// The server that a cell was observed on.
fn flavour(cell: &Cell) -> Option<Flavour> {
    match (&*cell.engine, &*cell.version) {
        ("MySQL", _) => Some(Flavour::MYSQL),
        ("MariaDB", version) if version.starts_with("10.11.") => Some(Flavour::MARIADB_10_11),
        ("MariaDB", version) if version.starts_with("11.8.") => Some(Flavour::MARIADB_11_8),
        _ => None,
    }
}

#[test]
fn every_level_allows_and_prevents_what_it_does_on_the_server() {
    let anomalies = anomaly::parse(include_str!("anomalies/anomalies.toml")).expect("anomalies");
    let cells = Cell::parse(include_str!("anomalies/matrix.tsv")).expect("a matrix");
    let mut differences = Vec::new();
    let mut count = 0;
    for cell in &cells {
        let Some(flavour) = flavour(cell) else {
            continue;
        };
        count += 1;
        let anomaly = anomalies
            .iter()
            .find(|anomaly| anomaly.name == cell.anomaly)
            .expect("every cell has its script");
        let level = cell.conditions().expect("a known level");
        let mut stage = SimStage::new("simulated", move || InnoDb::new(flavour));
        let difference = match anomaly::run(&mut stage, anomaly, &level) {
            Ok(got) => cell.difference(&got),
            Err(error) => Some(error.to_string()),
        };
        if let Some(difference) = difference {
            let Cell {
                engine,
                version,
                level,
                anomaly,
                ..
            } = cell;
            differences.push(format!(
                "{engine} {version} {level} {anomaly}: {difference}"
            ));
        }
    }
    assert_eq!(count, 374, "17 levels of 22 anomalies");
    assert!(
        differences.is_empty(),
        "{} of {count} cells differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}
