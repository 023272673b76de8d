//! Functions that users define: calls, and the statements inside.
//!
//! A call is a frame of the journal. While it runs, its statements record their effects as any others;
//! when it has ended, all of that is folded into one entry with its result, so that running the outer
//! statement again does not run the function again ([`Run::fold`]). A block with `EXCEPTION` is a
//! frame too: what it did may have been rolled back, and cannot be repeated from the rows that are there.
//!
//! Each statement of a volatile function is a command of its own, under a new snapshot in READ
//! COMMITTED; those of stable and immutable ones see what the calling query sees (manual, "Function
//! Volatility Categories").
//!
//! | file | question |
//! | --- | --- |
//! | `mod.rs` | how is a function called, and a statement of it run |
//! | `frame.rs` | what are its variables, and how are they assigned to |
//! | `step.rs` | what do the statements of PL/pgSQL do |
//! | `catch.rs` | what does a block with `EXCEPTION` do |
//! | `fire.rs` | how is the function of a trigger called |
//! | `raise.rs` | what do `RAISE` and `ASSERT` send |
//! | `define.rs` | how are functions made and dropped |

mod catch;
mod define;
mod fire;
mod frame;
mod raise;
mod step;

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Notice, Row, Value};

pub(crate) use self::frame::State;
use self::frame::{Datum, Frame, Record};
use super::bound::Around;
use super::select::RowSink;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::control::lock_mode;
use crate::engine::postgres::statement::{Planned, plan_of, refuse_writing};
use crate::engine::postgres::{Entry, Run, Store, errors};
use crate::plan::expr::{self, Expr, Scope, Volatility};
use crate::plan::routine::{Body, Returns, Routine};
use crate::plan::types::Type;
use crate::plan::variables::Variables;
use crate::plan::{PlanKind, argument_variables};
use crate::sql::Statement;

/// Deeper calls than this are refused: the server's limit is the size of its stack.
const DEEPEST: usize = 24;

/// How a frame of the journal has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameEnd {
    outcome: Outcome,
    /// What it has said.
    notices: Vec<Notice>,
    /// How many scans it noted for SERIALIZABLE.
    scans: usize,
}

/// The result of a frame.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    /// Of a function that returns one value.
    Value(Value),
    /// Of a set-returning function.
    Rows(Vec<Row>),
    /// Of a trigger function.
    Row(Option<Row>),
    /// Of a block with `EXCEPTION` that went well: its variables, and where it goes on.
    Block(State, step::Go),
    /// Of one that failed: its variables, and the error that is to be handled.
    Caught(State, Box<DbError>),
}

/// A frame that is called.
enum Entered {
    /// It runs now.
    Now(Opened),
    /// It has run before, with this result.
    Before(Outcome),
}

/// The begin of a frame.
struct Opened {
    entry: usize,
    notices: usize,
    scans: usize,
}

/// How a statement inside a function is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// As a command of its own.
    Own,
    /// Under the snapshot of the calling query (stable and immutable functions).
    Callers,
}

impl Exec<'_> {
    /// Begins a frame, or gives its end if it has run before.
    fn open_frame(&mut self) -> Entered {
        let opened = Opened {
            entry: self.run.at(),
            notices: self.notices.len(),
            scans: self.run.scans_begun(),
        };
        match self.run.replay() {
            None => self.run.record(Entry::Call),
            Some(Entry::Call) => {}
            Some(Entry::Frame(end)) => {
                self.notices.extend(end.notices.iter().cloned());
                self.run.skip_scans(end.scans);
                return Entered::Before(end.outcome.clone());
            }
            Some(other) => panic!("the journal has {other:?} where a function is called"),
        }
        Entered::Now(opened)
    }

    /// A frame has ended: nothing of it will be run again.
    fn close_frame(&mut self, opened: &Opened, outcome: Outcome) {
        let end = FrameEnd {
            outcome,
            notices: self.notices[opened.notices..].to_vec(),
            scans: self.run.scans_begun() - opened.scans,
        };
        self.run.fold(opened.entry, Entry::Frame(Rc::new(end)));
    }

    /// Calls a function for one value.
    pub(super) fn call_routine(
        &mut self,
        routine: &Arc<Routine>,
        types: &[Type],
        args: &[Value],
    ) -> Result<Value, Stop> {
        let opened = match self.open_frame() {
            Entered::Now(opened) => opened,
            Entered::Before(Outcome::Value(value)) => return Ok(value),
            Entered::Before(other) => {
                panic!("the journal has {other:?} where a function is called")
            }
        };
        let value = self.deeper(|exec| match &routine.body {
            Body::Sql(statements) => exec.sql_value(routine, statements, types, args),
            Body::Plpgsql(block) => {
                let mut frame = Frame::of_call(routine, types, args);
                exec.whole_block(&mut frame, block)?;
                exec.returned_value(&frame, types)
            }
        })?;
        self.close_frame(&opened, Outcome::Value(value.clone()));
        Ok(value)
    }

    /// Calls a set-returning function.
    pub(super) fn call_for_rows(
        &mut self,
        routine: &Arc<Routine>,
        types: &[Type],
        args: &[Value],
    ) -> Result<Vec<Row>, Stop> {
        let opened = match self.open_frame() {
            Entered::Now(opened) => opened,
            Entered::Before(Outcome::Rows(rows)) => return Ok(rows),
            Entered::Before(other) => {
                panic!("the journal has {other:?} where a function is called")
            }
        };
        let rows = self.deeper(|exec| match &routine.body {
            Body::Sql(statements) => exec.sql_rows(routine, statements, types, args),
            Body::Plpgsql(block) => {
                let mut frame = Frame::of_call(routine, types, args);
                exec.whole_block(&mut frame, block)?;
                Ok(frame.state.rows)
            }
        })?;
        self.close_frame(&opened, Outcome::Rows(rows.clone()));
        Ok(rows)
    }

    /// The rows of a call in `FROM`.
    pub(super) fn routine_rows(
        &mut self,
        routine: &Arc<Routine>,
        types: &[Type],
        args: &[Expr],
        ordinality: bool,
        scope: &Scope<'_>,
    ) -> Result<Vec<Row>, Stop> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(expr::eval(arg, scope, self)?.into_owned());
        }
        if routine.strict && values.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        let rows = self.call_for_rows(routine, types, &values)?;
        if !ordinality {
            return Ok(rows);
        }
        let numbered = rows.into_iter().zip(1..).map(|(row, n)| {
            let mut row = row.to_vec();
            row.push(Value::Int(n));
            row.into()
        });
        Ok(numbered.collect())
    }

    /// Runs `DO`.
    pub(super) fn run_do(&mut self, routine: &Arc<Routine>) -> Result<(), Stop> {
        self.call_routine(routine, &[], &[]).map(|_| ())
    }

    fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let settings = self.store.session(self.session).settings.get();
        if settings
            .show("force_parallel_mode")
            .is_ok_and(|on| &*on == "on")
        {
            return Err(DbError::unsupported("functions in parallel workers", None).into());
        }
        if self.depth >= DEEPEST {
            return Err(DbError::unsupported("functions that are nested this deeply", None).into());
        }
        self.depth += 1;
        let blind = self.store.may_see_order();
        let result = body(self).map_err(|stop| match stop {
            // A place in the function's text means nothing to the client.
            Stop::Error(mut error) => {
                error.position = None;
                Stop::Error(error)
            }
            Stop::Wait => Stop::Wait,
        });
        self.store.is_blind = blind;
        self.depth -= 1;
        result
    }

    fn returned_value(&mut self, frame: &Frame<'_>, types: &[Type]) -> Result<Value, Stop> {
        let routine = frame.routine;
        let wanted = routine.result(types);
        if routine.returns == Returns::Void {
            return Ok(Value::text(""));
        }
        if let [(name, _)] = &routine.outputs[..]
            && let Some(Datum::Value(value)) = frame.value_of(name)
        {
            return Ok(value);
        }
        match &frame.state.returned {
            Some((Datum::Value(value), ty)) => self.assignable(value, *ty, wanted.into()),
            Some((Datum::Record(record), _)) => {
                let text = record
                    .as_ref()
                    .and_then(Record::text)
                    .unwrap_or(Value::Null);
                self.assignable(&text, Type::Record, wanted.into())
            }
            None => Err(errors::no_return().into()),
        }
    }

    /// The statements of an SQL function, planned, their tables locked.
    fn sql_plans(
        &mut self,
        routine: &Routine,
        statements: &[Statement],
        types: &[Type],
    ) -> Result<Vec<Rc<Planned>>, Stop> {
        let variables = argument_variables(routine, types);
        let mut plans = Vec::with_capacity(statements.len());
        for statement in statements {
            plans.push(self.planned(&statement_text(statement), types, &variables)?);
        }
        // Analysis locks the tables of all statements before the first one runs.
        for planned in &plans {
            self.lock_tables(planned)?;
        }
        Ok(plans)
    }

    fn sql_value(
        &mut self,
        routine: &Routine,
        statements: &[Statement],
        types: &[Type],
        args: &[Value],
    ) -> Result<Value, Stop> {
        let plans = self.sql_plans(routine, statements, types)?;
        let mut first = None;
        for (i, planned) in plans.iter().enumerate() {
            let last = i + 1 == plans.len();
            self.nested_plan(planned, args, sight(routine), &mut |_, row| {
                if last && first.is_none() {
                    first = Some(row);
                }
                Ok(Flow::More)
            })?;
        }
        if routine.returns == Returns::Void {
            return Ok(Value::text(""));
        }
        let ty = plans
            .last()
            .and_then(|planned| planned.plan.columns.first())
            .map_or(Type::Text, |column| column.ty);
        let value = first.and_then(|row| row.first().cloned());
        let value = value.unwrap_or(Value::Null);
        self.assignable(&value, ty, routine.result(types).into())
    }

    fn sql_rows(
        &mut self,
        routine: &Routine,
        statements: &[Statement],
        types: &[Type],
        args: &[Value],
    ) -> Result<Vec<Row>, Stop> {
        let plans = self.sql_plans(routine, statements, types)?;
        let mut rows = Vec::new();
        for (i, planned) in plans.iter().enumerate() {
            let last = i + 1 == plans.len();
            self.nested_plan(planned, args, sight(routine), &mut |_, row| {
                if last {
                    rows.push(row);
                }
                Ok(Flow::More)
            })?;
        }
        let Some(planned) = plans.last() else {
            return Ok(rows);
        };
        let Returns::Rows(columns) = &routine.returns else {
            return Ok(rows);
        };
        let from: Vec<Type> = planned.plan.columns.iter().map(|c| c.ty).collect();
        let mut converted = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(columns.len());
            for ((value, from), column) in row.iter().zip(&from).zip(columns.iter()) {
                values.push(self.assignable(value, *from, column.ty.into())?);
            }
            converted.push(values.into());
        }
        Ok(converted)
    }

    /// Plans a statement of a function, with the variables in sight of it.
    fn planned(
        &mut self,
        text: &Arc<str>,
        types: &[Type],
        variables: &Variables,
    ) -> Result<Rc<Planned>, Stop> {
        let stamp = self.store.catalog().view(Some(self.session)).1;
        let key = super::super::store::BodyKey {
            text: Arc::clone(text),
            types: types.to_vec(),
            variables: variables.clone(),
            stamp,
        };
        if let Some(planned) = self.store.body_plan(&key) {
            return Ok(planned);
        }
        let planned = Rc::new(plan_of(text, &self.schema, types, variables)?);
        self.store.keep_body_plan(key, Rc::clone(&planned));
        Ok(planned)
    }

    fn lock_tables(&mut self, planned: &Planned) -> Result<(), Stop> {
        if self.run.waits_for_table_since(self.run.at()) {
            // The schema may have changed while it waited: it asks again, for what it now needs.
            self.run.forget();
            self.store.finish_wait(self.session);
        }
        for lock in &planned.plan.locks {
            self.lock_relation(lock.table.id, lock_mode(lock.mode))?;
        }
        for lock in planned.plan.locks.iter().filter(|lock| lock.indexes) {
            self.lock_indexes(lock.table.id, lock_mode(lock.mode));
        }
        Ok(())
    }

    /// Runs a statement of a function. Returns how many rows it affected, or found.
    fn nested_plan(
        &mut self,
        planned: &Planned,
        params: &[Value],
        sight: Sight,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        let plan = &planned.plan;
        if matches!(plan.kind, PlanKind::Ddl(_) | PlanKind::Do(_)) {
            return Err(DbError::unsupported("changes of the schema in a function", None).into());
        }
        if sight == Sight::Callers
            && let Err(error) = refuse_writing(planned)
        {
            return Err(errors::not_in_stable(&error).into());
        }
        if self.moment.modes.read_only {
            refuse_writing(planned)?;
        }
        self.lock_tables(planned)?;
        let around = Around {
            params,
            outer: None,
        };
        self.nested_ran = true;
        self.in_statement(Arc::clone(&planned.info), |exec| {
            let mut body = |exec: &mut Exec<'_>| -> Result<u64, Stop> {
                let count = match &plan.kind {
                    PlanKind::Query(query) => {
                        let mut count = 0;
                        exec.query(query, around, &mut |exec, row| {
                            count += 1;
                            sink(exec, row)
                        })?;
                        exec.finish_ctes(&query.with, around)?;
                        count
                    }
                    PlanKind::Write(write) => {
                        let count = exec.write(write, around, sink)?;
                        exec.finish_ctes(Exec::write_with(write), around)?;
                        count
                    }
                    PlanKind::Ddl(_) | PlanKind::Do(_) => unreachable!("refused above"),
                };
                exec.fire_events()?;
                Ok(count)
            };
            match sight {
                Sight::Own => exec.nested(false, body),
                Sight::Callers => body(exec),
            }
        })
    }

    /// Runs `body` as a statement with facts of its own; those of the outer one come back, whatever
    /// happens.
    pub(super) fn in_statement<T>(
        &mut self,
        info: Arc<super::Info>,
        body: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let once = std::mem::replace(&mut self.once, vec![None; info.once]);
        let info = std::mem::replace(&mut self.info, info);
        let ctes = std::mem::take(&mut self.ctes);
        let addresses = std::mem::take(&mut self.addresses);
        let events = std::mem::take(&mut self.events);
        let rechecks = std::mem::take(&mut self.rechecks);
        let fired = std::mem::take(&mut self.statement_fired);
        let routed = std::mem::take(&mut self.routed);
        let unnoted = std::mem::take(&mut self.unnoted);
        let result = body(self);
        self.once = once;
        self.info = info;
        self.ctes = ctes;
        self.addresses = addresses;
        self.events = events;
        self.rechecks = rechecks;
        self.statement_fired = fired;
        self.routed = routed;
        self.unnoted = unnoted;
        result
    }
}

/// What the statements of a function see.
fn sight(routine: &Routine) -> Sight {
    if routine.volatility == Volatility::Volatile {
        Sight::Own
    } else {
        Sight::Callers
    }
}

/// The text of one statement of several.
fn statement_text(statement: &Statement) -> Arc<str> {
    statement
        .text
        .get(statement.offset..statement.end)
        .unwrap_or_default()
        .into()
}

impl Run {
    /// How many entries were passed in this run.
    fn at(&self) -> usize {
        self.passed()
    }
}

impl Store {
    /// Opens a nesting level for a block with `EXCEPTION`.
    fn open_block(&mut self, session: rowlock_model::schedule::SessionId) {
        self.push_level(session);
        self.session_mut(session).settings.push();
    }

    /// Gives what the block did to the level around it.
    fn close_block(&mut self, session: rowlock_model::schedule::SessionId) {
        let level = (self.xact(session).levels.len() - 1) as u8;
        self.release_level(session);
        self.release_catalog(session, level);
        let state = self.session_mut(session);
        state.settings.release();
        if state.deferred.iter().any(|d| d.level >= level) {
            for deferred in Rc::make_mut(&mut state.deferred) {
                deferred.level = deferred.level.min(level - 1);
            }
        }
    }
}
