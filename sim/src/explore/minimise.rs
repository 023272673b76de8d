//! Small schedules from failing ones: fewest faults, then moves of the clock, then switches between
//! processes, then events; among equal ones the first in the order of choices, so that equal errors
//! come out equal.
//!
//! For what was found at random, or within a bound: a search over the graph finds the smallest one by
//! itself. Stretches of events are left out as long as the same property fails (ddmin); then events
//! are moved to others of their process, and neighbours are exchanged, as long as that makes it smaller.

use rowlock_model::schedule::Choice;

use super::check::Checks;
use super::choices::is_fault;
use super::error::ExploreError;
use super::graph::Packed;
use super::world::{Flaw, World};
use crate::database::Database;

/// Runs of a schedule after which it is small enough.
const ATTEMPTS_MAX: u32 = 20_000;

/// What counts, most important first.
type Cost = (usize, usize, usize, usize, Vec<Packed>);

impl<D: Database> World<D> {
    /// Makes a failing schedule smaller, as long as the same property still fails.
    pub(crate) fn shrink(
        &mut self,
        checks: &mut Checks,
        path: Vec<Choice>,
        property: &str,
    ) -> Result<Vec<Choice>, ExploreError> {
        let mut attempts = ATTEMPTS_MAX;
        let mut best = path;
        loop {
            let before = self.cost(&best);
            self.leave_out(checks, &mut best, property, &mut attempts)?;
            self.rearrange(checks, &mut best, property, &mut attempts)?;
            if self.cost(&best) >= before || attempts == 0 {
                return Ok(best);
            }
        }
    }

    pub(super) fn cost(&self, path: &[Choice]) -> Cost {
        let faults = path.iter().filter(|choice| is_fault(**choice)).count();
        let moves = path.iter().filter(|c| matches!(c, Choice::Advance(_)));
        let workers: Vec<usize> = path
            .iter()
            .filter(|choice| {
                matches!(
                    choice,
                    Choice::Step(..) | Choice::Lose(..) | Choice::Cancel(..) | Choice::Continue(_)
                )
            })
            .filter_map(|choice| self.process_of(*choice))
            .collect();
        let switches = workers.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let order = path.iter().map(|choice| Packed::from(*choice)).collect();
        (faults, moves.count(), switches, path.len(), order)
    }

    /// Leaves out stretches of events, long ones first, then single ones.
    fn leave_out(
        &mut self,
        checks: &mut Checks,
        best: &mut Vec<Choice>,
        property: &str,
        attempts: &mut u32,
    ) -> Result<(), ExploreError> {
        let mut size = best.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < best.len() {
                let mut shorter = best.clone();
                shorter.drain(at..(at + size).min(best.len()));
                if !self.takes(checks, best, &shorter, property, attempts)? {
                    at += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Moves each event to others of its process, or one place to the front.
    fn rearrange(
        &mut self,
        checks: &mut Checks,
        best: &mut Vec<Choice>,
        property: &str,
        attempts: &mut u32,
    ) -> Result<(), ExploreError> {
        let mut at = 1;
        while at < best.len() {
            let process = self.process_of(best[at]);
            let same = |other: &Choice| self.process_of(*other) == process;
            let mut places: Vec<usize> = Vec::new();
            places.extend(best[..at].iter().rposition(same).map(|before| before + 1));
            places.push(at - 1);
            places.extend(best[at + 1..].iter().position(same).map(|next| at + next));
            let mut moved = false;
            for place in places {
                if place == at {
                    continue;
                }
                let mut other = best.clone();
                let event = other.remove(at);
                other.insert(place.min(other.len()), event);
                if self.cost(&other) < self.cost(best)
                    && self.takes(checks, best, &other, property, attempts)?
                {
                    moved = true;
                    break;
                }
            }
            at = if moved { 1 } else { at + 1 };
        }
        Ok(())
    }

    /// Whether `other`, as far as it is possible, fails as well and is smaller: then it is the best one.
    fn takes(
        &mut self,
        checks: &mut Checks,
        best: &mut Vec<Choice>,
        other: &[Choice],
        property: &str,
        attempts: &mut u32,
    ) -> Result<bool, ExploreError> {
        let Some(left) = attempts.checked_sub(1) else {
            return Ok(false);
        };
        *attempts = left;
        let Some(taken) = self.fails(checks, other, property)? else {
            return Ok(false);
        };
        let smaller = self.cost(&taken) < self.cost(best);
        if smaller {
            *best = taken;
        }
        Ok(smaller)
    }

    /// Runs those of `path` that are possible where they stand; what was run, if the property
    /// fails.
    fn fails(
        &mut self,
        checks: &mut Checks,
        path: &[Choice],
        property: &str,
    ) -> Result<Option<Vec<Choice>>, ExploreError> {
        let mark = self.mark();
        let mut taken = Vec::new();
        let mut enabled = Vec::new();
        let mut flaw = checks.state(self).err();
        for choice in path {
            if flaw.is_some() {
                break;
            }
            enabled.clear();
            self.choices(&mut enabled);
            if enabled.contains(choice) {
                taken.push(*choice);
                flaw = self
                    .apply(*choice)
                    .err()
                    .or_else(|| checks.state(self).err());
            }
        }
        if flaw.is_none() {
            enabled.clear();
            let work = self.choices(&mut enabled);
            if !work && !World::<D>::may_advance(&enabled) {
                flaw = checks.end(self).err();
            }
        }
        self.undo_to(mark);
        match flaw {
            Some(Flaw::Error(error)) => Err(error),
            Some(Flaw::Violation {
                property: found, ..
            }) if found == property => Ok(Some(taken)),
            _ => Ok(None),
        }
    }
}
