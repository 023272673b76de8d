//! The random mode: seeded executions for what is too large to exhaust.

use std::ops::ControlFlow;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rowlock_model::schedule::Choice;
use rowlock_model::verdict::Unsupported;

use super::check::Checks;
use super::choices::is_work;
use super::error::ExploreError;
use super::hash::Key;
use super::search::{OnProgress, Progress};
use super::strategy::{Chooser, Seen, Strategy};
use super::table::{Place, Table};
use super::world::{Flaw, World};
use crate::database::Database;

/// What to run at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// The same seed gives the same executions.
    pub seed: u64,
    /// How many.
    pub executions: u64,
    /// Who goes on.
    pub strategy: Strategy,
}

impl Default for Random {
    fn default() -> Random {
        Random {
            seed: 1,
            executions: 1_000,
            strategy: Strategy::Uniform,
        }
    }
}

/// One stream of random numbers a purpose, so that faults do not change the interleaving.
const SCHEDULING: u64 = 0;
const FAULTS: u64 = 1;

/// Executions between two reports.
const REPORT_EVERY: u64 = 1_024;

/// What random executions found.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) executions: u64,
    pub(crate) transitions: u64,
    pub(crate) seen: Seen,
    pub(crate) ends: u64,
    /// The choices of the first execution that violates a property.
    pub(crate) violation: Option<Vec<Choice>>,
    pub(crate) stopped: Option<String>,
    pub(crate) unsupported: Option<Unsupported>,
}

pub(crate) struct Sampler<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    scheduling: ChaCha8Rng,
    faults: ChaCha8Rng,
    chooser: Chooser,
    work: Vec<Choice>,
    /// How often each state was met.
    visited: Table<u32>,
    states_max: u64,
    depth_max: u32,
    /// Events of the longest execution so far: faults are spread over that length.
    length: u64,
    sampled: Sampled,
}

impl<'a, D: Database> Sampler<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        random: Random,
        limits: &rowlock_model::verdict::Limits,
    ) -> Sampler<'a, D> {
        let stream = |number| {
            let mut rng = ChaCha8Rng::seed_from_u64(random.seed);
            rng.set_stream(number);
            rng
        };
        Sampler {
            chooser: Chooser::new(random.strategy, world.actors.len()),
            work: Vec::new(),
            world,
            checks,
            scheduling: stream(SCHEDULING),
            faults: stream(FAULTS),
            visited: Table::default(),
            states_max: limits.states,
            depth_max: limits.depth,
            length: 1,
            sampled: Sampled::default(),
        }
    }

    pub(crate) fn run(
        mut self,
        executions: u64,
        progress: &mut OnProgress<'_>,
    ) -> Result<Sampled, ExploreError> {
        self.checks.occurred.fill(false);
        let mark = self.world.mark();
        let mut path = Vec::new();
        self.world.tracking = self.chooser.tracks();
        while self.sampled.executions < executions {
            path.clear();
            self.chooser.begin(&mut self.scheduling, self.length);
            let flaw = self.execute(&mut path).err();
            self.world.undo_to(mark);
            self.sampled.executions += 1;
            self.length = self.length.max(path.len() as u64);
            match flaw {
                None => {}
                Some(Flaw::Error(error)) => return Err(error),
                Some(Flaw::Unsupported(what)) => {
                    self.sampled.unsupported = Some(what);
                    break;
                }
                Some(Flaw::Violation { .. }) => {
                    self.sampled.violation = Some(path);
                    break;
                }
            }
            if self.sampled.executions.is_multiple_of(REPORT_EVERY)
                && let ControlFlow::Break(why) = progress(&self.progress())
            {
                self.sampled.stopped = Some(why);
            }
            if self.sampled.stopped.is_some() {
                break;
            }
        }
        self.world.tracking = false;
        self.sampled.seen = Seen {
            once: self.visited.values().filter(|n| *n == 1).count() as u64,
            twice: self.visited.values().filter(|n| *n == 2).count() as u64,
            distinct: self.visited.len() as u64,
            met: self.visited.values().map(u64::from).sum(),
        };
        Ok(self.sampled)
    }

    /// One execution from the initial state to an end.
    fn execute(&mut self, path: &mut Vec<Choice>) -> Result<(), Flaw> {
        let mut points = self.fault_points();
        let mut choices = Vec::new();
        self.checks.state(self.world)?;
        let mut committed = self.world.db.committed_version();
        loop {
            choices.clear();
            let work = self.world.choices(&mut choices);
            let faults = choices.iter().filter(|c| !is_work(**c)).count();
            if !work && !World::<D>::may_advance(&choices) {
                if self.checks.end(self.world)? == super::check::End::Over {
                    self.sampled.ends += 1;
                }
                return Ok(());
            }
            let due = points.last().is_some_and(|at| *at <= path.len() as u64);
            let fault = faults > 0 && (due || !work);
            if fault && due {
                points.pop();
            }
            let choice = match fault {
                true => {
                    // Without work only time can help.
                    let helps =
                        |c: &Choice| !is_work(*c) && (work || matches!(c, Choice::Advance(_)));
                    let among = choices.iter().filter(|c| helps(c)).count();
                    let at = draw(&mut self.faults, among);
                    *choices
                        .iter()
                        .filter(|c| helps(c))
                        .nth(at)
                        .expect("counted")
                }
                false => {
                    self.work.clear();
                    self.work
                        .extend(choices.iter().filter(|choice| is_work(**choice)));
                    let rng = &mut self.scheduling;
                    self.chooser.choose(rng, self.world, &self.work)
                }
            };
            path.push(choice);
            self.sampled.transitions += 1;
            let place = Chooser::place(self.world, choice);
            self.world.apply(choice)?;
            if self.chooser.tracks() {
                self.chooser.took(self.world, choice, place);
            }
            let now = self.world.db.committed_version();
            match now == committed {
                true => self.checks.live_state(self.world)?,
                false => self.checks.state(self.world)?,
            }
            committed = now;
            let key = Key::from(self.world.fingerprint());
            let full = self.visited.len() as u64 >= self.states_max;
            match self.visited.place(key) {
                Place::Taken(at) => {
                    let met = self.visited.value(at);
                    *met = met.saturating_add(1);
                }
                Place::Free(_) if full => {}
                Place::Free(at) => self.visited.fill(at, key, 1),
            }
            if path.len() as u64 > u64::from(self.depth_max) {
                self.sampled.stopped = Some(format!("depth {}", self.depth_max));
                return Ok(());
            }
        }
    }

    /// Where in this execution faults and clock moves happen: a random number of them within the
    /// bounds, at points drawn over the length of an execution. Drawn event by event they would
    /// nearly all happen at its beginning. Descending.
    fn fault_points(&mut self) -> Vec<u64> {
        let budget = self.world.budget;
        let all = [
            budget.crashes,
            budget.kills,
            budget.losses,
            budget.clock,
            budget.cancels,
        ];
        let most: usize = all.iter().map(|n| *n as usize).sum();
        if most == 0 {
            return Vec::new();
        }
        let count = draw(&mut self.faults, most + 1);
        let length = self.length as usize;
        let mut points: Vec<u64> = (0..count)
            .map(|_| draw(&mut self.faults, length) as u64)
            .collect();
        points.sort_unstable_by(|a, b| b.cmp(a));
        points
    }

    fn progress(&self) -> Progress {
        Progress {
            states: self.visited.len() as u64,
            transitions: self.sampled.transitions,
            depth: self.length as u32,
            executions: self.sampled.executions,
            memory_bytes: self.visited.bytes(),
        }
    }
}

/// A number below `n`, near enough to uniform for small `n`.
pub(crate) fn draw(rng: &mut impl Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}
