//! Long searches: depth first over states, with a checkpoint from which another process goes on.
//!
//! What a search knows is plain data: which states were visited, the path that it is on with the
//! choices that are left in each state, and counts. States are known by fingerprints, and those
//! contain numbers that are given out as things come up: histories of processes, states of monitors.
//! So a checkpoint also has the *first sights*: the paths on which such a number was given out, in
//! order. Whoever goes on runs them first and gives out the same numbers.
//!
//! Of the reductions it uses symmetry only; the others keep more than is worth writing down.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rowlock_model::schedule::Choice;
use rowlock_model::verdict::{Limits, Unsupported};

use super::check::{Checks, End};
use super::error::ExploreError;
use super::graph::Packed;
use super::hash::{BuildIdentity, Key};
use super::search::{OnProgress, Progress};
use super::symmetry::Symmetry;
use super::world::{Flaw, World, WorldMark};
use crate::database::Database;

/// Transitions between two reports, and between two looks at whether a checkpoint is due.
const REPORT_EVERY: u64 = 1_024;

/// Bytes of a visited state, of a choice on the path, estimated.
const STATE_BYTES: u64 = 34;

/// Where checkpoints go.
pub struct Checkpoints<'a> {
    /// Whether one is due; asked now and then.
    pub due: &'a mut dyn FnMut() -> bool,
    /// Takes one.
    ///
    /// # Errors
    /// Why it could not be kept; ends the search.
    pub save: &'a mut dyn FnMut(&[u8]) -> Result<(), String>,
}

impl std::fmt::Debug for Checkpoints<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").finish_non_exhaustive()
    }
}

/// A state on the path.
#[derive(Debug)]
struct Frame {
    mark: WorldMark,
    /// What is left to be tried, in reverse.
    left: Vec<Choice>,
    taken: Option<Choice>,
    committed: u64,
}

/// What a long search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: u64,
    pub(crate) transitions: u64,
    pub(crate) terminal_states: u64,
    pub(crate) ends: u64,
    pub(crate) violation: Option<Vec<Choice>>,
    pub(crate) stopped: Option<String>,
    pub(crate) unsupported: Option<Unsupported>,
}

/// Why the search is interrupted.
enum Stop {
    Flaw(Flaw),
    /// Something turned out to be seen that was not counted: to start again.
    Again,
}

impl From<Flaw> for Stop {
    fn from(flaw: Flaw) -> Stop {
        Stop::Flaw(flaw)
    }
}

pub(crate) struct Long<'a, D> {
    world: &'a mut World<D>,
    checks: &'a mut Checks,
    limits: &'a Limits,
    symmetry: Option<Symmetry>,
    /// Whether symmetry is wanted at all.
    may_exchange: bool,
    visited: HashSet<Key, BuildIdentity>,
    stack: Vec<Frame>,
    sights: Vec<Vec<Choice>>,
    sighted: Sighted,
    rules: u64,
    found: Found,
}

/// How much was given out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sighted {
    histories: usize,
    monitors: Vec<u32>,
    late: usize,
    logs: usize,
    rules: u64,
    tells_apart: bool,
}

impl<'a, D: Database> Long<'a, D> {
    pub(crate) fn new(
        world: &'a mut World<D>,
        checks: &'a mut Checks,
        limits: &'a Limits,
        may_exchange: bool,
    ) -> Long<'a, D> {
        Long {
            world,
            checks,
            limits,
            symmetry: None,
            may_exchange,
            visited: HashSet::default(),
            stack: Vec::new(),
            sights: Vec::new(),
            sighted: Sighted::default(),
            rules: 0,
            found: Found::default(),
        }
    }

    /// Searches from the beginning, or from a checkpoint.
    ///
    /// # Errors
    /// As every exploration; and if the checkpoint is not one of this exploration.
    pub(crate) fn run(
        mut self,
        checkpoint: Option<&[u8]>,
        checkpoints: &mut Checkpoints<'_>,
        progress: &mut OnProgress<'_>,
    ) -> Result<Found, ExploreError> {
        let start = self.world.mark();
        self.sighted = self.sight();
        let mut from = checkpoint;
        let result = loop {
            let result = self.explore(from.take(), start, checkpoints, progress);
            self.world.undo_to(start);
            match result {
                Err(Stop::Again) => {
                    self.visited.clear();
                    self.stack.clear();
                    self.found = Found::default();
                }
                Err(Stop::Flaw(flaw)) => break Err(flaw),
                Ok(()) => break Ok(()),
            }
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

    fn explore(
        &mut self,
        checkpoint: Option<&[u8]>,
        start: WorldMark,
        checkpoints: &mut Checkpoints<'_>,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), Stop> {
        match checkpoint {
            Some(bytes) => self.resume(bytes, start)?,
            None => {
                self.checks.occurred.fill(false);
                self.begin();
                let key = self.key()?;
                self.visited.insert(key);
                if !self.enter(start, None)? {
                    self.found.violation = Some(Vec::new());
                    return Ok(());
                }
            }
        }
        while let Some(frame) = self.stack.last_mut() {
            let Some(choice) = frame.left.pop() else {
                let done = self.stack.pop();
                if let Some(done) = done.filter(|_| !self.stack.is_empty()) {
                    self.world.undo_to(done.mark);
                }
                continue;
            };
            frame.taken = Some(choice);
            let committed = frame.committed;
            let mark = self.world.mark();
            self.found.transitions += 1;
            let violated = match self.world.apply(choice) {
                Ok(()) => {
                    self.note_sights()?;
                    let key = self.key()?;
                    match self.visited.insert(key) {
                        true => !self.enter(mark, Some(committed))?,
                        false => {
                            self.world.undo_to(mark);
                            false
                        }
                    }
                }
                Err(Flaw::Violation { .. }) => true,
                Err(flaw) => return Err(flaw.into()),
            };
            if violated {
                self.found.violation = Some(self.path());
                return Ok(());
            }
            self.look_up(checkpoints, progress);
            if self.found.stopped.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Limits, the progress, and a checkpoint if one is due. When a limit is hit one is written, so
    /// that somebody with more can go on.
    fn look_up(&mut self, checkpoints: &mut Checkpoints<'_>, progress: &mut OnProgress<'_>) {
        let states = self.visited.len() as u64;
        let mut stopped = None;
        if states >= self.limits.states {
            stopped = Some(format!("{states} states"));
        } else if self.stack.len() as u64 > u64::from(self.limits.depth) {
            stopped = Some(format!("depth {}", self.limits.depth));
        }
        let looks = self.found.transitions.is_multiple_of(REPORT_EVERY);
        if looks {
            if self.bytes() > self.limits.memory_bytes {
                stopped = Some(format!("{} bytes of memory", self.limits.memory_bytes));
            }
            let report = Progress {
                states,
                transitions: self.found.transitions,
                depth: self.stack.len() as u32,
                executions: 0,
                memory_bytes: self.bytes(),
            };
            if let ControlFlow::Break(why) = progress(&report) {
                stopped = Some(why);
            }
        }
        if (looks && (checkpoints.due)()) || stopped.is_some() {
            let bytes = self.write();
            if let Err(why) = (checkpoints.save)(&bytes) {
                stopped = Some(why);
            }
        }
        self.found.stopped = stopped;
    }

    fn bytes(&self) -> u64 {
        let histories: usize = self.world.tries.iter().map(super::trie::Trie::len).sum();
        let sights: usize = self.sights.iter().map(Vec::len).sum();
        self.visited.capacity() as u64 * STATE_BYTES
            + histories as u64 * 1_000
            + sights as u64 * 16
            + self.stack.len() as u64 * 200
    }

    /// Rules and symmetry as they are known to be now.
    fn begin(&mut self) {
        self.rules = self.world.db.rules_version();
        self.symmetry = match self.may_exchange {
            true => Symmetry::of(self.world),
            false => None,
        };
    }

    fn key(&mut self) -> Result<Key, Stop> {
        if self.world.db.rules_version() != self.rules
            || (self.symmetry.is_some() && !self.world.may_exchange())
        {
            return Err(Stop::Again);
        }
        Ok(Key::from(match &mut self.symmetry {
            Some(symmetry) => symmetry.fingerprint(self.world),
            None => self.world.fingerprint(),
        }))
    }

    fn sight(&self) -> Sighted {
        let monitors = self.world.monitor_states.iter().zip(
            self.sighted
                .monitors
                .iter()
                .copied()
                .chain(std::iter::repeat(0)),
        );
        Sighted {
            histories: self.world.tries.iter().map(super::trie::Trie::len).sum(),
            monitors: monitors.map(|(state, most)| (*state).max(most)).collect(),
            late: self.world.late.len(),
            logs: self
                .world
                .serial
                .as_ref()
                .map_or(0, |serial| serial.numbered()),
            rules: self.world.db.rules_version(),
            tells_apart: self.world.tells_apart,
        }
    }

    /// Keeps the path if something was numbered on its last step.
    fn note_sights(&mut self) -> Result<(), Stop> {
        let sighted = self.sight();
        if sighted != self.sighted {
            self.sighted = sighted;
            let path = self.path();
            self.sights.push(path);
        }
        Ok(())
    }

    fn path(&self) -> Vec<Choice> {
        self.stack.iter().filter_map(|frame| frame.taken).collect()
    }

    /// Enters a new state; `false` if a property is violated in it.
    fn enter(&mut self, mark: WorldMark, before: Option<u64>) -> Result<bool, Flaw> {
        let committed = self.world.db.committed_version();
        let mut left = Vec::new();
        let checked = match before == Some(committed) {
            true => self.checks.live_state(self.world),
            false => self.checks.state(self.world),
        };
        let checked = checked.and_then(|()| {
            let work = self.world.choices(&mut left);
            if !work && !World::<D>::may_advance(&left) {
                self.found.terminal_states += 1;
                if self.checks.end(self.world)? == End::Over {
                    self.found.ends += 1;
                }
            }
            Ok(())
        });
        match checked {
            Ok(()) => {}
            Err(Flaw::Violation { .. }) => return Ok(false),
            Err(flaw) => return Err(flaw),
        }
        left.reverse();
        self.stack.push(Frame {
            mark,
            left,
            taken: None,
            committed,
        });
        Ok(true)
    }

    /// Everything that is needed to go on.
    fn write(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.0.extend_from_slice(MAGIC);
        out.number(self.sights.len() as u64);
        for sight in &self.sights {
            out.choices(sight);
        }
        out.number(u64::from(self.world.contention.found));
        out.flags(&self.world.occurred);
        out.flags(&self.checks.occurred);
        let world = &self.world;
        for count in [
            self.found.transitions,
            self.found.terminal_states,
            self.found.ends,
            world.statements,
            world.waits,
        ] {
            out.number(count);
        }
        out.number(self.stack.len() as u64);
        for frame in &self.stack {
            out.choices(frame.taken.as_slice());
            out.choices(&frame.left);
        }
        let mut keys: Vec<Key> = self.visited.iter().copied().collect();
        keys.sort_unstable();
        out.number(keys.len() as u64);
        for key in keys {
            for word in key.words() {
                out.number(word);
            }
        }
        out.0
    }

    /// Takes a checkpoint over.
    fn resume(&mut self, bytes: &[u8], start: WorldMark) -> Result<(), Stop> {
        let damaged = || {
            Flaw::Error(ExploreError::Checkpoint(
                "it is cut off, or of another version".to_owned(),
            ))
        };
        let bytes = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let mut reader = Reader(bytes);
        let count = reader.number().ok_or_else(damaged)?;
        for _ in 0..count {
            let sight = reader.choices().ok_or_else(damaged)?;
            self.follow(&sight)?;
            self.sighted = self.sight();
            self.world.undo_to(start);
            self.sights.push(sight);
        }
        self.begin();
        self.world.contention.found = reader.number().ok_or_else(damaged)? != 0;
        self.world.occurred = reader.flags().ok_or_else(damaged)?;
        self.checks.occurred = reader.flags().ok_or_else(damaged)?;
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = reader.number().ok_or_else(damaged)?;
        }
        let frames = reader.number().ok_or_else(damaged)?;
        let mut mark = start;
        for _ in 0..frames {
            let taken = reader.choices().ok_or_else(damaged)?;
            let left = reader.choices().ok_or_else(damaged)?;
            self.stack.push(Frame {
                mark,
                left,
                taken: taken.first().copied(),
                committed: self.world.db.committed_version(),
            });
            // The last state has its choice behind it: it was taken, and undone.
            if self.stack.len() as u64 != frames {
                mark = self.world.mark();
                self.follow(&taken)?;
            }
        }
        let count = reader.number().ok_or_else(damaged)?;
        for _ in 0..count {
            let low = reader.number().ok_or_else(damaged)?;
            let high = reader.number().ok_or_else(damaged)?;
            self.visited
                .insert(Key::from(u128::from(high) << 64 | u128::from(low)));
        }
        let [transitions, terminal_states, ends, statements, waits] = counts;
        self.found.transitions = transitions;
        self.found.terminal_states = terminal_states;
        self.found.ends = ends;
        self.world.statements = statements;
        self.world.waits = waits;
        Ok(())
    }

    /// Takes choices that were taken before.
    fn follow(&mut self, path: &[Choice]) -> Result<(), Flaw> {
        let mut enabled = Vec::new();
        for (at, choice) in path.iter().enumerate() {
            enabled.clear();
            self.world.choices(&mut enabled);
            if !enabled.contains(choice) {
                return Err(Flaw::Error(ExploreError::Checkpoint(format!(
                    "its event {} is not possible in this exploration",
                    at + 1
                ))));
            }
            match self.world.apply(*choice) {
                Ok(()) | Err(Flaw::Violation { .. }) => {}
                Err(flaw) => return Err(flaw),
            }
        }
        Ok(())
    }
}

/// What a checkpoint begins with.
const MAGIC: &[u8] = b"rowlock checkpoint 1\n";

/// Numbers of eight bytes, and lists of them behind their length.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn choices(&mut self, choices: &[Choice]) {
        self.number(choices.len() as u64);
        for choice in choices {
            self.number(Packed::from(*choice).word());
        }
    }

    fn flags(&mut self, flags: &[bool]) {
        self.number(flags.len() as u64);
        for flag in flags {
            self.number(u64::from(*flag));
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn list<T>(&mut self, each: impl Fn(u64) -> T) -> Option<Vec<T>> {
        let count = self.number()?;
        // A damaged length must not ask for more than there is.
        if count > self.0.len() as u64 / 8 {
            return None;
        }
        (0..count).map(|_| self.number().map(&each)).collect()
    }

    fn choices(&mut self) -> Option<Vec<Choice>> {
        self.list(|word| Choice::from(Packed::of_word(word)))
    }

    fn flags(&mut self) -> Option<Vec<bool>> {
        self.list(|word| word != 0)
    }
}
