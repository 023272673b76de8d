//! A [`Host`] under shuttle's scheduler: tasks of one process that share memory, over a simulated
//! PostgreSQL. Every statement is a scheduling point; what the code does between two of them, and
//! between two awaits, is one step (what is smaller than that is loom's).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use rowlock_model::schedule::SessionId;
use rowlock_model::{
    Batch, DbError, Dialect, Elapsed, Host, Isolation, Reply, Session, Task, Value,
};
use rowlock_sim::database::{Answer, Database, Internal, Progress, Request};
use rowlock_sim::engine::postgres::Postgres;
use shuttle::future::{JoinHandle, spawn, yield_now};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::atomic::AtomicUsize;

struct World {
    db: Postgres,
    isolation: Isolation,
    /// Answers of sessions that had to wait.
    answers: BTreeMap<SessionId, Answer>,
    /// Tasks that wait for such an answer.
    wakers: BTreeMap<SessionId, Waker>,
}

impl World {
    /// What the server does by itself: wakes waiters, in an order that it chooses, and ends deadlocks.
    /// Returns whom to wake.
    fn settle(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        loop {
            let mut pending = Vec::new();
            self.db.pending(&mut pending);
            // A lock that came free goes first: who looks for deadlocks waits a second before.
            let resumes = |i: &Internal| matches!(i, Internal::Resume(_));
            if pending.iter().any(resumes) {
                pending.retain(resumes);
            }
            if pending.is_empty() {
                return woken;
            }
            let chosen = (thread_rng().next_u64() % pending.len() as u64) as usize;
            let event = pending[chosen];
            let (Internal::Resume(session) | Internal::Deadlock(session)) = event else {
                panic!("{event:?} is not expected without timers, pauses and poolers");
            };
            if let Progress::Done(answer) = self.db.internal(event) {
                self.answers.insert(session, answer);
                woken.extend(self.wakers.remove(&session));
            }
        }
    }
}

thread_local! {
    /// The databases of the tests of this thread, by number: a database stays on one thread, and so do
    /// all tasks under shuttle.
    static WORLDS: RefCell<BTreeMap<u64, World>> = const { RefCell::new(BTreeMap::new()) };
}

/// A database by its number; it is gone with this.
#[derive(Debug)]
struct Place {
    number: u64,
    /// Statements so far. What counts is that shuttle may let others run before it is counted up; to
    /// yield is no such thing, since PCT puts last whoever does it.
    statements: AtomicUsize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = WORLDS.try_with(|worlds| worlds.borrow_mut().remove(&self.number));
    }
}

/// A process. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct ShuttleHost(Arc<Place>);

impl ShuttleHost {
    /// A process over a database in which `setup` was run, whose sessions are at `isolation`.
    pub(crate) fn new(setup: &str, isolation: Isolation) -> ShuttleHost {
        let mut db = Postgres::default();
        let session = db.connect(None);
        let done = db.submit(session, &Request::Batch(setup.into()));
        assert!(
            matches!(&done, Progress::Done(Answer::Batch(Ok(batch))) if batch.error.is_none()),
            "the set-up failed: {done:?}"
        );
        db.terminate(session);
        let world = World {
            db,
            isolation,
            answers: BTreeMap::new(),
            wakers: BTreeMap::new(),
        };
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        WORLDS.with(|worlds| worlds.borrow_mut().insert(number, world));
        ShuttleHost(Arc::new(Place {
            number,
            statements: AtomicUsize::new(0),
        }))
    }

    /// Others may do something here.
    fn scheduling_point(&self) {
        self.0.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing in `what` may wait.
    fn world<T>(&self, what: impl FnOnce(&mut World) -> T) -> T {
        WORLDS.with(|worlds| {
            let mut worlds = worlds.borrow_mut();
            what(
                worlds
                    .get_mut(&self.0.number)
                    .expect("it is there as long as its number"),
            )
        })
    }

    /// A number that a query of what is committed gives.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let rows = self.world(|world| {
            let query = world.db.prepare(sql);
            world.db.query(query, &[])
        });
        rows.expect("the query is right")[0][0]
            .as_int()
            .expect("a number")
    }
}

impl Host for ShuttleHost {
    type Session = ShuttleSession;
    type Task<T: Send + 'static> = ShuttleTask<T>;

    async fn connect(&self) -> Result<ShuttleSession, DbError> {
        self.scheduling_point();
        let id = self.world(|world| world.db.connect(Some(world.isolation)));
        Ok(ShuttleSession {
            id,
            host: self.clone(),
        })
    }

    fn now_micros(&self) -> i64 {
        self.world(|world| world.db.now_micros())
    }

    async fn sleep(&self, duration: Duration) {
        // Nothing here depends on the time.
        let _ = duration;
        yield_now().await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        // The time does not run out: whoever waits for ever is a deadlock, which shuttle reports.
        let _ = duration;
        Ok(future.await)
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> ShuttleTask<T> {
        ShuttleTask(spawn(future))
    }

    fn random(&self) -> u64 {
        thread_rng().next_u64()
    }

    fn process_name(&self) -> Arc<str> {
        "service".into()
    }
}

/// A task under shuttle's scheduler.
pub(crate) struct ShuttleTask<T>(JoinHandle<T>);

impl<T: Send> Task<T> for ShuttleTask<T> {
    async fn join(self) -> Option<T> {
        self.0.await.ok()
    }

    fn abort(&self) {
        self.0.abort();
    }
}

/// A session of the simulated server.
pub(crate) struct ShuttleSession {
    id: SessionId,
    host: ShuttleHost,
}

impl ShuttleSession {
    async fn send(&mut self, request: impl FnOnce(&mut Postgres) -> Request) -> Answer {
        self.host.scheduling_point();
        let (done, woken) = self.host.world(|world| {
            let request = request(&mut world.db);
            let done = world.db.submit(self.id, &request);
            (done, world.settle())
        });
        woken.into_iter().for_each(Waker::wake);
        if let Progress::Done(answer) = done {
            return answer;
        }
        poll_fn(|context| {
            self.host
                .world(|world| match world.answers.remove(&self.id) {
                    Some(answer) => Poll::Ready(answer),
                    None => {
                        world.wakers.insert(self.id, context.waker().clone());
                        Poll::Pending
                    }
                })
        })
        .await
    }
}

impl Session for ShuttleSession {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        let answer = self.send(|db| Request::Exec(db.prepare(sql), args.into()));
        match answer.await {
            Answer::Exec(result) => result,
            Answer::Batch(_) => unreachable!("a statement was answered as a script"),
        }
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        match self.send(|_| Request::Batch(sql.into())).await {
            Answer::Batch(result) => result,
            Answer::Exec(_) => unreachable!("a script was answered as a statement"),
        }
    }

    async fn close(self) -> Result<(), DbError> {
        Ok(())
    }
}

impl Drop for ShuttleSession {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let woken = self.host.world(|world| {
            if world.db.is_gone(self.id) {
                return Vec::new();
            }
            world.db.terminate(self.id);
            world.settle()
        });
        woken.into_iter().for_each(Waker::wake);
    }
}
