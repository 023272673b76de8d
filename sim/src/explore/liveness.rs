//! What can go on for ever: questions about the whole graph of states, with nothing left out.
//!
//! * *can finish*: from every state there is a way to one in which every process is done or has
//!   crashed. Asked backwards from those states.
//! * *no starvation*: there is no fair loop in which others commit again and again while some process,
//!   which is not done, does not. A loop is a strongly connected part of the graph without faults and
//!   without moves of the clock (budgets see to that anyhow). It is fair if every process that could
//!   act in all of its states acts in one of them.
//!
//! Reductions are off: those of this explorer keep ends and violations, not loops.

use rowlock_model::schedule::Choice;
use rowlock_model::{ErrorClass, Guarantee};
use rustc_hash::FxHashMap;

use super::check::{Checks, End};
use super::choices::is_work;
use super::error::ExploreError;
use super::hash::Key;
use super::search::{OnProgress, Progress};
use super::world::{Flaw, Phase, World};
use crate::database::Database;

/// Transitions between two reports.
const REPORT_EVERY: u64 = 8_192;

/// An edge of the graph.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    choice: Choice,
    /// Something was committed.
    commits: bool,
    /// A statement was refused so that it should be tried again.
    refused: bool,
}

/// A state of the graph.
#[derive(Clone, Debug, Default)]
struct State {
    edges: Vec<Edge>,
    /// The first way here: state and choice.
    from: Option<(u32, Choice)>,
    /// Every process is done or has crashed, or only the bounds end the run here.
    over: bool,
    /// Processes that are not done, a bit each.
    running: u128,
}

/// What the question about loops comes to.
#[derive(Clone, Debug)]
pub(crate) enum Liveness {
    /// Nothing is wrong.
    Live,
    /// A limit was hit; which one.
    Stopped(String),
    /// Something is: the property, what was seen, and a way to the place.
    Violated(Guarantee, String, Vec<Choice>),
}

/// The graph as far as it is known.
pub(crate) struct Graph<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    states: Vec<State>,
    numbers: FxHashMap<Key, u32>,
    transitions: u64,
    states_max: u64,
    memory_max: u64,
    depth_max: u32,
}

impl<'a, D: Database> Graph<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        limits: &rowlock_model::verdict::Limits,
    ) -> Graph<'a, D> {
        Graph {
            world,
            checks,
            states: Vec::new(),
            numbers: FxHashMap::default(),
            transitions: 0,
            states_max: limits.states,
            memory_max: limits.memory_bytes,
            depth_max: limits.depth,
        }
    }

    /// Builds the graph and answers what is `wanted`.
    pub(crate) fn run(
        mut self,
        wanted: &[Guarantee],
        progress: &mut OnProgress<'_>,
    ) -> Result<Liveness, ExploreError> {
        let mark = self.world.mark();
        let built = self.build(progress);
        self.world.undo_to(mark);
        match built {
            Ok(None) => {}
            Ok(Some(limit)) => return Ok(Liveness::Stopped(limit)),
            Err(Flaw::Error(error)) => return Err(error),
            // What is violated or not modelled was found before this question is asked.
            Err(_) => return Ok(Liveness::Live),
        }
        if wanted.contains(&Guarantee::CanFinish)
            && let Some(found) = self.trap()
        {
            return Ok(found);
        }
        if wanted.contains(&Guarantee::NoStarvation)
            && let Some(found) = self.starved()
        {
            return Ok(found);
        }
        Ok(Liveness::Live)
    }

    /// Depth first over all states; the limit that was hit.
    fn build(&mut self, progress: &mut OnProgress<'_>) -> Result<Option<String>, Flaw> {
        let key = Key::from(self.world.fingerprint());
        self.enter(key, None)?;
        let mut path = vec![(0u32, self.world.mark(), self.choices(), 0usize)];
        while let Some((state, _, choices, next)) = path.last_mut() {
            let Some(choice) = choices.get(*next).copied() else {
                if let Some((_, mark, ..)) = path.pop() {
                    self.world.undo_to(mark);
                }
                continue;
            };
            *next += 1;
            let state = *state;
            let mark = self.world.mark();
            let before = self.world.db.committed_version();
            self.world.recording = true;
            let applied = self.world.apply(choice);
            self.world.recording = false;
            applied?;
            let refused = self.world.happened.answer.as_ref().is_some_and(|answer| {
                answer.error().is_some_and(|error| {
                    matches!(
                        error.class,
                        ErrorClass::Serialization | ErrorClass::Deadlock | ErrorClass::Contention
                    )
                })
            });
            let commits = self.world.db.committed_version() != before;
            let key = Key::from(self.world.fingerprint());
            let known = self.numbers.get(&key).copied();
            let to = match known {
                Some(to) => to,
                None => self.enter(key, Some((state, choice)))?,
            };
            self.states[state as usize].edges.push(Edge {
                to,
                choice,
                commits,
                refused,
            });
            self.transitions += 1;
            match known {
                Some(_) => self.world.undo_to(mark),
                None => {
                    let choices = self.choices();
                    path.push((to, mark, choices, 0));
                }
            }
            if self.states.len() as u64 >= self.states_max {
                return Ok(Some(format!("{} states", self.states.len())));
            }
            if path.len() as u64 > u64::from(self.depth_max) {
                return Ok(Some(format!("depth {}", self.depth_max)));
            }
            if self.transitions.is_multiple_of(REPORT_EVERY) {
                let bytes = self.states.len() as u64 * 120 + self.transitions * 32;
                if bytes > self.memory_max {
                    return Ok(Some(format!("{} bytes of memory", self.memory_max)));
                }
                let report = Progress {
                    states: self.states.len() as u64,
                    transitions: self.transitions,
                    depth: path.len() as u32,
                    executions: 0,
                    memory_bytes: bytes,
                };
                if let std::ops::ControlFlow::Break(why) = progress(&report) {
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    fn choices(&mut self) -> Vec<Choice> {
        let mut choices = Vec::new();
        self.world.choices(&mut choices);
        choices
    }

    fn enter(&mut self, key: Key, from: Option<(u32, Choice)>) -> Result<u32, Flaw> {
        let number = self.states.len() as u32;
        self.numbers.insert(key, number);
        let choices = self.choices();
        let work = choices.iter().any(|choice| is_work(*choice));
        let ends = !work && !World::<D>::may_advance(&choices);
        let over = ends && self.checks.end(self.world)? != End::Stuck;
        let processes = self.world.processes.iter().enumerate();
        let running = processes
            .filter(|(_, process)| process.phase == Phase::Running)
            .fold(0u128, |all, (at, _)| all | 1 << (at % 128));
        self.states.push(State {
            edges: Vec::new(),
            from,
            over,
            running,
        });
        Ok(number)
    }

    fn path_to(&self, state: u32) -> Vec<Choice> {
        let mut path = Vec::new();
        let mut at = state;
        while let Some((from, choice)) = self.states[at as usize].from {
            path.push(choice);
            at = from;
        }
        path.reverse();
        path
    }

    /// A state from which no end can be reached.
    fn trap(&self) -> Option<Liveness> {
        let mut backward: Vec<Vec<u32>> = vec![Vec::new(); self.states.len()];
        for (from, state) in self.states.iter().enumerate() {
            for edge in &state.edges {
                backward[edge.to as usize].push(from as u32);
            }
        }
        let mut good: Vec<bool> = self.states.iter().map(|state| state.over).collect();
        let mut queue: Vec<u32> = (0..self.states.len() as u32)
            .filter(|at| good[*at as usize])
            .collect();
        while let Some(at) = queue.pop() {
            for from in &backward[at as usize] {
                if !std::mem::replace(&mut good[*from as usize], true) {
                    queue.push(*from);
                }
            }
        }
        let bad = (0..self.states.len() as u32).filter(|at| !good[*at as usize]);
        let paths = bad.map(|at| self.path_to(at));
        let path = paths.min_by(|a, b| (a.len(), a).cmp(&(b.len(), b)))?;
        let detail = "from here no order of events leads to the end of all processes";
        Some(Liveness::Violated(
            Guarantee::CanFinish,
            detail.to_owned(),
            path,
        ))
    }

    /// A fair loop in which somebody never gets on while others do.
    fn starved(&self) -> Option<Liveness> {
        let parts = self.loops();
        let mut found: Option<(Vec<Choice>, String)> = None;
        for part in &parts {
            let inside: FxHashMap<u32, ()> = part.iter().map(|at| (*at, ())).collect();
            let Some(who) = self.starved_in(part, &inside) else {
                continue;
            };
            for at in part {
                let path = self.path_to(*at);
                let better =
                    |(known, _): &(Vec<Choice>, String)| (path.len(), &path) < (known.len(), known);
                if found.as_ref().is_none_or(better) {
                    found = Some((path, who.clone()));
                }
            }
        }
        let (path, detail) = found?;
        Some(Liveness::Violated(Guarantee::NoStarvation, detail, path))
    }

    /// Who starves in a strongly connected part.
    fn starved_in(&self, part: &[u32], inside: &FxHashMap<u32, ()>) -> Option<String> {
        let count = self.world.actors.len();
        let (mut acts, mut commits) = (vec![false; count], vec![false; count]);
        let (mut idle, mut refused) = (vec![false; count], vec![false; count]);
        let mut running = u128::MAX;
        for at in part {
            let state = &self.states[*at as usize];
            running &= state.running;
            let mut enabled = vec![false; count];
            for edge in state.edges.iter().filter(|edge| is_work(edge.choice)) {
                let Some(process) = self.world.process_of(edge.choice) else {
                    continue;
                };
                enabled[process] = true;
                if inside.contains_key(&edge.to) {
                    acts[process] = true;
                    commits[process] |= edge.commits;
                    refused[process] |= edge.refused;
                }
            }
            for process in 0..count {
                idle[process] |= !enabled[process];
            }
        }
        let fair = (0..count).all(|process| acts[process] || idle[process]);
        if !fair || !commits.contains(&true) {
            return None;
        }
        let starves = |process: &usize| {
            running & (1 << (process % 128)) != 0
                && !commits[*process]
                && (refused[*process] || !acts[*process])
        };
        let who = (0..count).find(starves)?;
        let others: Vec<&str> = (0..count)
            .filter(|process| commits[*process])
            .map(|process| &*self.world.actors[process].name)
            .collect();
        let name = &self.world.actors[who].name;
        Some(match acts[who] {
            true => format!(
                "from here {name} can be refused again and again while {} commits",
                others.join(", ")
            ),
            false => format!(
                "from here {name} can wait for ever while {} commits again and again",
                others.join(", ")
            ),
        })
    }

    /// Strongly connected parts with an edge inside, over edges that carry work forward (Tarjan's
    /// algorithm, without recursion).
    fn loops(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let count = self.states.len();
        let (mut index, mut low) = (vec![NEW; count], vec![0u32; count]);
        let mut on_stack = vec![false; count];
        let (mut stack, mut parts, mut next) = (Vec::new(), Vec::new(), 0u32);
        for root in 0..count {
            if index[root] != NEW {
                continue;
            }
            let mut calls = vec![(root, 0usize)];
            while let Some((at, edge)) = calls.last_mut() {
                let at = *at;
                if *edge == 0 {
                    index[at] = next;
                    low[at] = next;
                    next += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                let edges = &self.states[at].edges;
                let mut deeper = None;
                while let Some(out) = edges.get(*edge) {
                    *edge += 1;
                    let to = out.to as usize;
                    if !is_work(out.choice) {
                        continue;
                    }
                    if index[to] == NEW {
                        deeper = Some(to);
                        break;
                    }
                    if on_stack[to] {
                        low[at] = low[at].min(index[to]);
                    }
                }
                if let Some(to) = deeper {
                    calls.push((to, 0));
                    continue;
                }
                *edge = edges.len().max(1);
                calls.pop();
                if let Some((before, _)) = calls.last() {
                    low[*before] = low[*before].min(low[at]);
                }
                if low[at] == index[at] {
                    let mut part = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member] = false;
                        part.push(member as u32);
                        if member == at {
                            break;
                        }
                    }
                    let itself = |edge: &Edge| edge.to as usize == at && is_work(edge.choice);
                    if part.len() > 1 || self.states[at].edges.iter().any(itself) {
                        part.sort_unstable();
                        parts.push(part);
                    }
                }
            }
        }
        parts
    }
}
