//! The exhaustive search: depth first over states, each expanded once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Limits, Unsupported};

use super::check::{Checks, End};
use super::error::ExploreError;
use super::graph::{Graph, Packed};
use super::hash::{BuildIdentity, Key};
use super::world::{Flaw, World, WorldMark};
use crate::database::Database;

/// How far a search is, for a progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Distinct states so far.
    pub states: u64,
    /// Transitions so far.
    pub transitions: u64,
    /// Events on the present path.
    pub depth: u32,
    /// Random mode: executions so far.
    pub executions: u64,
    /// Bytes in use, estimated.
    pub memory_bytes: u64,
}

/// Hears of the progress; may stop the search with a reason (`time`).
pub type OnProgress<'a> = dyn FnMut(&Progress) -> ControlFlow<String> + 'a;

/// Transitions between two reports.
const REPORT_EVERY: u64 = 8_192;

/// States explored beyond the first violation, at least, to find a smaller schedule.
const BEYOND_VIOLATION: u64 = 400_000;

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: u64,
    pub(crate) transitions: u64,
    pub(crate) terminal_states: u64,
    /// Runs that came to their end.
    pub(crate) ends: u64,
    /// States in which a property is violated.
    pub(crate) violations: Vec<u32>,
    pub(crate) graph: Graph,
    /// The limit that was hit.
    pub(crate) stopped: Option<String>,
    /// What is not modelled; ends the search as well.
    pub(crate) unsupported: Option<Unsupported>,
}

/// One state on the present path.
struct Frame {
    state: u32,
    /// Before the state was entered.
    mark: WorldMark,
    choices: usize,
    next: usize,
    edges: usize,
    committed: u64,
}

pub(crate) struct Search<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    limits: &'a Limits,
    visited: HashMap<Key, u32, BuildIdentity>,
    stack: Vec<Frame>,
    /// Choices of the states on the path, one after the other.
    choices: Vec<Choice>,
    /// Edges of the states on the path, as far as they were explored.
    edges: Vec<(u32, Packed)>,
    found: Found,
    states_max: u64,
    /// [`Database::detail`] when the search began.
    detail: u8,
}

impl<'a, D: Database> Search<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        limits: &'a Limits,
    ) -> Search<'a, D> {
        Search {
            world,
            checks,
            limits,
            visited: HashMap::default(),
            stack: Vec::new(),
            choices: Vec::new(),
            edges: Vec::new(),
            found: Found::default(),
            states_max: limits.states,
            detail: 0,
        }
    }

    /// Searches until everything is explored or a limit is hit. The world is then as before.
    pub(crate) fn run(mut self, progress: &mut OnProgress<'_>) -> Result<Found, ExploreError> {
        let mark = self.world.mark();
        let result = loop {
            self.detail = self.world.db.detail();
            let result = self.explore(mark, progress);
            self.world.undo_to(mark);
            while let Some(frame) = self.stack.pop() {
                self.close(&frame);
            }
            if self.detail == self.world.db.detail() {
                break result;
            }
            // A text turned up that sees more than the states so far were told apart by.
            self.visited.clear();
            self.found = Found::default();
            self.states_max = self.limits.states;
        };
        match result {
            Ok(()) => {}
            Err(Flaw::Error(error)) => return Err(error),
            Err(Flaw::Unsupported(what)) => self.found.unsupported = Some(what),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
        self.found.states = self.visited.len() as u64;
        Ok(self.found)
    }

    fn explore(&mut self, mark: WorldMark, progress: &mut OnProgress<'_>) -> Result<(), Flaw> {
        self.checks.occurred.fill(false);
        let key = Key::from(self.world.fingerprint());
        self.visited.insert(key, 0);
        self.open(0, mark, None)?;
        while let Some(frame) = self.stack.last_mut() {
            if frame.next == self.choices.len() {
                let frame = self.stack.pop().expect("a frame is on the stack");
                self.close(&frame);
                if !self.stack.is_empty() {
                    self.world.undo_to(frame.mark);
                }
                continue;
            }
            let choice = self.choices[frame.next];
            frame.next += 1;
            let committed = frame.committed;
            self.take(choice, committed)?;
            if self.found.transitions.is_multiple_of(REPORT_EVERY)
                && let ControlFlow::Break(why) = progress(&self.progress())
            {
                self.found.stopped = Some(why);
            }
            if self.found.stopped.is_some() || self.detail != self.world.db.detail() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes one choice in the present state.
    fn take(&mut self, choice: Choice, committed: u64) -> Result<(), Flaw> {
        self.found.transitions += 1;
        let mark = self.world.mark();
        let applied = self.world.apply(choice);
        if let Err(flaw) = applied {
            let state = self.violation(flaw)?;
            self.edges.push((state, choice.into()));
            self.world.undo_to(mark);
            return Ok(());
        }
        let key = Key::from(self.world.fingerprint());
        let next = self.visited.len() as u32;
        match self.visited.entry(key) {
            Entry::Occupied(known) => {
                self.edges.push((*known.get(), choice.into()));
                self.world.undo_to(mark);
            }
            Entry::Vacant(place) => {
                place.insert(next);
                self.edges.push((next, choice.into()));
                self.open(next, mark, Some(committed))?;
                self.check_limits();
            }
        }
        Ok(())
    }

    /// Notes a violation in the present, half-entered state; other flaws end the search.
    fn violation(&mut self, flaw: Flaw) -> Result<u32, Flaw> {
        let Flaw::Violation { property, .. } = &flaw else {
            return Err(flaw);
        };
        // Told apart from the same state without the violation.
        let salt = property.bytes().fold(1u128 << 127 | 1, |salt, byte| {
            salt.rotate_left(9) ^ u128::from(byte)
        });
        let key = Key::from(self.world.fingerprint() ^ salt);
        let next = self.visited.len() as u32;
        let state = *self.visited.entry(key).or_insert(next);
        if state == next {
            self.note_violation(state);
        }
        Ok(state)
    }

    fn note_violation(&mut self, state: u32) {
        if self.found.violations.is_empty() {
            let more = self.found.transitions.max(BEYOND_VIOLATION);
            self.states_max = self.states_max.min(self.visited.len() as u64 + more);
        }
        self.found.violations.push(state);
    }

    /// Enters a new state: checks it and lists its choices.
    fn open(&mut self, state: u32, mark: WorldMark, before: Option<u64>) -> Result<(), Flaw> {
        let committed = self.world.db.committed_version();
        let choices = self.choices.len();
        match self.look(committed, before) {
            Ok(()) => {}
            Err(Flaw::Violation { .. }) => {
                self.choices.truncate(choices);
                self.note_violation(state);
            }
            Err(flaw) => return Err(flaw),
        }
        self.stack.push(Frame {
            state,
            mark,
            choices,
            next: choices,
            edges: self.edges.len(),
            committed,
        });
        Ok(())
    }

    fn look(&mut self, committed: u64, before: Option<u64>) -> Result<(), Flaw> {
        if !self.checks.properties.is_empty() {
            match before == Some(committed) {
                true => self.checks.live_state(self.world)?,
                false => self.checks.state(self.world)?,
            }
        }
        let start = self.choices.len();
        let work = self.world.choices(&mut self.choices);
        if !work && !World::<D>::may_advance(&self.choices[start..]) {
            self.found.terminal_states += 1;
            if self.checks.end(self.world)? == End::Over {
                self.found.ends += 1;
            }
        }
        Ok(())
    }

    /// Leaves a state whose choices are explored.
    fn close(&mut self, frame: &Frame) {
        self.found
            .graph
            .expand(frame.state, &self.edges[frame.edges..]);
        self.edges.truncate(frame.edges);
        self.choices.truncate(frame.choices);
    }

    fn check_limits(&mut self) {
        let states = self.visited.len() as u64;
        if states >= self.states_max {
            self.found.stopped = Some(match self.found.violations.is_empty() {
                true => format!("{states} states"),
                false => format!("{states} states, enough after a violation"),
            });
        } else if self.stack.len() as u64 > u64::from(self.limits.depth) {
            self.found.stopped = Some(format!("depth {}", self.limits.depth));
        } else if states.is_multiple_of(REPORT_EVERY) && self.bytes() > self.limits.memory_bytes {
            self.found.stopped = Some(format!("{} bytes of memory", self.limits.memory_bytes));
        }
    }

    fn bytes(&self) -> u64 {
        let visited = self.visited.capacity() as u64 * 26;
        let histories: usize = self.world.tries.iter().map(super::trie::Trie::len).sum();
        visited + self.found.graph.bytes() + histories as u64 * 1_000
    }

    fn progress(&self) -> Progress {
        Progress {
            states: self.visited.len() as u64,
            transitions: self.found.transitions,
            depth: self.stack.len() as u32,
            executions: 0,
            memory_bytes: self.bytes(),
        }
    }
}
