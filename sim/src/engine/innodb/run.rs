//! A statement in flight: what it was answered already, so that running it again goes on where it
//! stopped.
//!
//! A statement that has to wait ends with [`Stop::Wait`]. When the wait is over, the executor runs it again
//! from its start; every call of [`Storage`](crate::loose::storage::Storage) that was answered before is
//! answered from here, and the first one that was not goes on from its position. There is no snapshot
//! of the statement: what it meets from there on is the newest state.

use std::hash::Hash;
use std::sync::Arc;

use rowlock_model::{Row, Value};

use super::key::Key;
use super::scan::{Cursor, Plan};
use super::write::Progress;
use crate::loose::storage::{Choice, Stop};
use crate::world::Digest;

/// One answer that the executor was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// How a source is read.
    Choice(Choice),
    /// A scan was begun: its number.
    Opened(usize),
    /// A row, with its key; `true` if it is tentative. `None`: the scan is over, or the row is gone.
    Row(Option<(Key, Row, bool)>),
    /// Something was done, or not.
    Flag(bool),
    /// A row was inserted: what became of it, and a number that goes with that.
    Inserted(u8, u64, Option<(Key, Row)>),
    /// A value.
    Value(Value),
    /// Rows of a view.
    Rows(Vec<Row>),
}

/// A scan in progress.
#[derive(Clone, Debug)]
pub struct Scanning {
    /// How it is done.
    pub plan: Plan,
    /// Where it stands.
    pub cursor: Cursor,
}

/// The journal of a statement, and how far the present run has got in it.
#[derive(Clone, Debug)]
pub struct Run {
    entries: Vec<Entry>,
    at: usize,
    /// The scans that were begun.
    pub scans: Vec<Scanning>,
    /// How far the write that waits has got.
    pub progress: Progress,
    /// When the statement began: microseconds since 1970.
    pub start_micros: i64,
    /// The transaction's changes when it began; an error undoes those after.
    pub changes: Option<usize>,
    /// How many metadata locks it has got.
    pub metadata: usize,
    /// `LAST_INSERT_ID` as the statement has set it.
    pub insert_id: Option<i64>,
    /// The automatic column of the row written last. It follows from the journal.
    pub written_number: Option<i64>,
    /// Warnings, code and message.
    pub warnings: Vec<(u16, String)>,
    /// The statement is run again.
    pub resumed: bool,
    /// The timer of its wait went off.
    pub timed_out: bool,
    /// What it waits for is to be had now; set when it goes on.
    pub granted: bool,
    /// It waited for a metadata lock, which it has when it goes on.
    pub metadata_wait: bool,
    /// What it waited for last was a row or metadata lock: the timer of such a wait ends the
    /// statement.
    pub waits_for_lock: bool,
    /// What it waited for last was a row.
    pub waits_for_row: bool,
    /// The statement is about tables: it forgets the warnings of the one before.
    pub uses_tables: bool,
    /// Its text.
    pub text: Arc<str>,
    /// `KILL QUERY` met it while it waited for a user lock (MariaDB).
    pub interrupted: bool,
    /// It failed because of a deadlock of user locks, which undoes nothing.
    pub user_deadlock: bool,
    /// In row granularity: it was let past the pause before the row that it inserts.
    pub let_insert: bool,
    /// The end of the wait that begins now, if it is not the usual one.
    pub until_micros: Option<i64>,
}

/// The text of a statement that was not looked at yet. One for all: runs are made often.
fn no_text() -> Arc<str> {
    thread_local! {
        static EMPTY: Arc<str> = "".into();
    }
    EMPTY.with(Arc::clone)
}

impl Run {
    /// The journal of a statement that begins.
    pub fn new(start_micros: i64) -> Run {
        Run {
            entries: Vec::new(),
            at: 0,
            scans: Vec::new(),
            progress: Progress::default(),
            start_micros,
            changes: None,
            metadata: 0,
            insert_id: None,
            written_number: None,
            warnings: Vec::new(),
            resumed: false,
            timed_out: false,
            granted: false,
            metadata_wait: false,
            waits_for_lock: false,
            waits_for_row: false,
            uses_tables: false,
            text: no_text(),
            user_deadlock: false,
            let_insert: false,
            interrupted: false,
            until_micros: None,
        }
    }

    /// Before the statement is run again.
    pub fn rewind(&mut self) {
        self.at = 0;
        self.resumed = true;
        self.granted = true;
        self.until_micros = None;
    }

    /// The recorded answer to the present call, if it was made before.
    pub fn replay(&mut self) -> Option<Entry> {
        let entry = self.entries.get(self.at)?;
        self.at += 1;
        Some(entry.clone())
    }

    /// Whether the next call will be answered from the journal.
    pub fn is_replaying(&self) -> bool {
        self.at < self.entries.len()
    }

    /// Records the answer to the present call.
    pub fn record(&mut self, entry: Entry) {
        assert!(
            !self.is_replaying(),
            "the run differs from its journal: {entry:?} at {}",
            self.at
        );
        self.entries.push(entry);
        self.at += 1;
        self.granted = false;
        self.let_insert = false;
        self.progress = Progress::default();
    }

    /// Answers from the journal, or asks `live` and records its answer.
    ///
    /// # Errors
    /// Those of `live`.
    pub fn once(
        &mut self,
        live: impl FnOnce(&mut Run) -> Result<Entry, Stop>,
    ) -> Result<Entry, Stop> {
        if let Some(entry) = self.replay() {
            return Ok(entry);
        }
        let entry = live(self)?;
        self.record(entry.clone());
        Ok(entry)
    }

    /// Adds it to the digest of a session whose statement waits.
    pub fn digest(&self, digest: &mut Digest) {
        digest.word(self.entries.len() as u64);
        for entry in &self.entries {
            std::mem::discriminant(entry).hash(digest);
            match entry {
                Entry::Choice(choice) => {
                    choice.order.hash(digest);
                    choice.sorted.hash(digest);
                    choice.impossible.hash(digest);
                    for access in &choice.access {
                        access.index.hash(digest);
                        access.conditions.hash(digest);
                        access.reverse.hash(digest);
                        access.lookup.hash(digest);
                    }
                }
                Entry::Opened(number) => number.hash(digest),
                Entry::Row(row) => row.hash(digest),
                Entry::Flag(flag) => flag.hash(digest),
                Entry::Inserted(kind, count, row) => (kind, count, row).hash(digest),
                Entry::Value(value) => value.hash(digest),
                Entry::Rows(rows) => rows.hash(digest),
            }
        }
        for scan in &self.scans {
            scan.cursor.digest(digest);
        }
        self.progress.hash(digest);
        self.let_insert.hash(digest);
        self.start_micros.hash(digest);
        self.changes.hash(digest);
        self.metadata.hash(digest);
        self.insert_id.hash(digest);
        digest.word(self.warnings.len() as u64);
    }
}
