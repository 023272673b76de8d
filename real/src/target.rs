//! What a run may be pointed at.

use std::str::FromStr;

use rowlock_model::{DbError, Dialect};

use crate::error::UrlError;
use crate::mysql::MySqlTarget;
use crate::postgres::PostgresTarget;
use crate::server::Flavour;
use crate::session::RealSession;
use crate::sqlite::{Journal, SqliteTarget};

/// A server to run on, as `--on` names it.
///
/// * `postgres`: a throwaway server from installed binaries;
/// * `mysql`, `mariadb`: the same of these; `mariadb:11.8` asks for a version;
/// * `sqlite`, `sqlite:wal`: a temporary file with a rollback journal or a write-ahead log;
/// * `postgres://...`, `mysql://...`, `mariadb://...`: a database that somebody marked as disposable, see [`Target::DISPOSABLE`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A throwaway PostgreSQL server.
    Postgres,
    /// A throwaway MySQL or MariaDB server, of a version if one is named.
    MySql(Flavour, Option<String>),
    /// A temporary SQLite file.
    Sqlite(Journal),
    /// A PostgreSQL database that is there already.
    PostgresUrl(Box<PostgresTarget>),
    /// A database that is there already, on a server that must be of this kind.
    MySqlUrl(Box<MySqlTarget>, Dialect),
}

/// A target that is not understood. It repeats names, but never URLs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Not a name of a server.
    #[error(
        "unknown server `{0}`; expected postgres, mysql, mariadb, mysql:VERSION, mariadb:VERSION, \
         sqlite, sqlite:wal, or a URL (postgres://..., mysql://..., mariadb://...)"
    )]
    Unknown(String),
    /// A URL of a server that is not supported here.
    #[error(
        "URLs of the scheme `{0}` are not supported; expected postgres://..., mysql://... or \
         mariadb://..."
    )]
    Scheme(String),
    /// A URL that cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl Target {
    /// What the comment of a database says that may be emptied and whose sessions may be killed:
    /// `COMMENT ON DATABASE scratch IS 'rowlock: disposable'`. A database whose name ends with
    /// `_rowlock` needs no comment; on MySQL, where databases have none, only the name can tell.
    pub const DISPOSABLE: &'static str = "rowlock: disposable";

    /// Which database this is.
    pub fn dialect(&self) -> Dialect {
        match self {
            Target::Postgres | Target::PostgresUrl(_) => Dialect::Postgres,
            Target::MySql(flavour, _) => flavour.dialect(),
            Target::MySqlUrl(_, dialect) => *dialect,
            Target::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        match text {
            "postgres" => return Ok(Target::Postgres),
            "sqlite" => return Ok(Target::Sqlite(Journal::Rollback)),
            "sqlite:wal" => return Ok(Target::Sqlite(Journal::Wal)),
            _ => {}
        }
        let (name, version) = match text.split_once(':') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if version.is_none_or(is_number) {
            let version = version.map(str::to_owned);
            match name {
                "mysql" => return Ok(Target::MySql(Flavour::MySql, version)),
                "mariadb" => return Ok(Target::MySql(Flavour::MariaDb, version)),
                _ => {}
            }
        }
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Target::PostgresUrl(Box::new(
                PostgresTarget::from_url(text)?,
            ))),
            Some(("mysql", _)) => Ok(Target::MySqlUrl(
                Box::new(MySqlTarget::from_url(text)?),
                Dialect::MySql,
            )),
            Some(("mariadb", rest)) => Ok(Target::MySqlUrl(
                Box::new(MySqlTarget::from_url(&format!("mysql://{rest}"))?),
                Dialect::MariaDb,
            )),
            Some((scheme, _)) => Err(TargetError::Scheme(scheme.to_owned())),
            // Something with `@` may be a URL without its scheme, and hold a password.
            None if text.contains('@') => Err(UrlError::Malformed.into()),
            None => Err(TargetError::Unknown(text.to_owned())),
        }
    }
}

/// How to open a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Connector {
    /// On PostgreSQL.
    Postgres(Box<PostgresTarget>),
    /// On an SQLite file.
    Sqlite(SqliteTarget),
    /// On MySQL or MariaDB.
    MySql(Box<MySqlTarget>),
}

impl Connector {
    /// Opens a session, with a name that the server shows where it has room for one.
    ///
    /// # Errors
    /// The server refused or could not be reached.
    pub async fn connect(&self, application_name: Option<&str>) -> Result<RealSession, DbError> {
        match self {
            Connector::Postgres(target) => {
                let link = match application_name {
                    Some(name) => target.with_application_name(name).connect().await?,
                    None => target.connect().await?,
                };
                Ok(RealSession::on_postgres(link))
            }
            // The protocol has no name for a connection.
            Connector::MySql(target) => Ok(RealSession::on_mysql(target.connect().await?)),
            Connector::Sqlite(target) => Ok(RealSession::on_sqlite(target.connect().await?)),
        }
    }
}

impl From<PostgresTarget> for Connector {
    fn from(target: PostgresTarget) -> Connector {
        Connector::Postgres(Box::new(target))
    }
}

impl From<MySqlTarget> for Connector {
    fn from(target: MySqlTarget) -> Connector {
        Connector::MySql(Box::new(target))
    }
}

impl From<SqliteTarget> for Connector {
    fn from(target: SqliteTarget) -> Connector {
        Connector::Sqlite(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_repeats_a_password() {
        for text in [
            "postgres://u:s3cret@[broken/db",
            "postgres://u:s3cret@host:port/db",
            "postgres://u:s3cret@host/db?sslmode=require",
            "oracle://u:s3cret@host/db",
            "u:s3cret@host/db",
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{text}");
        }
        let target: Target = "postgres://u:s3cret@host/db".parse().unwrap();
        assert!(!format!("{target:?}").contains("s3cret"));
    }
}
