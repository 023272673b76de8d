//! How a claim or a settlement fails, and what the caller does next.

use std::sync::Arc;

use super::table::DeclarationError;
use super::version::Version;
use crate::{DbError, Dialect, ErrorClass};

/// What was going on when the connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Taking rows into work.
    Claim,
    /// Settling one.
    Settle,
    /// Committing what was settled.
    Commit,
}

/// Why a claim or a settlement did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// No connection was to be had. Nothing was done.
    #[error("no connection: {0}")]
    Connect(DbError),
    /// The database refused. Nothing was done: the row-lock form has rolled back and its rows are
    /// free again, in the lease form the row stays leased.
    #[error(transparent)]
    Database(DbError),
    /// The lease is somebody else's by now, or was given back: what the handler did may be done a
    /// second time. Do not settle again.
    #[error("the lease was lost")]
    LeaseLost,
    /// Row-lock and advisory form: the row is not there any more, so the lock was not held, or
    /// somebody does not heed it.
    #[error("the claimed row is gone")]
    RowGone,
    /// Row-lock form: the transaction had failed before, and `COMMIT` was answered by `ROLLBACK`.
    /// Nothing was stored, the rows will be delivered again.
    #[error("the transaction had failed and was rolled back")]
    RolledBack,
    /// The connection was lost on the way: it is not known whether this took effect. If it did not,
    /// the rows will be delivered again; none is lost.
    #[error("the connection was lost, the outcome is not known: {error}")]
    Ambiguous {
        /// What was going on.
        doing: Doing,
        /// What the connection said.
        error: DbError,
    },
    /// The server is older than what the forms need; see [`super::check_server`].
    #[error("{product} {found} is too old for the {form} form: it needs {floor} or newer")]
    ServerTooOld {
        /// Which database.
        product: Dialect,
        /// What the server calls itself.
        found: Version,
        /// The oldest one that will do.
        floor: Version,
        /// The form that was asked for.
        form: &'static str,
    },
    /// The queue was closed.
    #[error("the queue is closed")]
    Closed,
    /// The table is not what it was said to be, or cannot do what was asked.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// The table's contents contradict its description; what is wrong.
    #[error("the table is not as described: {0}")]
    Contents(Arc<str>),
}

/// What the caller of a failed operation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Try the same again, after a pause.
    TryAgain,
    /// Leave the delivery: its row is, or will be, delivered again. Handlers must bear that.
    Redelivered,
    /// Leave the delivery: whether its row will be delivered again is not known.
    PerhapsRedelivered,
    /// Trying again will not help: the program or the table must be corrected, or the queue is
    /// closed.
    GiveUp,
}

impl ClaimError {
    /// What to do next.
    pub fn next(&self) -> Next {
        match self {
            ClaimError::Connect(_) => Next::TryAgain,
            ClaimError::Database(error) => match error.class {
                ErrorClass::Serialization
                | ErrorClass::Deadlock
                | ErrorClass::Contention
                | ErrorClass::Cancelled
                | ErrorClass::ConnectionLost => Next::TryAgain,
                _ => Next::GiveUp,
            },
            ClaimError::LeaseLost | ClaimError::RowGone | ClaimError::RolledBack => {
                Next::Redelivered
            }
            ClaimError::Ambiguous {
                doing: Doing::Claim,
                ..
            } => Next::TryAgain,
            ClaimError::Ambiguous { .. } => Next::PerhapsRedelivered,
            ClaimError::Closed
            | ClaimError::Declaration(_)
            | ClaimError::Contents(_)
            | ClaimError::ServerTooOld { .. } => Next::GiveUp,
        }
    }

    /// Whether the connection is gone.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            ClaimError::Ambiguous { .. } => true,
            ClaimError::Database(error) => error.class == ErrorClass::ConnectionLost,
            _ => false,
        }
    }

    /// A settlement under a lock hit `rows` rows, and not one.
    pub(super) fn hit(rows: u64) -> ClaimError {
        match rows {
            0 => ClaimError::RowGone,
            rows => ClaimError::Contents(
                format!("one settlement hit {rows} rows: the id is not unique").into(),
            ),
        }
    }

    /// An error of the database while `doing`: the loss of the connection leaves the outcome open.
    pub(super) fn of(doing: Doing, error: DbError) -> ClaimError {
        match error.class {
            ErrorClass::ConnectionLost => ClaimError::Ambiguous { doing, error },
            _ => ClaimError::Database(error),
        }
    }
}
