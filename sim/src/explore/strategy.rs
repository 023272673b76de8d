//! Who goes on in a random execution.
//!
//! Drawing uniformly among all that is possible finds what needs few switches only by luck once runs
//! are long. The other strategies spread executions over orders differently; which of them finds an
//! error first depends on the error, so a run may try several.

use rand_core::Rng;
use rowlock_model::schedule::{Choice, ProcessId};
use rustc_hash::FxHashMap;

use super::footprints::{FootprintId, Footprints};
use super::graph::Packed;
use super::random::draw;
use super::trie::NodeId;
use super::world::World;
use crate::database::Database;

/// How random executions choose who goes on. Faults and moves of the clock are placed the same way
/// by all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Each possible step is as likely as any other.
    #[default]
    Uniform,
    /// Probabilistic concurrency testing: processes have random priorities, the highest one that can
    /// goes on, and at `depth - 1` random points the one that is about to go on falls behind all
    /// others. Finds an error that takes `depth` ordered steps with a known least probability
    /// (Burckhardt et al., ASPLOS 2010).
    Pct {
        /// The number of steps whose order makes the error.
        depth: u32,
    },
    /// Partial order sampling: each step that becomes possible draws a priority, the highest one is
    /// taken, and steps that depend on it draw again (Yuan et al., CAV 2018).
    Pos,
    /// Uniform random walk: a process is as likely as it has steps left, judging by earlier
    /// executions, so that each interleaving is about as likely as any other (Zhao et al., ASPLOS
    /// 2025).
    Urw,
}

/// A strategy at work.
#[derive(Debug)]
pub(crate) struct Chooser {
    strategy: Strategy,
    /// Priorities of processes, and what is left of the points at which one falls behind.
    priorities: Vec<u64>,
    falls: Vec<u64>,
    /// Priorities of possible steps.
    drawn: FxHashMap<Packed, u64>,
    footprints: Footprints,
    /// What steps touched when they were last taken: a guess of what they will touch.
    touched: FxHashMap<Place, FootprintId>,
    /// Steps of each process in this execution, and the most in an earlier one.
    done: Vec<u64>,
    most: Vec<u64>,
    steps: u64,
}

/// A request of a program, wherever it is made.
type Place = (usize, NodeId, u32);

impl Chooser {
    pub(crate) fn new(strategy: Strategy, processes: usize) -> Chooser {
        Chooser {
            strategy,
            priorities: vec![0; processes],
            falls: Vec::new(),
            drawn: FxHashMap::default(),
            footprints: Footprints::new(),
            touched: FxHashMap::default(),
            done: vec![0; processes],
            most: vec![1; processes],
            steps: 0,
        }
    }

    /// Whether it wants to know what steps touch.
    pub(crate) fn tracks(&self) -> bool {
        self.strategy == Strategy::Pos
    }

    /// Before an execution that will take about `length` steps.
    pub(crate) fn begin(&mut self, rng: &mut impl Rng, length: u64) {
        for (most, done) in self.most.iter_mut().zip(&mut self.done) {
            *most = (*most).max(*done);
            *done = 0;
        }
        self.steps = 0;
        self.drawn.clear();
        self.falls.clear();
        if let Strategy::Pct { depth } = self.strategy {
            // Priorities below the first 2^32 are for those that fall behind.
            for priority in &mut self.priorities {
                *priority = 1 << 32 | u64::from(rng.next_u32());
            }
            let points = depth.saturating_sub(1);
            self.falls
                .extend((0..points).map(|_| draw(rng, length.max(1) as usize) as u64));
            self.falls.sort_unstable();
        }
    }

    /// One of the choices that carry work forward.
    pub(crate) fn choose<D: Database>(
        &mut self,
        rng: &mut impl Rng,
        world: &World<D>,
        work: &[Choice],
    ) -> Choice {
        let process = |choice: Choice| world.process_of(choice).unwrap_or(0);
        let chosen = match self.strategy {
            Strategy::Uniform => work[draw(rng, work.len())],
            Strategy::Pct { .. } => {
                let mut best = self.highest(work, process);
                while self.falls.first().is_some_and(|at| *at <= self.steps) {
                    let left = self.falls.len() as u64;
                    self.falls.remove(0);
                    self.priorities[process(best)] = left;
                    best = self.highest(work, process);
                }
                best
            }
            Strategy::Pos => {
                for choice in work {
                    let priority = || rng.next_u64();
                    self.drawn.entry((*choice).into()).or_insert_with(priority);
                }
                let priority = |choice: &&Choice| self.drawn[&Packed::from(**choice)];
                *work.iter().max_by_key(priority).expect("there is work")
            }
            Strategy::Urw => {
                let left = |choice: &Choice| {
                    let process = process(*choice);
                    self.most[process].saturating_sub(self.done[process]).max(1)
                };
                let sum: u64 = work.iter().map(left).sum();
                let mut at = draw(rng, sum as usize) as u64;
                let mut found = work[0];
                for choice in work {
                    found = *choice;
                    match at.checked_sub(left(choice)) {
                        Some(rest) => at = rest,
                        None => break,
                    }
                }
                found
            }
        };
        self.steps += 1;
        self.done[process(chosen)] += 1;
        chosen
    }

    fn highest(&self, work: &[Choice], process: impl Fn(Choice) -> usize) -> Choice {
        let mut best = work[0];
        for choice in &work[1..] {
            if self.priorities[process(*choice)] > self.priorities[process(best)] {
                best = *choice;
            }
        }
        best
    }

    /// Which request a choice is about.
    pub(crate) fn place<D: Database>(world: &World<D>, choice: Choice) -> Option<Place> {
        let Choice::Step(ProcessId(process), request) = choice else {
            return None;
        };
        let process = usize::from(process);
        let node = world.processes[process].node;
        Some((world.actors[process].trie, node, request.0))
    }

    /// After the step at `place`: steps that depend on it draw again.
    pub(crate) fn took<D: Database>(
        &mut self,
        world: &mut World<D>,
        choice: Choice,
        place: Option<Place>,
    ) {
        let touches = self.footprints.number(world.take_footprint());
        if let Some(place) = place {
            self.touched.insert(place, touches);
        }
        self.drawn.remove(&choice.into());
        let (touched, footprints) = (&self.touched, &mut self.footprints);
        self.drawn.retain(|other, _| {
            // What was never seen, and what is no statement, may touch anything.
            let place = Chooser::place(world, (*other).into());
            let guess = place.and_then(|place| touched.get(&place));
            guess.is_some_and(|guess| !footprints.conflict(*guess, touches))
        });
    }
}

/// How often each state was met: from that, what share of a further execution would be new.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// States met once, and twice.
    pub(crate) once: u64,
    pub(crate) twice: u64,
    /// Distinct states, and how many were met in all.
    pub(crate) distinct: u64,
    pub(crate) met: u64,
}

impl Seen {
    /// The probability that the next state is a new one (Good and Turing).
    pub(crate) fn unseen_mass(&self) -> f64 {
        match self.met {
            0 => 1.0,
            met => self.once as f64 / met as f64,
        }
    }

    /// A lower bound for the number of states (Chao's first estimator).
    pub(crate) fn at_least(&self) -> f64 {
        let once = self.once as f64;
        self.distinct as f64 + once * (once - 1.0).max(0.0) / (2.0 * (self.twice as f64 + 1.0))
    }
}

impl std::fmt::Display for Seen {
    /// Always both estimates: a small unseen mass goes together with most states unseen if those are
    /// rare, as those behind a late fault are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} distinct states; at least {:.0} exist (Chao1), the next one is new with probability \
             {:.1e} (Good-Turing); rare states may be many more",
            self.distinct,
            self.at_least(),
            self.unseen_mass()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of an example that is worked by hand.
    #[test]
    fn estimates_of_what_is_unseen() {
        let seen = Seen {
            once: 10,
            twice: 4,
            distinct: 30,
            met: 100,
        };
        assert!((seen.unseen_mass() - 0.1).abs() < 1e-12);
        assert!((seen.at_least() - 39.0).abs() < 1e-12);
        assert!((Seen::default().unseen_mass() - 1.0).abs() < 1e-12);
    }
}
