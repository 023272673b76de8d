//! Runs the permutations of a file: what is launched when, and what is reported when.
//!
//! A step is launched as soon as its session is free, and reported when it is known to be done or to
//! wait. A session that is busy when its next step comes is waited for, and only then, and at the
//! end, does time pass.

use super::bench::{Bench, Refusal, Rest, Results};
use super::{Entry, Marker, Permutation, Spec, StepId, table};
use crate::stage::StageError;

/// How a permutation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// To its end.
    Complete,
    /// The simulator does not model something in it. Nothing of its output may be compared.
    Unsupported(String),
    /// It cannot go on; says why.
    Stuck(String),
}

/// What running one permutation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number in the file, from 1.
    pub number: usize,
    /// What the tester prints for it, from the empty line before it on.
    pub output: String,
    /// How it ended.
    pub ending: Ending,
}

/// Why a file could not be run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The server.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A set-up was refused.
    #[error("setup failed: {0}")]
    Setup(String),
}

/// Runs those permutations of a file whose numbers, from 1, `wanted` accepts, and hands each to
/// `each` when it has ended.
///
/// The connections are kept for all of them, except after one that did not end: it may have left
/// anything behind, so the next starts from an empty database.
///
/// # Errors
/// The server is lost, or a set-up was refused.
pub fn run(
    spec: &Spec,
    name: &str,
    bench: &mut dyn Bench,
    wanted: impl Fn(usize) -> bool,
    mut each: impl FnMut(Run),
) -> Result<(), SpecError> {
    let mut names = vec![format!("isolation/{name}/control connection")];
    names.extend(
        spec.sessions
            .iter()
            .map(|session| format!("isolation/{name}/{}", session.name)),
    );
    let last = (1..=spec.permutations.len()).rev().find(|n| wanted(*n));
    let mut is_open = false;
    for (i, permutation) in spec.permutations.iter().enumerate() {
        if !wanted(i + 1) {
            continue;
        }
        if !is_open {
            bench.open(&names)?;
            for sql in spec.texts() {
                bench.announce(sql);
            }
        }
        bench.begin(Some(i + 1) != last);
        let mut tester = Tester::new(spec, bench, permutation);
        let ending = match tester.run() {
            Ok(()) => Ending::Complete,
            Err(Stop::Unsupported(what)) => Ending::Unsupported(what),
            Err(Stop::Stuck(why)) => Ending::Stuck(why),
            Err(Stop::Error(error)) => return Err(error),
        };
        is_open = ending == Ending::Complete;
        each(Run {
            number: i + 1,
            output: tester.out,
            ending,
        });
    }
    Ok(())
}

/// Why a permutation ends early.
enum Stop {
    Unsupported(String),
    Stuck(String),
    Error(SpecError),
}

/// After so many looks at a step in vain, what it waits for is taken not to come.
const MOST_ROUNDS: u32 = 10_000;

impl From<StageError> for Stop {
    fn from(error: StageError) -> Stop {
        Stop::Error(error.into())
    }
}

/// A step that was launched.
#[derive(Clone, Debug)]
struct Launched {
    /// Its place in the permutation.
    at: usize,
    /// For each marker that counts notices, the number that must be reached.
    targets: Vec<u32>,
}

struct Tester<'a> {
    spec: &'a Spec,
    bench: &'a mut dyn Bench,
    permutation: &'a Permutation,
    out: String,
    /// The step that each session is busy with, by its place in the permutation.
    active: Vec<Option<Launched>>,
    /// Notices that came from each session.
    notices: Vec<u32>,
    /// Steps that were reported as waiting, in that order, by their place in the permutation.
    waiting: Vec<usize>,
}

impl<'a> Tester<'a> {
    fn new(spec: &'a Spec, bench: &'a mut dyn Bench, permutation: &'a Permutation) -> Tester<'a> {
        Tester {
            spec,
            bench,
            permutation,
            out: String::new(),
            active: vec![None; spec.sessions.len()],
            notices: vec![0; spec.sessions.len()],
            waiting: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        self.out.push_str("\nstarting permutation:");
        for entry in &self.permutation.entries {
            self.out.push(' ');
            self.out.push_str(&self.spec.step(entry.step).name);
        }
        self.out.push('\n');
        for sql in &self.spec.setups {
            self.prepare(0, &sql.text)?;
        }
        for (i, session) in self.spec.sessions.iter().enumerate() {
            if let Some(sql) = &session.setup {
                self.prepare(i + 1, &sql.text)?;
            }
        }
        self.steps()?;
        for (i, session) in self.spec.sessions.iter().enumerate() {
            if let Some(sql) = &session.teardown {
                self.clean_up(i + 1, &sql.text)?;
            }
        }
        if let Some(sql) = &self.spec.teardown {
            self.clean_up(0, &sql.text)?;
        }
        Ok(())
    }

    fn steps(&mut self) -> Result<(), Stop> {
        for at in 0..self.permutation.entries.len() {
            let session = self.entry(at).step.session;
            let (mut printed, mut rounds) = (self.out.len(), 0);
            while let Some(older) = self.active[session].clone() {
                rounds = if printed == self.out.len() {
                    rounds + 1
                } else {
                    printed = self.out.len();
                    0
                };
                if rounds > MOST_ROUNDS {
                    return Err(Stop::Stuck(
                        "a step waits for notices that do not come".to_owned(),
                    ));
                }
                if !self.poll(older.at, true, true)? {
                    self.waiting.retain(|other| *other != older.at);
                }
                self.poll_all(false)?;
            }
            self.launch(at)?;
            let waits = self.poll(at, false, false)?;
            self.poll_all(false)?;
            if waits {
                self.waiting.push(at);
            }
        }
        self.poll_all(true)?;
        match self.waiting.is_empty() {
            true => Ok(()),
            false => Err(Stop::Stuck(
                "failed to complete permutation due to mutually-blocking steps".to_owned(),
            )),
        }
    }

    fn entry(&self, at: usize) -> &'a Entry {
        &self.permutation.entries[at]
    }

    fn launch(&mut self, at: usize) -> Result<(), Stop> {
        let entry = self.entry(at);
        let session = entry.step.session;
        self.bench
            .send(session + 1, &self.spec.step(entry.step).sql.text)?;
        let targets = entry.markers.iter().filter_map(|marker| match marker {
            Marker::Notices(step, count) => Some(self.notices[step.session] + count),
            _ => None,
        });
        let targets = targets.collect();
        self.active[session] = Some(Launched { at, targets });
        Ok(())
    }

    /// Looks at every step that waits; returns when none of them is held back any more by
    /// something that this round has changed.
    fn poll_all(&mut self, patient: bool) -> Result<(), Stop> {
        loop {
            let mut progress = false;
            let before: u32 = self.notices.iter().sum();
            for at in self.waiting.clone() {
                if !self.poll(at, true, patient)? {
                    self.waiting.retain(|other| *other != at);
                    progress = true;
                }
            }
            let held_back = self
                .waiting
                .iter()
                .any(|at| !self.entry(*at).markers.is_empty());
            progress |= self.notices.iter().sum::<u32>() > before;
            if !(held_back && progress) {
                return Ok(());
            }
        }
    }

    /// Looks at a launched step and reports what there is to report. Whether it still waits.
    fn poll(&mut self, at: usize, again: bool, patient: bool) -> Result<bool, Stop> {
        let entry = self.entry(at);
        let session = entry.step.session;
        let step = self.spec.step(entry.step);
        let report_waiting = |out: &mut String| {
            if !again {
                out.push_str(&format!(
                    "step {}: {} <waiting ...>\n",
                    step.name, step.sql.text
                ));
            }
        };
        if !again && entry.markers.contains(&Marker::Once) {
            report_waiting(&mut self.out);
            return Ok(true);
        }
        let rest = self.bench.wait(session + 1, patient)?;
        self.take_notices(session);
        match rest {
            Rest::Finished => {}
            Rest::Blocked => {
                report_waiting(&mut self.out);
                return Ok(true);
            }
            Rest::Stuck(why) => {
                return Err(Stop::Stuck(format!("step {} {why}", step.name)));
            }
        }
        if self.is_held_back(at) {
            report_waiting(&mut self.out);
            return Ok(true);
        }
        self.out.push_str(&match again {
            false => format!("step {}: {}\n", step.name, step.sql.text),
            true => format!("step {}: <... completed>\n", step.name),
        });
        let results = self.bench.results(session + 1)?;
        self.print(&results)?;
        self.take_notifications(session);
        self.active[session] = None;
        Ok(false)
    }

    /// Whether a marker of a step is unmet.
    fn is_held_back(&self, at: usize) -> bool {
        let entry = self.entry(at);
        let launched = self.active[entry.step.session].as_ref();
        let mut targets = launched.map_or(&[][..], |l| &l.targets).iter();
        entry.markers.iter().any(|marker| match marker {
            Marker::Once => false,
            Marker::Step(step) => self.is_active(*step),
            Marker::Notices(step, _) => targets
                .next()
                .is_some_and(|target| self.notices[step.session] < *target),
        })
    }

    fn is_active(&self, step: StepId) -> bool {
        let active = self.active[step.session].as_ref();
        active.is_some_and(|active| self.entry(active.at).step == step)
    }

    fn take_notices(&mut self, session: usize) {
        for notice in self.bench.notices(session + 1) {
            self.notices[session] += 1;
            self.out.push_str(&format!(
                "{}: {}:  {}\n",
                self.spec.sessions[session].name, notice.severity, notice.message
            ));
        }
    }

    fn take_notifications(&mut self, session: usize) {
        for notification in self.bench.notifications(session + 1) {
            let from = match notification.from {
                Ok(0) => "control connection".to_owned(),
                Ok(seat) => self.spec.sessions[seat - 1].name.clone(),
                Err(pid) => format!("PID {pid}"),
            };
            self.out.push_str(&format!(
                "{}: NOTIFY \"{}\" with payload \"{}\" from {from}\n",
                self.spec.sessions[session].name, notification.channel, notification.payload
            ));
        }
    }

    fn print(&mut self, results: &Results) -> Result<(), Stop> {
        for found in &results.tables {
            table::print(found, &mut self.out);
        }
        if let Some(error) = &results.error {
            if error.is_unsupported {
                return Err(Stop::Unsupported(error.message.clone()));
            }
            self.out
                .push_str(&format!("{}:  {}\n", error.severity, error.message));
        }
        Ok(())
    }

    /// Sends a text and waits for its end.
    fn run_to_end(&mut self, seat: usize, sql: &str) -> Result<Results, Stop> {
        self.bench.send(seat, sql)?;
        let rest = self.bench.wait(seat, true)?;
        match seat {
            // Those of the control connection are not printed.
            0 => drop(self.bench.notices(0)),
            _ => self.take_notices(seat - 1),
        }
        match rest {
            Rest::Finished => Ok(self.bench.results(seat)?),
            Rest::Blocked => Err(Stop::Stuck("a set-up or tear-down is blocked".to_owned())),
            Rest::Stuck(why) => Err(Stop::Stuck(format!("a set-up or tear-down {why}"))),
        }
    }

    fn prepare(&mut self, seat: usize, sql: &str) -> Result<(), Stop> {
        let mut results = self.run_to_end(seat, sql)?;
        let error = results.error.take();
        self.print(&results)?;
        match error {
            None => Ok(()),
            Some(error) if error.is_unsupported => Err(Stop::Unsupported(error.message)),
            Some(Refusal {
                severity, message, ..
            }) => Err(Stop::Error(SpecError::Setup(format!(
                "{severity}:  {message}"
            )))),
        }
    }

    /// A tear-down that is refused is only told of, on the other channel.
    fn clean_up(&mut self, seat: usize, sql: &str) -> Result<(), Stop> {
        let mut results = self.run_to_end(seat, sql)?;
        if results.error.as_ref().is_some_and(|e| !e.is_unsupported) {
            results.error = None;
        }
        self.print(&results)
    }
}
