//! What an exploration concludes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// How many faults of each kind an exploration may inject. Bounds are part of the question: a
/// verdict holds *within* them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bounds {
    /// Processes that may crash.
    pub crashes: u32,
    /// Sessions that the server may end.
    pub kills: u32,
    /// Connections that may be lost with a statement on its way.
    pub losses: u32,
    /// Times that the clock may move to the next relevant instant.
    pub clock: u32,
    /// Tasks that may be cancelled.
    pub cancels: u32,
    /// Times that each process may run its steps (retries and polling rounds included); 0 = no bound.
    pub rounds: u32,
}

/// Resources that an exploration may use. Hitting one gives [`Verdict::Incomplete`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Distinct states.
    pub states: u64,
    /// Bytes of memory, estimated.
    pub memory_bytes: u64,
    /// Milliseconds of wall-clock time; 0 = no limit.
    pub time_ms: u64,
    /// Events on one path.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            states: 20_000_000,
            memory_bytes: 8 << 30,
            time_ms: 0,
            depth: 10_000,
        }
    }
}

/// A property that does not hold, with a schedule that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The name of the property.
    pub property: String,
    /// What was seen, in one or two lines: the offending rows, the count, the panic message.
    pub detail: String,
    /// A shortest schedule, as minimal as the explorer could make it.
    pub schedule: Schedule,
    /// Which events of the schedule (by index, ascending) make up the violation: those that a
    /// monitor counted, or those that wrote an offending row. Reports mark them. Empty if not known.
    #[serde(default)]
    pub matters: Vec<usize>,
}

/// Counts of one exploration. They are exact and the same on every run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Distinct states.
    pub states: u64,
    /// Transitions between them.
    pub transitions: u64,
    /// Statements that were executed by the simulated database.
    pub statements: u64,
    /// States in which nothing is left to do.
    pub terminal_states: u64,
    /// Times that a future of an actor was polled anew (distinct histories).
    pub polls: u64,
    /// Random mode: schedules run.
    pub executions: u64,
    /// Transitions in which a statement began to wait for another session.
    pub waits: u64,
    /// How many interleavings the states stand for, if everything was explored and nothing left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleavings: Option<Interleavings>,
    /// Cover marks hit, with how often.
    pub marks: BTreeMap<String, u64>,
}

/// How many interleavings an exploration covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleavings {
    /// So many.
    Exactly(u128),
    /// More than 2^128.
    Beyond,
    /// Infinitely many: states repeat.
    Endless,
}

impl fmt::Display for Interleavings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interleavings::Exactly(1) => f.write_str("1 interleaving"),
            Interleavings::Exactly(n) if *n < 1_000_000_000 => {
                let digits = n.to_string();
                for (at, digit) in digits.chars().enumerate() {
                    if at > 0 && (digits.len() - at).is_multiple_of(3) {
                        f.write_str(",")?;
                    }
                    write!(f, "{digit}")?;
                }
                f.write_str(" interleavings")
            }
            Interleavings::Exactly(n) => write!(f, "{:.1e} interleavings", *n as f64),
            Interleavings::Beyond => f.write_str("more than 3.4e38 interleavings"),
            Interleavings::Endless => f.write_str("infinitely many interleavings"),
        }
    }
}

/// The conclusion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every property holds on every interleaving within the bounds.
    Holds,
    /// Some property does not hold.
    Violated(Box<Violation>),
    /// Nothing ever contended, or a `sometimes` never happened: the question was empty.
    Vacuous(String),
    /// A limit was hit before the end; which one.
    Incomplete(String),
    /// The simulator does not model something that was used, so nothing is known.
    Unsupported(Box<Unsupported>),
}

/// What the simulator does not model, and where it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// What, in words.
    pub what: String,
    /// The statement, if it is one.
    pub sql: Option<Arc<str>>,
    /// The byte offset in the statement.
    pub position: Option<usize>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match (&self.sql, self.position) {
            (Some(sql), Some(at)) => write!(f, ", at byte {at} of: {sql}"),
            (Some(sql), None) => write!(f, ", in: {sql}"),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Holds => f.write_str("holds"),
            Verdict::Violated(v) => write!(f, "violated: {}", v.property),
            Verdict::Vacuous(why) => write!(f, "vacuous: {why}"),
            Verdict::Incomplete(limit) => write!(f, "incomplete: {limit}"),
            Verdict::Unsupported(what) => write!(f, "unsupported: {what}"),
        }
    }
}

/// Everything that one exploration reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exploration {
    /// The conclusion.
    pub verdict: Verdict,
    /// The bounds that it holds within.
    pub bounds: Bounds,
    /// What it took.
    pub counts: Counts,
}
