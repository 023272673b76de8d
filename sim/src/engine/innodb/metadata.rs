//! Metadata locks: they keep the schema of a table still while transactions use it.
//!
//! Who reads or changes rows holds a shared lock until its transaction ends; a change of the schema needs
//! an exclusive one. A request that waits for an exclusive lock lets nobody pass (MySQL manual,
//! "Metadata Locking").

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;

use super::object::name;
use super::store::Store;
use crate::world::Digest;

/// The modes of metadata locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetaMode {
    /// Reads rows.
    SharedRead,
    /// Changes rows, or reads them `FOR UPDATE`.
    SharedWrite,
    /// `LOCK TABLES .. READ`.
    SharedReadOnly,
    /// `LOCK TABLES .. WRITE`.
    SharedNoReadWrite,
    /// Changes the schema.
    Exclusive,
}

impl MetaMode {
    /// As `performance_schema.metadata_locks` writes it.
    pub fn name(self) -> &'static str {
        match self {
            MetaMode::SharedRead => "SHARED_READ",
            MetaMode::SharedWrite => "SHARED_WRITE",
            MetaMode::SharedReadOnly => "SHARED_READ_ONLY",
            MetaMode::SharedNoReadWrite => "SHARED_NO_READ_WRITE",
            MetaMode::Exclusive => "EXCLUSIVE",
        }
    }

    fn conflicts(self, other: MetaMode) -> bool {
        use MetaMode::{Exclusive, SharedNoReadWrite, SharedReadOnly, SharedWrite};
        matches!(
            (self.min(other), self.max(other)),
            (_, Exclusive | SharedNoReadWrite) | (SharedWrite, SharedReadOnly)
        )
    }

    /// Whether holding `self` makes a request for `other` superfluous.
    fn covers(self, other: MetaMode) -> bool {
        match self {
            MetaMode::SharedReadOnly => {
                matches!(other, MetaMode::SharedReadOnly | MetaMode::SharedRead)
            }
            _ => self >= other,
        }
    }
}

/// A metadata lock, held or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MetaLock {
    /// Whose.
    pub owner: SessionId,
    /// How strong.
    pub mode: MetaMode,
    /// Of `LOCK TABLES`: stays until `UNLOCK TABLES`.
    pub explicit: bool,
    /// Not granted yet.
    pub waiting: bool,
}

/// The metadata locks of all tables, each in the order in which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    queues: BTreeMap<Arc<str>, Vec<MetaLock>>,
}

/// A metadata lock is not to be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaRefused {
    /// It is queued, and the session waits.
    Wait,
    /// The caller did not want to wait.
    Busy,
    /// Waiting would have closed a cycle, and this session was chosen.
    Deadlock,
}

impl Metadata {
    /// All locks with the names of their tables.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &MetaLock)> {
        let queues = self.queues.iter();
        queues.flat_map(|(name, queue)| queue.iter().map(move |lock| (name, lock)))
    }

    /// Adds everything to `digest`.
    pub fn digest(&self, digest: &mut Digest) {
        self.queues.hash(digest);
    }

    /// Who stands in the way of a request.
    fn blockers(&self, table: &str, at: usize) -> Vec<SessionId> {
        let Some(queue) = self.queues.get(table) else {
            return Vec::new();
        };
        let Some(lock) = queue.get(at) else {
            return Vec::new();
        };
        let mut blockers = Vec::new();
        for (i, other) in queue.iter().enumerate() {
            // Requests behind this one count only if they are granted.
            let counts = !other.waiting || (i < at && other.mode >= MetaMode::SharedReadOnly);
            let blocks = other.owner != lock.owner && counts && lock.mode.conflicts(other.mode);
            if blocks && !blockers.contains(&other.owner) {
                blockers.push(other.owner);
            }
        }
        blockers
    }

    fn waiting(&self, session: SessionId) -> Option<(&Arc<str>, usize)> {
        self.queues.iter().find_map(|(name, queue)| {
            let at = queue.iter().position(|l| l.owner == session && l.waiting)?;
            Some((name, at))
        })
    }
}

impl Store {
    /// Asks for a metadata lock.
    ///
    /// # Errors
    /// See [`MetaRefused`].
    pub fn lock_metadata(
        &mut self,
        session: SessionId,
        table: &str,
        mode: MetaMode,
        explicit: bool,
        waits: bool,
    ) -> Result<(), MetaRefused> {
        let queue = self.metadata().queues.get(table);
        let queue = queue.map_or(&[][..], |queue| &queue[..]);
        let held = |l: &MetaLock| {
            l.owner == session && !l.waiting && l.mode.covers(mode) && (l.explicit || !explicit)
        };
        let contended = queue
            .iter()
            .any(|l| l.waiting || l.mode > MetaMode::SharedWrite);
        let held = queue.iter().any(held);
        if mode > MetaMode::SharedWrite || contended {
            self.world.footprint.write(name::metadata(table));
        } else {
            // Shared locks of several sessions commute.
            self.world
                .footprint
                .write(name::own_metadata(session, table));
            self.world.footprint.read(name::metadata(table));
        }
        if held {
            return Ok(());
        }
        let key: Arc<str> = table.into();
        let queue = self.metadata_mut().queues.entry(key).or_default();
        queue.push(MetaLock {
            owner: session,
            mode,
            explicit,
            waiting: true,
        });
        let at = queue.len() - 1;
        if self.metadata().blockers(table, at).is_empty() {
            if let Some(queue) = self.metadata_mut().queues.get_mut(table) {
                queue[at].waiting = false;
            }
            return Ok(());
        }
        if !waits {
            self.withdraw_metadata(session);
            return Err(MetaRefused::Busy);
        }
        self.world.footprint.write(name::WAITS);
        self.resolve_metadata_deadlocks(session)
    }

    /// Whether a session waits for a metadata lock.
    pub fn waits_for_metadata(&self, session: SessionId) -> bool {
        self.metadata().waiting(session).is_some()
    }

    /// For which table a session waits, and how.
    pub fn metadata_wait(&self, session: SessionId) -> Option<(Arc<str>, MetaMode)> {
        let (name, at) = self.metadata().waiting(session)?;
        Some((Arc::clone(name), self.metadata().queues[name][at].mode))
    }

    /// The request that a session waits with is withdrawn.
    pub fn withdraw_metadata(&mut self, session: SessionId) {
        let Some((table, _)) = self.metadata().waiting(session) else {
            return;
        };
        let table = Arc::clone(table);
        self.world.footprint.write(name::WAITS);
        self.world.footprint.write(name::metadata(&table));
        if let Some(queue) = self.metadata_mut().queues.get_mut(&table) {
            queue.retain(|l| l.owner != session || !l.waiting);
        }
        self.grant_metadata(&table);
    }

    /// Gives back what a session holds: all, or what is not of `LOCK TABLES`.
    pub fn release_metadata(&mut self, session: SessionId, explicit_too: bool) {
        let goes = |l: &MetaLock| l.owner == session && (explicit_too || !l.explicit);
        let queues = &self.metadata().queues;
        let tables = queues.iter().filter(|(_, queue)| queue.iter().any(goes));
        let tables: Vec<Arc<str>> = tables.map(|(name, _)| Arc::clone(name)).collect();
        for table in tables {
            let queue = &self.metadata().queues[&table];
            let contended = |l: &MetaLock| l.waiting || l.mode > MetaMode::SharedWrite;
            if queue.iter().any(contended) {
                self.world.footprint.write(name::metadata(&table));
            } else {
                self.world
                    .footprint
                    .write(name::own_metadata(session, &table));
            }
            if let Some(queue) = self.metadata_mut().queues.get_mut(&table) {
                queue.retain(|l| !goes(l));
            }
            self.grant_metadata(&table);
        }
    }

    fn grant_metadata(&mut self, table: &Arc<str>) {
        loop {
            let metadata = self.metadata();
            let Some(queue) = metadata.queues.get(table) else {
                return;
            };
            let next = (0..queue.len())
                .find(|at| queue[*at].waiting && metadata.blockers(table, *at).is_empty());
            let empty = queue.is_empty();
            match next {
                Some(at) => {
                    let owner = queue[at].owner;
                    self.world.footprint.write(name::WAITS);
                    self.world.footprint.write(name::session(owner));
                    if let Some(queue) = self.metadata_mut().queues.get_mut(table) {
                        queue[at].waiting = false;
                    }
                }
                None => {
                    if empty {
                        self.metadata_mut().queues.remove(table);
                    }
                    return;
                }
            }
        }
    }

    /// Whom a session waits for with a metadata lock or a user lock.
    pub fn outer_blockers(&self, session: SessionId) -> Vec<SessionId> {
        if let Some((table, at)) = self.metadata().waiting(session) {
            return self.metadata().blockers(table, at);
        }
        self.user_locks().blocker(session).into_iter().collect()
    }

    /// A cycle of waits for metadata and user locks through `session`. Waits for rows are not looked at.
    pub(super) fn outer_cycle(&self, session: SessionId) -> Option<Vec<SessionId>> {
        let mut path = vec![session];
        self.outer_search(session, &mut path).then_some(path)
    }

    fn outer_search(&self, goal: SessionId, path: &mut Vec<SessionId>) -> bool {
        let Some(last) = path.last() else {
            return false;
        };
        for next in self.outer_blockers(*last) {
            if next == goal {
                return true;
            }
            if path.contains(&next) {
                continue;
            }
            path.push(next);
            if self.outer_search(goal, path) {
                return true;
            }
            path.pop();
        }
        false
    }

    /// Who changes rows dies before who waits for a user lock, and that before who changes the
    /// schema.
    fn resolve_metadata_deadlocks(&mut self, session: SessionId) -> Result<(), MetaRefused> {
        self.world.footprint.read(name::WAITS);
        while let Some(cycle) = self.outer_cycle(session) {
            let weight = |s: &SessionId| match self.metadata_wait(*s) {
                Some((_, mode)) if mode <= MetaMode::SharedWrite => 0,
                Some(_) => 2,
                None => 1,
            };
            let victim = cycle.iter().min_by_key(|s| weight(s)).copied();
            let victim = victim.unwrap_or(session);
            self.withdraw_metadata(victim);
            if victim == session {
                return Err(MetaRefused::Deadlock);
            }
            self.world.footprint.write(name::session(victim));
            self.cancel_user_wait(victim);
            self.rollback(victim);
            self.trx_mut(victim).doomed = true;
            self.release_metadata(victim, false);
        }
        if self.waits_for_metadata(session) {
            Err(MetaRefused::Wait)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_conflict_as_in_the_manual() {
        use MetaMode::{Exclusive, SharedNoReadWrite, SharedRead, SharedReadOnly, SharedWrite};
        let modes = [
            SharedRead,
            SharedWrite,
            SharedReadOnly,
            SharedNoReadWrite,
            Exclusive,
        ];
        let expected = ["...xx", "..xxx", ".x.xx", "xxxxx", "xxxxx"];
        for (mode, row) in modes.iter().zip(expected) {
            let found: String = modes
                .iter()
                .map(|other| if mode.conflicts(*other) { 'x' } else { '.' })
                .collect();
            assert_eq!(found, row, "{mode:?}");
        }
    }
}
