//! Giving locks back: who is granted next, and what gap locks become of records that go or come.

use rowlock_model::Isolation;
use rowlock_model::schedule::SessionId;

use super::super::flavour::Grants;
use super::super::key::Pos;
use super::super::object::name;
use super::super::shape::{IndexId, IndexShape};
use super::super::store::Store;
use super::acquire::waits_for;
use super::{Mode, RecordLock, Span, must_wait};
use crate::loose::catalog::TableId;

impl Store {
    /// Gives back all record and table locks of a transaction, in the reverse order of their first.
    pub fn release_locks(&mut self, session: SessionId) {
        let trx = self.trx_mut(session);
        trx.tables.clear();
        if trx.wait.take().is_some() {
            self.world.footprint.write(name::WAITS);
        }
        let places = std::mem::take(&mut self.trx_mut(session).locks);
        for (_, index, pos) in places.iter().rev() {
            self.queue_mut(*index, pos).retain(|l| l.owner != session);
            self.grant(*index, pos);
        }
    }

    /// Gives back one granted lock (READ COMMITTED: the row does not match).
    pub fn release_one(
        &mut self,
        session: SessionId,
        index: IndexId,
        pos: &Pos,
        mode: Mode,
        span: Span,
    ) {
        let queue = self.queue_mut(index, pos);
        let it =
            |l: &RecordLock| l.owner == session && l.mode == mode && l.span == span && !l.waiting;
        if let Some(at) = queue.iter().position(it) {
            queue.remove(at);
        }
        self.forget_place(session, index, pos);
        self.grant(index, pos);
    }

    /// The transaction does not wait any more: its request is withdrawn.
    pub fn withdraw_wait(&mut self, session: SessionId) {
        let Some(wait) = self.trx_mut(session).wait.take() else {
            return;
        };
        self.world.footprint.write(name::WAITS);
        let queue = self.queue_mut(wait.index, &wait.pos);
        queue.retain(|l| l.owner != session || !l.waiting);
        self.forget_place(session, wait.index, &wait.pos);
        self.grant(wait.index, &wait.pos);
    }

    fn forget_place(&mut self, session: SessionId, index: IndexId, pos: &Pos) {
        let left = self.record_locks(index).at(pos);
        if !left.iter().any(|l| l.owner == session) {
            let here = |(_, i, p): &(TableId, IndexId, Pos)| *i == index && p == pos;
            self.trx_mut(session).locks.retain(|place| !here(place));
        }
    }

    /// Grants what can be granted on a place after something was given back.
    pub(in super::super) fn grant(&mut self, index: IndexId, pos: &Pos) {
        while let Some(at) = self.next_grant(index, pos) {
            let lock = &mut self.queue_mut(index, pos)[at];
            lock.waiting = false;
            let owner = lock.owner;
            self.wake(owner);
        }
        self.tidy_queue(index, pos);
    }

    fn wake(&mut self, session: SessionId) {
        self.world.footprint.write(name::WAITS);
        self.world.footprint.write(name::session(session));
        if let Some(wait) = &mut self.trx_mut(session).wait {
            wait.granted = true;
        }
    }

    /// The waiting request on a place that is granted next.
    fn next_grant(&mut self, index: IndexId, pos: &Pos) -> Option<usize> {
        let grants = self.flavour.grants();
        let passes = self.flavour.upgrade_passes_waiters();
        let queue = self.locks(index, pos).to_vec();
        let supremum = pos.is_supremum();
        let free = |at: usize| {
            let lock = &queue[at];
            let blocks = |(i, other): (usize, &RecordLock)| {
                let counts = match grants {
                    Grants::ContentionAware => !other.waiting,
                    Grants::Fifo => i < at || !other.waiting,
                };
                counts
                    && other.owner != lock.owner
                    && must_wait(lock.mode, lock.span, supremum, other)
                    && !(passes && waits_for(other, lock.owner, &queue, supremum))
            };
            !queue.iter().enumerate().any(blocks)
        };
        let mut candidates: Vec<usize> = (0..queue.len()).filter(|at| queue[*at].waiting).collect();
        if grants == Grants::ContentionAware {
            candidates.sort_by_key(|at| std::cmp::Reverse(self.waiters_of(queue[*at].owner)));
        }
        candidates.into_iter().find(|at| free(*at))
    }

    /// A record was put in before `successor`: who has the gap locked has both halves locked.
    pub fn split_gap(&mut self, table: TableId, index: &IndexShape, new: &Pos, successor: &Pos) {
        let end = successor.is_supremum();
        let inherited = self.locks(index.id, successor).to_vec();
        for lock in inherited {
            let has_gap = lock.span != Span::Insert && (end || lock.span != Span::Record);
            if has_gap && !lock.waiting {
                self.inherit(table, index, new, &lock);
            }
        }
    }

    /// A record is taken out: what was locked of it is locked of the gap, now before `successor`. Who
    /// waits for it waits no more.
    pub fn merge_gap(
        &mut self,
        table: TableId,
        index: &IndexShape,
        old: &Pos,
        successor: &Pos,
        undone: Option<SessionId>,
    ) {
        let locks = self.locks(index.id, old).to_vec();
        for lock in &locks {
            // At READ COMMITTED only the locks of duplicate checks are inherited.
            let trx = self.trx(lock.owner);
            let of_check = if trx.duplicates { Mode::X } else { Mode::S };
            let inherited = trx.level > Isolation::ReadCommitted
                || lock.mode == of_check
                || undone == Some(lock.owner);
            if lock.span != Span::Insert && inherited {
                self.inherit(table, index, successor, lock);
            }
        }
        if locks.is_empty() {
            return;
        }
        self.queue_mut(index.id, old).clear();
        for lock in &locks {
            self.forget_place(lock.owner, index.id, old);
            if lock.waiting {
                self.wake(lock.owner);
            }
        }
        self.tidy_queue(index.id, old);
    }

    fn inherit(&mut self, table: TableId, index: &IndexShape, pos: &Pos, lock: &RecordLock) {
        // Only the same lock is not added twice: a stronger one does not count.
        let span = if pos.is_supremum() {
            Span::NextKey
        } else {
            Span::Gap
        };
        let queue = self.locks(index.id, pos);
        let held = |l: &RecordLock| {
            l.owner == lock.owner && l.mode == lock.mode && l.span == span && !l.waiting
        };
        if !queue.iter().any(held) {
            self.add_lock(lock.owner, table, index, pos, lock.mode, Span::Gap, false);
        }
    }
}
