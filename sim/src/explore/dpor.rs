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

use rowlock_model::schedule::Choice;

use super::check::{Checks, End};
use super::choices::is_work;
use super::error::ExploreError;
use super::footprints::{FootprintId, Footprints};
use super::survey::Survey;
use super::symmetry::Symmetry;
use super::world::{Flaw, World};
use crate::database::Database;

/// Events of one run after which it gives up: the program has a loop.
const DEPTH_MAX: usize = 120;

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

/// All runs from one state on.
pub(crate) struct Traces<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    /// Steps after which it gives up.
    transitions_max: u64,
    footprints: Footprints,
    frames: Vec<Frame>,
    survey: Survey,
    rules: u64,
    /// Runs that ended because everything slept.
    blocked: u64,
}

/// How an attempt ends.
enum Ending {
    Complete,
    TooMany,
    /// What is read follows other rules now: to start again.
    Again,
}

impl<'a, D: Database> Traces<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        transitions_max: u64,
    ) -> Traces<'a, D> {
        Traces {
            world,
            checks,
            transitions_max,
            footprints: Footprints::new(),
            frames: Vec::new(),
            survey: Survey::default(),
            rules: 0,
            blocked: 0,
        }
    }

    /// What all runs come to, with the number of runs as the number of states; `None` if there are too
    /// many. And how many runs were in vain.
    pub(crate) fn run(mut self) -> Result<Option<(Survey, u64)>, ExploreError> {
        let mark = self.world.mark();
        self.world.tracking = true;
        let result = loop {
            self.rules = self.world.db.rules_version();
            let result = self.explore(&mut Vec::new());
            self.world.undo_to(mark);
            match result {
                Ok(Ending::Again) => {
                    let transitions = self.survey.transitions;
                    self.frames.clear();
                    self.blocked = 0;
                    self.survey = Survey {
                        transitions,
                        ..Survey::default()
                    };
                }
                other => break other,
            }
        };
        self.world.tracking = false;
        match result {
            Ok(Ending::Complete) => Ok(Some((self.survey, self.blocked))),
            Ok(_) => Ok(None),
            Err(Flaw::Error(error)) => Err(error),
            Err(Flaw::Unsupported(what)) => Err(ExploreError::Actor {
                process: String::new(),
                detail: what.to_string(),
            }),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
    }

    fn explore(&mut self, asleep: &mut Vec<Sleeper>) -> Result<Ending, Flaw> {
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
            self.blocked += u64::from(!enabled.is_empty());
            return Ok(Ending::Complete);
        };
        if self.frames.len() >= DEPTH_MAX {
            return Ok(Ending::TooMany);
        }
        let depth = self.frames.len();
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
            let ending = self.take(depth, choice, asleep)?;
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
    ) -> Result<Ending, Flaw> {
        self.survey.transitions += 1;
        if self.survey.transitions > self.transitions_max {
            return Ok(Ending::TooMany);
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
        let mut ending = Ending::Complete;
        if goes_on {
            let mut still = Vec::new();
            for (sleeper, theirs) in asleep.iter() {
                if !self.footprints.conflict(*theirs, touches) {
                    still.push((*sleeper, *theirs));
                }
            }
            ending = self.explore(&mut still)?;
        }
        self.frames.truncate(depth + 1);
        self.world.undo_to(mark);
        asleep.push((choice, touches));
        Ok(ending)
    }

    fn touched(
        &mut self,
        choice: Choice,
        process: Actor,
        committed: u64,
        goes_on: bool,
    ) -> FootprintId {
        let mut footprint = self.world.take_footprint();
        let clear = self.world.db.footprints_are_shown()
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
        self.noted(|this| this.checks.end(this.world).map(|_: End| ()))?;
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
                Ok(false)
            }
            Err(flaw) => Err(flaw),
        }
    }
}
