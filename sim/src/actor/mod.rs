//! Processes of scenario files that are written in Rust: the claim library at work.
//!
//! ```toml
//! [[process]]
//! name = "worker"
//! count = 2
//! actor = "lease-worker"
//! params = { lease = "30s", token = "fenced", rounds = 2 }
//! ```
//!
//! An actor is the library's own code, with the statements that a service would send; its steps have
//! the names that the library gives them (`claim`, `ack`, `extend`, ...). With an actor come the
//! properties that its form promises, see [`rules`].

mod lease;
mod params;
mod row_lock;
pub mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_model::Value;

use crate::database::Database;
use crate::explore::{Explorer, ProcessSpec};
use params::Params;

/// The names of all actors.
pub const NAMES: [&str; 2] = ["lease-worker", "row-lock-worker"];

/// A scenario names an actor that does not exist, or one of its parameters is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ActorError {
    /// The parameter that is wrong; `None` if it is the actor's name.
    pub param: Option<Arc<str>>,
    /// What is wrong, for a person.
    pub message: String,
}

/// The process `label` that runs the actor `name`. Session count, skew and isolation are the
/// caller's to set.
///
/// # Errors
/// No such actor, an unknown parameter, or a value that does not fit.
pub fn process(
    name: &str,
    label: &str,
    params: &BTreeMap<Arc<str>, Value>,
) -> Result<ProcessSpec, ActorError> {
    let mut params = Params::new(params);
    let spec = match name {
        "lease-worker" => lease::process(label, &mut params)?,
        "row-lock-worker" => row_lock::process(label, &mut params)?,
        _ => {
            return Err(ActorError {
                param: None,
                message: format!("no actor `{name}`; there are: {}", NAMES.join(", ")),
            });
        }
    };
    params.finish()?;
    Ok(spec)
}

/// Adds the properties that come with the actor `name`. Call it once for each actor in a case, not
/// once a process.
#[must_use]
pub fn watch<D: Database>(explorer: Explorer<D>, name: &str) -> Explorer<D> {
    let explorer = explorer
        .monitor(rules::OneLiveHolder)
        .monitor(rules::OnlyTheHolderSettles)
        .monitor(rules::SettledOnce);
    match name {
        "lease-worker" => explorer.monitor(rules::EveryClaimCounts),
        _ => explorer.monitor(rules::EveryRetryCounts),
    }
}

#[cfg(test)]
mod tests;
