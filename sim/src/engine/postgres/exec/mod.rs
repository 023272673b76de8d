//! Running statements.
//!
//! [`Exec`] runs one statement of one session on the [`Store`]. It is ordinary synchronous code: what
//! has to wait returns [`Stop::Wait`] through `?`, and the statement is later run again from its start
//! under the same snapshot, answered from its journal ([`Run`]) as far as it had got.
//!
//! | file | question |
//! | --- | --- |
//! | `source.rs` | how are rows found and joined; what does a recheck run |
//! | `select.rs` | in which order do sort, row locks and limit work |
//! | `group.rs` | grouping, aggregates, windows |
//! | `cte.rs` | when is a common table expression computed |
//! | `write.rs`, `conflict.rs` | what do INSERT, UPDATE, DELETE, ON CONFLICT do to a row |
//! | `constraint.rs` | NOT NULL, CHECK, unique keys, generated columns |
//! | `foreign_key.rs` | the checks and actions at the end of a statement |
//! | `merge.rs` | what does MERGE do to a row |
//! | `partition.rs` | where does a row of a table with descendants go |
//! | `trigger.rs` | when do triggers fire |
//! | `function.rs` | what do `now()`, `nextval()`, the advisory locks do |
//! | `view.rs` | what is in `pg_locks`, `pg_stat_activity` |
//! | `routine/` | functions that users define |
//! | `way.rs` | which way to the rows of one table is taken, and how an index is walked |
//! | `ddl.rs` | changes of the schema |

mod bound;
mod conflict;
mod constraint;
mod cte;
mod ddl;
mod ddl_partition;
mod foreign_key;
mod function;
mod group;
mod info;
mod merge;
mod order;
mod partition;
mod routine;
mod run;
mod select;
mod source;
mod table;
mod traces;
mod trigger;
mod view;
mod walk;
mod way;
mod write;

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Notice, Row, Value};

use self::bound::Around;
use self::cte::CteState;
pub(crate) use self::foreign_key::Event;
pub(crate) use self::info::{Info, locking_query};
pub(super) use self::routine::FrameEnd;
pub(crate) use self::view::{view, view_name};
use super::catalog::Schema;
use super::session::Modes;
use super::{
    Follow, IndexKeyValues, LockOutcome, RelId, RowLock, Run, Snapshot, Stop, Store, VersionId,
    WaitPolicy,
};
use crate::plan::expr::{self, HostFunction, Scope, SystemColumn};
use crate::plan::query::{SubPlan, Wanted};
use crate::plan::routine::Routine;
use crate::plan::types::Type;

/// Whether whoever takes rows wants more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Go on.
    More,
    /// Stop: enough rows.
    Enough,
}

/// The statement that runs, as its functions see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// `now()`.
    pub(super) transaction_micros: i64,
    /// `statement_timestamp()`.
    pub(super) statement_micros: i64,
    /// The characteristics of the transaction.
    pub(super) modes: Modes,
}

/// One statement being run.
pub(super) struct Exec<'e> {
    pub(super) store: &'e mut Store,
    /// The journal.
    pub(super) run: Run,
    pub(super) session: SessionId,
    /// What the running query sees; nested statements set their own.
    pub(super) snapshot: Snapshot,
    pub(super) moment: Moment,
    pub(super) schema: Rc<Schema>,
    /// What was found out about the statement when it was planned.
    pub(super) info: Arc<Info>,
    ctes: Vec<CteState>,
    /// Results of sub-selects that are run once.
    once: Vec<Option<Arc<[Row]>>>,
    /// The versions of bound rows, if the statement reads system columns.
    addresses: Vec<(*const Value, VersionId)>,
    pub(super) notices: Vec<Notice>,
    /// Row changes that foreign keys look at when the statement ends.
    events: Vec<foreign_key::Queued>,
    /// The keys of deferrable unique constraints that the row just written may share with others.
    rechecks: Vec<(Arc<str>, IndexKeyValues)>,
    /// SERIALIZABLE: what the running scan reads is noted elsewhere.
    unnoted: bool,
    /// Entries of the running block whose rows are read only once they are locked, a bit each.
    unread: u64,
    /// For which tables the running statement has fired its triggers `BEFORE` the statement: actions of
    /// foreign keys are part of it, and fire them once.
    statement_fired: Vec<(RelId, trigger::Action)>,
    /// Partitions that the running statement has routed rows to.
    routed: Vec<RelId>,
    /// The part of its rows that the next query is asked for, as the planner takes it; 0: all.
    part: f64,
    /// How many functions run inside each other.
    depth: usize,
    /// A statement of a function has run.
    nested_ran: bool,
    /// Tables into which the statement has begun to insert, for views.
    pub(super) opened: Vec<RelId>,
    /// Set when a `pg_sleep` waits: until when.
    pub(super) sleeps_until: Option<i64>,
    /// The sleep in which the statement was suspended is over.
    pub(super) slept: bool,
}

impl<'e> Exec<'e> {
    /// A statement that starts or goes on; nothing is run yet.
    pub(super) fn new(
        store: &'e mut Store,
        run: Run,
        snapshot: Snapshot,
        moment: Moment,
        schema: Rc<Schema>,
        info: Arc<Info>,
    ) -> Exec<'e> {
        Exec {
            session: run.session,
            store,
            run,
            snapshot,
            moment,
            schema,
            once: vec![None; info.once],
            info,
            ctes: Vec::new(),
            addresses: Vec::new(),
            notices: Vec::new(),
            events: Vec::new(),
            rechecks: Vec::new(),
            unnoted: false,
            unread: 0,
            statement_fired: Vec::new(),
            routed: Vec::new(),
            part: 0.0,
            depth: 0,
            nested_ran: false,
            opened: Vec::new(),
            sleeps_until: None,
            slept: false,
        }
    }

    /// Whether the transaction keeps one snapshot (REPEATABLE READ).
    pub(super) fn keeps_snapshot(&self) -> bool {
        use rowlock_model::Isolation::{RepeatableRead, Serializable};
        matches!(self.moment.modes.isolation, RepeatableRead | Serializable)
    }

    /// Whether the transaction is SERIALIZABLE.
    pub(super) fn is_serializable(&self) -> bool {
        self.moment.modes.isolation == rowlock_model::Isolation::Serializable
    }

    /// The schema that the statement sees.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Locks a row version as `SELECT .. FOR` does; in READ COMMITTED follows it to the newest one.
    pub(super) fn lock_row(
        &mut self,
        version: VersionId,
        strength: RowLock,
        policy: WaitPolicy,
    ) -> Result<LockOutcome, Stop> {
        let follow = Follow::select(!self.keeps_snapshot());
        self.store.lock_row(
            &mut self.run,
            &self.snapshot,
            version,
            strength,
            policy,
            follow,
        )
    }

    fn notice(&mut self, severity: &str, message: impl Into<Arc<str>>) {
        self.notices.push(Notice {
            severity: severity.into(),
            message: message.into(),
        });
    }
}

impl expr::Host for Exec<'_> {
    type Error = Stop;

    fn call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Stop> {
        self.function(function, args)
    }

    fn routine(
        &mut self,
        routine: &Arc<Routine>,
        types: &[Type],
        args: &[Value],
    ) -> Result<Value, Stop> {
        self.call_routine(routine, types, args)
    }

    fn rows(&mut self, plan: &SubPlan, scope: &Scope<'_>) -> Result<Arc<[Row]>, Stop> {
        let place = plan.id.0 as usize;
        if plan.once
            && let Some(Some(rows)) = self.once.get(place)
        {
            return Ok(Arc::clone(rows));
        }
        let most = match plan.wanted {
            Wanted::Exists => 1,
            Wanted::Scalar | Wanted::Row => 2,
            Wanted::Rows => usize::MAX,
        };
        let mut rows: Vec<Row> = Vec::new();
        self.part = match plan.wanted {
            Wanted::Exists => 1.0,
            Wanted::Rows => 0.5,
            Wanted::Scalar | Wanted::Row => 0.0,
        };
        self.query(&plan.query, Around::inside(scope), &mut |_, row| {
            rows.push(row);
            Ok(if rows.len() >= most {
                Flow::Enough
            } else {
                Flow::More
            })
        })?;
        let rows: Arc<[Row]> = rows.into();
        if plan.once {
            if self.once.len() <= place {
                self.once.resize(place + 1, None);
            }
            self.once[place] = Some(Arc::clone(&rows));
        }
        Ok(rows)
    }

    fn system(
        &mut self,
        column: SystemColumn,
        entry: usize,
        scope: &Scope<'_>,
    ) -> Result<Value, Stop> {
        self.system_column(column, entry, scope)
    }
}
