//! The explored graph, kept compactly so that questions can be asked after the search: what is the
//! smallest schedule that leads to a violation, and how many interleavings were covered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rowlock_model::schedule::{Choice, Loss, ProcessId, RequestId, SessionId};

use super::choices::is_fault;

/// A choice in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packed(u64);

const KINDS: u32 = 60;
const ACTORS: u32 = 52;
const LOSSES: u32 = 48;

impl Packed {
    /// The word.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// What was packed into a word.
    pub(crate) fn of_word(word: u64) -> Packed {
        Packed(word)
    }
}

impl From<Choice> for Packed {
    fn from(choice: Choice) -> Packed {
        let pack = |kind: u64, actor: u8, loss: u64, rest: u64| {
            Packed(kind << KINDS | u64::from(actor) << ACTORS | loss << LOSSES | rest)
        };
        match choice {
            Choice::Step(p, r) => pack(0, p.0, 0, r.0.into()),
            Choice::Resume(s) => pack(1, s.0, 0, 0),
            Choice::Deadlock(s) => pack(2, s.0, 0, 0),
            Choice::Expire(s) => pack(3, s.0, 0, 0),
            Choice::Crash(p) => pack(4, p.0, 0, 0),
            Choice::Notice(s) => pack(5, s.0, 0, 0),
            Choice::Kill(s) => pack(6, s.0, 0, 0),
            Choice::Lose(p, r, loss) => pack(7, p.0, loss as u64, r.0.into()),
            Choice::Late(s) => pack(8, s.0, 0, 0),
            // Moves are positive and below 2^60 microseconds (36,000 years).
            Choice::Advance(by) => Packed(9 << KINDS | by as u64 & ((1 << KINDS) - 1)),
            Choice::Cancel(p, r) => pack(10, p.0, 0, r.0.into()),
            Choice::Continue(s) => pack(11, s.0, 0, 0),
            Choice::Route(s, backend) => pack(12, s.0, 0, backend.into()),
        }
    }
}

impl From<Packed> for Choice {
    fn from(Packed(word): Packed) -> Choice {
        let actor = (word >> ACTORS) as u8;
        let (process, session) = (ProcessId(actor), SessionId(actor));
        let request = RequestId(word as u32);
        let loss = match word >> LOSSES & 0xf {
            0 => Loss::NotArrived,
            1 => Loss::ReplyLost,
            _ => Loss::StillRunning,
        };
        match word >> KINDS {
            0 => Choice::Step(process, request),
            1 => Choice::Resume(session),
            2 => Choice::Deadlock(session),
            3 => Choice::Expire(session),
            4 => Choice::Crash(process),
            5 => Choice::Notice(session),
            6 => Choice::Kill(session),
            7 => Choice::Lose(process, request, loss),
            8 => Choice::Late(session),
            9 => Choice::Advance((word & ((1 << KINDS) - 1)) as i64),
            10 => Choice::Cancel(process, request),
            11 => Choice::Continue(session),
            _ => Choice::Route(session, word as u8),
        }
    }
}

/// States are numbered in the order in which they were found; 0 is the initial one.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Of each state, where its edges begin and how many there are; states that were not expanded
    /// have none.
    spans: Vec<(u64, u32)>,
    to: Vec<u32>,
    choices: Vec<Packed>,
}

impl Graph {
    /// Sets down edges of a state, in addition to those that it has.
    pub(crate) fn expand(&mut self, state: u32, edges: &[(u32, Packed)]) {
        let at = state as usize;
        if self.spans.len() <= at {
            self.spans.resize(at + 1, (0, 0));
        }
        let (start, len) = self.spans[at];
        let known = start as usize..start as usize + len as usize;
        self.spans[at] = (self.to.len() as u64, len + edges.len() as u32);
        if len > 0 {
            // A state that was expanded again: its edges move to the end together.
            self.to.extend_from_within(known.clone());
            self.choices.extend_from_within(known);
        }
        for (to, choice) in edges {
            self.to.push(*to);
            self.choices.push(*choice);
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.spans.capacity() * 16 + self.to.capacity() * 4 + self.choices.capacity() * 8) as u64
    }

    pub(super) fn edges(&self, state: u32) -> impl Iterator<Item = (u32, Choice)> + '_ {
        let (start, len) = self.spans.get(state as usize).copied().unwrap_or((0, 0));
        let range = start as usize..start as usize + len as usize;
        range.map(|at| (self.to[at], Choice::from(self.choices[at])))
    }

    /// The exact number of paths from the initial state to states without edges, if it is finite
    /// (no cycle). Beyond 2^53 it is rounded.
    pub(crate) fn interleavings(&self) -> Option<f64> {
        const OPEN: f64 = -1.0;
        const NEW: f64 = -2.0;
        let states = self.states();
        let mut paths = vec![NEW; states];
        let mut stack = vec![(0u32, false)];
        while let Some((state, done)) = stack.pop() {
            let at = state as usize;
            if done {
                let sum: f64 = self.edges(state).map(|(to, _)| paths[to as usize]).sum();
                paths[at] = if self.edges(state).next().is_none() {
                    1.0
                } else {
                    sum
                };
                continue;
            }
            if paths[at] != NEW {
                continue;
            }
            paths[at] = OPEN;
            stack.push((state, true));
            for (to, _) in self.edges(state) {
                let known = paths[to as usize];
                if known == OPEN {
                    return None;
                }
                if known == NEW {
                    stack.push((to, false));
                }
            }
        }
        paths.first().copied()
    }

    pub(super) fn states(&self) -> usize {
        let last = self.to.iter().copied().max().unwrap_or(0) as usize;
        self.spans.len().max(last + 1)
    }

    /// The smallest path from the initial state to one of `targets`: fewest faults, then clock
    /// moves, then events that overtake a session whose lock was already granted (a live server
    /// would hardly do that), then switches between processes, then events; among equal ones the
    /// first in the order of choices.
    pub(crate) fn smallest_path(
        &self,
        targets: &[u32],
        process_of: impl Fn(Choice) -> Option<usize>,
        processes: usize,
    ) -> Vec<Choice> {
        let states = self.states();
        // Who acted last is part of a place, unless that takes too much memory.
        let actors = match states.saturating_mul(processes + 1) {
            places if places <= PLACES_MAX => processes + 1,
            _ => 1,
        };
        let paths = Paths {
            graph: self,
            process_of: &process_of,
            actors,
            overtakes: self.states_with_grants(states),
        };
        paths.smallest(targets, states)
    }

    /// States in which some session may resume.
    fn states_with_grants(&self, states: usize) -> Vec<bool> {
        (0..states as u32)
            .map(|state| {
                self.edges(state)
                    .any(|(_, choice)| matches!(choice, Choice::Resume(_)))
            })
            .collect()
    }
}

/// States times processes that the search for the smallest path may number.
const PLACES_MAX: usize = 60_000_000;

type Cost = u128;

const EVENTS: u32 = 0;
const SWITCHES: u32 = 24;
const OVERTAKES: u32 = 48;
const CLOCK: u32 = 72;
const FAULTS: u32 = 96;

/// The search for the smallest path, backwards from the targets.
struct Paths<'a, F> {
    graph: &'a Graph,
    process_of: &'a F,
    /// Number of last actors told apart; the last number stands for nobody.
    actors: usize,
    overtakes: Vec<bool>,
}

impl<F: Fn(Choice) -> Option<usize>> Paths<'_, F> {
    /// Who is at work after a choice; `None` if the choice leaves that open.
    fn worker(&self, choice: Choice) -> Option<usize> {
        match choice {
            Choice::Step(..)
            | Choice::Lose(..)
            | Choice::Cancel(..)
            | Choice::Continue(_)
            | Choice::Route(..)
                if self.actors > 1 =>
            {
                (self.process_of)(choice)
            }
            _ => None,
        }
    }

    fn cost(&self, from: u32, last: usize, choice: Choice) -> Cost {
        let mut cost: Cost = 1 << EVENTS;
        if let Some(worker) = self.worker(choice)
            && last != worker
            && last != self.actors - 1
        {
            cost += 1 << SWITCHES;
        }
        if self.overtakes[from as usize] && !matches!(choice, Choice::Resume(_)) {
            cost += 1 << OVERTAKES;
        }
        if matches!(choice, Choice::Advance(_)) {
            cost += 1 << CLOCK;
        }
        if is_fault(choice) {
            cost += 1 << FAULTS;
        }
        cost
    }

    fn smallest(&self, targets: &[u32], states: usize) -> Vec<Choice> {
        let backward = Backward::of(self.graph, states);
        let place = |state: u32, last: usize| state as usize * self.actors + last;
        let nobody = self.actors - 1;
        let mut best = vec![Cost::MAX; states * self.actors];
        let mut heap = BinaryHeap::new();
        for target in targets {
            for last in 0..self.actors {
                best[place(*target, last)] = 0;
                heap.push(Reverse((0, *target, last)));
            }
        }
        while let Some(Reverse((cost, state, last))) = heap.pop() {
            if cost > best[place(state, last)] {
                continue;
            }
            if (state, last) == (0, nobody) {
                break;
            }
            for (from, choice) in backward.edges(state) {
                let befores = match self.worker(choice) {
                    Some(worker) if worker != last => continue,
                    Some(_) => 0..self.actors,
                    None => last..last + 1,
                };
                for before in befores {
                    let sum = cost + self.cost(from, before, choice);
                    let known = &mut best[place(from, before)];
                    if sum < *known {
                        *known = sum;
                        heap.push(Reverse((sum, from, before)));
                    }
                }
            }
        }
        let mut path = Vec::new();
        let (mut state, mut last) = (0, nobody);
        while best[place(state, last)] > 0 {
            let here = best[place(state, last)];
            let step = self
                .graph
                .edges(state)
                .filter_map(|(to, choice)| {
                    let next = self.worker(choice).unwrap_or(last);
                    let rest = best[place(to, next)];
                    let fits = rest < here && rest + self.cost(state, last, choice) == here;
                    fits.then_some((choice, to, next))
                })
                .min_by_key(|(choice, ..)| *choice);
            let Some((choice, to, next)) = step else {
                break;
            };
            path.push(choice);
            (state, last) = (to, next);
        }
        path
    }
}

/// Edges by the state that they lead to.
struct Backward {
    start: Vec<u64>,
    edges: Vec<(u32, Packed)>,
}

impl Backward {
    fn of(graph: &Graph, states: usize) -> Backward {
        let mut start = vec![0u64; states + 1];
        // Edges that have moved have left their old places behind.
        for (first, len) in &graph.spans {
            for to in &graph.to[*first as usize..*first as usize + *len as usize] {
                start[*to as usize + 1] += 1;
            }
        }
        for at in 0..states {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut edges = vec![(0, Packed(0)); start[states] as usize];
        for (from, (first, len)) in graph.spans.iter().enumerate() {
            for at in *first as usize..*first as usize + *len as usize {
                let slot = &mut next[graph.to[at] as usize];
                edges[*slot as usize] = (from as u32, graph.choices[at]);
                *slot += 1;
            }
        }
        Backward { start, edges }
    }

    fn edges(&self, state: u32) -> impl Iterator<Item = (u32, Choice)> + '_ {
        let range = self.start[state as usize] as usize..self.start[state as usize + 1] as usize;
        self.edges[range]
            .iter()
            .map(|(from, choice)| (*from, Choice::from(*choice)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_survive_packing() {
        let (p, r, s) = (ProcessId(3), RequestId(70_000), SessionId(200));
        let choices = [
            Choice::Step(p, r),
            Choice::Resume(s),
            Choice::Deadlock(s),
            Choice::Expire(s),
            Choice::Crash(p),
            Choice::Notice(s),
            Choice::Kill(s),
            Choice::Lose(p, r, Loss::NotArrived),
            Choice::Lose(p, r, Loss::ReplyLost),
            Choice::Lose(p, r, Loss::StillRunning),
            Choice::Late(s),
            Choice::Advance(30_000_000),
            Choice::Cancel(p, r),
            Choice::Continue(s),
            Choice::Route(s, 7),
        ];
        for choice in choices {
            assert_eq!(Choice::from(Packed::from(choice)), choice);
        }
    }

    #[test]
    fn the_smallest_path_has_few_faults_then_few_switches() {
        let step = |p, r| Packed::from(Choice::Step(ProcessId(p), RequestId(r)));
        let crash = Packed::from(Choice::Crash(ProcessId(0)));
        let mut graph = Graph::default();
        // 0 -crash-> 4; 0 -p0-> 1 -p1-> 2 -p0-> 4; 0 -p0-> 1 -p0-> 3 -p1-> 4.
        graph.expand(0, &[(4, crash), (1, step(0, 0))]);
        graph.expand(1, &[(2, step(1, 0)), (3, step(0, 1))]);
        graph.expand(2, &[(4, step(0, 1))]);
        graph.expand(3, &[(4, step(1, 0))]);
        let process_of = |choice| match choice {
            Choice::Step(ProcessId(p), _) => Some(usize::from(p)),
            _ => None,
        };
        let path = graph.smallest_path(&[4], process_of, 2);
        let expected = [step(0, 0), step(0, 1), step(1, 0)].map(Choice::from);
        assert_eq!(path, expected);
        assert_eq!(graph.interleavings(), Some(3.0));
        // A state that is expanded again keeps what it had.
        graph.expand(2, &[(3, step(1, 1))]);
        assert_eq!(graph.interleavings(), Some(4.0));
        assert_eq!(graph.smallest_path(&[4], process_of, 2), expected);
    }
}
