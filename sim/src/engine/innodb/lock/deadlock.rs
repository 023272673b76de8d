//! Cycles of waits, and who dies of them.

use std::collections::BTreeSet;

use rowlock_model::schedule::SessionId;

use super::super::flavour::{Grants, TieBreak};
use super::super::object::name;
use super::super::store::Store;
use super::acquire::waits_for;
use super::{Granted, RecordLock, Refused, must_wait};

impl Store {
    /// The transactions that a waiting transaction waits for, in the order of the queue.
    pub fn row_blockers(&self, session: SessionId) -> Vec<SessionId> {
        let Some(wait) = self.trx(session).wait.as_ref().filter(|w| !w.granted) else {
            return Vec::new();
        };
        let passes = self.flavour.upgrade_passes_waiters();
        let queue = self.record_locks(wait.index).at(&wait.pos);
        let end = wait.pos.is_supremum();
        let mine = |l: &RecordLock| l.owner == session && l.waiting;
        let Some(at) = queue.iter().position(mine) else {
            return Vec::new();
        };
        let mut blockers = Vec::new();
        for (i, other) in queue.iter().enumerate() {
            let blocks = other.owner != session
                && (i < at || !other.waiting)
                && must_wait(queue[at].mode, queue[at].span, end, other)
                && !(passes && waits_for(other, session, queue, end));
            if blocks && !blockers.contains(&other.owner) {
                blockers.push(other.owner);
            }
        }
        blockers
    }

    /// The edges that the wait view of MariaDB shows: later requests of a queue are in it as well.
    pub fn shown_blockers(&self, session: SessionId) -> Vec<SessionId> {
        if self.flavour.grants() == Grants::ContentionAware {
            return self.row_blockers(session);
        }
        let Some(wait) = self.trx(session).wait.as_ref().filter(|w| !w.granted) else {
            return Vec::new();
        };
        let queue = self.record_locks(wait.index).at(&wait.pos);
        let end = wait.pos.is_supremum();
        let Some(mine) = queue.iter().find(|l| l.owner == session && l.waiting) else {
            return Vec::new();
        };
        let blocks = |other: &&RecordLock| {
            other.owner != session && must_wait(mine.mode, mine.span, end, other)
        };
        let owners: BTreeSet<SessionId> = queue.iter().filter(blocks).map(|l| l.owner).collect();
        owners.into_iter().collect()
    }

    /// How many transactions wait for this one, directly or through others.
    pub(in crate::engine::innodb) fn waiters_of(&self, session: SessionId) -> usize {
        let mut seen = BTreeSet::from([session]);
        let mut todo = vec![session];
        while let Some(blocker) = todo.pop() {
            for other in self.sessions() {
                if !seen.contains(&other) && self.row_blockers(other).contains(&blocker) {
                    seen.insert(other);
                    todo.push(other);
                }
            }
        }
        seen.len() - 1
    }

    /// What a transaction weighs: its changes, and its lock structures, of which there is one for each
    /// table, and one for each index and kind of record lock.
    pub fn weight(&self, session: SessionId) -> usize {
        self.trx(session).rows_modified() + self.lock_structs(session)
    }

    /// The lock structures of a transaction.
    pub fn lock_structs(&self, session: SessionId) -> usize {
        let trx = self.trx(session);
        let mut kinds = BTreeSet::new();
        for (_, index, pos) in &trx.locks {
            for lock in self.record_locks(*index).at(pos) {
                if lock.owner == session {
                    kinds.insert((*index, lock.mode, lock.span, lock.waiting));
                }
            }
        }
        trx.tables.len() + kinds.len()
    }

    /// A cycle through `session`: who waits for the next one, beginning with it.
    fn cycle(&self, session: SessionId) -> Option<Vec<SessionId>> {
        let mut path = vec![session];
        let mut dead = BTreeSet::new();
        self.search(session, &mut path, &mut dead).then_some(path)
    }

    fn search(
        &self,
        goal: SessionId,
        path: &mut Vec<SessionId>,
        dead: &mut BTreeSet<SessionId>,
    ) -> bool {
        let Some(last) = path.last() else {
            return false;
        };
        for next in self.row_blockers(*last) {
            if next == goal {
                return true;
            }
            if path.contains(&next) || dead.contains(&next) {
                continue;
            }
            path.push(next);
            if self.search(goal, path, dead) {
                return true;
            }
            path.pop();
            dead.insert(next);
        }
        false
    }

    /// Of the lightest, the one that closed the cycle; else the first or the last of the chain.
    fn victim(&self, cycle: &[SessionId]) -> SessionId {
        let weights: Vec<usize> = cycle.iter().map(|s| self.weight(*s)).collect();
        let least = weights.iter().min().copied().unwrap_or(0);
        if weights[0] == least {
            return cycle[0];
        }
        let mut lightest = (0..cycle.len()).filter(|i| weights[*i] == least);
        let at = match self.flavour.tie_break() {
            TieBreak::First => lightest.next(),
            TieBreak::Last => lightest.next_back(),
        };
        cycle[at.unwrap_or(0)]
    }

    /// A transaction begins to wait: as long as that closes a cycle, somebody dies.
    pub(super) fn resolve_deadlocks(&mut self, session: SessionId) -> Result<Granted, Refused> {
        self.world.footprint.read(name::WAITS);
        while self.globals().detects_deadlocks
            && let Some(cycle) = self.cycle(session)
        {
            let victim = self.victim(&cycle);
            self.world.footprint.write(name::session(victim));
            self.rollback(victim);
            if victim == session {
                return Err(Refused::Deadlock);
            }
            self.trx_mut(victim).doomed = true;
        }
        let wait = self.trx(session).wait.as_ref();
        if wait.is_some_and(|wait| wait.granted) {
            self.trx_mut(session).wait = None;
            return Ok(Granted::Held);
        }
        Err(Refused::Wait)
    }
}
