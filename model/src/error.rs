//! What a server says when it refuses.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What the caller does next. Named by consequence, so that one retry loop serves every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// The transaction lost against another one; run all of it again (40001, 1020, SQLite 517).
    Serialization,
    /// Chosen as the victim of a deadlock; run the transaction again (40P01, 1213, 3058).
    Deadlock,
    /// The lock was not to be had in time (`NOWAIT`, lock timeouts, `SQLITE_BUSY`); caller's choice.
    Contention,
    /// A unique key exists already (23505, 1062, SQLite 1555 and 2067).
    Unique,
    /// A foreign key, not-null, check or exclusion constraint refused (other 23xxx).
    Constraint,
    /// The statement was cancelled or timed out (57014, 1317, 3024).
    Cancelled,
    /// The transaction failed earlier; only `ROLLBACK` helps, and the first error decides (25P02).
    TransactionAborted,
    /// The connection is gone. If a statement was in flight, whether it took effect is not known.
    ConnectionLost,
    /// The statement itself is wrong: syntax, unknown names, types, values.
    Invalid,
    /// The simulator does not model this statement. Never sent by a real server.
    Unsupported,
    /// Anything else.
    Other,
}

impl ErrorClass {
    /// Every class with the name that scenario files use.
    pub const NAMED: [(&'static str, ErrorClass); 11] = [
        ("serialization", ErrorClass::Serialization),
        ("deadlock", ErrorClass::Deadlock),
        ("contention", ErrorClass::Contention),
        ("unique", ErrorClass::Unique),
        ("constraint", ErrorClass::Constraint),
        ("cancelled", ErrorClass::Cancelled),
        ("transaction-aborted", ErrorClass::TransactionAborted),
        ("connection-lost", ErrorClass::ConnectionLost),
        ("invalid", ErrorClass::Invalid),
        ("unsupported", ErrorClass::Unsupported),
        ("other", ErrorClass::Other),
    ];

    /// The name that scenario files use.
    pub fn name(self) -> &'static str {
        Self::NAMED
            .iter()
            .find(|(_, class)| *class == self)
            .map_or("other", |(name, _)| name)
    }

    /// The class of a PostgreSQL SQLSTATE (manual, appendix A).
    pub fn of_sqlstate(code: &str) -> ErrorClass {
        match code {
            "40001" => ErrorClass::Serialization,
            "40P01" => ErrorClass::Deadlock,
            "55P03" => ErrorClass::Contention,
            "23505" => ErrorClass::Unique,
            "57014" => ErrorClass::Cancelled,
            "25P02" => ErrorClass::TransactionAborted,
            "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => ErrorClass::ConnectionLost,
            _ => match code.get(..2) {
                Some("08") => ErrorClass::ConnectionLost,
                Some("23") => ErrorClass::Constraint,
                Some("42" | "22" | "21" | "0A" | "2B" | "3F" | "25") => ErrorClass::Invalid,
                _ => ErrorClass::Other,
            },
        }
    }
}

impl ErrorClass {
    /// The class of an error number of MySQL or MariaDB, with its SQLSTATE where the number has no
    /// class of its own (MySQL manual, "Server Error Message Reference"; MariaDB's "Error Codes").
    pub fn of_errno(number: u16, sqlstate: &str) -> ErrorClass {
        match number {
            // ER_CHECKREAD: under snapshot isolation, a row changed since the transaction's view.
            1020 => ErrorClass::Serialization,
            1213 | 3058 => ErrorClass::Deadlock,
            1205 | 3572 => ErrorClass::Contention,
            1062 | 1586 => ErrorClass::Unique,
            1048 | 1216 | 1217 | 1364 | 1451 | 1452 | 3819 | 4025 => ErrorClass::Constraint,
            1317 | 1969 | 3024 => ErrorClass::Cancelled,
            1053 | 1152 | 1158..=1161 | 1927 | 2006 | 2013 | 4031 => ErrorClass::ConnectionLost,
            _ => match sqlstate.get(..2) {
                Some("08") => ErrorClass::ConnectionLost,
                Some("23") => ErrorClass::Constraint,
                Some("21" | "22" | "25" | "42") => ErrorClass::Invalid,
                _ => ErrorClass::Other,
            },
        }
    }

    /// The class of an extended result code of SQLite (its documentation, "Result Codes").
    pub fn of_sqlite(code: u32) -> ErrorClass {
        match code {
            // SQLITE_BUSY_SNAPSHOT: the transaction reads an old state and cannot write.
            517 => ErrorClass::Serialization,
            1555 | 2067 => ErrorClass::Unique,
            _ => match code & 0xff {
                5 | 6 => ErrorClass::Contention,
                9 => ErrorClass::Cancelled,
                19 => ErrorClass::Constraint,
                1 | 8 | 18 | 20 | 21 | 25 => ErrorClass::Invalid,
                _ => ErrorClass::Other,
            },
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An error as the server sent it, with the class that decides what to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct DbError {
    /// What the caller does next.
    pub class: ErrorClass,
    /// SQLSTATE, MySQL error number, or SQLite extended result code, as text: `40001`, `1213`, `517`.
    pub code: Arc<str>,
    /// The server's message, without severity.
    pub message: Arc<str>,
    /// The server's DETAIL, if any.
    pub detail: Option<Arc<str>>,
    /// The constraint that refused, if the server names one.
    pub constraint: Option<Arc<str>>,
    /// Byte offset in the statement text that the error points at, if known.
    pub position: Option<usize>,
}

impl DbError {
    /// An error of PostgreSQL; its class follows from the SQLSTATE.
    pub fn postgres(code: &str, message: impl Into<Arc<str>>) -> DbError {
        DbError::new(ErrorClass::of_sqlstate(code), code, message)
    }

    /// An error with everything optional left out.
    pub fn new(class: ErrorClass, code: &str, message: impl Into<Arc<str>>) -> DbError {
        DbError {
            class,
            code: code.into(),
            message: message.into(),
            detail: None,
            constraint: None,
            position: None,
        }
    }

    /// The connection is gone, and with it the knowledge whether the statement took effect.
    pub fn connection_lost(message: impl Into<Arc<str>>) -> DbError {
        DbError::new(ErrorClass::ConnectionLost, "08006", message)
    }

    /// The simulator does not model `what`, found at byte `position` of the statement.
    pub fn unsupported(what: impl fmt::Display, position: Option<usize>) -> DbError {
        let mut error = DbError::new(
            ErrorClass::Unsupported,
            "unsupported",
            format!("not modelled: {what}"),
        );
        error.position = position;
        error
    }

    /// The same error pointing at byte `position`.
    #[must_use]
    pub fn at(mut self, position: usize) -> DbError {
        self.position = Some(position);
        self
    }

    /// The same error with a DETAIL.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Arc<str>>) -> DbError {
        self.detail = Some(detail.into());
        self
    }

    /// The same error naming a constraint.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<Arc<str>>) -> DbError {
        self.constraint = Some(constraint.into());
        self
    }
}
