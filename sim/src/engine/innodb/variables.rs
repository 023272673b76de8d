//! System variables: what `SET` takes, what `@@name` and `SHOW VARIABLES` give.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Value};

use super::errors;
use super::flavour::Flavour;
use super::session::{Completion, Settings};
use super::store::Store;
use crate::loose::ast::Scope;
use crate::loose::query;

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `ON` or `OFF`; 1 or 0 in expressions.
    Bool,
    /// A whole number.
    Number,
    /// A text.
    Text,
}

/// Who has a value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The server; each session begins with its value.
    Both,
    /// The server only.
    Global,
    /// Each session only.
    Session,
}

/// What setting a variable comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It decides about what is modelled: a field of [`Settings`].
    Field,
    /// It is kept, and has no effect on what is modelled.
    Kept,
    /// Another value than the usual one would matter, and is not modelled.
    Fixed,
    /// The server does not let it be set.
    ReadOnly,
}

/// A variable that is known.
struct Known {
    name: &'static str,
    kind: Kind,
    held: Held,
    effect: Effect,
    /// Its value on a server as it is delivered: MySQL, MariaDB; `None` where it does not exist.
    usual: [Option<&'static str>; 2],
}

const fn known(
    name: &'static str,
    kind: Kind,
    held: Held,
    effect: Effect,
    usual: [Option<&'static str>; 2],
) -> Known {
    Known {
        name,
        kind,
        held,
        effect,
        usual,
    }
}

const fn same(value: &'static str) -> [Option<&'static str>; 2] {
    [Some(value), Some(value)]
}

const SQL_MODE_MYSQL: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                              ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
const SQL_MODE_MARIADB: &str = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,\
                                NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION";

/// The variables that are known. A name that is not here is an unknown variable.
#[rustfmt::skip]
const KNOWN: &[Known] = {
    use Effect::{Field, Fixed, Kept, ReadOnly};
    use Held::{Both, Global, Session};
    use Kind::{Bool, Number, Text};
    &[
        known("auto_increment_increment", Number, Both, Fixed, same("1")),
        known("auto_increment_offset", Number, Both, Fixed, same("1")),
        known("autocommit", Bool, Both, Field, same("ON")),
        known("binlog_format", Text, Both, Kept, [Some("ROW"), Some("MIXED")]),
        known("character_set_client", Text, Both, Kept, same("utf8mb4")),
        known("character_set_connection", Text, Both, Kept, same("utf8mb4")),
        known("character_set_results", Text, Both, Kept, same("utf8mb4")),
        known("collation_connection", Text, Both, Kept, same("utf8mb4_general_ci")),
        known("completion_type", Text, Both, Field, same("NO_CHAIN")),
        known("datadir", Text, Global, ReadOnly, same("/var/lib/mysql/")),
        known("default_storage_engine", Text, Both, Fixed, same("InnoDB")),
        known("div_precision_increment", Number, Both, Fixed, same("4")),
        known("event_scheduler", Text, Global, Kept, [Some("ON"), Some("OFF")]),
        known("foreign_key_checks", Bool, Both, Field, same("ON")),
        known("gtid_mode", Text, Global, ReadOnly, [Some("OFF"), None]),
        known("have_profiling", Text, Global, ReadOnly, same("YES")),
        known("identity", Number, Session, ReadOnly, same("0")),
        known("in_transaction", Bool, Session, ReadOnly, [None, Some("OFF")]),
        known("innodb_autoinc_lock_mode", Number, Global, ReadOnly, [Some("2"), Some("1")]),
        known("innodb_deadlock_detect", Bool, Global, Field, same("ON")),
        known("innodb_lock_wait_timeout", Number, Both, Field, same("50")),
        known("innodb_print_all_deadlocks", Bool, Global, Kept, same("OFF")),
        known("innodb_rollback_on_timeout", Bool, Global, ReadOnly, same("OFF")),
        known("innodb_snapshot_isolation", Bool, Both, Field, [None, Some("OFF")]),
        known("innodb_stats_auto_recalc", Bool, Global, Kept, same("ON")),
        known("innodb_stats_persistent", Bool, Global, Kept, same("ON")),
        known("innodb_status_output", Bool, Global, Kept, same("OFF")),
        known("innodb_status_output_locks", Bool, Global, Kept, same("OFF")),
        known("innodb_table_locks", Bool, Both, Field, same("ON")),
        known("interactive_timeout", Number, Both, Kept, same("28800")),
        known("last_insert_id", Number, Session, ReadOnly, same("0")),
        known("lock_wait_timeout", Number, Both, Field, [Some("31536000"), Some("86400")]),
        known("log_bin", Bool, Global, ReadOnly, same("OFF")),
        known("max_execution_time", Number, Both, Field, [Some("0"), None]),
        known("max_statement_time", Text, Both, Field, [None, Some("0.000000")]),
        known("net_read_timeout", Number, Both, Kept, same("30")),
        known("net_write_timeout", Number, Both, Kept, same("60")),
        known("optimizer_switch", Text, Both, Kept, same("")),
        known("optimizer_use_condition_selectivity", Number, Both, Kept, [None, Some("4")]),
        known("pseudo_thread_id", Number, Session, ReadOnly, same("0")),
        known("read_only", Bool, Global, Fixed, same("OFF")),
        known("sort_buffer_size", Number, Both, Kept, [Some("262144"), Some("2097152")]),
        known("sql_mode", Text, Both, Field, [Some(SQL_MODE_MYSQL), Some(SQL_MODE_MARIADB)]),
        known("sql_notes", Bool, Both, Fixed, same("ON")),
        known("sql_safe_updates", Bool, Both, Fixed, same("OFF")),
        known("time_zone", Text, Both, Kept, same("+00:00")),
        known("transaction_isolation", Text, Both, Field, same("REPEATABLE-READ")),
        known("transaction_read_only", Bool, Both, Field, same("OFF")),
        known("tx_isolation", Text, Both, Field, [None, Some("REPEATABLE-READ")]),
        known("tx_read_only", Bool, Both, Field, [None, Some("OFF")]),
        known("unique_checks", Bool, Both, Kept, same("ON")),
        known("use_stat_tables", Text, Both, Kept, [None, Some("PREFERABLY_FOR_QUERIES")]),
        known("version", Text, Global, ReadOnly, same("")),
        known("wait_timeout", Number, Both, Kept, same("28800")),
        known("warning_count", Number, Session, ReadOnly, same("0")),
    ]
};

fn find(flavour: Flavour, name: &str) -> Option<&'static Known> {
    let known = KNOWN.iter().find(|known| known.name == name)?;
    let exists = known.usual(flavour).is_some() && flavour.has_variable(name);
    exists.then_some(known)
}

impl Known {
    fn usual(&self, flavour: Flavour) -> Option<&'static str> {
        self.usual[usize::from(flavour.is_mariadb())]
    }

    /// A text as a value of this kind.
    fn value(&self, text: &str) -> Value {
        match self.kind {
            Kind::Text => Value::text(text),
            Kind::Bool => Value::Int(i64::from(text == "ON")),
            Kind::Number => text.parse().map_or_else(|_| Value::text(text), Value::Int),
        }
    }

    /// A value as `SHOW VARIABLES` spells it.
    fn shown(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Bool, Value::Int(0)) => "OFF".to_owned(),
            (Kind::Bool, Value::Int(_)) => "ON".to_owned(),
            _ => errors::shown(value),
        }
    }
}

/// How the value of a variable is described: numbers are from 0, but for those that stand for words.
pub(super) fn kind(name: &str) -> query::Kind {
    let known = KNOWN.iter().find(|known| known.name == name);
    match known.map(|known| (known.kind, name)) {
        Some((Kind::Text, _)) => query::Kind::Text,
        Some((_, "in_transaction")) => query::Kind::Unsigned,
        Some((Kind::Bool, _) | (_, "innodb_autoinc_lock_mode")) | None => query::Kind::Int,
        Some((Kind::Number, _)) => query::Kind::Unsigned,
    }
}

/// The spelling of a level in the value of a variable.
fn level_name(level: Isolation) -> &'static str {
    match level {
        Isolation::ReadUncommitted => "READ-UNCOMMITTED",
        Isolation::ReadCommitted => "READ-COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE-READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}

/// The value of a variable; `global` asks for the server's.
///
/// # Errors
/// There is no such variable, or nobody has the value that is asked for.
pub(super) fn get(
    store: &Store,
    session: SessionId,
    name: &str,
    global: bool,
) -> Result<Value, DbError> {
    let known = find(store.flavour, name).ok_or_else(|| errors::unknown_variable(name))?;
    if global && known.held == Held::Session {
        return Err(errors::only_session_variable(name));
    }
    Ok(value(store, session, known, global))
}

fn value(store: &Store, session: SessionId, known: &Known, global: bool) -> Value {
    let state = store.session(session);
    match known.name {
        "version" => return Value::text(store.flavour.version()),
        "in_transaction" => return Value::Int(i64::from(state.in_transaction)),
        "last_insert_id" | "identity" => return Value::Int(state.last_insert_id),
        "pseudo_thread_id" => return Value::Int(super::host::connection_id(session)),
        "warning_count" => return Value::Int(state.diagnostics.len() as i64),
        _ => {}
    }
    let settings = match global || known.held == Held::Global {
        true => store.globals(),
        false => &state.settings,
    };
    of_settings(settings, known, store.flavour)
}

fn of_settings(settings: &Settings, known: &Known, flavour: Flavour) -> Value {
    let bool = |b: bool| Value::Int(i64::from(b));
    match known.name {
        "autocommit" => bool(settings.autocommit),
        "tx_isolation" | "transaction_isolation" => Value::text(level_name(settings.isolation)),
        "tx_read_only" | "transaction_read_only" => bool(settings.read_only),
        "completion_type" => Value::text(settings.completion.name()),
        "foreign_key_checks" => bool(settings.foreign_keys),
        "innodb_deadlock_detect" => bool(settings.detects_deadlocks),
        "innodb_rollback_on_timeout" => bool(settings.rolls_back_on_timeout),
        "innodb_table_locks" => bool(settings.table_locks),
        "innodb_lock_wait_timeout" => Value::Int(settings.row_timeout_s),
        "lock_wait_timeout" => Value::Int(settings.metadata_timeout_s),
        "max_execution_time" => Value::Int(settings.statement_timeout_ms),
        "max_statement_time" => {
            let seconds = settings.statement_timeout_ms as f64 / 1_000.0;
            Value::text(format!("{seconds:.6}"))
        }
        "innodb_snapshot_isolation" => bool(settings.snapshot_isolation),
        name => match settings.others.get(name) {
            Some(value) => value.clone(),
            None => known.value(known.usual(flavour).unwrap_or_default()),
        },
    }
}

/// All variables by name, as `SHOW VARIABLES` lists them.
pub(super) fn list(store: &Store, session: SessionId, global: bool) -> Vec<(&'static str, String)> {
    let exists = |known: &&Known| {
        find(store.flavour, known.name).is_some() && !(global && known.held == Held::Session)
    };
    let known = KNOWN.iter().filter(exists);
    let row = |k: &Known| (k.name, k.shown(&value(store, session, k, global)));
    known.map(row).collect()
}

fn wrong_type(name: &str) -> DbError {
    let message = format!("Incorrect argument type to variable '{name}'");
    errors::mysql(1232, "42000", message)
}

fn number(name: &str, value: &Value) -> Result<i64, DbError> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        _ => Err(wrong_type(name)),
    }
}

fn switch(name: &str, value: &Value) -> Result<bool, DbError> {
    match value {
        Value::Int(0) | Value::Bool(false) => Ok(false),
        Value::Int(1) | Value::Bool(true) => Ok(true),
        Value::Text(s) if s.eq_ignore_ascii_case("on") || s.eq_ignore_ascii_case("true") => {
            Ok(true)
        }
        Value::Text(s) if s.eq_ignore_ascii_case("off") || s.eq_ignore_ascii_case("false") => {
            Ok(false)
        }
        Value::Int(_) | Value::Text(_) => Err(errors::wrong_value(name, &errors::shown(value))),
        _ => Err(wrong_type(name)),
    }
}

/// A number between bounds. One outside is moved to the bound, with a warning.
fn bounded(
    name: &str,
    value: &Value,
    least: i64,
    most: i64,
    warnings: &mut Vec<(u16, String)>,
) -> Result<i64, DbError> {
    let asked = number(name, value)?;
    let taken = asked.clamp(least, most);
    if taken != asked {
        let message = format!("Truncated incorrect {name} value: '{asked}'");
        warnings.push((1292, message));
    }
    Ok(taken)
}

/// Parses a level in the value of a variable.
fn level(name: &str, value: &Value) -> Result<Isolation, DbError> {
    if let Value::Int(place) = value {
        let found = usize::try_from(*place).ok();
        let found = found.and_then(|place| Isolation::ALL.get(place).copied());
        return found.ok_or_else(|| errors::wrong_value(name, &place.to_string()));
    }
    let text = value.as_str().unwrap_or_default();
    let found = Isolation::ALL
        .into_iter()
        .find(|level| level_name(*level).eq_ignore_ascii_case(text));
    found.ok_or_else(|| errors::wrong_value(name, text))
}

/// Sets a variable. `autocommit` of the session is the caller's matter beyond the setting itself. `value`
/// is `None` for `DEFAULT`. Gives warnings.
///
/// # Errors
/// The variable does not exist, or does not take the value; `unsupported` for variables that would
/// matter and are not modelled.
pub(super) fn set(
    store: &mut Store,
    session: SessionId,
    scope: Scope,
    name: &str,
    value: Option<&Value>,
) -> Result<Vec<(u16, String)>, DbError> {
    let flavour = store.flavour;
    let known = find(flavour, name).ok_or_else(|| errors::unknown_variable(name))?;
    let global = scope == Scope::Global;
    match (known.effect, known.held, global) {
        (Effect::ReadOnly, ..) => return Err(errors::read_only_variable(name)),
        (_, Held::Global, false) => return Err(errors::only_global_variable(name)),
        (_, Held::Session, true) => return Err(errors::only_session_variable(name)),
        _ => {}
    }
    let value = match (value, global) {
        (Some(value), _) => value.clone(),
        (None, true) => {
            let fresh = Settings::new(flavour, Isolation::RepeatableRead);
            of_settings(&fresh, known, flavour)
        }
        (None, false) => of_settings(store.globals(), known, flavour),
    };
    if known.effect == Effect::Fixed {
        let usual = known.usual(flavour).unwrap_or_default();
        if known.shown(&value).eq_ignore_ascii_case(usual) {
            return Ok(Vec::new());
        }
        return Err(DbError::unsupported(format!("setting {name}"), None));
    }
    let mut warnings = Vec::new();
    if flavour.deprecates_variable(name) {
        let message = format!("'@@{name}' is deprecated and will be removed in a future release.");
        warnings.push((1287, message));
    }
    let settings = match global {
        true => store.globals_mut(),
        false => &mut store.session_mut(session).settings,
    };
    change(settings, flavour, known, &value, &mut warnings)?;
    Ok(warnings)
}

/// An option that a server was started with (`--innodb_lock_wait_timeout=2`).
///
/// # Errors
/// `unsupported` for options that would matter and are not modelled.
pub(super) fn start_with(store: &mut Store, option: &str) -> Result<(), DbError> {
    let unsupported = || DbError::unsupported(format!("the server option {option}"), None);
    let text = option.trim_start_matches('-');
    let text = text.strip_prefix("loose-").unwrap_or(text);
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let name = name.replace('-', "_");
    // About replication, which nothing here takes part in.
    if matches!(&*name, "gtid_mode" | "enforce_gtid_consistency") {
        return Ok(());
    }
    let flavour = store.flavour;
    let known = find(flavour, &name).ok_or_else(unsupported)?;
    let value = match known.kind {
        Kind::Text => Value::text(value),
        _ => value
            .parse()
            .map_or_else(|_| Value::text(value), Value::Int),
    };
    match known.effect {
        Effect::Fixed => return Err(unsupported()),
        Effect::ReadOnly if name != "innodb_rollback_on_timeout" => return Err(unsupported()),
        _ => {}
    }
    change(store.globals_mut(), flavour, known, &value, &mut Vec::new())
}

fn change(
    settings: &mut Settings,
    flavour: Flavour,
    known: &Known,
    value: &Value,
    warnings: &mut Vec<(u16, String)>,
) -> Result<(), DbError> {
    let name = known.name;
    match name {
        "autocommit" => settings.autocommit = switch(name, value)?,
        "tx_isolation" | "transaction_isolation" => settings.isolation = level(name, value)?,
        "tx_read_only" | "transaction_read_only" => settings.read_only = switch(name, value)?,
        "completion_type" => settings.completion = completion(name, value)?,
        "foreign_key_checks" => settings.foreign_keys = switch(name, value)?,
        "innodb_deadlock_detect" => settings.detects_deadlocks = switch(name, value)?,
        "innodb_rollback_on_timeout" => settings.rolls_back_on_timeout = switch(name, value)?,
        "innodb_table_locks" => settings.table_locks = switch(name, value)?,
        "innodb_lock_wait_timeout" => {
            let (least, most) = flavour.row_timeout_range_s();
            settings.row_timeout_s = bounded(name, value, least, most, warnings)?;
        }
        "lock_wait_timeout" => {
            let (least, most) = flavour.metadata_timeout_range_s();
            settings.metadata_timeout_s = bounded(name, value, least, most, warnings)?;
        }
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
        "innodb_snapshot_isolation" => settings.snapshot_isolation = switch(name, value)?,
        _ => {
            let value = match known.kind {
                Kind::Bool => Value::Int(i64::from(switch(name, value)?)),
                Kind::Number => Value::Int(number(name, value)?),
                Kind::Text => Value::text(errors::shown(value)),
            };
            let name: Arc<str> = name.into();
            settings.others.insert(name, value);
        }
    }
    Ok(())
}

fn completion(name: &str, value: &Value) -> Result<Completion, DbError> {
    let found = Completion::ALL.into_iter().enumerate().find(|(i, kind)| {
        value.as_int() == Some(*i as i64)
            || value
                .as_str()
                .is_some_and(|s| s.eq_ignore_ascii_case(kind.name()))
    });
    match found {
        Some((_, kind)) => Ok(kind),
        None => Err(errors::wrong_value(name, &errors::shown(value))),
    }
}
