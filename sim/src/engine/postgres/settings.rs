//! Run-time settings of a session (`SET`, `SHOW`, `RESET`, `set_config`, `current_setting`).
//!
//! Settings are transactional: `SET` lasts beyond the transaction only if that commits, `SET LOCAL`
//! never does, and `ROLLBACK TO` undoes both. [`SettingStack`] keeps the value in force and the one
//! that a commit would leave, and a copy of both for every open (sub)transaction.
//!
//! A setting that is not listed here is unknown, as on the server, or, where the server has it and
//! the simulator cannot honour it, refused as not modelled.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use rowlock_model::{DbError, Isolation};

use super::errors;
use crate::world::{Digest, Renaming};

/// The values in force in one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    /// Milliseconds that one lock wait may last; 0 = for ever.
    pub(crate) lock_timeout_ms: i64,
    /// Milliseconds that one statement may last; 0 = for ever.
    pub(crate) statement_timeout_ms: i64,
    /// Milliseconds that a session may be idle in a transaction; 0 = for ever.
    pub(crate) idle_in_transaction_session_timeout_ms: i64,
    /// Milliseconds that a session may be idle outside a transaction; 0 = for ever.
    pub(crate) idle_session_timeout_ms: i64,
    /// Milliseconds of a lock wait before its deadlock check.
    pub(crate) deadlock_timeout_ms: i64,
    /// The isolation level of the next transaction.
    pub(crate) default_isolation: Isolation,
    /// Whether the next transaction is read-only.
    pub(crate) default_read_only: bool,
    /// Whether the next transaction is deferrable.
    pub(crate) default_deferrable: bool,
    /// Everything that is only stored and shown, by lower-case name.
    pub(crate) other: BTreeMap<Arc<str>, Arc<str>>,
}

impl Settings {
    /// What a new session starts with.
    pub(crate) fn new(default_isolation: Isolation) -> Settings {
        Settings {
            lock_timeout_ms: 0,
            statement_timeout_ms: 0,
            idle_in_transaction_session_timeout_ms: 0,
            idle_session_timeout_ms: 0,
            deadlock_timeout_ms: 1_000,
            default_isolation,
            default_read_only: false,
            default_deferrable: false,
            other: BTreeMap::new(),
        }
    }
}

/// Planner switches: the simulator's access paths do not depend on them, and no statement's result
/// does on the server. (At SERIALIZABLE, who fails may: see the README beside this file.)
const PLANNER_SWITCHES: [&str; 16] = [
    "enable_async_append",
    "enable_bitmapscan",
    "enable_gathermerge",
    "enable_hashagg",
    "enable_hashjoin",
    "enable_incremental_sort",
    "enable_indexonlyscan",
    "enable_indexscan",
    "enable_material",
    "enable_memoize",
    "enable_mergejoin",
    "enable_nestloop",
    "enable_parallel_append",
    "enable_parallel_hash",
    "enable_seqscan",
    "enable_sort",
];

/// Settings of the server that may be set only to what they are already (value as `SHOW` prints it,
/// other spellings of it).
const FIXED: [(&str, &str, &[&str]); 11] = [
    ("timezone", "UTC", &["utc", "etc/utc", "gmt"]),
    ("datestyle", "ISO, MDY", &["iso", "iso, mdy", "iso,mdy"]),
    ("intervalstyle", "postgres", &["postgres"]),
    ("bytea_output", "hex", &["hex"]),
    ("client_encoding", "UTF8", &["utf8", "utf-8", "unicode"]),
    ("standard_conforming_strings", "on", &["on", "true", "1"]),
    (
        "synchronous_commit",
        "on",
        &["on", "off", "local", "true", "false"],
    ),
    // `prepared::MOST_PREPARED`.
    ("max_prepared_transactions", "10", &[]),
    ("server_version", "15.18", &[]),
    ("server_version_num", "150018", &[]),
    ("server_encoding", "UTF8", &[]),
];

/// Settings with free text that changes nothing modelled, with their defaults.
const STORED: [(&str, &str); 5] = [
    ("application_name", ""),
    ("extra_float_digits", "1"),
    ("force_parallel_mode", "off"),
    ("role", "none"),
    ("search_path", "\"$user\", public"),
];

/// Numbers that the planner weighs plans with, and their defaults; they change as little as the
/// switches do.
const PLANNER_NUMBERS: [(&str, &str); 10] = [
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("max_parallel_workers_per_gather", "2"),
    ("min_parallel_index_scan_size", "512kB"),
    ("min_parallel_table_scan_size", "8MB"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("random_page_cost", "4"),
    ("seq_page_cost", "1"),
];

fn planner_number(name: &str) -> Option<&'static str> {
    let mut numbers = PLANNER_NUMBERS.iter();
    numbers.find(|(n, _)| *n == name).map(|(_, d)| *d)
}

fn planner_switch(name: &str) -> bool {
    PLANNER_SWITCHES.contains(&name)
}

fn fixed(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    FIXED
        .iter()
        .find(|(n, ..)| *n == name)
        .map(|(_, shown, spellings)| (*shown, *spellings))
}

fn stored(name: &str) -> Option<&'static str> {
    STORED
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, default)| *default)
}

impl Settings {
    fn timeout(&mut self, name: &str) -> Option<&mut i64> {
        Some(match name {
            "lock_timeout" => &mut self.lock_timeout_ms,
            "statement_timeout" => &mut self.statement_timeout_ms,
            "idle_in_transaction_session_timeout" => {
                &mut self.idle_in_transaction_session_timeout_ms
            }
            "idle_session_timeout" => &mut self.idle_session_timeout_ms,
            "deadlock_timeout" => &mut self.deadlock_timeout_ms,
            _ => return None,
        })
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "default_transaction_read_only" => &mut self.default_read_only,
            "default_transaction_deferrable" => &mut self.default_deferrable,
            _ => return None,
        })
    }

    /// Sets `name` (any case) to the text `value`.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a value that does not suit, or not modelled.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), DbError> {
        let name = name.to_ascii_lowercase();
        if let Some(timeout) = self.timeout(&name) {
            let lowest = i64::from(name == "deadlock_timeout");
            *timeout = milliseconds(&name, value, lowest)?;
            return Ok(());
        }
        if let Some(switch) = self.switch(&name) {
            *switch = boolean(&name, value)?;
            return Ok(());
        }
        if name == "default_transaction_isolation" {
            self.default_isolation = value
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| errors::invalid_setting(&name, value))?;
            return Ok(());
        }
        if planner_switch(&name) {
            let on = boolean(&name, value)?;
            self.store(&name, if on { "on" } else { "off" });
            return Ok(());
        }
        if planner_number(&name).is_some() {
            let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            if !number.trim_end().parse::<f64>().is_ok_and(|n| n >= 0.0) {
                return Err(errors::invalid_setting(&name, value));
            }
            self.store(&name, value);
            return Ok(());
        }
        if name == "force_parallel_mode" {
            // Results do not depend on who computes them.
            let on = boolean(&name, value)?;
            self.store(&name, if on { "on" } else { "off" });
            return Ok(());
        }
        if name == "client_min_messages" {
            if message_level(value).is_none() {
                return Err(errors::invalid_setting(&name, value));
            }
            self.store(&name, &value.to_ascii_lowercase());
            return Ok(());
        }
        if let Some((_, spellings)) = fixed(&name) {
            return if spellings.contains(&value.to_ascii_lowercase().as_str()) {
                Ok(())
            } else {
                Err(DbError::unsupported(
                    format!("setting {name} to {value}"),
                    None,
                ))
            };
        }
        if name == "search_path" && !value.eq_ignore_ascii_case("public") {
            return Err(DbError::unsupported(
                "a search_path other than public",
                None,
            ));
        }
        if stored(&name).is_some() || name.contains('.') {
            self.store(&name, value);
            return Ok(());
        }
        Err(errors::unknown_setting(&name))
    }

    /// The role that `SET ROLE` has set.
    pub(crate) fn role(&self) -> Option<Arc<str>> {
        let role = self.other.get("role")?;
        (&**role != "none").then(|| Arc::clone(role))
    }

    fn store(&mut self, name: &str, value: &str) {
        self.other.insert(name.into(), value.into());
    }

    /// Puts `name` back to what `start` has.
    ///
    /// # Errors
    /// 42704 for an unknown name.
    pub(crate) fn reset(&mut self, name: &str, start: &Settings) -> Result<(), DbError> {
        let name = name.to_ascii_lowercase();
        let mut start = start.clone();
        if let (Some(to), Some(from)) = (self.timeout(&name), start.timeout(&name)) {
            *to = *from;
        } else if let (Some(to), Some(from)) = (self.switch(&name), start.switch(&name)) {
            *to = *from;
        } else if name == "default_transaction_isolation" {
            self.default_isolation = start.default_isolation;
        } else {
            self.show(&name)?;
            match start.other.get(name.as_str()) {
                Some(value) => self.store(&name, value),
                // A custom setting that was once set stays known, and empty.
                None if name.contains('.') => self.store(&name, ""),
                None => {
                    self.other.remove(name.as_str());
                }
            }
        }
        Ok(())
    }

    /// The value of `name` as `SHOW` prints it.
    ///
    /// # Errors
    /// 42704 for an unknown name.
    pub(crate) fn show(&self, name: &str) -> Result<Arc<str>, DbError> {
        let name = name.to_ascii_lowercase();
        let on_off = |b: bool| -> Arc<str> { if b { "on" } else { "off" }.into() };
        Ok(match name.as_str() {
            "lock_timeout" => print_milliseconds(self.lock_timeout_ms),
            "statement_timeout" => print_milliseconds(self.statement_timeout_ms),
            "idle_in_transaction_session_timeout" => {
                print_milliseconds(self.idle_in_transaction_session_timeout_ms)
            }
            "idle_session_timeout" => print_milliseconds(self.idle_session_timeout_ms),
            "deadlock_timeout" => print_milliseconds(self.deadlock_timeout_ms),
            "default_transaction_isolation" => self.default_isolation.name().into(),
            "default_transaction_read_only" => on_off(self.default_read_only),
            "default_transaction_deferrable" => on_off(self.default_deferrable),
            _ => {
                if let Some(value) = self.other.get(name.as_str()) {
                    Arc::clone(value)
                } else if let Some((shown, _)) = fixed(&name) {
                    shown.into()
                } else if let Some(default) = stored(&name) {
                    default.into()
                } else if planner_switch(&name) {
                    "on".into()
                } else if let Some(default) = planner_number(&name) {
                    default.into()
                } else if name == "force_parallel_mode" {
                    "off".into()
                } else if name == "client_min_messages" {
                    "notice".into()
                } else {
                    return Err(errors::unknown_setting(&name));
                }
            }
        })
    }

    /// Whether a message of this severity is sent to the client (`client_min_messages`).
    pub(crate) fn sends(&self, severity: &str) -> bool {
        let level = self
            .other
            .get("client_min_messages")
            .and_then(|name| message_level(name))
            .unwrap_or(NOTICE_LEVEL);
        message_level(severity).is_none_or(|of_message| of_message >= level)
    }
}

/// Where `notice` stands in the order of [`message_level`].
const NOTICE_LEVEL: usize = 7;

fn message_level(name: &str) -> Option<usize> {
    const ORDER: [&str; 10] = [
        "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning",
        "error",
    ];
    ORDER
        .iter()
        .position(|level| name.eq_ignore_ascii_case(level))
}

/// The Boolean spellings of settings: unambiguous beginnings of true/false/yes/no, on/off, 1/0.
fn boolean(name: &str, value: &str) -> Result<bool, DbError> {
    let v = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| v.len() >= least && word.starts_with(&v);
    if begins("true", 1) || begins("yes", 1) || v == "on" || v == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || v == "0" {
        Ok(false)
    } else {
        Err(DbError::postgres(
            "22023",
            format!("parameter \"{name}\" requires a Boolean value"),
        ))
    }
}

/// A time with an optional unit, milliseconds if it has none, rounded to whole milliseconds.
fn milliseconds(name: &str, value: &str, lowest: i64) -> Result<i64, DbError> {
    let bad = || errors::invalid_setting(name, value);
    let text = value.trim();
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| bad())?;
    let unit = match text[digits..].trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1_000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return Err(bad()),
    };
    let ms = (number * unit).round_ties_even();
    if ms > f64::from(i32::MAX) {
        return Err(bad());
    }
    let ms = ms as i64;
    if ms < lowest {
        return Err(DbError::postgres(
            "22023",
            format!(
                "{ms} ms is outside the valid range for parameter \"{name}\" ({lowest} .. 2147483647)"
            ),
        ));
    }
    Ok(ms)
}

/// In the largest unit that needs no fraction.
fn print_milliseconds(ms: i64) -> Arc<str> {
    const UNITS: [(i64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    if ms == 0 {
        return "0".into();
    }
    UNITS
        .iter()
        .find(|(size, _)| ms % size == 0)
        .map_or_else(
            || format!("{ms}ms"),
            |(size, unit)| format!("{}{unit}", ms / size),
        )
        .into()
}

/// The settings of a session with what its open transaction may yet undo.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SettingStack {
    /// In force now.
    current: Arc<Kept>,
    /// In force after a commit of everything so far.
    lasting: Arc<Kept>,
    /// `(current, lasting)` at the start of the transaction and of each open subtransaction.
    saved: Vec<(Arc<Kept>, Arc<Kept>)>,
    /// What `RESET` goes back to.
    start: Arc<Kept>,
}

/// Settings that hardly ever change, with their digest once somebody has asked for it.
#[derive(Debug)]
struct Kept {
    values: Settings,
    digest: OnceLock<u128>,
}

impl Kept {
    fn new(values: Settings) -> Kept {
        Kept {
            values,
            digest: OnceLock::new(),
        }
    }

    fn digest_anew(&self) -> u128 {
        let mut digest = Digest::new(203);
        self.values.hash(&mut digest);
        digest.finish128()
    }

    /// The values, to be changed.
    fn change(kept: &mut Arc<Kept>) -> &mut Settings {
        let kept = Arc::make_mut(kept);
        kept.digest = OnceLock::new();
        &mut kept.values
    }
}

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::new(self.values.clone())
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.values == other.values
    }
}

impl Eq for Kept {}

impl Hash for Kept {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The name of the client is among the values, and renamed with it.
        let digest = match Renaming::is_active() {
            true => self.digest_anew(),
            false => *self.digest.get_or_init(|| self.digest_anew()),
        };
        state.write_u64(digest as u64);
        state.write_u64((digest >> 64) as u64);
    }
}

impl SettingStack {
    /// A new session's.
    pub(crate) fn new(settings: Settings) -> SettingStack {
        let settings = Arc::new(Kept::new(settings));
        SettingStack {
            current: Arc::clone(&settings),
            lasting: Arc::clone(&settings),
            saved: Vec::new(),
            start: settings,
        }
    }

    /// The client's name for itself, sent while it connects: `RESET` goes back to it.
    pub(crate) fn name_client(&mut self, name: &str) {
        let mut settings = self.current.values.clone();
        settings.store("application_name", name);
        *self = SettingStack::new(settings);
    }

    /// The values in force.
    pub(crate) fn get(&self) -> &Settings {
        &self.current.values
    }

    /// `SET` (`local`: `SET LOCAL`, until the end of the transaction only).
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn set(&mut self, name: &str, value: &str, local: bool) -> Result<(), DbError> {
        Kept::change(&mut self.current).set(name, value)?;
        if !local {
            Kept::change(&mut self.lasting).set(name, value)?;
        }
        Ok(())
    }

    /// `RESET name`, `SET name TO DEFAULT`.
    ///
    /// # Errors
    /// 42704 for an unknown name.
    pub(crate) fn reset(&mut self, name: &str, local: bool) -> Result<(), DbError> {
        let start = Arc::clone(&self.start);
        Kept::change(&mut self.current).reset(name, &start.values)?;
        if !local {
            Kept::change(&mut self.lasting).reset(name, &start.values)?;
        }
        Ok(())
    }

    /// `RESET ALL`.
    pub(crate) fn reset_all(&mut self) {
        for values in [&mut self.current, &mut self.lasting] {
            let mut fresh = self.start.values.clone();
            // A custom setting that was once set stays known, and empty.
            for name in values.values.other.keys().filter(|name| name.contains('.')) {
                fresh.other.entry(Arc::clone(name)).or_insert("".into());
            }
            *values = Arc::new(Kept::new(fresh));
        }
    }

    /// A transaction or subtransaction begins.
    pub(crate) fn push(&mut self) {
        self.saved
            .push((Arc::clone(&self.current), Arc::clone(&self.lasting)));
    }

    /// The innermost subtransaction is released into its parent.
    pub(crate) fn release(&mut self) {
        self.saved.pop();
    }

    /// The innermost (sub)transaction is rolled back.
    pub(crate) fn rollback(&mut self) {
        if let Some((current, lasting)) = self.saved.pop() {
            self.current = current;
            self.lasting = lasting;
        }
    }

    /// The transaction commits.
    pub(crate) fn commit(&mut self) {
        self.saved.clear();
        self.current = Arc::clone(&self.lasting);
    }

    /// The whole transaction is rolled back.
    pub(crate) fn abort(&mut self) {
        self.saved.truncate(1);
        self.rollback();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values as PostgreSQL 15 shows them.
    #[test]
    fn times_are_read_and_shown_as_the_server_does() {
        let mut s = Settings::new(Isolation::ReadCommitted);
        for (set, shown) in [
            ("1.5s", "1500ms"),
            ("1.6", "2ms"),
            ("100us", "0"),
            ("600us", "1ms"),
            (" 5 min ", "5min"),
            ("60000", "1min"),
            ("2147483647", "2147483647ms"),
        ] {
            s.set("lock_timeout", set).unwrap();
            assert_eq!(&*s.show("LOCK_TIMEOUT").unwrap(), shown, "{set}");
        }
        for (value, message) in [
            (
                "2147483648",
                "invalid value for parameter \"lock_timeout\": \"2147483648\"",
            ),
            (
                "1 week",
                "invalid value for parameter \"lock_timeout\": \"1 week\"",
            ),
            (
                "-1",
                "-1 ms is outside the valid range for parameter \"lock_timeout\" (0 .. 2147483647)",
            ),
        ] {
            let error = s.set("lock_timeout", value).unwrap_err();
            assert_eq!(&*error.message, message);
            assert_eq!(&*error.code, "22023");
        }
    }

    #[test]
    fn set_is_undone_by_rollback_and_set_local_by_the_end_of_the_transaction() {
        let mut s = SettingStack::new(Settings::new(Isolation::ReadCommitted));
        s.push();
        s.set("lock_timeout", "1s", false).unwrap();
        s.push();
        s.set("lock_timeout", "2s", true).unwrap();
        assert_eq!(s.get().lock_timeout_ms, 2_000);
        s.rollback();
        assert_eq!(s.get().lock_timeout_ms, 1_000);
        s.set("lock_timeout", "3s", true).unwrap();
        s.commit();
        assert_eq!(s.get().lock_timeout_ms, 1_000);
        s.push();
        s.set("lock_timeout", "4s", false).unwrap();
        s.push();
        s.abort();
        assert_eq!(s.get().lock_timeout_ms, 1_000);
    }
}
