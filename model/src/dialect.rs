//! Which database speaks, and at which isolation level.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A database product whose behaviour is simulated and replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// Oracle MySQL (InnoDB).
    MySql,
    /// MariaDB (InnoDB).
    MariaDb,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// Every dialect, in the order in which reports list them.
    pub const ALL: [Dialect; 4] = [
        Dialect::Postgres,
        Dialect::MySql,
        Dialect::MariaDb,
        Dialect::Sqlite,
    ];

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Postgres => "postgres",
            Dialect::MySql => "mysql",
            Dialect::MariaDb => "mariadb",
            Dialect::Sqlite => "sqlite",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name of a dialect or of an isolation level is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; expected one of: {expected}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    expected: &'static str,
}

impl FromStr for Dialect {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        Dialect::ALL
            .into_iter()
            .find(|d| d.name() == s)
            .ok_or_else(|| UnknownName {
                what: "database",
                name: s.to_owned(),
                expected: "postgres, mysql, mariadb, sqlite",
            })
    }
}

/// The four levels of SQL-92; what each of them means is the engine's matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isolation {
    /// `READ UNCOMMITTED`.
    #[serde(rename = "read uncommitted")]
    ReadUncommitted,
    /// `READ COMMITTED`.
    #[serde(rename = "read committed")]
    ReadCommitted,
    /// `REPEATABLE READ`.
    #[serde(rename = "repeatable read")]
    RepeatableRead,
    /// `SERIALIZABLE`.
    #[serde(rename = "serializable")]
    Serializable,
}

impl Isolation {
    /// Every level, weakest first.
    pub const ALL: [Isolation; 4] = [
        Isolation::ReadUncommitted,
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];

    /// The name used in files, lower case, as servers print it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isolation {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        Isolation::ALL
            .into_iter()
            .find(|l| l.name() == s)
            .ok_or_else(|| UnknownName {
                what: "isolation level",
                name: s.to_owned(),
                expected: "read uncommitted, read committed, repeatable read, serializable",
            })
    }
}
