//! The locks as `pg_locks` lists them.
//!
//! A server lists first, session by session, what it keeps in the session itself (its *fast path*: weak
//! locks of up to 16 relations, and the lock on its virtual transaction id), then everything in the
//! common table, which has no order that means anything.
//!
//! Locks that nobody could tell apart from others in any way but by looking at the view are noted
//! only if somebody does ([`Store::show_views`]): those of indexes, and which locks were moved to the
//! common table.

use rowlock_model::schedule::SessionId;

use super::{LockMode, LockScope, Modes, Tag, WaitRecord};
use crate::engine::postgres::object::{Key, name};
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::{Object, RelId, Store, Xid};

/// How many relations a session can lock by its fast path.
const FAST_RELATIONS: usize = 16;

/// The modes that the fast path takes.
const WEAK: [LockMode; 3] = [
    LockMode::AccessShare,
    LockMode::RowShare,
    LockMode::RowExclusive,
];

/// Tables and indexes of the whole server that `pg_stat_activity` reads.
pub(in crate::engine::postgres) const SHARED: [(&str, u32); 6] = [
    ("pg_database", 1_262),
    ("pg_authid", 1_260),
    ("pg_database_datname_index", 2_671),
    ("pg_database_oid_index", 2_672),
    ("pg_authid_rolname_index", 2_676),
    ("pg_authid_oid_index", 2_677),
];

/// Whether a relation belongs to the whole server, not to the database.
pub(in crate::engine::postgres) fn is_shared(relation: RelId) -> bool {
    SHARED.iter().any(|(_, id)| *id == relation.0)
}

/// A row of `pg_locks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLock {
    /// On what.
    pub tag: Tag,
    /// Whose it is.
    pub session: SessionId,
    /// The mode.
    pub mode: LockMode,
    /// Held, or waited for.
    pub granted: bool,
    /// Held by the fast path.
    pub fast: bool,
}

impl Store {
    /// Some program looks at the server's views: from now on the store keeps what only they show, and
    /// it counts in the fingerprint. Not undone.
    pub fn show_views(&mut self) {
        if !self.has_viewers {
            self.show_numbers();
            self.has_viewers = true;
        }
    }

    /// 0: fingerprints know roles only; 1: transaction ids and places of rows count; 2: what the views
    /// show counts as well.
    pub(in crate::engine::postgres) fn detail(&self) -> u64 {
        u64::from(self.world.is_exact()) + u64::from(self.has_viewers)
    }

    /// Whether anybody looks at the server's views.
    #[inline]
    pub(in crate::engine::postgres) fn has_viewers(&self) -> bool {
        self.has_viewers
    }

    /// A step begins that may change what the views show, if anybody looks at them.
    pub(in crate::engine::postgres) fn view_changes(&mut self) {
        if self.has_viewers {
            self.world.footprint.write(name::VIEWS);
        }
    }

    /// A step reads a view, or what a view would show.
    pub(in crate::engine::postgres) fn view_is_read(&mut self) {
        self.world.footprint.read(name::VIEWS);
    }

    /// Lists a lock that is granted in any case, for the views.
    pub(in crate::engine::postgres) fn note_lock(
        &mut self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
    ) {
        if self.has_viewers && !self.holds(session, tag, mode) {
            self.own(session, tag, mode, LockScope::Transaction);
        }
    }

    /// Weak locks on a relation are in the common table from now on, because somebody has or wants a
    /// strong one; they stay there.
    pub(super) fn leave_fast_path(&mut self, session: SessionId, tag: Tag, modes: Modes) {
        if !self.has_viewers {
            return;
        }
        for mode in WEAK {
            let lock = (tag, mode);
            if modes.has(mode) && tag.is_weak(mode) && !self.xact(session).common.contains(&lock) {
                self.xact_mut(session).common.push(lock);
            }
        }
    }

    /// Every lock held and waited for, each once, as `pg_locks` lists them. SIREAD locks are in
    /// [`read_locks`](Self::read_locks).
    pub fn locks(&self) -> Vec<HeldLock> {
        let mut fast = Vec::new();
        let mut common = Vec::new();
        // A session that connects later has an earlier place.
        let mut everybody: Vec<SessionId> = self.sessions().collect();
        everybody.reverse();
        for session in everybody {
            self.list_session(session, &mut fast, &mut common);
        }
        common.sort_unstable();
        common.dedup();
        fast.append(&mut common);
        fast
    }

    fn list_session(
        &self,
        session: SessionId,
        fast: &mut Vec<HeldLock>,
        common: &mut Vec<HeldLock>,
    ) {
        let xact = self.xact(session);
        let row = |tag, mode, fast| HeldLock {
            tag,
            session,
            mode,
            granted: true,
            fast,
        };
        // The places of the fast path are filled from the last to the first.
        let mut places: Vec<(RelId, Vec<LockMode>)> = Vec::new();
        for (tag, mode) in self.spelled_out(session) {
            let place = match tag {
                Tag::Relation(rel)
                    if !is_seat(session)
                        && tag.is_weak(mode)
                        && !is_shared(rel)
                        && !xact.common.contains(&(tag, mode)) =>
                {
                    match places.iter().position(|(held, _)| *held == rel) {
                        None if places.len() < FAST_RELATIONS => {
                            places.push((rel, Vec::new()));
                            Some(places.len() - 1)
                        }
                        place => place,
                    }
                }
                _ => None,
            };
            match place {
                Some(at) => places[at].1.push(mode),
                None => common.push(row(tag, mode, false)),
            }
        }
        for (rel, mut modes) in places.into_iter().rev() {
            modes.sort_unstable();
            modes.dedup();
            let rows = modes.into_iter();
            fast.extend(rows.map(|mode| row(Tag::Relation(rel), mode, true)));
        }
        common.extend(self.awaited(session));
        if xact.is_open() && !is_seat(session) {
            let tag = Tag::Virtual(session);
            let is_awaited = self.world.find(tag.key()).is_some();
            let to = if is_awaited { common } else { &mut *fast };
            to.push(row(tag, LockMode::Exclusive, !is_awaited));
        }
    }

    /// The locks that a session holds, with those of indexes one by one.
    fn spelled_out(&self, session: SessionId) -> Vec<(Tag, LockMode)> {
        let xact = self.xact(session);
        let mut all = Vec::new();
        for level in &xact.levels {
            for (tag, mode) in &level.locks {
                match tag {
                    Tag::Indexes(table) => {
                        let indexes = self.indexes_of(*table).into_iter();
                        all.extend(indexes.map(|index| (Tag::Relation(index), *mode)));
                    }
                    tag => all.push((*tag, *mode)),
                }
            }
            // The id of a released savepoint is locked no longer.
            if level.has_own_xid {
                let own = level.xids.first();
                all.extend(own.map(|xid| (Tag::Transaction(*xid), LockMode::Exclusive)));
            }
        }
        if !is_seat(session)
            && let Some(flight) = &self.session(session).flight
        {
            // An INSERT locks indexes for itself only.
            for table in &flight.opened {
                let indexes = self.indexes_of(*table).into_iter();
                all.extend(indexes.map(|index| (Tag::Relation(index), LockMode::RowExclusive)));
            }
        }
        all.extend(&xact.session_locks);
        all
    }

    /// What a session waits for, as a row of `pg_locks`.
    pub(in crate::engine::postgres) fn awaited(&self, session: SessionId) -> Option<HeldLock> {
        let WaitRecord {
            tag, mode, granted, ..
        } = self.xact(session).wait?;
        let tag = match tag {
            // Who waited for a savepoint that was released waits for its parent.
            Tag::Transaction(xid) => Tag::Transaction(self.present_xid(xid)),
            tag => tag,
        };
        (!granted).then_some(HeldLock {
            tag,
            session,
            mode,
            granted: false,
            fast: false,
        })
    }

    /// The transaction id under which a transaction, or the parent of a released savepoint, is locked.
    fn present_xid(&self, xid: Xid) -> Xid {
        let owner = self.xid_owner(xid);
        let level = owner.and_then(|o| self.xact(o.session).levels.get(usize::from(o.level)));
        match level {
            Some(level) if level.has_own_xid => level.xids[0],
            _ => xid,
        }
    }

    /// The indexes of a table that everybody knows, in the order in which they are locked.
    fn indexes_of(&self, table: RelId) -> Vec<RelId> {
        let slot = self.world.find(Key::Heap(table));
        let Some(Object::Heap(heap)) = slot.map(|slot| self.world.read(slot)) else {
            return Vec::new();
        };
        let is_new = |index: &RelId| {
            let levels = |s: SessionId| self.xact(s).levels.iter();
            self.sessions()
                .any(|s| levels(s).any(|level| level.created.contains(index)))
        };
        let mut indexes: Vec<RelId> = heap.indexes.clone();
        indexes.retain(|index| !is_new(index));
        indexes.sort_unstable();
        indexes
    }
}
