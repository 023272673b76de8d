//! What a process has asked for and was told: the state behind sessions and hosts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use rowlock_model::{Batch, DbError, Dialect, Reply, Value};

/// The name of a step.
pub(crate) type Label = Arc<str>;

/// A request of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// One statement on a session of the process.
    Exec(u16, Arc<str>, Arc<[Value]>),
    /// A script on a session of the process.
    Batch(u16, Arc<str>),
    /// A new session.
    Connect,
    /// So many microseconds on the host's clock.
    Sleep(i64),
}

impl Ask {
    /// The session that the request occupies.
    pub(crate) fn session(&self) -> Option<u16> {
        match self {
            Ask::Exec(session, ..) | Ask::Batch(session, _) => Some(*session),
            Ask::Connect | Ask::Sleep(_) => None,
        }
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// To [`Ask::Exec`].
    Exec(Result<Reply, DbError>),
    /// To [`Ask::Batch`].
    Batch(Result<Batch, DbError>),
    /// To [`Ask::Connect`]: the session takes the next free number of the process.
    Connected(Result<(), DbError>),
    /// To [`Ask::Sleep`].
    Slept,
    /// To a request whose future was dropped: that it is over is all that can be seen of it.
    Forgotten,
}

/// Something that a process told monitors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    pub(crate) name: Arc<str>,
    pub(crate) values: Arc<[Value]>,
}

/// What a process looked at while it was polled, beyond the answers that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    /// The host's clock.
    pub(crate) clock: bool,
    /// Its name, or a random number.
    pub(crate) identity: bool,
}

/// A request that was made and not yet taken back or handed over.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: u32,
    pub(super) ask: Ask,
    pub(super) task: usize,
    pub(super) label: Option<Label>,
    pub(super) waker: Waker,
    /// The future was dropped: the statement goes on, nobody waits for it.
    pub(super) orphan: bool,
    pub(super) given: Option<Given>,
}

/// A session as its process sees it.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Requests in the order in which they were made; only the first one is under way.
    pub(super) queue: VecDeque<u32>,
    /// Closed or dropped by the process.
    pub(super) closed: bool,
    /// Waits to be closed until the queue is empty.
    pub(super) closer: Option<Waker>,
}

/// A task that was spawned and not yet taken over by the executor.
pub(super) type Spawned = (usize, Pin<Box<dyn Future<Output = ()> + Send>>);

/// Everything that one process has on its desk.
pub(crate) struct Desk {
    pub(super) dialect: Dialect,
    pub(super) process: usize,
    pub(super) name: Arc<str>,
    pub(super) now_micros: i64,
    pub(super) observed: Observed,
    pub(super) slots: Vec<Slot>,
    pub(super) next_ask: u32,
    pub(super) lines: Vec<Line>,
    /// Of each session that the harness opened, the number of the session that stands in its place
    /// now.
    pub(super) places: Vec<u16>,
    pub(super) closed: Vec<u16>,
    pub(super) notes: Vec<Note>,
    pub(super) spawned: Vec<Spawned>,
    pub(super) aborted: Vec<usize>,
    pub(super) next_task: usize,
    pub(super) current_task: usize,
    pub(super) label: Option<(usize, Label)>,
    pub(super) draws: u64,
}

impl Desk {
    pub(super) fn new(dialect: Dialect, sessions: usize) -> Desk {
        Desk {
            dialect,
            process: 0,
            name: "".into(),
            now_micros: 0,
            observed: Observed::default(),
            slots: Vec::new(),
            next_ask: 0,
            lines: (0..sessions).map(|_| Line::default()).collect(),
            places: (0..sessions as u16).collect(),
            closed: Vec::new(),
            notes: Vec::new(),
            spawned: Vec::new(),
            aborted: Vec::new(),
            next_task: 1,
            current_task: 0,
            label: None,
            draws: 0,
        }
    }

    /// Makes a request for the task that is being polled.
    pub(super) fn ask(&mut self, ask: Ask, waker: Waker) -> u32 {
        let id = self.next_ask;
        self.next_ask += 1;
        if let Some(session) = ask.session() {
            self.lines[usize::from(session)].queue.push_back(id);
        }
        let label = match self.label.take() {
            Some((task, label)) if task == self.current_task => Some(label),
            other => {
                self.label = other;
                None
            }
        };
        self.slots.push(Slot {
            id,
            ask,
            task: self.current_task,
            label,
            waker,
            orphan: false,
            given: None,
        });
        id
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.slots.binary_search_by_key(&id, |slot| slot.id).ok()
    }

    /// Hands over the answer to a request, if it has come.
    pub(super) fn take(&mut self, id: u32, waker: &Waker) -> Option<Given> {
        let at = self.position(id)?;
        let slot = &mut self.slots[at];
        if slot.given.is_none() {
            slot.waker.clone_from(waker);
            return None;
        }
        self.slots.remove(at).given
    }

    /// The future of a request is dropped.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(at) = self.position(id) else { return };
        if self.slots[at].given.is_some() || self.slots[at].ask == Ask::Connect {
            self.slots.remove(at);
        } else if self.slots[at].ask.session().is_some() {
            self.slots[at].orphan = true;
        } else {
            self.slots.remove(at);
        }
    }

    /// An answer arrives.
    pub(super) fn give(&mut self, id: u32, given: Given) {
        let Some(at) = self.position(id) else { return };
        if let Some(session) = self.slots[at].ask.session() {
            let line = &mut self.lines[usize::from(session)];
            line.queue.retain(|queued| *queued != id);
            if line.queue.is_empty()
                && let Some(closer) = line.closer.take()
            {
                closer.wake();
            }
        }
        if self.slots[at].orphan {
            self.slots.remove(at);
            return;
        }
        if given == Given::Connected(Ok(())) {
            self.lines.push(Line::default());
        }
        let slot = &mut self.slots[at];
        slot.given = Some(given);
        slot.waker.wake_by_ref();
    }

    /// A session is closed, or its handle dropped.
    pub(super) fn close(&mut self, session: u16) {
        let line = &mut self.lines[usize::from(session)];
        if !line.closed {
            line.closed = true;
            self.closed.push(session);
        }
    }

    /// Nothing is under way and no session is open but those that the harness opened.
    pub(super) fn is_quiet(&self) -> bool {
        let kept = |at: usize| self.places.contains(&(at as u16));
        let mut lines = self.lines.iter().enumerate();
        self.slots.is_empty() && lines.all(|(at, line)| line.closed || kept(at))
    }
}

thread_local! {
    static DESK: RefCell<Option<Box<Desk>>> = const { RefCell::new(None) };
}

/// Puts the desk of a process into place while it is polled.
pub(super) fn install(desk: Option<Box<Desk>>) -> Option<Box<Desk>> {
    DESK.with(|place| place.replace(desk))
}

/// Works on the desk of the process that is being polled; `None` outside of a poll (when the
/// futures of a process that nobody needs any more are dropped).
pub(super) fn with<R>(work: impl FnOnce(&mut Desk) -> R) -> Option<R> {
    DESK.with(|place| place.borrow_mut().as_deref_mut().map(work))
}

/// As [`with`], for what makes no sense outside of a poll.
pub(super) fn polled<R>(work: impl FnOnce(&mut Desk) -> R) -> R {
    with(work).expect("a simulated session or host is used outside of its process")
}
