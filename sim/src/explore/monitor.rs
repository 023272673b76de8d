//! Properties: what is watched while interleavings are explored.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use rowlock_model::schedule::{Choice, ProcessId, SessionId};
use rowlock_model::{DbError, ErrorClass, Row, Value};

use crate::database::{Answer, StatementId};

/// One thing that a monitor sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The choice that it comes from.
    pub choice: Choice,
    /// The process that acts or is acted upon; `None` for the clock and for the server.
    pub process: Option<ProcessId>,
    /// Its name; empty if there is none.
    pub name: &'a str,
    /// What happened.
    pub what: What<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// A statement or script was sent and is answered, or began to wait; or a waiting one is
    /// answered now.
    Statement {
        /// The session that it runs in.
        session: SessionId,
        /// The name of the step, if the process named it.
        step: Option<&'a str>,
        /// The answer; `None` if it waits.
        answer: Option<&'a Answer>,
    },
    /// The process told it with [`rowlock_model::Host::note`].
    Note {
        /// The name.
        name: &'a str,
        /// The values.
        values: &'a [Value],
    },
    /// The process is done.
    Finished,
    /// Something else; the choice says what.
    Other,
}

/// What a monitor says about what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Nothing special.
    Fine,
    /// The thing that should happen at least once in an exploration has happened.
    Happened,
    /// The property does not hold; what was seen.
    Violated(String),
    /// A query that the monitor asked failed.
    Failed(DbError),
}

/// Runs a query on the committed state.
type Ask<'a> = dyn FnMut(&str, &[Value]) -> Result<Vec<Row>, DbError> + 'a;

/// The committed state, for a monitor that asks.
pub struct Inspect<'a> {
    pub(crate) run: &'a mut Ask<'a>,
}

impl std::fmt::Debug for Inspect<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspect").finish_non_exhaustive()
    }
}

impl Inspect<'_> {
    /// Runs a query on the committed state of this moment, outside every session.
    ///
    /// # Errors
    /// What the server would answer; to be handed on as [`Remark::Failed`].
    pub fn query(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>, DbError> {
        (self.run)(sql, args)
    }
}

/// Watches events. Its state is part of the explored state, so it should remember no more than it
/// needs.
pub trait Monitor {
    /// What it remembers.
    type State: Clone + Eq + Hash + Debug;

    /// The name of the property.
    fn name(&self) -> &str;

    /// What it remembers before the first event.
    fn start(&self) -> Self::State;

    /// Takes note of an event.
    fn see(&self, state: &mut Self::State, seen: &Seen<'_>, db: &mut Inspect<'_>) -> Remark;

    /// Whether this event is none of its business: in no state would it remember anything of it or
    /// say anything about it. Such events need not be tried in every order; a monitor that cannot
    /// tell says no.
    fn ignores(&self, seen: &Seen<'_>) -> bool {
        let _ = seen;
        false
    }

    /// Whether it does not tell identical processes apart: exchange them in all that it has seen, and
    /// it remembers the same and says the same.
    fn is_symmetric(&self) -> bool {
        false
    }

    /// Judges a complete run: nothing is left to do, and every process is done or has crashed.
    fn end(&self, state: &Self::State) -> Remark {
        let _ = state;
        Remark::Fine
    }

    /// Whether [`Remark::Happened`] must be heard at least once.
    fn must_happen(&self) -> bool {
        false
    }
}

/// A [`Monitor`] whose states are numbered.
pub(crate) trait NumberedMonitor {
    fn name(&self) -> &str;
    fn must_happen(&self) -> bool;
    fn see(&mut self, state: u32, seen: &Seen<'_>, db: &mut Inspect<'_>) -> (u32, Remark);
    fn ignores(&self, seen: &Seen<'_>) -> bool;
    fn is_symmetric(&self) -> bool;
    fn end(&self, state: u32) -> Remark;
}

/// Numbers the states of a monitor in the order in which they come up; the first one is 0.
pub(crate) struct Numbered<M: Monitor> {
    monitor: M,
    states: Vec<M::State>,
    numbers: HashMap<M::State, u32>,
}

impl<M: Monitor> Numbered<M> {
    pub(crate) fn new(monitor: M) -> Numbered<M> {
        let first = monitor.start();
        Numbered {
            numbers: HashMap::from([(first.clone(), 0)]),
            states: vec![first],
            monitor,
        }
    }
}

impl<M: Monitor> NumberedMonitor for Numbered<M> {
    fn name(&self) -> &str {
        self.monitor.name()
    }

    fn must_happen(&self) -> bool {
        self.monitor.must_happen()
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        self.monitor.ignores(seen)
    }

    fn is_symmetric(&self) -> bool {
        self.monitor.is_symmetric()
    }

    fn end(&self, state: u32) -> Remark {
        self.monitor.end(&self.states[state as usize])
    }

    fn see(&mut self, state: u32, seen: &Seen<'_>, db: &mut Inspect<'_>) -> (u32, Remark) {
        let before = &self.states[state as usize];
        let mut after = before.clone();
        let remark = self.monitor.see(&mut after, seen, db);
        if after == *before {
            return (state, remark);
        }
        let next = self.states.len() as u32;
        let number = *self.numbers.entry(after.clone()).or_insert(next);
        if number == next {
            self.states.push(after);
        }
        (number, remark)
    }
}

/// When the query of a property must return no row, or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// No row, in any state.
    Always,
    /// A row, in at least one state.
    Sometimes,
    /// No row, when nothing is left to do.
    AtEnd,
}

/// A property of the committed state, as a query.
#[derive(Clone, Debug)]
pub(crate) struct StateProperty {
    pub(crate) name: String,
    pub(crate) when: When,
    pub(crate) sql: String,
    pub(crate) query: StatementId,
    /// It may depend on more than what is committed.
    pub(crate) live: bool,
}

/// The property that no statement ends as the victim of a deadlock.
#[derive(Clone, Copy, Debug)]
pub struct NoDeadlock;

impl Monitor for NoDeadlock {
    type State = ();

    fn name(&self) -> &str {
        "no deadlock"
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        match is_deadlock(seen) {
            true => Remark::Violated(format!(
                "a statement of {} is ended to break a deadlock",
                seen.name
            )),
            false => Remark::Fine,
        }
    }

    fn ignores(&self, seen: &Seen<'_>) -> bool {
        !is_deadlock(seen)
    }

    fn is_symmetric(&self) -> bool {
        true
    }
}

fn is_deadlock(seen: &Seen<'_>) -> bool {
    let What::Statement {
        answer: Some(answer),
        ..
    } = seen.what
    else {
        return false;
    };
    let error = answer.error();
    error.is_some_and(|error| error.class == ErrorClass::Deadlock)
}

/// A monitor without memory, from a closure.
pub struct Watch<F> {
    name: String,
    must_happen: bool,
    see: F,
}

impl<F: Fn(&Seen<'_>) -> Remark> Watch<F> {
    /// Calls `see` for each event.
    pub fn new(name: impl Into<String>, see: F) -> Watch<F> {
        Watch {
            name: name.into(),
            must_happen: false,
            see,
        }
    }

    /// What `see` waits for must happen at least once.
    #[must_use]
    pub fn must_happen(mut self) -> Watch<F> {
        self.must_happen = true;
        self
    }
}

impl<F> Debug for Watch<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("name", &self.name).finish()
    }
}

impl<F: Fn(&Seen<'_>) -> Remark> Monitor for Watch<F> {
    type State = ();

    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) {}

    fn see(&self, (): &mut (), seen: &Seen<'_>, _: &mut Inspect<'_>) -> Remark {
        (self.see)(seen)
    }

    fn must_happen(&self) -> bool {
        self.must_happen
    }
}
