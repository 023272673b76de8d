//! A statement in flight: what it has done already, so that running it again goes on where it
//! stopped.
//!
//! A statement that must wait ends with [`Stop::Wait`]. When its session is granted what it waits
//! for, the executor calls [`Run::rewind`] and runs the same statement from its start, under the
//! same snapshot. Whatever a second run could not reproduce (a row lock taken, a row written, a
//! volatile value) asks the journal first: while the journal has entries, the answer comes from
//! there and nothing is done; after the last entry the run is live again.
//!
//! A primitive that waits in the middle leaves its position in [`Run::suspended`]; since it left
//! no entry, it is the first one to run live when the statement is run again, and takes it back.

use std::hash::Hash;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Value};

use super::exec::FrameEnd;
use super::lock::{LockMode, Tag};
use super::row_lock::{LockOutcome, RowLockState};
use super::write::{UniqueCheck, UniqueState, WriteOutcome, WriteState};
use super::{Object, Snapshot, Store, VersionId};
use crate::world::{Digest, World};

/// Why a statement cannot go on now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The session waits for a lock; its request is queued already.
    Wait,
    /// The statement failed.
    Error(Box<DbError>),
}

impl From<DbError> for Stop {
    fn from(error: DbError) -> Stop {
        Stop::Error(Box::new(error))
    }
}

/// One outcome that a second run would not reproduce.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A row lock was asked for.
    Lock(LockOutcome),
    /// A row was updated or deleted.
    Write(WriteOutcome),
    /// A row version was inserted.
    Insert(VersionId),
    /// A key was put into a unique index, or not.
    Unique(UniqueCheck),
    /// A heavyweight lock was granted (`true`) or not to be had at once.
    Granted(bool),
    /// A value: of a volatile function, a sequence, a nested query; anything of the executor's.
    Value(Value),
    /// Any number of values.
    Values(Vec<Value>),
    /// The snapshot of a nested statement (function, trigger, foreign-key check).
    Snapshot(Snapshot),
    /// Something was done, and that is all there is to know.
    Done,
    /// A function, or a block of one that catches errors, has begun.
    Call,
    /// One that has ended; what it did is folded into this.
    Frame(Rc<FrameEnd>),
}

/// The position of a primitive that waits in the middle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// In [`Store::lock`].
    Lock(Tag, LockMode),
    /// In [`Store::lock_row`].
    RowLock(RowLockState),
    /// In [`Store::update`] or [`Store::delete`].
    Write(WriteState),
    /// In [`Store::index_insert`] or [`Store::probe_unique`].
    Unique(UniqueState),
    /// Before any of these locks a row, in row granularity.
    Pause(VersionId),
}

/// The journal of a statement, and how far the present run has got in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The session that runs the statement.
    pub session: SessionId,
    entries: Vec<Entry>,
    cursor: usize,
    suspended: Option<Suspended>,
    /// Scans of a SERIALIZABLE transaction that were noted, in all runs and in this one.
    scans: usize,
    scan: usize,
    /// How many blocks that catch errors are open.
    blocks: usize,
    /// The wait has ended with this error, which a block may catch.
    failed: Option<Box<DbError>>,
}

impl Run {
    /// The journal of a statement that starts.
    pub fn new(session: SessionId) -> Run {
        Run {
            session,
            entries: Vec::new(),
            cursor: 0,
            suspended: None,
            scans: 0,
            scan: 0,
            blocks: 0,
            failed: None,
        }
    }

    /// How many entries were passed or recorded in this run.
    pub(super) fn passed(&self) -> usize {
        self.cursor
    }

    /// How many scans began in this run.
    pub(super) fn scans_begun(&self) -> usize {
        self.scan
    }

    /// Scans that will not be run again, because their frame has ended.
    pub(super) fn skip_scans(&mut self, scans: usize) {
        self.scan += scans;
        self.scans = self.scans.max(self.scan);
    }

    /// Puts one entry in the place of all from `from` on.
    ///
    /// # Panics
    /// While the journal still has entries.
    pub(super) fn fold(&mut self, from: usize, entry: Entry) {
        assert!(
            !self.is_replaying() && self.suspended.is_none(),
            "a frame ends while its journal is not at its end"
        );
        self.entries.truncate(from);
        self.entries.push(entry);
        self.cursor = self.entries.len();
    }

    /// Whether a table's lock is waited for, and nothing but such was granted since entry `from`.
    pub(super) fn waits_for_table_since(&self, from: usize) -> bool {
        let granted = |entry: &Entry| matches!(entry, Entry::Granted(_));
        matches!(self.suspended, Some(Suspended::Lock(Tag::Relation(_), _)))
            && self.failed.is_none()
            && self.entries[from.min(self.entries.len())..]
                .iter()
                .all(granted)
    }

    /// Forgets the entries that were not passed yet, and the wait.
    pub(super) fn forget(&mut self) {
        self.entries.truncate(self.cursor);
        self.suspended = None;
    }

    /// A block that catches errors begins; gives its depth.
    pub(super) fn enter_block(&mut self) -> usize {
        self.blocks += 1;
        self.blocks - 1
    }

    /// The block at this depth is left, other than by a wait.
    pub(super) fn leave_block(&mut self, depth: usize) {
        self.blocks = depth;
    }

    /// Whether an error that ends the wait may be caught.
    pub(super) fn may_catch(&self) -> bool {
        self.blocks > 0 && self.suspended.is_some()
    }

    /// The wait has ended with an error: the primitive that waited will raise it.
    pub(super) fn fail_wait(&mut self, error: DbError) {
        self.failed = Some(Box::new(error));
    }

    /// Whoever waited has failed.
    pub(super) fn give_up(&mut self) {
        self.suspended = None;
        self.failed = None;
    }

    /// What was recorded so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Before the statement is run again.
    pub fn rewind(&mut self) {
        self.cursor = 0;
        self.scan = 0;
        self.blocks = 0;
    }

    /// Whether the next primitive will be answered from the journal.
    #[inline]
    pub fn is_replaying(&self) -> bool {
        self.cursor < self.entries.len()
    }

    /// The recorded outcome of the primitive that runs now, if it ran before.
    #[inline]
    pub fn replay(&mut self) -> Option<Entry> {
        let entry = self.entries.get(self.cursor)?;
        self.cursor += 1;
        Some(entry.clone())
    }

    /// Records the outcome of the primitive that ran now.
    ///
    /// # Panics
    /// While the journal still has entries: the run does not do what the first one did.
    #[inline]
    pub fn record(&mut self, entry: Entry) {
        assert!(
            !self.is_replaying() && self.suspended.is_none(),
            "the run differs from its journal: {entry:?} at {}",
            self.cursor
        );
        self.entries.push(entry);
        self.cursor += 1;
    }

    /// Runs `live` once, however often the statement is run again. `live` must not wait itself; it
    /// may end with an error, which ends the statement.
    ///
    /// # Errors
    /// Those of `live`.
    pub fn once(&mut self, live: impl FnOnce() -> Result<Entry, Stop>) -> Result<Entry, Stop> {
        if let Some(entry) = self.replay() {
            return Ok(entry);
        }
        let entry = live()?;
        self.record(entry.clone());
        Ok(entry)
    }

    /// Like [`once`](Self::once), for one value.
    ///
    /// # Errors
    /// Those of `live`.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn once_value(
        &mut self,
        live: impl FnOnce() -> Result<Value, Stop>,
    ) -> Result<Value, Stop> {
        match self.once(|| live().map(Entry::Value))? {
            Entry::Value(value) => Ok(value),
            other => panic!("the journal has {other:?} where a value is asked for"),
        }
    }

    /// Whether the scan that begins now was not begun in an earlier run.
    pub(super) fn scan_is_new(&mut self) -> bool {
        self.scan += 1;
        let is_new = self.scan > self.scans;
        self.scans = self.scans.max(self.scan);
        is_new
    }

    /// Leaves the position of a primitive that has to wait.
    pub(super) fn suspend(&mut self, position: Suspended) -> Stop {
        debug_assert!(!self.is_replaying() && self.suspended.is_none());
        self.suspended = Some(position);
        Stop::Wait
    }

    /// The position of the primitive that waits, if one does.
    pub(super) fn position(&self) -> Option<&Suspended> {
        self.suspended.as_ref()
    }

    /// The position that the primitive running now left, if it is the one that waited.
    #[inline]
    pub(super) fn take_suspended(&mut self) -> Result<Option<Suspended>, Stop> {
        if self.is_replaying() {
            return Ok(None);
        }
        let suspended = self.suspended.take();
        match self.failed.take() {
            Some(error) => Err(Stop::Error(error)),
            None => Ok(suspended),
        }
    }

    /// Adds the journal to the digest of a session whose statement waits.
    pub fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        digest.word(self.entries.len() as u64);
        if self.scans != 0 {
            digest.word(self.scans as u64);
        }
        let rank = |version: VersionId| Store::rank(world, version);
        for entry in &self.entries {
            std::mem::discriminant(entry).hash(digest);
            match entry {
                Entry::Lock(outcome) => outcome.digest(rank, digest),
                Entry::Write(outcome) => outcome.digest(rank, digest),
                Entry::Insert(version) => digest.word(rank(*version)),
                Entry::Unique(check) => check.digest(rank, digest),
                Entry::Granted(granted) => granted.hash(digest),
                Entry::Value(value) => value.hash(digest),
                Entry::Values(values) => values.hash(digest),
                Entry::Snapshot(snapshot) => snapshot.digest(world, digest),
                Entry::Done | Entry::Call => {}
                Entry::Frame(end) => format!("{end:?}").hash(digest),
            }
        }
        match &self.suspended {
            None => digest.word(0),
            Some(Suspended::Lock(tag, mode)) => {
                digest.word(1);
                tag.digest(world, digest);
                mode.hash(digest);
            }
            Some(Suspended::RowLock(state)) => {
                digest.word(2);
                state.digest(world, digest);
            }
            Some(Suspended::Write(state)) => {
                digest.word(3);
                state.digest(world, digest);
            }
            Some(Suspended::Unique(state)) => {
                digest.word(4);
                state.digest(world, digest);
            }
            Some(Suspended::Pause(version)) => {
                digest.word(5);
                digest.word(rank(*version));
            }
        }
    }
}
