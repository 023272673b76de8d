//! What reports draw of one event, whatever it comes from: a schedule that the explorer found, one
//! that was read from a file, or a replay on a server.

use rowlock_model::Outcome;
use rowlock_model::schedule::{Choice, Event, Loss, Statement};

use crate::shorten::one_line;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The label of the session or process; empty for the clock.
    pub actor: String,
    /// What kind of event it is.
    pub kind: Kind,
    /// The name of the step, if it has one.
    pub step: Option<String>,
    /// What was sent.
    pub statement: Option<Statement>,
    /// What became of it.
    pub outcome: Option<Said>,
}

/// The kinds of events, as choices name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process goes on.
    Step,
    /// A session goes on whose lock was granted.
    Resume,
    /// A statement goes on that paused before a row lock.
    Continue,
    /// A pooler gives a transaction this server connection, from 0.
    Route(u8),
    /// A session is the victim of a deadlock.
    Deadlock,
    /// A timer of the server fires.
    Expire,
    /// A statement runs after its client was told of a loss.
    Late,
    /// A task is cancelled.
    Cancel,
    /// A process dies.
    Crash,
    /// The server notices that a client is gone.
    Notice,
    /// The server ends a session.
    Kill,
    /// A connection is lost over a statement.
    Lose(Loss),
    /// The clocks move by so many microseconds.
    Advance(i64),
    /// A query is run outside the sessions.
    Observe,
}

/// An outcome in words, and how it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The words: `1 affected`, `waits for worker-1`.
    pub text: String,
    /// How it is meant.
    pub tone: Tone,
}

/// How an outcome is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Done.
    Done,
    /// Refused, or lost.
    Refused,
    /// Blocked.
    Waits,
}

impl Said {
    /// The outcome as files write it, with the server's message and the blockers.
    pub fn of(outcome: &Outcome) -> Said {
        let (text, tone) = match outcome {
            Outcome::Done(_) => (one_line(&outcome.to_string()), Tone::Done),
            Outcome::Failed(error) if error.message.is_empty() => {
                (outcome.to_string(), Tone::Refused)
            }
            Outcome::Failed(error) => (
                one_line(&format!("{outcome}: {}", error.message)),
                Tone::Refused,
            ),
            Outcome::Waits(behind) if behind.is_empty() => ("waits".to_owned(), Tone::Waits),
            Outcome::Waits(behind) => (format!("waits for {}", behind.join(", ")), Tone::Waits),
            Outcome::Pauses(row) if row.is_empty() => ("pauses".to_owned(), Tone::Waits),
            Outcome::Pauses(row) => (format!("pauses before {row}"), Tone::Waits),
        };
        Said { text, tone }
    }
}

impl Kind {
    /// The kind of a choice.
    pub fn of(choice: &Choice) -> Kind {
        match *choice {
            Choice::Step(..) => Kind::Step,
            Choice::Resume(_) => Kind::Resume,
            Choice::Continue(_) => Kind::Continue,
            Choice::Route(_, backend) => Kind::Route(backend),
            Choice::Deadlock(_) => Kind::Deadlock,
            Choice::Expire(_) => Kind::Expire,
            Choice::Late(_) => Kind::Late,
            Choice::Cancel(..) => Kind::Cancel,
            Choice::Crash(_) => Kind::Crash,
            Choice::Notice(_) => Kind::Notice,
            Choice::Kill(_) => Kind::Kill,
            Choice::Lose(_, _, loss) => Kind::Lose(loss),
            Choice::Advance(micros) => Kind::Advance(micros),
        }
    }

    /// Its name in machine-readable reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Step => "step",
            Kind::Resume => "resume",
            Kind::Continue => "continue",
            Kind::Route(_) => "route",
            Kind::Deadlock => "deadlock",
            Kind::Expire => "expire",
            Kind::Late => "late",
            Kind::Cancel => "cancel",
            Kind::Crash => "crash",
            Kind::Notice => "notice",
            Kind::Kill => "kill",
            Kind::Lose(_) => "lose",
            Kind::Advance(_) => "advance",
            Kind::Observe => "observe",
        }
    }
}

impl Frame {
    /// What is drawn of an event.
    pub fn of(event: &Event) -> Frame {
        Frame {
            actor: event.actor.to_string(),
            kind: match event.choice {
                Choice::Advance(0) if event.statement.is_some() => Kind::Observe,
                choice => Kind::of(&choice),
            },
            step: event.step.as_deref().map(str::to_owned),
            statement: event.statement.clone(),
            outcome: event.outcome.as_ref().map(Said::of),
        }
    }

    /// What is drawn of a schedule.
    pub fn all(events: &[Event]) -> Vec<Frame> {
        events.iter().map(Frame::of).collect()
    }
}
