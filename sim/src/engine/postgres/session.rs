//! What a session is doing: its transaction block, settings, and the request in flight.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Isolation, Reply, TransactionStatus};

use super::notify::Notifying;
use super::settings::{SettingStack, Settings};
use super::{Object, RelId, Run, Snapshot, VersionId};
use crate::database::{Answer, Request};
use crate::world::{Digest, World};

/// Where a session stands with its transaction block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Block {
    /// Outside: every statement is a transaction of its own.
    #[default]
    Idle,
    /// Between the statements of one message that has several: one transaction, without `BEGIN`.
    Implicit,
    /// After `BEGIN`.
    Open,
    /// After `BEGIN` and an error: only its end, or the return to a savepoint, is accepted.
    Failed,
}

/// The characteristics of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Modes {
    /// The isolation level.
    pub(crate) isolation: Isolation,
    /// `READ ONLY`.
    pub(crate) read_only: bool,
    /// `DEFERRABLE`.
    pub(crate) deferrable: bool,
}

/// The transaction that is open, or that the running statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Its characteristics.
    pub(crate) modes: Modes,
    /// When it began: microseconds since 1970 (`now()`).
    pub(crate) start_micros: i64,
    /// REPEATABLE READ: the snapshot of its first query.
    pub(crate) snapshot: Option<Snapshot>,
    /// A query has run: the isolation level is fixed.
    pub(crate) queried: bool,
}

/// An open savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Savepoint {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// What `READ ONLY` was when it was set; `ROLLBACK TO` restores that.
    pub(crate) read_only: bool,
}

/// A foreign-key check that waits for the end of the transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Deferred {
    /// The table that holds the constraint.
    pub(crate) table: RelId,
    /// The name of the constraint.
    pub(crate) constraint: Arc<str>,
    /// What happened.
    pub(crate) event: super::exec::Event,
    /// To which table.
    pub(crate) changed: RelId,
    /// The new version; of a deleted row, the old one.
    pub(crate) version: super::VersionId,
    /// The nesting level that queued it.
    pub(crate) level: u8,
}

/// What a request in flight waits for.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// A heavyweight lock; the store has the request.
    Lock,
    /// A snapshot that is safe (`SERIALIZABLE READ ONLY DEFERRABLE`).
    Safety,
    /// Nothing: it pauses before it locks this row.
    Pause(VersionId),
    /// The clock (`pg_sleep`), until this time.
    Sleep(i64),
    /// Nothing any more: cancelled or terminated by somebody, this is the answer.
    Nothing(Box<Answer>),
}

/// A request that was begun and waits.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// What was asked.
    pub(crate) request: Request,
    /// For a script: the replies of the statements before the one that waits.
    pub(crate) replies: Vec<Reply>,
    /// The journal of the statement that waits.
    pub(crate) run: Run,
    /// What it waits for.
    pub(crate) waiting: Waiting,
    /// When this wait began (`lock_timeout`).
    pub(crate) since_micros: i64,
    /// When the statement began (`statement_timeout`, `statement_timestamp()`).
    pub(crate) start_micros: i64,
    /// Names the schema that the statement was planned with.
    pub(crate) stamp: u64,
    /// Notices of the statement that were sent already.
    pub(crate) told: usize,
    /// Tables into which the statement inserts: it has locked their indexes.
    pub(crate) opened: Vec<RelId>,
}

/// What `pg_stat_activity` shows of a session beyond what decides its future.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Activity {
    /// When the session was opened: microseconds since 1970, as all here.
    pub(crate) opened_micros: i64,
    /// The text sent last.
    pub(crate) query: Option<Arc<str>>,
    /// When it was sent.
    pub(crate) query_micros: i64,
    /// When the session last began or ended a statement.
    pub(crate) change_micros: i64,
}

/// Values of sequences that the session has drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Drawn {
    /// The last value of each.
    pub(crate) values: BTreeMap<RelId, i64>,
    /// The sequence drawn from last.
    pub(crate) last: Option<RelId>,
}

/// A statement prepared with `PREPARE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PreparedText {
    /// The statement.
    pub(crate) statement: Arc<str>,
    /// Names of its parameter types.
    pub(crate) types: Vec<Arc<str>>,
}

/// The state of one session that the statement executor keeps.
///
/// It is copied when first written after a mark, so what is large or rarely changes is shared.
#[derive(Clone, Debug)]
pub struct SessionState {
    pub(crate) settings: SettingStack,
    pub(crate) block: Block,
    /// Present while a transaction is open, also a failed one.
    pub(crate) transaction: Option<Transaction>,
    pub(crate) savepoints: Vec<Savepoint>,
    pub(crate) flight: Option<Rc<Flight>>,
    /// Why the session is gone.
    pub(crate) gone: Option<Box<DbError>>,
    /// When the last request ended.
    pub(crate) idle_since_micros: i64,
    /// For `pg_stat_activity`.
    pub(crate) activity: Activity,
    pub(crate) drawn: Rc<Drawn>,
    pub(crate) deferred: Rc<Vec<Deferred>>,
    /// Constraints that `SET CONSTRAINTS` has set, by name; the empty name means all.
    pub(crate) deferrals: Rc<BTreeMap<Arc<str>, bool>>,
    pub(crate) prepared: Rc<BTreeMap<Arc<str>, PreparedText>>,
    pub(crate) notifying: Rc<Notifying>,
}

impl Default for SessionState {
    fn default() -> SessionState {
        let settings = Settings::new(Isolation::ReadCommitted);
        SessionState::new(SettingStack::new(settings), 0)
    }
}

impl SessionState {
    /// A session that was just opened.
    pub(crate) fn new(settings: SettingStack, now_micros: i64) -> SessionState {
        SessionState {
            settings,
            block: Block::Idle,
            transaction: None,
            savepoints: Vec::new(),
            flight: None,
            gone: None,
            idle_since_micros: now_micros,
            activity: Activity {
                opened_micros: now_micros,
                query: None,
                query_micros: now_micros,
                change_micros: now_micros,
            },
            drawn: Rc::default(),
            deferred: Rc::default(),
            deferrals: Rc::default(),
            prepared: Rc::default(),
            notifying: Rc::default(),
        }
    }

    /// The characteristics that a transaction begun now would have.
    pub(crate) fn default_modes(&self) -> Modes {
        let settings = self.settings.get();
        Modes {
            isolation: settings.default_isolation,
            read_only: settings.default_read_only,
            deferrable: settings.default_deferrable,
        }
    }

    /// The transaction has ended.
    pub(crate) fn close_transaction(&mut self) {
        self.block = Block::Idle;
        self.transaction = None;
        self.savepoints.clear();
        if !self.deferred.is_empty() {
            self.deferred = Rc::default();
        }
        if !self.deferrals.is_empty() {
            self.deferrals = Rc::default();
        }
    }

    /// Adds everything that decides the session's future to `digest`. Versions are named by
    /// [`Store::rank`](super::Store::rank), so that equal states have equal digests.
    pub fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        if let Some(error) = &self.gone {
            digest.word(1);
            error.code.hash(digest);
            return;
        }
        self.settings.hash(digest);
        self.block.hash(digest);
        if world.is_exact() {
            // Set only if somebody looks.
            self.activity.hash(digest);
        }
        if let Some(transaction) = &self.transaction {
            transaction.modes.hash(digest);
            transaction.start_micros.hash(digest);
            transaction.queried.hash(digest);
            if let Some(snapshot) = &transaction.snapshot {
                snapshot.digest(world, digest);
            }
        }
        self.savepoints.hash(digest);
        let settings = self.settings.get();
        if settings.idle_session_timeout_ms != 0
            || settings.idle_in_transaction_session_timeout_ms != 0
        {
            self.idle_since_micros.hash(digest);
        }
        self.drawn.hash(digest);
        for deferred in self.deferred.iter() {
            deferred.table.hash(digest);
            deferred.constraint.hash(digest);
            deferred.level.hash(digest);
            deferred.event.digest(digest);
            deferred.changed.hash(digest);
        }
        self.deferrals.hash(digest);
        self.prepared.hash(digest);
        self.notifying.digest(world, digest);
        if let Some(flight) = &self.flight {
            flight.digest(world, digest);
        }
    }
}

impl Flight {
    fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        self.request.hash(digest);
        self.replies.hash(digest);
        self.run.digest(world, digest);
        match &self.waiting {
            Waiting::Lock => digest.write_u8(0),
            Waiting::Safety => digest.write_u8(3),
            // The journal says where.
            Waiting::Pause(_) => digest.write_u8(4),
            Waiting::Sleep(until) => {
                digest.write_u8(1);
                until.hash(digest);
            }
            Waiting::Nothing(answer) => {
                digest.write_u8(2);
                answer.hash(digest);
            }
        }
        self.since_micros.hash(digest);
        self.start_micros.hash(digest);
    }
}

impl SessionState {
    /// The transaction status, as the server reports it after each message.
    pub(crate) fn status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Open => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }
}

impl SessionState {
    /// Whether any timer may ever run.
    pub(crate) fn has_timeouts(&self) -> bool {
        let settings = self.settings.get();
        settings.lock_timeout_ms != 0
            || settings.statement_timeout_ms != 0
            || settings.idle_in_transaction_session_timeout_ms != 0
            || settings.idle_session_timeout_ms != 0
    }
}
