//! Choices and schedules: what an explorer decided, in an order.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Outcome, Value};

/// A process by its position in the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId(pub u8);

/// A session by its position in the world: sessions are numbered in the order of connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub u8);

impl SessionId {
    /// What a session's number is hashed with. A hasher that knows it can give sessions other
    /// numbers, and so see that two states differ in nothing but the numbers of their sessions.
    pub const HASH_MARK: u128 = 0x5e55_1040_c3a1_9f27_7b0d_e6f2_84c9_3b00;
}

/// Hashes the number with [`SessionId::HASH_MARK`], in one word of 128 bits.
impl std::hash::Hash for SessionId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u128(SessionId::HASH_MARK | u128::from(self.0));
    }
}

/// A request that a process waits for: one per pending await, numbered within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u32);

/// How a connection is lost while a statement is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The statement never arrived.
    NotArrived,
    /// The statement took effect, but its reply did not come back.
    ReplyLost,
    /// The statement has arrived and will run, but the client is told of the loss first.
    StillRunning,
}

/// Where one statement may give way to another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// Only where it waits.
    #[default]
    Statement,
    /// Also before it locks a row that it does not hold yet: it *pauses* there.
    Row,
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Granularity::Statement => "statement",
            Granularity::Row => "row",
        })
    }
}

impl std::str::FromStr for Granularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Granularity, String> {
        match text {
            "statement" => Ok(Granularity::Statement),
            "row" => Ok(Granularity::Row),
            _ => Err(format!("`{text}` is not `statement` or `row`")),
        }
    }
}

/// One decision of the explorer. Between two decisions everything is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The pending request of a process is carried out: its statement is sent, its sleep ends.
    Step(ProcessId, RequestId),
    /// A session whose lock was granted goes on. Where the server leaves open which of several
    /// waiters comes first, there are several of these to choose from.
    Resume(SessionId),
    /// A statement that pauses before a row lock takes it and goes on, to its next pause or its end
    /// ([`Granularity::Row`]).
    Continue(SessionId),
    /// A pooler gives the transaction that a session begins this server connection, from 0.
    Route(SessionId, u8),
    /// The deadlock check of a waiting session runs, finds a cycle and ends its statement.
    Deadlock(SessionId),
    /// A timer of the server (lock timeout, statement timeout, idle timeout) fires in a session.
    Expire(SessionId),
    /// The process dies. Its sessions stay in the server until it notices.
    Crash(ProcessId),
    /// The server notices that the client of a session is gone, and ends the session.
    Notice(SessionId),
    /// The server ends a session (administrator command, failover).
    Kill(SessionId),
    /// The connection is lost while the pending statement of a process is on its way.
    Lose(ProcessId, RequestId, Loss),
    /// A statement whose client was told of a loss ([`Loss::StillRunning`]) runs now.
    Late(SessionId),
    /// The clocks move forward by this many microseconds.
    Advance(i64),
    /// The task that waits for a request is cancelled at its await.
    Cancel(ProcessId, RequestId),
}

/// One event of a schedule: the choice, and what a person needs to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The decision.
    pub choice: Choice,
    /// The label of the process or session that acts (`worker-1`, `worker-1/2` for its second
    /// session); empty for the clock.
    pub actor: Arc<str>,
    /// The name of the step, if the process names its steps.
    pub step: Option<Arc<str>>,
    /// The statement that was sent, with its arguments.
    pub statement: Option<Statement>,
    /// What became of it at once.
    pub outcome: Option<Outcome>,
}

/// A statement as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Statement {
    /// The text.
    pub sql: Arc<str>,
    /// The arguments.
    pub args: Vec<Value>,
    /// Sent as a script (no arguments, any number of statements in one message).
    pub batch: bool,
}

/// A sequence of events from the initial state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The events, in order.
    pub events: Vec<Event>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::NotArrived => "not-arrived",
            Loss::ReplyLost => "reply-lost",
            Loss::StillRunning => "still-running",
        })
    }
}
