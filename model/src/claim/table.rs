//! The description of a table whose rows are claimed.

use std::sync::Arc;

use crate::Dialect;

/// The type of the columns that hold instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InstantType {
    /// `timestamp with time zone` (PostgreSQL `timestamptz`).
    #[default]
    WithTimeZone,
    /// `timestamp` without time zone, holding UTC (MySQL and MariaDB: `DATETIME`, whatever its
    /// fraction: ends of leases are whole seconds).
    WithoutTimeZone,
    /// An integer: microseconds since 1970-01-01 00:00:00 UTC.
    Microseconds,
}

impl InstantType {
    /// The type that is meant where a table does not say: `timestamptz` on PostgreSQL, `DATETIME`
    /// on MySQL and MariaDB, an integer on SQLite.
    fn usual(dialect: Dialect) -> InstantType {
        match dialect {
            Dialect::Postgres => InstantType::WithTimeZone,
            Dialect::MySql | Dialect::MariaDb => InstantType::WithoutTimeZone,
            Dialect::Sqlite => InstantType::Microseconds,
        }
    }
}

/// How rows are claimed; follows from the description of the table ([`Table::form`]).
///
/// | form | named in the table | what holds a row | what returns it after a crash |
/// | --- | --- | --- | --- |
/// | row lock | nothing | a row lock of an open transaction | the end of the connection |
/// | lease | `locked_until` | an instant in the row | time |
/// | advisory | `advisory_lock` | a lock of a session on a key | the end of the connection |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// [`super::RowLock`].
    RowLock,
    /// [`super::Lease`].
    Lease,
    /// [`super::Advisory`].
    Advisory,
}

impl Form {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Form::RowLock => "row lock",
            Form::Lease => "lease",
            Form::Advisory => "advisory",
        }
    }
}

/// A piece of the text of an advisory key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPart {
    /// The same in every row.
    Text(Arc<str>),
    /// The value of a column.
    Column(Arc<str>),
}

/// What a column of the table is for. Only the id is required.
///
/// | role | meaning |
/// | --- | --- |
/// | `group` | only rows of the claimer's group are claimed |
/// | `priority` | smaller first |
/// | `retry_after` | not before this instant; `NULL` is at once |
/// | `processed_at` | `NULL` while unfinished; without it, finished rows are deleted |
/// | `attempt` | number of this delivery; not null, default 1 |
/// | `locked_until` | the lease; `NULL` while free |
/// | `fence` | counts claims; not null, default 0; see [`super::TokenRule::Fenced`] |
/// | payload | what the handler reads |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(super) schema: Option<Arc<str>>,
    pub(super) name: Arc<str>,
    pub(super) id: Arc<str>,
    pub(super) group: Option<Arc<str>>,
    pub(super) priority: Option<Arc<str>>,
    pub(super) retry_after: Option<Arc<str>>,
    pub(super) processed_at: Option<Arc<str>>,
    pub(super) attempt: Option<Arc<str>>,
    pub(super) locked_until: Option<Arc<str>>,
    pub(super) fence: Option<Arc<str>>,
    pub(super) payload: Vec<Arc<str>>,
    pub(super) instants: Option<InstantType>,
    pub(super) dead_letter: Option<DeadLetter>,
    pub(super) advisory_lock: Option<Arc<str>>,
}

/// Where dead letters go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeadLetter {
    /// The row stays and changes its group.
    Group(Arc<str>),
    /// The row moves to another table of the same schema, which has the id and payload columns.
    Table(Arc<str>),
}

/// The description of a table cannot be used; the message says why. A mistake in the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// An identifier is empty, too long for the database, or has a NUL in it.
    #[error("`{name}` is no identifier of {dialect}: {why}")]
    Identifier {
        /// The text given.
        name: Arc<str>,
        /// The database that would refuse it.
        dialect: Dialect,
        /// What is wrong with it.
        why: &'static str,
    },
    /// One column was given two roles.
    #[error("the column `{column}` is both {first} and {second}")]
    TwoRoles {
        /// The column.
        column: Arc<str>,
        /// One of its roles.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// A form or a setting needs a column that the table does not name.
    #[error("{needs} needs a column `{role}`")]
    Missing {
        /// What needs it.
        needs: &'static str,
        /// The role of the column.
        role: &'static str,
    },
    /// The settings contradict each other, or the database has no such thing.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl Table {
    /// A table with an id column and nothing else. The id is unique and never `NULL`.
    pub fn new(name: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Table {
        Table {
            schema: None,
            name: name.into(),
            id: id.into(),
            group: None,
            priority: None,
            retry_after: None,
            processed_at: None,
            attempt: None,
            locked_until: None,
            fence: None,
            payload: Vec::new(),
            instants: None,
            dead_letter: None,
            advisory_lock: None,
        }
    }

    /// The schema of the table, where the search path shall not decide.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<Arc<str>>) -> Table {
        self.schema = Some(schema.into());
        self
    }

    /// The group column.
    #[must_use]
    pub fn group(mut self, column: impl Into<Arc<str>>) -> Table {
        self.group = Some(column.into());
        self
    }

    /// The priority column.
    #[must_use]
    pub fn priority(mut self, column: impl Into<Arc<str>>) -> Table {
        self.priority = Some(column.into());
        self
    }

    /// The column of the instant before which a row is not due.
    #[must_use]
    pub fn retry_after(mut self, column: impl Into<Arc<str>>) -> Table {
        self.retry_after = Some(column.into());
        self
    }

    /// The column that marks finished rows.
    #[must_use]
    pub fn processed_at(mut self, column: impl Into<Arc<str>>) -> Table {
        self.processed_at = Some(column.into());
        self
    }

    /// The attempt column.
    #[must_use]
    pub fn attempt(mut self, column: impl Into<Arc<str>>) -> Table {
        self.attempt = Some(column.into());
        self
    }

    /// The column of the lease.
    #[must_use]
    pub fn locked_until(mut self, column: impl Into<Arc<str>>) -> Table {
        self.locked_until = Some(column.into());
        self
    }

    /// A column that counts claims, for tables whose attempt column is reset by somebody.
    #[must_use]
    pub fn fence(mut self, column: impl Into<Arc<str>>) -> Table {
        self.fence = Some(column.into());
        self
    }

    /// The columns that a delivery carries, in this order, after those given before.
    #[must_use]
    pub fn payload<C: Into<Arc<str>>>(mut self, columns: impl IntoIterator<Item = C>) -> Table {
        self.payload.extend(columns.into_iter().map(Into::into));
        self
    }

    /// The type of the instants. If not said: `timestamptz` on PostgreSQL, `DATETIME` on MySQL and
    /// MariaDB, [`InstantType::Microseconds`] on SQLite.
    #[must_use]
    pub fn instants(mut self, instants: InstantType) -> Table {
        self.instants = Some(instants);
        self
    }

    /// Rows are claimed by an advisory lock on this text, in which `{column}` stands for the value
    /// of a column: `"tenant-{tenant}"`. Rows with the same text exclude one another, in all tables
    /// of the database.
    #[must_use]
    pub fn advisory_lock(mut self, key: impl Into<Arc<str>>) -> Table {
        self.advisory_lock = Some(key.into());
        self
    }

    /// How the rows of this table are claimed.
    pub fn form(&self) -> Form {
        match (&self.advisory_lock, &self.locked_until) {
            (Some(_), _) => Form::Advisory,
            (None, Some(_)) => Form::Lease,
            (None, None) => Form::RowLock,
        }
    }

    /// The type of the instants on `dialect`.
    pub(super) fn instants_on(&self, dialect: Dialect) -> InstantType {
        self.instants.unwrap_or(InstantType::usual(dialect))
    }

    /// The text of the advisory key in pieces.
    pub(super) fn key_parts(&self) -> Result<Vec<KeyPart>, DeclarationError> {
        let Some(key) = &self.advisory_lock else {
            return Err(DeclarationError::Missing {
                needs: "the advisory form",
                role: "advisory_lock",
            });
        };
        let malformed =
            |why: &str| DeclarationError::Refused(format!("the advisory key `{key}` {why}").into());
        let mut parts = Vec::new();
        let mut rest = &**key;
        while let Some(start) = rest.find(['{', '}']) {
            let (text, from) = rest.split_at(start);
            if !text.is_empty() {
                parts.push(KeyPart::Text(text.into()));
            }
            let column = from
                .strip_prefix('{')
                .ok_or_else(|| malformed("closes a brace that is not open"))?;
            let end = column
                .find('}')
                .ok_or_else(|| malformed("opens a brace and does not close it"))?;
            parts.push(KeyPart::Column(column[..end].into()));
            rest = &column[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(KeyPart::Text(rest.into()));
        }
        if parts.is_empty() {
            return Err(malformed("is empty"));
        }
        Ok(parts)
    }

    /// Dead letters stay in the table, in this group.
    #[must_use]
    pub fn dead_letter_group(mut self, group: impl Into<Arc<str>>) -> Table {
        self.dead_letter = Some(DeadLetter::Group(group.into()));
        self
    }

    /// Dead letters move to this table, which has columns named as the id and the payload here.
    #[must_use]
    pub fn dead_letter_table(mut self, table: impl Into<Arc<str>>) -> Table {
        self.dead_letter = Some(DeadLetter::Table(table.into()));
        self
    }

    /// Checks names and roles for `dialect`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, dialect: Dialect) -> Result<(), DeclarationError> {
        let roles = self.roles();
        let tables = [Some(&self.name), self.schema.as_ref(), self.dead_table()];
        let names = tables.into_iter().flatten();
        for name in names.chain(roles.iter().map(|(column, _)| *column)) {
            identifier(name, dialect)?;
        }
        for (i, (column, first)) in roles.iter().enumerate() {
            if let Some((_, second)) = roles[i + 1..].iter().find(|(other, _)| other == column) {
                return Err(DeclarationError::TwoRoles {
                    column: Arc::clone(column),
                    first,
                    second,
                });
            }
        }
        self.validate_instants(dialect)?;
        if self.advisory_lock.is_some() {
            if self.locked_until.is_some() {
                return Err(DeclarationError::Refused(
                    "a table has leases or an advisory key, not both".into(),
                ));
            }
            for part in self.key_parts()? {
                if let KeyPart::Column(column) = part {
                    identifier(&column, dialect)?;
                }
            }
        }
        if matches!(self.dead_letter, Some(DeadLetter::Group(_))) && self.group.is_none() {
            return Err(DeclarationError::Missing {
                needs: "a dead letter group",
                role: "group",
            });
        }
        Ok(())
    }

    /// Whether the database has the type of the instants.
    fn validate_instants(&self, dialect: Dialect) -> Result<(), DeclarationError> {
        let why = match (dialect, self.instants_on(dialect)) {
            (Dialect::Postgres, _)
            | (_, InstantType::Microseconds)
            | (Dialect::MySql | Dialect::MariaDb, InstantType::WithoutTimeZone) => return Ok(()),
            (Dialect::MySql | Dialect::MariaDb, _) => {
                "has no type for instants with a time zone that reads back as written in every \
                 session; use DATETIME holding UTC (WithoutTimeZone), or Microseconds"
            }
            // Texts of different precision do not compare as instants do.
            (Dialect::Sqlite, _) => "has no type for instants; use Microseconds",
        };
        Err(DeclarationError::Refused(format!("{dialect} {why}").into()))
    }

    /// Every column with its role.
    fn roles(&self) -> Vec<(&Arc<str>, &'static str)> {
        let optional = [
            (&self.group, "group"),
            (&self.priority, "priority"),
            (&self.retry_after, "retry_after"),
            (&self.processed_at, "processed_at"),
            (&self.attempt, "attempt"),
            (&self.locked_until, "locked_until"),
            (&self.fence, "fence"),
        ];
        let optional = optional
            .into_iter()
            .filter_map(|(column, role)| column.as_ref().map(|column| (column, role)));
        let payload = self.payload.iter().map(|column| (column, "payload"));
        std::iter::once((&self.id, "id"))
            .chain(optional)
            .chain(payload)
            .collect()
    }

    /// The group of dead letters, where they stay in the table.
    pub(super) fn dead_group(&self) -> Option<&Arc<str>> {
        match &self.dead_letter {
            Some(DeadLetter::Group(group)) => Some(group),
            _ => None,
        }
    }

    fn dead_table(&self) -> Option<&Arc<str>> {
        match &self.dead_letter {
            Some(DeadLetter::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// The columns by which rows are claimed, first to last.
    pub(super) fn order(&self) -> impl Iterator<Item = &Arc<str>> {
        [self.priority.as_ref(), self.retry_after.as_ref()]
            .into_iter()
            .flatten()
            .chain([&self.id])
    }
}

/// Whether `name` can be a quoted identifier.
fn identifier(name: &Arc<str>, dialect: Dialect) -> Result<(), DeclarationError> {
    let why = match dialect {
        _ if name.is_empty() => "it is empty",
        _ if name.contains('\0') => "it has a NUL in it",
        // A longer name would be cut off by the server, and could then name another table.
        Dialect::Postgres if name.len() > 63 => "it has more than 63 bytes",
        Dialect::MySql | Dialect::MariaDb if name.chars().count() > 64 => {
            "it has more than 64 characters"
        }
        _ => return Ok(()),
    };
    Err(DeclarationError::Identifier {
        name: Arc::clone(name),
        dialect,
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_roles_are_checked() {
        let table = Table::new("job", "id").group("kind").payload(["body"]);
        assert_eq!(table.validate(Dialect::Postgres), Ok(()));
        let empty = Table::new("", "id").validate(Dialect::Postgres);
        assert_eq!(
            empty.unwrap_err().to_string(),
            "`` is no identifier of postgres: it is empty"
        );
        // "ä" has two bytes: PostgreSQL counts bytes, MySQL characters.
        let long: String = "ä".repeat(32);
        assert!(
            Table::new(&*long, "id")
                .validate(Dialect::Postgres)
                .is_err()
        );
        assert!(Table::new(&*long, "id").validate(Dialect::MySql).is_ok());
        let twice = Table::new("job", "id").priority("n").attempt("n");
        assert_eq!(
            twice.validate(Dialect::Postgres).unwrap_err().to_string(),
            "the column `n` is both priority and attempt"
        );
        let dead = Table::new("job", "id").dead_letter_group("dead");
        assert_eq!(
            dead.validate(Dialect::Postgres).unwrap_err().to_string(),
            "a dead letter group needs a column `group`"
        );
    }
}
