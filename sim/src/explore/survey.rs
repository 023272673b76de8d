//! Everything that an exploration can come to: what a test compares to see that a reduction loses
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_model::schedule::Choice;

use super::check::{Checks, End};
use super::error::ExploreError;
use super::hash::mix;
use super::symmetry::Symmetry;
use super::world::{Flaw, World};
use crate::database::{Database, RowOrder};

/// What all interleavings together come to.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Distinct states; of an enumeration, the number of runs.
    pub states: u64,
    /// Steps taken.
    pub transitions: u64,
    /// The states in which nothing is left to do, by hash (of the state of the server, of which
    /// processes crashed and which wait for ever, whichever of several identical ones it is), each
    /// with a schedule in words.
    pub terminal: BTreeMap<u128, Vec<String>>,
    /// The same, with identical processes told apart.
    pub exact: BTreeSet<u128>,
    /// Properties that are violated somewhere, each with a schedule in words.
    pub violated: BTreeMap<String, Vec<String>>,
}

impl Survey {
    /// What this survey has found and `other` has not, with a schedule that leads there.
    pub fn missing_in(&self, other: &Survey) -> Option<String> {
        let violation = self
            .violated
            .iter()
            .find(|(property, _)| !other.violated.contains_key(*property))
            .map(|(property, path)| (format!("the violation of `{property}`"), path));
        let terminal = self
            .terminal
            .iter()
            .find(|(hash, _)| !other.terminal.contains_key(*hash))
            .map(|(hash, path)| (format!("the end {hash:032x}"), path));
        let (what, path) = violation.or(terminal)?;
        Some(format!("{what} is lost:\n  {}", path.join("\n  ")))
    }
}

impl<D: Database> World<D> {
    /// What a state in which nothing is left to do comes to. Histories are left out: their numbers
    /// depend on the order of the search.
    pub(crate) fn outcome_hash(&mut self) -> u128 {
        let server = self.without_row_order(|db| db.fingerprint());
        let mut sum = mix(1, server as u64, (server >> 64) as u64);
        for (at, process) in self.processes.iter().enumerate() {
            sum = sum.wrapping_add(mix(2, at as u64, process.phase as u64));
        }
        for (at, state) in self.monitor_states.iter().enumerate() {
            sum = sum.wrapping_add(mix(3, at as u64, u64::from(*state)));
        }
        sum
    }

    /// What `look` sees of the server if the order of rows that nobody has seen does not count.
    pub(super) fn without_row_order<R>(&mut self, look: impl FnOnce(&mut D) -> R) -> R {
        let order = self.db.row_order();
        if order == RowOrder::Watched {
            self.db.set_row_order(RowOrder::Hidden);
        }
        let seen = look(&mut self.db);
        self.db.set_row_order(order);
        seen
    }

    /// A schedule for a person.
    pub(crate) fn in_words(&self, path: &[Choice]) -> Vec<String> {
        path.iter().map(|choice| self.describe(*choice)).collect()
    }
}

/// Events of one run after which an enumeration gives up: the program has a loop.
const DEPTH_MAX: usize = 100;

/// Runs every interleaving from beginning to end, without remembering any state: slow, and an
/// independent judge of the search.
pub(crate) struct Enumeration<'a, D> {
    pub(crate) world: &'a mut World<D>,
    pub(crate) checks: &'a mut Checks,
    /// Steps after which it gives up.
    pub(crate) transitions_max: u64,
    pub(crate) survey: Survey,
    pub(crate) path: Vec<Choice>,
}

impl<D: Database> Enumeration<'_, D> {
    /// All runs from the present state; `None` if there are too many.
    pub(crate) fn run(mut self) -> Result<Option<Survey>, ExploreError> {
        let found = loop {
            let rules = self.world.db.rules_version();
            let mark = self.world.mark();
            let found = self.runs_from_here();
            if self.world.db.rules_version() == rules {
                break found;
            }
            // What was found until then follows other rules.
            self.world.undo_to(mark);
            self.survey = Survey::default();
            self.path.clear();
        };
        match found {
            Ok(true) => Ok(Some(self.survey)),
            Ok(false) => Ok(None),
            Err(Flaw::Error(error)) => Err(error),
            Err(Flaw::Unsupported(what)) => Err(ExploreError::Actor {
                process: String::new(),
                detail: what.to_string(),
            }),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
    }

    fn runs_from_here(&mut self) -> Result<bool, Flaw> {
        let mut choices = Vec::new();
        // A state in which a property is violated is one like others.
        self.noted(|this| this.checks.state(this.world))?;
        let work = self.world.choices(&mut choices);
        if !work && !World::<D>::may_advance(&choices) {
            self.survey.states += 1;
            let hash = Symmetry::outcome(self.world);
            let exact = self.world.outcome_hash();
            self.survey.exact.insert(exact);
            let (world, path) = (&*self.world, &self.path);
            let known = self.survey.terminal.entry(hash);
            known.or_insert_with(|| world.in_words(path));
            self.noted(|this| this.checks.end(this.world).map(|_: End| ()))?;
        }
        for choice in choices {
            self.survey.transitions += 1;
            if self.survey.transitions > self.transitions_max || self.path.len() > DEPTH_MAX {
                return Ok(false);
            }
            let mark = self.world.mark();
            self.path.push(choice);
            let goes_on = self.noted(|this| this.world.apply(choice))?;
            let complete = !goes_on || self.runs_from_here()?;
            self.world.undo_to(mark);
            self.path.pop();
            if !complete {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether nothing is violated; other flaws are errors.
    fn noted(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Flaw>) -> Result<bool, Flaw> {
        match step(self) {
            Ok(()) => Ok(true),
            Err(Flaw::Violation { property, .. }) => {
                let (world, path) = (&*self.world, &self.path);
                let known = self.survey.violated.entry(property);
                known.or_insert_with(|| world.in_words(path));
                Ok(false)
            }
            Err(flaw) => Err(flaw),
        }
    }
}
