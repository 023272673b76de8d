//! What the exhaustive search need not do twice.
//!
//! *Sleep sets.* When a choice was explored in a state, it sleeps in the states behind the choices
//! that are explored after it there, as long as only steps are taken that commute with it: both
//! orders lead to the same state. Every state is still visited. A state that is reached again with
//! less asleep than when it was expanded is expanded again by what has woken up (Godefroid), because
//! programs that retry have cycles.
//!
//! *Invisible steps.* A step that touches nothing but its own process, now and whatever the others
//! do, is taken at once: the other processes are left for the state behind it. States in between
//! are not visited; what differs in them is what that one process has done in private. Nothing that
//! a property looks at, and no state in which nothing is left to do, is lost. To keep loops from
//! putting the others off for ever, a step that leads back into the present path does not count.
//!
//! *Symmetry* of identical workers: see [`super::symmetry`].
//!
//! Why each is sound, and which test would fail if it were not, is in `docs/soundness.md`.

use rowlock_model::schedule::Choice;
use rustc_hash::FxHashSet;

use super::footprints::{FootprintId, Footprints, Own, SleepId, SleepSets};
use super::graph::Packed;
use super::symmetry::Symmetry;
use super::trie::{Action, NodeId};
use super::world::World;
use crate::database::Database;

/// Which reductions the exhaustive search uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// Orders of steps that commute are tried once.
    pub sleep_sets: bool,
    /// A step that nobody can see is taken at once.
    pub invisible_steps: bool,
    /// States that differ in nothing but which of several identical workers is which count as one.
    pub symmetry: bool,
    /// The order in which tables keep their rows counts only where some program sees it.
    pub row_order: bool,
}

impl Reductions {
    /// Every one.
    pub const ALL: Reductions = Reductions {
        sleep_sets: true,
        invisible_steps: true,
        symmetry: true,
        row_order: true,
    };
    /// None: every interleaving counts.
    pub const NONE: Reductions = Reductions {
        sleep_sets: false,
        invisible_steps: false,
        symmetry: false,
        row_order: false,
    };

    /// Whether one is on.
    pub(crate) fn any(self) -> bool {
        self != Reductions::NONE
    }

    /// Whether one is on that needs to know what steps touch.
    pub(crate) fn track(self) -> bool {
        self.sleep_sets || self.invisible_steps
    }
}

impl Default for Reductions {
    fn default() -> Reductions {
        Reductions::ALL
    }
}

/// A rule of the reductions that is broken on purpose, so that a test can see that it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Broken {
    /// None.
    #[default]
    Nothing,
    /// A state that is reached with less asleep is not expanded again.
    ReExpansion,
    /// Whatever was explored sleeps, whether it commutes or not.
    Conflicts,
    /// Monitors are not part of footprints.
    Monitors,
    /// Fault budgets are not part of footprints.
    Budgets,
    /// What one step writes does not conflict with what another reads.
    Reads,
    /// An invisible step may lead back into the present path.
    Cycles,
    /// A step counts as invisible although it reads what others write.
    PrivateReads,
    /// An invisible step is taken at once although a fault may come before it.
    FaultsFirst,
    /// Workers are exchanged although somebody can see who is who.
    Names,
    /// What sleeps is not renamed with its state.
    SleepersKeepNames,
    /// The order of rows counts nowhere, whoever sees it.
    RowOrder,
}

/// A choice that was explored already, with what it touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleeper {
    pub(crate) choice: Packed,
    pub(crate) touches: FootprintId,
}

/// The search has relied on something that turned out wrong: it starts again, knowing better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistaken;

/// The reductions of one search.
pub(crate) struct Reducer {
    pub(crate) on: Reductions,
    broken: Broken,
    footprints: Footprints,
    sets: SleepSets,
    /// The sleeping choices of the states on the path, one state after the other.
    pub(crate) asleep: Vec<Sleeper>,
    /// Steps that were invisible when they were taken: they are tried first.
    invisible: FxHashSet<(usize, NodeId, u32)>,
    /// Footprints whose writes are known.
    known: Vec<bool>,
    /// Objects that some step writes, here or in an earlier start of this search.
    written: FxHashSet<u64>,
    /// Objects that steps have read which were taken for invisible: nobody may ever write them.
    relied_on: FxHashSet<u64>,
    set: Vec<Packed>,
    pub(crate) symmetry: Option<Symmetry>,
}

impl Reducer {
    pub(crate) fn new(on: Reductions, broken: Broken, symmetry: Option<Symmetry>) -> Reducer {
        Reducer {
            symmetry,
            on,
            broken,
            footprints: Footprints::new(),
            sets: SleepSets::new(),
            asleep: Vec::new(),
            invisible: FxHashSet::default(),
            known: Vec::new(),
            written: FxHashSet::default(),
            relied_on: FxHashSet::default(),
            set: Vec::new(),
        }
    }

    /// Before a search starts again: what was written stays known.
    pub(crate) fn start_again(&mut self) {
        self.asleep.clear();
        self.relied_on.clear();
        self.invisible.clear();
        if let Some(symmetry) = &mut self.symmetry {
            symmetry.start_again();
        }
    }

    /// The fingerprint by which the present state is known.
    pub(crate) fn fingerprint<D: Database>(
        &mut self,
        world: &mut World<D>,
    ) -> Result<u128, Mistaken> {
        let Some(symmetry) = &mut self.symmetry else {
            return Ok(world.fingerprint());
        };
        if !world.may_exchange() && self.broken != Broken::Names {
            self.symmetry = None;
            return Err(Mistaken);
        }
        Ok(symmetry.fingerprint(world))
    }

    /// A choice by the numbers under which the present state is known.
    fn known_as(&self, choice: Packed) -> Packed {
        match &self.symmetry {
            Some(symmetry) if self.broken != Broken::SleepersKeepNames => {
                symmetry.naming().rename(choice.into()).into()
            }
            _ => choice,
        }
    }

    /// The choice that is known by these numbers.
    fn known_back(&self, choice: Packed) -> Choice {
        match &self.symmetry {
            Some(symmetry) if self.broken != Broken::SleepersKeepNames => {
                symmetry.naming().rename_back(choice.into())
            }
            _ => choice.into(),
        }
    }

    /// Takes over what the choice that was just carried out has touched.
    pub(crate) fn touched<D: Database>(
        &mut self,
        world: &mut World<D>,
        choice: Choice,
    ) -> Result<FootprintId, Mistaken> {
        if !self.on.track() {
            return Ok(FootprintId::EVERYTHING);
        }
        let mut footprint = world.take_footprint();
        match self.broken {
            Broken::Monitors => footprint.writes.retain(|name| !Own::is_monitor(*name)),
            Broken::Budgets => footprint.writes.retain(|name| !Own::is_budget(*name)),
            Broken::Reads => footprint.reads.clear(),
            _ => {}
        }
        let id = self.footprints.number(footprint);
        let at = id.index();
        if self.known.len() <= at {
            self.known.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.known[at], true) {
            let mut mistaken = false;
            for name in &self.footprints.get(id).writes {
                self.written.insert(*name);
                mistaken |= self.relied_on.contains(name);
            }
            if mistaken && self.broken != Broken::PrivateReads {
                return Err(Mistaken);
            }
        }
        // The instants to which the clock may move depend on all that is stored.
        Ok(match choice {
            Choice::Advance(_) => FootprintId::EVERYTHING,
            _ => id,
        })
    }

    /// Whether the step that was just taken is invisible.
    pub(crate) fn is_invisible<D: Database>(
        &mut self,
        world: &World<D>,
        choice: Choice,
        touches: FootprintId,
    ) -> bool {
        if !self.on.invisible_steps || touches == FootprintId::EVERYTHING {
            return false;
        }
        let Choice::Step(process, request) = choice else {
            return false;
        };
        let process = usize::from(process.0);
        let Some((node, at)) = world.happened.request else {
            return false;
        };
        let trie = world.actors[process].trie;
        // Answers to several requests may come in any order.
        let [pending] = &world.tries[trie].node(node).pending[..] else {
            return false;
        };
        debug_assert_eq!(at, 0);
        let (Action::Run(..), Some(line)) = (&pending.action, world.happened.session) else {
            return false;
        };
        // A fault may hit the session before the step, and then the client learns of it earlier.
        let budget = world.budget;
        let may_fail = budget.kills + budget.losses + budget.cancels > 0
            || (budget.clock > 0 && world.db.has_timeouts(world.server_id(usize::from(line))));
        if (may_fail && self.broken != Broken::FaultsFirst)
            || world.happened.waits
            || world.happened.pauses
        {
            return false;
        }
        let footprint = self.footprints.get(touches);
        let own = Own::Process(process).name();
        let private = footprint.writes.iter().all(|name| *name == own)
            && (self.broken == Broken::PrivateReads
                || footprint
                    .reads
                    .iter()
                    .all(|name| !self.written.contains(name)));
        if private {
            self.relied_on.extend(&footprint.reads);
            self.invisible.insert((trie, node, request.0));
        }
        private
    }

    /// Whether a step that leads into the present path may still count as invisible.
    pub(crate) fn may_close_cycles(&self) -> bool {
        self.broken == Broken::Cycles
    }

    /// Puts first what was invisible before.
    pub(crate) fn order<D: Database>(&self, world: &World<D>, choices: &mut [Choice]) {
        if !self.on.invisible_steps || self.invisible.is_empty() {
            return;
        }
        choices.sort_by_key(|choice| match choice {
            Choice::Step(process, request) => {
                let process = usize::from(process.0);
                let node = world.processes[process].node;
                !self
                    .invisible
                    .contains(&(world.actors[process].trie, node, request.0))
            }
            _ => true,
        });
    }

    /// What sleeps behind a step: those that slept before it (from place `from` on) and commute with
    /// it. Appends them; their set.
    pub(crate) fn fall_asleep(&mut self, from: usize, touches: FootprintId) -> SleepId {
        if !self.on.sleep_sets {
            return SleepId::NOTHING;
        }
        let end = self.asleep.len();
        self.set.clear();
        for at in from..end {
            let sleeper = self.asleep[at];
            if self.broken == Broken::Conflicts
                || !self.footprints.conflict(sleeper.touches, touches)
            {
                self.asleep.push(sleeper);
                let known = self.known_as(sleeper.choice);
                self.set.push(known);
            }
        }
        if self.set.is_empty() {
            return SleepId::NOTHING;
        }
        self.set.sort_unstable();
        self.sets.number(&self.set)
    }

    /// A state that was expanded with `before` asleep is reached with `now` asleep. Gives what has
    /// woken up, if anything, and what sleeps from now on; of the latter, keeps the sleepers from
    /// place `from` on.
    pub(crate) fn wake(
        &mut self,
        before: SleepId,
        now: SleepId,
        from: usize,
    ) -> Option<(Vec<Choice>, SleepId)> {
        if before == SleepId::NOTHING || before == now || self.broken == Broken::ReExpansion {
            return None;
        }
        let (before, now) = (self.sets.get(before), self.sets.get(now));
        let awake: Vec<Choice> = before
            .iter()
            .filter(|choice| now.binary_search(choice).is_err())
            .map(|choice| self.known_back(*choice))
            .collect();
        if awake.is_empty() {
            return None;
        }
        let both: Vec<Packed> = before
            .iter()
            .copied()
            .filter(|choice| now.binary_search(choice).is_ok())
            .collect();
        let mut kept = from;
        for at in from..self.asleep.len() {
            let known = self.known_as(self.asleep[at].choice);
            if both.binary_search(&known).is_ok() {
                self.asleep[kept] = self.asleep[at];
                kept += 1;
            }
        }
        self.asleep.truncate(kept);
        Some((awake, self.sets.number(&both)))
    }

    /// Whether a choice sleeps in the state whose sleepers begin at `from`.
    pub(crate) fn sleeps(&self, from: usize, choice: Choice) -> bool {
        let packed = Packed::from(choice);
        self.asleep[from..].iter().any(|s| s.choice == packed)
    }

    /// Bytes in use, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        self.footprints.bytes() + self.sets.bytes()
    }
}

#[cfg(test)]
mod tests {
    use rowlock_model::schedule::{ProcessId, RequestId};

    use super::*;
    use crate::database::Footprint;

    fn step(process: u8) -> Packed {
        Choice::Step(ProcessId(process), RequestId(0)).into()
    }

    /// Three steps that commute sleep; the state is reached again while only some of them do.
    #[test]
    fn what_has_woken_up_is_explored_and_what_sleeps_both_times_is_not() {
        let mut reducer = Reducer::new(Reductions::ALL, Broken::Nothing, None);
        let mut number = |object: u64| {
            reducer.footprints.number(Footprint {
                reads: Vec::new(),
                writes: vec![object],
            })
        };
        let (other, mine): (Vec<_>, Vec<_>) = (10..13).map(|n| (number(n), n)).unzip();
        assert_eq!(mine.len(), 3);
        let nothing = number(99);
        for process in 0..3 {
            reducer.asleep.push(Sleeper {
                choice: step(process),
                touches: other[usize::from(process)],
            });
        }
        let before = reducer.fall_asleep(0, nothing);
        assert_eq!(reducer.asleep.len(), 6);
        // Now behind a step that conflicts with the one of process 1.
        reducer.asleep.truncate(3);
        let now = reducer.fall_asleep(0, other[1]);
        let (awake, both) = reducer.wake(before, now, 3).expect("one has woken up");
        assert_eq!(awake, [Choice::from(step(1))]);
        assert_eq!(&*reducer.sets.get(both), [step(0), step(2)]);
        assert_eq!(reducer.asleep.len(), 5);
        // With no more than that asleep there is nothing new.
        assert!(reducer.wake(both, now, 3).is_none());
    }
}
