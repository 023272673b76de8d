//! The exhaustive search: depth first over states, each expanded once.

use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Limits, Unsupported};

use super::check::{Checks, End};
use super::error::ExploreError;
use super::footprints::SleepId;
use super::graph::{Graph, Packed};
use super::hash::Key;
use super::reduce::{Mistaken, Reducer, Sleeper};
use super::survey::Survey;
use super::symmetry::Symmetry;
use super::table::{Place, Table};
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
    /// A path to the first of them.
    pub(crate) witness: Vec<Choice>,
    pub(crate) graph: Graph,
    /// The limit that was hit.
    pub(crate) stopped: Option<String>,
    /// What is not modelled; ends the search as well.
    pub(crate) unsupported: Option<Unsupported>,
    /// What a survey collects.
    pub(crate) survey: Option<Survey>,
}

/// When a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// A while after the first violation, to find a small schedule.
    SmallViolation,
    /// At the first violation.
    AnyViolation,
    /// When everything was explored.
    Everything,
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
    /// Where its sleeping choices begin.
    asleep: usize,
    /// What was explored last: it sleeps from then on.
    explored: Option<Sleeper>,
    /// The choice that is being explored.
    taken: Option<Choice>,
    /// Whether the state was not on the path before.
    first: bool,
}

/// Of a visited state: its number, and what slept when it was expanded.
#[derive(Clone, Copy, Debug, Default)]
struct Visited {
    state: u32,
    asleep: SleepId,
}

/// Why a search is interrupted.
enum Stop {
    Flaw(Flaw),
    /// To start again.
    Mistaken,
}

impl From<Flaw> for Stop {
    fn from(flaw: Flaw) -> Stop {
        Stop::Flaw(flaw)
    }
}

impl From<Mistaken> for Stop {
    fn from(Mistaken: Mistaken) -> Stop {
        Stop::Mistaken
    }
}

pub(crate) struct Search<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    limits: &'a Limits,
    until: Until,
    visited: Table<Visited>,
    stack: Vec<Frame>,
    /// Of each state, whether it is on the stack.
    on_stack: Vec<bool>,
    /// Choices of the states on the path, one after the other.
    choices: Vec<Choice>,
    /// Edges of the states on the path, as far as they were explored.
    edges: Vec<(u32, Packed)>,
    reducer: Option<Reducer>,
    /// Whether the graph is kept: without, a search takes less time and memory, and cannot say which
    /// violating schedule is the smallest.
    keeps_graph: bool,
    rules_version: u64,
    found: Found,
    states_max: u64,
}

impl<'a, D: Database> Search<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        limits: &'a Limits,
        until: Until,
        reducer: Option<Reducer>,
    ) -> Search<'a, D> {
        let keeps_graph = until != Until::AnyViolation;
        let visited = match keeps_graph || reducer.is_some() {
            true => Table::default(),
            false => Table::without_values(),
        };
        Search {
            world,
            checks,
            limits,
            until,
            visited,
            stack: Vec::new(),
            on_stack: Vec::new(),
            choices: Vec::new(),
            edges: Vec::new(),
            reducer,
            keeps_graph,
            rules_version: 0,
            found: Found::default(),
            states_max: limits.states,
        }
    }

    /// Searches until everything is explored or a limit is hit. The world is then as before.
    pub(crate) fn run(mut self, progress: &mut OnProgress<'_>) -> Result<Found, ExploreError> {
        let mark = self.world.mark();
        self.world.tracking = self.reducer.as_ref().is_some_and(|r| r.on.track());
        let result = loop {
            let result = self.explore(mark, progress);
            self.world.undo_to(mark);
            match result {
                Err(Stop::Mistaken) => self.start_again(),
                Err(Stop::Flaw(flaw)) => break Err(flaw),
                Ok(()) => break Ok(()),
            }
        };
        self.world.tracking = false;
        while let Some(frame) = self.stack.pop() {
            self.close(&frame);
        }
        match result {
            Ok(()) => {}
            Err(Flaw::Error(error)) => return Err(error),
            Err(Flaw::Unsupported(what)) => self.found.unsupported = Some(what),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
        self.found.states = self.visited.len() as u64;
        Ok(self.found)
    }

    /// Forgets everything but what steps have turned out to write.
    fn start_again(&mut self) {
        self.visited.clear();
        self.stack.clear();
        self.on_stack.clear();
        self.choices.clear();
        self.edges.clear();
        self.found = Found::default();
        self.states_max = self.limits.states;
        if let Some(reducer) = &mut self.reducer {
            reducer.start_again();
        }
    }

    fn explore(&mut self, mark: WorldMark, progress: &mut OnProgress<'_>) -> Result<(), Stop> {
        self.checks.occurred.fill(false);
        self.rules_version = self.world.db.rules_version();
        if self.until == Until::Everything {
            self.found.survey = Some(Survey::default());
        }
        let key = self.key()?;
        let first = Visited {
            state: 0,
            asleep: SleepId::NOTHING,
        };
        if let Place::Free(at) = self.visited.place(key) {
            self.visited.fill(at, key, first);
        }
        self.open(0, mark, None, 0)?;
        while let Some(frame) = self.stack.last_mut() {
            if let (Some(explored), Some(reducer)) = (frame.explored.take(), &mut self.reducer) {
                reducer.asleep.push(explored);
            }
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
            frame.taken = Some(choice);
            self.take(choice)?;
            if self.found.transitions.is_multiple_of(REPORT_EVERY)
                && let ControlFlow::Break(why) = progress(&self.progress())
            {
                self.found.stopped = Some(why);
            }
            if self.found.stopped.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What the present state is known by.
    fn key(&mut self) -> Result<Key, Stop> {
        Ok(Key::from(match &mut self.reducer {
            Some(reducer) => reducer.fingerprint(self.world)?,
            None => self.world.fingerprint(),
        }))
    }

    /// Takes one choice in the present state.
    fn take(&mut self, choice: Choice) -> Result<(), Stop> {
        self.found.transitions += 1;
        let mark = self.world.mark();
        let applied = self.world.apply(choice);
        if let Err(flaw) = applied {
            if self.world.tracking {
                self.world.take_footprint();
            }
            let state = self.violation(flaw)?;
            self.edge(state, choice);
            self.world.undo_to(mark);
            return Ok(());
        }
        let touches = match &mut self.reducer {
            None => None,
            Some(reducer) => Some(reducer.touched(self.world, choice)?),
        };
        if self.world.db.rules_version() != self.rules_version {
            return Err(Stop::Mistaken);
        }
        let key = self.key()?;
        let next = self.visited.len() as u32;
        let frame = self.stack.last_mut().expect("a choice is taken in a state");
        let committed = frame.committed;
        let place = self.visited.place(key);
        let (mut asleep, mut from) = (SleepId::NOTHING, 0);
        if let (Some(reducer), Some(touches)) = (&mut self.reducer, touches) {
            let back = match place {
                Place::Taken(at) => self.on_stack[self.visited.value(at).state as usize],
                Place::Free(_) => false,
            };
            if (!back || reducer.may_close_cycles())
                && reducer.is_invisible(self.world, choice, touches)
            {
                let process = self.world.process_of(choice);
                leave_to(self.world, process, &mut self.choices, frame.next);
            }
            let before = frame.asleep;
            from = reducer.asleep.len();
            asleep = reducer.fall_asleep(before, touches);
            if reducer.on.sleep_sets {
                frame.explored = Some(Sleeper {
                    choice: choice.into(),
                    touches,
                });
            }
        }
        match place {
            Place::Free(at) => {
                let state = next;
                self.visited.fill(at, key, Visited { state, asleep });
                self.edge(state, choice);
                self.open(state, mark, Some(committed), from)?;
                self.check_limits();
            }
            Place::Taken(at) if self.reducer.is_some() || self.keeps_graph => {
                let known = *self.visited.value(at);
                self.edge(known.state, choice);
                self.come_back(known, at, mark, asleep, from);
            }
            Place::Taken(_) => self.world.undo_to(mark),
        }
        Ok(())
    }

    /// Notes an edge from the present state.
    #[inline]
    fn edge(&mut self, to: u32, choice: Choice) {
        if self.keeps_graph {
            self.edges.push((to, choice.into()));
        }
    }

    /// A state is reached again, with `asleep` asleep: goes back, unless something has woken up.
    fn come_back(
        &mut self,
        known: Visited,
        place: usize,
        mark: WorldMark,
        asleep: SleepId,
        from: usize,
    ) {
        let reducer = self.reducer.as_mut();
        match reducer.and_then(|r| r.wake(known.asleep, asleep, from)) {
            None => {
                if let Some(reducer) = &mut self.reducer {
                    reducer.asleep.truncate(from);
                }
                self.world.undo_to(mark);
            }
            Some((awake, asleep)) => {
                let state = known.state;
                *self.visited.value(place) = Visited { state, asleep };
                self.open_again(state, mark, &awake, from);
            }
        }
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
        let asleep = SleepId::NOTHING;
        let new = Visited {
            state: next,
            asleep,
        };
        Ok(match self.visited.place(key) {
            Place::Taken(at) if self.keeps_graph => self.visited.value(at).state,
            // Nobody asks where an edge leads.
            Place::Taken(_) => 0,
            Place::Free(at) => {
                self.visited.fill(at, key, new);
                self.note_violation(next, property);
                next
            }
        })
    }

    fn note_violation(&mut self, state: u32, property: &str) {
        if self.found.violations.is_empty() {
            let more = self.found.transitions.max(BEYOND_VIOLATION);
            match self.until {
                Until::SmallViolation => {
                    let states = self.visited.len() as u64;
                    self.states_max = self.states_max.min(states + more);
                }
                Until::AnyViolation => self.found.stopped = Some("a violation".to_owned()),
                Until::Everything => {}
            }
            self.found.witness = path_of(&self.stack);
        }
        if let Some(survey) = &mut self.found.survey {
            let path = path_of(&self.stack);
            let known = survey.violated.entry(property.to_owned());
            known.or_insert_with(|| self.world.in_words(&path));
        }
        self.found.violations.push(state);
    }

    /// Enters a new state: checks it and lists its choices, without those that sleep.
    fn open(
        &mut self,
        state: u32,
        mark: WorldMark,
        before: Option<u64>,
        asleep: usize,
    ) -> Result<(), Flaw> {
        let committed = self.world.db.committed_version();
        let choices = self.choices.len();
        match self.look(committed, before) {
            Ok(()) => {}
            Err(Flaw::Violation { property, .. }) => {
                self.choices.truncate(choices);
                self.note_violation(state, &property);
            }
            Err(flaw) => return Err(flaw),
        }
        if let Some(reducer) = &self.reducer {
            let all = self.choices.len() - choices;
            let mut kept = choices;
            for at in choices..self.choices.len() {
                let choice = self.choices[at];
                if !reducer.sleeps(asleep, choice) {
                    self.choices[kept] = choice;
                    kept += 1;
                }
            }
            self.choices.truncate(kept);
            let sleeping = reducer.asleep.len() - asleep;
            debug_assert!(
                all == 0 || kept - choices + sleeping == all,
                "a step that sleeps is not possible any more: some footprint is too small"
            );
            reducer.order(self.world, &mut self.choices[choices..]);
        }
        self.push(state, mark, choices, committed, asleep);
        Ok(())
    }

    /// Enters a state again that was expanded with more asleep.
    fn open_again(&mut self, state: u32, mark: WorldMark, awake: &[Choice], asleep: usize) {
        let choices = self.choices.len();
        self.choices.extend_from_slice(awake);
        let committed = self.world.db.committed_version();
        self.push(state, mark, choices, committed, asleep);
    }

    fn push(&mut self, state: u32, mark: WorldMark, choices: usize, committed: u64, asleep: usize) {
        // Only reductions ask which states are on the path.
        let mut first = false;
        if self.reducer.is_some() {
            let at = state as usize;
            if self.on_stack.len() <= at {
                self.on_stack.resize(at + 1, false);
            }
            first = !std::mem::replace(&mut self.on_stack[at], true);
        }
        self.stack.push(Frame {
            state,
            mark,
            choices,
            next: choices,
            edges: self.edges.len(),
            committed,
            asleep,
            explored: None,
            taken: None,
            first,
        });
    }

    fn look(&mut self, committed: u64, before: Option<u64>) -> Result<(), Flaw> {
        if !self.checks.properties.is_empty() {
            let checked = match before == Some(committed) {
                true => self.checks.live_state(self.world),
                false => self.checks.state(self.world),
            };
            match (checked, &mut self.found.survey) {
                // Whoever wants to know everything goes on.
                (Err(Flaw::Violation { property, .. }), Some(survey)) => {
                    let path = path_of(&self.stack);
                    let known = survey.violated.entry(property);
                    known.or_insert_with(|| self.world.in_words(&path));
                }
                (checked, _) => checked?,
            }
        }
        let start = self.choices.len();
        let work = self.world.choices(&mut self.choices);
        if !work && !World::<D>::may_advance(&self.choices[start..]) {
            self.found.terminal_states += 1;
            if let Some(survey) = &mut self.found.survey {
                let hash = Symmetry::outcome(self.world);
                let exact = self.world.outcome_hash();
                survey.exact.insert(exact);
                let path = path_of(&self.stack);
                let known = survey.terminal.entry(hash);
                known.or_insert_with(|| self.world.in_words(&path));
            }
            if self.checks.end(self.world)? == End::Over {
                self.found.ends += 1;
            }
        }
        Ok(())
    }

    /// Leaves a state whose choices are explored.
    fn close(&mut self, frame: &Frame) {
        if self.keeps_graph {
            let edges = &self.edges[frame.edges..];
            self.found.graph.expand(frame.state, edges);
            self.edges.truncate(frame.edges);
        }
        self.choices.truncate(frame.choices);
        if frame.first {
            self.on_stack[frame.state as usize] = false;
        }
        if let Some(reducer) = &mut self.reducer {
            reducer.asleep.truncate(frame.asleep);
        }
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
        let visited = self.visited.bytes();
        let histories: usize = self.world.tries.iter().map(super::trie::Trie::len).sum();
        let reducer = self.reducer.as_ref().map_or(0, Reducer::bytes);
        visited + self.found.graph.bytes() + histories as u64 * 1_000 + reducer
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

/// Leaves, of the choices from `next` on, those of one process.
fn leave_to<D: Database>(
    world: &World<D>,
    process: Option<usize>,
    choices: &mut Vec<Choice>,
    next: usize,
) {
    let mut kept = next;
    for at in next..choices.len() {
        if world.process_of(choices[at]) == process {
            choices[kept] = choices[at];
            kept += 1;
        }
    }
    choices.truncate(kept);
}

/// The choices that led to the present state.
fn path_of(stack: &[Frame]) -> Vec<Choice> {
    stack.iter().filter_map(|frame| frame.taken).collect()
}
