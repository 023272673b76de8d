//! Every claim form on every database: the same work, the same promises.

use std::path::PathBuf;
use std::time::Duration;

use rowlock_model::claim::{
    Advisory, AdvisoryOptions, ClaimError, FifoGuard, Form, KeyTable, Lease, LeaseLength,
    LeaseOptions, Next, Pool, Round, RowLock, RowLockOptions, Settlement, Table, TokenRule,
    advisory_round, check_server, lease_round, row_lock_round,
};
use rowlock_model::{Dialect, Host, Value};
use rowlock_real::server::Flavour;
use rowlock_real::{RealHost, RealSession, SqliteTarget};

use crate::{TestResult, block_on, mariadb, run, shared};

/// A named test on a place.
type Test = (&'static str, fn(&Place) -> TestResult);

pub(crate) const TESTS: &[Test] = &[
    ("claims_rows_are_settled_once", settled_once),
    ("claims_dead_letters_move", dead_letters),
    ("claims_a_late_holder_is_refused", late_holder),
    ("claims_retries_count", retries),
    ("claims_a_fifo_queue_has_one_in_work", fifo),
    ("claims_rows_of_one_key_exclude_each_other", keys),
    ("claims_the_server_is_new_enough", versions),
];

const WORKERS: usize = 3;
const ROWS: i64 = 30;

/// A database to work in.
pub(crate) struct Place {
    dialect: Dialect,
    host: Box<dyn Fn(&str) -> RealHost + Send + Sync>,
    /// SQLite: what this process holds.
    keys: KeyTable,
    /// Removed with the place.
    file: Option<PathBuf>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The database of a test on a server of this dialect.
pub(crate) fn place(dialect: Dialect, test: &str) -> Place {
    let mut file = None;
    let host: Box<dyn Fn(&str) -> RealHost + Send + Sync> = match dialect {
        Dialect::Postgres => {
            let target = shared().target("postgres");
            Box::new(move |name| RealHost::new(name, target.clone()))
        }
        Dialect::MySql | Dialect::MariaDb => {
            let flavour = match dialect {
                Dialect::MySql => Flavour::MySql,
                _ => Flavour::MariaDb,
            };
            block_on(mariadb::fresh(flavour, test));
            let target = mariadb::target(flavour, test);
            Box::new(move |name| RealHost::new(name, target.clone()))
        }
        Dialect::Sqlite => {
            let name = format!("rowlock-{test}-{}.db", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_file(&path);
            let target = SqliteTarget::file(&path).with_busy_timeout(Duration::from_secs(5));
            file = Some(path);
            Box::new(move |name| RealHost::new(name, target.clone()))
        }
    };
    Place {
        dialect,
        host,
        keys: KeyTable::new(),
        file,
    }
}

impl Place {
    fn forms(&self) -> &'static [Form] {
        match self.dialect {
            Dialect::Sqlite => &[Form::Lease, Form::Advisory],
            _ => &[Form::RowLock, Form::Lease, Form::Advisory],
        }
    }

    async fn admin(&self) -> RealSession {
        (self.host)("admin").connect().await.expect("a session")
    }

    fn pool(&self, name: &str) -> Pool<RealHost> {
        Pool::new((self.host)(name), 3)
    }

    /// A fresh table `name` with `rows` jobs, and a table of dead letters beside it.
    async fn table(&self, name: &str, rows: i64, form: Form) -> Table {
        let mut admin = self.admin().await;
        let instant = match self.dialect {
            Dialect::Postgres => "timestamptz",
            Dialect::MySql | Dialect::MariaDb => "DATETIME",
            Dialect::Sqlite => "INTEGER",
        };
        for sql in [
            format!("DROP TABLE IF EXISTS {name}"),
            format!("DROP TABLE IF EXISTS {name}_dead"),
            format!(
                "CREATE TABLE {name} (id BIGINT PRIMARY KEY, attempt INT NOT NULL DEFAULT 1, \
                 locked_until {instant} NULL, done_at {instant} NULL, due {instant} NULL, \
                 tenant VARCHAR(100), body VARCHAR(20))"
            ),
            format!("CREATE TABLE {name}_dead (id BIGINT, body VARCHAR(20))"),
        ] {
            run(&mut admin, &sql).await;
        }
        for id in 1..=rows {
            let sql = format!(
                "INSERT INTO {name} (id, tenant, body) VALUES ({id}, 'tenant {id}', 'job {id}')"
            );
            run(&mut admin, &sql).await;
        }
        let table = Table::new(name, "id").attempt("attempt").payload(["body"]);
        match form {
            Form::RowLock => table,
            Form::Lease => table.locked_until("locked_until"),
            Form::Advisory => table.advisory_lock("t-{tenant}"),
        }
    }

    /// A worker of a form.
    fn worker(&self, form: Form, table: Table, name: &str) -> Result<Worker, ClaimError> {
        let (pool, dialect) = (self.pool(name), self.dialect);
        Ok(match form {
            Form::RowLock => {
                let options = RowLockOptions::default();
                Worker::RowLock(RowLock::open(pool, dialect, table, options)?)
            }
            Form::Lease => {
                let options = LeaseOptions::default();
                Worker::Lease(Lease::open(pool, dialect, table, options)?)
            }
            Form::Advisory => {
                let options = AdvisoryOptions {
                    keys: self.keys.clone(),
                    ..AdvisoryOptions::default()
                };
                Worker::Advisory(Advisory::open(pool, dialect, table, options)?)
            }
        })
    }
}

enum Worker {
    RowLock(RowLock<RealHost>),
    Lease(Lease<RealHost>),
    Advisory(Advisory<RealHost>),
}

impl Worker {
    async fn round(&self, limit: u32, settlement: Settlement) -> Result<Round, ClaimError> {
        match self {
            Worker::RowLock(queue) => row_lock_round(queue, limit, &settlement).await,
            Worker::Lease(queue) => lease_round(queue, limit, &settlement).await,
            Worker::Advisory(queue) => advisory_round(queue, limit, &settlement).await,
        }
    }
}

async fn number(admin: &mut RealSession, sql: &str) -> i64 {
    let reply = run(admin, sql).await;
    reply.scalar().and_then(Value::as_int).expect("a number")
}

fn settled_once(place: &Place) -> TestResult {
    block_on(async {
        for form in place.forms() {
            let table = place.table("once_job", ROWS, *form).await;
            let table = table.processed_at("done_at");
            let mut workers = Vec::new();
            for i in 0..WORKERS {
                let worker = place.worker(*form, table.clone(), &format!("w{i}"))?;
                workers.push(tokio::spawn(async move {
                    let (mut settled, mut empty) = (0, 0);
                    // Somebody else's keys or locks may leave a claim empty for a moment.
                    while empty < 40 {
                        match worker.round(2, Settlement::Ack).await {
                            Ok(round) if round.claimed == 0 => {
                                empty += 1;
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                            Ok(round) => settled += round.settled,
                            Err(error) if error.next() == Next::TryAgain => empty += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    settled
                }));
            }
            let mut settled = 0;
            for worker in workers {
                settled += worker.await?;
            }
            let mut admin = place.admin().await;
            let left = "SELECT count(*) FROM once_job WHERE done_at IS NULL";
            assert_eq!(number(&mut admin, left).await, 0, "{form:?}: left over");
            assert_eq!(
                i64::from(settled),
                ROWS,
                "{form:?}: each settled by one worker"
            );
        }
        Ok(())
    })
}

fn dead_letters(place: &Place) -> TestResult {
    block_on(async {
        for form in place.forms() {
            let table = place.table("grave_job", 2, *form).await;
            let worker = place.worker(*form, table.dead_letter_table("grave_job_dead"), "w")?;
            let round = worker.round(1, Settlement::DeadLetter).await?;
            assert_eq!((round.claimed, round.settled), (1, 1), "{form:?}");
            let mut admin = place.admin().await;
            let dead = "SELECT count(*) FROM grave_job_dead WHERE body = 'job 1'";
            assert_eq!(number(&mut admin, dead).await, 1, "{form:?}");
            assert_eq!(
                number(&mut admin, "SELECT count(*) FROM grave_job").await,
                1
            );
        }
        Ok(())
    })
}

fn late_holder(place: &Place) -> TestResult {
    block_on(async {
        for token in [TokenRule::Fenced, TokenRule::Expiry] {
            let table = place.table("late_job", 1, Form::Lease).await;
            let options = LeaseOptions {
                lease: LeaseLength::new(Duration::from_secs(1)),
                without_keeper: true,
                token,
                ..LeaseOptions::default()
            };
            let open = |name| {
                let table = table.clone().retry_after("due");
                Lease::open(place.pool(name), place.dialect, table, options.clone())
            };
            let (a, b) = (open("a")?, open("b")?);
            let mut late = a.claim(1).await?.pop().expect("a row");
            assert_eq!(late.job().attempt(), Some(1));
            assert!(b.claim(1).await?.is_empty(), "the lease runs");
            tokio::time::sleep(Duration::from_millis(2_050)).await;
            let mut taken = b.claim(1).await?.pop().expect("the lease has ended");
            assert_eq!(taken.job().attempt(), Some(2));
            assert_eq!(late.ack().await, Err(ClaimError::LeaseLost));
            let later = Settlement::RetryAfter(Duration::from_secs(60));
            taken.settle(later).await?;
            assert!(b.claim(1).await?.is_empty(), "not due");
        }
        Ok(())
    })
}

fn retries(place: &Place) -> TestResult {
    block_on(async {
        for form in place.forms() {
            let table = place.table("again_job", 1, *form).await;
            let worker = place.worker(*form, table, "w")?;
            for _ in 0..2 {
                worker.round(1, Settlement::Retry).await?;
            }
            let mut admin = place.admin().await;
            let attempt = number(&mut admin, "SELECT attempt FROM again_job").await;
            assert_eq!(attempt, 3, "{form:?}");
        }
        Ok(())
    })
}

/// While the head is in work nobody gets a row of the queue, not even one that was put in front.
fn fifo(place: &Place) -> TestResult {
    block_on(async {
        let mut admin = place.admin().await;
        let schema = (place.dialect == Dialect::Postgres).then_some("public");
        let qualified = |table: Table| match schema {
            Some(schema) => table.schema(schema),
            None => table,
        };
        let table = qualified(place.table("line_job", 2, Form::Lease).await);
        let options = LeaseOptions {
            fifo: Some(FifoGuard::Lock),
            without_keeper: true,
            ..LeaseOptions::default()
        };
        let open = |name| {
            let (pool, table) = (place.pool(name), table.clone());
            Lease::open(pool, place.dialect, table, options.clone())
        };
        let (a, b) = (open("a")?, open("b")?);
        let mut head = a.claim(5).await?.pop().expect("the head");
        assert_eq!(head.job().id(), &Value::Int(1));
        run(&mut admin, "INSERT INTO line_job (id) VALUES (0)").await;
        assert!(b.claim(5).await?.is_empty(), "one in work");
        head.ack().await?;
        let mut next = b.claim(5).await?.pop().expect("the next head");
        assert_eq!(next.job().id(), &Value::Int(0));
        next.ack().await?;
        if place.dialect == Dialect::Sqlite {
            return Ok(());
        }
        let mut guards = vec![FifoGuard::Lock];
        if schema.is_none() {
            guards.push(FifoGuard::Counts);
        }
        for guard in guards {
            let table = qualified(place.table("line_job", 2, Form::RowLock).await);
            let options = RowLockOptions {
                fifo: Some(guard),
                ..RowLockOptions::default()
            };
            let open = |name| {
                let (pool, table) = (place.pool(name), table.clone());
                RowLock::open(pool, place.dialect, table, options.clone())
            };
            let (a, b) = (open("a")?, open("b")?);
            let batch = a.claim(5).await?.expect("the head");
            assert_eq!(batch.jobs().len(), 1);
            assert!(b.claim(5).await?.is_none(), "{guard:?}: one in work");
            batch.settle_all(Settlement::Ack).await?;
            let next = b.claim(5).await?.expect("the next head");
            assert_eq!(next.jobs()[0].id(), &Value::Int(2));
            next.give_back().await;
            assert!(a.claim(1).await?.is_some(), "{guard:?}: free again");
        }
        Ok(())
    })
}

fn versions(place: &Place) -> TestResult {
    block_on(async {
        for form in place.forms() {
            check_server(&place.pool("w"), place.dialect, *form).await?;
        }
        Ok(())
    })
}

/// Two rows of one key are never in work together; closing a queue gives its keys back.
fn keys(place: &Place) -> TestResult {
    block_on(async {
        let table = place.table("key_job", 2, Form::RowLock).await;
        let table = table.advisory_lock("one key for all");
        let open = |name| {
            let options = AdvisoryOptions {
                keys: place.keys.clone(),
                ..AdvisoryOptions::default()
            };
            Advisory::open(place.pool(name), place.dialect, table.clone(), options)
        };
        let (a, b) = (open("a")?, open("b")?);
        let mut first = a.claim(2).await?;
        assert_eq!(first.len(), 1, "one of a key");
        assert!(b.claim(2).await?.is_empty(), "the key is held");
        first[0].settle(Settlement::Ack).await?;
        let second = b.claim(2).await?;
        assert_eq!(second.len(), 1);
        b.close();
        // The server may take a moment to see that a connection was closed.
        for _ in 0..200 {
            if !a.claim(2).await?.is_empty() {
                drop(second);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err("the key of a closed queue is held".into())
    })
}
