//! The kinds of objects of which the world of an InnoDB server consists.

use std::hash::Hash;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;

use super::catalog::Schema;
use super::key::Key as RecordKey;
use super::lock::RecordLocks;
use super::metadata::Metadata;
use super::records::Records;
use super::session::{SessionState, Settings};
use super::shape::IndexId;
use super::trx::Trx;
use super::user_lock::UserLocks;
use crate::loose::catalog::TableId;
use crate::world::{self, Digest, World};

/// What belongs to the server as a whole.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its clock: microseconds since 1970.
    pub now_micros: i64,
    /// Records that a purge may be able to take away or to shorten. Follows from the records.
    pub history: Vec<(TableId, IndexId, RecordKey)>,
    /// What new sessions begin with, and what belongs to the server only.
    pub globals: Rc<Settings>,
}

/// One object.
#[derive(Clone, Debug)]
pub enum Object {
    /// See [`Server`].
    Server(Server),
    /// The schema.
    Schema(Schema),
    /// A session, as the executor sees it.
    Session(SessionId, Box<SessionState>),
    /// A session's transaction.
    Trx(Trx),
    /// The records of an index.
    Records(Records),
    /// The record locks of an index.
    Locks(RecordLocks),
    /// Metadata locks.
    Metadata(Metadata),
    /// The locks of `GET_LOCK`.
    UserLocks(UserLocks),
    /// The next automatic number of a table, and its next hidden row number.
    Numbers(TableId, i64, i64),
}

/// What names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An [`Object::Session`].
    Session(SessionId),
    /// An [`Object::Trx`].
    Trx(SessionId),
    /// An [`Object::Records`].
    Records(IndexId),
    /// An [`Object::Locks`].
    Locks(IndexId),
    /// An [`Object::Numbers`].
    Numbers(TableId),
}

/// Numbers that are handed out in order. They never enter the fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last commit number.
    pub commit: u64,
    /// The last table's number.
    pub table: u32,
    /// The last index's number.
    pub index: u32,
    /// Grows with every commit that wrote something, with changes of the schema, and with the clock.
    pub committed: u64,
    /// The last wait's number: waits are ordered by their beginning.
    pub wait: u64,
}

/// How many read views do not see commit number `number`.
fn rank(world: &World<Object>, number: u64) -> u64 {
    let views = world.objects().filter_map(|(_, object)| match object {
        Object::Trx(trx) => trx.view,
        _ => None,
    });
    views.filter(|view| *view < number).count() as u64
}

impl world::Object for Object {
    type Key = Key;
    type Counters = Counters;

    fn digest(&self, world: &World<Object>) -> Option<u128> {
        let mut digest;
        match self {
            Object::Server(server) => {
                digest = Digest::new(1);
                server.now_micros.hash(&mut digest);
                server.globals.hash(&mut digest);
            }
            Object::Schema(schema) => {
                digest = Digest::new(2);
                schema.digest(|number| rank(world, number), &mut digest);
            }
            Object::Session(id, session) => {
                digest = Digest::new(3);
                digest.word(u64::from(id.0));
                session.digest(&mut digest);
            }
            Object::Trx(trx) => {
                digest = Digest::new(4);
                trx.digest(|number| rank(world, number), &mut digest);
            }
            Object::Records(records) => {
                digest = Digest::new(5);
                records.digest(|number| rank(world, number), &mut digest);
            }
            Object::Locks(locks) => {
                digest = Digest::new(6);
                locks.digest(&mut digest);
            }
            Object::Metadata(metadata) => {
                digest = Digest::new(7);
                metadata.digest(&mut digest);
            }
            Object::UserLocks(locks) => {
                digest = Digest::new(8);
                locks.digest(&mut digest);
            }
            Object::Numbers(table, next, row) => {
                digest = Digest::new(9);
                digest.word(u64::from(table.0));
                digest.word(*next as u64);
                digest.word(*row as u64);
            }
        }
        Some(digest.finish128())
    }
}

/// Names for footprints.
pub(super) mod name {
    use std::hash::{Hash, Hasher};

    use super::{IndexId, RecordKey, SessionId, TableId};
    use crate::engine::innodb::key::Pos;
    use crate::world::Digest;

    fn of(kind: u64, what: impl Hash) -> u64 {
        let mut digest = Digest::new(kind);
        what.hash(&mut digest);
        digest.finish()
    }

    /// The order of commits: written by each commit, read by views that outlive their step.
    pub(crate) const COMMITS: u64 = 1;
    /// The server's clock.
    pub(crate) const CLOCK: u64 = 2;
    /// The schema.
    pub(crate) const SCHEMA: u64 = 3;
    /// Who waits for whom: written by whoever starts or ends a wait, read by who looks for a cycle.
    pub(crate) const WAITS: u64 = 4;
    /// The variables of the server.
    pub(crate) const GLOBALS: u64 = 5;

    /// A record as its writers see it.
    pub(crate) fn record(index: IndexId, key: &RecordKey) -> u64 {
        of(11, (index, key))
    }

    /// The committed state of a record.
    pub(crate) fn committed(index: IndexId, key: &RecordKey) -> u64 {
        of(12, (index, key))
    }

    /// What lies between a record (or the end) and the one before it.
    pub(crate) fn gap(index: IndexId, pos: &Pos) -> u64 {
        of(13, (index, pos))
    }

    /// The locks on a record, or on the end.
    pub(crate) fn locks(index: IndexId, pos: &Pos) -> u64 {
        of(14, (index, pos))
    }

    /// A session, as others see it.
    pub(crate) fn session(session: SessionId) -> u64 {
        of(15, session)
    }

    /// The metadata locks of a table.
    pub(crate) fn metadata(table: &str) -> u64 {
        of(16, table)
    }

    /// One session's shared metadata lock of a table: these do not conflict with each other.
    pub(crate) fn own_metadata(session: SessionId, table: &str) -> u64 {
        of(17, (session, table))
    }

    /// A lock of `GET_LOCK`.
    pub(crate) fn user_lock(lock: &str) -> u64 {
        of(18, lock)
    }

    /// The automatic numbers of a table.
    pub(crate) fn numbers(table: TableId) -> u64 {
        of(19, table)
    }
}
