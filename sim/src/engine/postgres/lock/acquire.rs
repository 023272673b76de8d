//! Taking heavyweight locks.

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::queue::Place;
use super::{LockMode, LockQueue, LockScope, Modes, Tag, WaitPolicy, WaitRecord};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{Entry, Object, Run, Stop, Store, Suspended, VersionId, Xid};
use crate::world::Slot;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::postgres) enum Request {
    /// It is held now.
    Granted,
    /// It is queued.
    Queued,
    /// It conflicts, and was not queued.
    Refused,
    /// Queueing it would be a deadlock of two.
    Deadlock,
}

/// The error of a deadlock that shows at once or in a check.
pub(in crate::engine::postgres) fn deadlock_error() -> DbError {
    DbError::postgres("40P01", "deadlock detected")
}

impl Store {
    /// Takes a heavyweight lock for the run's session. `Ok(false)` only with a policy that does not
    /// wait.
    ///
    /// Taking a mode again that the session has counts once more for advisory locks; for others it
    /// changes nothing.
    ///
    /// # Errors
    /// [`Stop::Wait`]; 40P01 at once where the queue shows a deadlock already.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn lock(
        &mut self,
        run: &mut Run,
        tag: Tag,
        mode: LockMode,
        scope: LockScope,
        policy: WaitPolicy,
    ) -> Result<bool, Stop> {
        if let Some(entry) = run.replay() {
            let Entry::Granted(granted) = entry else {
                panic!("the journal has {entry:?} where a lock is asked for")
            };
            return Ok(granted);
        }
        let granted = match run.take_suspended()? {
            Some(Suspended::Lock(..)) => {
                self.finish_wait(run.session);
                true
            }
            Some(other) => panic!("{other:?} is suspended where a lock is asked for"),
            None => match self.request_logged(run.session, tag, mode, scope, policy) {
                Request::Granted => true,
                Request::Refused => false,
                Request::Queued => return Err(run.suspend(Suspended::Lock(tag, mode))),
                Request::Deadlock => return Err(deadlock_error().into()),
            },
        };
        run.record(Entry::Granted(granted));
        Ok(granted)
    }

    /// As [`request`](Self::request) for what a statement asks for itself. ACCESS EXCLUSIVE on a
    /// relation is written to the log for standby servers, under a transaction id that is handed out
    /// before any wait.
    fn request_logged(
        &mut self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
        scope: LockScope,
        policy: WaitPolicy,
    ) -> Request {
        let is_logged = matches!(tag, Tag::Relation(_)) && mode == LockMode::AccessExclusive;
        if is_logged && !self.holds(session, tag, mode) {
            self.ensure_xid(session);
        }
        self.request(session, tag, mode, scope, policy, [None; 2])
    }

    /// Asks for a lock, and queues the request if it has to wait and may.
    pub(in crate::engine::postgres) fn request(
        &mut self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
        scope: LockScope,
        policy: WaitPolicy,
        versions: [Option<VersionId>; 2],
    ) -> Request {
        let held = self.holds(session, tag, mode);
        if held && !matches!(tag, Tag::Advisory(_)) {
            return Request::Granted;
        }
        let existing = self.world.find(tag.key());
        if existing.is_none() && tag.is_weak(mode) {
            if self.world.footprint.is_on() {
                self.world.footprint.write(name::weak_lock(session, tag));
                self.world.footprint.read(name::lock(tag));
            }
            self.own(session, tag, mode, scope);
            return Request::Granted;
        }
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::lock(tag));
        }
        if held {
            self.own(session, tag, mode, scope);
            return Request::Granted;
        }
        let slot = existing.unwrap_or_else(|| self.create_queue(tag));
        let queue = self.queue(slot);
        if !queue.conflicts_with_waiters(mode) && !queue.conflicts_with_holders(session, mode) {
            self.queue_mut(slot).hold(session, mode);
            self.own(session, tag, mode, scope);
            self.leave_fast_path(session, tag, Modes::default().with(mode));
            return Request::Granted;
        }
        if policy != WaitPolicy::Block {
            self.drop_idle_queue(slot);
            return Request::Refused;
        }
        match queue.place(session, mode) {
            Place::Granted => {
                self.queue_mut(slot).hold(session, mode);
                self.own(session, tag, mode, scope);
                self.leave_fast_path(session, tag, Modes::default().with(mode));
                Request::Granted
            }
            Place::Deadlock(_) => {
                self.drop_idle_queue(slot);
                Request::Deadlock
            }
            Place::At(at) => {
                let waiter = super::Waiter { session, mode };
                self.queue_mut(slot).waiters.insert(at, waiter);
                self.start_wait(session, tag, mode, scope, versions);
                Request::Queued
            }
        }
    }

    /// Waits for the end of a transaction id. `true` if it has ended already.
    ///
    /// All who wait for one transaction id are granted together when it ends; nobody holds it then.
    pub(in crate::engine::postgres) fn wait_for_xid(
        &mut self,
        session: SessionId,
        xid: Xid,
        versions: [Option<VersionId>; 2],
    ) -> bool {
        let Some(owner) = Store::xid_owner_in(&self.world, xid) else {
            return true;
        };
        debug_assert_ne!(owner.session, session, "a transaction waits for itself");
        let tag = Tag::Transaction(xid);
        let request = self.request(
            session,
            tag,
            LockMode::Share,
            LockScope::Transaction,
            WaitPolicy::Block,
            versions,
        );
        debug_assert_eq!(request, Request::Queued);
        false
    }

    /// Whether the session has this lock in this mode.
    pub(in crate::engine::postgres) fn holds(
        &self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
    ) -> bool {
        let xact = self.xact(session);
        let wanted = (tag, mode);
        xact.levels
            .iter()
            .any(|level| level.locks.contains(&wanted))
            || xact.session_locks.contains(&wanted)
    }

    /// Lists a lock as the session's.
    pub(super) fn own(&mut self, session: SessionId, tag: Tag, mode: LockMode, scope: LockScope) {
        let xact = self.xact_mut(session);
        match scope {
            LockScope::Session => xact.session_locks.push((tag, mode)),
            LockScope::Transaction => match xact.levels.last_mut() {
                Some(level) => level.locks.push((tag, mode)),
                None => panic!("{session:?} takes a transaction's lock outside a transaction"),
            },
        }
    }

    fn start_wait(
        &mut self,
        session: SessionId,
        tag: Tag,
        mode: LockMode,
        scope: LockScope,
        versions: [Option<VersionId>; 2],
    ) {
        self.world.footprint.write(name::WAITS);
        let counters = self.world.counters_mut();
        counters.wait += 1;
        let number = counters.wait;
        let xact = self.xact_mut(session);
        debug_assert!(xact.wait.is_none(), "{session:?} waits twice");
        xact.wait = Some(WaitRecord {
            tag,
            mode,
            scope,
            granted: false,
            number,
            versions,
        });
        self.touch_written(session);
    }

    /// The statement goes on after its request was granted; gives the record of the wait.
    ///
    /// # Panics
    /// If it was not.
    pub(in crate::engine::postgres) fn finish_wait(&mut self, session: SessionId) -> WaitRecord {
        let wait = self.xact_mut(session).wait.take();
        self.touch_written(session);
        match wait {
            Some(wait) if wait.granted => wait,
            wait => panic!("{session:?} is run again without a grant: {wait:?}"),
        }
    }

    /// A version is removed: those who wait must not look at it again.
    pub(in crate::engine::postgres) fn forget_awaited(&mut self, version: VersionId) {
        for session in self.sessions() {
            let is_awaited = |wait: &WaitRecord| wait.versions.contains(&Some(version));
            if self.xact(session).wait.as_ref().is_some_and(is_awaited)
                && let Some(wait) = &mut self.xact_mut(session).wait
            {
                for awaited in &mut wait.versions {
                    awaited.take_if(|awaited| *awaited == version);
                }
            }
        }
    }

    /// Marks a waiter as granted and lists the lock as its own.
    pub(super) fn grant(&mut self, session: SessionId) {
        self.world.footprint.write(name::WAITS);
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::session(session));
        }
        let Some(wait) = self.xact_mut(session).wait.as_mut() else {
            panic!("{session:?} is granted a lock but waits for none")
        };
        wait.granted = true;
        let WaitRecord {
            tag, mode, scope, ..
        } = *wait;
        if !matches!(tag, Tag::Transaction(_) | Tag::Virtual(_)) {
            self.own(session, tag, mode, scope);
            self.leave_fast_path(session, tag, Modes::default().with(mode));
        }
    }

    /// The queue of a lock that has none, with those who hold it already.
    fn create_queue(&mut self, tag: Tag) -> Slot {
        let mut queue = LockQueue::new(tag);
        match tag {
            Tag::Relation(_) => {
                for session in self.sessions() {
                    if self.world.footprint.is_on() {
                        self.world.footprint.read(name::weak_lock(session, tag));
                    }
                    let modes = self.modes_listed(session, tag);
                    queue.set_held(session, modes);
                    self.leave_fast_path(session, tag, modes);
                }
            }
            Tag::Transaction(xid) => {
                if let Some(owner) = Store::xid_owner_in(&self.world, xid) {
                    queue.hold(owner.session, LockMode::Exclusive);
                }
            }
            Tag::Virtual(session) => queue.hold(session, LockMode::Exclusive),
            Tag::Tuple(..) | Tag::Advisory(_) | Tag::Indexes(_) => {}
        }
        self.world.create(Some(tag.key()), Object::Lock(queue))
    }

    pub(in crate::engine::postgres) fn queue(&self, slot: Slot) -> &LockQueue {
        match self.world.read(slot) {
            Object::Lock(queue) => queue,
            other => panic!("{slot:?} is not a lock but {other:?}"),
        }
    }

    pub(in crate::engine::postgres) fn queue_mut(&mut self, slot: Slot) -> &mut LockQueue {
        match self.world.write(slot) {
            Object::Lock(queue) => queue,
            other => panic!("{slot:?} is not a lock but {other:?}"),
        }
    }

    pub(super) fn drop_idle_queue(&mut self, slot: Slot) {
        if self.queue(slot).is_idle() {
            self.world.remove(slot);
        }
    }
}
