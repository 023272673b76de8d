//! One statement of one session, from its text to its reply: planning, transactions, errors.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Dialect, Isolation, Reply, Value};

use super::catalog::Schema;
use super::exec::{Exec, Info, Moment, locking_query};
use super::session::{Block, Deferred, Modes, Transaction, Waiting};
use super::{Postgres, RelId, Run, Snapshot, Stop, Store, control, errors};
use crate::plan::types::Type;
use crate::plan::variables::Variables;
use crate::plan::{Plan, PlanKind, lower_inside, lower_sent};
use crate::sql::{self, Statement, StatementKind};

/// A statement that was parsed, with the plans made of it.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The statement.
    pub(super) statement: Statement,
    /// The last plan; sessions mostly see one schema and send one kind of arguments.
    plan: RefCell<Option<Cached>>,
}

#[derive(Debug)]
struct Cached {
    stamp: u64,
    types: Vec<Type>,
    /// The values of its parameters, if the plan is good for them only.
    values: Option<Vec<Value>>,
    planned: Result<Rc<Planned>, DbError>,
}

/// A plan with what its runs need.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) info: Arc<Info>,
    pub(super) columns: Arc<[Column]>,
    pub(super) tag: Arc<str>,
}

/// One attempt to run a statement: the first, or one that goes on after a wait.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The journal.
    pub(super) run: Run,
    /// Whether the statement begins now.
    pub(super) fresh: bool,
    /// The sleep in which it was suspended is over.
    pub(super) slept: bool,
    /// When the statement began.
    pub(super) start_micros: i64,
    /// Names the schema of its plan.
    pub(super) stamp: u64,
    /// Notices that were sent already: a statement that is run again raises them again.
    pub(super) told: usize,
    /// Tables into which the statement has begun to insert.
    pub(super) opened: Vec<RelId>,
}

/// Why a statement did not end with a reply.
#[derive(Debug)]
pub(super) enum Halt {
    /// It waits; its journal is in the attempt.
    Wait(Waiting),
    /// It failed.
    Error(Box<DbError>),
}

impl From<DbError> for Halt {
    fn from(error: DbError) -> Halt {
        Halt::Error(Box::new(error))
    }
}

impl Attempt {
    /// A statement that begins.
    pub(super) fn first(session: SessionId, start_micros: i64) -> Attempt {
        Attempt {
            run: Run::new(session),
            fresh: true,
            slept: false,
            start_micros,
            stamp: 0,
            told: 0,
            opened: Vec::new(),
        }
    }
}

impl Planned {
    fn new(plan: Plan, schema: &Schema) -> Planned {
        let columns = plan.columns.iter().map(|c| Column {
            name: Arc::clone(&c.name),
            type_name: schema.type_name(c.ty),
        });
        Planned {
            columns: columns.collect(),
            info: Arc::new(Info::of(&plan)),
            tag: plan.tag.into(),
            plan,
        }
    }
}

/// Plans a statement of a function.
///
/// # Errors
/// Those of its analysis; 42601 for anything but one statement.
pub(super) fn plan_of(
    text: &str,
    schema: &Schema,
    types: &[Type],
    variables: &Variables,
) -> Result<Planned, DbError> {
    let statements = sql::parse(text, Dialect::Postgres)?;
    let [statement] = &statements[..] else {
        return Err(DbError::unsupported(
            "a command of several statements in a function",
            None,
        ));
    };
    if let StatementKind::Control(_) = statement.kind {
        let word = text.split_whitespace().next().unwrap_or_default();
        return Err(DbError::unsupported(
            format!("{} in a function", word.to_ascii_uppercase()),
            None,
        ));
    }
    let plan = lower_inside(statement, schema, types, variables)?;
    Ok(Planned::new(plan, schema))
}

impl Parsed {
    pub(super) fn new(statement: Statement) -> Parsed {
        Parsed {
            statement,
            plan: RefCell::new(None),
        }
    }
}

impl Postgres {
    /// The schema that a session sees.
    pub(super) fn schema(&mut self, session: SessionId) -> Rc<Schema> {
        Rc::clone(self.store.catalog().view(Some(session)).0)
    }

    pub(super) fn planned(
        &mut self,
        session: SessionId,
        parsed: &Parsed,
        types: &[Type],
        values: &[Value],
    ) -> (Result<Rc<Planned>, DbError>, u64) {
        let (schema, stamp) = self.store.catalog().view(Some(session));
        let mut cache = parsed.plan.borrow_mut();
        if let Some(cached) = &*cache
            && cached.stamp == stamp
            && cached.types == types
            && cached.values.as_ref().is_none_or(|known| known == values)
        {
            return (cached.planned.clone(), stamp);
        }
        let planned = lower_sent(&parsed.statement, &**schema, types, values)
            .map(|plan| Rc::new(Planned::new(plan, schema)));
        let for_values = planned.as_ref().is_ok_and(|p| p.plan.for_values);
        *cache = Some(Cached {
            values: for_values.then(|| values.to_vec()),
            stamp,
            types: types.to_vec(),
            planned: planned.clone(),
        });
        (planned, stamp)
    }

    /// Runs a statement. `last`: nothing follows it in its message, so an implicit transaction ends.
    pub(super) fn statement(
        &mut self,
        session: SessionId,
        parsed: &Parsed,
        args: &[Value],
        attempt: &mut Attempt,
        last: bool,
    ) -> Result<Reply, Halt> {
        if attempt.fresh && self.store.session(session).block == Block::Failed {
            let accepted = match &parsed.statement.kind {
                StatementKind::Control(c) => control::ends_failed(c),
                StatementKind::Data(_) | StatementKind::Do(_) => false,
            };
            if !accepted {
                return Err(errors::transaction_aborted().into());
            }
        }
        let reply = match &parsed.statement.kind {
            StatementKind::Control(crate::sql::control::Control::Execute { name, args }) => {
                self.execute_named(session, name, args, parsed, attempt)?
            }
            StatementKind::Control(c) => {
                let reply = self.control(session, c, parsed, attempt)?;
                self.tell(session, &reply.notices);
                reply
            }
            StatementKind::Data(_) | StatementKind::Do(_) => {
                self.data(session, parsed, args, attempt)?
            }
        };
        let ends = match self.store.session(session).block {
            Block::Idle => true,
            Block::Implicit => last,
            Block::Open | Block::Failed => false,
        };
        if ends && self.store.session(session).transaction.is_some() {
            self.commit(session, attempt)?;
        }
        Ok(reply)
    }

    /// Opens a transaction if none is open.
    pub(super) fn open_transaction(&mut self, session: SessionId, attempt: &Attempt) {
        if self.store.session(session).transaction.is_some() {
            return;
        }
        self.store.begin(session);
        let state = self.store.session_mut(session);
        state.settings.push();
        state.transaction = Some(Transaction {
            modes: state.default_modes(),
            start_micros: attempt.start_micros,
            snapshot: None,
            queried: false,
        });
    }

    /// Runs a statement that works on data or the schema.
    pub(super) fn data(
        &mut self,
        session: SessionId,
        parsed: &Parsed,
        args: &[Value],
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        if attempt.fresh {
            self.open_transaction(session, attempt);
        }
        if attempt.fresh {
            self.store.note_xmin(session);
        }
        let types: Vec<Type> = args.iter().map(argument_type).collect();
        let (planned, stamp) = self.planned(session, parsed, &types, args);
        if !attempt.fresh && stamp != attempt.stamp && attempt.run.waits_for_table() {
            // While the statement waited for a table's lock, the schema changed. What it was
            // granted it has; it will ask again, for what the new plan needs.
            self.store.finish_wait(session);
            attempt.run = Run::new(session);
        }
        attempt.stamp = stamp;
        let planned = planned?;
        if attempt.fresh {
            self.check_privileges(session, &planned)?;
        }
        let modes = self.modes(session);
        if modes.read_only {
            refuse_writing(&planned)?;
        }
        let snapshot = self.first_snapshot(session, modes)?;
        let moment = self.moment(session, attempt);
        let schema = self.schema(session);
        let mut exec = Exec::new(
            &mut self.store,
            std::mem::replace(&mut attempt.run, Run::new(session)),
            snapshot,
            moment,
            schema,
            Arc::clone(&planned.info),
        );
        exec.slept = attempt.slept;
        exec.store.is_blind = match self.only_asks {
            true => planned.info.is_bag,
            false => planned.info.is_blind,
        };
        let result = exec.run_plan(&planned.plan, args);
        exec.store.is_blind = false;
        let notices = std::mem::take(&mut exec.notices);
        let sleeps_until = exec.sleeps_until;
        attempt.opened = exec.opened;
        attempt.run = exec.run;
        let notices = self.sent(session, notices);
        self.tell(session, notices.get(attempt.told..).unwrap_or_default());
        attempt.told = notices.len();
        match result {
            Ok(done) => Ok(Reply {
                columns: Arc::clone(&planned.columns),
                rows: done.rows.into(),
                affected: done.affected,
                tag: Arc::clone(&planned.tag),
                notices,
            }),
            Err(stop) => Err(halt(stop, sleeps_until, &attempt.run)),
        }
    }

    fn sent(
        &self,
        session: SessionId,
        notices: Vec<rowlock_model::Notice>,
    ) -> Arc<[rowlock_model::Notice]> {
        if notices.is_empty() {
            return Arc::default();
        }
        let settings = self.store.session(session).settings.get();
        notices
            .into_iter()
            .filter(|n| settings.sends(&n.severity))
            .collect()
    }

    fn modes(&self, session: SessionId) -> super::session::Modes {
        let state = self.store.session(session);
        state
            .transaction
            .map_or_else(|| state.default_modes(), |t| t.modes)
    }

    fn moment(&self, session: SessionId, attempt: &Attempt) -> Moment {
        let state = self.store.session(session);
        Moment {
            transaction_micros: state
                .transaction
                .map_or(attempt.start_micros, |t| t.start_micros),
            statement_micros: attempt.start_micros,
            modes: self.modes(session),
        }
    }

    /// The snapshot of a REPEATABLE READ transaction, taken at its first query; in READ COMMITTED a
    /// placeholder until the statement takes its own. `SERIALIZABLE READ ONLY DEFERRABLE` waits for a
    /// safe one.
    pub(super) fn first_snapshot(
        &mut self,
        session: SessionId,
        modes: Modes,
    ) -> Result<Snapshot, Halt> {
        let keeps = matches!(
            modes.isolation,
            Isolation::RepeatableRead | Isolation::Serializable
        );
        if self.store.waits_for_safety(session) {
            match self.store.safety(session) {
                None => return Err(Halt::Wait(Waiting::Safety)),
                Some(safe) => {
                    self.store.ssi_leave(session);
                    if !safe {
                        self.store.keep_snapshots(session, 0);
                        if let Some(t) = &mut self.store.session_mut(session).transaction {
                            t.snapshot = None;
                        }
                    }
                }
            }
        }
        let kept = match self.store.session(session).transaction {
            Some(t) => (t.snapshot, t.queried),
            None => (None, true),
        };
        let snapshot = match kept.0 {
            Some(snapshot) => return Ok(self.store.renew_snapshot(session, snapshot)),
            None if keeps => {
                let snapshot = self.store.take_snapshot(session);
                self.store.snapshot_persists();
                Some(snapshot)
            }
            None => None,
        };
        if (!kept.1 || snapshot.is_some())
            && let Some(t) = &mut self.store.session_mut(session).transaction
        {
            t.queried = true;
            t.snapshot = snapshot;
        }
        if let Some(snapshot) = snapshot
            && modes.isolation == Isolation::Serializable
        {
            let Modes {
                read_only,
                deferrable,
                ..
            } = modes;
            self.store.note_every_order();
            self.store
                .ssi_begin(session, snapshot.csn, read_only, deferrable);
            if self.store.waits_for_safety(session) {
                return Err(Halt::Wait(Waiting::Safety));
            }
        }
        Ok(snapshot.unwrap_or(Snapshot { csn: 0, cid: 0 }))
    }

    /// Runs deferred checks that `which` selects, now.
    pub(super) fn run_deferred(
        &mut self,
        session: SessionId,
        attempt: &mut Attempt,
        which: impl Fn(&Deferred) -> bool,
    ) -> Result<(), Halt> {
        let all = Rc::clone(&self.store.session(session).deferred);
        let now: Vec<Deferred> = all.iter().filter(|d| which(d)).cloned().collect();
        if now.is_empty() {
            return Ok(());
        }
        let modes = self.modes(session);
        let snapshot = self.first_snapshot(session, modes)?;
        let moment = self.moment(session, attempt);
        let schema = self.schema(session);
        let mut exec = Exec::new(
            &mut self.store,
            std::mem::replace(&mut attempt.run, Run::new(session)),
            snapshot,
            moment,
            schema,
            Arc::default(),
        );
        let result = exec.fire_deferred(&now);
        attempt.run = exec.run;
        result.map_err(|stop| halt(stop, None, &attempt.run))?;
        let state = self.store.session_mut(session);
        Rc::make_mut(&mut state.deferred).retain(|d| !which(d));
        Ok(())
    }

    /// Commits the open transaction.
    pub(super) fn commit(&mut self, session: SessionId, attempt: &mut Attempt) -> Result<(), Halt> {
        self.check_end(session, attempt, |_| Ok(()))?;
        self.store.commit_block(session);
        Ok(())
    }

    /// Prepares the open transaction for a commit by anybody.
    pub(super) fn prepare(
        &mut self,
        session: SessionId,
        identifier: &Arc<str>,
        attempt: &mut Attempt,
    ) -> Result<(), Halt> {
        self.check_end(session, attempt, |store| {
            store.check_prepare(session, identifier)
        })?;
        self.store.prepare_block(session, identifier);
        Ok(())
    }

    /// What a transaction must pass before it can be committed: deferred checks, those of
    /// SERIALIZABLE, and then what else there is.
    fn check_end(
        &mut self,
        session: SessionId,
        attempt: &mut Attempt,
        last: impl FnOnce(&mut Store) -> Result<(), DbError>,
    ) -> Result<(), Halt> {
        let checked = self
            .run_deferred(session, attempt, |_| true)
            .and_then(|()| Ok(self.store.ssi_prepare(session)?))
            .and_then(|()| Ok(last(&mut self.store)?));
        if let Err(Halt::Error(_)) = &checked {
            // A commit that fails is a rollback, and the block is over.
            self.store.abort_block(session);
        }
        checked
    }

    /// `EXECUTE`: the prepared statement with its arguments.
    fn execute_named(
        &mut self,
        session: SessionId,
        name: &str,
        args: &[Arc<str>],
        parsed: &Parsed,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let prepared = self.store.session(session).prepared.get(name).cloned();
        let Some(prepared) = prepared else {
            return Err(errors::undefined_prepared(name).into());
        };
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.constant(session, arg, attempt)?);
        }
        let statements = self.script(&prepared.statement)?;
        match &statements[..] {
            [statement] => {
                let statement = Rc::clone(statement);
                let result = self.data(session, &statement, &values, attempt);
                match result {
                    // A parameter has no value.
                    Err(Halt::Error(error)) if matches!(&*error.code, "42P02" | "08P01") => {
                        Err(errors::wrong_parameter_count(name).into())
                    }
                    result => result,
                }
            }
            _ => Err(DbError::unsupported(
                "PREPARE of several statements",
                Some(parsed.statement.offset),
            )
            .into()),
        }
    }
}

impl Postgres {
    /// The value of an argument of `EXECUTE`: an expression without rows, which cannot wait.
    fn constant(
        &mut self,
        session: SessionId,
        text: &str,
        attempt: &Attempt,
    ) -> Result<Value, Halt> {
        let statements = self.script(&format!("SELECT {text}"))?;
        let [statement] = &statements[..] else {
            return Err(DbError::unsupported("this argument of EXECUTE", None).into());
        };
        let statement = Rc::clone(statement);
        let mut inner = Attempt {
            fresh: attempt.fresh,
            ..Attempt::first(session, attempt.start_micros)
        };
        let before = self.store.xact(session).snapshots.len();
        let reply = self.data(session, &statement, &[], &mut inner)?;
        let kept = self.store.session(session).transaction;
        let kept = usize::from(kept.is_some_and(|t| t.snapshot.is_some()));
        self.store.keep_snapshots(session, before.max(kept));
        Ok(reply.scalar().cloned().unwrap_or(Value::Null))
    }
}

fn halt(stop: Stop, sleeps_until: Option<i64>, run: &Run) -> Halt {
    match stop {
        Stop::Wait => Halt::Wait(match (sleeps_until, run.position()) {
            (Some(until), _) => Waiting::Sleep(until),
            (None, Some(super::Suspended::Pause(version))) => Waiting::Pause(*version),
            (None, _) => Waiting::Lock,
        }),
        Stop::Error(error) => Halt::Error(error),
    }
}

/// The type as which an argument is bound.
fn argument_type(value: &Value) -> Type {
    match value {
        Value::Null => Type::Unknown,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int8,
        Value::Float(_) => Type::Float8,
        Value::Decimal(_) => Type::Numeric,
        Value::Text(_) => Type::Text,
        Value::Bytes(_) => Type::Bytea,
        Value::Date(_) => Type::Date,
        Value::Time(_) => Type::Time,
        Value::Timestamp(_) => Type::Timestamp,
        Value::TimestampTz(_) => Type::TimestampTz,
        Value::Interval { .. } => Type::Interval,
        Value::Array(items) => match items.first() {
            Some(Value::Int(_)) => Type::Array(&Type::Int8),
            Some(Value::Bool(_)) => Type::Array(&Type::Bool),
            _ => Type::Array(&Type::Text),
        },
    }
}

/// 25006 for a statement that changes data, or takes row locks, in a read-only transaction.
pub(super) fn refuse_writing(planned: &Planned) -> Result<(), DbError> {
    let command = match &planned.plan.kind {
        PlanKind::Query(_) => match planned.info.locks_rows {
            Some(strength) => locking_query(strength),
            // A data-modifying WITH is named by the statement that it stands in.
            None if planned.info.writes => "SELECT",
            None => return Ok(()),
        },
        PlanKind::Write(_) | PlanKind::Ddl(_) => planned.plan.tag,
        PlanKind::Do(_) => return Ok(()),
    };
    Err(errors::read_only_transaction(command))
}
