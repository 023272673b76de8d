//! The simulator and the real databases, asked the same random questions.
//!
//! * `expressions`: types, values and error codes of expressions over columns of many types;
//! * `statements`: results of queries and writes of one session;
//! * `programs`: a few sessions on one SQLite file, every reply and who is busy.
//!
//! SQLite is built in and always compared; MySQL and MariaDB where they are installed (otherwise their
//! tests are ignored, by name; with `ROWLOCK_REQUIRE_LIVE=1` they fail). The tests whose names end with
//! `deep` ask a hundred times as much and are run by name: `cargo test -p rowlock --test differential --
//! --ignored expressions::mysql_deep`. `ROWLOCK_QUESTIONS` says how many, `ROWLOCK_SEED` from where.
//!
//! What the simulator refuses is passed over, and counted: a refusal is no wrong answer.

mod expressions;
mod grammar;
mod pair;
mod programs;
mod statements;

use grammar::Grammar;
use libtest_mimic::{Arguments, Failed, Trial};
use pair::{Pair, Side};
use rowlock::real::server::{Flavour, installed};
use rowlock::real::{Journal, RealStage, Target};
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::stage::SimStage;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn seed() -> u64 {
    number_of("ROWLOCK_SEED").unwrap_or(1)
}

fn sqlite(setup: &str) -> Result<Pair, Failed> {
    let real = RealStage::open(&Target::Sqlite(Journal::Rollback))?;
    let simulated = SimStage::new("simulated SQLite", Sqlite::default);
    Ok(Pair {
        real: Side::new(Box::new(real), setup)?,
        simulated: Side::new(Box::new(simulated), setup)?,
        refused: 0,
    })
}

/// A server that has InnoDB.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    flavour: Flavour,
    version: Option<&'static str>,
    simulated: flavour::Flavour,
    grammar: &'static Grammar,
}

const SERVERS: [Server; 3] = [
    Server {
        name: "mysql",
        flavour: Flavour::MySql,
        version: None,
        simulated: flavour::Flavour::MYSQL,
        grammar: &grammar::MYSQL,
    },
    Server {
        name: "mariadb",
        flavour: Flavour::MariaDb,
        version: Some("10.11"),
        simulated: flavour::Flavour::MARIADB_10_11,
        grammar: &grammar::MARIADB,
    },
    Server {
        name: "mariadb_11_8",
        flavour: Flavour::MariaDb,
        version: Some("11.8"),
        simulated: flavour::Flavour::MARIADB_11_8,
        grammar: &grammar::MARIADB,
    },
];

fn innodb(server: Server, setup: &str) -> Result<Pair, Failed> {
    let version = server.version.map(str::to_owned);
    let real = RealStage::open(&Target::MySql(server.flavour, version))?;
    let simulated = SimStage::new("simulated", move || InnoDb::new(server.simulated));
    Ok(Pair {
        real: Side::new(Box::new(real), setup)?,
        simulated: Side::new(Box::new(simulated), setup)?,
        refused: 0,
    })
}

/// A test, and its deep form, which is run by name.
fn both(
    name: String,
    missing: bool,
    counts: (u64, u64),
    test: impl Fn(u64, bool) -> Result<(), Failed> + Clone + Send + 'static,
) -> [Trial; 2] {
    let (quick, deep) = match number_of("ROWLOCK_QUESTIONS") {
        Some(count) => (count, count),
        None => counts,
    };
    let again = test.clone();
    [
        Trial::test(name.clone(), move || test(quick, false)).with_ignored_flag(missing),
        Trial::test(format!("{name}_deep"), move || again(deep, true)).with_ignored_flag(true),
    ]
}

fn main() {
    let arguments = Arguments::from_args();
    let found = installed();
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    let mut trials = Vec::new();
    trials.extend(both(
        "expressions::sqlite".to_owned(),
        false,
        (500, 50_000),
        |count, deep| {
            let grammar = &grammar::SQLITE;
            expressions::compare(sqlite(grammar.setup)?, grammar, seed(), count, deep)
        },
    ));
    trials.extend(both(
        "statements::sqlite".to_owned(),
        false,
        (200, 20_000),
        |count, deep| statements::compare(sqlite("")?, &statements::SQLITE, seed(), count, deep),
    ));
    for (name, journal) in [("sqlite", Journal::Rollback), ("sqlite_wal", Journal::Wal)] {
        trials.extend(both(
            format!("programs::{name}"),
            false,
            (60, 6_000),
            move |count, _| programs::compare(journal, seed(), count),
        ));
    }
    for server in SERVERS {
        let is_there = found.iter().any(|there| {
            there.dialect == server.flavour.dialect()
                && server.version.is_none_or(|v| there.version.contains(v))
        });
        let missing = !is_there && (!required || server.name == "mariadb_11_8");
        let name = format!("expressions::{}", server.name);
        trials.extend(both(name, missing, (300, 30_000), move |count, deep| {
            let pair = innodb(server, server.grammar.setup)?;
            expressions::compare(pair, server.grammar, seed(), count, deep)
        }));
        let name = format!("statements::{}", server.name);
        trials.extend(both(name, missing, (150, 15_000), move |count, deep| {
            statements::compare(innodb(server, "")?, &statements::MYSQL, seed(), count, deep)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
