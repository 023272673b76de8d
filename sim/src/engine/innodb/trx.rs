//! Transactions: what they did, what they hold, and how that is undone.

use std::hash::Hash;

use rowlock_model::Isolation;
use rowlock_model::schedule::SessionId;

use super::key::{Key, Pos};
use super::lock::{RowWait, TableMode};
use super::records::Record;
use super::shape::IndexId;
use crate::loose::catalog::TableId;
use crate::world::Digest;

/// One physical change that can be undone.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    /// A row got a new newest version. Undone by taking it away; a record without versions goes.
    /// Counts as one change in the transaction's weight.
    Row {
        /// The table.
        table: TableId,
        /// The clustered index.
        index: IndexId,
        /// The row's key.
        key: Key,
    },
    /// A secondary record was inserted, marked or unmarked.
    Entry {
        /// The table.
        table: TableId,
        /// The index.
        index: IndexId,
        /// The record's key.
        key: Key,
        /// What it was before.
        before: Option<Box<Record>>,
    },
}

impl Undo {
    /// Which record it is about.
    pub fn place(&self) -> (TableId, IndexId, &Key) {
        match self {
            Undo::Row { table, index, key } => (*table, *index, key),
            Undo::Entry {
                table, index, key, ..
            } => (*table, *index, key),
        }
    }
}

/// The transaction of a session, as InnoDB knows it.
#[derive(Clone, Debug)]
pub struct Trx {
    /// Whose.
    pub session: SessionId,
    /// InnoDB takes part: something was read or locked since the transaction began.
    pub joined: bool,
    /// Its isolation level.
    pub level: Isolation,
    /// The commit number that its read view sees.
    pub view: Option<u64>,
    /// What it did, oldest first.
    pub undo: Vec<Undo>,
    /// Where it has record locks, in the order of their first.
    pub locks: Vec<(TableId, IndexId, Pos)>,
    /// Which tables it has locked, in order.
    pub tables: Vec<(TableId, TableMode)>,
    /// For which row it waits.
    pub wait: Option<RowWait>,
    /// The statement that runs replaces or updates duplicates (`REPLACE`, `ON DUPLICATE KEY UPDATE`).
    pub duplicates: bool,
    /// It was chosen to die of a deadlock while it waited, and is rolled back already.
    pub doomed: bool,
}

impl Trx {
    /// A session's transaction before it begins.
    pub fn new(session: SessionId) -> Trx {
        Trx {
            session,
            joined: false,
            level: Isolation::RepeatableRead,
            view: None,
            undo: Vec::new(),
            locks: Vec::new(),
            tables: Vec::new(),
            wait: None,
            duplicates: false,
            doomed: false,
        }
    }

    /// How many rows it has changed; several changes of one row count each.
    pub fn rows_modified(&self) -> usize {
        let rows = |undo: &&Undo| matches!(undo, Undo::Row { .. });
        self.undo.iter().filter(rows).count()
    }

    /// Adds everything to `digest`. `rank` gives for a commit number how many read views do not see it.
    pub fn digest(&self, rank: impl Fn(u64) -> u64, digest: &mut Digest) {
        digest.word(u64::from(self.session.0));
        self.joined.hash(digest);
        self.level.hash(digest);
        self.view.map(rank).hash(digest);
        for undo in &self.undo {
            undo.place().hash(digest);
            if let Undo::Entry { before, .. } = undo {
                before
                    .as_ref()
                    .map(|b| (b.newest.deleted, b.holder()))
                    .hash(digest);
            }
        }
        digest.word(self.undo.len() as u64);
        // The places of its locks follow from the lock lists; their order decides who is granted first.
        self.locks.hash(digest);
        self.tables.hash(digest);
        self.wait.hash(digest);
        self.duplicates.hash(digest);
        self.doomed.hash(digest);
    }
}
