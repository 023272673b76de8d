//! Guarantees that need no query: known anomalies are found and named where the servers allow them,
//! and nothing is found where they do not.

use rowlock_model::verdict::{Limits, Verdict, Violation};
use rowlock_model::{Guarantee, Isolation, Session as _};
use rowlock_scenarios::anomaly::{self, Cell};
use rowlock_sim::database::Database;
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::explore::{Explorer, ProcessSpec, Worker};

/// A process that sends these statements and ends at the first error.
fn process<D: Database>(
    explorer: Explorer<D>,
    name: &str,
    level: Isolation,
    statements: &'static [&'static str],
) -> Explorer<D> {
    let run = move |mut worker: Worker| async move {
        let mut session = worker.session();
        for statement in statements {
            if session.exec(statement, &[]).await.is_err() {
                let _ = session.exec("ROLLBACK", &[]).await;
                break;
            }
        }
    };
    explorer.process(name, run).isolation(level)
}

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); \
    INSERT INTO t VALUES (1, 10), (2, 10)";

fn explore<D: Database>(
    db: D,
    level: Isolation,
    programs: &[&'static [&'static str]],
    guarantees: &[Guarantee],
) -> Option<Box<Violation>> {
    let mut explorer = Explorer::new(db)
        .setup(TABLE)
        .without_contention()
        .may_hang();
    for (at, program) in programs.iter().enumerate() {
        explorer = process(explorer, &format!("p{}", at + 1), level, program);
    }
    for guarantee in guarantees {
        explorer = explorer.guarantee(*guarantee);
    }
    match explorer.run().expect("it can be explored").verdict {
        Verdict::Holds => None,
        Verdict::Violated(violation) => Some(violation),
        other => panic!("{other}"),
    }
}

/// Read, then write what follows from it.
const LOST_UPDATE: [&[&str]; 2] = [
    &[
        "BEGIN",
        "SELECT v FROM t WHERE id = 1",
        "UPDATE t SET v = 11 WHERE id = 1",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "SELECT v FROM t WHERE id = 1",
        "UPDATE t SET v = 12 WHERE id = 1",
        "COMMIT",
    ],
];

/// Both read both rows and each writes one of them.
const WRITE_SKEW: [&[&str]; 2] = [
    &[
        "BEGIN",
        "SELECT v FROM t",
        "UPDATE t SET v = 11 WHERE id = 1",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "SELECT v FROM t",
        "UPDATE t SET v = 21 WHERE id = 2",
        "COMMIT",
    ],
];

/// Fekete, O'Neil and O'Neil, "A read-only transaction anomaly under snapshot isolation" (2004).
const READ_ONLY: [&[&str]; 3] = [
    &[
        "BEGIN",
        "SELECT v FROM t",
        "UPDATE t SET v = -11 WHERE id = 1",
        "COMMIT",
    ],
    &["UPDATE t SET v = 30 WHERE id = 2"],
    &["SELECT v FROM t"],
];

/// What one statement does by itself is atomic.
const ATOMIC: [&[&str]; 2] = [
    &["UPDATE t SET v = v + 1 WHERE id = 1"],
    &["BEGIN", "UPDATE t SET v = v + 1 WHERE id = 1", "COMMIT"],
];

fn serializable(db: impl Database, level: Isolation, programs: &[&'static [&'static str]]) -> bool {
    let found = explore(db, level, programs, &[Guarantee::Serializable]);
    if let Some(violation) = &found {
        assert_eq!(violation.property, "serializable");
    }
    found.is_none()
}

use Isolation::{ReadCommitted as Rc, RepeatableRead as Rr, Serializable as Ser};

#[test]
fn lost_updates_are_no_serial_runs() {
    let postgres = |level| serializable(Postgres::default(), level, &LOST_UPDATE);
    assert!(!postgres(Rc));
    assert!(postgres(Rr));
    assert!(postgres(Ser));
    for flavour in [Flavour::MYSQL, Flavour::MARIADB_10_11] {
        let innodb = |level| serializable(InnoDb::new(flavour), level, &LOST_UPDATE);
        assert!(!innodb(Rc));
        assert!(!innodb(Rr));
        assert!(innodb(Ser));
    }
    // InnoDB of MariaDB 11.8 refuses to change what its snapshot does not see.
    assert!(serializable(
        InnoDb::new(Flavour::MARIADB_11_8),
        Rr,
        &LOST_UPDATE
    ));
    assert!(serializable(Sqlite::default(), Ser, &LOST_UPDATE));
}

#[test]
fn write_skew_is_no_serial_run() {
    let postgres = |level| serializable(Postgres::default(), level, &WRITE_SKEW);
    assert!(!postgres(Rc));
    assert!(!postgres(Rr));
    assert!(postgres(Ser));
    let innodb = |level| serializable(InnoDb::new(Flavour::MYSQL), level, &WRITE_SKEW);
    assert!(!innodb(Rr));
    assert!(innodb(Ser));
    assert!(serializable(Sqlite::default().with_log(), Ser, &WRITE_SKEW));
}

#[test]
fn a_read_only_transaction_can_show_what_nobody_else_does() {
    let postgres = |level| serializable(Postgres::default(), level, &READ_ONLY);
    // Without the reader two orders are left, and both are serial.
    assert!(serializable(Postgres::default(), Rr, &READ_ONLY[..2]));
    assert!(!postgres(Rr));
    assert!(postgres(Ser));
}

#[test]
fn atomic_statements_are_serial() {
    for level in [Rc, Rr, Ser] {
        assert!(serializable(Postgres::default(), level, &ATOMIC));
        assert!(serializable(InnoDb::new(Flavour::MYSQL), level, &ATOMIC));
    }
    assert!(serializable(Sqlite::default(), Ser, &ATOMIC));
}

#[test]
fn a_serial_violation_says_what_differs() {
    let found = explore(
        Postgres::default(),
        Rc,
        &LOST_UPDATE,
        &[Guarantee::Serializable],
    );
    let violation = found.expect("a lost update");
    assert!(
        violation
            .detail
            .starts_with("no serial order of the 2 committed transactions"),
        "{}",
        violation.detail
    );
    // Two transactions of four statements, and who waits goes on: nothing else.
    assert!(
        violation.schedule.events.len() <= 9,
        "{:#?}",
        violation.schedule.events
    );
}

#[test]
fn who_is_done_leaves_nothing_behind() {
    let leak = |db: Postgres, program: &'static [&'static str]| {
        explore(db, Rc, &[program], &[Guarantee::NoLeak]).map(|violation| violation.detail)
    };
    let postgres = Postgres::default;
    assert_eq!(
        leak(postgres(), &["BEGIN", "SELECT v FROM t", "COMMIT"]),
        None
    );
    assert_eq!(
        leak(postgres(), &["BEGIN", "SELECT v FROM t FOR UPDATE"]).as_deref(),
        Some("p1 is done and still has an open transaction")
    );
    assert_eq!(
        leak(
            postgres(),
            &[
                "SELECT pg_advisory_lock(7)",
                "SELECT pg_advisory_lock(7)",
                "SELECT pg_advisory_unlock(7)"
            ]
        )
        .as_deref(),
        Some("p1 is done and still has the advisory lock 7")
    );
    assert_eq!(
        leak(
            postgres(),
            &["BEGIN", "SELECT pg_advisory_xact_lock(7)", "COMMIT"]
        ),
        None
    );
    let innodb = explore(
        InnoDb::new(Flavour::MYSQL),
        Rr,
        &[&["SELECT GET_LOCK('a', 1)"]],
        &[Guarantee::NoLeak],
    );
    assert_eq!(
        innodb.expect("a leak").detail,
        "p1 is done and still has the lock 'a'"
    );
}

/// What is found of this anomaly on a database, whatever the order of statements.
fn found<D: Database>(
    db: D,
    level: Isolation,
    programs: &[&'static [&'static str]],
) -> Option<String> {
    let found = explore(db, level, programs, &Guarantee::ANOMALIES);
    found.map(|violation| violation.property)
}

#[test]
fn anomalies_have_their_names() {
    let postgres = |level, programs| found(Postgres::default(), level, programs);
    assert_eq!(postgres(Rc, &LOST_UPDATE).as_deref(), Some("no G-single"));
    assert_eq!(postgres(Rr, &LOST_UPDATE), None);
    assert_eq!(postgres(Rr, &WRITE_SKEW).as_deref(), Some("no G2-item"));
    assert_eq!(postgres(Ser, &WRITE_SKEW), None);
    assert_eq!(postgres(Rr, &READ_ONLY[..2]), None);
    assert_eq!(postgres(Rr, &READ_ONLY).as_deref(), Some("no G2-item"));
    assert_eq!(postgres(Ser, &READ_ONLY), None);
    for level in [Rc, Rr, Ser] {
        assert_eq!(postgres(level, &ATOMIC), None);
    }
    const PHANTOM: [&[&str]; 2] = [
        &[
            "BEGIN",
            "SELECT v FROM t WHERE v > 20",
            "INSERT INTO t VALUES (3, 30)",
            "COMMIT",
        ],
        &[
            "BEGIN",
            "SELECT v FROM t WHERE v > 20",
            "INSERT INTO t VALUES (4, 40)",
            "COMMIT",
        ],
    ];
    assert_eq!(postgres(Rr, &PHANTOM).as_deref(), Some("no G2"));
    assert_eq!(postgres(Ser, &PHANTOM), None);
    // Rows that no search would have found are nobody's business.
    const APART: [&[&str]; 2] = [
        &[
            "BEGIN",
            "SELECT v FROM t WHERE v > 20",
            "INSERT INTO t VALUES (3, 3)",
            "COMMIT",
        ],
        &[
            "BEGIN",
            "SELECT v FROM t WHERE v > 20",
            "INSERT INTO t VALUES (4, 4)",
            "COMMIT",
        ],
    ];
    assert_eq!(postgres(Rr, &APART), None);
}

#[test]
fn a_cycle_is_shown_with_its_statements() {
    let found = explore(Postgres::default(), Rc, &LOST_UPDATE, &Guarantee::ANOMALIES);
    let violation = found.expect("a lost update");
    let statements: Vec<&str> = violation
        .matters
        .iter()
        .filter_map(|at| violation.schedule.events[*at].statement.as_ref())
        .map(|statement| &*statement.sql)
        .collect();
    assert!(
        statements.contains(&"SELECT v FROM t WHERE id = 1"),
        "{statements:?}"
    );
    assert!(
        statements.iter().any(|sql| sql.starts_with("UPDATE")),
        "{statements:?}"
    );
    assert!(
        violation.detail.contains("read what is replaced by"),
        "{}",
        violation.detail
    );
}

/// The programs of a script of the matrix, one a session.
fn programs(anomaly: &anomaly::Anomaly, level: &anomaly::Level) -> Vec<&'static [&'static str]> {
    let mut sessions: Vec<(&str, Vec<&'static str>)> = Vec::new();
    for line in anomaly.script.lines() {
        let (name, sql) = line.split_once(": ").expect("a line names its session");
        let sql: &'static str = String::leak(level.adapt(sql));
        match sessions.iter_mut().find(|(session, _)| *session == name) {
            Some((_, list)) => list.push(sql),
            None => sessions.push((name, vec![sql])),
        }
    }
    sessions
        .into_iter()
        .map(|(_, list)| &*list.leak())
        .collect()
}

/// What the anomaly of a script is by Adya.
fn kinds(name: &str) -> &'static [Guarantee] {
    match name {
        "G0" => &[Guarantee::NoG0],
        "G1a" => &[Guarantee::NoG1a],
        "G1b" => &[Guarantee::NoG1b],
        "G1c" => &[Guarantee::NoG1c],
        "P4"
        | "P4-forupdate"
        | "P4-snapshot-then-forupdate"
        | "P4-atomic"
        | "P4-cas"
        | "G-single"
        | "G-single-dep"
        | "G-single-write"
        | "PMP"
        | "PMP-write"
        | "P2-fuzzy"
        | "OTV"
        | "P3-phantom-locking"
        | "P3-phantom-snapshot-then-update" => &[
            Guarantee::NoG1a,
            Guarantee::NoG1b,
            Guarantee::NoG1c,
            Guarantee::NoGSingle,
        ],
        _ => &Guarantee::ANOMALIES,
    }
}

/// Compares the cells of the matrix that pass with what is found by exploring their scripts.
fn compare(wanted: impl Fn(&Cell) -> bool) -> (usize, Vec<String>) {
    let anomalies = anomaly::parse(include_str!("anomalies/anomalies.toml")).expect("anomalies");
    let cells = Cell::parse(include_str!("anomalies/matrix.tsv")).expect("a matrix");
    let (mut count, mut different) = (0, Vec::new());
    for cell in cells.iter().filter(|cell| wanted(cell)) {
        let anomaly = anomalies
            .iter()
            .find(|a| a.name == cell.anomaly)
            .expect("a script");
        let level = cell.conditions().expect("a known level");
        let programs = programs(anomaly, &level);
        let run = |explorer: Option<Box<Violation>>| explorer.map(|violation| violation.property);
        let kinds = kinds(&cell.anomaly);
        let found = match (&*cell.engine, &*cell.version) {
            ("SQLite", _) if cell.level.starts_with("WAL") => run(explore_cell(
                Sqlite::default().with_log(),
                anomaly,
                &level,
                &programs,
                kinds,
            )),
            ("SQLite", _) => run(explore_cell(
                Sqlite::default(),
                anomaly,
                &level,
                &programs,
                kinds,
            )),
            ("MySQL", _) => run(explore_cell(
                InnoDb::new(Flavour::MYSQL),
                anomaly,
                &level,
                &programs,
                kinds,
            )),
            (_, version) => {
                let flavour = match version.starts_with("10.11.") {
                    true => Flavour::MARIADB_10_11,
                    false => Flavour::MARIADB_11_8,
                };
                run(explore_cell(
                    InnoDb::new(flavour),
                    anomaly,
                    &level,
                    &programs,
                    kinds,
                ))
            }
        };
        count += 1;
        // What these compare is the value at the end; the dependencies are a cycle all the same.
        let by_value = matches!(&*cell.anomaly, "P4-atomic" | "P4-cas");
        // The matrix is about the order of the script: in others the first read of PMP-write is not
        // repeatable.
        let by_order = cell.level.starts_with("READ UNCOMMITTED") && cell.anomaly == "PMP-write";
        let allowed = cell.outcome == "allowed" || (by_value || by_order) && found.is_some();
        if allowed != found.is_some() {
            different.push(format!(
                "{} {} {}: {} and {found:?}",
                cell.engine, cell.level, cell.anomaly, cell.outcome
            ));
        }
    }
    (count, different)
}

fn explore_cell<D: Database>(
    db: D,
    anomaly: &anomaly::Anomaly,
    level: &anomaly::Level,
    programs: &[&'static [&'static str]],
    guarantees: &[Guarantee],
) -> Option<Box<Violation>> {
    let mut explorer = Explorer::new(db)
        .setup(&*anomaly.setup)
        .without_contention()
        .may_hang()
        .limits(Limits {
            states: 200_000,
            ..Limits::default()
        });
    for (at, program) in programs.iter().copied().enumerate() {
        let run = move |mut worker: Worker| async move {
            let mut session = worker.session();
            for statement in program {
                if session.exec(statement, &[]).await.is_err() {
                    let _ = session.exec("rollback", &[]).await;
                    break;
                }
            }
        };
        let mut spec = ProcessSpec::new(format!("T{}", at + 1), run);
        spec.connect = level.connect.as_deref().map(Into::into);
        spec.isolation = level.isolation;
        explorer = explorer.add(spec);
    }
    for guarantee in guarantees {
        explorer = explorer.guarantee(*guarantee);
    }
    match explorer.run().expect("it can be explored").verdict {
        Verdict::Holds => None,
        Verdict::Violated(violation) => Some(violation),
        other => panic!("{}: {other}", anomaly.name),
    }
}

#[test]
#[ignore = "462 cells take a while"]
fn every_cell_of_the_matrix_shows_its_anomaly_or_none() {
    let (count, different) = compare(|_| true);
    assert_eq!(count, 462);
    assert!(
        different.is_empty(),
        "{} differ\n{}",
        different.len(),
        different.join("\n")
    );
}

#[test]
fn cells_of_the_matrix_show_their_anomaly_or_none() {
    let (count, different) = compare(|cell| {
        (cell.engine == "MySQL" || cell.engine == "SQLite" && cell.level == "WAL/BEGIN DEFERRED")
            && !matches!(&*cell.anomaly, "RO" | "G2-fekete" | "OTV")
    });
    assert_eq!(count, 95);
    assert!(
        different.is_empty(),
        "{} differ\n{}",
        different.len(),
        different.join("\n")
    );
}
