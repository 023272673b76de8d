//! Pinned schedules: what happens in which order, and what is expected of each event.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::schedule::{Granularity, Loss};
use rowlock_model::{Isolation, Outcome};

use crate::scenario::{Process, duration};
use crate::source::{Problem, Text};

/// A pinned schedule with the outcomes that its file gives for one database and level.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Its name.
    pub name: Arc<str>,
    /// Where its name stands in the file.
    pub span: Range<usize>,
    /// The default level of the sessions.
    pub isolation: Isolation,
    /// Whether statements pause before row locks.
    pub granularity: Granularity,
    /// The processes that take part, with their sessions in the order of connecting: those of the
    /// case, or the schedule's own. Always steps, never actors.
    pub processes: Vec<Process>,
    /// The events, in order.
    pub events: Vec<PinnedEvent>,
    /// Queries at the end.
    pub finals: Vec<Final>,
    /// Queries that its tokens name.
    pub observers: Vec<Observer>,
}

/// A query on the committed state after a pinned schedule.
#[derive(Clone, Debug)]
pub struct Final {
    /// The query.
    pub sql: Text,
    /// Its outcome as text.
    pub rows: Expected,
}

/// A query that a schedule runs between its steps, outside its sessions.
#[derive(Clone, Debug)]
pub struct Observer {
    /// Its name: the token is `?name`.
    pub name: Arc<str>,
    /// The query.
    pub sql: Text,
}

/// One token of a schedule, with its expected outcome.
#[derive(Clone, Debug)]
pub struct PinnedEvent {
    /// The token as written.
    pub token: Arc<str>,
    /// Where it stands in the file.
    pub span: Range<usize>,
    /// What it does.
    pub action: PinnedAction,
    /// What is expected.
    pub expected: ExpectedEvent,
}

/// A session, by process and by its number in it (from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRef {
    /// Index of the process.
    pub process: usize,
    /// Index of the session in the process.
    pub session: u8,
}

/// What a token does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinnedAction {
    /// A process carries out a step (indices of both).
    Step(usize, usize),
    /// A process carries out a step and its connection is lost over it.
    Lose(usize, usize, Loss),
    /// An observer looks (its index).
    Observe(usize),
    /// Time passes.
    Advance(Duration),
    /// The process dies.
    Crash(usize),
    /// The server notices, and ends the sessions of the process.
    Notice(usize),
    /// The server ends a session.
    Kill(SessionRef),
    /// The deadlock check of a session fires.
    Deadlock(SessionRef),
    /// A server timer of a session fires.
    Expire(SessionRef),
    /// A session whose lock came free goes on before others.
    Resume(SessionRef),
    /// A statement that pauses before a row lock goes on.
    Continue(SessionRef),
    /// The pooler gives a session that waits for one this server connection, from 0.
    Route(SessionRef, u8),
    /// A statement that is still running runs now.
    Late(SessionRef),
}

/// What is expected of an event: its own outcome, and those of the waiters that it lets go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedEvent {
    /// The outcome of what the event itself sends; [`Expected::Text`] `ok` if it sends nothing.
    pub own: Expected,
    /// Waiters that go on, in order: session, index of the step, outcome.
    pub then: Vec<(SessionRef, usize, Expected)>,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// An expected outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The text of an [`Outcome`].
    Text(Arc<str>),
    /// Blocked; by exactly these sessions (labels, sorted) if they are given.
    Waits(Option<Vec<Arc<str>>>),
    /// Pauses before a row lock; before this row, if it is given.
    Pauses(Option<Arc<str>>),
    /// The connection is gone.
    Lost,
    /// Not compared.
    Any,
}

impl Expected {
    /// Whether an outcome is the expected one.
    pub fn accepts(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Expected::Any, _) => true,
            (Expected::Waits(None), Outcome::Waits(_)) => true,
            (Expected::Waits(Some(wanted)), Outcome::Waits(found)) => wanted
                .iter()
                .map(|s| &**s)
                .eq(found.iter().map(String::as_str)),
            (Expected::Pauses(wanted), Outcome::Pauses(found)) => {
                let known = wanted.as_deref().filter(|_| !found.is_empty());
                known.is_none_or(|wanted| wanted == found)
            }
            (Expected::Lost, Outcome::Failed(error)) => {
                error.class == rowlock_model::ErrorClass::ConnectionLost
            }
            (Expected::Text(text), Outcome::Done(_) | Outcome::Failed(_)) => {
                outcome.to_string() == **text
            }
            _ => false,
        }
    }

    /// Parses an outcome, as `docs/scenario.md` lists them.
    pub(crate) fn parse(text: &str) -> Result<Expected, String> {
        // A long outcome may be written on several lines.
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let text = lines.join(" ");
        let text = text.trim();
        let count = |words: &str| words.parse::<u64>().is_ok();
        let known = match text.split_once(' ') {
            None => text == "ok",
            Some(("error", code)) => !code.is_empty() && !code.contains(' '),
            Some((n, "affected")) => count(n),
            Some((n, "rows")) => n == "0",
            Some((n, rest)) => {
                count(n)
                    && match rest.strip_prefix("rows (").or(rest.strip_prefix("row (")) {
                        Some(rows) => rows.ends_with(')'),
                        None => false,
                    }
            }
        };
        match text {
            "*" => Ok(Expected::Any),
            "lost" => Ok(Expected::Lost),
            "waits" => Ok(Expected::Waits(None)),
            "pauses" => Ok(Expected::Pauses(None)),
            _ if known => Ok(Expected::Text(text.into())),
            _ if text.starts_with("pauses before ") => Ok(Expected::Pauses(Some(
                text["pauses before ".len()..].into(),
            ))),
            _ => {
                let inner = text
                    .strip_prefix("waits (")
                    .and_then(|t| t.strip_suffix(')'));
                let labels = inner.ok_or_else(|| format!("`{text}` is not an outcome"))?;
                let mut labels: Vec<Arc<str>> =
                    labels.split(',').map(|label| label.trim().into()).collect();
                labels.sort();
                Ok(Expected::Waits(Some(labels)))
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Text(text) => f.write_str(text),
            Expected::Waits(None) => f.write_str("waits"),
            Expected::Waits(Some(labels)) => write!(f, "waits ({})", labels.join(", ")),
            Expected::Pauses(None) => f.write_str("pauses"),
            Expected::Pauses(Some(row)) => write!(f, "pauses before {row}"),
            Expected::Lost => f.write_str("lost"),
            Expected::Any => f.write_str("*"),
        }
    }
}

/// Every session of these processes, in the order of connecting.
pub fn sessions(processes: &[Process]) -> Vec<SessionRef> {
    let of_process = |(process, p): (usize, &Process)| {
        (0..p.sessions).map(move |session| SessionRef { process, session })
    };
    processes.iter().enumerate().flat_map(of_process).collect()
}

/// The label of a session: the process's, with `/2` for its second session and so on.
pub fn session_label(processes: &[Process], session: SessionRef) -> String {
    let label = &processes[session.process].label;
    match session.session {
        0 => label.to_string(),
        n => format!("{label}/{}", n + 1),
    }
}

/// The names that tokens and outcomes use.
pub(crate) struct Names<'a> {
    pub(crate) processes: &'a [Process],
    pub(crate) observers: &'a [Observer],
}

impl Names<'_> {
    fn process(&self, label: &str) -> Result<usize, String> {
        let found = self.processes.iter().position(|p| *p.label == *label);
        found.ok_or_else(|| {
            let labels: Vec<&str> = self.processes.iter().map(|p| &*p.label).collect();
            format!(
                "there is no process `{label}`; the processes: {}",
                labels.join(", ")
            )
        })
    }

    fn session(&self, label: &str) -> Result<SessionRef, String> {
        let (label, number) = match label.split_once('/') {
            Some((label, number)) => (label, number.parse::<u8>().unwrap_or(0)),
            None => (label, 1),
        };
        let process = self.process(label)?;
        let session = number
            .checked_sub(1)
            .filter(|n| *n < self.processes[process].sessions)
            .ok_or_else(|| format!("process `{label}` has no such session"))?;
        Ok(SessionRef { process, session })
    }

    fn step(&self, process: usize, name: &str) -> Result<usize, String> {
        let steps = self.processes[process].steps();
        let found = steps.iter().position(|step| *step.name == *name);
        found.ok_or_else(|| {
            let names: Vec<Arc<str>> = steps.iter().map(|step| step.name.clone()).collect();
            crate::scenario::no_such("step", name, &names)
        })
    }

    /// `worker-1:take`, or `take` where one process only has such a step.
    fn step_of_any(&self, written: &str) -> Result<(usize, usize), String> {
        if let Some((label, step)) = written.split_once(':') {
            let process = self.process(label)?;
            return Ok((process, self.step(process, step)?));
        }
        let found: Vec<(usize, usize)> = (0..self.processes.len())
            .filter_map(|process| Some((process, self.step(process, written).ok()?)))
            .collect();
        match found[..] {
            [one] => Ok(one),
            [] => Err(format!("there is no step `{written}`")),
            _ => Err(format!(
                "several processes have a step `{written}`; write `process:{written}`"
            )),
        }
    }

    fn action(&self, token: &str) -> Result<PinnedAction, String> {
        if let Some(by) = token.strip_prefix('+') {
            return Ok(PinnedAction::Advance(duration(by)?));
        }
        if let Some(name) = token.strip_prefix('?') {
            let found = self.observers.iter().position(|o| *o.name == *name);
            return found.map(PinnedAction::Observe).ok_or_else(|| {
                let names: Vec<Arc<str>> = self.observers.iter().map(|o| o.name.clone()).collect();
                crate::scenario::no_such("observer", name, &names)
            });
        }
        if let Some((step, loss)) = token.split_once('!') {
            let loss = match loss {
                "not-arrived" => Loss::NotArrived,
                "reply-lost" => Loss::ReplyLost,
                "still-running" => Loss::StillRunning,
                _ => {
                    return Err(format!(
                        "`{loss}` is not a loss; write not-arrived, reply-lost or still-running"
                    ));
                }
            };
            let (process, step) = self.step_of_any(step)?;
            return Ok(PinnedAction::Lose(process, step, loss));
        }
        if let Some((label, what)) = token.split_once(':') {
            match what {
                "crash" => return self.process(label).map(PinnedAction::Crash),
                "notice" => return self.process(label).map(PinnedAction::Notice),
                "kill" => return self.session(label).map(PinnedAction::Kill),
                "deadlock" => return self.session(label).map(PinnedAction::Deadlock),
                "expire" => return self.session(label).map(PinnedAction::Expire),
                "resume" => return self.session(label).map(PinnedAction::Resume),
                "continue" => return self.session(label).map(PinnedAction::Continue),
                "late" => return self.session(label).map(PinnedAction::Late),
                _ => {}
            }
            if let Some(number) = what.strip_prefix("backend-") {
                let number = number.parse::<u8>().ok();
                let place = number.and_then(|number| number.checked_sub(1));
                let place = place.ok_or("server connections are numbered from 1")?;
                return Ok(PinnedAction::Route(self.session(label)?, place));
            }
        }
        let (process, step) = self.step_of_any(token)?;
        Ok(PinnedAction::Step(process, step))
    }

    /// An outcome with what follows it: `ok; worker-2:take 1 affected`.
    fn expected(&self, text: &Text) -> Result<ExpectedEvent, String> {
        let mut parts = text.text.split("; ");
        let own = Expected::parse(parts.next().unwrap_or_default())?;
        let mut then: Vec<(SessionRef, usize, Expected)> = Vec::new();
        for part in parts {
            let (step, outcome) = part
                .trim_start()
                .split_once(' ')
                .ok_or_else(|| format!("`{part}` is not `process:step outcome`"))?;
            let (process, step) = self.step_of_any(step)?;
            let session = self.processes[process].steps()[step].session;
            let session = SessionRef { process, session };
            then.push((session, step, Expected::parse(outcome)?));
        }
        Ok(ExpectedEvent {
            own,
            then,
            span: text.span.clone(),
        })
    }
}

/// The tokens of a schedule with their actions.
pub(crate) fn actions(
    schedule: &Text,
    names: &Names<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(Arc<str>, Range<usize>, Option<PinnedAction>)> {
    let source = &*schedule.text;
    let mut tokens = Vec::new();
    let mut at = 0;
    for token in source.split_whitespace() {
        let start = at + source[at..].find(token).unwrap_or(0);
        at = start + token.len();
        let span = schedule.locate(start..at);
        let action = names.action(token).map_err(|message| {
            problems.push(Problem::new(span.clone(), message));
        });
        tokens.push((token.into(), span, action.ok()));
    }
    tokens
}

/// The outcomes of a schedule, one for each of its tokens.
pub(crate) fn outcomes(
    texts: &[Text],
    names: &Names<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Option<ExpectedEvent>> {
    let parsed = texts.iter().map(|text| {
        let expected = names.expected(text);
        expected
            .map_err(|message| problems.push(Problem::new(text.span.clone(), message)))
            .ok()
    });
    parsed.collect()
}
