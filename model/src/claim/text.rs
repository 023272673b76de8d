//! Writing SQL texts: identifiers quoted, arguments numbered.

use std::sync::Arc;

use super::settle::Settlement;
use super::table::InstantType;
use super::token::Token;
use crate::{Dialect, Value};

/// What is put in place of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arg {
    /// The host's clock.
    Now,
    /// The end of the lease that is being taken or extended.
    Expiry,
    /// The length of the lease, an interval.
    Lease,
    /// The length of the lease in microseconds, a number.
    LeaseMicros,
    /// The group of the claimer.
    Group,
    /// How many rows at most.
    Limit,
    /// The row's id.
    Id,
    /// The end of the lease that is held.
    HeldExpiry,
    /// The fencing number that is held.
    Fence,
    /// When the row is due again.
    RetryAt,
    /// How long until the row is due again, an interval.
    RetryIn,
    /// How long until the row is due again in microseconds, a number.
    RetryMicros,
    /// The group of dead letters.
    DeadGroup,
    /// The text of an advisory key.
    Key,
    /// The text that a FIFO queue locks.
    QueueKey,
}

/// A statement text with what its placeholders stand for, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: Arc<str>,
    args: Vec<Arg>,
}

/// The values for one execution. What a statement does not use may be left at its default.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) instants: InstantType,
    pub(super) now_micros: i64,
    pub(super) expiry_micros: i64,
    pub(super) lease_micros: i64,
    pub(super) retry_in_micros: i64,
    pub(super) group: Option<Value>,
    pub(super) limit: i64,
    pub(super) id: Option<Value>,
    pub(super) token: Option<Token>,
    pub(super) dead_group: Option<Value>,
    pub(super) key: Option<Arc<str>>,
    pub(super) queue_key: Option<Arc<str>>,
}

impl Values {
    fn instant(&self, micros: i64) -> Value {
        match self.instants {
            InstantType::WithTimeZone => Value::TimestampTz(micros),
            InstantType::WithoutTimeZone => Value::Timestamp(micros),
            InstantType::Microseconds => Value::Int(micros),
        }
    }

    /// Sets what depends on the kind of a settlement.
    pub(super) fn retry(&mut self, settlement: Settlement) {
        if let Settlement::RetryAfter(delay) = settlement {
            self.retry_in_micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX / 2);
        }
    }

    fn get(&self, arg: Arg) -> Value {
        let interval = |micros| Value::Interval {
            months: 0,
            days: 0,
            micros,
        };
        match arg {
            Arg::Now => self.instant(self.now_micros),
            Arg::Expiry => self.instant(self.expiry_micros),
            Arg::Lease => interval(self.lease_micros),
            Arg::LeaseMicros => Value::Int(self.lease_micros),
            Arg::Group => self.group.clone().unwrap_or(Value::Null),
            Arg::Limit => Value::Int(self.limit),
            Arg::Id => self.id.clone().unwrap_or(Value::Null),
            Arg::HeldExpiry => self
                .token
                .map_or(Value::Null, |t| self.instant(t.expiry_micros)),
            Arg::Fence => self
                .token
                .and_then(|t| t.fence)
                .map_or(Value::Null, Value::Int),
            Arg::RetryAt => self.instant(self.now_micros.saturating_add(self.retry_in_micros)),
            Arg::RetryIn => interval(self.retry_in_micros),
            Arg::RetryMicros => Value::Int(self.retry_in_micros),
            Arg::DeadGroup => self.dead_group.clone().unwrap_or(Value::Null),
            Arg::Key => self.key.clone().map_or(Value::Null, Value::Text),
            Arg::QueueKey => self.queue_key.clone().map_or(Value::Null, Value::Text),
        }
    }
}

impl Statement {
    /// The arguments in the order of the placeholders.
    pub(super) fn bind(&self, values: &Values) -> Vec<Value> {
        self.args.iter().map(|arg| values.get(*arg)).collect()
    }
}

/// A statement for so many rows, named by their ids. For MySQL, MariaDB and SQLite, whose placeholders have no
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfIds {
    /// The text up to the id column of a condition, that included.
    pub(super) before: Statement,
    /// The rest of the conditions.
    pub(super) after: Statement,
}

impl OfIds {
    /// The text for so many rows.
    pub(super) fn sql(&self, rows: usize) -> String {
        let (before, after) = (&self.before.sql, &self.after.sql);
        match rows {
            1 => format!("{before} = ?{after}"),
            _ => format!("{before} IN ({}){after}", vec!["?"; rows].join(", ")),
        }
    }

    /// The arguments for these rows.
    pub(super) fn bind(&self, values: &Values, ids: impl Iterator<Item = Value>) -> Vec<Value> {
        let mut args = self.before.bind(values);
        args.extend(ids);
        args.extend(self.after.bind(values));
        args
    }
}

/// A text in the making.
#[derive(Debug)]
pub(super) struct Writer {
    dialect: Dialect,
    sql: String,
    args: Vec<Arg>,
}

impl Writer {
    pub(super) fn new(dialect: Dialect) -> Writer {
        Writer {
            dialect,
            sql: String::new(),
            args: Vec::new(),
        }
    }

    /// Words of SQL, as they are.
    pub(super) fn raw(&mut self, words: &str) -> &mut Writer {
        self.sql.push_str(words);
        self
    }

    /// A quoted identifier.
    pub(super) fn name(&mut self, name: &str) -> &mut Writer {
        let quote = match self.dialect {
            Dialect::Postgres | Dialect::Sqlite => '"',
            Dialect::MySql | Dialect::MariaDb => '`',
        };
        self.sql.push(quote);
        for c in name.chars() {
            self.sql.push(c);
            if c == quote {
                self.sql.push(quote);
            }
        }
        self.sql.push(quote);
        self
    }

    /// A text as a literal. The caller makes sure that it has no backslash on MySQL and MariaDB,
    /// where that is an escape.
    pub(super) fn literal(&mut self, text: &str) -> &mut Writer {
        self.raw("'").raw(&text.replace('\'', "''")).raw("'")
    }

    /// A column of the alias `alias`.
    pub(super) fn column(&mut self, alias: &str, name: &str) -> &mut Writer {
        if !alias.is_empty() {
            self.raw(alias).raw(".");
        }
        self.name(name)
    }

    /// A placeholder. PostgreSQL numbers them: the same argument is sent once.
    pub(super) fn arg(&mut self, arg: Arg) -> &mut Writer {
        if self.dialect != Dialect::Postgres {
            self.args.push(arg);
            return self.raw("?");
        }
        let index = self.args.iter().position(|a| *a == arg);
        let index = index.unwrap_or_else(|| {
            self.args.push(arg);
            self.args.len() - 1
        });
        self.sql.push_str(&format!("${}", index + 1));
        self
    }

    /// Items with `separator` between them.
    pub(super) fn list<T>(
        &mut self,
        separator: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) -> &mut Writer {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.raw(separator);
            }
            write(self, item);
        }
        self
    }

    /// The finished statement.
    pub(super) fn finish(self) -> Statement {
        Statement {
            sql: self.sql.into(),
            args: self.args,
        }
    }
}
