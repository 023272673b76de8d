//! Errors as the servers word them.

use std::fmt::Display;

use rowlock_model::{DbError, Dialect, ErrorClass};

/// An error of MySQL or MariaDB (MySQL manual, "Server Error Message Reference").
pub fn mysql(number: u16, sqlstate: &str, message: impl Into<String>) -> DbError {
    let class = ErrorClass::of_errno(number, sqlstate);
    let message: String = message.into();
    DbError::new(class, &number.to_string(), message)
}

/// An error of SQLite, by its extended result code (its documentation, "Result Codes").
pub fn sqlite(code: u32, message: impl Into<String>) -> DbError {
    let message: String = message.into();
    DbError::new(ErrorClass::of_sqlite(code), &code.to_string(), message)
}

/// An error of name resolution or analysis that both products have, each in its words.
pub(crate) fn either(
    dialect: Dialect,
    number: u16,
    sqlstate: &str,
    mysql_message: impl Into<String>,
    sqlite_message: impl Into<String>,
) -> DbError {
    match dialect {
        Dialect::Sqlite => sqlite(1, sqlite_message),
        _ => mysql(number, sqlstate, mysql_message),
    }
}

/// A syntax error: MySQL shows the text from the token on, at most 80 characters; SQLite the token.
pub(crate) fn syntax(dialect: Dialect, text: &str, at: usize, end: usize) -> DbError {
    let rest = text.get(at..).unwrap_or_default();
    let error = match dialect {
        Dialect::Sqlite if rest.trim().is_empty() => sqlite(1, "incomplete input"),
        Dialect::Sqlite => {
            let token = text.get(at..end).unwrap_or_default();
            sqlite(1, format!("near \"{token}\": syntax error"))
        }
        _ => {
            let shown: String = rest.chars().take(80).collect();
            let line = 1 + text[..at].matches('\n').count();
            let product = match dialect {
                Dialect::MariaDb => "MariaDB",
                _ => "MySQL",
            };
            mysql(
                1064,
                "42000",
                format!(
                    "You have an error in your SQL syntax; check the manual that corresponds to \
                     your {product} server version for the right syntax to use near '{shown}' at \
                     line {line}"
                ),
            )
        }
    };
    error.at(at)
}

/// The simulator does not model `what`.
pub(crate) fn unsupported<T>(what: impl Display, at: usize) -> Result<T, DbError> {
    Err(DbError::unsupported(what, Some(at)))
}
