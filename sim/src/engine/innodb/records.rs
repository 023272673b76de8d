//! The records of an index, their versions, and who sees which.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Bound;

use rowlock_model::Row;
use rowlock_model::schedule::SessionId;

use super::key::{Key, Pos};
use super::shape::IndexId;
use crate::loose::catalog::TableId;
use crate::world::Digest;

/// Who wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A transaction that is not over: it has the record locked without a lock (*implicitly*).
    Active(SessionId),
    /// A committed one, by its commit number.
    Committed(u64),
}

/// One version of a row, or the state of a secondary record.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Its values: all columns of a row, or the fields of a secondary record.
    pub row: Row,
    /// It is marked as deleted: the record is still there, the row is not.
    pub deleted: bool,
    /// Whose it is.
    pub writer: Writer,
}

/// A record. Only records of a clustered index have older versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The newest version.
    pub newest: Version,
    /// What it was before, newest first, as far as somebody may still want to see it.
    pub older: Vec<Version>,
    /// Of a secondary record: the key of its row in the clustered index.
    pub row_key: Option<Key>,
}

impl Record {
    /// Its versions, newest first.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// The version that a read view of `session` at commit number `view` sees.
    pub fn seen(&self, session: SessionId, view: u64) -> Option<&Version> {
        self.versions().find(|v| v.writer.is_seen(session, view))
    }

    /// The newest committed version.
    pub fn committed(&self) -> Option<&Version> {
        let committed = |v: &&Version| matches!(v.writer, Writer::Committed(_));
        self.versions().find(committed)
    }

    /// The transaction that holds the record implicitly.
    pub fn holder(&self) -> Option<SessionId> {
        match self.newest.writer {
            Writer::Active(session) => Some(session),
            Writer::Committed(_) => None,
        }
    }
}

impl Writer {
    /// Whether a read view of `session` at commit number `view` sees what this writer wrote.
    pub fn is_seen(self, session: SessionId, view: u64) -> bool {
        match self {
            Writer::Active(writer) => writer == session,
            Writer::Committed(number) => number <= view,
        }
    }
}

/// The records of one index, in key order.
#[derive(Clone, Debug)]
pub struct Records {
    /// The index.
    pub index: IndexId,
    /// Its table.
    pub table: TableId,
    map: BTreeMap<Key, Record>,
}

impl Records {
    /// An empty index.
    pub fn new(index: IndexId, table: TableId) -> Records {
        Records {
            index,
            table,
            map: BTreeMap::new(),
        }
    }

    /// The record with this key.
    pub fn get(&self, key: &Key) -> Option<&Record> {
        self.map.get(key)
    }

    /// The record with this key, to be changed.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Record> {
        self.map.get_mut(key)
    }

    /// Puts a record in, in place of one with the same key.
    pub fn insert(&mut self, key: Key, record: Record) {
        self.map.insert(key, record);
    }

    /// Takes a record out.
    pub fn remove(&mut self, key: &Key) {
        self.map.remove(key);
    }

    /// The first record in this part of the index.
    pub fn first(&self, from: Bound<&Key>) -> Option<(&Key, &Record)> {
        self.map.range::<Key, _>((from, Bound::Unbounded)).next()
    }

    /// The records from `key` on.
    pub fn iter_from(&self, key: &Key) -> impl Iterator<Item = (&Key, &Record)> {
        self.map
            .range::<Key, _>((Bound::Included(key), Bound::Unbounded))
    }

    /// The last record in this part of the index.
    pub fn last(&self, to: Bound<&Key>) -> Option<(&Key, &Record)> {
        let mut range = self.map.range::<Key, _>((Bound::Unbounded, to));
        range.next_back()
    }

    /// The place behind `key`, whether a record has that key or not.
    pub fn successor(&self, key: &Key) -> Pos {
        match self.first(Bound::Excluded(key)) {
            Some((next, _)) => Pos::Record(next.clone()),
            None => Pos::Supremum,
        }
    }

    /// All records in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Record)> {
        self.map.iter()
    }

    /// Adds everything to `digest`. `rank` gives for a commit number how many read views do not
    /// see it: nobody can tell more of its age.
    pub fn digest(&self, rank: impl Fn(u64) -> u64, digest: &mut Digest) {
        digest.word(u64::from(self.index.0));
        for (key, record) in &self.map {
            key.hash(digest);
            for version in record.versions() {
                version.row.hash(digest);
                digest.word(u64::from(version.deleted));
                match version.writer {
                    Writer::Active(session) => digest.word(1 << 32 | u64::from(session.0)),
                    Writer::Committed(number) => digest.word(rank(number)),
                }
            }
            digest.word(record.older.len() as u64);
        }
        digest.word(self.map.len() as u64);
    }
}
