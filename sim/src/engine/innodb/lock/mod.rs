//! Locks on index records: what is locked, in which modes, and what conflicts.
//!
//! A lock covers a record, the gap before it, or both (*next-key*). Gaps are locked to keep others
//! from inserting: a request for a gap never waits, an insert waits for the gaps of others. The
//! supremum pseudo-record has a gap only.

mod acquire;
mod deadlock;
mod release;
mod report;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rowlock_model::schedule::SessionId;

pub use self::acquire::{Granted, OnBusy, Refused};
pub use self::report::{ListedLock, mode_name};
use super::key::Pos;
use super::shape::IndexId;
use crate::loose::catalog::TableId;
use crate::world::Digest;

/// The strength of a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Shared.
    S,
    /// Exclusive.
    X,
}

/// What a record lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// The record and the gap before it.
    NextKey,
    /// The record.
    Record,
    /// The gap before the record.
    Gap,
    /// An insert into the gap before the record. Waits for gap locks; blocks nobody.
    Insert,
}

/// A lock on a record, held or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordLock {
    /// Whose.
    pub owner: SessionId,
    /// How strong.
    pub mode: Mode,
    /// What it covers.
    pub span: Span,
    /// Not granted yet.
    pub waiting: bool,
}

/// Whether a request has to wait for a lock of somebody else on the same record.
pub fn must_wait(mode: Mode, span: Span, supremum: bool, other: &RecordLock) -> bool {
    if mode == Mode::S && other.mode == Mode::S {
        return false;
    }
    let insert = span == Span::Insert;
    if !insert && (supremum || span == Span::Gap || other.span == Span::Gap) {
        return false;
    }
    if insert && other.span == Span::Record {
        return false;
    }
    other.span != Span::Insert
}

impl RecordLock {
    /// Whether this granted lock makes a request superfluous.
    pub(super) fn covers(&self, mode: Mode, span: Span, supremum: bool) -> bool {
        !self.waiting
            && self.span != Span::Insert
            && self.mode >= mode
            && (supremum || self.span == Span::NextKey || self.span == span)
    }
}

/// The record locks of one index: for each place, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub struct RecordLocks {
    /// The index.
    pub index: IndexId,
    pub(super) queues: BTreeMap<Pos, Vec<RecordLock>>,
}

impl RecordLocks {
    /// No locks.
    pub fn new(index: IndexId) -> RecordLocks {
        RecordLocks {
            index,
            queues: BTreeMap::new(),
        }
    }

    /// The locks on a place.
    pub fn at(&self, pos: &Pos) -> &[RecordLock] {
        self.queues.get(pos).map_or(&[], |queue| &queue[..])
    }

    /// Adds everything to `digest`.
    pub fn digest(&self, digest: &mut Digest) {
        digest.word(u64::from(self.index.0));
        for (pos, queue) in &self.queues {
            pos.hash(digest);
            queue.hash(digest);
        }
        digest.write_usize(self.queues.len());
    }
}

/// The modes of locks on whole tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableMode {
    /// Somebody locks rows in shared mode.
    IntentionShared,
    /// Somebody locks rows exclusively.
    IntentionExclusive,
    /// Somebody draws automatic numbers for a statement whose number of rows is not known.
    AutoInc,
    /// `LOCK TABLES .. READ`.
    Shared,
    /// `LOCK TABLES .. WRITE`.
    Exclusive,
}

impl TableMode {
    /// Whether who holds this need not ask for `other`.
    pub fn covers(self, other: TableMode) -> bool {
        use TableMode as T;
        self == other
            || matches!(
                (self, other),
                (T::IntentionExclusive | T::Shared, T::IntentionShared)
                    | (
                        T::Exclusive,
                        T::IntentionShared | T::IntentionExclusive | T::Shared
                    )
            )
    }

    /// As the server writes it.
    pub fn name(self) -> &'static str {
        match self {
            TableMode::IntentionShared => "IS",
            TableMode::IntentionExclusive => "IX",
            TableMode::AutoInc => "AUTO_INC",
            TableMode::Shared => "S",
            TableMode::Exclusive => "X",
        }
    }
}

/// For which row a transaction waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowWait {
    /// The table.
    pub table: TableId,
    /// The index.
    pub index: IndexId,
    /// The place.
    pub pos: Pos,
    /// It need not wait any more.
    pub granted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `README.md`: requests by row, held locks by column.
    fn table() -> Vec<Vec<bool>> {
        let text = include_str!("../README.md");
        let from = text.find("| request \\ held").expect("the table is there");
        let lines = text[from..]
            .lines()
            .take_while(|line| line.starts_with('|'));
        let cells = |line: &str| -> Vec<bool> {
            let inner = line.trim_matches('|');
            inner
                .split('|')
                .skip(1)
                .map(|cell| cell.trim() == "X")
                .collect()
        };
        lines.skip(2).map(cells).collect()
    }

    #[test]
    fn locks_conflict_as_the_readme_says() {
        let spans = [Span::NextKey, Span::Record, Span::Gap, Span::Insert];
        let table = table();
        assert_eq!(table.len(), spans.len());
        for (request, row) in spans.iter().zip(&table) {
            for (held, expected) in spans.iter().zip(row) {
                let lock = |mode| RecordLock {
                    owner: SessionId(1),
                    mode,
                    span: *held,
                    waiting: false,
                };
                let waits = |a, b| must_wait(a, *request, false, &lock(b));
                assert_eq!(waits(Mode::X, Mode::X), *expected, "{request:?} {held:?}");
                assert_eq!(waits(Mode::S, Mode::X), *expected, "{request:?} {held:?}");
                assert!(!waits(Mode::S, Mode::S));
            }
        }
    }
}
