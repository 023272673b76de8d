//! Where schedules are run: opens stages on the simulator and on live servers.

use rowlock_model::{DbError, Dialect};
use rowlock_real::RealStage;
use rowlock_scenarios::stage::Stage;
use rowlock_sim::engine::innodb::InnoDb;
use rowlock_sim::engine::innodb::flavour::Flavour;
use rowlock_sim::engine::postgres::Postgres;
use rowlock_sim::engine::sqlite::Sqlite;
use rowlock_sim::pooler::Pooler;
use rowlock_sim::stage::SimStage;

use crate::config::{Narrow, Target};
use crate::exit::Failure;
use crate::output::Output;

/// The databases that are simulated.
const SIMULATED: &[Dialect] = &Dialect::ALL;

/// An empty database of MySQL 9.7 or MariaDB 10.11, with their usual settings.
pub(crate) fn innodb(dialect: Dialect) -> InnoDb {
    InnoDb::new(match dialect {
        Dialect::MariaDb => Flavour::MARIADB_10_11,
        _ => Flavour::MYSQL,
    })
}

/// Leaves out what is not simulated, and says so; a database that was asked for by name stays.
pub(crate) fn only_simulated(
    narrow: &mut Narrow,
    databases: impl Iterator<Item = Dialect>,
    output: &Output,
) {
    if !narrow.databases.is_empty() {
        return;
    }
    narrow.databases = SIMULATED.to_vec();
    let mut left: Vec<&str> = databases
        .filter(|database| !SIMULATED.contains(database))
        .map(Dialect::name)
        .collect();
    left.sort_unstable();
    left.dedup();
    if !left.is_empty() {
        output.error_line(&format!("left out, not simulated: {}", left.join(", ")));
    }
}

/// A stage on the simulator; `None` for a database that is not simulated.
pub(crate) fn simulated(dialect: Dialect) -> Option<Box<dyn Stage>> {
    match dialect {
        Dialect::Postgres => Some(Box::new(SimStage::new("simulated PostgreSQL 15", || {
            Pooler::new(Postgres::default(), 0)
        }))),
        Dialect::Sqlite => Some(Box::new(SimStage::new(
            "simulated SQLite 3.51",
            Sqlite::default,
        ))),
        Dialect::MySql => Some(Box::new(SimStage::new("simulated MySQL 9.7", || {
            innodb(Dialect::MySql)
        }))),
        Dialect::MariaDb => Some(Box::new(SimStage::new("simulated MariaDB 10.11", || {
            innodb(Dialect::MariaDb)
        }))),
    }
}

/// A stage on a simulated MySQL or MariaDB that was started with these options.
///
/// # Errors
/// An option that would matter and is not modelled.
pub(crate) fn simulated_with(
    dialect: Dialect,
    options: &[String],
) -> Result<Box<dyn Stage>, DbError> {
    innodb(dialect).started_with(options)?;
    let options = options.to_vec();
    let version = format!("simulated {dialect}");
    let fresh = move || {
        let server = innodb(dialect).started_with(&options);
        server.expect("the options were tried")
    };
    Ok(Box::new(SimStage::new(version, fresh)))
}

/// The stage of a run, opened when it is first needed and used for all of its schedules.
pub(crate) struct Stages<'a> {
    target: &'a Target,
    open: Vec<(Dialect, Box<dyn Stage>)>,
}

impl Stages<'_> {
    /// No stage is open yet.
    pub(crate) fn new(target: &Target) -> Stages<'_> {
        Stages {
            target,
            open: Vec::new(),
        }
    }

    /// The stage for schedules of a database.
    ///
    /// # Errors
    /// The server does not start, cannot be reached or may not be used, or the database is not
    /// simulated.
    pub(crate) fn of(&mut self, dialect: Dialect) -> Result<&mut dyn Stage, Failure> {
        let at = match self.open.iter().position(|(open, _)| *open == dialect) {
            Some(at) => at,
            None => {
                let stage = self.start(dialect)?;
                self.open.push((dialect, stage));
                self.open.len() - 1
            }
        };
        Ok(&mut *self.open[at].1)
    }

    fn start(&self, dialect: Dialect) -> Result<Box<dyn Stage>, Failure> {
        match self.target {
            Target::Simulator => simulated(dialect)
                .ok_or_else(|| Failure::Environment(format!("{dialect} is not simulated"))),
            Target::Live(target) => match RealStage::open(target) {
                Ok(stage) => Ok(Box::new(stage)),
                Err(error) => Err(Failure::Environment(error.message)),
            },
        }
    }
}
