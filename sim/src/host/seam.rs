//! [`Session`], [`Host`] and [`Task`] over the desk of the process that is being polled.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rowlock_model::{Batch, DbError, Dialect, Elapsed, Host, Reply, Session, Task, Value};

use super::desk::{self, Ask, Given, Note};

/// A simulated connection. Valid only inside the process that it was given to.
#[derive(Debug)]
pub struct SimSession {
    pub(super) dialect: Dialect,
    pub(super) local: u16,
    /// Opened by the harness: dropping the handle does not close it.
    pub(super) kept: bool,
}

/// The simulated process around the sessions. Valid only inside that process.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SimHost;

/// A request that is made when first polled.
struct Request {
    ask: Option<Ask>,
    id: Option<u32>,
}

impl Request {
    fn new(ask: Ask) -> Request {
        Request {
            ask: Some(ask),
            id: None,
        }
    }
}

impl Future for Request {
    type Output = Given;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Given> {
        if let Some(ask) = self.ask.take() {
            self.id = Some(desk::polled(|desk| desk.ask(ask, cx.waker().clone())));
            return Poll::Pending;
        }
        let id = self.id.expect("a finished request is not polled again");
        match desk::polled(|desk| desk.take(id, cx.waker())) {
            Some(given) => {
                self.id = None;
                Poll::Ready(given)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            desk::with(|desk| desk.forget(id));
        }
    }
}

impl Session for SimSession {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<Reply, DbError> {
        match Request::new(Ask::Exec(self.local, sql.into(), args.into())).await {
            Given::Exec(result) => result,
            other => unreachable!("a statement was answered with {other:?}"),
        }
    }

    async fn batch(&mut self, sql: &str) -> Result<Batch, DbError> {
        match Request::new(Ask::Batch(self.local, sql.into())).await {
            Given::Batch(result) => result,
            other => unreachable!("a script was answered with {other:?}"),
        }
    }

    async fn close(self) -> Result<(), DbError> {
        let local = self.local;
        poll_fn(|cx| {
            desk::polled(|desk| {
                let line = &mut desk.lines[usize::from(local)];
                if !line.queue.is_empty() {
                    line.closer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                desk.close(local);
                Poll::Ready(())
            })
        })
        .await;
        Ok(())
    }
}

impl SimHost {
    /// Puts a session in the place of one that the harness opened: in the next round of a step
    /// function it is handed out again.
    pub fn keep(&self, place: usize, mut session: SimSession) {
        session.kept = true;
        desk::polled(|desk| desk.places[place] = session.local);
    }
}

impl SimSession {
    /// Whether the harness hands it out again in the next round, and closes it never.
    pub fn is_kept(&self) -> bool {
        self.kept
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        if !self.kept {
            desk::with(|desk| desk.close(self.local));
        }
    }
}

impl Host for SimHost {
    type Session = SimSession;
    type Task<T: Send + 'static> = SimTask<T>;

    async fn connect(&self) -> Result<SimSession, DbError> {
        match Request::new(Ask::Connect).await {
            Given::Connected(Ok(())) => Ok(desk::polled(|desk| SimSession {
                dialect: desk.dialect,
                local: (desk.lines.len() - 1) as u16,
                kept: false,
            })),
            Given::Connected(Err(error)) => Err(error),
            other => unreachable!("a connect was answered with {other:?}"),
        }
    }

    fn now_micros(&self) -> i64 {
        desk::polled(|desk| {
            desk.observed.clock = true;
            desk.now_micros
        })
    }

    async fn sleep(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Request::new(Ask::Sleep(micros)).await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        let mut future = Box::pin(future);
        let mut sleep = Box::pin(self.sleep(duration));
        poll_fn(move |cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> SimTask<T> {
        let end = Arc::new(Mutex::new(End {
            result: None,
            over: false,
            joiner: None,
        }));
        let report = Report(Arc::clone(&end));
        let task = Box::pin(async move {
            let report = report;
            let result = future.await;
            lock(&report.0).result = Some(result);
        });
        // What a destructor starts in a process that nobody needs any more never runs.
        let id = desk::with(|desk| {
            let id = desk.next_task;
            desk.next_task += 1;
            desk.spawned.push((id, task));
            id
        });
        SimTask {
            id: id.unwrap_or(usize::MAX),
            end,
        }
    }

    fn random(&self) -> u64 {
        desk::polled(|desk| {
            desk.observed.identity = true;
            desk.draws += 1;
            splitmix(((desk.process as u64 + 1) << 32).wrapping_add(desk.draws))
        })
    }

    fn process_name(&self) -> Arc<str> {
        desk::polled(|desk| {
            desk.observed.identity = true;
            Arc::clone(&desk.name)
        })
    }

    fn name_step(&self, name: &str) {
        desk::with(|desk| desk.label = Some((desk.current_task, name.into())));
    }

    fn note(&self, name: &str, values: &[Value]) {
        // Destructors of a process that nobody needs any more are heard by nobody.
        desk::with(|desk| {
            desk.notes.push(Note {
                name: name.into(),
                values: values.into(),
            });
        });
    }
}

/// One draw of the splitmix64 generator.
fn splitmix(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How a task ended.
struct End<T> {
    result: Option<T>,
    over: bool,
    joiner: Option<Waker>,
}

fn lock<T>(end: &Mutex<End<T>>) -> MutexGuard<'_, End<T>> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports the end of a task when its future is gone, finished or not.
struct Report<T>(Arc<Mutex<End<T>>>);

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        let mut end = lock(&self.0);
        end.over = true;
        if let Some(joiner) = end.joiner.take() {
            joiner.wake();
        }
    }
}

/// A task of a simulated process. Dropping the handle lets the task go on.
pub struct SimTask<T> {
    id: usize,
    end: Arc<Mutex<End<T>>>,
}

impl<T> std::fmt::Debug for SimTask<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimTask").field("id", &self.id).finish()
    }
}

impl<T: Send> Task<T> for SimTask<T> {
    async fn join(self) -> Option<T> {
        poll_fn(|cx| {
            let mut end = lock(&self.end);
            if !end.over {
                end.joiner = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(end.result.take())
        })
        .await
    }

    fn abort(&self) {
        desk::with(|desk| desk.aborted.push(self.id));
    }
}
