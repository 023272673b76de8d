//! System variables: what `SET` takes and `@@name` gives.

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Value};

use super::errors;
use super::flavour::{Flavour, Server};
use super::store::Store;

/// The spelling of a level in the value of a variable.
fn level_name(level: Isolation) -> &'static str {
    match level {
        Isolation::ReadUncommitted => "READ-UNCOMMITTED",
        Isolation::ReadCommitted => "READ-COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE-READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}

fn knows(flavour: Flavour, name: &str) -> bool {
    match name {
        "tx_isolation" | "tx_read_only" => flavour.is_mariadb(),
        "transaction_isolation" | "transaction_read_only" => flavour.server != Server::MariaDb1011,
        "max_execution_time" => !flavour.is_mariadb(),
        "max_statement_time" | "innodb_snapshot_isolation" => flavour.is_mariadb(),
        _ => true,
    }
}

/// Variables that are kept and have no effect on what is modelled, with their values in a new
/// session.
const KEPT: &[(&str, &str)] = &[
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("innodb_autoinc_lock_mode", "2"),
    ("innodb_deadlock_detect", "1"),
    ("innodb_rollback_on_timeout", "0"),
    ("innodb_status_output_locks", "0"),
    ("interactive_timeout", "28800"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("optimizer_switch", ""),
    ("sql_mode", "STRICT_TRANS_TABLES"),
    ("sql_notes", "1"),
    ("sql_safe_updates", "0"),
    ("time_zone", "+00:00"),
    ("unique_checks", "1"),
    ("wait_timeout", "28800"),
];

/// The value of a variable, as the session sees it.
pub(super) fn get(store: &Store, session: SessionId, name: &str) -> Option<Value> {
    let flavour = store.flavour;
    if !knows(flavour, name) {
        return None;
    }
    let state = store.session(session);
    let settings = &state.settings;
    Some(match name {
        "autocommit" => Value::Int(i64::from(settings.autocommit)),
        "tx_isolation" | "transaction_isolation" => Value::text(level_name(settings.isolation)),
        "tx_read_only" | "transaction_read_only" => Value::Int(i64::from(settings.read_only)),
        "innodb_lock_wait_timeout" => Value::Int(settings.row_timeout_s),
        "lock_wait_timeout" => Value::Int(settings.metadata_timeout_s),
        "max_execution_time" => Value::Int(settings.statement_timeout_ms),
        "innodb_snapshot_isolation" => Value::Int(i64::from(settings.snapshot_isolation)),
        "version" => Value::text(flavour.version()),
        "in_transaction" => Value::Int(i64::from(state.in_transaction)),
        "last_insert_id" | "identity" => Value::Int(state.last_insert_id),
        "pseudo_thread_id" => Value::Int(super::host::connection_id(session)),
        _ => {
            if let Some(value) = settings.others.get(name) {
                return Some(value.clone());
            }
            let (_, value) = KEPT.iter().find(|(kept, _)| *kept == name)?;
            match value.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => Value::text(*value),
            }
        }
    })
}

fn number(name: &str, value: &Value) -> Result<i64, DbError> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        Value::Text(s) if s.eq_ignore_ascii_case("on") => Ok(1),
        Value::Text(s) if s.eq_ignore_ascii_case("off") => Ok(0),
        _ => Err(errors::mysql(
            1232,
            "42000",
            format!("Incorrect argument type to variable '{name}'"),
        )),
    }
}

/// Parses a level in the value of a variable.
fn level(name: &str, value: &Value) -> Result<Isolation, DbError> {
    let text = value.as_str().unwrap_or_default();
    let found = Isolation::ALL
        .into_iter()
        .find(|level| level_name(*level).eq_ignore_ascii_case(text));
    found.ok_or_else(|| errors::wrong_value(name, text))
}

/// Sets a variable of the session; `autocommit` is the caller's matter.
///
/// # Errors
/// The variable does not exist, or does not take the value; `unsupported` for variables that would
/// matter and are not modelled.
pub(super) fn set(
    store: &mut Store,
    session: SessionId,
    name: &str,
    value: &Value,
) -> Result<(), DbError> {
    let flavour = store.flavour;
    if !knows(flavour, name) {
        return Err(errors::unknown_variable(name));
    }
    let settings = &mut store.session_mut(session).settings;
    match name {
        "autocommit" => settings.autocommit = number(name, value)? != 0,
        "tx_isolation" | "transaction_isolation" => settings.isolation = level(name, value)?,
        "tx_read_only" | "transaction_read_only" => {
            settings.read_only = number(name, value)? != 0;
        }
        "innodb_lock_wait_timeout" => {
            let least = i64::from(!flavour.is_mariadb());
            settings.row_timeout_s = number(name, value)?.max(least);
        }
        "lock_wait_timeout" => settings.metadata_timeout_s = number(name, value)?.max(1),
        "max_execution_time" => settings.statement_timeout_ms = number(name, value)?,
        "max_statement_time" => {
            let seconds: f64 = errors::shown(value).parse().unwrap_or(0.0);
            settings.statement_timeout_ms = (seconds * 1_000.0) as i64;
        }
        "sql_mode" => {
            let text = value.as_str().unwrap_or_default().to_ascii_uppercase();
            settings.strict = text.contains("STRICT") || text.contains("TRADITIONAL");
            settings.others.insert(name.into(), value.clone());
        }
        "foreign_key_checks" if number(name, value)? != 0 => {}
        "innodb_snapshot_isolation" => {
            settings.snapshot_isolation = number(name, value)? != 0;
        }
        "innodb_deadlock_detect" | "innodb_rollback_on_timeout" => {
            return Err(DbError::unsupported(format!("setting {name}"), None));
        }
        _ if KEPT.iter().any(|(kept, _)| *kept == name) => {
            settings.others.insert(name.into(), value.clone());
        }
        "foreign_key_checks" => {
            return Err(DbError::unsupported("foreign_key_checks = 0", None));
        }
        _ => return Err(errors::unknown_variable(name)),
    }
    Ok(())
}
