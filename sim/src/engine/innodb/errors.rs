//! Errors as MySQL and MariaDB word them.

use rowlock_model::{DbError, Value};

use super::flavour::Flavour;
pub use crate::loose::errors::mysql;
use crate::loose::value::mysql_text;

/// How serious a warning is, as `SHOW WARNINGS` says it.
pub fn level(code: u16) -> &'static str {
    match code {
        // There is (no) such table, database, routine.
        1008 | 1050 | 1051 | 1305 | 1592 | 4092 => "Note",
        _ => "Warning",
    }
}

/// 1205: a lock was not to be had in time.
pub fn lock_wait_timeout() -> DbError {
    mysql(
        1205,
        "HY000",
        "Lock wait timeout exceeded; try restarting transaction",
    )
}

/// A lock was not to be had at once.
pub fn nowait(flavour: Flavour) -> DbError {
    match flavour.nowait_code() {
        3572 => mysql(
            3572,
            "HY000",
            "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
        ),
        _ => lock_wait_timeout(),
    }
}

/// 1213.
pub fn deadlock() -> DbError {
    mysql(
        1213,
        "40001",
        "Deadlock found when trying to get lock; try restarting transaction",
    )
}

/// 3058, or 1213 on MariaDB.
pub fn user_lock_deadlock(flavour: Flavour) -> DbError {
    if flavour.is_mariadb() {
        return deadlock();
    }
    mysql(
        3058,
        "HY000",
        "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing \
         locks and restarting lock acquisition.",
    )
}

/// 1020: snapshot isolation, a record is newer than the read view.
pub fn record_changed(table: &str) -> DbError {
    mysql(
        1020,
        "HY000",
        format!(
            "Record has changed since last read in table '{table}'; try restarting transaction"
        ),
    )
}

/// 1062.
pub fn duplicate(flavour: Flavour, table: &str, index: &str, key: &str) -> DbError {
    let index = if flavour.is_mariadb() {
        index.to_owned()
    } else {
        format!("{table}.{index}")
    };
    let message = format!("Duplicate entry '{key}' for key '{index}'");
    mysql(1062, "23000", message).with_constraint(index)
}

/// 1452 and 1451.
pub fn foreign_key(is_child: bool, constraint: &str) -> DbError {
    if is_child {
        mysql(
            1452,
            "23000",
            format!(
                "Cannot add or update a child row: a foreign key constraint fails ({constraint})"
            ),
        )
    } else {
        mysql(
            1451,
            "23000",
            format!(
                "Cannot delete or update a parent row: a foreign key constraint fails ({constraint})"
            ),
        )
    }
}

/// 1792.
pub fn read_only(flavour: Flavour) -> DbError {
    let end = if flavour.is_mariadb() { "" } else { "." };
    mysql(
        1792,
        "25006",
        format!("Cannot execute statement in a READ ONLY transaction{end}"),
    )
}

/// 1568.
pub fn transaction_characteristics() -> DbError {
    mysql(
        1568,
        "25001",
        "Transaction characteristics can't be changed while a transaction is in progress",
    )
}

/// 1305: there is no such savepoint.
pub fn no_savepoint(name: &str) -> DbError {
    mysql(1305, "42000", format!("SAVEPOINT {name} does not exist"))
}

/// 1317.
pub fn interrupted() -> DbError {
    mysql(1317, "70100", "Query execution was interrupted")
}

/// 2006: the session is gone.
pub fn gone() -> DbError {
    mysql(2006, "HY000", "MySQL server has gone away")
}

/// 2013: the session was ended while a statement ran.
pub fn lost() -> DbError {
    mysql(
        2013,
        "HY000",
        "Lost connection to MySQL server during query",
    )
}

/// 1412: the read view is older than the index.
pub fn table_changed() -> DbError {
    mysql(
        1412,
        "HY000",
        "Table definition has changed, please retry transaction",
    )
}

/// 1193.
pub fn unknown_variable(name: &str) -> DbError {
    mysql(1193, "HY000", format!("Unknown system variable '{name}'"))
}

/// 1229.
pub fn only_global_variable(name: &str) -> DbError {
    let message =
        format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL");
    mysql(1229, "HY000", message)
}

/// 1238: it has no value for the whole server.
pub fn only_session_variable(name: &str) -> DbError {
    mysql(
        1238,
        "HY000",
        format!("Variable '{name}' is a SESSION variable"),
    )
}

/// 1238: it cannot be set.
pub fn read_only_variable(name: &str) -> DbError {
    mysql(
        1238,
        "HY000",
        format!("Variable '{name}' is a read only variable"),
    )
}

/// 1231.
pub fn wrong_value(name: &str, value: &str) -> DbError {
    mysql(
        1231,
        "42000",
        format!("Variable '{name}' can't be set to the value of '{value}'"),
    )
}

/// A value as messages show it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        other => mysql_text(other).to_string(),
    }
}
