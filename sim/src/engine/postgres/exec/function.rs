//! Functions that depend on or change the server's state, and functions in `FROM`.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Row, Value};

use super::{Exec, Stop};
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::role::SUPERUSER;
use crate::engine::postgres::{
    AdvisoryKey, Entry, LockMode, LockScope, Store, Tag, WaitPolicy, errors, pid,
};
use crate::plan::catalog::{Catalog as _, Relation, Sequence};
use crate::plan::expr::{self, HostFunction, Scope, SetFunction, json};
use crate::plan::types::datetime;

/// What a function that returns nothing returns.
fn void() -> Value {
    Value::Text("".into())
}

impl Exec<'_> {
    /// Calls a function.
    pub(super) fn function(
        &mut self,
        function: HostFunction,
        args: &[Value],
    ) -> Result<Value, Stop> {
        use HostFunction as F;
        match function {
            F::TransactionTimestamp => Ok(Value::TimestampTz(self.moment.transaction_micros)),
            F::StatementTimestamp => Ok(Value::TimestampTz(self.moment.statement_micros)),
            F::ClockTimestamp => self
                .run
                .once_value(|| Ok(Value::TimestampTz(self.store.now_micros()))),
            F::NextVal => self.next_value(text(args, 0)),
            F::CurrVal => self.current_value(text(args, 0)),
            F::LastVal => self.last_value(),
            F::SetVal => self.set_value(
                text(args, 0),
                int(args, 1),
                args.get(2).and_then(Value::as_bool).unwrap_or(true),
            ),
            F::AdvisoryLock {
                attempt,
                shared,
                transaction,
            } => self.advisory_lock(args, attempt, shared, transaction),
            F::AdvisoryUnlock { shared } => self.advisory_unlock(args, shared),
            F::AdvisoryUnlockAll => self.run.once_value(|| {
                self.store.unlock_all(self.session);
                Ok(void())
            }),
            F::Sleep => self.sleep(args),
            F::BackendPid => Ok(Value::Int(pid(self.session))),
            F::TerminateBackend => self.signal(int(args, 0), errors::terminated()),
            F::CancelBackend => self.signal(int(args, 0), errors::cancelled_by_user()),
            F::BlockingPids => {
                let of = session_of(int(args, 0));
                self.run.once_value(|| {
                    let blockers = of.map_or(Vec::new(), |s| blockers(self.store, s));
                    Ok(Value::Array(blockers.into()))
                })
            }
            F::SessionIsBlocked => {
                let of = session_of(int(args, 0));
                let among = match args.get(1) {
                    Some(Value::Array(pids)) => Arc::clone(pids),
                    _ => [].into(),
                };
                self.run.once_value(|| {
                    let blockers = of.map_or(Vec::new(), |s| blockers(self.store, s));
                    Ok(Value::Bool(blockers.iter().any(|b| among.contains(b))))
                })
            }
            F::CurrentXactId => {
                self.store.ensure_xid(self.session);
                Ok(self.top_xid())
            }
            F::CurrentXactIdIfAssigned => Ok(self.top_xid()),
            F::SnapshotXmin => self.run.once_value(|| {
                let bounds = self.store.xid_bounds();
                Ok(Value::Int(i64::from(bounds.0.0)))
            }),
            F::SnapshotXmax => self.run.once_value(|| {
                let bounds = self.store.xid_bounds();
                Ok(Value::Int(i64::from(bounds.1.0)))
            }),
            F::XactStatus | F::XactIsVisible => {
                Err(unsupported("looking up other transactions' status"))
            }
            F::CurrentSetting => self.current_setting(args),
            F::SetConfig => self.set_config(args),
            F::Random | F::RandomUuid => Err(unsupported("random values")),
            F::Version => Ok(Value::text("PostgreSQL 15.18 (simulated)")),
            F::CurrentDatabase => Ok(Value::text("rowlock")),
            F::CurrentUser => Ok(Value::Text(self.role())),
            F::SessionUser => Ok(Value::text(SUPERUSER)),
            F::CurrentSchema => Ok(Value::text("public")),
            F::IsInRecovery => Ok(Value::Bool(false)),
            F::Notify => {
                let part = |at: usize| {
                    if args[at].is_null() {
                        ""
                    } else {
                        text(args, at)
                    }
                };
                errors::check_notification(part(0), part(1))?;
                self.run.once_value(|| {
                    self.store.notify(self.session, part(0), part(1));
                    Ok(void())
                })
            }
            F::NotificationQueueUsage => self
                .run
                .once_value(|| Ok(Value::Float(self.store.notification_queue_usage()))),
            F::RelationByName => {
                let name = unqualified(text(args, 0));
                match self.schema.relation(None, &name) {
                    Some(_) => Ok(Value::text(name)),
                    None => Err(errors::undefined_table(&name).into()),
                }
            }
            F::RelationName => {
                let id = int(args, 0);
                let name = u32::try_from(id)
                    .ok()
                    .and_then(|id| self.schema.name(crate::plan::catalog::RelationId(id)));
                Ok(match name {
                    Some(name) => Value::Text(name),
                    None => Value::text(id.to_string()),
                })
            }
            F::RelationOid => {
                let name = unqualified(text(args, 0));
                match self
                    .schema
                    .id(&name)
                    .or_else(|| super::view::view_id(&name))
                {
                    Some(id) => Ok(Value::Int(i64::from(id.0))),
                    None => Err(errors::undefined_table(&name).into()),
                }
            }
        }
    }

    fn top_xid(&self) -> Value {
        let xact = self.store.xact(self.session);
        match xact.levels.first().and_then(|level| level.xids.first()) {
            Some(xid) => Value::Int(i64::from(xid.0)),
            None => Value::Null,
        }
    }

    fn sequence_named(&self, name: &str) -> Result<Arc<Sequence>, Stop> {
        let name = unqualified(name);
        match self.schema.relation(None, &name) {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(_) => Err(errors::not_a_sequence(&name).into()),
            None => Err(errors::undefined_table(&name).into()),
        }
    }

    /// A sequence to be drawn from, as it is once its lock is held: until the end of the transaction
    /// nobody alters it.
    fn open_sequence(&mut self, name: &str) -> Result<Arc<Sequence>, Stop> {
        let found = self.sequence_named(name)?;
        if &*self.role() != SUPERUSER {
            let what = "drawing from a sequence as another role";
            return Err(unsupported(what));
        }
        self.lock_relation(found.id, LockMode::RowExclusive)?;
        let (schema, _) = self.store.catalog().view(Some(self.session));
        match schema.sequences.get(&found.id) {
            Some(sequence) => Ok(Arc::clone(sequence)),
            None => Err(errors::undefined_table(&found.name).into()),
        }
    }

    /// The role as which the session acts.
    fn role(&self) -> Arc<str> {
        let settings = self.store.session(self.session).settings.get();
        settings.role().unwrap_or_else(|| SUPERUSER.into())
    }

    fn next_value(&mut self, name: &str) -> Result<Value, Stop> {
        let sequence = self.open_sequence(name)?;
        let modes = self.moment.modes;
        self.run.once_value(|| {
            if modes.read_only {
                return Err(errors::read_only_transaction("nextval()").into());
            }
            let (last, called) = self
                .store
                .sequence(self.session, sequence.id)
                .unwrap_or((sequence.start, false));
            let next = if called {
                advance(&sequence, last)?
            } else {
                last
            };
            self.store
                .set_sequence(self.session, sequence.id, next, true);
            let drawn = &mut self.store.session_mut(self.session).drawn;
            let drawn = Rc::make_mut(drawn);
            drawn.values.insert(sequence.id, next);
            drawn.last = Some(sequence.id);
            Ok(Value::Int(next))
        })
    }

    fn current_value(&mut self, name: &str) -> Result<Value, Stop> {
        let sequence = self.sequence_named(name)?;
        let drawn = &self.store.session(self.session).drawn;
        match drawn.values.get(&sequence.id) {
            Some(value) => Ok(Value::Int(*value)),
            None => Err(errors::currval_undefined(&sequence.name).into()),
        }
    }

    fn last_value(&mut self) -> Result<Value, Stop> {
        let drawn = &self.store.session(self.session).drawn;
        match drawn.last.and_then(|id| drawn.values.get(&id)) {
            Some(value) => Ok(Value::Int(*value)),
            None => Err(errors::lastval_undefined().into()),
        }
    }

    fn set_value(&mut self, name: &str, value: i64, called: bool) -> Result<Value, Stop> {
        let sequence = self.open_sequence(name)?;
        let read_only = self.moment.modes.read_only;
        self.run.once_value(|| {
            if read_only {
                return Err(errors::read_only_transaction("setval()").into());
            }
            if value < sequence.min || value > sequence.max {
                return Err(DbError::postgres(
                    "22003",
                    format!(
                        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                        sequence.name, sequence.min, sequence.max
                    ),
                )
                .into());
            }
            self.store
                .set_sequence(self.session, sequence.id, value, called);
            if called {
                let drawn = &mut self.store.session_mut(self.session).drawn;
                Rc::make_mut(drawn).values.insert(sequence.id, value);
            }
            Ok(Value::Int(value))
        })
    }

    fn advisory_lock(
        &mut self,
        args: &[Value],
        attempt: bool,
        shared: bool,
        transaction: bool,
    ) -> Result<Value, Stop> {
        let granted = self.store.lock(
            &mut self.run,
            Tag::Advisory(advisory_key(args)),
            advisory_mode(shared),
            if transaction {
                LockScope::Transaction
            } else {
                LockScope::Session
            },
            if attempt {
                WaitPolicy::Skip
            } else {
                WaitPolicy::Block
            },
        )?;
        Ok(if attempt {
            Value::Bool(granted)
        } else {
            void()
        })
    }

    fn advisory_unlock(&mut self, args: &[Value], shared: bool) -> Result<Value, Stop> {
        let tag = Tag::Advisory(advisory_key(args));
        let mode = advisory_mode(shared);
        let held = self
            .run
            .once_value(|| Ok(Value::Bool(self.store.unlock(self.session, tag, mode))))?;
        if held == Value::Bool(false) {
            let name = if shared { "ShareLock" } else { "ExclusiveLock" };
            self.notice("WARNING", format!("you don't own a lock of type {name}"));
        }
        Ok(held)
    }

    fn sleep(&mut self, args: &[Value]) -> Result<Value, Stop> {
        if let Some(entry) = self.run.replay() {
            debug_assert_eq!(entry, Entry::Done);
            return Ok(void());
        }
        let seconds = match args.first() {
            Some(Value::Float(x)) => *x,
            Some(Value::Int(n)) => *n as f64,
            _ => 0.0,
        };
        if seconds > 0.0 && !std::mem::take(&mut self.slept) {
            let micros = (seconds * 1e6).ceil() as i64;
            self.sleeps_until = Some(self.store.now_micros() + micros);
            return Err(Stop::Wait);
        }
        self.run.record(Entry::Done);
        Ok(void())
    }

    /// `pg_terminate_backend`, `pg_cancel_backend`: whether there is such a session.
    fn signal(&mut self, to: i64, error: DbError) -> Result<Value, Stop> {
        let target = session_of(to).filter(|s| s.0 < self.store.session_count());
        if target == Some(self.session) {
            return Err(error.into());
        }
        let done = self.run.once_value(|| {
            Ok(Value::Bool(target.is_some_and(|session| {
                self.store.interrupt(session, error)
            })))
        })?;
        if done == Value::Bool(false) {
            self.notice(
                "WARNING",
                format!("PID {to} is not a PostgreSQL backend process"),
            );
        }
        Ok(done)
    }

    fn current_setting(&mut self, args: &[Value]) -> Result<Value, Stop> {
        let name = text(args, 0);
        let missing_ok = args.get(1).and_then(Value::as_bool).unwrap_or(false);
        if let Some(value) = self.transaction_setting(name) {
            return Ok(Value::Text(value));
        }
        match self.store.session(self.session).settings.get().show(name) {
            Ok(value) => Ok(Value::Text(value)),
            Err(_) if missing_ok => Ok(Value::Null),
            Err(error) => Err(error.into()),
        }
    }

    /// The settings that belong to the transaction, as `SHOW` prints them.
    pub(super) fn transaction_setting(&self, name: &str) -> Option<Arc<str>> {
        let modes = self.moment.modes;
        crate::engine::postgres::control::transaction_setting(modes, name)
    }

    fn set_config(&mut self, args: &[Value]) -> Result<Value, Stop> {
        let name = text(args, 0);
        let value = text(args, 1);
        let local = args.get(2).and_then(Value::as_bool).unwrap_or(false);
        if self.transaction_setting(name).is_some() {
            return Err(unsupported("set_config of a transaction's characteristics"));
        }
        self.run.once_value(|| {
            let settings = &mut self.store.session_mut(self.session).settings;
            settings.set(name, value, local)?;
            Ok(Value::Text(settings.get().show(name)?))
        })
    }

    /// The rows of a function in `FROM`.
    pub(super) fn function_rows(
        &mut self,
        function: SetFunction,
        args: &[expr::Expr],
        ordinality: bool,
        scope: &Scope<'_>,
    ) -> Result<Vec<Row>, Stop> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(expr::eval(arg, scope, self)?.into_owned());
        }
        let single = |column: Vec<Value>| column.into_iter().map(|v| vec![v]).collect();
        let rows: Vec<Vec<Value>> = match function {
            SetFunction::RowLocks => return self.row_locks(&values[0]),
            SetFunction::Scalar => single(values),
            SetFunction::Unnest => side_by_side(&values),
            SetFunction::SeriesInt => single(integer_series(&values)?),
            SetFunction::SeriesTimestamp => single(datetime::series(&values)?),
            SetFunction::JsonElements { text, binary } => {
                single(json::elements(&values[0], text, binary)?)
            }
            SetFunction::JsonEach { text, binary } => json::each(&values[0], text, binary)?,
            SetFunction::JsonKeys { binary } => single(json::keys(&values[0], binary)?),
        };
        Ok(rows
            .into_iter()
            .enumerate()
            .map(|(i, mut row)| {
                if ordinality {
                    row.push(Value::Int(i as i64 + 1));
                }
                row.into()
            })
            .collect())
    }
}

fn unsupported(what: &str) -> Stop {
    DbError::unsupported(what, None).into()
}

/// The items of arrays side by side; short ones are filled up with NULL.
fn side_by_side(arrays: &[Value]) -> Vec<Vec<Value>> {
    let items = |array: &Value| match array {
        Value::Array(items) => items.to_vec(),
        _ => Vec::new(),
    };
    let columns: Vec<Vec<Value>> = arrays.iter().map(items).collect();
    let count = columns.iter().map(Vec::len).max().unwrap_or(0);
    (0..count)
        .map(|row| {
            let value = |c: &Vec<Value>| c.get(row).cloned().unwrap_or(Value::Null);
            columns.iter().map(value).collect()
        })
        .collect()
}

fn integer_series(values: &[Value]) -> Result<Vec<Value>, Stop> {
    if values.iter().any(Value::is_null) {
        return Ok(Vec::new());
    }
    let from = int(values, 0);
    let to = int(values, 1);
    let step = values.get(2).and_then(Value::as_int).unwrap_or(1);
    if step == 0 {
        return Err(DbError::postgres("22023", "step size cannot equal zero").into());
    }
    let mut series = Vec::new();
    let mut at = from;
    while (step > 0 && at <= to) || (step < 0 && at >= to) {
        series.push(Value::Int(at));
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(series)
}

/// The value of a sequence after `last`.
fn advance(sequence: &Sequence, last: i64) -> Result<i64, DbError> {
    let next = last.checked_add(sequence.increment);
    match next {
        Some(next) if next >= sequence.min && next <= sequence.max => Ok(next),
        _ if sequence.cycle && sequence.increment > 0 => Ok(sequence.min),
        _ if sequence.cycle => Ok(sequence.max),
        _ if sequence.increment > 0 => {
            Err(errors::sequence_exhausted(&sequence.name, sequence.max))
        }
        _ => Err(errors::sequence_ran_down(&sequence.name, sequence.min)),
    }
}

/// The process numbers that a session waits for.
fn blockers(store: &Store, session: SessionId) -> Vec<Value> {
    if session.0 >= store.session_count() || !store.is_waiting(session) {
        return Vec::new();
    }
    let blockers = store.blockers(session);
    // A prepared transaction has no process.
    let process = |s: &SessionId| if is_seat(*s) { 0 } else { pid(*s) };
    blockers.iter().map(|s| Value::Int(process(s))).collect()
}

/// The session with a process number, whether or not it was ever opened.
fn session_of(of: i64) -> Option<SessionId> {
    u8::try_from(of.checked_sub(pid(SessionId(0)))?)
        .ok()
        .map(SessionId)
}

fn advisory_key(args: &[Value]) -> AdvisoryKey {
    match args {
        [a, b] => AdvisoryKey::Pair(
            a.as_int().unwrap_or(0) as i32,
            b.as_int().unwrap_or(0) as i32,
        ),
        _ => AdvisoryKey::Big(int(args, 0)),
    }
}

fn advisory_mode(shared: bool) -> LockMode {
    if shared {
        LockMode::Share
    } else {
        LockMode::Exclusive
    }
}

/// A relation name without `public.` and quotes.
pub(super) fn unqualified(name: &str) -> String {
    let name = name.strip_prefix("public.").unwrap_or(name);
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn text(args: &[Value], at: usize) -> &str {
    args.get(at).and_then(Value::as_str).unwrap_or("")
}

fn int(args: &[Value], at: usize) -> i64 {
    args.get(at).and_then(Value::as_int).unwrap_or(0)
}
