//! Other ways to explore than all at once: what few delays reach first, with checkpoints, and run by
//! run.

use std::ops::ControlFlow;

use rowlock_model::Guarantee;
use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Exploration, Limits, Verdict, Violation};

use super::anytime::{self, Bounded, Delays};
use super::dpor::{self, Traces};
use super::error::ExploreError;
use super::explorer::{Explorer, Run};
use super::liveness::{Graph, Liveness};
use super::long::{Checkpoints, Long};
use super::search::{OnProgress, Search, Until};
use super::survey::Survey;
use super::world::{Budget, Flaw};
use crate::database::{Database, RowOrder};

/// States of the search for the smallest schedule of something that was found otherwise.
const SMALLEST_STATES: u64 = 50_000;

impl<D: Database> Explorer<D> {
    /// As [`run_with`](Self::run_with), and what few delays reach comes first: errors that need few are
    /// found early in explorations that are too large to be exhausted.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn anytime(self, progress: &mut OnProgress<'_>) -> Result<Exploration, ExploreError> {
        let limits = self.limits.clone();
        let mut run = match self.start()? {
            Ok(run) => run,
            Err(exploration) => return Ok(exploration),
        };
        for bound in anytime::BOUNDS {
            let mut search = Delays::new(&mut run.world, &mut run.checks, &limits);
            let found = search.run(bound, progress);
            let (states, transitions) = (search.states(), search.transitions);
            let verdict = match found {
                Ok(Bounded::Nothing) => continue,
                Ok(Bounded::Stopped(limit)) => {
                    Verdict::Incomplete(format!("{limit}, with {bound} delays"))
                }
                Ok(Bounded::Violated(path)) => run.smaller(path)?,
                Err(Flaw::Error(error)) => return Err(error),
                Err(Flaw::Unsupported(what)) => Verdict::Unsupported(Box::new(what)),
                Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
            };
            let mut counts = run.counts();
            counts.states = states;
            counts.transitions = transitions;
            return Ok(run.exploration(verdict, counts));
        }
        let detailed = run.search(&limits, progress, true)?;
        Ok(detailed.exploration)
    }

    /// As [`run_with`](Self::run_with), with checkpoints: `from` is one that an earlier run of the same
    /// exploration has given to [`Checkpoints::save`]. The result is the same as without interruption.
    ///
    /// # Errors
    /// See [`run`](Self::run), and [`ExploreError::Checkpoint`].
    pub fn long(
        self,
        from: Option<&[u8]>,
        checkpoints: &mut Checkpoints<'_>,
        progress: &mut OnProgress<'_>,
    ) -> Result<Exploration, ExploreError> {
        let (limits, symmetry) = (self.limits.clone(), self.reductions.symmetry);
        let mut run = match self.start()? {
            Ok(run) => run,
            Err(exploration) => return Ok(exploration),
        };
        let search = Long::new(&mut run.world, &mut run.checks, &limits, symmetry);
        let found = search.run(from, checkpoints, progress)?;
        let mut counts = run.counts();
        counts.states = found.states;
        counts.transitions = found.transitions;
        counts.terminal_states = found.terminal_states;
        let verdict = if let Some(path) = found.violation {
            run.smaller(path)?
        } else if let Some(what) = found.unsupported {
            Verdict::Unsupported(Box::new(what))
        } else if let Some(limit) = found.stopped {
            Verdict::Incomplete(limit)
        } else {
            match run.vacuous(found.ends) {
                Some(why) => Verdict::Vacuous(why),
                None => Verdict::Holds,
            }
        };
        Ok(run.exploration(verdict, counts))
    }
}

impl<D: Database> Explorer<D> {
    /// What all runs come to, one for each order of what depends on each other (source-DPOR with sleep
    /// sets), with the number of runs as the number of states; `None` if that takes more than
    /// `transitions_max` steps. Knows no states, and so judges the search that does. Ends, violations of
    /// committed states and of whole runs are found; a schedule for each is in the survey.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn traces(self, transitions_max: u64) -> Result<Option<Survey>, ExploreError> {
        let Ok(mut run) = self.start()? else {
            return Ok(Some(Survey::default()));
        };
        run.world.db.set_row_order(RowOrder::Watched);
        let until = dpor::Until {
            transitions: transitions_max,
            runs: u64::MAX,
            depth: u32::MAX,
            violation: false,
        };
        let traces = Traces::new(&mut run.world, &mut run.checks, until);
        let runs = traces.run(&mut |_| ControlFlow::Continue(()))?;
        if let Some(what) = runs.unsupported {
            return Err(ExploreError::Actor {
                process: String::new(),
                detail: what.to_string(),
            });
        }
        Ok(runs.stopped.is_none().then_some(runs.survey))
    }

    /// As [`run_with`](Self::run_with), run by run instead of state by state: one run for each order of
    /// what depends on each other, and nothing is remembered but the present run. For small programs,
    /// and to judge the other search. The limit of states is one of runs here.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub fn run_by_run(self, progress: &mut OnProgress<'_>) -> Result<Exploration, ExploreError> {
        let limits = self.limits.clone();
        let mut run = match self.start()? {
            Ok(run) => run,
            Err(exploration) => return Ok(exploration),
        };
        let order = run.world.db.row_order();
        if run.reductions.row_order {
            run.world.db.set_row_order(RowOrder::Watched);
        }
        let until = dpor::Until {
            transitions: u64::MAX,
            runs: limits.states,
            depth: limits.depth,
            violation: true,
        };
        let traces = Traces::new(&mut run.world, &mut run.checks, until);
        let runs = traces.run(progress)?;
        run.world.db.set_row_order(order);
        let mut counts = run.counts();
        counts.transitions = runs.survey.transitions;
        counts.executions = runs.survey.states;
        counts.terminal_states = runs.survey.terminal.len() as u64;
        let verdict = if let Some(path) = runs.violation {
            run.smaller(path)?
        } else if let Some(what) = runs.unsupported {
            Verdict::Unsupported(Box::new(what))
        } else if let Some(limit) = runs.stopped {
            Verdict::Incomplete(limit)
        } else if let Some(verdict) = run.liveness(&limits, progress)? {
            verdict
        } else {
            match run.vacuous(runs.ends) {
                Some(why) => Verdict::Vacuous(why),
                None => Verdict::Holds,
            }
        };
        Ok(run.exploration(verdict, counts))
    }
}

impl<D: Database> Run<D> {
    /// The verdict of a path that violates something, made small.
    pub(super) fn smaller(&mut self, path: Vec<Choice>) -> Result<Verdict, ExploreError> {
        let property = self.violated(&path)?.property;
        let path = self.world.shrink(&mut self.checks, path, &property)?;
        let path = self.smallest(path, &property)?;
        Ok(Verdict::Violated(Box::new(self.violated(&path)?)))
    }

    /// The smallest schedule that fails like `path`, if a search with no more faults than there are in
    /// it is small enough; otherwise `path`. So the same error comes out as the same schedule, however
    /// it was found.
    fn smallest(&mut self, path: Vec<Choice>, property: &str) -> Result<Vec<Choice>, ExploreError> {
        let used = |kind: fn(&Choice) -> bool| path.iter().filter(|c| kind(c)).count() as u32;
        let budget = Budget {
            crashes: used(|c| matches!(c, Choice::Crash(_))),
            kills: used(|c| matches!(c, Choice::Kill(_))),
            losses: used(|c| matches!(c, Choice::Lose(..))),
            clock: used(|c| matches!(c, Choice::Advance(_))),
            cancels: used(|c| matches!(c, Choice::Cancel(..))),
        };
        let limits = Limits {
            states: SMALLEST_STATES,
            ..Limits::default()
        };
        let counts = (self.world.statements, self.world.waits);
        let mark = self.world.mark();
        self.world.set_budget(budget);
        let until = Until::SmallViolation;
        let search = Search::new(&mut self.world, &mut self.checks, &limits, until, None);
        let found = search.run(&mut |_| ControlFlow::Continue(()));
        self.world.undo_to(mark);
        (self.world.statements, self.world.waits) = counts;
        let found = found?;
        if found.violations.is_empty() {
            return Ok(path);
        }
        let world = &self.world;
        let processes = world.actors.len();
        let other =
            found
                .graph
                .smallest_path(&found.violations, |c| world.process_of(c), processes);
        let same = self.violated(&other)?.property == property;
        let complete = found.stopped.is_none();
        let smaller = complete || self.world.cost(&other) < self.world.cost(&path);
        Ok(if same && smaller { other } else { path })
    }

    /// What was asked about loops, once everything else holds: `None` if nothing is wrong.
    pub(super) fn liveness(
        &mut self,
        limits: &rowlock_model::verdict::Limits,
        progress: &mut OnProgress<'_>,
    ) -> Result<Option<Verdict>, ExploreError> {
        let asks =
            |wanted: &&Guarantee| matches!(wanted, Guarantee::CanFinish | Guarantee::NoStarvation);
        let wanted: Vec<Guarantee> = self.guarantees.iter().filter(asks).copied().collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let graph = Graph::new(&mut self.world, &mut self.checks, limits);
        Ok(match graph.run(&wanted, progress)? {
            Liveness::Live => None,
            Liveness::Stopped(limit) => Some(Verdict::Incomplete(limit)),
            Liveness::Violated(guarantee, detail, path) => {
                let replayed = self.world.replay(&mut self.checks, &path)?;
                Some(Verdict::Violated(Box::new(Violation {
                    property: guarantee.name().to_owned(),
                    detail,
                    schedule: replayed.schedule,
                    matters: Vec::new(),
                })))
            }
        })
    }
}
