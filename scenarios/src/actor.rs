//! A process of steps as code over the seam: the same [`Script`] runs in the simulator and on a
//! live server.

use std::time::Duration;

use rowlock_model::schedule::Statement;
use rowlock_model::{Host, Session, Value};

use crate::expr::EvalError;
use crate::script::{Act, Answer, Script, ScriptState, Told};

/// The name of the [`Host::note`] that tells a property of an event: its values are those of
/// [`Told::values`].
pub const EVENT_NOTE: &str = "event";

/// Whether a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// There is more to do.
    Again,
    /// The process is done and keeps its sessions open.
    Ended,
    /// The process is done and closes its sessions.
    Stopped,
}

/// Carries out the next step of a process: at most one request to the host or the server.
///
/// `sessions` are those of the process; one that is `None` is opened when it is needed. Steps are
/// named to the host, and properties are told of events through [`Host::note`] under
/// [`EVENT_NOTE`]. Called again with the state that it left, it carries out the step after that.
///
/// # Errors
/// An expression of the scenario has no value.
pub async fn step<H: Host>(
    script: &Script,
    host: &H,
    sessions: &mut [Option<H::Session>],
    state: &mut ScriptState,
) -> Result<Progress, EvalError> {
    let now = || host.now_micros();
    let next = script.next(state, &now)?;
    let session = &mut sessions[usize::from(next.session)];
    if !matches!(next.act, Act::End | Act::Stop) {
        host.name_step(&next.step);
    }
    let answer = match next.act {
        Act::End => return Ok(Progress::Ended),
        Act::Stop => {
            for session in sessions {
                close(session).await;
            }
            return Ok(Progress::Stopped);
        }
        Act::Connect => {
            close(session).await;
            connect(host, session).await
        }
        Act::Send(_) if session.is_none() => connect(host, session).await,
        Act::Send(statement) if next.cancel => {
            // A timeout that may fire at any time: when, is a choice of the explorer. The statement
            // goes on in the server, and the session is usable once it is answered there.
            let sent = send(session, &statement);
            let answer = host.timeout(Duration::ZERO, sent).await;
            answer.unwrap_or(Answer::Cancelled)
        }
        Act::Send(statement) => send(session, &statement).await,
        Act::Sleep(duration) => {
            host.sleep(duration).await;
            Answer::Done
        }
        Act::App(_) => {
            host.sleep(Duration::ZERO).await;
            Answer::Done
        }
        Act::Close => {
            close(session).await;
            Answer::Done
        }
    };
    for told in script.done(state, &answer, &now)? {
        host.note(EVENT_NOTE, &told.values());
    }
    Ok(Progress::Again)
}

/// Runs a process to its end.
///
/// # Errors
/// An expression of the scenario has no value.
pub async fn run<H: Host>(
    script: &Script,
    host: &H,
    sessions: &mut [Option<H::Session>],
) -> Result<Progress, EvalError> {
    let mut state = script.start();
    loop {
        let progress = step(script, host, sessions, &mut state).await?;
        if progress != Progress::Again {
            return Ok(progress);
        }
    }
}

async fn send<S: Session>(session: &mut Option<S>, statement: &Statement) -> Answer {
    let Some(session) = session else {
        unreachable!("a session is opened before it is used");
    };
    if statement.batch {
        Answer::Batch(session.batch(&statement.sql).await)
    } else {
        Answer::Exec(session.exec(&statement.sql, &statement.args).await)
    }
}

async fn connect<H: Host>(host: &H, session: &mut Option<H::Session>) -> Answer {
    let connected = host.connect().await;
    Answer::Connected(connected.map(|opened| *session = Some(opened)))
}

/// Closes a session if there is one. That it was gone already is no news.
async fn close<S: Session>(session: &mut Option<S>) {
    if let Some(open) = session.take() {
        let _ = open.close().await;
    }
}

impl Told {
    /// As values for [`Host::note`]: the property's index, whether it ends something, whether it has
    /// a value that it is counted for, that value, and the arguments of the query.
    pub fn values(&self) -> Vec<Value> {
        let mut values = vec![
            Value::Int(self.property as i64),
            self.ends.into(),
            self.per.is_some().into(),
            self.per.clone().unwrap_or(Value::Null),
        ];
        values.extend(self.args.iter().cloned());
        values
    }

    /// The inverse of [`values`](Self::values); `None` if they are not such values.
    pub fn from_values(values: &[Value]) -> Option<Told> {
        let [
            Value::Int(property),
            Value::Bool(ends),
            Value::Bool(has_per),
            per,
            args @ ..,
        ] = values
        else {
            return None;
        };
        Some(Told {
            property: usize::try_from(*property).ok()?,
            ends: *ends,
            per: has_per.then(|| per.clone()),
            args: args.to_vec(),
        })
    }
}
