//! Schedule files: one schedule with everything that is needed to run it again, as text for people.
//!
//! `docs/schedule.md` describes the format. Writing and reading are inverse to each other for every
//! value, so a schedule can be kept, mailed and replayed without the program that found it.

mod literal;
mod read;
mod write;

use std::sync::Arc;

use rowlock_model::schedule::{Granularity, Schedule};
use rowlock_model::verdict::Bounds;
use rowlock_model::{Dialect, Isolation};

use crate::source::{FileError, Source};
use crate::stage::Numbered;

/// The first line of a schedule file.
pub const HEADER: &str = "rowlock schedule 1";

/// A schedule with its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFile {
    /// The title of the scenario; empty if there is none.
    pub title: Arc<str>,
    /// The variant of the scenario; empty for the top level.
    pub variant: Arc<str>,
    /// The property that does not hold; empty if the schedule shows none.
    pub property: Arc<str>,
    /// What was seen of it.
    pub detail: Arc<str>,
    /// The property's query, if it has one that must return no row at the end of this schedule.
    pub check: Option<Arc<str>>,
    /// The database.
    pub database: Dialect,
    /// The default level of the sessions.
    pub isolation: Isolation,
    /// The faults that the exploration might inject.
    pub bounds: Bounds,
    /// Whether statements pause before row locks.
    pub granularity: Granularity,
    /// Server connections of the pooler between processes and server; 0: there is none.
    pub pooler: u8,
    /// The processes, by their position.
    pub processes: Vec<ScheduleProcess>,
    /// The script that makes the initial state.
    pub setup: Option<Arc<str>>,
    /// The events.
    pub schedule: Schedule,
    /// Which events make up the violation, ascending.
    pub matters: Vec<usize>,
    /// Numbers in arguments and replies that stand for sessions and transactions: another server has
    /// other ones.
    pub numbers: Vec<(Numbered, i64)>,
}

/// A process of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProcess {
    /// Its label.
    pub label: Arc<str>,
    /// Sessions that are open when it starts.
    pub sessions: u8,
    /// Another level than the schedule's.
    pub isolation: Option<Isolation>,
    /// Microseconds that its clock is ahead of the server's.
    pub skew_micros: i64,
    /// A script that is sent on each session after opening it.
    pub connect: Option<Arc<str>>,
}

impl ScheduleFile {
    /// Reads a schedule file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(source: Source) -> Result<ScheduleFile, FileError> {
        read::schedule(&source).map_err(|problem| FileError::new(source, vec![problem]))
    }

    /// The session number that events of a session label have by default: those that are open at
    /// the start are numbered in the order of the processes.
    fn session_of(&self, actor: &str) -> Option<u8> {
        let (label, number) = match actor.rsplit_once('/') {
            Some((label, number)) => (label, number.parse::<u8>().ok()?),
            None => (actor, 1),
        };
        let process = self.process_of(label)?;
        let before: usize = self.processes[..process]
            .iter()
            .map(|p| usize::from(p.sessions))
            .sum();
        u8::try_from(before + usize::from(number.checked_sub(1)?)).ok()
    }

    /// The process that a label, or the label of one of its sessions, belongs to.
    fn process_of(&self, actor: &str) -> Option<usize> {
        let find = |label: &str| self.processes.iter().position(|p| *p.label == *label);
        find(actor).or_else(|| find(actor.rsplit_once('/')?.0))
    }
}

/// The headers that list [`ScheduleFile::numbers`].
const NUMBERS: [(&str, Numbered); 2] = [
    ("process-ids", Numbered::Process),
    ("transaction-ids", Numbered::Transaction),
];

/// Words that say what an event is; a name that is one of them is quoted.
mod verb {
    pub(super) const RESUMES: &str = "resumes";
    pub(super) const CONTINUES: &str = "continues";
    pub(super) const ROUTED: &str = "routed";
    pub(super) const DEADLOCK: &str = "deadlock";
    pub(super) const TIMER: &str = "timer";
    pub(super) const CRASH: &str = "crash";
    pub(super) const NOTICED: &str = "noticed";
    pub(super) const KILLED: &str = "killed";
    pub(super) const LATE: &str = "late";
    pub(super) const SCRIPT: &str = "script";
    pub(super) const LOST: &str = "lost";
    pub(super) const CANCELLED: &str = "cancelled";

    pub(super) const ALL: [&str; 12] = [
        RESUMES, CONTINUES, ROUTED, DEADLOCK, TIMER, CRASH, NOTICED, KILLED, LATE, SCRIPT, LOST,
        CANCELLED,
    ];
}
