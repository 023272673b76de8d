//! Expressions on the simulator and on the real databases: the same values, the same order, the same
//! error codes, for a thousand random expressions over columns of many types.
//!
//! SQLite is built in and always compared; MySQL and MariaDB where they are installed (otherwise their
//! tests are ignored, by name; with `ROWLOCK_REQUIRE_LIVE=1` they fail).

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock::Dialect;
use rowlock::real::server::{Flavour, installed};
use rowlock::real::{Journal, RealStage, Target};
use rowlock_model::schedule::{SessionId, Statement};
use rowlock_scenarios::stage::{Answer, Stage};
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::stage::SimStage;

/// What expressions are made of on one product.
struct Grammar {
    setup: &'static str,
    columns: &'static [&'static str],
    literals: &'static [&'static str],
    arithmetic: &'static [&'static str],
    comparisons: &'static [&'static str],
    logic: &'static [&'static str],
    prefixes: &'static [&'static str],
    casts: &'static [&'static str],
    /// `{a}`, `{b}` and `{c}` stand for arguments.
    calls: &'static [&'static str],
    /// `{e}` stands for the expression.
    queries: &'static [&'static str],
}

const SQLITE: Grammar = Grammar {
    setup: "CREATE TABLE t (i INTEGER, r REAL, x TEXT, n NUMERIC, b BLOB, d, c TEXT COLLATE NOCASE); \
        INSERT INTO t VALUES \
        (1, 1.5, 'abc', '12', x'6162', NULL, 'Abc'), \
        ('7', 2, 12, 3.5, 'b', 'x', 'ABC'), \
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
        (-3, 1e3, '1e2', 'z', 4, 0.25, ' a');",
    columns: &["i", "r", "x", "n", "b", "d", "c"],
    literals: &[
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
    ],
    arithmetic: &["+", "-", "*", "/", "%", "&", "|", "<<", ">>", "||"],
    comparisons: &["=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"],
    logic: &["AND", "OR"],
    prefixes: &["NOT", "-", "~"],
    casts: &["INTEGER", "REAL", "TEXT", "NUMERIC", "BLOB"],
    calls: &[
        "coalesce({a}, {b})",
        "nullif({a}, {b})",
        "max({a}, {b})",
        "min({a}, {b}, {c})",
        "length({a})",
        "typeof({a})",
        "upper({a})",
        "substr({a}, 2)",
        "abs({a})",
        "{a} LIKE '%b_'",
        "{a} NOT LIKE 'A%'",
        "iif({a}, {b}, {c})",
        "instr({a}, {b})",
        "trim({a})",
        "hex({a})",
    ],
    queries: &[
        "SELECT rowid FROM t WHERE {e}",
        "SELECT count(*), min({e}), max({e}), sum({e}) FROM t",
        "SELECT rowid FROM t ORDER BY {e}, rowid",
        "SELECT {e}, typeof({e}) FROM t",
    ],
};

const MYSQL: Grammar = Grammar {
    setup: "CREATE TABLE t (id INT PRIMARY KEY, i INT, b BIGINT, d DECIMAL(8,2), f DOUBLE, v VARCHAR(10)); \
        INSERT INTO t VALUES (1, 1, 10, 1.50, 0.5, 'abc'), (2, -7, 300, 12.25, 100, '12'), \
        (3, NULL, NULL, NULL, NULL, NULL), (4, 0, -1, 0, -2.5, 'ABC');",
    columns: &["i", "b", "d", "f", "v"],
    literals: &[
        "0", "1", "-2", "3", "10", "0.5", "2.25", "NULL", "'abc'", "'12'", "''", "'B'", "1e1",
    ],
    arithmetic: &["+", "-", "*", "%", "DIV"],
    comparisons: &["=", "<>", "<", "<=", ">", ">=", "<=>"],
    logic: &["AND", "OR", "XOR"],
    prefixes: &["NOT", "-"],
    casts: &["SIGNED", "CHAR"],
    calls: &[
        "COALESCE({a}, {b})",
        "NULLIF({a}, {b})",
        "IF({a}, {b}, {c})",
        "LENGTH({a})",
        "UPPER({a})",
        "CONCAT({a}, {b})",
        "ABS({a})",
        "{a} LIKE '%b_'",
        "IFNULL({a}, {b})",
        "LEFT({a}, 2)",
    ],
    // Whether it is true, which every type has; and what an integer makes of it.
    queries: &[
        "SELECT id FROM t WHERE {e}",
        "SELECT COUNT(*), COUNT({e}) FROM t",
        "SELECT id, ({e}) IS NULL, ({e}) IS TRUE FROM t",
        "SELECT id FROM t WHERE ({e}) = ({e})",
    ],
};

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
fn expression(grammar: &Grammar, numbers: &mut Numbers, depth: u32) -> String {
    if depth == 0 || numbers.next(6) == 0 {
        return match numbers.next(2) {
            0 => numbers.pick(grammar.columns).to_owned(),
            _ => numbers.pick(grammar.literals).to_owned(),
        };
    }
    let mut inner = || expression(grammar, numbers, depth - 1);
    let (a, b, c) = (inner(), inner(), inner());
    match numbers.next(12) {
        0..=2 => format!("({a} {} {b})", numbers.pick(grammar.arithmetic)),
        3 | 4 => format!("({a} {} {b})", numbers.pick(grammar.comparisons)),
        5 => format!("({a} {} {b})", numbers.pick(grammar.logic)),
        6 => format!("({} {a})", numbers.pick(grammar.prefixes)),
        7 => format!("({a} BETWEEN {b} AND {c})"),
        8 => format!("({a} {} ({b}, {c}))", numbers.pick(&["IN", "NOT IN"])),
        9 => format!("CASE WHEN {a} THEN {b} ELSE {c} END"),
        10 => format!("CAST({a} AS {})", numbers.pick(grammar.casts)),
        _ => {
            let call = numbers.pick(grammar.calls);
            let call = call
                .replace("{a}", &a)
                .replace("{b}", &b)
                .replace("{c}", &c);
            format!("({call})")
        }
    }
}

fn ask(stage: &mut dyn Stage, session: SessionId, sql: &str) -> Result<String, Failed> {
    let statement = Statement {
        sql: sql.into(),
        args: Vec::new(),
        batch: false,
    };
    stage.send(session, &statement)?;
    let mut completions = stage.settle(None)?;
    if completions.len() != 1 {
        return Err(format!("`{sql}` has no answer").into());
    }
    match completions.remove(0).answer {
        Answer::Exec(Ok(reply)) => Ok(format!("{:?}", reply.rows)),
        Answer::Exec(Err(error)) => Ok(format!("error {}", error.code)),
        Answer::Batch(_) => Err("a statement was answered as a script".into()),
    }
}

fn compare(
    mut real: RealStage,
    simulated: &mut dyn Stage,
    grammar: &Grammar,
) -> Result<(), Failed> {
    let mut sessions = Vec::new();
    let stages: [&mut dyn Stage; 2] = [&mut real, simulated];
    for stage in stages {
        stage.reset(&[grammar.setup.to_owned()])?;
        sessions.push(stage.connect("a", None)?);
    }
    let mut numbers = Numbers(0x5eed_0001);
    let mut differences = Vec::new();
    for _ in 0..1_000 {
        let what = expression(grammar, &mut numbers, 3);
        let sql = numbers.pick(grammar.queries).replace("{e}", &what);
        let expected = ask(&mut real, sessions[0], &sql)?;
        let got = ask(simulated, sessions[1], &sql)?;
        if expected != got {
            differences.push(format!(
                "{sql}\n  real:      {expected}\n  simulated: {got}"
            ));
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = differences.iter().take(25).cloned().collect();
    Err(format!("{} of 1000 differ\n{}", differences.len(), shown.join("\n")).into())
}

fn sqlite() -> Result<(), Failed> {
    let real = RealStage::open(&Target::Sqlite(Journal::Rollback))?;
    let mut simulated = SimStage::new("simulated SQLite", Sqlite::default);
    compare(real, &mut simulated, &SQLITE)
}

fn innodb(server: Flavour, simulated: flavour::Flavour) -> Result<(), Failed> {
    let real = RealStage::open(&Target::MySql(server, None))?;
    let mut simulated = SimStage::new("simulated", move || InnoDb::new(simulated));
    compare(real, &mut simulated, &MYSQL)
}

fn main() {
    let arguments = Arguments::from_args();
    let found = installed();
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let needs = |trial: Trial, dialect: Dialect| {
        let is_there = found.iter().any(|server| server.dialect == dialect);
        trial.with_ignored_flag(!is_there && !required)
    };
    let trials = vec![
        Trial::test("sqlite", sqlite),
        needs(
            Trial::test("mysql", || innodb(Flavour::MySql, flavour::Flavour::MYSQL)),
            Dialect::MySql,
        ),
        needs(
            Trial::test("mariadb", || {
                innodb(Flavour::MariaDb, flavour::Flavour::MARIADB_10_11)
            }),
            Dialect::MariaDb,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
