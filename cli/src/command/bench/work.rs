//! What is measured: the claim forms, and the same work without claim logic.

use std::time::{Duration, Instant};

use rowlock_model::claim::{
    Advisory, AdvisoryOptions, ClaimError, KeyTable, Lease, LeaseOptions, Next, Pool, RowLock,
    RowLockOptions, Settlement, Table,
};
use rowlock_model::{Dialect, Session, Value};
use rowlock_real::{RealHost, RealSession};

use super::place::{Place, connect, run};

/// How rows are taken and settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The row-lock form.
    RowLock,
    /// The lease form.
    Lease,
    /// The advisory form.
    Advisory,
    /// Reference: rows dealt out beforehand, read and deleted in one transaction a batch.
    RawTransaction,
    /// Reference: rows dealt out beforehand, stamped by one statement a batch, deleted one by one.
    RawStatements,
    /// Reference: what well-known queues do that delete the rows that they take.
    Pop,
}

impl Way {
    /// What a database can do.
    pub(super) fn on(dialect: Dialect) -> &'static [Way] {
        match dialect {
            Dialect::Postgres => &[
                Way::RowLock,
                Way::RawTransaction,
                Way::Lease,
                Way::RawStatements,
                Way::Advisory,
                Way::Pop,
            ],
            Dialect::MySql | Dialect::MariaDb => &[
                Way::RowLock,
                Way::RawTransaction,
                Way::Lease,
                Way::RawStatements,
                Way::Advisory,
                Way::Pop,
            ],
            Dialect::Sqlite => &[Way::Lease, Way::RawStatements, Way::Advisory, Way::Pop],
        }
    }

    /// For the reader.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::RowLock => "row lock",
            Way::Lease => "lease",
            Way::Advisory => "advisory",
            Way::RawTransaction => "limit of row lock",
            Way::RawStatements => "limit of lease",
            Way::Pop => "delete what is taken",
        }
    }

    /// The same work without claim logic.
    pub(super) fn limit(self) -> Option<Way> {
        match self {
            Way::RowLock => Some(Way::RawTransaction),
            Way::Lease => Some(Way::RawStatements),
            Way::Advisory | Way::RawTransaction | Way::RawStatements | Way::Pop => None,
        }
    }

    /// One of the library's forms, not a reference.
    pub(super) fn is_form(self) -> bool {
        matches!(self, Way::RowLock | Way::Lease | Way::Advisory)
    }
}

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rows: u32,
    pub(super) workers: u32,
    pub(super) batch: u32,
    pub(super) handler: Duration,
}

/// What came out.
pub(super) struct Measured {
    rows: u32,
    elapsed: Duration,
    /// Of each claim that found something, sorted.
    claims: Vec<Duration>,
    pub(super) connections: usize,
}

impl Measured {
    pub(super) fn rows_per_second(&self) -> f64 {
        f64::from(self.rows) / self.elapsed.as_secs_f64()
    }

    /// The part of the workers' time in which they claim.
    pub(super) fn share_of_claims(&self, workers: u32) -> f64 {
        let claims: Duration = self.claims.iter().sum();
        claims.as_secs_f64()
            / (self.elapsed.as_secs_f64() * f64::from(workers)).max(f64::MIN_POSITIVE)
    }

    /// The latency of a claim that so many of a hundred do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.claims.len() * percent).div_ceil(100).max(1) - 1;
        self.claims.get(index).copied().unwrap_or_default()
    }
}

/// What one worker did.
#[derive(Default)]
struct Share {
    claims: Vec<Duration>,
    connections: usize,
    /// When the last row was settled: looking for more is not part of the work.
    done: Option<Instant>,
}

/// Fills the table and drains it.
pub(super) async fn measure(place: &Place, way: Way, load: Load) -> Result<Measured, String> {
    place.fill(load.rows).await?;
    let keys = KeyTable::new();
    let mut tasks = Vec::new();
    let begun = Instant::now();
    for worker in 0..load.workers {
        let host = place.host(&format!("bench-{worker}"));
        let (dialect, keys) = (place.dialect, keys.clone());
        tasks.push(tokio::spawn(async move {
            match way {
                Way::RowLock | Way::Lease | Way::Advisory => {
                    claim_all(host, dialect, way, load, keys).await
                }
                Way::RawTransaction | Way::RawStatements => {
                    raw(host, dialect, way, load, worker).await
                }
                Way::Pop => pop(host, dialect, load).await,
            }
        }));
    }
    let mut measured = Measured {
        rows: load.rows,
        elapsed: Duration::ZERO,
        claims: Vec::new(),
        connections: 0,
    };
    for task in tasks {
        let share = task.await.map_err(|error| error.to_string())??;
        measured.claims.extend(share.claims);
        measured.connections += share.connections;
        let elapsed = share.done.map(|done| done - begun);
        measured.elapsed = measured.elapsed.max(elapsed.unwrap_or_default());
    }
    measured.claims.sort();
    match place.left().await? {
        0 => Ok(measured),
        left => Err(format!("{}: {left} rows are left", way.name())),
    }
}

/// Whether a worker goes on after an error.
fn go_on(error: &ClaimError) -> Result<(), String> {
    match error.next() {
        Next::GiveUp => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// So many empty claims in a row, and a worker is done: keys and locks of others come free.
const EMPTY: u32 = 20;

/// A queue of one of the forms.
enum Queue {
    RowLock(RowLock<RealHost>),
    Lease(Lease<RealHost>),
    Advisory(Advisory<RealHost>),
}

async fn claim_all(
    host: RealHost,
    dialect: Dialect,
    way: Way,
    load: Load,
    keys: KeyTable,
) -> Result<Share, String> {
    let table = Table::new("job", "id").attempt("attempt").payload(["body"]);
    let connections = match way {
        Way::Advisory => load.batch as usize,
        _ => 1,
    };
    let pool = Pool::new(host, connections);
    let queue = open(&pool, dialect, table, way, keys).map_err(|error| error.to_string())?;
    let mut share = Share::default();
    let mut empty = 0;
    while empty < EMPTY {
        let found = match &queue {
            Queue::RowLock(queue) => row_lock(queue, load, &mut share).await,
            Queue::Lease(queue) => lease(queue, load, &mut share).await,
            Queue::Advisory(queue) => advisory(queue, load, &mut share).await,
        };
        match found {
            Ok(true) => {
                empty = 0;
                share.done = Some(Instant::now());
            }
            Ok(false) => {
                empty += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => go_on(&error)?,
        }
    }
    share.connections = pool.idle();
    Ok(share)
}

fn open(
    pool: &Pool<RealHost>,
    dialect: Dialect,
    table: Table,
    way: Way,
    keys: KeyTable,
) -> Result<Queue, ClaimError> {
    let pool = pool.clone();
    Ok(match way {
        Way::Lease => {
            let table = table.locked_until("locked_until");
            Queue::Lease(Lease::open(pool, dialect, table, LeaseOptions::default())?)
        }
        Way::Advisory => {
            let options = AdvisoryOptions {
                keys,
                ..AdvisoryOptions::default()
            };
            let table = table.advisory_lock("{id}");
            Queue::Advisory(Advisory::open(pool, dialect, table, options)?)
        }
        _ => Queue::RowLock(RowLock::open(
            pool,
            dialect,
            table,
            RowLockOptions::default(),
        )?),
    })
}

async fn work(load: Load) {
    if !load.handler.is_zero() {
        tokio::time::sleep(load.handler).await;
    }
}

async fn row_lock(
    queue: &RowLock<RealHost>,
    load: Load,
    share: &mut Share,
) -> Result<bool, ClaimError> {
    let begun = Instant::now();
    let Some(batch) = queue.claim(load.batch).await? else {
        return Ok(false);
    };
    share.claims.push(begun.elapsed());
    for _ in batch.jobs() {
        work(load).await;
    }
    batch.settle_all(Settlement::Ack).await?;
    Ok(true)
}

async fn lease(queue: &Lease<RealHost>, load: Load, share: &mut Share) -> Result<bool, ClaimError> {
    let begun = Instant::now();
    let deliveries = queue.claim(load.batch).await?;
    if deliveries.is_empty() {
        return Ok(false);
    }
    share.claims.push(begun.elapsed());
    for mut delivery in deliveries {
        work(load).await;
        delivery.ack().await?;
    }
    Ok(true)
}

async fn advisory(
    queue: &Advisory<RealHost>,
    load: Load,
    share: &mut Share,
) -> Result<bool, ClaimError> {
    let begun = Instant::now();
    let deliveries = queue.claim(load.batch).await?;
    if deliveries.is_empty() {
        return Ok(false);
    }
    share.claims.push(begun.elapsed());
    for mut delivery in deliveries {
        work(load).await;
        delivery.settle(Settlement::Ack).await?;
    }
    Ok(true)
}

/// A statement with numbers as arguments.
async fn exec(session: &mut RealSession, sql: &str, args: &[i64]) -> Result<(), String> {
    let args: Vec<Value> = args.iter().map(|n| Value::Int(*n)).collect();
    let reply = session.exec(sql, &args).await;
    reply.map(drop).map_err(|error| format!("{sql}: {error}"))
}

/// The rows of one worker, as the forms touch them, but known beforehand.
async fn raw(
    host: RealHost,
    dialect: Dialect,
    way: Way,
    load: Load,
    worker: u32,
) -> Result<Share, String> {
    let place = |n: usize| match dialect {
        Dialect::Postgres => format!("${n}"),
        _ => "?".to_owned(),
    };
    let range = format!("id BETWEEN {} AND {}", place(1), place(2));
    let select = format!("SELECT id, attempt, body FROM job WHERE {range} ORDER BY id FOR UPDATE");
    let stamp = format!("UPDATE job SET attempt = attempt + 1 WHERE {range}");
    let delete = format!("DELETE FROM job WHERE id = {}", place(1));
    // As many round trips as the forms need.
    let begin: &[&str] = match dialect {
        Dialect::MySql | Dialect::MariaDb => &[
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "START TRANSACTION",
        ],
        Dialect::Postgres | Dialect::Sqlite => &["BEGIN"],
    };
    let stamps_in_transaction = begin.len() > 1;
    let mut session = connect(&host).await?;
    let mut share = Share {
        connections: 1,
        ..Share::default()
    };
    let from = u64::from(load.rows) * u64::from(worker) / u64::from(load.workers);
    let to = u64::from(load.rows) * u64::from(worker + 1) / u64::from(load.workers);
    let mut next = from as i64 + 1;
    while next <= to as i64 {
        let end = (to as i64).min(next + i64::from(load.batch) - 1);
        let begun = Instant::now();
        if way == Way::RawTransaction || stamps_in_transaction {
            for sql in begin {
                run(&mut session, sql).await?;
            }
            exec(&mut session, &select, &[next, end]).await?;
        }
        if way == Way::RawStatements {
            exec(&mut session, &stamp, &[next, end]).await?;
            if stamps_in_transaction {
                run(&mut session, "COMMIT").await?;
            }
        }
        share.claims.push(begun.elapsed());
        for id in next..=end {
            work(load).await;
            exec(&mut session, &delete, &[id]).await?;
        }
        if way == Way::RawTransaction {
            run(&mut session, "COMMIT").await?;
        }
        next = end + 1;
    }
    share.done = Some(Instant::now());
    Ok(share)
}

/// Takes by deleting: nothing comes back when a worker dies.
async fn pop(host: RealHost, dialect: Dialect, load: Load) -> Result<Share, String> {
    let mut session = connect(&host).await?;
    let mut share = Share {
        connections: 1,
        ..Share::default()
    };
    let mut empty = 0;
    while empty < EMPTY {
        let begun = Instant::now();
        let rows = match dialect {
            Dialect::MySql | Dialect::MariaDb => pop_selected(&mut session, load.batch).await?,
            _ => pop_returned(&mut session, dialect, load.batch).await?,
        };
        if rows == 0 {
            empty += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        empty = 0;
        share.claims.push(begun.elapsed());
        for _ in 0..rows {
            work(load).await;
        }
        share.done = Some(Instant::now());
    }
    Ok(share)
}

/// One statement that deletes and returns; how many rows.
async fn pop_returned(
    session: &mut RealSession,
    dialect: Dialect,
    batch: u32,
) -> Result<usize, String> {
    let sql = match dialect {
        Dialect::Sqlite => {
            "DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id LIMIT ?) RETURNING id, body"
        }
        _ => {
            "WITH taken AS (SELECT id FROM job ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) \
             DELETE FROM job USING taken WHERE job.id = taken.id RETURNING job.id, job.body"
        }
    };
    let reply = session.exec(sql, &[Value::Int(i64::from(batch))]).await;
    reply
        .map(|reply| reply.rows.len())
        .map_err(|error| error.to_string())
}

/// Where a DELETE returns nothing: choose, delete and commit; how many rows.
async fn pop_selected(session: &mut RealSession, batch: u32) -> Result<usize, String> {
    run(session, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    run(session, "START TRANSACTION").await?;
    let sql = "SELECT id, body FROM job ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED";
    let chosen = session.exec(sql, &[Value::Int(i64::from(batch))]).await;
    let chosen = chosen.map_err(|error| error.to_string())?;
    let ids: Vec<Value> = chosen
        .rows
        .iter()
        .filter_map(|row| row.first().cloned())
        .collect();
    if !ids.is_empty() {
        let marks = vec!["?"; ids.len()].join(", ");
        let sql = format!("DELETE FROM job WHERE id IN ({marks})");
        let deleted = session.exec(&sql, &ids).await;
        deleted.map_err(|error| error.to_string())?;
    }
    run(session, "COMMIT").await?;
    Ok(ids.len())
}
