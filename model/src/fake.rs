//! A host and sessions that answer from a function, for unit tests: deterministic, one thread, a
//! clock that moves only when everything else waits.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::{Batch, Column, DbError, Dialect, Elapsed, Host, Reply, Row, Session, Task, Value};

/// A statement that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Which call this is, from 0, counting connects.
    pub(crate) number: usize,
    pub(crate) sql: String,
}

/// The answer to a call, and after how long it comes.
pub(crate) struct Answer {
    pub(crate) result: Result<Reply, DbError>,
    pub(crate) after: Duration,
}

impl From<Result<Reply, DbError>> for Answer {
    fn from(result: Result<Reply, DbError>) -> Answer {
        Answer {
            result,
            after: Duration::ZERO,
        }
    }
}

type Answers = Box<dyn FnMut(&Call) -> Answer + Send>;

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct State {
    now_micros: i64,
    calls: usize,
    sessions: usize,
    open: usize,
    log: Vec<String>,
    spawned: Vec<(usize, BoxedTask)>,
    next_task: usize,
    aborted: Vec<usize>,
    sleepers: Vec<(i64, Waker)>,
    /// Numbers for jitter, first to last; then zero.
    random: Vec<u64>,
}

/// The host. Clones are the same host.
#[derive(Clone)]
pub(crate) struct FakeHost {
    state: Arc<Mutex<State>>,
    answers: Arc<Mutex<Answers>>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl FakeHost {
    /// A host whose clock starts at `now_micros`. Connects are calls with the text `connect`,
    /// and closing a session is one with the text `close`.
    pub(crate) fn new<A: Into<Answer>>(
        now_micros: i64,
        mut answers: impl FnMut(&Call) -> A + Send + 'static,
    ) -> FakeHost {
        let state = State {
            now_micros,
            ..State::default()
        };
        FakeHost {
            state: Arc::new(Mutex::new(state)),
            answers: Arc::new(Mutex::new(Box::new(move |call| answers(call).into()))),
        }
    }

    /// What was sent since the last time, one line a call: `1 COMMIT`, `2 UPDATE .. [7, x]`.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).log)
    }

    pub(crate) fn open_sessions(&self) -> usize {
        lock(&self.state).open
    }

    pub(crate) fn set_random(&self, random: &[u64]) {
        lock(&self.state).random = random.to_vec();
    }

    fn call(&self, session: usize, sql: &str, args: &[Value]) -> (Answer, i64) {
        let call = {
            let mut state = lock(&self.state);
            state.calls += 1;
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let args = match args.is_empty() {
                true => String::new(),
                false => format!(" [{}]", args.join(", ")),
            };
            state.log.push(format!("{session} {sql}{args}"));
            state.calls - 1
        };
        let call = Call {
            number: call,
            sql: sql.to_owned(),
        };
        let answer = (lock(&self.answers))(&call);
        let after = i64::try_from(answer.after.as_micros()).unwrap();
        let until = lock(&self.state).now_micros + after;
        (answer, until)
    }

    /// Waits until the clock says `until`; one poll at least.
    async fn wait(&self, until: i64) {
        let mut polled = false;
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if polled && state.now_micros >= until {
                return Poll::Ready(());
            }
            polled = true;
            if state.now_micros >= until {
                context.waker().wake_by_ref();
            } else {
                state.sleepers.push((until, context.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Runs `main` and what it spawns until `main` is done.
    pub(crate) fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let mut main = pin!(main);
        let mut tasks: BTreeMap<usize, (BoxedTask, Arc<Flag>)> = BTreeMap::new();
        let main_flag = Flag::raised();
        loop {
            if main_flag.take() {
                let waker = Waker::from(Arc::clone(&main_flag));
                if let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return output;
                }
            }
            self.adopt(&mut tasks);
            let ready: Vec<usize> = tasks
                .iter()
                .filter(|(_, (_, flag))| flag.take())
                .map(|(id, _)| *id)
                .collect();
            for id in &ready {
                let Some((task, flag)) = tasks.get_mut(id) else {
                    continue;
                };
                let waker = Waker::from(Arc::clone(flag));
                if task
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_ready()
                {
                    tasks.remove(id);
                }
            }
            self.adopt(&mut tasks);
            let rests = !main_flag.is_raised() && tasks.values().all(|(_, f)| !f.is_raised());
            if rests {
                self.advance();
            }
        }
    }

    /// Takes over what was spawned and drops what was aborted.
    fn adopt(&self, tasks: &mut BTreeMap<usize, (BoxedTask, Arc<Flag>)>) {
        let (spawned, aborted) = {
            let mut state = lock(&self.state);
            (
                std::mem::take(&mut state.spawned),
                std::mem::take(&mut state.aborted),
            )
        };
        for (id, task) in spawned {
            tasks.insert(id, (task, Flag::raised()));
        }
        for id in aborted {
            tasks.remove(&id);
        }
    }

    /// Moves the clock to the next sleeper.
    fn advance(&self) {
        let woken = {
            let mut state = lock(&self.state);
            let next = state.sleepers.iter().map(|(until, _)| *until).min();
            let next = next.expect("everything waits, and nothing will ever happen");
            state.now_micros = state.now_micros.max(next);
            let sleepers = std::mem::take(&mut state.sleepers);
            let (woken, asleep) = sleepers.into_iter().partition(|(until, _)| *until <= next);
            state.sleepers = asleep;
            let woken: Vec<(i64, Waker)> = woken;
            woken
        };
        for (_, waker) in woken {
            waker.wake();
        }
    }
}

struct Flag(AtomicBool);

impl Flag {
    fn raised() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) struct FakeSession {
    host: FakeHost,
    number: usize,
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        lock(&self.host.state).open -= 1;
    }
}

impl Session for FakeSession {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        let (answer, until) = self.host.call(self.number, sql, args);
        self.host.wait(until).await;
        answer.result
    }

    async fn batch(&mut self, _sql: &str) -> Result<Batch, DbError> {
        panic!("the code under test sends no scripts")
    }

    async fn close(self) -> Result<(), DbError> {
        let (answer, until) = self.host.call(self.number, "close", &[]);
        self.host.wait(until).await;
        answer.result.map(drop)
    }
}

#[derive(Debug)]
pub(crate) struct FakeTask<T> {
    id: usize,
    state: Arc<Mutex<State>>,
    output: Arc<Mutex<Option<T>>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl<T: Send> Task<T> for FakeTask<T> {
    async fn join(self) -> Option<T> {
        lock(&self.output).take()
    }

    fn abort(&self) {
        lock(&self.state).aborted.push(self.id);
    }
}

impl Host for FakeHost {
    type Session = FakeSession;
    type Task<T: Send + 'static> = FakeTask<T>;

    async fn connect(&self) -> Result<FakeSession, DbError> {
        let number = {
            let mut state = lock(&self.state);
            state.sessions += 1;
            state.sessions
        };
        let (answer, until) = self.call(number, "connect", &[]);
        self.wait(until).await;
        answer.result?;
        lock(&self.state).open += 1;
        Ok(FakeSession {
            host: self.clone(),
            number,
        })
    }

    fn now_micros(&self) -> i64 {
        lock(&self.state).now_micros
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now_micros() + i64::try_from(duration.as_micros()).unwrap();
        self.wait(until).await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        _duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        Ok(future.await)
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> FakeTask<T> {
        let output = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&output);
        let mut state = lock(&self.state);
        state.next_task += 1;
        let id = state.next_task;
        let task = Box::pin(async move {
            let value = future.await;
            *lock(&slot) = Some(value);
        });
        state.spawned.push((id, task));
        FakeTask {
            id,
            state: Arc::clone(&self.state),
            output,
        }
    }

    fn random(&self) -> u64 {
        let mut state = lock(&self.state);
        match state.random.is_empty() {
            true => 0,
            false => state.random.remove(0),
        }
    }

    fn process_name(&self) -> Arc<str> {
        "fake".into()
    }
}

/// A reply with a tag and a count.
pub(crate) fn affected(tag: &str, affected: u64) -> Reply {
    Reply {
        affected,
        ..Reply::tag(tag)
    }
}

/// A reply with rows.
pub(crate) fn rows(columns: &[&str], rows: &[&[Value]]) -> Reply {
    let column = |name: &&str| Column {
        name: (*name).into(),
        type_name: "int8".into(),
    };
    Reply {
        columns: columns.iter().map(column).collect(),
        rows: rows.iter().map(|row| Row::from(row.to_vec())).collect(),
        affected: rows.len() as u64,
        ..Reply::tag("SELECT")
    }
}
