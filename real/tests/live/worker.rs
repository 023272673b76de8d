//! A worker of the claim library in a process of its own, for tests that kill it.
//!
//! It tells on standard output what it is about to do, one line each, so that whoever reads knows
//! where it stood when it was killed: `connected BACKEND`, `claiming`, `handling ID`, `settling ID`, then
//! `settled ID` or `unsure ID`. It ends when its standard input does.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowlock_model::claim::{
    Advisory, AdvisoryOptions, ClaimError, Form, Job, KeyTable, Lease, LeaseLength, LeaseOptions,
    Mutation, Next, Pool, RowLock, RowLockOptions, Settlement, Table,
};
use rowlock_model::{DbError, Dialect, Elapsed, Host, Value};
use rowlock_real::{
    Connector, MySqlTarget, PostgresTarget, RealHost, RealSession, RealTask, SqliteTarget,
};

use crate::block_on;

/// Set for a child process of these tests: what kind of worker it shall be, see [`Order`].
pub(crate) const WORKER: &str = "ROWLOCK_TEST_WORKER";

/// What a worker is told.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) dialect: Dialect,
    /// The socket, the socket's directory (PostgreSQL), or the file (SQLite).
    pub(crate) place: String,
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) form: Form,
    pub(crate) name: String,
    /// How many tasks of this process claim.
    pub(crate) tasks: usize,
    /// How long a handler takes at most, and half of it at least.
    pub(crate) handler: Duration,
    pub(crate) mutation: Option<Mutation>,
}

const FORMS: [(&str, Form); 3] = [
    ("row-lock", Form::RowLock),
    ("lease", Form::Lease),
    ("advisory", Form::Advisory),
];

const DIALECTS: [Dialect; 4] = [
    Dialect::Postgres,
    Dialect::MySql,
    Dialect::MariaDb,
    Dialect::Sqlite,
];

impl Order {
    /// As the value of [`WORKER`].
    pub(crate) fn write(&self) -> String {
        let form = FORMS.iter().find(|(_, form)| *form == self.form);
        [
            ("dialect", self.dialect.name().to_owned()),
            ("place", self.place.clone()),
            ("database", self.database.clone()),
            ("table", self.table.clone()),
            (
                "form",
                form.map(|(name, _)| *name).unwrap_or_default().to_owned(),
            ),
            ("name", self.name.clone()),
            ("tasks", self.tasks.to_string()),
            ("handler", self.handler.as_micros().to_string()),
            (
                "mutation",
                self.mutation
                    .map(Mutation::name)
                    .unwrap_or_default()
                    .to_owned(),
            ),
        ]
        .map(|(key, value)| format!("{key}={value}"))
        .join("\n")
    }

    fn read(text: &str) -> Option<Order> {
        let given: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        let text = |key: &str| given.get(key).map(|value| (*value).to_owned());
        let form = text("form")?;
        let dialect = text("dialect")?;
        Some(Order {
            dialect: DIALECTS.into_iter().find(|d| d.name() == dialect)?,
            place: text("place")?,
            database: text("database")?,
            table: text("table")?,
            form: FORMS.iter().find(|(name, _)| *name == form)?.1,
            name: text("name")?,
            tasks: text("tasks")?.parse().ok()?,
            handler: Duration::from_micros(text("handler")?.parse().ok()?),
            mutation: text("mutation")?.parse().ok(),
        })
    }

    /// Where the worker, and whoever looks after it, connects to.
    pub(crate) fn connector(&self) -> Connector {
        match self.dialect {
            Dialect::Postgres => {
                PostgresTarget::on_socket(Path::new(&self.place), "postgres", &self.database).into()
            }
            Dialect::MySql | Dialect::MariaDb => MySqlTarget::on_socket(&self.place, "root")
                .with_database(&self.database)
                .into(),
            Dialect::Sqlite => SqliteTarget::file(&self.place)
                .with_busy_timeout(Duration::from_secs(5))
                .into(),
        }
    }

    /// The table as the library is told of it.
    fn table(&self) -> Table {
        let table = Table::new(self.table.as_str(), "id");
        let table = table.attempt("attempt").processed_at("done_at");
        match self.form {
            Form::RowLock => table,
            Form::Lease => table.locked_until("locked_until"),
            Form::Advisory => table.advisory_lock("job-{id}"),
        }
    }
}

fn tell(what: &str) {
    // Standard output is flushed at the end of each line. Who reads may be gone; then so are we, soon.
    println!("{what}");
}

/// The live host, telling of each connection.
#[derive(Clone)]
struct Telling(RealHost);

impl Host for Telling {
    type Session = RealSession;
    type Task<T: Send + 'static> = RealTask<T>;

    async fn connect(&self) -> Result<RealSession, DbError> {
        let session = self.0.connect().await?;
        tell(&format!("connected {}", session.backend()));
        Ok(session)
    }

    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        self.0.timeout(duration, future).await
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> RealTask<T> {
        self.0.spawn(future)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn process_name(&self) -> Arc<str> {
        self.0.process_name()
    }
}

/// What the child process does.
pub(crate) fn run(order: &str) {
    let order = Order::read(order).expect("an order that is understood");
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Ends when who started us lets go of the pipe, or dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    block_on(async {
        let keys = KeyTable::new();
        let queue = Queue::open(&order, keys).expect("the table is described");
        let queue = Arc::new(queue);
        let host = Telling(RealHost::new(order.name.as_str(), order.connector()));
        let tasks = (0..order.tasks).map(|_| {
            let (queue, host, stop) = (Arc::clone(&queue), host.clone(), Arc::clone(&stop));
            let handler = order.handler;
            tokio::spawn(async move {
                let work = Work { host, handler };
                while !stop.load(Ordering::Relaxed) {
                    tell("claiming");
                    match queue.round(&work).await {
                        Ok(0) => tokio::time::sleep(Duration::from_millis(3)).await,
                        Ok(_) => {}
                        Err(error) if error.next() == Next::GiveUp => panic!("{error}"),
                        Err(error) => tell(&format!("failed {error}")),
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("a worker's task does not panic");
        }
    });
}

/// What is done for a job: nothing, for a while.
struct Work {
    host: Telling,
    handler: Duration,
}

impl Work {
    async fn handle(&self, job: &Job) {
        tell(&format!("handling {}", job.id()));
        let half = self.handler / 2;
        let random = self.host.random() % (half.as_micros() as u64 + 1);
        self.host.sleep(half + Duration::from_micros(random)).await;
        tell(&format!("settling {}", job.id()));
    }
}

/// A queue of any form.
enum Queue {
    RowLock(RowLock<Telling>),
    Lease(Lease<Telling>),
    Advisory(Advisory<Telling>),
}

/// Rows a claim.
const LIMIT: u32 = 2;

impl Queue {
    fn open(order: &Order, keys: KeyTable) -> Result<Queue, ClaimError> {
        let host = Telling(RealHost::new(order.name.as_str(), order.connector()));
        let pool = Pool::new(host, order.tasks * LIMIT as usize);
        let (dialect, table, mutation) = (order.dialect, order.table(), order.mutation);
        Ok(match order.form {
            Form::RowLock => {
                let options = RowLockOptions {
                    mutation,
                    ..RowLockOptions::default()
                };
                Queue::RowLock(RowLock::open(pool, dialect, table, options)?)
            }
            Form::Lease => {
                let options = LeaseOptions {
                    lease: LeaseLength::new(Duration::from_secs(1)),
                    mutation,
                    ..LeaseOptions::default()
                };
                Queue::Lease(Lease::open(pool, dialect, table, options)?)
            }
            Form::Advisory => {
                let options = AdvisoryOptions {
                    keys,
                    mutation,
                    ..AdvisoryOptions::default()
                };
                Queue::Advisory(Advisory::open(pool, dialect, table, options)?)
            }
        })
    }

    /// Claims, handles, settles; how many rows were claimed.
    async fn round(&self, work: &Work) -> Result<usize, ClaimError> {
        match self {
            Queue::RowLock(queue) => {
                let Some(mut batch) = queue.claim(LIMIT).await? else {
                    return Ok(0);
                };
                let ids: Vec<Value> = batch.jobs().iter().map(|job| job.id().clone()).collect();
                for index in 0..ids.len() {
                    work.handle(&batch.jobs()[index]).await;
                    if let Err(error) = batch.settle(index, Settlement::Ack).await {
                        concluded(&ids, Err(error))?;
                        return Ok(ids.len());
                    }
                }
                concluded(&ids, batch.commit().await)?;
                Ok(ids.len())
            }
            Queue::Lease(queue) => {
                let deliveries = queue.claim(LIMIT).await?;
                let claimed = deliveries.len();
                for mut delivery in deliveries {
                    work.handle(delivery.job()).await;
                    let id = delivery.job().id().clone();
                    concluded(&[id], delivery.settle(Settlement::Ack).await)?;
                }
                Ok(claimed)
            }
            Queue::Advisory(queue) => {
                let deliveries = queue.claim(LIMIT).await?;
                let claimed = deliveries.len();
                for mut delivery in deliveries {
                    work.handle(delivery.job()).await;
                    let id = delivery.job().id().clone();
                    concluded(&[id], delivery.settle(Settlement::Ack).await)?;
                }
                Ok(claimed)
            }
        }
    }
}

/// Tells how settlements ended; errors that tell of more than these rows are passed on.
fn concluded(ids: &[Value], result: Result<(), ClaimError>) -> Result<(), ClaimError> {
    let word = match result {
        Ok(()) => "settled",
        Err(error) if error.next() == Next::GiveUp => return Err(error),
        Err(_) => "unsure",
    };
    for id in ids {
        tell(&format!("{word} {id}"));
    }
    Ok(())
}
