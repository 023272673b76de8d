//! Row versions.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rowlock_model::{Row, Value};

use super::object::Key;
use super::{Object, Owner, RelId, RowLock, Store, Xid, Xmax};
use crate::world::{Digest, Slot, World};

/// A row version. Valid while the version exists; see [`Store::row`].
pub type VersionId = Slot;

/// Who made a version, and whether that is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Birth {
    /// Committed, and every snapshot sees it.
    Settled,
    /// Committed as number `csn`, and some snapshot may not see it.
    Committed(u64),
    /// By a transaction in progress, in its command `cid`.
    Running {
        /// Which one.
        owner: Owner,
        /// In which of its commands.
        cid: u32,
    },
}

/// What a holder does to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Holds a row lock.
    Lock(RowLock),
    /// Has updated it, in its command of this number; [`RowLock::Update`] if a key column changed,
    /// else [`RowLock::NoKeyUpdate`].
    Update(RowLock, u32),
    /// Has deleted it, in its command of this number.
    Delete(u32),
    /// Has taken the row into another partition, in its command of this number.
    Move(u32),
}

impl Hold {
    /// The lock that this amounts to.
    pub fn strength(self) -> RowLock {
        match self {
            Hold::Lock(strength) | Hold::Update(strength, _) => strength,
            Hold::Delete(_) | Hold::Move(_) => RowLock::Update,
        }
    }

    /// The command that updated or deleted.
    pub fn command(self) -> Option<u32> {
        match self {
            Hold::Lock(_) => None,
            Hold::Update(_, cid) | Hold::Delete(cid) | Hold::Move(cid) => Some(cid),
        }
    }
}

/// A transaction in progress that holds a lock on a version, or has updated or deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Which one.
    pub owner: Owner,
    /// Its transaction id at that level when it did so.
    pub xid: Xid,
    /// What it did.
    pub hold: Hold,
}

/// The committed end of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Death {
    /// The commit that ended it.
    pub csn: u64,
    /// The lock that the update or delete took: whoever wants a lock that conflicts with it has to
    /// look at the newer version.
    pub strength: RowLock,
    /// Updated, not deleted (also if the newer version is gone since).
    pub updated: bool,
    /// Updated in that the row is in another partition now.
    pub moved: bool,
}

/// One version of a row. Its locks and its end are kept in it, as in PostgreSQL's tuple header; a
/// multixact is simply more than one holder.
#[derive(Clone, Debug)]
pub struct Version {
    /// The table.
    pub table: RelId,
    /// Its place: versions of a table lie in ascending order. Not canonical; ranks are.
    pub position: u64,
    /// The place of the first version of its chain of updates that changed no indexed column (a HOT
    /// chain): what an index finds of the row is found in this place.
    pub root: u64,
    /// The stored columns.
    pub row: Row,
    /// The digest of `row`.
    pub row_digest: u128,
    /// Who made it.
    pub birth: Birth,
    /// The transaction id that made it.
    pub xmin: Xid,
    /// Transactions in progress that hold it, in the order in which they took hold, which is also
    /// that in which one waits for them (the server's is that of transaction ids); at most one update
    /// or delete.
    pub holders: Vec<Holder>,
    /// Its committed end, if it has one that some snapshot does not see yet, or that somebody's lock
    /// keeps.
    pub death: Option<Death>,
    /// `ON CONFLICT` has inserted it and not yet made sure of its keys.
    pub speculative: bool,
    /// The version that replaced it, if it was updated (by a transaction committed or in progress).
    pub next: Option<VersionId>,
    /// The version that it replaced, while that exists.
    pub prev: Option<VersionId>,
    /// Page and item: its `ctid`. Not canonical.
    pub place: (u32, u32),
    /// What stands in its `xmax`, if that is kept.
    pub xmax: Option<Rc<Xmax>>,
}

impl Version {
    /// Whether it follows another version of its HOT chain, so that no index has an entry for it.
    pub fn is_hot(&self) -> bool {
        self.root != self.position
    }

    /// The update or delete in progress, if any.
    pub fn ender(&self) -> Option<&Holder> {
        let ends = |holder: &&Holder| holder.hold.command().is_some();
        self.holders.iter().find(ends)
    }

    /// Adds a holder. Each transaction level is there once: a lock gives way to a stronger one, and
    /// to an update or delete.
    pub(super) fn add_holder(&mut self, mut holder: Holder) {
        let same = |h: &&mut Holder| h.owner == holder.owner;
        let Some(mine) = self.holders.iter_mut().find(same) else {
            self.holders.push(holder);
            return;
        };
        let is_stronger = holder.hold.strength() > mine.hold.strength();
        let was_lock = mine.hold.command().is_none();
        if let Hold::Update(strength, _) = &mut holder.hold {
            // Who holds FOR UPDATE and changes no key has changed a key, for all others.
            *strength = (*strength).max(mine.hold.strength());
        }
        if holder.hold.command().is_some() || (is_stronger && was_lock) {
            *mine = holder;
        }
    }

    /// Gives what one level of a transaction holds to its parent.
    pub(super) fn hand_up(&mut self, from: Owner, to: Owner) {
        if let Birth::Running { owner, .. } = &mut self.birth
            && *owner == from
        {
            *owner = to;
        }
        let Some(at) = self.holders.iter().position(|h| h.owner == from) else {
            return;
        };
        if self.holders.iter().any(|h| h.owner == to) {
            let mut handed = self.holders.remove(at);
            handed.owner = to;
            self.add_holder(handed);
        } else {
            self.holders[at].owner = to;
        }
    }

    /// Whether nothing about it is in motion: committed, seen by all, held by nobody.
    pub(super) fn is_at_rest(&self) -> bool {
        self.birth == Birth::Settled && self.holders.is_empty() && self.death.is_none()
    }

    /// Adds its canonical content to the digest of its heap.
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        digest.wide(self.row_digest);
        if world.is_exact() {
            (self.xmin, self.position, self.place).hash(digest);
            self.xmax.hash(digest);
            for holder in &self.holders {
                holder.xid.hash(digest);
            }
        }
        if self.is_at_rest() {
            return;
        }
        self.speculative.hash(digest);
        match self.birth {
            Birth::Settled => digest.word(0),
            Birth::Committed(csn) => digest_commit(world, csn, digest),
            Birth::Running { owner, cid } => {
                (1u8, owner).hash(digest);
                digest.word(command_age(world, owner, cid));
            }
        }
        digest.word(self.holders.len() as u64);
        for holder in &self.holders {
            holder.owner.hash(digest);
            holder.hold.strength().hash(digest);
            std::mem::discriminant(&holder.hold).hash(digest);
            if let Some(cid) = holder.hold.command() {
                digest.word(command_age(world, holder.owner, cid));
            }
        }
        if let Some(death) = self.death {
            digest_commit(world, death.csn, digest);
            (death.strength, death.updated).hash(digest);
        }
        if let Some(next) = self.next {
            digest.word(Store::rank(world, next));
        }
        if self.is_hot() && self.prev.is_some() {
            digest.word(1);
        }
    }
}

/// A commit is known by which of the kept snapshots do not see it.
fn digest_commit(world: &World<Object>, csn: u64, digest: &mut Digest) {
    // Summed up: the order of sessions does not count.
    let mut blind = 0u128;
    for session in Store::sessions_in(world) {
        let xact = Store::xact_in(world, session);
        for (i, snapshot) in xact.snapshots.iter().enumerate() {
            if *snapshot < csn {
                let mut one = Digest::new(201);
                (session, i).hash(&mut one);
                blind = blind.wrapping_add(one.finish128());
            }
        }
    }
    digest.wide(blind);
}

/// How many commands ago something was done. Between statements all of them are equally past.
fn command_age(world: &World<Object>, owner: Owner, cid: u32) -> u64 {
    let xact = Store::xact_in(world, owner.session);
    match xact.wait {
        None => 0,
        Some(_) => 1 + u64::from(xact.command.wrapping_sub(cid)),
    }
}

/// The digest of a row.
pub(super) fn row_digest(row: &[Value]) -> u128 {
    let mut digest = Digest::new(200);
    digest.write_usize(row.len());
    for value in row {
        value.hash(&mut digest);
    }
    digest.finish128()
}

impl Store {
    /// A version with all that belongs to it.
    ///
    /// # Panics
    /// If it is gone.
    pub fn version(&self, version: VersionId) -> &Version {
        match self.world.read(version) {
            Object::Version(version) => version,
            other => panic!("{version:?} is not a version but {other:?}"),
        }
    }

    /// The stored columns of a version.
    pub fn row(&self, version: VersionId) -> &Row {
        &self.version(version).row
    }

    pub(super) fn version_mut(&mut self, id: VersionId) -> &mut Version {
        self.touch_version(id);
        match self.world.write(id) {
            Object::Version(version) => version,
            other => panic!("{id:?} is not a version but {other:?}"),
        }
    }

    /// Says that the digest of a version, and with it its heap's, has changed.
    pub(super) fn touch_version(&mut self, id: VersionId) {
        let table = self.version(id).table;
        self.touch_heap(table);
    }

    pub(super) fn touch_heap(&mut self, rel: RelId) {
        if let Some(slot) = self.world.find(Key::Heap(rel)) {
            self.world.touch(slot);
        }
    }

    pub(super) fn set_row(&mut self, id: VersionId, row: Row) {
        let digest = row_digest(&row);
        let version = self.version_mut(id);
        version.row = row;
        version.row_digest = digest;
    }
}
