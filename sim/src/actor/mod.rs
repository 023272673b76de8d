//! Processes of scenario files that are written in Rust: the library at work.
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

mod advisory;
mod guard;
mod lease;
mod params;
mod path_rules;
mod paths;
mod row_lock;
pub mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::claim::promise;
use rowlock_model::guard::promise as guarded;

use crate::database::Database;
use crate::explore::{Explorer, ProcessSpec};
use params::Params;

/// The names of all actors.
pub const NAMES: [&str; 5] = [
    "advisory-worker",
    "guarded-writer",
    "lease-worker",
    "row-lock-worker",
    "write-path",
];

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
        "advisory-worker" => advisory::process(label, &mut params)?,
        "guarded-writer" => guard::process(label, &mut params)?,
        "lease-worker" => lease::process(label, &mut params)?,
        "row-lock-worker" => row_lock::process(label, &mut params)?,
        "write-path" => paths::process(label, &mut params)?,
        _ => {
            return Err(ActorError {
                param: None,
                message: format!("no actor `{name}`; there are: {}", NAMES.join(", ")),
            });
        }
    };
    params.promises("except")?;
    params.finish()?;
    Ok(spec)
}

/// Adds the properties that come with the actors of a case: the promises of their forms, but for
/// those that a process takes back with `except = "one live holder"`, because something else in the
/// case breaks them.
#[must_use]
pub fn watch<'a, D: Database>(
    mut explorer: Explorer<D>,
    actors: impl IntoIterator<Item = (&'a str, &'a BTreeMap<Arc<str>, Value>)>,
) -> Explorer<D> {
    // In the advisory form as in the lease form each claim counts.
    let (mut lease, mut row_lock, mut guard, mut path) = (false, false, false, false);
    let mut except = Vec::new();
    for (name, params) in actors {
        lease |= name == "lease-worker" || name == "advisory-worker";
        row_lock |= name == "row-lock-worker";
        guard |= name == "guarded-writer";
        path |= name == "write-path";
        let names = params.get("except").and_then(Value::as_str);
        except.extend(names.unwrap_or_default().split(", "));
    }
    let watched = |promise| (lease || row_lock) && !except.contains(&promise);
    if watched(promise::ONE_LIVE_HOLDER) {
        explorer = explorer.monitor(rules::OneLiveHolder);
    }
    if watched(promise::ONLY_THE_HOLDER_SETTLES) {
        explorer = explorer.monitor(rules::OnlyTheHolderSettles);
    }
    if watched(promise::SETTLED_ONCE) {
        explorer = explorer.monitor(rules::SettledOnce);
    }
    if watched(promise::ATTEMPTS_ARE_COUNTED) && lease {
        explorer = explorer.monitor(rules::EveryClaimCounts);
    }
    if watched(promise::ATTEMPTS_ARE_COUNTED) && row_lock {
        explorer = explorer.monitor(rules::EveryRetryCounts);
    }
    if guard && !except.contains(&guarded::ONE_WRITER) {
        explorer = explorer.monitor(rules::OneWriter);
    }
    if guard && !except.contains(&guarded::SUCCESS_WAS_ALONE) {
        explorer = explorer.monitor(rules::SuccessWasAlone);
    }
    if path {
        explorer = path_rules::watch(explorer, &except);
    }
    explorer
}

#[cfg(test)]
mod tests;
