//! Giving heavyweight locks back.

use rowlock_model::schedule::SessionId;

use super::{LockMode, Modes, Tag};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{Store, Xid};

impl Store {
    /// Releases a session-level advisory lock once; `false` if it is not held.
    pub fn unlock(&mut self, session: SessionId, tag: Tag, mode: LockMode) -> bool {
        let locks = &mut self.xact_mut(session).session_locks;
        let Some(at) = locks.iter().rposition(|lock| *lock == (tag, mode)) else {
            return false;
        };
        locks.remove(at);
        self.released(session, tag);
        true
    }

    /// Releases all session-level advisory locks.
    pub fn unlock_all(&mut self, session: SessionId) {
        let locks = std::mem::take(&mut self.xact_mut(session).session_locks);
        for (tag, _) in locks {
            self.released(session, tag);
        }
    }

    /// Releases one lock of the transaction before its end.
    pub(in crate::engine::postgres) fn release_early(
        &mut self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
    ) {
        for level in self.xact_mut(session).levels.iter_mut().rev() {
            if let Some(at) = level.locks.iter().rposition(|lock| *lock == (tag, mode)) {
                level.locks.remove(at);
                break;
            }
        }
        self.released(session, tag);
    }

    /// After the list of a session's locks has lost one on `tag`: brings the queue up to date, and
    /// grants what can be granted.
    pub(in crate::engine::postgres) fn released(&mut self, session: SessionId, tag: Tag) {
        let Some(slot) = self.world.find(tag.key()) else {
            if self.world.footprint.is_on() {
                self.world.footprint.write(name::weak_lock(session, tag));
            }
            return;
        };
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::lock(tag));
        }
        let modes = self.modes_listed(session, tag);
        if self.queue(slot).held_by(session) == modes {
            return;
        }
        self.queue_mut(slot).set_held(session, modes);
        self.wake(tag);
    }

    /// A transaction id has ended: everybody who waits for it goes on.
    pub(in crate::engine::postgres) fn xid_ended(&mut self, xid: Xid) {
        let tag = Tag::Transaction(xid);
        self.number_handed_out();
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::lock(tag));
        }
        if let Some(slot) = self.world.find(tag.key()) {
            self.queue_mut(slot).holders.clear();
            self.wake(tag);
        }
    }

    /// Grants what can be granted in a queue.
    pub(super) fn wake(&mut self, tag: Tag) {
        let Some(slot) = self.world.find(tag.key()) else {
            return;
        };
        if !self.queue(slot).waiters.is_empty() {
            let granted = self.queue_mut(slot).wake();
            for waiter in granted {
                self.grant(waiter.session);
            }
        }
        self.drop_idle_queue(slot);
    }

    /// Takes the session's request back, as an error in its wait does (deadlock, timeout, cancel);
    /// waiters behind it may be granted. The statement must not be run again. Does nothing if the
    /// session does not wait. A lock that was granted already stays, and goes with its owner.
    pub fn cancel_wait(&mut self, session: SessionId) {
        let Some(wait) = self.xact_mut(session).wait.take() else {
            return;
        };
        self.world.footprint.write(name::WAITS);
        self.touch_written(session);
        if wait.granted {
            return;
        }
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::lock(wait.tag));
        }
        if let Some(slot) = self.world.find(wait.tag.key()) {
            self.queue_mut(slot)
                .waiters
                .retain(|waiter| waiter.session != session);
            self.wake(wait.tag);
        }
    }

    /// The modes in which a session's lists have a lock.
    pub(in crate::engine::postgres) fn modes_listed(&self, session: SessionId, tag: Tag) -> Modes {
        let xact = self.xact(session);
        let levels = xact.levels.iter().flat_map(|level| &level.locks);
        levels
            .chain(&xact.session_locks)
            .filter(|(listed, _)| *listed == tag)
            .fold(Modes::default(), |modes, (_, mode)| modes.with(*mode))
    }
}
