//! The conflict tables in README.md say what the code does.

use super::*;

const README: &str = include_str!("../README.md");

/// The cells of the table after a heading: row name, column name, whether there is a conflict.
fn cells(heading: &str) -> Vec<(String, String, bool)> {
    let section = README.split(heading).nth(1).expect("the heading is there");
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    let mut lines = table.take_while(|line| line.starts_with('|')).map(|line| {
        let inner = line.trim().trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let header = lines.next().expect("a header");
    let rule = lines.next().expect("a rule");
    assert!(rule.iter().all(|cell| cell.contains("--")));
    let mut cells = Vec::new();
    for line in lines {
        assert_eq!(line.len(), header.len());
        for (column, cell) in header.iter().zip(&line).skip(1) {
            assert!(cell.is_empty() || cell == "X", "{cell}");
            cells.push((line[0].clone(), column.clone(), cell == "X"));
        }
    }
    cells
}

#[test]
fn row_locks() {
    let by_name = |name: &str| match name {
        "KEY SHARE" => RowLock::KeyShare,
        "SHARE" => RowLock::Share,
        "NO KEY UPDATE" => RowLock::NoKeyUpdate,
        "UPDATE" => RowLock::Update,
        other => panic!("{other} is no row lock"),
    };
    let cells = cells("## Row locks");
    assert_eq!(cells.len(), 16);
    for (a, b, conflict) in cells {
        assert_eq!(by_name(&a).conflicts(by_name(&b)), conflict, "{a} and {b}");
    }
}

#[test]
fn table_locks() {
    let by_name = |name: &str| match name {
        "ACCESS SHARE" => LockMode::AccessShare,
        "ROW SHARE" => LockMode::RowShare,
        "ROW EXCLUSIVE" => LockMode::RowExclusive,
        "SHARE UPDATE EXCLUSIVE" => LockMode::ShareUpdateExclusive,
        "SHARE" => LockMode::Share,
        "SHARE ROW EXCLUSIVE" => LockMode::ShareRowExclusive,
        "EXCLUSIVE" => LockMode::Exclusive,
        "ACCESS EXCLUSIVE" => LockMode::AccessExclusive,
        other => panic!("{other} is no table lock"),
    };
    let cells = cells("## Table locks");
    assert_eq!(cells.len(), 64);
    for (a, b, conflict) in cells {
        assert_eq!(
            conflicts(by_name(&a)).has(by_name(&b)),
            conflict,
            "{a} and {b}"
        );
    }
}
