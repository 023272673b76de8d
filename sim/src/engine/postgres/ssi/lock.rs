//! SIREAD locks: what a transaction has read. They block nobody.
//!
//! A lock on something that a coarser lock of the transaction covers is not taken. More than two row
//! locks on a page become a lock on the page; more than 31 row and page locks on a relation become a
//! lock on the relation.

use super::{SxactId, Target};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{RelId, Store};

/// How many row locks on one page are kept as such (`max_pred_locks_per_page`).
const MOST_ON_PAGE: usize = 2;
/// How many row and page locks on one relation are kept as such (`max_pred_locks_per_relation` at
/// its default, with the default `max_pred_locks_per_transaction`).
const MOST_ON_RELATION: usize = 31;

impl Store {
    /// Takes a SIREAD lock for a transaction.
    pub(super) fn lock_read(&mut self, id: SxactId, target: Target) {
        let rel = target.relation();
        let session = self.ssi().find(id).session;
        if self.world.footprint.is_on() {
            let table = self.table_of(rel);
            self.world.footprint.write(name::reads_of(session, table));
        }
        if self.is_covered(id, target) {
            return;
        }
        // Ancestors count the new lock already; the coarsest that has too many is locked instead.
        let page = self
            .page_of_target(target)
            .filter(|_| matches!(target, Target::Tuple(..)));
        let mut instead = None;
        if let Some(page) = page
            && self.locks_on_page(id, rel, page) + 1 > MOST_ON_PAGE
        {
            instead = Some(Target::Page(rel, page));
        }
        if !matches!(target, Target::Relation(_)) && self.locks_on(id, rel) + 1 > MOST_ON_RELATION {
            instead = Some(Target::Relation(rel));
        }
        if let Some(coarser) = instead {
            self.lock_read(id, coarser);
            return;
        }
        let finer: Vec<Target> = match target {
            Target::Tuple(..) => Vec::new(),
            Target::Page(_, page) => {
                let locks = self.ssi().find(id).locks.iter().copied();
                locks
                    .filter(|t| matches!(t, Target::Tuple(r, _) if *r == rel))
                    .filter(|t| self.page_of_target(*t) == Some(page))
                    .collect()
            }
            Target::Relation(_) => {
                let locks = self.ssi().find(id).locks.iter().copied();
                locks.filter(|t| t.relation() == rel).collect()
            }
        };
        let locks = &mut self.ssi_mut().find_mut(id).locks;
        locks.retain(|t| !finer.contains(t));
        let at = locks.partition_point(|t| *t < target);
        locks.insert(at, target);
    }

    /// Whether a transaction has this lock, or a coarser one.
    fn is_covered(&self, id: SxactId, target: Target) -> bool {
        let locks = &self.ssi().find(id).locks;
        let has = |target: Target| locks.binary_search(&target).is_ok();
        let rel = target.relation();
        has(target)
            || has(Target::Relation(rel))
            || self
                .page_of_target(target)
                .is_some_and(|page| has(Target::Page(rel, page)))
    }

    fn locks_on(&self, id: SxactId, rel: RelId) -> usize {
        let locks = self.ssi().find(id).locks.iter();
        locks.filter(|t| t.relation() == rel).count()
    }

    fn locks_on_page(&self, id: SxactId, rel: RelId, page: u32) -> usize {
        let locks = self.ssi().find(id).locks.iter();
        locks
            .filter(|t| matches!(t, Target::Tuple(r, _) if *r == rel))
            .filter(|t| self.page_of_target(**t) == Some(page))
            .count()
    }

    pub(super) fn page_of_target(&self, target: Target) -> Option<u32> {
        match target {
            Target::Relation(_) => None,
            Target::Page(_, page) => Some(page),
            Target::Tuple(_, version) => Some(self.page_of(version)),
        }
    }
}
