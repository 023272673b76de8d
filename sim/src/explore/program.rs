//! The code under test as the explorer is given it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{Host, Isolation};

use crate::host::{Finish, Program, SimHost, SimSession, Start};

/// What one process is given to work with.
#[derive(Debug)]
pub struct Worker {
    /// The process around the code.
    pub host: SimHost,
    /// The sessions that the harness opened for it, as many as were declared.
    pub sessions: Vec<SimSession>,
}

impl Worker {
    /// The first session that is left. Most processes have exactly one.
    ///
    /// # Panics
    /// If the process was declared with fewer sessions than it takes.
    pub fn session(&mut self) -> SimSession {
        assert!(
            !self.sessions.is_empty(),
            "the process has no session left; declare more with `sessions(n)`"
        );
        self.sessions.remove(0)
    }

    /// The name of the process.
    pub fn name(&self) -> Arc<str> {
        self.host.process_name()
    }
}

/// What one call of a step function says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control<L> {
    /// Call again with this local state, which is all that the process remembers.
    Again(L),
    /// The process is done.
    Done,
}

/// What a process may return: `()`, or a `Result` whose error means that the process failed.
pub trait Ending {
    /// The error text, if the process failed.
    fn failure(self) -> Option<String>;
}

impl Ending for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: Debug> Ending for Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}

/// What a step function may return: a [`Control`], or a `Result` with one.
pub trait StepEnding<L> {
    /// The control, or the error text if the process failed.
    fn control(self) -> Result<Control<L>, String>;
}

impl<L> StepEnding<L> for Control<L> {
    fn control(self) -> Result<Control<L>, String> {
        Ok(self)
    }
}

impl<L, E: Debug> StepEnding<L> for Result<Control<L>, E> {
    fn control(self) -> Result<Control<L>, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// One process, or several identical ones.
#[derive(Clone)]
pub struct ProcessSpec {
    /// Its name; with a count above 1, `name-1`, `name-2`, ...
    pub name: String,
    /// How many of them.
    pub count: usize,
    /// Sessions that are open when it starts.
    pub sessions: usize,
    /// Host clock minus server clock, in microseconds.
    pub skew_micros: i64,
    /// The isolation level of its sessions; the server's default if `None`.
    pub isolation: Option<Isolation>,
    /// Whether its main task may be cancelled at an await.
    pub cancellable: bool,
    /// A script that is sent on each session right after it was opened.
    pub connect: Option<Arc<str>>,
    /// Whether sessions that were lost are replaced before the next round of a step function.
    pub reconnects: bool,
    pub(crate) program: Program,
}

impl Debug for ProcessSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessSpec")
            .field("name", &self.name)
            .field("count", &self.count)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

impl ProcessSpec {
    fn with(name: impl Into<String>, repeats: bool, start: Rc<Start>) -> ProcessSpec {
        ProcessSpec {
            name: name.into(),
            count: 1,
            sessions: 1,
            skew_micros: 0,
            isolation: None,
            cancellable: false,
            connect: None,
            reconnects: true,
            program: Program { start, repeats },
        }
    }

    /// A process that runs `main` once.
    pub fn new<F, Fut>(name: impl Into<String>, main: F) -> ProcessSpec
    where
        F: Fn(Worker) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: Ending,
    {
        ProcessSpec::with(
            name,
            false,
            Rc::new(move |host, sessions, _| {
                let main = main(Worker { host, sessions });
                Box::pin(async move {
                    match main.await.failure() {
                        Some(error) => Finish::Failed(error),
                        None => Finish::Done,
                    }
                })
            }),
        )
    }

    /// A process that calls `step` again and again, beginning with `local`. Between two calls its
    /// history is replaced by the local state, so that a loop over jobs has few states.
    pub fn steps<L, F, Fut>(name: impl Into<String>, local: L, step: F) -> ProcessSpec
    where
        L: Clone + Eq + Hash + Debug + 'static,
        F: Fn(Worker, L) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: StepEnding<L>,
    {
        let locals = Rc::new(RefCell::new(Locals::new(local)));
        ProcessSpec::with(
            name,
            true,
            Rc::new(move |host, sessions, number| {
                let local = locals.borrow().list[number as usize].clone();
                let round = step(Worker { host, sessions }, local);
                let locals = Rc::clone(&locals);
                Box::pin(async move {
                    match round.await.control() {
                        Ok(Control::Again(local)) => {
                            Finish::Again(locals.borrow_mut().number(local))
                        }
                        Ok(Control::Done) => Finish::Done,
                        Err(error) => Finish::Failed(error),
                    }
                })
            }),
        )
    }

    /// So many identical processes.
    #[must_use]
    pub fn count(mut self, count: usize) -> ProcessSpec {
        self.count = count;
        self
    }

    /// So many sessions, open from the start.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> ProcessSpec {
        self.sessions = sessions;
        self
    }

    /// The isolation level of its sessions.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> ProcessSpec {
        self.isolation = Some(isolation);
        self
    }

    /// How far its clock is ahead of the server's, in microseconds.
    #[must_use]
    pub fn skew_micros(mut self, skew_micros: i64) -> ProcessSpec {
        self.skew_micros = skew_micros;
        self
    }

    /// Sends a script on each session right after it was opened, as pools do.
    #[must_use]
    pub fn connect(mut self, sql: impl Into<Arc<str>>) -> ProcessSpec {
        self.connect = Some(sql.into());
        self
    }

    /// Its main task may be cancelled at an await, as a web framework does when a client goes away.
    /// A step function is then called again, with the local state that it had; any other process is
    /// done.
    #[must_use]
    pub fn cancellable(mut self) -> ProcessSpec {
        self.cancellable = true;
        self
    }
}

/// Local states by number, in the order in which they were first seen.
struct Locals<L> {
    list: Vec<L>,
    numbers: HashMap<L, u32>,
}

impl<L: Clone + Eq + Hash> Locals<L> {
    fn new(first: L) -> Locals<L> {
        Locals {
            numbers: HashMap::from([(first.clone(), 0)]),
            list: vec![first],
        }
    }

    fn number(&mut self, local: L) -> u32 {
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(local.clone()).or_insert(next);
        if number == next {
            self.list.push(local);
        }
        number
    }
}
