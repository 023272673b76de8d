//! The process around live sessions: tokio and the machine's clock.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowlock_model::{DbError, Elapsed, Host, Task};

use crate::session::RealSession;
use crate::target::Connector;

/// [`Host`] on tokio. Its tasks run on the runtime in whose context they are spawned.
#[derive(Clone, Debug)]
pub struct RealHost {
    connector: Arc<Connector>,
    name: Arc<str>,
}

impl RealHost {
    /// A process called `name` that connects to what `connector` names.
    pub fn new(name: impl Into<Arc<str>>, connector: impl Into<Connector>) -> RealHost {
        RealHost {
            connector: Arc::new(connector.into()),
            name: name.into(),
        }
    }
}

impl Host for RealHost {
    type Session = RealSession;
    type Task<T: Send + 'static> = RealTask<T>;

    async fn connect(&self) -> Result<RealSession, DbError> {
        self.connector.connect(Some(&self.name)).await
    }

    fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        tokio::time::timeout(duration, future)
            .await
            .map_err(|_| Elapsed)
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> RealTask<T> {
        RealTask(tokio::spawn(future))
    }

    fn random(&self) -> u64 {
        // Each of these is keyed anew by the standard library.
        RandomState::new().build_hasher().finish()
    }

    fn process_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }
}

/// A task on tokio. Dropping it lets the task go on.
#[derive(Debug)]
pub struct RealTask<T>(tokio::task::JoinHandle<T>);

impl<T: Send + 'static> Task<T> for RealTask<T> {
    /// # Panics
    /// With the panic of the task, if it panicked.
    async fn join(self) -> Option<T> {
        match self.0.await {
            Ok(value) => Some(value),
            Err(failure) => match failure.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => None,
            },
        }
    }

    fn abort(&self) {
        self.0.abort();
    }
}
