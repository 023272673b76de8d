//! Runs a pinned schedule or a schedule file on a [`Stage`] and compares every step with what is
//! expected, including who waits for whom.
//!
//! The same code drives the simulated and the live stage, so [`mirror`] can run a schedule on both
//! and find the first difference between them.

mod branch;
mod cast;
mod compare;
mod fixed;
mod mirror;
mod numbers;

use std::sync::Arc;

use rowlock_model::schedule::Event;

use crate::expr::EvalError;
use crate::pinned::Pinned;
use crate::scenario::Case;
use crate::schedule::ScheduleFile;
use crate::stage::{Numbered, Stage, StageError};

pub use branch::{Allowed, allowed};
pub use mirror::{Agreement, Difference, Mirror, mirror};
pub use numbers::numbers_in;

/// A run could not be carried out; says nothing about the scenario's outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The stage failed.
    #[error("{0}")]
    Stage(#[from] StageError),
    /// This server cannot be made to do what the schedule is about.
    #[error("{}", .0.message)]
    Impossible(StageError),
    /// The script that makes the initial state, or that prepares a session, was refused.
    #[error("{what} was refused: {error}")]
    Refused {
        /// Which script.
        what: String,
        /// What the server said.
        error: rowlock_model::DbError,
    },
    /// An expression of the scenario has no value.
    #[error("{0}")]
    Expression(#[from] EvalError),
    /// The schedule asks for something that cannot be done.
    #[error("event {number}: {message}")]
    Schedule {
        /// The event's number, from 1.
        number: usize,
        /// What cannot be done.
        message: String,
    },
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub enum Script<'a> {
    /// A pinned schedule of a case.
    Pinned(&'a Case, &'a Pinned),
    /// A schedule file.
    File(&'a ScheduleFile),
}

/// One event of a run, with everything that it led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The event as the file has it, in short: a pinned token, or `worker-1 take`.
    pub token: Arc<str>,
    /// What happened: the event itself with its outcome on this stage, then each session that went
    /// on because of it.
    pub events: Vec<Event>,
    /// Who waits after it.
    pub waiting: Vec<Waiting>,
    /// How it compares.
    pub verdict: StepVerdict,
}

/// A session that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its label.
    pub session: String,
    /// The labels of those it waits for, sorted.
    pub blockers: Vec<String>,
    /// What it waits on, for people.
    pub object: String,
}

/// How a step compares with what is expected of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// As expected; also where nothing is expected.
    Same,
    /// Otherwise.
    Differs {
        /// What is expected.
        expected: String,
        /// What came.
        got: String,
    },
    /// The server chose another way where it is free to choose: another waiter went on first, or
    /// another session was the victim of a deadlock.
    OtherBranch {
        /// What is expected.
        expected: String,
        /// What came.
        got: String,
    },
}

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Every step and the end are as expected.
    Confirmed,
    /// Every step is as expected, but the end is not: the violation does not show.
    Refuted,
    /// The first step (index) that is not as expected. The run was ended there.
    DivergedAt(usize),
}

/// A query at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalQuery {
    /// The query.
    pub sql: Arc<str>,
    /// What is expected.
    pub expected: String,
    /// What came.
    pub got: String,
    /// The same, with its types.
    pub outcome: rowlock_model::Outcome,
    /// Whether that is the same.
    pub same: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The server's name and version.
    pub server: String,
    /// The steps, up to the first that is not as expected.
    pub steps: Vec<Step>,
    /// The queries at the end, if the end was reached.
    pub finals: Vec<FinalQuery>,
    /// What it comes to.
    pub conclusion: Conclusion,
    /// Numbers in it that stand for sessions and transactions, as far as the stage knows.
    pub numbers: Vec<(Numbered, i64)>,
    /// Why it ended early: the schedule asked for something that cannot be done in the branch that
    /// the server took. Only where differences do not end a run.
    pub ended: Option<String>,
}

/// Runs a schedule on a stage, from a fresh database, up to the first step that is not as expected.
///
/// # Errors
/// The stage failed, or the schedule cannot be run at all.
pub fn replay(stage: &mut dyn Stage, script: Script<'_>) -> Result<Replay, ReplayError> {
    run(stage, script, true)
}

/// The lines a schedule consists of, for one stage: either kind of script.
fn run(
    stage: &mut dyn Stage,
    script: Script<'_>,
    stop_at_difference: bool,
) -> Result<Replay, ReplayError> {
    let mut run = match script {
        Script::Pinned(case, pinned) => fixed::pinned(stage, case, pinned, stop_at_difference),
        Script::File(file) => fixed::file(stage, file, stop_at_difference),
    }?;
    let events = run.steps.iter().flat_map(|step| &step.events);
    run.numbers = numbers_in(events, |number| stage.numbered(number));
    Ok(run)
}

impl Replay {
    /// Whether the server took another branch where it is free to choose, so that another run may
    /// come out otherwise.
    pub fn took_other_branch(&self) -> bool {
        let first = self
            .steps
            .iter()
            .find(|step| step.verdict != StepVerdict::Same);
        first.is_some_and(|step| matches!(step.verdict, StepVerdict::OtherBranch { .. }))
    }

    /// What the simulator says to the step that is not as expected: the server was free to take that
    /// way, or it was not.
    pub fn judge(&mut self, is_allowed: bool) {
        let Conclusion::DivergedAt(at) = self.conclusion else {
            return;
        };
        let verdict = &mut self.steps[at].verdict;
        if let StepVerdict::Differs { expected, got } | StepVerdict::OtherBranch { expected, got } =
            verdict
        {
            let (expected, got) = (std::mem::take(expected), std::mem::take(got));
            *verdict = match is_allowed {
                true => StepVerdict::OtherBranch { expected, got },
                false => StepVerdict::Differs { expected, got },
            };
        }
    }

    /// The run ended before the schedule did.
    fn ended(
        mut self,
        error: ReplayError,
        stop_at_difference: bool,
    ) -> Result<Replay, ReplayError> {
        match error {
            ReplayError::Schedule { message, .. } if !stop_at_difference => {
                self.ended = Some(message);
                Ok(self)
            }
            error => Err(error),
        }
    }

    /// The conclusion of steps and queries.
    fn conclude(server: String, steps: Vec<Step>, finals: Vec<FinalQuery>) -> Replay {
        let diverged = steps
            .iter()
            .position(|step| step.verdict != StepVerdict::Same);
        let conclusion = match diverged {
            Some(at) => Conclusion::DivergedAt(at),
            None if finals.iter().all(|query| query.same) => Conclusion::Confirmed,
            None => Conclusion::Refuted,
        };
        Replay {
            server,
            steps,
            finals,
            conclusion,
            numbers: Vec::new(),
            ended: None,
        }
    }
}
