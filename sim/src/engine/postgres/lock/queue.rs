//! One lock's holders and queue.

use std::hash::Hash;

use rowlock_model::schedule::SessionId;

use super::{LockMode, Modes, Tag, conflicts};
use crate::engine::postgres::Object;
use crate::world::{Digest, World};

/// A request that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Whose it is.
    pub session: SessionId,
    /// The mode asked for.
    pub mode: LockMode,
}

/// A heavyweight lock that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockQueue {
    /// On what.
    pub tag: Tag,
    /// Who holds it, by session, each once with all modes.
    pub holders: Vec<(SessionId, Modes)>,
    /// Who waits, first in line first.
    pub waiters: Vec<Waiter>,
}

/// Where a request that conflicts goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: it goes before waiters and conflicts with nothing there, so it is granted.
    Granted,
    /// Into the queue, at this position.
    At(usize),
    /// A waiter that it must precede holds something that it wants: a deadlock of two.
    Deadlock(Waiter),
}

impl LockQueue {
    pub(super) fn new(tag: Tag) -> LockQueue {
        LockQueue {
            tag,
            holders: Vec::new(),
            waiters: Vec::new(),
        }
    }

    pub(in crate::engine::postgres) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        self.tag.digest(world, digest);
        // Summed up: holders are kept by session, and that order does not count.
        let one = |holder: &(SessionId, Modes)| {
            let mut digest = Digest::new(101);
            holder.hash(&mut digest);
            digest.finish128()
        };
        digest.wide(self.holders.iter().map(one).fold(0, u128::wrapping_add));
        self.waiters.hash(digest);
    }

    /// What a session holds.
    pub fn held_by(&self, session: SessionId) -> Modes {
        let found = self.holders.iter().find(|(holder, _)| *holder == session);
        found.map_or(Modes::default(), |(_, modes)| *modes)
    }

    /// Whether another session holds a mode that conflicts.
    pub(super) fn conflicts_with_holders(&self, session: SessionId, mode: LockMode) -> bool {
        let conflicting = conflicts(mode);
        self.holders
            .iter()
            .any(|(holder, modes)| *holder != session && conflicting.meets(*modes))
    }

    /// Whether any waiter asks for a mode that conflicts.
    pub(super) fn conflicts_with_waiters(&self, mode: LockMode) -> bool {
        let conflicting = conflicts(mode);
        self.waiters
            .iter()
            .any(|waiter| conflicting.has(waiter.mode))
    }

    /// Adds a mode to what a session holds.
    pub(super) fn hold(&mut self, session: SessionId, mode: LockMode) {
        match self.holders.binary_search_by_key(&session, |(s, _)| *s) {
            Ok(at) => self.holders[at].1 = self.holders[at].1.with(mode),
            Err(at) => self
                .holders
                .insert(at, (session, Modes::default().with(mode))),
        }
    }

    /// Sets what a session holds.
    pub(in crate::engine::postgres) fn set_held(&mut self, session: SessionId, modes: Modes) {
        match self.holders.binary_search_by_key(&session, |(s, _)| *s) {
            Ok(at) if modes.is_empty() => {
                self.holders.remove(at);
            }
            Ok(at) => self.holders[at].1 = modes,
            Err(_) if modes.is_empty() => {}
            Err(at) => self.holders.insert(at, (session, modes)),
        }
    }

    /// Finds the place of a request that conflicts: at the end, unless somebody in the queue waits
    /// for what the session holds already; then before the first of these.
    pub(super) fn place(&self, session: SessionId, mode: LockMode) -> Place {
        let mine = self.held_by(session);
        let wanted = conflicts(mode);
        let mut ahead = Modes::default();
        if !mine.is_empty() {
            for (at, waiter) in self.waiters.iter().enumerate() {
                if conflicts(waiter.mode).meets(mine) {
                    if wanted.meets(self.held_by(waiter.session)) {
                        return Place::Deadlock(*waiter);
                    }
                    if !wanted.meets(ahead) && !self.conflicts_with_holders(session, mode) {
                        return Place::Granted;
                    }
                    return Place::At(at);
                }
                ahead = ahead.with(waiter.mode);
            }
        }
        Place::At(self.waiters.len())
    }

    /// Takes those out of the queue that can be granted now: whoever conflicts neither with holders
    /// nor with a waiter before it that has to go on sleeping.
    pub(super) fn wake(&mut self) -> Vec<Waiter> {
        let mut granted = Vec::new();
        let mut ahead = Modes::default();
        let mut at = 0;
        while at < self.waiters.len() {
            let waiter = self.waiters[at];
            let blocked = conflicts(waiter.mode).meets(ahead)
                || self.conflicts_with_holders(waiter.session, waiter.mode);
            if blocked {
                ahead = ahead.with(waiter.mode);
                at += 1;
                continue;
            }
            self.waiters.remove(at);
            if !matches!(self.tag, Tag::Transaction(_) | Tag::Virtual(_)) {
                self.hold(waiter.session, waiter.mode);
            }
            granted.push(waiter);
        }
        granted
    }

    /// The sessions that a waiter waits for: holders of a conflicting mode, and waiters ahead of it
    /// that ask for one.
    pub fn blockers(&self, session: SessionId) -> Vec<SessionId> {
        let Some(at) = self.waiters.iter().position(|w| w.session == session) else {
            return Vec::new();
        };
        let conflicting = conflicts(self.waiters[at].mode);
        let hard = self
            .holders
            .iter()
            .filter(|(holder, modes)| *holder != session && conflicting.meets(*modes))
            .map(|(holder, _)| *holder);
        let soft = self.waiters[..at]
            .iter()
            .filter(|waiter| conflicting.has(waiter.mode))
            .map(|waiter| waiter.session);
        let mut all: Vec<SessionId> = hard.chain(soft).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the object can go: nobody waits, and what is held is listed elsewhere.
    pub(super) fn is_idle(&self) -> bool {
        let weak = Modes(0b111);
        self.waiters.is_empty()
            && match self.tag {
                Tag::Transaction(_) | Tag::Virtual(_) => true,
                Tag::Relation(_) => self.holders.iter().all(|(_, m)| m.0 & !weak.0 == 0),
                Tag::Tuple(..) | Tag::Advisory(_) | Tag::Indexes(_) => self.holders.is_empty(),
            }
    }
}
