//! SERIALIZABLE: who read what, who overwrote whose reads, and who must fail for it.
//!
//! | file | question |
//! | --- | --- |
//! | `mod.rs` | what is kept about each transaction; how it enters the fingerprint |
//! | `begin.rs` | when is a snapshot safe for a read-only transaction |
//! | `lock.rs` | SIREAD locks: granularity and promotion |
//! | `read.rs`, `write.rs` | what does a read, a write look at |
//! | `conflict.rs` | which structure of conflicts is dangerous, and who is the victim |
//! | `end.rs` | commit, rollback, and what may be forgotten then |
//! | `page.rs` | on which page is a row, an index entry |
//! | `method.rs` | on which page is an entry of a hash or GIN index |
//!
//! The rules are told in the README beside the parent module.
//!
//! FOOTPRINTS. What a transaction reads is written under a name for (session, table) and read by
//! those who write the table; what it writes likewise, so that two reads commute, and two writes. A
//! step that makes or removes a conflict between transactions, or ends one, writes the one name for
//! all conflicts, which every step of a SERIALIZABLE transaction reads.

mod begin;
mod conflict;
mod end;
mod lock;
mod method;
mod page;
mod read;
mod write;

use std::hash::Hash;

pub use self::page::Filled;
use rowlock_model::schedule::SessionId;

use super::object::name;
use super::prepared::is_seat;
use super::{Object, RelId, Store, VersionId, Xid};
use crate::world::{Digest, Slot, World};

/// What names a transaction here, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SxactId(u64);

pub(super) use self::method::{Searched, first_buckets};

/// What a SIREAD lock is on. A page is one of a table or the leaf of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    /// All of a table or index, also what is not there yet.
    Relation(RelId),
    /// A page of it.
    Page(RelId, u32),
    /// A row version.
    Tuple(RelId, VersionId),
}

impl Target {
    /// The table or index.
    pub(super) fn relation(self) -> RelId {
        match self {
            Target::Relation(rel) | Target::Page(rel, _) | Target::Tuple(rel, _) => rel,
        }
    }
}

/// How far a transaction has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// In progress.
    Active,
    /// It has passed the check of its commit, or was prepared with `PREPARE TRANSACTION`.
    Prepared,
    /// Committed; kept while a transaction that overlaps it is in progress.
    Committed,
}

/// A SERIALIZABLE transaction that has taken its snapshot.
///
/// Instants are numbers of one sequence that grows with each prepared and each committed
/// transaction; only their order counts.
#[derive(Clone, Debug)]
pub(super) struct Sxact {
    id: SxactId,
    session: SessionId,
    /// The session that began it: another one than `session` if it was prepared.
    beginner: SessionId,
    phase: Phase,
    /// Declared READ ONLY before its snapshot, or committed without having written.
    read_only: bool,
    /// Declared READ ONLY before its snapshot.
    declared_read_only: bool,
    /// It has come to a write, successful or not.
    wrote: bool,
    /// To be rolled back at the next opportunity.
    doomed: bool,
    /// READ ONLY: a concurrent writer has committed that makes its snapshot unsafe.
    is_unsafe: bool,
    /// READ ONLY: every concurrent writer has ended without doing so.
    is_safe: bool,
    /// It waits for its snapshot to be safe or unsafe (`DEFERRABLE`).
    waits: bool,
    /// It had a conflict out to a transaction that committed before it did.
    conflict_out: bool,
    /// The earliest instant of such a commit.
    earliest_out: u64,
    /// The commits that its snapshot sees.
    csn: u64,
    /// The instant of the last commit before its snapshot.
    snapshot_at: u64,
    /// The instant at which it was prepared.
    prepared_at: u64,
    /// The instant of its commit.
    committed_at: u64,
    /// The oldest transaction id that was in progress at its snapshot.
    xmin: Xid,
    /// The next transaction id at its end.
    finished_before: Xid,
    /// The number of its commit, if it wrote anything: who made a committed version is told by it.
    commit_csn: Option<u64>,
    /// Its transaction id, for messages.
    xid: Option<Xid>,
    /// Its SIREAD locks, ascending.
    locks: Vec<Target>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Ssi {
    /// Transactions in progress by session, then committed ones by their commit.
    xacts: Vec<Sxact>,
    /// Read-write conflicts: the first has read what the second has overwritten.
    conflicts: Vec<(SxactId, SxactId)>,
    /// READ ONLY transactions in progress, each with a concurrent writer that may yet make its
    /// snapshot unsafe.
    possibly_unsafe: Vec<(SxactId, SxactId)>,
}

/// A SIREAD lock, for `pg_locks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLock {
    /// The session whose transaction has it; it may have committed.
    pub session: SessionId,
    /// It was prepared, so that it is the session's no more.
    pub is_prepared: bool,
    /// The table or index.
    pub relation: RelId,
    /// The page; nothing if the whole relation is locked.
    pub page: Option<u32>,
    /// The row on the page; nothing if the whole page is locked.
    pub item: Option<u32>,
}

impl Ssi {
    fn find(&self, id: SxactId) -> &Sxact {
        match self.xacts.iter().find(|x| x.id == id) {
            Some(xact) => xact,
            None => panic!("{id:?} is forgotten"),
        }
    }

    fn find_mut(&mut self, id: SxactId) -> &mut Sxact {
        match self.xacts.iter_mut().find(|x| x.id == id) {
            Some(xact) => xact,
            None => panic!("{id:?} is forgotten"),
        }
    }

    /// The transaction that a session has in progress.
    fn of(&self, session: SessionId) -> Option<&Sxact> {
        self.xacts
            .iter()
            .find(|x| x.session == session && x.phase != Phase::Committed)
    }

    fn has_conflict(&self, reader: SxactId, writer: SxactId) -> bool {
        self.conflicts.contains(&(reader, writer))
    }

    /// Those who have read what `writer` has overwritten.
    fn readers_of(&self, writer: SxactId) -> impl Iterator<Item = &Sxact> {
        let conflicts = self.conflicts.iter().filter(move |(_, w)| *w == writer);
        conflicts.map(|(r, _)| self.find(*r))
    }

    /// Those who have overwritten what `reader` has read.
    fn writers_of(&self, reader: SxactId) -> impl Iterator<Item = &Sxact> {
        let conflicts = self.conflicts.iter().filter(move |(r, _)| *r == reader);
        conflicts.map(|(_, w)| self.find(*w))
    }

    /// Takes a transaction out with all that belongs to it.
    fn forget(&mut self, id: SxactId) {
        self.xacts.retain(|x| x.id != id);
        self.conflicts.retain(|(r, w)| *r != id && *w != id);
        self.possibly_unsafe.retain(|(r, w)| *r != id && *w != id);
    }

    /// The canonical content: transactions by their place, instants by their order, transaction ids
    /// by what they are compared with.
    pub(super) fn digest(&self, world: &World<Object>) -> Option<u128> {
        if self.xacts.is_empty() {
            return None;
        }
        let mut digest = Digest::new(8);
        let place = |id: SxactId| self.xacts.iter().position(|x| x.id == id);
        let mut instants: Vec<u64> = Vec::new();
        for xact in &self.xacts {
            instants.extend([xact.snapshot_at, xact.prepared_at, xact.committed_at]);
            instants.push(xact.earliest_out);
        }
        instants.sort_unstable();
        instants.dedup();
        let instant = |at: u64| instants.partition_point(|i| *i < at);
        // Only how transaction ids compare with each other counts.
        let mut xids: Vec<Xid> = Vec::new();
        for xact in &self.xacts {
            xids.push(if xact.is_committed() {
                xact.finished_before
            } else {
                xact.xmin
            });
        }
        xids.sort_unstable();
        xids.dedup();
        let xid_place = |xid: Xid| {
            let less = xids.partition_point(|x| *x < xid);
            (less, xids.get(less) == Some(&xid))
        };
        for xact in &self.xacts {
            xact.digest(world, instant, &mut digest);
            xid_place(if xact.is_committed() {
                xact.finished_before
            } else {
                xact.xmin
            })
            .hash(&mut digest);
        }
        for session in Store::sessions_in(world) {
            top_xid(world, session).map(xid_place).hash(&mut digest);
        }
        let mut pairs: Vec<_> = self
            .conflicts
            .iter()
            .map(|(r, w)| (0, place(*r), place(*w)))
            .collect();
        let unsafes = self.possibly_unsafe.iter();
        pairs.extend(unsafes.map(|(r, w)| (1, place(*r), place(*w))));
        pairs.sort_unstable();
        pairs.hash(&mut digest);
        Some(digest.finish128())
    }
}

impl Sxact {
    fn is_committed(&self) -> bool {
        self.phase == Phase::Committed
    }

    /// Prepared or committed.
    fn is_prepared(&self) -> bool {
        self.phase != Phase::Active
    }

    fn digest(&self, world: &World<Object>, instant: impl Fn(u64) -> usize, digest: &mut Digest) {
        (self.session, self.beginner).hash(digest);
        (self.phase, self.read_only, self.declared_read_only).hash(digest);
        (self.wrote, self.doomed, self.is_unsafe, self.is_safe).hash(digest);
        (self.waits, self.conflict_out).hash(digest);
        let instants = [
            instant(self.snapshot_at),
            instant(self.prepared_at),
            instant(self.committed_at),
            instant(self.earliest_out),
        ];
        instants.hash(digest);
        if let Some(csn) = self.commit_csn {
            let recent = &Store::server_in(world).recent;
            for (_, versions) in recent.iter().filter(|(at, _)| *at == csn) {
                for version in versions {
                    digest.word(Store::rank(world, *version));
                    if let Object::Version(version) = world.read(*version) {
                        digest.word(u64::from(version.table.0));
                    }
                }
            }
        }
        let mut locks: Vec<(RelId, u8, u64)> = self
            .locks
            .iter()
            .map(|target| match target {
                Target::Relation(rel) => (*rel, 0, 0),
                Target::Page(rel, page) => (*rel, 1, u64::from(*page)),
                Target::Tuple(rel, version) => (*rel, 2, Store::rank(world, *version)),
            })
            .collect();
        locks.sort_unstable();
        locks.hash(digest);
    }
}

/// The transaction id of a session's transaction, if it has one.
fn top_xid(world: &World<Object>, session: SessionId) -> Option<Xid> {
    let level = Store::xact_in(world, session).levels.first()?;
    if level.has_own_xid {
        level.xids.first().copied()
    } else {
        None
    }
}

/// Where the object is: the third that a store creates.
pub(super) const SLOT: Slot = Slot(2);

impl Store {
    pub(super) fn ssi(&self) -> &Ssi {
        match self.world.read(SLOT) {
            Object::Ssi(ssi) => ssi,
            other => panic!("{other:?} is not what it should be"),
        }
    }

    fn ssi_mut(&mut self) -> &mut Ssi {
        match self.world.write(SLOT) {
            Object::Ssi(ssi) => ssi,
            other => panic!("{other:?} is not what it should be"),
        }
    }

    /// Whether any SERIALIZABLE transaction is in progress (after its snapshot), or kept.
    #[inline]
    pub(super) fn ssi_in_use(&self) -> bool {
        !self.ssi().xacts.is_empty()
    }

    /// The SERIALIZABLE transaction that a session has in progress, if its checks still matter.
    fn sxact(&self, session: SessionId) -> Option<SxactId> {
        self.ssi().of(session).map(|x| x.id)
    }

    /// Before a fingerprint: what the digest says about row versions and transaction ids may have
    /// changed without it.
    pub(super) fn ssi_touch(&mut self) {
        if self.ssi_in_use() {
            self.world.touch(SLOT);
        }
    }

    fn ssi_record_conflicts(&mut self, write: bool) {
        if write {
            self.world.footprint.write(name::CONFLICTS);
        } else {
            self.world.footprint.read(name::CONFLICTS);
        }
    }

    /// All SIREAD locks, for `pg_locks`: by session, then by what they are on.
    pub fn read_locks(&self) -> Vec<ReadLock> {
        let mut locks = Vec::new();
        for xact in &self.ssi().xacts {
            for target in &xact.locks {
                let (page, item) = match target {
                    Target::Relation(_) => (None, None),
                    Target::Page(rel, page) => (Some(self.page_number(*rel, *page)), None),
                    Target::Tuple(_, version) => {
                        let (page, item) = self.ctid(*version);
                        (Some(page), Some(item))
                    }
                };
                locks.push(ReadLock {
                    session: xact.beginner,
                    is_prepared: is_seat(xact.session),
                    relation: target.relation(),
                    page,
                    item,
                });
            }
        }
        locks.sort_by_key(|l| (l.session, l.relation, l.page, l.item));
        locks
    }
}
