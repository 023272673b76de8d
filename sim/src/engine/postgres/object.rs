//! The kinds of objects of which the world of a PostgreSQL server consists.

use std::hash::Hash;

use rowlock_model::schedule::SessionId;

use super::lock::{LockQueue, Tag};
use super::store::Server;
use super::{Catalog, Heap, Index, RelId, SessionState, Ssi, Version, Xact};
use crate::world::{self, Digest, World};

/// One object.
#[derive(Clone, Debug)]
pub enum Object {
    /// What belongs to the server as a whole: its clock, recent commits.
    Server(Server),
    /// The schema.
    Catalog(Catalog),
    /// A session, as the executor sees it.
    Session(SessionId, SessionState),
    /// A session's transaction.
    Xact(Xact),
    /// The order of the versions of a table.
    Heap(Heap),
    /// A row version; part of its heap's digest.
    Version(Version),
    /// An index; follows from its heap.
    Index(Index),
    /// A heavyweight lock that somebody holds or waits for.
    Lock(LockQueue),
    /// A sequence's last value and whether it was used: not transactional.
    Sequence(RelId, i64, bool),
    /// What SERIALIZABLE transactions have read, and their conflicts.
    Ssi(Ssi),
}

/// What names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An [`Object::Session`].
    Session(SessionId),
    /// An [`Object::Xact`].
    Xact(SessionId),
    /// An [`Object::Heap`].
    Heap(RelId),
    /// An [`Object::Index`].
    Index(RelId),
    /// An [`Object::Lock`].
    Lock(Tag),
    /// An [`Object::Sequence`].
    Sequence(RelId),
}

/// Numbers that are handed out in order. They never enter the fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last transaction id.
    pub xid: u32,
    /// The last commit number.
    pub csn: u64,
    /// The last version position.
    pub position: u64,
    /// The last wait's number: waits are ordered by their beginning.
    pub wait: u64,
    /// Grows with every commit that wrote something, and with the clock.
    pub committed: u64,
    /// The last SERIALIZABLE transaction's number.
    pub sxact: u64,
    /// The last multixact's number.
    pub multi: u32,
    /// The end of the queue of notifications, in bytes since the server's start.
    pub notified: u64,
    /// The last instant at which a SERIALIZABLE transaction was prepared or committed.
    pub instant: u64,
}

impl world::Object for Object {
    type Key = Key;
    type Counters = Counters;

    fn digest(&self, world: &World<Object>) -> Option<u128> {
        let mut digest;
        match self {
            Object::Server(server) => {
                digest = Digest::new(1);
                server.digest(&mut digest);
                if world.is_exact() {
                    let counters = world.counters();
                    digest.word(u64::from(counters.xid));
                    digest.word(counters.position);
                    digest.word(u64::from(counters.multi));
                }
            }
            Object::Catalog(catalog) => {
                digest = Digest::new(2);
                catalog.digest(world, &mut digest);
            }
            Object::Session(id, session) => {
                digest = Digest::new(3);
                id.hash(&mut digest);
                session.digest(world, &mut digest);
            }
            Object::Xact(xact) => {
                digest = Digest::new(4);
                xact.digest(world, &mut digest);
            }
            Object::Heap(heap) => {
                digest = Digest::new(5);
                heap.digest(world, &mut digest);
            }
            Object::Version(_) | Object::Index(_) => return None,
            Object::Ssi(ssi) => return ssi.digest(world),
            Object::Lock(queue) => {
                digest = Digest::new(6);
                queue.digest(world, &mut digest);
            }
            Object::Sequence(rel, last, called) => {
                digest = Digest::new(7);
                digest.word(u64::from(rel.0));
                digest.word(*last as u64);
                digest.word(u64::from(*called));
            }
        }
        Some(digest.finish128())
    }

    fn names_sessions(&self, world: &World<Object>) -> bool {
        match self {
            Object::Server(_) | Object::Version(_) | Object::Index(_) | Object::Sequence(..) => {
                false
            }
            Object::Catalog(catalog) => catalog.names_sessions(),
            Object::Heap(heap) => heap.names_sessions(world),
            Object::Session(..) | Object::Xact(_) | Object::Lock(_) | Object::Ssi(_) => true,
        }
    }
}

/// Names for footprints.
pub(super) mod name {
    use std::hash::{Hash, Hasher};

    use crate::world::Digest;

    fn of(kind: u64, what: impl Hash) -> u64 {
        let mut digest = Digest::new(kind);
        what.hash(&mut digest);
        digest.finish()
    }

    /// The order of commits: written by each commit, read by snapshots that outlive their step.
    pub(crate) const COMMITS: u64 = 1;
    /// The server's clock.
    pub(crate) const CLOCK: u64 = 2;
    /// The schema.
    pub(crate) const CATALOG: u64 = 3;
    /// The counters of transactions and versions, for programs that can see them.
    pub(crate) const XIDS: u64 = 4;
    /// The wait graph: read by deadlock checks, written by whoever starts or ends a wait.
    pub(crate) const WAITS: u64 = 5;
    /// What the server's views show, if anybody looks at them: every step writes it.
    pub(crate) const VIEWS: u64 = 7;
    /// The conflicts of SERIALIZABLE transactions.
    pub(crate) const CONFLICTS: u64 = 6;
    /// The list of prepared transactions.
    pub(crate) const PREPARED: u64 = 7;
    /// The queue of notifications and who listens.
    pub(crate) const NOTIFICATIONS: u64 = 8;

    /// What a scan of a table finds: written by commits that wrote the table.
    pub(crate) fn table(rel: super::RelId) -> u64 {
        of(11, rel)
    }

    /// The physical end of a table: the order in which versions are appended.
    pub(crate) fn tail(rel: super::RelId) -> u64 {
        of(12, rel)
    }

    /// A version as committed: what snapshots see of it.
    pub(crate) fn version(rel: super::RelId, position: u64) -> u64 {
        of(13, (rel, position))
    }

    /// The holders of a version.
    pub(crate) fn row_lock(rel: super::RelId, position: u64) -> u64 {
        of(14, (rel, position))
    }

    /// A key of a unique index, committed or not.
    pub(crate) fn key(index: super::RelId, key: &[rowlock_model::Value]) -> u64 {
        of(15, (index, key))
    }

    /// A heavyweight lock: its holders and its queue.
    pub(crate) fn lock(tag: super::Tag) -> u64 {
        of(16, tag)
    }

    /// A weak relation lock of one session (these do not conflict with each other).
    pub(crate) fn weak_lock(session: super::SessionId, tag: super::Tag) -> u64 {
        of(17, (session, tag))
    }

    /// A session, as others see it.
    pub(crate) fn session(session: super::SessionId) -> u64 {
        of(18, session)
    }

    /// What a session's SERIALIZABLE transaction has read of a table.
    pub(crate) fn reads_of(session: super::SessionId, table: super::RelId) -> u64 {
        of(20, (session, table))
    }

    /// What a session's SERIALIZABLE transaction has written to a table, committed or not.
    pub(crate) fn writes_of(session: super::SessionId, table: super::RelId) -> u64 {
        of(21, (session, table))
    }

    /// The transaction id of a session's transaction: whether it has one.
    pub(crate) fn xid(session: super::SessionId) -> u64 {
        of(22, session)
    }

    /// A sequence.
    pub(crate) fn sequence(rel: super::RelId) -> u64 {
        of(19, rel)
    }
}
