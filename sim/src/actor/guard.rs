//! The actor `guarded-writer`: one run of writes under the configuration write guard.
//!
//! | parameter | default | meaning |
//! | --- | --- | --- |
//! | `configuration` | `"alpha"` | whose guard |
//! | `deadline` | `"30s"` | how long the guard is waited for |
//! | `operations` | 1 | writes |
//! | `write` | `"UPDATE object SET writer = $1 WHERE id = 1"` | a write; `$1` is the process |
//! | `except` | | promises that are not watched |
//! | `mutation` | | a deliberate mistake, see [`rowlock_model::guard::Mutation`] |
//!
//! Needs two sessions: the first one is the guard's, the second one the destination's. Its steps are
//! `deadline`, `lock`, `prove`, `write`, `unlock`.

use std::sync::Arc;

use rowlock_model::guard::{Deadline, Guard, GuardError, GuardOptions, Mutation, Ownership};
use rowlock_model::{DbError, Host, Session, Value};

use super::ActorError;
use super::params::{Params, wrong};
use crate::explore::{ProcessSpec, Worker};

/// What an actor of this kind was told.
#[derive(Clone)]
struct Config {
    configuration: Arc<str>,
    deadline: Deadline,
    operations: u32,
    write: Arc<str>,
    mutation: Option<Mutation>,
}

/// The process has fewer sessions than the actor needs.
#[derive(Debug, thiserror::Error)]
#[error("a guarded writer needs `sessions = 2`: the guard's and the destination's")]
struct TooFewSessions;

pub(super) fn process(label: &str, params: &mut Params<'_>) -> Result<ProcessSpec, ActorError> {
    let deadline = match params.duration("deadline")? {
        None => Deadline::default(),
        Some(duration) => Deadline::from_seconds(duration.as_secs_f64())
            .map_err(|error| wrong("deadline", &error.to_string()))?,
    };
    // This actor reads no schema.
    let mut mutations = Mutation::NAMED.to_vec();
    mutations.retain(|(_, mutation)| *mutation != Mutation::SchemaBeforeGuard);
    let config = Config {
        configuration: params.text("configuration")?.unwrap_or("alpha").into(),
        deadline,
        operations: params.number("operations", 1)?,
        write: params
            .text("write")?
            .unwrap_or("UPDATE object SET writer = $1 WHERE id = 1")
            .into(),
        mutation: params.word("mutation", &mutations)?,
    };
    Ok(ProcessSpec::new(label, move |worker| {
        run(worker, config.clone())
    }))
}

/// One run; it tells the host `guarded`, then `success` or `failed`, then `unguarded`.
async fn run(worker: Worker, config: Config) -> Result<(), TooFewSessions> {
    let Worker { host, sessions, .. } = worker;
    let mut sessions = sessions.into_iter();
    let (Some(own), Some(mut destination)) = (sessions.next(), sessions.next()) else {
        return Err(TooFewSessions);
    };
    let options = GuardOptions {
        deadline: config.deadline,
        mutation: config.mutation,
        ..GuardOptions::default()
    };
    let Ok(mut guard) = Guard::acquire_on(&host, own, &config.configuration, options).await else {
        return Ok(());
    };
    host.note("guarded", &[]);
    let written = write_all(&host, &mut guard, &mut destination, &config).await;
    let ended = match written {
        Ok(()) => guard.release(&host).await.map_err(Failed::from),
        Err(failed) => {
            guard.retire().await;
            Err(failed)
        }
    };
    host.note(if ended.is_ok() { "success" } else { "failed" }, &[]);
    host.note("unguarded", &[]);
    Ok(())
}

/// The writes did not come to their end; that the guard or the destination refused is all that the
/// run needs to know.
struct Failed;

impl From<GuardError> for Failed {
    fn from(_: GuardError) -> Failed {
        Failed
    }
}

impl From<DbError> for Failed {
    fn from(_: DbError) -> Failed {
        Failed
    }
}

async fn write_all<H: Host>(
    host: &H,
    guard: &mut Guard<H::Session>,
    destination: &mut H::Session,
    config: &Config,
) -> Result<(), Failed> {
    let process = [Value::Text(host.process_name())];
    let mut ownership = Ownership::new(guard);
    for _ in 0..config.operations {
        ownership.before_operation(host).await?;
        host.name_step("write");
        destination.exec(&config.write, &process).await?;
    }
    Ok(ownership.after_final_operation(host).await?)
}
