//! PostgreSQL's isolation specs: files that say in which order sessions send their steps.
//!
//! The format, the order in which steps are launched and reported, and the text that a run prints
//! are those of PostgreSQL's own isolation tester, byte for byte; so a specification written for it
//! runs here as it is, on the simulator and on a live server, and its expected output is compared as
//! it is. What a server must offer for that is a [`Bench`].

mod bench;
mod compare;
mod parse;
mod table;
mod tester;

pub use bench::{Bench, Notification, Refusal, Rest, Results, Seat, Table};
pub use compare::{Difference, Expected, permutations_of};
pub use tester::{Ending, Run, SpecError, run};

use std::ops::Range;

use crate::source::{FileError, Source, Text};

/// A step of a session: a text that is sent as one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, unique in the file.
    pub name: String,
    /// Where the name stands in the file.
    pub span: Range<usize>,
    /// The SQL, byte for byte, blanks around it left out.
    pub sql: Text,
}

/// A session of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecSession {
    /// Its name.
    pub name: String,
    /// Where the name stands in the file.
    pub span: Range<usize>,
    /// Sent before the steps of each permutation.
    pub setup: Option<Text>,
    /// The steps in the order of the file.
    pub steps: Vec<Step>,
    /// Sent after the steps of each permutation.
    pub teardown: Option<Text>,
}

/// A step by its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// The session, from 0.
    pub session: usize,
    /// The step in it, from 0.
    pub index: usize,
}

/// Holds back the report of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// `*`: it is reported as waiting at first, whatever the server says.
    Once,
    /// Not reported as completed while that step of another session is unreported.
    Step(StepId),
    /// Not reported as completed before so many more notices came from that step's session.
    Notices(StepId, u32),
}

/// A step in a permutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The step.
    pub step: StepId,
    /// What holds back its report.
    pub markers: Vec<Marker>,
}

/// An order in which steps are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// The steps; one may be missing or occur twice.
    pub entries: Vec<Entry>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Sent before each permutation, one after the other.
    pub setups: Vec<Text>,
    /// Sent after each permutation.
    pub teardown: Option<Text>,
    /// The sessions.
    pub sessions: Vec<SpecSession>,
    /// Those of the file; if it has none, every interleaving.
    pub permutations: Vec<Permutation>,
    /// The permutations stand in the file.
    pub is_explicit: bool,
}

impl Spec {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(source: &Source) -> Result<Spec, FileError> {
        parse::parse(source)
    }

    /// Reads a file without adding the interleavings that a file without permutations means: there
    /// may be millions of them.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub(crate) fn as_written(source: &Source) -> Result<Spec, FileError> {
        parse::written(source)
    }

    /// Every text that is sent, set-ups and teardowns included.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts: Vec<&Text> = Vec::new();
        texts.extend(&self.setups);
        texts.extend(&self.teardown);
        for session in &self.sessions {
            texts.extend(&session.setup);
            texts.extend(session.steps.iter().map(|step| &step.sql));
            texts.extend(&session.teardown);
        }
        texts.into_iter().map(|text| &*text.text).collect()
    }

    /// Every step with its place, in the order of the file.
    pub fn steps(&self) -> impl Iterator<Item = (StepId, &Step)> {
        self.sessions.iter().enumerate().flat_map(|(session, of)| {
            let steps = of.steps.iter().enumerate();
            steps.map(move |(index, step)| (StepId { session, index }, step))
        })
    }

    /// The step at a place.
    pub fn step(&self, id: StepId) -> &Step {
        &self.sessions[id.session].steps[id.index]
    }

    /// What the tester prints before the first permutation, warnings included.
    pub fn head(&self) -> String {
        let mut head = String::new();
        for step in self.unused() {
            head.push_str(&format!("unused step name: {step}\n"));
        }
        head.push_str(&format!(
            "Parsed test spec with {} sessions\n",
            self.sessions.len()
        ));
        head
    }

    /// Steps that no permutation of the file uses, as the tester warns of them: by name.
    pub fn unused(&self) -> Vec<&str> {
        let entries = || self.permutations.iter().flat_map(|p| &p.entries);
        let mut unused: Vec<&str> = self
            .steps()
            .filter(|(id, _)| self.is_explicit && !entries().any(|entry| entry.step == *id))
            .map(|(_, step)| step.name.as_str())
            .collect();
        unused.sort_unstable();
        unused
    }
}
