//! What can go wrong with an exploration itself.

/// The exploration could not be carried out. Not a verdict about the code's properties.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// An actor did different things after the same history: iteration over a `HashMap`, real
    /// time, thread-local randomness, a static counter. Nothing can be concluded then.
    #[error("process `{process}` is not deterministic: {detail}")]
    Nondeterministic {
        /// The process.
        process: String,
        /// The history, and what it did in either run.
        detail: String,
    },
    /// An actor awaits something that the explorer does not know, or never rests.
    #[error("process `{process}` cannot be explored: {detail}")]
    Actor {
        /// The process.
        process: String,
        /// What it does.
        detail: String,
    },
    /// The set-up failed, or a property's query does.
    #[error("{what}: {error}")]
    Sql {
        /// What was run.
        what: String,
        /// What the server said.
        error: rowlock_model::DbError,
    },
    /// A schedule does not fit the model.
    #[error("event {number} of the schedule, {event}, is not possible here; possible: {possible}")]
    Schedule {
        /// The event's number, from 1.
        number: usize,
        /// The event.
        event: String,
        /// What is possible at this point.
        possible: String,
    },
    /// A checkpoint does not belong to the exploration, or is damaged.
    #[error("the checkpoint cannot be used: {0}")]
    Checkpoint(String),
    /// Too many processes or sessions.
    #[error("{0}")]
    TooMany(String),
}

impl ExploreError {
    pub(crate) fn nondeterministic(process: &str, detail: String) -> ExploreError {
        ExploreError::Nondeterministic {
            process: process.to_owned(),
            detail,
        }
    }
}
