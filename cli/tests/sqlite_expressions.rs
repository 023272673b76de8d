//! Expressions on simulated SQLite and on SQLite itself, which is built in: the same values, the same
//! storage classes, the same error codes, for a thousand random expressions over columns of every
//! affinity.

use rowlock_model::Dialect;
use rowlock_model::schedule::{SessionId, Statement};
use rowlock_real::{Journal, RealStage, Target};
use rowlock_scenarios::stage::{Answer, Stage};
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::stage::SimStage;

const TABLE: &str = "CREATE TABLE t (i INTEGER, r REAL, x TEXT, n NUMERIC, b BLOB, d, c TEXT COLLATE NOCASE); \
    INSERT INTO t VALUES \
    (1, 1.5, 'abc', '12', x'6162', NULL, 'Abc'), \
    ('7', 2, 12, 3.5, 'b', 'x', 'ABC'), \
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
    (-3, 1e3, '1e2', 'z', 4, 0.25, ' a');";

/// A generator of numbers: xorshift, so that every run asks the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len())]
    }
}

/// A random expression, at most so deep.
fn expression(numbers: &mut Numbers, depth: u32) -> String {
    const COLUMNS: [&str; 7] = ["i", "r", "x", "n", "b", "d", "c"];
    const LITERALS: [&str; 16] = [
        "0",
        "1",
        "-2",
        "3",
        "10",
        "0.5",
        "2.0",
        "NULL",
        "'abc'",
        "'12'",
        "'1.5x'",
        "''",
        "'B'",
        "x'61'",
        "9223372036854775807",
        "1e3",
    ];
    if depth == 0 || numbers.next(6) == 0 {
        return match numbers.next(2) {
            0 => numbers.pick(&COLUMNS).to_owned(),
            _ => numbers.pick(&LITERALS).to_owned(),
        };
    }
    let mut inner = || expression(numbers, depth - 1);
    let (a, b, c) = (inner(), inner(), inner());
    match numbers.next(14) {
        0 | 1 => {
            let op = numbers.pick(&["+", "-", "*", "/", "%"]);
            format!("({a} {op} {b})")
        }
        2 => format!("({a} {} {b})", numbers.pick(&["&", "|", "<<", ">>"])),
        3 => format!("({a} || {b})"),
        4 | 5 => {
            let op = numbers.pick(&["=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"]);
            format!("({a} {op} {b})")
        }
        6 => format!("({a} {} {b})", numbers.pick(&["AND", "OR"])),
        7 => format!("({} {a})", numbers.pick(&["NOT", "-", "~"])),
        8 => format!("({a} BETWEEN {b} AND {c})"),
        9 => format!("({a} {} ({b}, {c}))", numbers.pick(&["IN", "NOT IN"])),
        10 => format!("CASE WHEN {a} THEN {b} ELSE {c} END"),
        11 => {
            let ty = numbers.pick(&["INTEGER", "REAL", "TEXT", "NUMERIC", "BLOB"]);
            format!("CAST({a} AS {ty})")
        }
        12 => match numbers.next(9) {
            0 => format!("coalesce({a}, {b})"),
            1 => format!("nullif({a}, {b})"),
            2 => format!("max({a}, {b})"),
            3 => format!("min({a}, {b}, {c})"),
            4 => format!("length({a})"),
            5 => format!("typeof({a})"),
            6 => format!("upper({a})"),
            7 => format!("substr({a}, 2)"),
            _ => format!("abs({a})"),
        },
        _ => format!("({a} {} '%b_')", numbers.pick(&["LIKE", "NOT LIKE"])),
    }
}

fn ask(stage: &mut dyn Stage, session: SessionId, sql: &str) -> String {
    let statement = Statement {
        sql: sql.into(),
        args: Vec::new(),
        batch: false,
    };
    stage
        .send(session, &statement)
        .expect("the session is idle");
    let mut completions = stage.settle(None).expect("nothing blocks");
    match completions.remove(0).answer {
        Answer::Exec(Ok(reply)) => format!("{:?}", reply.rows),
        Answer::Exec(Err(error)) => format!("error {}", error.code),
        Answer::Batch(_) => unreachable!("a statement was sent"),
    }
}

#[test]
fn a_thousand_random_expressions() {
    let mut real = RealStage::open(&Target::Sqlite(Journal::Rollback)).expect("a file");
    let mut simulated = SimStage::new("simulated SQLite", Sqlite::default);
    assert_eq!(simulated.dialect(), Dialect::Sqlite);
    let mut sessions = Vec::new();
    let stages: [&mut dyn Stage; 2] = [&mut real, &mut simulated];
    for stage in stages {
        stage.reset(&[TABLE.to_owned()]).expect("the set-up runs");
        sessions.push(stage.connect("a", None).expect("a session"));
    }
    let mut numbers = Numbers(0x5eed_0001);
    let mut differences = Vec::new();
    for _ in 0..1_000 {
        let what = expression(&mut numbers, 3);
        let sql = match numbers.next(4) {
            0 => format!("SELECT rowid FROM t WHERE {what}"),
            1 => format!("SELECT count(*), min({what}), max({what}) FROM t"),
            2 => format!("SELECT rowid FROM t ORDER BY {what}, rowid"),
            _ => format!("SELECT {what}, typeof({what}) FROM t"),
        };
        let expected = ask(&mut real, sessions[0], &sql);
        let got = ask(&mut simulated, sessions[1], &sql);
        if expected != got {
            differences.push(format!(
                "{sql}\n  SQLite:    {expected}\n  simulated: {got}"
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of 1000 differ\n{}",
        differences.len(),
        differences
            .iter()
            .take(20)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}
