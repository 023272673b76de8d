//! Run by run, without remembering states: source-DPOR with sleep sets (Abdulla, Aronis, Jonsson,
//! Sagonas, POPL 2014).
//!
//! Each run is followed to its end. Where two of its steps depend on each other and nothing orders them
//! otherwise, another run is begun in which they come the other way round. So there is one run, or few,
//! for each order of what depends on each other; what a whole run comes to is found in one of them. It
//! shares nothing with the search over states but what a step touches, so each judges the other. There
//! are far more runs than states, so it is for small programs.
//!
//! Faults need not happen, so a run may end with faults left; those of a process are tried wherever its
//! steps are, and moves of the clock wherever they are possible.
//!
//! Steps of one process depend on each other, whichever of several choices they are. A step that
//! commits something depends on others that do, if some property looks at committed states.

use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::Unsupported;

use super::check::{Checks, End};
use super::choices::is_work;
use super::error::ExploreError;
use super::footprints::{FootprintId, Footprints};
use super::search::{OnProgress, Progress};
use super::survey::Survey;
use super::symmetry::Symmetry;
use super::world::{Flaw, World};
use crate::database::Database;

/// Events of one run after which it gives up: the program has a loop.
const DEPTH_MAX: usize = 120;

/// Steps between two reports.
const REPORT_EVERY: u64 = 1_024;

/// The name of "something was committed" in footprints.
const COMMITTED: u64 = 0xf0f0_f0f1_0000_0001;

/// Who does an event: a process, or the clock.
type Actor = Option<usize>;

/// A choice that sleeps, with what it touches.
type Sleeper = (Choice, FootprintId);

/// A state on the run, with the event that was taken in it.
struct Frame {
    enabled: Vec<Choice>,
    /// Whose choices are to be tried.
    backtrack: Vec<Actor>,
    taken: Choice,
    touches: FootprintId,
    /// Events before this one that it depends on, directly or not, a bit each.
    after: u128,
}

/// When to give up, or to have seen enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub(crate) transitions: u64,
    pub(crate) runs: u64,
    /// Events of one run.
    pub(crate) depth: u32,
    /// Whether the first violation ends it.
    pub(crate) violation: bool,
}

/// What all runs come to.
#[derive(Debug)]
pub(crate) struct Runs {
    /// With the number of runs as the number of states.
    pub(crate) survey: Survey,
    /// Runs that came to the end of the program.
    pub(crate) ends: u64,
    /// The choices that lead to the first violation.
    pub(crate) violation: Option<Vec<Choice>>,
    /// Something that is not modelled was met.
    pub(crate) unsupported: Option<Unsupported>,
    /// The limit that was hit.
    pub(crate) stopped: Option<String>,
}

/// All runs from one state on.
pub(crate) struct Traces<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    until: Until,
    footprints: Footprints,
    frames: Vec<Frame>,
    survey: Survey,
    rules: u64,
    ends: u64,
    violation: Option<Vec<Choice>>,
}

/// How an attempt ends.
enum Ending {
    Complete,
    /// A limit was hit.
    Stopped(String),
    /// The first violation is all that is asked for.
    Violated,
    /// What is read follows other rules now: to start again.
    Again,
}

impl<'a, D: Database> Traces<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        until: Until,
    ) -> Traces<'a, D> {
        Traces {
            world,
            checks,
            until,
            footprints: Footprints::new(),
            frames: Vec::new(),
            survey: Survey::default(),
            rules: 0,
            ends: 0,
            violation: None,
        }
    }

    /// Runs them all.
    pub(crate) fn run(mut self, progress: &mut OnProgress<'_>) -> Result<Runs, ExploreError> {
        let mark = self.world.mark();
        self.world.tracking = true;
        let result = loop {
            self.rules = self.world.db.rules_version();
            let result = self.explore(&mut Vec::new(), progress);
            self.world.undo_to(mark);
            match result {
                Ok(Ending::Again) => {
                    let transitions = self.survey.transitions;
                    self.frames.clear();
                    self.ends = 0;
                    self.violation = None;
                    self.survey = Survey {
                        transitions,
                        ..Survey::default()
                    };
                }
                other => break other,
            }
        };
        self.world.tracking = false;
        let mut runs = Runs {
            survey: self.survey,
            ends: self.ends,
            violation: self.violation,
            unsupported: None,
            stopped: None,
        };
        match result {
            Ok(Ending::Stopped(limit)) => runs.stopped = Some(limit),
            Ok(_) => {}
            Err(Flaw::Error(error)) => return Err(error),
            Err(Flaw::Unsupported(what)) => runs.unsupported = Some(what),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
        Ok(runs)
    }

    fn explore(
        &mut self,
        asleep: &mut Vec<Sleeper>,
        progress: &mut OnProgress<'_>,
    ) -> Result<Ending, Flaw> {
        self.noted(|this| this.checks.state(this.world))?;
        let mut enabled = Vec::new();
        let work = self.world.choices(&mut enabled);
        if !work && !World::<D>::may_advance(&enabled) {
            self.end()?;
        }
        let awake = |asleep: &[Sleeper], choice: &Choice| {
            asleep.iter().all(|(sleeper, _)| sleeper != choice)
        };
        // Faults need not happen: a run goes on by work, and may end with faults left.
        let can = |choice: &&Choice| awake(asleep, choice);
        let work = enabled
            .iter()
            .find(|choice| is_work(**choice) && can(choice));
        let Some(first) = work.or_else(|| enabled.iter().find(can)) else {
            return Ok(self.seen_enough().unwrap_or(Ending::Complete));
        };
        if let Some(ending) = self.seen_enough() {
            return Ok(ending);
        }
        let depth = self.frames.len();
        let depth_max = DEPTH_MAX.min(self.until.depth as usize);
        if depth >= depth_max {
            return Ok(Ending::Stopped(format!("a run of {depth_max} events")));
        }
        let mut backtrack = vec![self.world.process_of(*first)];
        if World::<D>::may_advance(&enabled) && !backtrack.contains(&None) {
            // When all are done the clock does not move any more: it is moved wherever it can be.
            backtrack.push(None);
        }
        if !is_work(*first) {
            // Who spends the last fault keeps the others from theirs: nobody's is left out.
            for choice in &enabled {
                let process = self.world.process_of(*choice);
                if !backtrack.contains(&process) {
                    backtrack.push(process);
                }
            }
        }
        let frame = Frame {
            backtrack,
            taken: *first,
            touches: FootprintId::EVERYTHING,
            after: 0,
            enabled,
        };
        self.frames.push(frame);
        loop {
            let frame = &self.frames[depth];
            let wanted = |choice: &&Choice| {
                frame.backtrack.contains(&self.world.process_of(**choice)) && awake(asleep, choice)
            };
            let Some(choice) = frame.enabled.iter().find(wanted).copied() else {
                break;
            };
            let ending = self.take(depth, choice, asleep, progress)?;
            if !matches!(ending, Ending::Complete) {
                return Ok(ending);
            }
        }
        self.frames.pop();
        Ok(Ending::Complete)
    }

    /// Takes a choice, and everything behind it; then it sleeps.
    fn take(
        &mut self,
        depth: usize,
        choice: Choice,
        asleep: &mut Vec<Sleeper>,
        progress: &mut OnProgress<'_>,
    ) -> Result<Ending, Flaw> {
        self.survey.transitions += 1;
        if let Some(limit) = self.limit(progress) {
            return Ok(Ending::Stopped(limit));
        }
        let mark = self.world.mark();
        let committed = self.world.db.committed_version();
        let process = self.world.process_of(choice);
        self.frames[depth].taken = choice;
        let goes_on = self.noted(|this| this.world.apply(choice))?;
        let touches = self.touched(choice, process, committed, goes_on);
        if self.world.db.rules_version() != self.rules {
            return Ok(Ending::Again);
        }
        self.frames[depth].touches = touches;
        self.order(depth, process);
        if goes_on {
            self.keep_from(depth, process);
        }
        let mut ending = self.seen_enough().unwrap_or(Ending::Complete);
        if goes_on {
            let mut still = Vec::new();
            for (sleeper, theirs) in asleep.iter() {
                if !self.footprints.conflict(*theirs, touches) {
                    still.push((*sleeper, *theirs));
                }
            }
            ending = self.explore(&mut still, progress)?;
        }
        self.frames.truncate(depth + 1);
        self.world.undo_to(mark);
        asleep.push((choice, touches));
        Ok(ending)
    }

    /// Whether a violation has been met that was all that is asked for.
    fn seen_enough(&self) -> Option<Ending> {
        (self.until.violation && self.violation.is_some()).then_some(Ending::Violated)
    }

    /// The limit that is hit, if one is.
    fn limit(&self, progress: &mut OnProgress<'_>) -> Option<String> {
        if self.survey.transitions > self.until.transitions {
            return Some(format!("{} steps", self.until.transitions));
        }
        if self.survey.states >= self.until.runs {
            return Some(format!("{} runs", self.until.runs));
        }
        if !self.survey.transitions.is_multiple_of(REPORT_EVERY) {
            return None;
        }
        let report = Progress {
            states: 0,
            transitions: self.survey.transitions,
            depth: self.frames.len() as u32,
            executions: self.survey.states,
            memory_bytes: 0,
        };
        match progress(&report) {
            ControlFlow::Break(why) => Some(why),
            ControlFlow::Continue(()) => None,
        }
    }

    fn touched(
        &mut self,
        choice: Choice,
        process: Actor,
        committed: u64,
        goes_on: bool,
    ) -> FootprintId {
        let mut footprint = self.world.take_footprint();
        // A property that looks at locks or sessions sees more than what is committed: any step.
        let clear = self.world.db.footprints_are_shown()
            && !self.checks.properties.iter().any(|property| property.live)
            && goes_on
            && process.is_some()
            && !matches!(choice, Choice::Advance(_));
        if !clear {
            return FootprintId::EVERYTHING;
        }
        if self.world.db.committed_version() != committed && !self.checks.properties.is_empty() {
            footprint.writes.push(COMMITTED);
            footprint.writes.sort_unstable();
            footprint.writes.dedup();
        }
        self.footprints.number(footprint)
    }

    /// What the last event comes after, and with which events it is in a race: those are to come the
    /// other way round in another run.
    fn order(&mut self, depth: usize, process: Actor) {
        let touches = self.frames[depth].touches;
        let mut after = 0u128;
        let mut races = Vec::new();
        for at in (0..depth).rev() {
            let theirs = self.frames[at].touches;
            let same = self.world.process_of(self.frames[at].taken) == process;
            if !same && !self.footprints.conflict(theirs, touches) {
                continue;
            }
            if after & (1 << at) == 0 && !same {
                races.push(at);
            }
            after |= 1 << at | self.frames[at].after;
        }
        self.frames[depth].after = after;
        for at in races {
            self.reverse(at, depth);
        }
    }

    /// The event at `at` is to come after the one at `last`, which is in a race with it.
    fn reverse(&mut self, at: usize, last: usize) {
        // What does not come after it, and then the last one: whoever can be first there will do.
        let behind = 1u128 << at;
        let rest: Vec<usize> = (at + 1..last)
            .filter(|other| self.frames[*other].after & behind == 0)
            .chain([last])
            .collect();
        let mut among = 0u128;
        for other in &rest {
            among |= 1 << other;
        }
        let mut first: Vec<Actor> = Vec::new();
        for other in &rest {
            let process = self.world.process_of(self.frames[*other].taken);
            if self.frames[*other].after & among == 0 && !first.contains(&process) {
                first.push(process);
            }
        }
        let (world, frame) = (&*self.world, &mut self.frames[at]);
        if first
            .iter()
            .any(|process| frame.backtrack.contains(process))
        {
            return;
        }
        let can = |process: &Actor| {
            let mut enabled = frame.enabled.iter();
            enabled.any(|choice| world.process_of(*choice) == *process)
        };
        match first.iter().find(|process| can(process)) {
            Some(process) => frame.backtrack.push(*process),
            // It was not possible there yet: anything may make it so.
            None => {
                for choice in &frame.enabled {
                    let process = world.process_of(*choice);
                    if !frame.backtrack.contains(&process) {
                        frame.backtrack.push(process);
                    }
                }
            }
        }
    }

    /// What the last event keeps others from doing would never be in a race with it, for it does not
    /// happen in this run: it is to be tried in its place. Faults need no such care: those of a process
    /// are tried wherever its steps are.
    fn keep_from(&mut self, depth: usize, process: Actor) {
        let mut now = Vec::new();
        self.world.choices(&mut now);
        let (world, frame) = (&*self.world, &mut self.frames[depth]);
        for choice in &frame.enabled {
            let theirs = world.process_of(*choice);
            let kept = is_work(*choice) && theirs != process && !now.contains(choice);
            if kept && !frame.backtrack.contains(&theirs) {
                frame.backtrack.push(theirs);
            }
        }
    }

    fn path(&self) -> Vec<Choice> {
        self.frames.iter().map(|frame| frame.taken).collect()
    }

    /// A run has come to its end.
    fn end(&mut self) -> Result<(), Flaw> {
        self.survey.states += 1;
        let hash = Symmetry::outcome(self.world);
        let exact = self.world.outcome_hash();
        self.survey.exact.insert(exact);
        let path = self.path();
        let known = self.survey.terminal.entry(hash);
        known.or_insert_with(|| self.world.in_words(&path));
        self.noted(|this| {
            let end = this.checks.end(this.world)?;
            this.ends += u64::from(matches!(end, End::Over));
            Ok(())
        })?;
        Ok(())
    }

    /// Whether nothing is violated; other flaws are errors.
    fn noted(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Flaw>) -> Result<bool, Flaw> {
        match step(self) {
            Ok(()) => Ok(true),
            Err(Flaw::Violation { property, .. }) => {
                let path = self.path();
                let known = self.survey.violated.entry(property);
                known.or_insert_with(|| self.world.in_words(&path));
                self.violation.get_or_insert(path);
                Ok(false)
            }
            Err(flaw) => Err(flaw),
        }
    }
}
