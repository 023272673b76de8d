//! Which servers the claim forms run on.

use std::fmt;
use std::str::FromStr;

use super::error::{ClaimError, Doing};
use super::pool::Pool;
use super::table::Form;
use crate::{Dialect, Host, Session, Value};

/// The version of a server: its leading numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number; 0 if there is none.
    pub minor: u32,
    /// Third number; 0 if there is none.
    pub patch: u32,
}

impl Version {
    const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version {
            major,
            minor,
            patch,
        }
    }

    /// The oldest server on which a form runs.
    fn floor(dialect: Dialect, form: Form) -> Version {
        match (dialect, form) {
            // hashtextextended; SKIP LOCKED is older.
            (Dialect::Postgres, Form::Advisory) => Version::new(11, 0, 0),
            (Dialect::Postgres, _) => Version::new(9, 5, 0),
            // SKIP LOCKED.
            (Dialect::MySql, _) => Version::new(8, 0, 1),
            (Dialect::MariaDb, _) => Version::new(10, 6, 0),
            // UPDATE .. RETURNING.
            (Dialect::Sqlite, _) => Version::new(3, 35, 0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text does not begin with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    /// From what a server says: `10.11.14-MariaDB-0+deb12u2`, `8.0.36-log`, `15.18 (Debian ..)`. An
    /// old prefix of MariaDB for clients that expect 5.5 is skipped.
    fn from_str(text: &str) -> Result<Version, NoVersion> {
        let text = match text.strip_prefix("5.5.5-") {
            Some(rest) if rest.contains("MariaDB") => rest,
            _ => text,
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = text[..end.unwrap_or(text.len())].split('.');
        let mut next = || numbers.next().and_then(|number| number.parse().ok());
        Ok(Version {
            major: next().ok_or(NoVersion)?,
            minor: next().unwrap_or(0),
            patch: next().unwrap_or(0),
        })
    }
}

/// Asks the server for its version; a service does that once, before it opens a queue.
///
/// # Errors
/// [`ClaimError::ServerTooOld`]: MySQL before 8.0.1 and MariaDB before 10.6 (no `SKIP LOCKED`),
/// PostgreSQL before 9.5 (advisory form: 11), SQLite before 3.35.
pub async fn check_server<H: Host>(
    pool: &Pool<H>,
    dialect: Dialect,
    form: Form,
) -> Result<Version, ClaimError> {
    let mut session = pool.acquire().await.map_err(ClaimError::Connect)?;
    let sql = match dialect {
        Dialect::Postgres => "SHOW server_version",
        Dialect::MySql | Dialect::MariaDb => "SELECT VERSION() AS version",
        Dialect::Sqlite => "SELECT sqlite_version() AS version",
    };
    let reply = session.exec(sql, &[]).await;
    let reply = reply.map_err(|error| ClaimError::of(Doing::Claim, error))?;
    session.put_back();
    let text = reply.scalar().and_then(Value::as_str).unwrap_or_default();
    let found: Version = text
        .parse()
        .map_err(|_| ClaimError::Contents(format!("`{text}` is no version of a server").into()))?;
    let floor = Version::floor(dialect, form);
    match found >= floor {
        true => Ok(found),
        false => Err(ClaimError::ServerTooOld {
            product: dialect,
            found,
            floor,
            form: form.name(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_write_them() {
        let read = |text: &str| text.parse::<Version>().map(|v| v.to_string());
        assert_eq!(read("10.11.14-MariaDB-0+deb12u2").unwrap(), "10.11.14");
        assert_eq!(read("5.5.5-10.6.1-MariaDB-log").unwrap(), "10.6.1");
        assert_eq!(read("5.5.5-m3").unwrap(), "5.5.5");
        assert_eq!(read("8.0.36-log").unwrap(), "8.0.36");
        assert_eq!(read("15.18 (Debian 15.18-0+deb12u1)").unwrap(), "15.18.0");
        assert_eq!(read("17beta1").unwrap(), "17.0.0");
        assert_eq!(read("MariaDB"), Err(NoVersion));
        assert!("8.0.9".parse::<Version>().unwrap() < "8.0.10".parse().unwrap());
    }
}
