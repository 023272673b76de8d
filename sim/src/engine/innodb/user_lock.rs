//! The locks of `GET_LOCK`: named, counted, of a session and not of a transaction.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;

use super::object::name;
use super::store::Store;
use crate::world::Digest;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UserLock {
    holder: SessionId,
    count: u32,
    waiting: Vec<SessionId>,
}

/// All user locks that somebody holds.
#[derive(Clone, Debug, Default)]
pub struct UserLocks {
    locks: BTreeMap<Arc<str>, UserLock>,
}

/// A user lock is not to be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRefused {
    /// The session waits.
    Wait,
    /// Waiting would have closed a cycle.
    Deadlock,
}

impl UserLocks {
    /// Adds everything to `digest`.
    pub fn digest(&self, digest: &mut Digest) {
        self.locks.hash(digest);
    }

    /// For whom a session waits.
    pub fn blocker(&self, session: SessionId) -> Option<SessionId> {
        let waits = |lock: &&UserLock| lock.waiting.contains(&session);
        self.locks.values().find(waits).map(|lock| lock.holder)
    }

    /// The lock that a session waits for.
    pub fn wait(&self, session: SessionId) -> Option<&Arc<str>> {
        let waits = |(_, lock): &(&Arc<str>, &UserLock)| lock.waiting.contains(&session);
        self.locks.iter().find(waits).map(|(name, _)| name)
    }

    /// All locks: name, who, how often, and whether it is granted.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, SessionId, bool)> {
        self.locks.iter().flat_map(|(name, lock)| {
            let waiting = lock.waiting.iter().map(move |s| (name, *s, false));
            std::iter::once((name, lock.holder, true)).chain(waiting)
        })
    }
}

impl Store {
    /// Takes a user lock, or one more time.
    ///
    /// # Errors
    /// See [`UserRefused`]; after a wait that was granted, the lock is held.
    pub fn take_user_lock(&mut self, session: SessionId, lock: &str) -> Result<(), UserRefused> {
        self.world.footprint.write(name::user_lock(lock));
        match self.user_locks_mut().locks.get_mut(lock) {
            None => {
                let taken = UserLock {
                    holder: session,
                    count: 1,
                    waiting: Vec::new(),
                };
                self.user_locks_mut().locks.insert(lock.into(), taken);
                return Ok(());
            }
            Some(held) if held.holder == session => {
                held.count += 1;
                return Ok(());
            }
            Some(held) => held.waiting.push(session),
        }
        self.world.footprint.write(name::WAITS);
        self.world.footprint.read(name::WAITS);
        if self.outer_cycle(session).is_some() {
            self.cancel_user_wait(session);
            return Err(UserRefused::Deadlock);
        }
        Err(UserRefused::Wait)
    }

    /// Who holds a user lock.
    pub fn user_lock_holder(&mut self, lock: &str) -> Option<SessionId> {
        self.world.footprint.read(name::user_lock(lock));
        self.user_locks().locks.get(lock).map(|held| held.holder)
    }

    /// Gives a user lock back, once. `None`: nobody holds it; `false`: somebody else does.
    pub fn release_user_lock(&mut self, session: SessionId, lock: &str) -> Option<bool> {
        let holder = self.user_lock_holder(lock)?;
        if holder != session {
            return Some(false);
        }
        self.world.footprint.write(name::user_lock(lock));
        if let Some(held) = self.user_locks_mut().locks.get_mut(lock) {
            held.count -= 1;
            if held.count == 0 {
                self.pass_on(lock);
            }
        }
        Some(true)
    }

    /// Gives all user locks of a session back; how many, counted as often as they were taken.
    pub fn release_user_locks(&mut self, session: SessionId) -> u32 {
        let locks = &self.user_locks().locks;
        let mine = locks.iter().filter(|(_, l)| l.holder == session);
        let mine: Vec<(Arc<str>, u32)> = mine.map(|(n, l)| (Arc::clone(n), l.count)).collect();
        for (lock, _) in &mine {
            self.world.footprint.write(name::user_lock(lock));
            self.pass_on(lock);
        }
        mine.iter().map(|(_, count)| count).sum()
    }

    fn pass_on(&mut self, lock: &str) {
        let locks = &mut self.user_locks_mut().locks;
        let Some(held) = locks.get_mut(lock) else {
            return;
        };
        if held.waiting.is_empty() {
            locks.remove(lock);
            return;
        }
        let next = held.waiting.remove(0);
        held.holder = next;
        held.count = 1;
        self.world.footprint.write(name::WAITS);
        self.world.footprint.write(name::session(next));
    }

    /// A session does not wait for a user lock any more.
    pub fn cancel_user_wait(&mut self, session: SessionId) {
        if let Some(lock) = self.user_locks().wait(session).cloned() {
            self.world.footprint.write(name::user_lock(&lock));
            self.world.footprint.write(name::WAITS);
            if let Some(held) = self.user_locks_mut().locks.get_mut(&lock) {
                held.waiting.retain(|s| *s != session);
            }
        }
    }
}
