//! What single statements lock, compared with what the servers were seen to lock
//! (`innodb/footprints.txt`): result and exact lock list.

mod innodb;

use std::collections::BTreeMap;

use innodb::{Outcome, Server, Target, report, result_text};

const FIXTURE_L: &[&str] = &[
    "create table l (id int primary key, u int null, s int, n int, unique u (u), key s (s))",
    "insert into l values (10,10,10,10),(20,20,20,20),(30,30,20,30),(40,null,30,40)",
    "create table dst (id int primary key, n int)",
];

const FIXTURE_L2: &[&str] = &[
    "create table l2 (id int primary key, u int not null, a int not null, b int not null, \
     st varchar(8) not null, pri int not null, unique u (u), unique ab (a,b), key sp (st,pri))",
    "insert into l2 values (10,10,1,1,'new',5),(20,20,1,2,'new',3),(30,30,2,1,'new',7),\
     (40,40,2,2,'run',1)",
];

struct Row {
    fixture: String,
    sql: String,
    target: String,
    result: String,
    locks: String,
}

/// The set-ups of a file that says them itself, and its rows.
fn parse(text: &str) -> (BTreeMap<String, Vec<String>>, Vec<Row>) {
    let mut rows = Vec::new();
    let mut fixtures = BTreeMap::new();
    for (name, sql) in [("l", FIXTURE_L), ("l2", FIXTURE_L2)] {
        let sql = sql.iter().map(|sql| (*sql).to_owned()).collect();
        fixtures.insert(name.to_owned(), sql);
    }
    let (mut fixture, mut sql) = (String::new(), String::new());
    let mut targets: Vec<String> = Vec::new();
    let mut result = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("fixture ") {
            let (name, script) = rest.split_once(' ').expect("fixture NAME SQL");
            let script = script.split("; ").map(str::to_owned).collect();
            fixtures.insert(name.to_owned(), script);
        } else if let Some(rest) = line.strip_prefix("    ") {
            if let Some(locks) = rest.strip_prefix("locks") {
                for target in &targets {
                    rows.push(Row {
                        fixture: fixture.clone(),
                        sql: sql.clone(),
                        target: target.clone(),
                        result: result.clone(),
                        locks: locks.trim().to_owned(),
                    });
                }
            } else if !rest.starts_with("plan ") {
                result = rest.to_owned();
            }
        } else if let Some(rest) = line.strip_prefix("  ") {
            targets = rest.split(' ').map(str::to_owned).collect();
        } else if let Some((name, statement)) = line.split_once(": ") {
            fixture = name.to_owned();
            sql = statement.to_owned();
        }
    }
    (fixtures, rows)
}

fn run(fixtures: &BTreeMap<String, Vec<String>>, row: &Row) -> Result<(), String> {
    let target = Target::parse(&row.target);
    let mut server = Server::new(&target);
    server.setup(&fixtures[&row.fixture]);
    let session = server.session("A");
    server.send(session, "begin");
    let result = match server.send(session, &row.sql) {
        Outcome::Done(result) => result_text(&result, server.db.reported_id(session)),
        Outcome::Blocked | Outcome::Paused(_) => "blocked".to_owned(),
    };
    let locks = server.locks(Some("A"));
    let mut difference = String::new();
    if result != row.result {
        difference += &format!("  result   {result}\n  expected {}\n", row.result);
    }
    if locks != row.locks {
        difference += &format!("  locks    {locks}\n  expected {}\n", row.locks);
    }
    if difference.is_empty() {
        Ok(())
    } else {
        Err(difference)
    }
}

#[test]
fn statements_lock_what_they_lock_on_the_servers() {
    let filter = std::env::var("ROW").unwrap_or_default();
    let (fixtures, rows) = parse(include_str!("innodb/footprints.txt"));
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|row| format!("{}: {} {}", row.fixture, row.sql, row.target).contains(&filter))
        .collect();
    assert!(filter.is_empty() == (rows.len() == 1_782));
    let mut failed = Vec::new();
    for row in &rows {
        if let Err(difference) = run(&fixtures, row) {
            let name = format!("{} {}", row.target, row.sql);
            failed.push((name, difference));
        }
    }
    let list = filter.is_empty().then_some("footprints-differs.txt");
    report("footprints", rows.len(), &failed, list);
}

/// Rows of random statements (`innodb/observe.py`). Those that differ are listed, each with a reason.
#[test]
fn random_statements_lock_what_they_lock_on_the_servers() {
    let (fixtures, rows) = parse(include_str!("innodb/random.txt"));
    let failed = differing(&fixtures, &rows);
    report(
        "random footprints",
        rows.len(),
        &failed,
        Some("random-differs.txt"),
    );
}

/// Rows of statements that the planner treats in a special way: `innodb/planned.txt`.
#[test]
fn planned_statements_lock_what_they_lock_on_the_servers() {
    let (fixtures, rows) = parse(include_str!("innodb/planned.txt"));
    let failed = differing(&fixtures, &rows);
    report(
        "planned footprints",
        rows.len(),
        &failed,
        Some("planned-differs.txt"),
    );
}

fn differing(fixtures: &BTreeMap<String, Vec<String>>, rows: &[Row]) -> Vec<(String, String)> {
    let compared = rows.iter().filter_map(|row| {
        let difference = run(fixtures, row).err()?;
        let name = format!("{} {}: {}", row.target, row.fixture, row.sql);
        Some((name, difference))
    });
    compared.collect()
}

/// Rows that were observed elsewhere, in the format of `innodb/footprints.txt`; a line `fixture NAME SQL; SQL`
/// adds a set-up.
#[test]
#[ignore = "compares the file that ROWS names"]
fn rows_of_a_file() {
    let path = std::env::var("ROWS").expect("ROWS=file");
    let text = std::fs::read_to_string(path).expect("the file is readable");
    let (fixtures, rows) = parse(&text);
    let failed = differing(&fixtures, &rows);
    report("footprints", rows.len(), &failed, None);
}
