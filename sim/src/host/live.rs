//! A live process: its futures, and the executor that polls them until they rest.

use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use rowlock_model::Dialect;

use super::desk::{self, Ask, Desk, Given, Label, Note, Observed};
use super::{SimHost, SimSession};

/// How a process, or one round of its step function, ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Finish {
    /// It is done.
    Done,
    /// It is done and says that it failed.
    Failed(String),
    /// The step function is to be called again with this local state.
    Again(u32),
    /// It panicked.
    Panicked(String),
    /// It waits for something that is neither a request nor another task of the process.
    Stuck(String),
    /// Its tasks wait for each other: for a mutex, for a connection of a pool.
    Hangs,
}

/// The future of one round.
pub(crate) type Round = Pin<Box<dyn Future<Output = Finish>>>;

/// Starts a round of a process: host, sessions that the harness opened, number of its local state.
pub(crate) type Start = dyn Fn(SimHost, Vec<SimSession>, u32) -> Round;

/// What a process runs.
#[derive(Clone)]
pub(crate) struct Program {
    /// Starts a round.
    pub(crate) start: Rc<Start>,
    /// Whether a round that was cancelled is followed by another one.
    pub(crate) repeats: bool,
}

/// What a process is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The answer to one of its requests.
    Reply(u32, Given),
    /// The task that waits for this request is cancelled there.
    Cancel(u32),
}

/// A request that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingAsk {
    pub(crate) id: u32,
    pub(crate) ask: Ask,
    pub(crate) label: Option<Label>,
    /// Nobody waits for its answer any more.
    pub(crate) orphan: bool,
    /// It is the main task that waits for it.
    pub(crate) main: bool,
}

/// A process at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Requests under way, ascending by number; of each session only the first.
    pub(crate) pending: Vec<PendingAsk>,
    /// Sessions that the process closed since the last rest.
    pub(crate) closed: Vec<u16>,
    /// Sessions ever opened in this round, those of the harness included.
    pub(crate) sessions: u16,
    /// Of each session that the harness opened, the one that stands in its place.
    pub(crate) places: Vec<u16>,
    /// What it told monitors since the last rest.
    pub(crate) notes: Vec<Note>,
    /// What it looked at since the last rest.
    pub(crate) observed: Observed,
    /// Its end, if it has ended.
    pub(crate) finish: Option<Finish>,
}

/// Polls for one event before the process counts as spinning.
const POLLS_MAX: u32 = 100_000;

/// Tasks to be polled, in the order of their wake-ups.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

impl Ready {
    fn push(&self, task: usize) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(task);
    }

    fn pop(&self) -> Option<usize> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

struct TaskWaker {
    task: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.push(self.task);
        }
    }
}

/// A future of the process with the waker that puts it into the queue.
struct Running<F: ?Sized> {
    future: Pin<Box<F>>,
    waker: Arc<TaskWaker>,
}

/// A process that can go on.
pub(crate) struct Live {
    desk: Option<Box<Desk>>,
    program: Program,
    main: Option<Running<dyn Future<Output = Finish>>>,
    others: Vec<Option<Running<dyn Future<Output = ()> + Send>>>,
    ready: Arc<Ready>,
    local: u32,
    finish: Option<Finish>,
}

impl Live {
    /// A process before its first poll, with local state `local`.
    pub(crate) fn new(program: &Program, dialect: Dialect, sessions: usize, local: u32) -> Live {
        Live {
            desk: Some(Box::new(Desk::new(dialect, sessions))),
            program: program.clone(),
            main: None,
            others: Vec::new(),
            ready: Arc::default(),
            local,
            finish: None,
        }
    }

    /// Starts the first round and polls until the process rests.
    pub(crate) fn start(&mut self, process: usize, name: &Arc<str>, now_micros: i64) -> Rest {
        self.run(process, name, now_micros, |live| live.begin())
    }

    /// Tells the process something and polls until it rests again.
    pub(crate) fn tell(
        &mut self,
        event: &Event,
        process: usize,
        name: &Arc<str>,
        now_micros: i64,
    ) -> Rest {
        self.run(process, name, now_micros, |live| match event {
            Event::Reply(id, given) => desk::polled(|desk| desk.give(*id, given.clone())),
            Event::Cancel(id) => live.cancel(*id),
        })
    }

    fn run(
        &mut self,
        process: usize,
        name: &Arc<str>,
        now_micros: i64,
        first: impl FnOnce(&mut Live),
    ) -> Rest {
        let mut desk = self.desk.take().expect("a process is not polled twice");
        desk.process = process;
        desk.name = Arc::clone(name);
        desk.now_micros = now_micros;
        desk.observed = Observed::default();
        desk.notes.clear();
        desk.closed.clear();
        let outer = desk::install(Some(desk));
        assert!(
            outer.is_none(),
            "processes are not polled inside each other"
        );
        first(self);
        self.poll_until_rest();
        self.desk = desk::install(None);
        self.rest()
    }

    fn waker(&self, task: usize) -> Arc<TaskWaker> {
        self.ready.push(task);
        Arc::new(TaskWaker {
            task,
            queued: AtomicBool::new(true),
            ready: Arc::clone(&self.ready),
        })
    }

    /// Begins a round with the present local state.
    fn begin(&mut self) {
        let (dialect, places) = desk::polled(|desk| (desk.dialect, desk.places.clone()));
        let sessions = places
            .into_iter()
            .map(|local| SimSession {
                dialect,
                local,
                kept: true,
            })
            .collect();
        let start = Rc::clone(&self.program.start);
        let local = self.local;
        // The closure itself may panic before it returns a future.
        match catch_unwind(AssertUnwindSafe(|| start(SimHost, sessions, local))) {
            Ok(future) => {
                let waker = self.waker(0);
                self.main = Some(Running { future, waker });
            }
            Err(payload) => self.finish = Some(Finish::Panicked(message(payload.as_ref()))),
        }
    }

    /// Cancels the task that waits for request `id`.
    fn cancel(&mut self, id: u32) {
        let task = desk::polled(|desk| {
            desk.slots
                .iter()
                .find(|slot| slot.id == id)
                .map(|slot| slot.task)
        });
        match task {
            Some(0) => {
                self.main = None;
                self.finish_round(match self.program.repeats {
                    true => Finish::Again(self.local),
                    false => Finish::Done,
                });
            }
            Some(task) => self.others[task - 1] = None,
            None => {}
        }
    }

    fn poll_until_rest(&mut self) {
        let mut polls = 0;
        while self.finish.is_none() {
            self.take_over();
            let Some(task) = self.ready.pop() else { break };
            polls += 1;
            if polls > POLLS_MAX {
                self.finish = Some(Finish::Stuck(format!(
                    "it was polled {POLLS_MAX} times without making or awaiting a request"
                )));
                break;
            }
            desk::polled(|desk| desk.current_task = task);
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll_task(task)));
            match polled {
                Ok(None) => {}
                Ok(Some(finish)) => self.finish_round(finish),
                Err(payload) => self.finish = Some(Finish::Panicked(message(payload.as_ref()))),
            }
        }
        if self.finish.is_some() {
            // The process is over: its futures are dropped while the desk is there to hear of it.
            self.main = None;
            self.others.clear();
            desk::polled(|desk| std::mem::take(&mut desk.spawned));
        }
    }

    /// Takes over spawned and aborted tasks.
    fn take_over(&mut self) {
        loop {
            let (spawned, aborted) = desk::polled(|desk| {
                (
                    std::mem::take(&mut desk.spawned),
                    std::mem::take(&mut desk.aborted),
                )
            });
            if spawned.is_empty() && aborted.is_empty() {
                return;
            }
            for (task, future) in spawned {
                debug_assert_eq!(task, self.others.len() + 1);
                let waker = self.waker(task);
                self.others.push(Some(Running { future, waker }));
            }
            for task in aborted {
                self.others[task - 1] = None;
            }
        }
    }

    fn poll_task(&mut self, task: usize) -> Option<Finish> {
        fn poll<F: Future + ?Sized>(running: &mut Running<F>) -> Poll<F::Output> {
            running.waker.queued.store(false, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(&running.waker));
            let mut context = Context::from_waker(&waker);
            running.future.as_mut().poll(&mut context)
        }
        if task == 0 {
            let main = self.main.as_mut()?;
            return match poll(main) {
                Poll::Ready(finish) => {
                    self.main = None;
                    Some(finish)
                }
                Poll::Pending => None,
            };
        }
        let other = self.others[task - 1].as_mut()?;
        if poll(other).is_ready() {
            self.others[task - 1] = None;
        }
        None
    }

    /// A round ended: either the process is over or can be described by its local state alone, or
    /// the next round begins with the history that led here.
    fn finish_round(&mut self, finish: Finish) {
        self.take_over();
        let quiet = self.others.iter().all(Option::is_none) && desk::polled(|desk| desk.is_quiet());
        match finish {
            Finish::Again(local) if !quiet => {
                self.local = local;
                self.begin();
            }
            finish => self.finish = Some(finish),
        }
    }

    fn rest(&mut self) -> Rest {
        let desk = self.desk.as_deref_mut().expect("the desk is back");
        let pending: Vec<PendingAsk> = desk
            .slots
            .iter()
            .filter(|slot| slot.given.is_none())
            .filter(|slot| match slot.ask.session() {
                Some(session) => desk.lines[usize::from(session)].queue.front() == Some(&slot.id),
                None => true,
            })
            .map(|slot| PendingAsk {
                id: slot.id,
                ask: slot.ask.clone(),
                label: slot.label.clone(),
                orphan: slot.orphan,
                main: slot.task == 0,
            })
            .collect();
        if self.finish.is_none() && pending.is_empty() {
            self.finish = Some(match self.others.iter().any(Option::is_some) {
                true => Finish::Hangs,
                false => Finish::Stuck(
                    "it waits for something that is neither a request to its session or host nor \
                     another task of the process"
                        .to_owned(),
                ),
            });
        }
        Rest {
            pending,
            closed: std::mem::take(&mut desk.closed),
            sessions: desk.lines.len() as u16,
            places: desk.places.clone(),
            notes: std::mem::take(&mut desk.notes),
            observed: desk.observed,
            finish: self.finish.clone(),
        }
    }
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
