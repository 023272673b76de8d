//! Taking, proving and giving back the lock.

use std::future::Future;
use std::sync::Arc;

use super::deadline::Deadline;
use super::error::{Cause, GuardError};
use super::key::Key;
use super::mutation::Mutation;
use super::redact::Secrets;
use crate::{DbError, ErrorClass, Host, Reply, Session, Value};

const TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, false)";
const LOCK: &str = "SELECT pg_advisory_lock($1)";
const PROVE: &str = "SELECT pg_backend_pid() AS pid, EXISTS (SELECT 1 FROM pg_locks \
     WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() \
     AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 1) AS held";
const UNLOCK: &str = "SELECT pg_advisory_unlock($1) AS unlocked, pg_backend_pid() AS pid";

/// The settings of a guard.
#[derive(Clone, Debug, Default)]
pub struct GuardOptions {
    /// How long the lock is waited for.
    pub deadline: Deadline,
    /// What errors must not show.
    pub secrets: Secrets,
    /// A deliberate mistake, for checkers only.
    pub mutation: Option<Mutation>,
}

/// Where a guard is in its life. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The lock was had, and nothing says that it is lost.
    Held,
    /// Given back in good order.
    Released,
    /// Given up: the connection is closed, and whatever was locked on it is free.
    Retired,
}

/// A configuration's write lock, on a connection of its own in autocommit.
///
/// Dropping it closes the connection, and so gives the lock back without confirmation. That is also
/// what the cancellation of any of its calls leaves behind: the lock is never held by a connection
/// that nobody has.
pub struct Guard<S: Session> {
    /// Present while held, and not during a call.
    session: Option<S>,
    /// The server process that the lock was taken in.
    pid: Value,
    key: Key,
    state: State,
    options: GuardOptions,
    prove: Arc<str>,
}

impl<S: Session> std::fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl<S: Session> Guard<S> {
    /// Opens a connection and takes the lock of the configuration `id` on it.
    ///
    /// # Errors
    /// [`GuardError::Contention`] after the deadline, [`GuardError::Unavailable`] otherwise. The
    /// connection is closed.
    pub async fn acquire<H: Host<Session = S>>(
        host: &H,
        id: &str,
        options: GuardOptions,
    ) -> Result<Guard<S>, GuardError> {
        host.name_step("connect");
        match host.connect().await {
            Ok(session) => Guard::acquire_on(host, session, id, options).await,
            Err(error) => Err(GuardError::Unavailable(Cause::of(&error, &options.secrets))),
        }
    }

    /// Takes the lock on a connection that serves nothing else, outside of a transaction.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_on<H: Host<Session = S>>(
        host: &H,
        mut session: S,
        id: &str,
        options: GuardOptions,
    ) -> Result<Guard<S>, GuardError> {
        let key = match options.mutation {
            Some(Mutation::SwappedKey) => Key::of(id).swapped(),
            _ => Key::of(id),
        };
        let answer = take(host, &mut session, key, &options).await;
        match answer {
            Ok(pid) => Ok(Guard {
                session: Some(session),
                pid,
                key,
                state: State::Held,
                prove: prove_text(options.mutation),
                options,
            }),
            Err(error) => {
                // Whatever closing answers: the first error says what happened.
                let _ = session.close().await;
                Err(error)
            }
        }
    }

    /// Proves that the lock is held: by this session, which has kept its server process, and not by
    /// taking it again. Any doubt retires the guard.
    ///
    /// # Errors
    /// [`GuardError::Ownership`], now and from now on.
    pub async fn require_ownership<H: Host>(&mut self, host: &H) -> Result<(), GuardError> {
        let lost = |cause| Err(GuardError::Ownership(cause));
        let Some(mut session) = self.take_session() else {
            return lost(self.why_not());
        };
        host.name_step("prove");
        let answer = session.exec(&self.prove, &self.prove_args()).await;
        let cause = match answer {
            Ok(reply) => match read_proof(&reply) {
                Some((pid, true)) if self.same_process(pid) => {
                    self.session = Some(session);
                    self.state = State::Held;
                    return Ok(());
                }
                Some((pid, _)) if !self.same_process(pid) => {
                    Cause::fixed("the session has another server process than before")
                }
                Some(_) => Cause::fixed("the server does not show the lock"),
                None => Cause::fixed("the server's answer has another shape"),
            },
            Err(error) => Cause::of(&error, &self.options.secrets),
        };
        let _ = session.close().await;
        lost(cause)
    }

    /// Gives the lock back and closes the connection. Twice is once.
    ///
    /// # Errors
    /// [`GuardError::Release`]: the server did not confirm that this session held it, or closing
    /// failed, or the guard was retired before. It stays so.
    pub async fn release<H: Host>(&mut self, host: &H) -> Result<(), GuardError> {
        let unconfirmed = |cause| Err(GuardError::Release(cause));
        if self.state == State::Released {
            return Ok(());
        }
        let Some(mut session) = self.take_session() else {
            return unconfirmed(self.why_not());
        };
        host.name_step("unlock");
        let answer = session.exec(UNLOCK, &[Value::Int(self.key.value())]).await;
        let doubt = match answer {
            Ok(reply) => match (reply.first("unlocked"), reply.first("pid")) {
                (Some(Value::Bool(true)), Some(pid)) if *pid == self.pid => None,
                (Some(Value::Bool(true)), Some(_)) => Some(Cause::fixed(
                    "the session has another server process than before",
                )),
                _ => Some(Cause::fixed("the lock was not held any more")),
            },
            Err(error) => Some(Cause::of(&error, &self.options.secrets)),
        };
        host.name_step("close");
        let closed = session.close().await;
        match (doubt, closed) {
            (None, Ok(())) => {
                self.state = State::Released;
                Ok(())
            }
            (Some(doubt), _) => unconfirmed(doubt),
            (None, Err(error)) => unconfirmed(Cause::of(&error, &self.options.secrets)),
        }
    }

    /// Closes the connection without unlocking. For failures, whose own error is what counts: this
    /// one tells nothing of its own.
    pub async fn retire(&mut self) {
        if let Some(session) = self.take_session() {
            let _ = session.close().await;
        }
    }

    /// The connection, for one call: until that call has put it back the guard is retired, so that
    /// its cancellation leaves it so.
    fn take_session(&mut self) -> Option<S> {
        if self.state != State::Held {
            return None;
        }
        self.state = State::Retired;
        self.session.take()
    }

    fn why_not(&self) -> Cause {
        Cause::fixed(match self.state {
            State::Released => "it was given back before",
            State::Held | State::Retired => "it was given up before",
        })
    }

    fn same_process(&self, pid: &Value) -> bool {
        *pid == self.pid || self.options.mutation == Some(Mutation::ProveWithoutPid)
    }

    fn prove_args(&self) -> Vec<Value> {
        prove_args(self.key, self.options.mutation)
    }
}

/// The text of the proof.
fn prove_text(mutation: Option<Mutation>) -> Arc<str> {
    match mutation {
        Some(Mutation::ProveByLocking) => {
            "SELECT pg_backend_pid() AS pid, pg_try_advisory_lock($1) AS held".into()
        }
        Some(Mutation::ProveWithoutPid) => PROVE.replace(" AND pid = pg_backend_pid()", "").into(),
        Some(Mutation::ProveWithoutKind) => PROVE.replace(" AND objsubid = 1", "").into(),
        _ => PROVE.into(),
    }
}

fn prove_args(key: Key, mutation: Option<Mutation>) -> Vec<Value> {
    if mutation == Some(Mutation::ProveByLocking) {
        return vec![Value::Int(key.value())];
    }
    let (high, low) = key.halves();
    vec![Value::Int(high.into()), Value::Int(low.into())]
}

/// Process and answer of a proof.
fn read_proof(reply: &Reply) -> Option<(&Value, bool)> {
    let held = reply.first("held").and_then(Value::as_bool)?;
    Some((reply.first("pid")?, held))
}

/// The three statements of an acquisition; the server process of the session.
async fn take<H: Host>(
    host: &H,
    session: &mut H::Session,
    key: Key,
    options: &GuardOptions,
) -> Result<Value, GuardError> {
    let secrets = &options.secrets;
    let unavailable = |error: DbError| GuardError::Unavailable(Cause::of(&error, secrets));
    let millis = match options.mutation {
        Some(Mutation::FloorDeadline) => {
            Deadline::floored(f64::from(options.deadline.millis()) / 1000.0 - 0.0005).millis()
        }
        _ => options.deadline.millis(),
    };
    host.name_step("deadline");
    let millis = Value::from(millis.to_string().as_str());
    session
        .exec(TIMEOUT, &[millis])
        .await
        .map_err(unavailable)?;
    host.name_step("lock");
    let locked = session.exec(LOCK, &[Value::Int(key.value())]).await;
    locked.map_err(|error| match (error.class, &*error.code) {
        // What the server itself says about a lock; not whatever happens to carry that code.
        (ErrorClass::Contention, "55P03") => GuardError::Contention(Cause::of(&error, secrets)),
        _ => unavailable(error),
    })?;
    host.name_step("prove");
    let text = prove_text(options.mutation);
    let reply = session
        .exec(&text, &prove_args(key, options.mutation))
        .await;
    let reply = reply.map_err(unavailable)?;
    match read_proof(&reply) {
        Some((pid, true)) => Ok(pid.clone()),
        // A pooler: the lock is on another server process.
        _ => Err(GuardError::Unavailable(Cause::fixed(
            "the server does not show the lock that was just taken",
        ))),
    }
}

/// What is done while a guard is held.
pub trait Body<S: Session>: Send {
    /// What it gives.
    type Output: Send;
    /// How it fails.
    type Error: Send;

    /// Does it. The guard is there to be proved.
    fn run(
        &mut self,
        guard: &mut Guard<S>,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// How something under a guard failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardedError<E> {
    /// The guard was not had: nothing was done.
    #[error(transparent)]
    NotHeld(GuardError),
    /// The body failed, whatever came of the guard then.
    #[error("the guarded work failed")]
    Body(E),
    /// The body was done, but not certainly under the guard until its end.
    #[error(transparent)]
    Doubt(GuardError),
}

/// Runs `body` under the guard of the configuration `id`.
///
/// # Errors
/// The body's own error comes first: then the connection is closed, and what that answers is of no
/// interest. A body that swallowed a failed proof and went on is found out at the release.
pub async fn guarded<H: Host, B: Body<H::Session>>(
    host: &H,
    id: &str,
    options: GuardOptions,
    body: &mut B,
) -> Result<B::Output, GuardedError<B::Error>> {
    let acquired = Guard::acquire(host, id, options).await;
    let mut guard = acquired.map_err(GuardedError::NotHeld)?;
    match body.run(&mut guard).await {
        Ok(output) => match guard.release(host).await {
            Ok(()) => Ok(output),
            Err(error) => Err(GuardedError::Doubt(error)),
        },
        Err(error) => {
            guard.retire().await;
            Err(GuardedError::Body(error))
        }
    }
}
