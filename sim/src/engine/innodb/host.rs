//! Functions and variables of the server.

use std::rc::Rc;

use rowlock_model::Value;

use super::errors;
use super::handler::Handler;
use super::run::Entry;
use super::session::Waiting;
use super::user_lock::UserRefused;
use crate::loose::expr::HostFunction;
use crate::loose::storage::{Host, Stop};
use crate::loose::temporal::cut;
use crate::numbers;

/// The number by which a session is known to clients: `CONNECTION_ID()`.
pub(super) fn connection_id(session: rowlock_model::schedule::SessionId) -> i64 {
    numbers::INNODB_PROCESS.start + i64::from(session.0)
}

impl Handler<'_> {
    fn once_value(
        &mut self,
        live: impl FnOnce(&mut Self) -> Result<Value, Stop>,
    ) -> Result<Value, Stop> {
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let value = live(self)?;
                self.run.record(Entry::Value(value.clone()));
                Entry::Value(value)
            }
        };
        match entry {
            Entry::Value(value) => Ok(value),
            other => panic!("the journal has {other:?} where a value is asked for"),
        }
    }

    /// The name of a user lock as the server keeps it; `None` if the function answers NULL.
    fn lock_name(&mut self, value: &Value, function: &str) -> Result<Option<String>, Stop> {
        let flavour = self.store.flavour;
        let name = match value {
            Value::Null => String::new(),
            other => errors::shown(other),
        };
        if name.is_empty() {
            if flavour.is_mariadb() {
                return Ok(None);
            }
            let shown = if value.is_null() { "NULL" } else { "" };
            let message = format!("Incorrect user-level lock name '{shown}'.");
            return Err(errors::mysql(3057, "42000", message).into());
        }
        if flavour.is_mariadb() {
            if name.len() > flavour.user_lock_name_limit() {
                let message = format!("Identifier name '{name}' is too long");
                return Err(errors::mysql(1059, "42000", message).into());
            }
            return Ok(Some(name));
        }
        if name.chars().count() > flavour.user_lock_name_limit() {
            let message = format!("The value for the {function} function is too long (max 64)");
            return Err(errors::mysql(4163, "HY000", message).into());
        }
        Ok(Some(name.to_lowercase()))
    }

    /// The timeout of `GET_LOCK` in microseconds; `None` waits for ever.
    fn user_timeout(&mut self, value: &Value) -> Result<Option<i64>, Option<Value>> {
        let mariadb = self.store.flavour.is_mariadb();
        let seconds = match value {
            Value::Null if mariadb => {
                let message = "Incorrect timeout value: 'NULL' for get_lock".to_owned();
                self.run.warnings.push((1411, message));
                return Err(Some(Value::Null));
            }
            Value::Null => 0.0,
            Value::Int(i) => *i as f64,
            Value::Float(x) => *x,
            Value::Decimal(d) => d.to_string().parse().unwrap_or(0.0),
            Value::Text(s) => s.trim().parse().unwrap_or(0.0),
            _ => 0.0,
        };
        if seconds < 0.0 {
            if mariadb {
                self.run
                    .warnings
                    .push((1411, "Incorrect timeout value for get_lock".to_owned()));
                return Err(Some(Value::Null));
            }
            return Ok(None);
        }
        let seconds = if mariadb { seconds } else { seconds.round() };
        Ok(Some((seconds * 1e6) as i64))
    }

    fn get_lock(&mut self, args: &[Value]) -> Result<Value, Stop> {
        let Some(name) = self.lock_name(&args[0], "GET_LOCK")? else {
            return Ok(Value::Null);
        };
        let timeout = match self.user_timeout(&args[1]) {
            Ok(timeout) => timeout,
            Err(value) => return Ok(value.unwrap_or(Value::Null)),
        };
        if std::mem::take(&mut self.run.granted) {
            if std::mem::take(&mut self.run.interrupted) {
                return Ok(Value::Null);
            }
            let timed_out = std::mem::take(&mut self.run.timed_out);
            if timed_out {
                self.store.cancel_user_wait(self.session);
            }
            return Ok(Value::Int(i64::from(!timed_out)));
        }
        let holder = self.store.user_lock_holder(&name);
        if timeout == Some(0) && holder.is_some_and(|holder| holder != self.session) {
            return Ok(Value::Int(0));
        }
        match self.store.take_user_lock(self.session, &name) {
            Ok(()) => Ok(Value::Int(1)),
            Err(UserRefused::Wait) => {
                self.waiting = Some(Waiting::UserLock);
                let now = self.store.now_micros();
                self.run.until_micros = Some(match timeout {
                    Some(timeout) => now.saturating_add(timeout),
                    None => i64::MAX,
                });
                Err(Stop::Wait)
            }
            Err(UserRefused::Deadlock) => {
                self.run.user_deadlock = true;
                Err(errors::user_lock_deadlock(self.store.flavour).into())
            }
        }
    }

    fn sleep(&mut self, args: &[Value]) -> Result<Value, Stop> {
        let seconds = match args.first() {
            Some(Value::Int(i)) => *i as f64,
            Some(Value::Float(x)) => *x,
            Some(Value::Decimal(d)) => d.to_string().parse().unwrap_or(0.0),
            _ => {
                return Err(errors::mysql(1210, "HY000", "Incorrect arguments to sleep.").into());
            }
        };
        if seconds <= 0.0 || std::mem::take(&mut self.run.granted) {
            self.run.timed_out = false;
            return Ok(Value::Int(0));
        }
        let now = self.store.now_micros();
        self.run.until_micros = Some(now + (seconds * 1e6) as i64);
        self.waiting = Some(Waiting::Sleep);
        Err(Stop::Wait)
    }

    fn live_call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Stop> {
        use HostFunction as F;
        let session = self.session;
        let fsp = args.first().and_then(Value::as_int).unwrap_or(0);
        let fsp = u8::try_from(fsp.clamp(0, 6)).unwrap_or(0);
        Ok(match function {
            F::Now | F::UtcTimestamp => {
                self.store.now_micros();
                Value::Timestamp(cut(self.run.start_micros, fsp))
            }
            F::Sysdate => {
                // A statement takes some time until it looks at the clock again; ours stands still meanwhile.
                let now = self.store.now_micros().max(self.run.start_micros + 1);
                Value::Timestamp(cut(now, fsp))
            }
            F::CurrentDate => {
                self.store.now_micros();
                let days = self.run.start_micros.div_euclid(86_400_000_000);
                Value::Date(i32::try_from(days).unwrap_or(i32::MAX))
            }
            F::CurrentTime => {
                self.store.now_micros();
                let time = self.run.start_micros.rem_euclid(86_400_000_000);
                Value::Time(cut(time, fsp))
            }
            F::UnixTimestamp => {
                self.store.now_micros();
                Value::Int(self.run.start_micros.div_euclid(1_000_000))
            }
            F::LastInsertId => match args.first() {
                Some(value) => {
                    self.run.insert_id = value.as_int();
                    value.clone()
                }
                None => Value::Int(self.store.session(session).last_insert_id),
            },
            F::RowCount => Value::Int(self.store.session(session).row_count),
            F::FoundRows => Value::Int(self.store.session(session).found_rows),
            F::ConnectionId => Value::Int(connection_id(session)),
            F::Database => Value::Text(self.store.session(session).schema.clone()),
            F::User => Value::text("root@localhost"),
            F::Version => Value::text(self.store.flavour.version()),
            F::GetLock => self.get_lock(args)?,
            F::ReleaseLock => match self.lock_name(&args[0], "RELEASE_LOCK")? {
                None => Value::Null,
                Some(name) => match self.store.release_user_lock(session, &name) {
                    Some(released) => Value::Int(i64::from(released)),
                    None => Value::Null,
                },
            },
            F::ReleaseAllLocks => Value::Int(i64::from(self.store.release_user_locks(session))),
            F::IsFreeLock => match self.lock_name(&args[0], "IS_FREE_LOCK")? {
                None => Value::Null,
                Some(name) => Value::Int(i64::from(self.store.user_lock_holder(&name).is_none())),
            },
            F::IsUsedLock => match self.lock_name(&args[0], "IS_USED_LOCK")? {
                None => Value::Null,
                Some(name) => match self.store.user_lock_holder(&name) {
                    Some(holder) => Value::Int(connection_id(holder)),
                    None => Value::Null,
                },
            },
            F::Sleep => self.sleep(args)?,
            F::Uuid | F::Random | F::JulianNow | F::TotalChanges => {
                return Err(rowlock_model::DbError::unsupported(
                    format!("the function {function:?}"),
                    None,
                )
                .into());
            }
        })
    }
}

impl Host for Handler<'_> {
    fn param(&self, index: usize) -> Result<Value, Stop> {
        match self.args.get(index) {
            Some(value) => Ok(value.clone()),
            None => Err(
                errors::mysql(1210, "HY000", "Incorrect arguments to mysqld_stmt_execute").into(),
            ),
        }
    }

    fn call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Stop> {
        self.once_value(|handler| handler.live_call(function, args))
    }

    fn user_variable(&mut self, name: &str) -> Value {
        // Assignments inside the statement change it: a second run starts from the same values,
        // because it answers from its journal.
        let live = |handler: &mut Self| {
            let variables = &handler.store.session(handler.session).variables;
            Ok(variables.get(name).cloned().unwrap_or(Value::Null))
        };
        self.once_value(live).unwrap_or(Value::Null)
    }

    fn set_user_variable(&mut self, name: &str, value: Value) {
        if self.run.replay().is_some() {
            return;
        }
        let variables = &mut self.store.session_mut(self.session).variables;
        Rc::make_mut(variables).insert(name.into(), value);
        self.run.record(Entry::Flag(true));
    }

    fn system_variable(&mut self, name: &str, global: bool) -> Result<Value, Stop> {
        self.once_value(|handler| {
            handler.store.reads_globals();
            let value = super::variables::get(handler.store, handler.session, name, global)?;
            Ok(value)
        })
    }

    fn warn(&mut self, code: u16, message: String) {
        if !self.run.is_replaying() {
            self.run.warnings.push((code, message));
        }
    }

    fn is_strict(&self) -> bool {
        !self.facts.ignore && self.store.session(self.session).settings.strict
    }
}
