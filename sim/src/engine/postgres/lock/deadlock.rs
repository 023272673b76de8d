//! The deadlock check.
//!
//! A session that waits has a *hard* edge to every holder of a conflicting mode and a *soft* edge to
//! every waiter ahead of it in the same queue that asks for a conflicting mode. A cycle of hard edges
//! can only be broken by an error; a cycle with a soft edge in it is broken by turning that edge
//! round, that is by letting the later waiter pass the earlier one. The check tries sets of
//! reversals, each new cycle's soft edges in turn, until the graph has no cycle through the session
//! or nothing is left to try.

use rowlock_model::schedule::SessionId;

use super::{LockMode, LockQueue, Tag, conflicts};
use crate::engine::postgres::Store;
use crate::engine::postgres::object::name;

/// A cycle of waits: each session waits for the next, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each session with what it waits for; the one that checked, and so the victim, first.
    pub cycle: Vec<(SessionId, Tag, LockMode)>,
}

/// What the check of one waiting session finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadlockCheck {
    /// No cycle through this session.
    None,
    /// Cycles that reordering these queues resolves; each with its new order.
    Soft(Vec<(Tag, Vec<SessionId>)>),
    /// A cycle that only an error breaks.
    Hard(Deadlock),
}

/// A soft edge: `waiter` waits for `blocker`, which is ahead of it in the queue of `tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SoftEdge {
    waiter: SessionId,
    blocker: SessionId,
    tag: Tag,
}

struct Check<'a> {
    store: &'a Store,
    start: SessionId,
    /// Soft edges that are reversed in the configuration being tried.
    reversed: Vec<SoftEdge>,
    /// The queue orders that follow from them.
    orders: Vec<(Tag, Vec<SessionId>)>,
    /// The hard cycle found first.
    hard: Option<Vec<SessionId>>,
}

/// What one configuration shows.
enum Trial {
    Clean,
    Soft(Vec<SoftEdge>),
    Hard,
}

impl Store {
    /// What the deadlock check of a session finds now. [`DeadlockCheck::None`] if it does not wait.
    pub fn check_deadlock(&self, session: SessionId) -> DeadlockCheck {
        if !self.is_waiting(session) {
            return DeadlockCheck::None;
        }
        let mut check = Check {
            store: self,
            start: session,
            reversed: Vec::new(),
            orders: Vec::new(),
            hard: None,
        };
        if check.recurse() {
            let cycle = check.hard.unwrap_or_default();
            let link = |s: SessionId| self.wait(s).map(|wait| (s, wait.tag, wait.mode));
            return DeadlockCheck::Hard(Deadlock {
                cycle: cycle.into_iter().filter_map(link).collect(),
            });
        }
        if check.orders.is_empty() {
            DeadlockCheck::None
        } else {
            DeadlockCheck::Soft(check.orders)
        }
    }

    /// The deadlock that the check of a waiting session would report now, if any.
    pub fn deadlock(&self, session: SessionId) -> Option<Deadlock> {
        match self.check_deadlock(session) {
            DeadlockCheck::Hard(deadlock) => Some(deadlock),
            _ => None,
        }
    }

    /// Reorders the queues as a check found that resolves soft cycles, and grants what can be
    /// granted then.
    pub fn reorder_queues(&mut self, orders: &[(Tag, Vec<SessionId>)]) {
        self.world.footprint.write(name::WAITS);
        for (tag, order) in orders {
            let Some(slot) = self.world.find(tag.key()) else {
                continue;
            };
            if self.world.footprint.is_on() {
                self.world.footprint.write(name::lock(*tag));
            }
            let queue = self.queue_mut(slot);
            queue
                .waiters
                .sort_by_key(|waiter| order.iter().position(|session| *session == waiter.session));
            self.wake(*tag);
        }
    }
}

impl Check<'_> {
    /// Looks for a set of reversals without cycles; `true` if there is none.
    fn recurse(&mut self) -> bool {
        let edges = match self.trial() {
            Trial::Hard => return true,
            Trial::Clean => return false,
            Trial::Soft(edges) => edges,
        };
        for edge in edges {
            self.reversed.push(edge);
            if !self.recurse() {
                return false;
            }
            self.reversed.pop();
        }
        true
    }

    /// Tries the present set of reversals. Soft edges of the last cycle found are what can be
    /// reversed next; a cycle without soft edges ends the search.
    fn trial(&mut self) -> Trial {
        let Some(orders) = self.expand() else {
            return Trial::Hard;
        };
        self.orders = orders;
        let mut soft = Vec::new();
        let mut starts: Vec<SessionId> = Vec::new();
        for edge in &self.reversed {
            starts.extend([edge.waiter, edge.blocker]);
        }
        starts.push(self.start);
        for start in starts {
            let mut walk = Walk::default();
            if self.find_cycle(start, start, &mut walk) {
                if walk.soft.is_empty() {
                    if start == self.start || self.hard.is_none() {
                        self.hard = Some(walk.cycle(start));
                    }
                    return Trial::Hard;
                }
                if self.hard.is_none() && start == self.start {
                    self.hard = Some(walk.cycle(start));
                }
                soft = walk.soft;
            }
        }
        if soft.is_empty() {
            Trial::Clean
        } else {
            Trial::Soft(soft)
        }
    }

    /// Depth-first search for a cycle back to `start`.
    fn find_cycle(&self, at: SessionId, start: SessionId, walk: &mut Walk) -> bool {
        if walk.visited.contains(&at) {
            return at == start && !walk.visited.is_empty() && walk.depth > 0;
        }
        walk.visited.push(at);
        let Some(wait) = self.store.wait(at).filter(|wait| !wait.granted) else {
            return false;
        };
        let Some(slot) = self.store.world.find(wait.tag.key()) else {
            return false;
        };
        let queue = self.store.queue(slot);
        let conflicting = conflicts(wait.mode);
        for (holder, modes) in &queue.holders {
            if *holder != at && conflicting.meets(*modes) && self.step(at, *holder, start, walk) {
                return true;
            }
        }
        for ahead in self.ahead(queue, at) {
            let asks = queue.waiters.iter().find(|w| w.session == ahead);
            let blocks = asks.is_some_and(|waiter| conflicting.has(waiter.mode));
            if blocks && self.step(at, ahead, start, walk) {
                walk.soft.push(SoftEdge {
                    waiter: at,
                    blocker: ahead,
                    tag: wait.tag,
                });
                return true;
            }
        }
        false
    }

    fn step(&self, from: SessionId, to: SessionId, start: SessionId, walk: &mut Walk) -> bool {
        walk.depth += 1;
        let found = self.find_cycle(to, start, walk);
        walk.depth -= 1;
        if found {
            walk.path.push(from);
        }
        found
    }

    /// The waiters ahead of a session in the order that is being tried.
    fn ahead(&self, queue: &LockQueue, session: SessionId) -> Vec<SessionId> {
        let tried = self.orders.iter().find(|(tag, _)| *tag == queue.tag);
        let order: Vec<SessionId> = match tried {
            Some((_, order)) => order.clone(),
            None => queue.waiters.iter().map(|w| w.session).collect(),
        };
        order.into_iter().take_while(|s| *s != session).collect()
    }

    /// The queue orders that follow from the reversals: for each queue concerned, the order that
    /// differs least from the present one, taking from the back those that nobody left must follow.
    /// `None` if the reversals contradict each other.
    fn expand(&self) -> Option<Vec<(Tag, Vec<SessionId>)>> {
        let mut orders: Vec<(Tag, Vec<SessionId>)> = Vec::new();
        // The latest reversal first, so that queues are listed as they were found.
        for edge in self.reversed.iter().rev() {
            if orders.iter().any(|(tag, _)| *tag == edge.tag) {
                continue;
            }
            let queue = self.store.queue(self.store.world.find(edge.tag.key())?);
            let mut left: Vec<SessionId> = queue.waiters.iter().map(|w| w.session).collect();
            let mut order = Vec::new();
            while !left.is_empty() {
                // The last waiter that need not precede anybody who is still left.
                let at = (0..left.len()).rev().find(|at| {
                    !self.reversed.iter().any(|e| {
                        e.tag == edge.tag && e.waiter == left[*at] && left.contains(&e.blocker)
                    })
                })?;
                order.push(left.remove(at));
            }
            order.reverse();
            orders.push((edge.tag, order));
        }
        Some(orders)
    }
}

/// One depth-first search.
#[derive(Default)]
struct Walk {
    visited: Vec<SessionId>,
    depth: usize,
    /// The cycle, backwards, without its last link.
    path: Vec<SessionId>,
    soft: Vec<SoftEdge>,
}

impl Walk {
    fn cycle(&self, start: SessionId) -> Vec<SessionId> {
        let mut cycle: Vec<SessionId> = self.path.iter().rev().copied().collect();
        if let Some(at) = cycle.iter().position(|s| *s == start) {
            cycle.rotate_left(at);
        }
        cycle
    }
}
