//! The anytime mode: what few delays reach comes first.
//!
//! A delay-bounded scheduler (Emmi, Qadeer, Rakamaric, POPL 2011) lets the process that acted last go
//! on; where it cannot, the next one in order. Each time it passes over one that could go on it pays a
//! delay; so does a fault, and a move of the clock that nobody needs. With `k` delays there are few
//! schedules, and most errors need few delays. The bound goes from 0 to 3; then everything is
//! explored.
//!
//! A state that was visited is visited again if more of the budget is left: what is remembered of a
//! state is the most that was left in it. Who acted last is part of the state here.

use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rustc_hash::FxHashMap;

use super::check::Checks;
use super::choices::is_work;
use super::search::{OnProgress, Progress};
use super::world::{Flaw, World};
use crate::database::Database;

/// Transitions between two reports.
const REPORT_EVERY: u64 = 8_192;

/// Bounds that are tried before everything is.
pub(crate) const BOUNDS: std::ops::RangeInclusive<u32> = 0..=3;

/// What a bounded search comes to.
pub(crate) enum Bounded {
    /// Nothing is violated within the bound.
    Nothing,
    /// The choices that lead to a violation.
    Violated(Vec<Choice>),
    /// A limit was hit.
    Stopped(String),
}

/// A search with so many delays at most.
pub(crate) struct Delays<'a, D> {
    pub(crate) world: &'a mut World<D>,
    pub(crate) checks: &'a mut Checks,
    pub(crate) states_max: u64,
    pub(crate) depth_max: u32,
    /// The most that was left, by state and who acted last.
    left: FxHashMap<(u128, usize), u32>,
    pub(crate) transitions: u64,
}

/// A state on the path.
struct Frame {
    mark: super::world::WorldMark,
    choices: Vec<(Choice, u32)>,
    next: usize,
    left: u32,
    last: usize,
    taken: Option<Choice>,
}

impl<'a, D: Database> Delays<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        limits: &rowlock_model::verdict::Limits,
    ) -> Delays<'a, D> {
        Delays {
            world,
            checks,
            states_max: limits.states,
            depth_max: limits.depth,
            left: FxHashMap::default(),
            transitions: 0,
        }
    }

    /// States, told apart by who acted last.
    pub(crate) fn states(&self) -> u64 {
        self.left.len() as u64
    }

    /// Everything that `bound` delays reach. The world is then as before.
    pub(crate) fn run(
        &mut self,
        bound: u32,
        progress: &mut OnProgress<'_>,
    ) -> Result<Bounded, Flaw> {
        self.left.clear();
        let mark = self.world.mark();
        let found = self.search(bound, mark, progress);
        self.world.undo_to(mark);
        found
    }

    fn search(
        &mut self,
        bound: u32,
        mark: super::world::WorldMark,
        progress: &mut OnProgress<'_>,
    ) -> Result<Bounded, Flaw> {
        let mut stack: Vec<Frame> = Vec::new();
        // Nobody has acted: the first process is first.
        match self.enter(mark, bound, 0)? {
            Some(frame) => stack.push(frame),
            None => return Ok(Bounded::Violated(Vec::new())),
        }
        while let Some(frame) = stack.last_mut() {
            let Some((choice, cost)) = frame.choices.get(frame.next).copied() else {
                let done = stack.pop();
                if let Some(done) = done.filter(|_| !stack.is_empty()) {
                    self.world.undo_to(done.mark);
                }
                continue;
            };
            frame.next += 1;
            frame.taken = Some(choice);
            let Some(left) = frame.left.checked_sub(cost) else {
                continue;
            };
            let last = self.world.process_of(choice).unwrap_or(frame.last);
            let mark = self.world.mark();
            self.transitions += 1;
            let violated = match self.world.apply(choice) {
                Ok(()) => {
                    let key = (self.world.fingerprint(), last);
                    let known = self.left.get(&key).copied();
                    if known.is_some_and(|known| known >= left) {
                        self.world.undo_to(mark);
                        continue;
                    }
                    self.left.insert(key, left);
                    match self.enter(mark, left, last)? {
                        Some(frame) => {
                            stack.push(frame);
                            false
                        }
                        None => true,
                    }
                }
                Err(Flaw::Violation { .. }) => true,
                Err(flaw) => return Err(flaw),
            };
            if violated {
                let path = stack.iter().filter_map(|frame| frame.taken).collect();
                return Ok(Bounded::Violated(path));
            }
            if let Some(limit) = self.limit(stack.len(), progress) {
                return Ok(Bounded::Stopped(limit));
            }
        }
        Ok(Bounded::Nothing)
    }

    fn limit(&self, depth: usize, progress: &mut OnProgress<'_>) -> Option<String> {
        if self.states() >= self.states_max {
            return Some(format!("{} states", self.states()));
        }
        if depth as u64 > u64::from(self.depth_max) {
            return Some(format!("depth {}", self.depth_max));
        }
        if !self.transitions.is_multiple_of(REPORT_EVERY) {
            return None;
        }
        let report = Progress {
            states: self.states(),
            transitions: self.transitions,
            depth: depth as u32,
            executions: 0,
            memory_bytes: self.states() * 48,
        };
        match progress(&report) {
            ControlFlow::Break(why) => Some(why),
            ControlFlow::Continue(()) => None,
        }
    }

    /// Checks the present state and lists its choices with what they cost; `None` if a property is
    /// violated.
    fn enter(
        &mut self,
        mark: super::world::WorldMark,
        left: u32,
        last: usize,
    ) -> Result<Option<Frame>, Flaw> {
        let mut checked = self.checks.state(self.world);
        let mut all = Vec::new();
        let work = self.world.choices(&mut all);
        if checked.is_ok() && !work && !World::<D>::may_advance(&all) {
            checked = self.checks.end(self.world).map(|_| ());
        }
        match checked {
            Ok(()) => {}
            Err(Flaw::Violation { .. }) => return Ok(None),
            Err(flaw) => return Err(flaw),
        }
        let count = self.world.actors.len();
        let behind = |choice: &Choice| {
            let process = self.world.process_of(*choice).unwrap_or(last);
            (process + count - last) % count.max(1)
        };
        let mut choices: Vec<(Choice, u32)> = Vec::new();
        let mut works: Vec<Choice> = all.iter().copied().filter(|c| is_work(*c)).collect();
        works.sort_by_key(behind);
        let (mut cost, mut before) = (0, None);
        for choice in works {
            let process = behind(&choice);
            if before.is_some_and(|before| before != process) {
                cost += 1;
            }
            before = Some(process);
            choices.push((choice, cost));
        }
        let needed = u32::from(work);
        let others = all.iter().filter(|choice| !is_work(**choice));
        choices.extend(others.map(|choice| match choice {
            Choice::Advance(_) => (*choice, needed),
            _ => (*choice, 1),
        }));
        Ok(Some(Frame {
            mark,
            choices,
            next: 0,
            left,
            last,
            taken: None,
        }))
    }
}
