//! The configuration write guard: at most one writer at a time for one configuration.
//!
//! A writer holds an advisory lock of PostgreSQL, on a key that follows from the configuration, on a
//! connection that serves nothing else. Before each operation it proves to itself that it still
//! holds the lock. What goes to the destination goes through another client, so a lock that is
//! lost between proof and write is noticed only by the next proof: the outcome is then *ambiguous*,
//! never quietly a success.
//!
//! | question | place |
//! | --- | --- |
//! | Which key? | [`Key`] |
//! | How long is the lock waited for? | [`Deadline`] |
//! | How is it taken, proved, given back? | [`Guard`] |
//! | What runs under it, and what comes out? | [`apply`], [`sync`], [`Report`] |
//! | What may an error say? | [`GuardError`], [`Secrets`] |
//!
//! The guard needs a connection of its own to the server: through a pooler that shares
//! connections between transactions it refuses to work, or fails at a proof. It does not reach
//! beyond one server: after a failover the new one knows nothing of locks on the old one. Other
//! tools that write to the destination are not excluded.

mod deadline;
mod error;
mod key;
mod lock;
pub mod mutation;
mod plan;
pub mod promise;
mod redact;
mod run;

pub use deadline::Deadline;
pub use error::{Cause, GuardError};
pub use key::Key;
pub use lock::{Body, Guard, GuardOptions, GuardedError, guarded};
pub use mutation::Mutation;
pub use plan::{Kind, Operation, Plan};
pub use redact::Secrets;
pub use run::{
    Confirmation, Destination, Execution, Journal, Outcome, Ownership, Refusal, Report, Stage,
    Workspace, apply, sync,
};

#[cfg(all(test, not(loom)))]
mod tests;
