//! A process of steps as a state machine without I/O: what it does next, and what it makes of the
//! answer.
//!
//! [`ScriptState`] is all that such a process remembers. It can be copied, compared and hashed, and
//! holds no more than the process can still read: results of steps are kept only in the slots that
//! some expression or binding names, and forgotten after their last reader. So an explorer may
//! restart the process between any two steps, and states that the process cannot tell apart are
//! equal.

use std::sync::Arc;
use std::time::Duration;

use rowlock_model::{
    Batch, DbError, Dialect, ErrorClass, Reply, TransactionStatus, Value, schedule::Statement,
};

use crate::expr::{Attribute, Environment, EvalError, Expr, Name};
use crate::scenario::{Body, Event, Process, Program, Step, StepAction};

/// The class of a step whose client stopped waiting for the reply; not an error of the server.
pub const CANCELLED_BY_CLIENT: &str = "cancelled-by-client";

/// A process of steps, ready to be run.
#[derive(Clone, Debug)]
pub struct Script {
    label: Label,
    dialect: Dialect,
    program: Arc<Program>,
    events: Arc<[Event]>,
    sessions: u8,
}

/// The label of a process.
#[derive(Clone, Debug)]
enum Label {
    /// This one.
    Fixed(Arc<str>),
    /// That of whoever runs the script, who is asked when an expression names it.
    Asked(fn() -> Arc<str>),
}

impl Label {
    fn get(&self) -> Arc<str> {
        match self {
            Label::Fixed(label) => Arc::clone(label),
            Label::Asked(ask) => ask(),
        }
    }
}

/// What a process remembers between two steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptState {
    /// The step that comes next, unless it is left out.
    next: u16,
    /// How often the steps have been begun; stays 1 if nothing can read it.
    round: u32,
    vars: Box<[Value]>,
    results: Box<[Value]>,
    links: Box<[Link]>,
    /// How often its client may still stop waiting for a reply.
    cancels: u32,
    mode: Mode,
}

/// A session as its process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    /// Open, without a transaction that the process began.
    Open,
    /// Inside a transaction that the process began.
    InTransaction,
    /// Closed or lost; connected again before its next use.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Running,
    /// A retry: open transactions are rolled back first.
    RollingBack,
    Ended,
    /// Ended by an error: the sessions are closed.
    Stopped,
}

/// What a process does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The name of the step.
    pub step: Arc<str>,
    /// The session that it concerns, from 0; 0 where it concerns none.
    pub session: u8,
    /// What it does.
    pub act: Act,
    /// Whether the client may stop waiting for the reply.
    pub cancel: bool,
}

/// What there is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Opens the session again.
    Connect,
    /// Sends a statement or, if it says so, a script.
    Send(Statement),
    /// Waits on the host's clock.
    Sleep(Duration),
    /// Does something by itself: a point in time, and nothing else.
    App(Arc<str>),
    /// Closes the session.
    Close,
    /// There is nothing left to do; the sessions stay open, idle.
    End,
    /// There is nothing left to do, and the sessions are closed.
    Stop,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a single statement.
    Exec(Result<Reply, DbError>),
    /// The answer to a script.
    Batch(Result<Batch, DbError>),
    /// A sleep, an application step or a close is over.
    Done,
    /// The session is open again, or could not be opened.
    Connected(Result<(), DbError>),
    /// The client stopped waiting for the reply.
    Cancelled,
}

/// Something that a process tells a property.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Index of the property in its case.
    pub property: usize,
    /// It ends what an earlier one began.
    pub ends: bool,
    /// The value that it is counted for, if the property says `per`.
    pub per: Option<Value>,
    /// The arguments of the property's query.
    pub args: Vec<Value>,
}

impl Script {
    /// The script of a process; `None` if it is an actor.
    pub fn of(process: &Process, dialect: Dialect) -> Option<Script> {
        let Body::Steps(program) = &process.body else {
            return None;
        };
        Some(Script {
            label: Label::Fixed(process.label.clone()),
            dialect,
            program: Arc::clone(program),
            events: Arc::clone(&process.events),
            sessions: process.sessions,
        })
    }

    /// The same script for every process of its group: `ask` gives the label of the one that runs.
    #[must_use]
    pub fn shared(mut self, ask: fn() -> Arc<str>) -> Script {
        self.label = Label::Asked(ask);
        self
    }

    /// The steps.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the process remembers before its first step, with all its sessions open.
    pub fn start(&self) -> ScriptState {
        ScriptState {
            next: 0,
            round: 1,
            vars: self.program.vars.clone().into(),
            results: self.blank_results(),
            links: vec![Link::Open; usize::from(self.sessions)].into(),
            cancels: self.program.cancels,
            mode: Mode::Running,
        }
    }

    /// Passes over the steps that are left out and says what comes next. `now` reads the host's
    /// clock, and is called only where a binding or expression does.
    ///
    /// # Errors
    /// An expression has no value.
    pub fn next(&self, state: &mut ScriptState, now: &dyn Fn() -> i64) -> Result<Next, EvalError> {
        loop {
            match state.mode {
                Mode::Ended => return Ok(Next::plain("end", 0, Act::End)),
                Mode::Stopped => return Ok(Next::plain("stop", 0, Act::Stop)),
                Mode::RollingBack => match self.open_transaction(state) {
                    Some(session) => {
                        let statement = Statement {
                            sql: "ROLLBACK".into(),
                            args: Vec::new(),
                            batch: false,
                        };
                        return Ok(Next::plain("rollback", session, Act::Send(statement)));
                    }
                    None => {
                        state.mode = Mode::Running;
                        self.begin_round(state);
                    }
                },
                Mode::Running => {
                    let Some(step) = self.program.steps.get(usize::from(state.next)) else {
                        self.end_of_round(state, now)?;
                        continue;
                    };
                    let env = self.env(state, now, None);
                    if let Some(when) = &step.when
                        && !when.holds(&env)?
                    {
                        self.leave(state);
                        continue;
                    }
                    return Ok(self.act(step, state, &env));
                }
            }
        }
    }

    /// Takes note of what became of the [`Next`] that [`next`](Self::next) gave, and says what the
    /// properties are told.
    ///
    /// # Errors
    /// An expression has no value.
    pub fn done(
        &self,
        state: &mut ScriptState,
        answer: &Answer,
        now: &dyn Fn() -> i64,
    ) -> Result<Vec<Told>, EvalError> {
        let result = StepResult::of(answer);
        match state.mode {
            Mode::Ended | Mode::Stopped => Ok(Vec::new()),
            Mode::RollingBack => {
                if let Some(session) = self.open_transaction(state) {
                    state.links[usize::from(session)] = match result.lost() {
                        true => Link::Gone,
                        false => Link::Open,
                    };
                }
                self.tell("rollback", &result, state, now)
            }
            Mode::Running => self.step_done(state, answer, &result, now),
        }
    }

    fn step_done(
        &self,
        state: &mut ScriptState,
        answer: &Answer,
        result: &StepResult<'_>,
        now: &dyn Fn() -> i64,
    ) -> Result<Vec<Told>, EvalError> {
        let index = usize::from(state.next);
        let step = &self.program.steps[index];
        let link = &mut state.links[usize::from(step.session)];
        if let Answer::Connected(connected) = answer {
            if connected.is_ok() {
                *link = Link::Open;
                return Ok(Vec::new());
            }
        } else if matches!(step.action, StepAction::Close) || result.lost() {
            *link = Link::Gone;
        } else {
            *link = result.link_after(*link, step);
        }
        state.cancels -= u32::from(result.cancelled);
        self.keep(state, index, result);
        self.set(step, state, result, now)?;
        let told = self.tell(&step.name, result, state, now)?;
        match result.error {
            Some(error) if step.retry.contains(&error.class) => {
                state.mode = match self.may_begin_round(state) {
                    true => Mode::RollingBack,
                    false => Mode::Stopped,
                };
                self.forget(state);
            }
            Some(_) if !step.continue_on_error => {
                state.mode = Mode::Stopped;
                self.forget(state);
            }
            _ => self.leave(state),
        }
        Ok(told)
    }

    /// What step `index` sends where the order of steps is fixed from outside: conditions are not
    /// asked, and sessions are taken to be open.
    pub(crate) fn fixed_act(
        &self,
        index: usize,
        state: &ScriptState,
        now: &dyn Fn() -> i64,
    ) -> Act {
        let env = self.env(state, now, None);
        self.act(&self.program.steps[index], state, &env).act
    }

    /// Takes note of the answer to a step where the order is fixed from outside; nothing is
    /// forgotten.
    ///
    /// # Errors
    /// An expression has no value.
    pub(crate) fn fixed_done(
        &self,
        index: usize,
        state: &mut ScriptState,
        answer: &Answer,
        now: &dyn Fn() -> i64,
    ) -> Result<(), EvalError> {
        let result = StepResult::of(answer);
        let step = &self.program.steps[index];
        self.keep(state, index, &result);
        self.set(step, state, &result, now)
    }

    /// Sets the variables of a step that is done without an error.
    fn set(
        &self,
        step: &Step,
        state: &mut ScriptState,
        result: &StepResult<'_>,
        now: &dyn Fn() -> i64,
    ) -> Result<(), EvalError> {
        if result.error.is_some() {
            return Ok(());
        }
        for (slot, expr) in &step.set {
            let value = expr.value(&self.env(state, now, Some((step, result))))?;
            state.vars[*slot] = value;
        }
        Ok(())
    }

    /// Keeps what somebody will read of a step's result.
    fn keep(&self, state: &mut ScriptState, index: usize, result: &StepResult<'_>) {
        for (slot, (step, attribute)) in self.program.layout.results.iter().enumerate() {
            if *step == index {
                state.results[slot] = result.attribute(attribute, "");
            }
        }
    }

    /// Goes on to the next step, and forgets what no later one reads.
    fn leave(&self, state: &mut ScriptState) {
        state.next += 1;
        let blanks = self.program.layout.results.iter();
        for (slot, (_, attribute)) in blanks.enumerate() {
            if self.program.last_use[slot] < usize::from(state.next) {
                state.results[slot] = blank(attribute);
            }
        }
    }

    fn end_of_round(
        &self,
        state: &mut ScriptState,
        now: &dyn Fn() -> i64,
    ) -> Result<(), EvalError> {
        let until = match &self.program.until {
            Some(until) => until.holds(&self.env(state, now, None))?,
            None => false,
        };
        if self.program.repeat && !until && self.may_begin_round(state) {
            self.begin_round(state);
        } else {
            state.mode = Mode::Ended;
            self.forget(state);
        }
        Ok(())
    }

    fn may_begin_round(&self, state: &ScriptState) -> bool {
        self.program.rounds == 0 || state.round < self.program.rounds
    }

    fn begin_round(&self, state: &mut ScriptState) {
        state.next = 0;
        state.results = self.blank_results();
        if self.program.rounds != 0 || self.program.reads_round {
            state.round += 1;
        }
    }

    /// An ended process remembers nothing; a retrying one nothing but its variables and sessions.
    fn forget(&self, state: &mut ScriptState) {
        state.next = 0;
        state.results = self.blank_results();
        if matches!(state.mode, Mode::Ended | Mode::Stopped) {
            state.round = 1;
            state.cancels = 0;
            state.vars = self.program.vars.clone().into();
        }
    }

    fn blank_results(&self) -> Box<[Value]> {
        let slots = self.program.layout.results.iter();
        slots.map(|(_, attribute)| blank(attribute)).collect()
    }

    fn open_transaction(&self, state: &ScriptState) -> Option<u8> {
        let links = (0..self.sessions).zip(state.links.iter());
        let mut open = links.filter(|(_, link)| **link == Link::InTransaction);
        open.next().map(|(session, _)| session)
    }

    fn act(&self, step: &Step, state: &ScriptState, env: &Env<'_>) -> Next {
        let sends = matches!(step.action, StepAction::Sql(_) | StepAction::Batch(_));
        let gone = state.links[usize::from(step.session)] == Link::Gone;
        let act = match &step.action {
            _ if sends && gone => Act::Connect,
            StepAction::Sql(bound) => Act::Send(Statement {
                sql: bound.sql.clone(),
                args: bound.args.iter().map(|name| env.value(name)).collect(),
                batch: false,
            }),
            StepAction::Batch(text) => Act::Send(Statement {
                sql: text.text.clone(),
                args: Vec::new(),
                batch: true,
            }),
            StepAction::Sleep(duration) => Act::Sleep(*duration),
            StepAction::App(text) => Act::App(text.clone()),
            StepAction::Close => Act::Close,
        };
        Next {
            step: step.name.clone(),
            session: step.session,
            cancel: step.cancel && state.cancels > 0 && matches!(act, Act::Send(_)),
            act,
        }
    }

    /// What the properties are told when a step is done.
    fn tell(
        &self,
        step: &str,
        result: &StepResult<'_>,
        state: &ScriptState,
        now: &dyn Fn() -> i64,
    ) -> Result<Vec<Told>, EvalError> {
        let mut env = self.env(state, now, None);
        env.done = Some((step, result));
        let asked = |event: &&Event| {
            event.steps.is_empty() || event.steps.iter().any(|name| **name == *step)
        };
        let mut told = Vec::new();
        for event in self.events.iter().filter(asked) {
            if event.condition.holds(&env)? {
                told.push(event.told(&env)?);
            }
        }
        Ok(told)
    }

    fn env<'a>(
        &'a self,
        state: &'a ScriptState,
        now: &'a dyn Fn() -> i64,
        done: Option<(&'a Step, &'a StepResult<'a>)>,
    ) -> Env<'a> {
        Env {
            label: &self.label,
            dialect: self.dialect,
            state,
            now,
            done: done.map(|(step, result)| (&*step.name, result)),
        }
    }
}

impl Event {
    fn told(&self, env: &dyn Environment) -> Result<Told, EvalError> {
        Ok(Told {
            property: self.property,
            ends: self.ends,
            per: self
                .per
                .as_ref()
                .map(|per: &Expr| per.value(env))
                .transpose()?,
            args: self.args.iter().map(|name| env.value(name)).collect(),
        })
    }

    /// What a property is told of a step of a Rust actor, whose results are not kept.
    ///
    /// # Errors
    /// An expression has no value.
    pub fn of_actor(
        &self,
        process: &str,
        step: &str,
        answer: &Answer,
    ) -> Result<Option<Told>, EvalError> {
        let asked = self.steps.is_empty() || self.steps.iter().any(|name| **name == *step);
        let result = StepResult::of(answer);
        let env = ActorEnv {
            process,
            step,
            result: &result,
        };
        if !asked || !self.condition.holds(&env)? {
            return Ok(None);
        }
        self.told(&env).map(Some)
    }
}

impl Next {
    fn plain(step: &str, session: u8, act: Act) -> Next {
        Next {
            step: step.into(),
            session,
            act,
            cancel: false,
        }
    }
}

impl ScriptState {
    /// Whether the process has come to its end, by an error or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.mode, Mode::Ended | Mode::Stopped)
    }

    /// Index of the step that comes next, if it is not left out.
    pub fn next_step(&self) -> usize {
        usize::from(self.next)
    }
}

/// What a step's result looks like to expressions.
struct StepResult<'a> {
    reply: Option<&'a Reply>,
    status: Option<TransactionStatus>,
    error: Option<&'a DbError>,
    cancelled: bool,
}

impl StepResult<'_> {
    fn of(answer: &Answer) -> StepResult<'_> {
        let mut result = StepResult {
            reply: None,
            status: None,
            error: None,
            cancelled: false,
        };
        match answer {
            Answer::Exec(Ok(reply)) => result.reply = Some(reply),
            Answer::Batch(Ok(batch)) => {
                result.reply = batch.replies.last();
                result.error = batch.error.as_ref();
                result.status = Some(batch.status);
            }
            Answer::Exec(Err(error))
            | Answer::Batch(Err(error))
            | Answer::Connected(Err(error)) => result.error = Some(error),
            Answer::Done | Answer::Connected(Ok(())) => {}
            Answer::Cancelled => result.cancelled = true,
        }
        result
    }

    fn lost(&self) -> bool {
        self.error
            .is_some_and(|error| error.class == ErrorClass::ConnectionLost)
    }

    /// What the process knows of its session afterwards, by the tags of the replies; an error leaves
    /// a transaction open for a rollback.
    fn link_after(&self, before: Link, step: &Step) -> Link {
        match (self.status, self.reply.map(|reply| &*reply.tag)) {
            (Some(TransactionStatus::Idle), _) => Link::Open,
            (Some(_), _) => Link::InTransaction,
            (None, Some("BEGIN" | "START TRANSACTION")) => Link::InTransaction,
            (None, Some("COMMIT" | "ROLLBACK" | "END")) if ends_transaction(step) => Link::Open,
            _ => before,
        }
    }

    fn attribute(&self, attribute: &Attribute, step: &str) -> Value {
        match attribute {
            Attribute::Rows => {
                let rows = self.reply.map_or(0, |reply| reply.rows.len());
                Value::Int(rows as i64)
            }
            Attribute::Affected => {
                let affected = self.reply.map_or(0, |reply| reply.affected);
                Value::Int(i64::try_from(affected).unwrap_or(i64::MAX))
            }
            Attribute::Error => self
                .error
                .map_or("".into(), |error| Value::Text(error.code.clone())),
            Attribute::Class => match self.error {
                Some(error) => error.class.name().into(),
                None if self.cancelled => CANCELLED_BY_CLIENT.into(),
                None => "".into(),
            },
            Attribute::Ran => true.into(),
            Attribute::Name => step.into(),
            Attribute::Column(column) => {
                let value = self.reply.and_then(|reply| reply.first(column));
                value.cloned().unwrap_or(Value::Null)
            }
        }
    }
}

/// Whether a statement with the tag `COMMIT` or `ROLLBACK` leaves no transaction open: not
/// `ROLLBACK TO` a savepoint, and not `AND CHAIN`.
fn ends_transaction(step: &Step) -> bool {
    let StepAction::Sql(bound) = &step.action else {
        return false;
    };
    let text = bound.sql.to_ascii_uppercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let chains = words.windows(2).any(|pair| pair == ["AND", "CHAIN"]);
    !chains && !words.contains(&"TO")
}

/// What an attribute says of a step that was not carried out.
fn blank(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Rows | Attribute::Affected => Value::Int(0),
        Attribute::Error | Attribute::Class | Attribute::Name => "".into(),
        Attribute::Ran => false.into(),
        Attribute::Column(_) => Value::Null,
    }
}

struct Env<'a> {
    label: &'a Label,
    dialect: Dialect,
    state: &'a ScriptState,
    now: &'a dyn Fn() -> i64,
    done: Option<(&'a str, &'a StepResult<'a>)>,
}

impl Environment for Env<'_> {
    fn value(&self, name: &Name) -> Value {
        match name {
            Name::Process => Value::Text(self.label.get()),
            Name::Round => Value::Int(i64::from(self.state.round)),
            Name::Now => clock_value((self.now)(), self.dialect),
            Name::Var(slot) => self.state.vars[*slot].clone(),
            Name::Result(slot) => self.state.results[*slot].clone(),
            Name::Done(attribute) => self.done.map_or(Value::Null, |(step, result)| {
                result.attribute(attribute, step)
            }),
        }
    }
}

struct ActorEnv<'a> {
    process: &'a str,
    step: &'a str,
    result: &'a StepResult<'a>,
}

impl Environment for ActorEnv<'_> {
    fn value(&self, name: &Name) -> Value {
        match name {
            Name::Process => self.process.into(),
            Name::Done(attribute) => self.result.attribute(attribute, self.step),
            // The compiler of events gives an actor no other names.
            Name::Round | Name::Now | Name::Var(_) | Name::Result(_) => Value::Null,
        }
    }
}

/// The host's clock as the database's own type for an instant: `timestamptz`, `datetime` in UTC,
/// and text where there is no such type.
fn clock_value(micros: i64, dialect: Dialect) -> Value {
    match dialect {
        Dialect::Postgres => Value::TimestampTz(micros),
        Dialect::MySql | Dialect::MariaDb => Value::Timestamp(micros),
        Dialect::Sqlite => Value::Timestamp(micros).to_string().into(),
    }
}
