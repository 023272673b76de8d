//! A database with sessions that somebody else schedules: the small interface over which
//! schedules, pinned schedules and `.spec` files are run, simulated and live alike.

use std::time::Duration;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{Batch, DbError, Dialect, Isolation, Reply};

/// The stage itself failed (server unreachable, not disposable, lost): not an answer of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StageError {
    /// What happened, for a person; never with a password or a URL that has one.
    pub message: String,
}

/// The answer to a [`Statement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a single statement.
    Exec(Result<Reply, DbError>),
    /// To a script; `Err` only when the connection is gone.
    Batch(Result<Batch, DbError>),
}

/// A session came to rest with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The session.
    pub session: SessionId,
    /// What it answered.
    pub answer: Answer,
}

/// A session is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The session.
    pub session: SessionId,
    /// The sessions of this stage that it waits for, ascending (PostgreSQL: `pg_blocking_pids`).
    pub blockers: Vec<SessionId>,
    /// What it waits on, in words; for people only, never compared.
    pub object: String,
}

/// A session pauses before a row lock ([`Granularity::Row`](rowlock_model::schedule::Granularity)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The session.
    pub session: SessionId,
    /// The row that it will lock next: `job (0,2)`; empty if the stage does not know.
    pub before: String,
}

/// What a server numbers by itself, so that the same thing has another number on another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Numbered {
    /// A session: `pg_backend_pid()`, `CONNECTION_ID()`.
    Process,
    /// A transaction: `pg_current_xact_id()`.
    Transaction,
}

/// One of several ways in which a server may go on, as a simulated stage took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which way, from 0: the one that a stage takes by itself.
    pub taken: u16,
    /// How many there were.
    pub of: u16,
}

/// What a stage has to know to let statements pause, before the first one is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PausePlan {
    /// The tables before whose rows statements pause in this schedule, as far as it says.
    pub tables: Vec<String>,
    /// The statements that pause.
    pub statements: Vec<PausingStatement>,
}

/// A statement that pauses before row locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausingStatement {
    /// Its text as it is sent.
    pub sql: String,
    /// The tables whose rows it locks.
    pub tables: Vec<String>,
}

/// A server with scheduled sessions. Sessions are numbered from 0 in the order of connecting.
///
/// Errors of a live stage end a run; they are never mistaken for answers.
pub trait Stage {
    /// Which database this is.
    fn dialect(&self) -> Dialect;

    /// The server's name and version, for reports (`PostgreSQL 15.18`, `simulated PostgreSQL 15`).
    fn version(&mut self) -> Result<String, StageError>;

    /// Closes every session, gives a fresh, empty database, and runs the set-up scripts in it, each
    /// sent as one message.
    fn reset(&mut self, setup: &[String]) -> Result<(), StageError>;

    /// Opens a session. Its label is for messages and for `application_name`.
    fn connect(
        &mut self,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<SessionId, StageError>;

    /// Sends a statement to an idle session and returns at once.
    fn send(&mut self, session: SessionId, statement: &Statement) -> Result<(), StageError>;

    /// Waits until every session is idle, gone or blocked, and returns the answers that came since
    /// the last call. `first` names the session that a schedule wants to go on first where the
    /// server leaves the order open; a live stage ignores it, see [`go_first`](Self::go_first).
    fn settle(&mut self, first: Option<SessionId>) -> Result<Vec<Completion>, StageError>;

    /// What the server told besides the last answer of a session, as a line (`mysql_info`: `Rows
    /// matched: 1  Changed: 1  Warnings: 0`); empty if nothing, `None` where the stage does not know.
    fn info(&self, session: SessionId) -> Option<String> {
        let _ = session;
        None
    }

    /// The sessions that are blocked now, ascending.
    fn blocked(&mut self) -> Result<Vec<Blocked>, StageError>;

    /// A deadlock exists: lets the deadlock check of `victim` be the one that fires, and settles. A
    /// live stage arranges for it beforehand as far as the server allows (PostgreSQL: per-session
    /// `deadlock_timeout`), see [`Stage::plan_victims`].
    fn deadlock(&mut self, victim: SessionId) -> Result<Vec<Completion>, StageError>;

    /// Tells before the first statement which sessions will be deadlock victims in this schedule.
    fn plan_victims(&mut self, victims: &[SessionId]) -> Result<(), StageError>;

    /// Where the server leaves open what happens next, a simulated stage takes these ways, one after
    /// the other from the next [`reset`](Self::reset) on, and the first way after the last of them. A
    /// live stage has no say in that.
    fn decide(&mut self, ways: &[u16]) {
        let _ = ways;
    }

    /// The decisions since the last reset. A live stage knows of none.
    fn decisions(&self) -> Vec<Decision> {
        Vec::new()
    }

    /// What a number in a reply of this stage stands for, if the server gave it by itself. Only a
    /// simulated stage knows: its numbers are such that data hardly has them by chance.
    fn numbered(&self, number: i64) -> Option<Numbered> {
        let _ = number;
        None
    }

    /// From now on statements pause before they lock a row that their transaction does not hold yet.
    /// After [`reset`](Self::reset) and before the first statement; ends with the next reset.
    ///
    /// # Errors
    /// This server cannot be made to do so; says why.
    fn pause_at(&mut self, plan: &PausePlan) -> Result<(), StageError> {
        let _ = plan;
        Err(StageError {
            message: "statements cannot be made to pause between row locks here".to_owned(),
        })
    }

    /// Who pauses now, ascending.
    ///
    /// # Errors
    /// The server cannot be asked.
    fn paused(&mut self) -> Result<Vec<Paused>, StageError> {
        Ok(Vec::new())
    }

    /// Lets a session that pauses go on, to its next pause or its end; [`settle`](Self::settle) waits
    /// for that.
    ///
    /// # Errors
    /// It does not pause.
    fn proceed(&mut self, session: SessionId) -> Result<(), StageError> {
        Err(StageError {
            message: format!("session {} does not pause", session.0),
        })
    }

    /// These sessions wait, and do not go on when they can, until they are left out of a later call or
    /// the stage is [reset](Self::reset): a server takes its time to wake a waiter, and others may be
    /// faster. The stage of a server whose waiters cannot be held back ignores it.
    ///
    /// # Errors
    /// They should be held back but cannot be.
    fn hold(&mut self, sessions: &[SessionId]) -> Result<(), StageError> {
        let _ = sessions;
        Ok(())
    }

    /// Before something is done that may let several go on: until the next [`settle`](Self::settle) has
    /// seen this session come to rest, the others that wait stay where they are. A simulated stage
    /// chooses in `settle`, and the stage of a server whose waiters cannot be held back ignores it.
    ///
    /// # Errors
    /// The others should be held back but cannot be.
    fn go_first(&mut self, session: SessionId) -> Result<(), StageError> {
        let _ = session;
        Ok(())
    }

    /// Sessions that are opened from now on go through a pooler in transaction mode with so many
    /// server connections; 0: to the server itself. After [`reset`](Self::reset), which ends it, and
    /// before the first session.
    ///
    /// # Errors
    /// There is no pooler for this server.
    fn pool(&mut self, size: u8) -> Result<(), StageError> {
        match size {
            0 => Ok(()),
            _ => Err(StageError {
                message: format!("there is no pooler for {} here", self.dialect()),
            }),
        }
    }

    /// The pooler gives a session that waits for one this server connection, from 0;
    /// [`settle`](Self::settle) waits for what comes of it.
    ///
    /// # Errors
    /// It does not wait for one, or that connection is not free.
    fn route(&mut self, session: SessionId, backend: u8) -> Result<(), StageError> {
        Err(StageError {
            message: format!(
                "session {} waits for no server connection (nor for {})",
                session.0,
                backend + 1
            ),
        })
    }

    /// The client of a session goes away without a word; what it sent goes on.
    fn drop_client(&mut self, session: SessionId) -> Result<(), StageError>;

    /// The server ends the session (`pg_terminate_backend`, `KILL`, closing the file).
    fn terminate(&mut self, session: SessionId) -> Result<(), StageError>;

    /// Time passes on the server. A live stage really waits.
    fn advance(&mut self, by: Duration) -> Result<(), StageError>;

    /// Runs a query outside the scheduled sessions, on the committed state.
    fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError>;
}
