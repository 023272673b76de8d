//! The claim library on a real server: workers on several threads, backends killed under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rowlock_model::claim::{
    ClaimError, Handler, Job, Lease, LeaseLength, LeaseOptions, Mutation, Next, Pool, Round,
    RowLock, RowLockOptions, Settlement, Table, TokenRule, lease_round, row_lock_round,
};
use rowlock_model::{Dialect, Host, Value};
use rowlock_real::{RealHost, RealSession};

use crate::{Test, TestResult, block_on, run, session, shared};

pub(crate) const TESTS: &[Test] = &[
    ("row_lock_workers_survive_kills", row_locks_and_kills),
    ("lease_workers_survive_kills", leases_and_kills),
    ("an_overrun_lease_is_lost", overrun_lease),
    ("a_token_may_repeat_within_a_second", repeated_token),
    ("dead_letters_move", dead_letters),
    ("a_kept_lease_outlives_its_length", kept_lease),
];

const WORKERS: usize = 4;
const ROWS: i64 = 80;
const KILLS: u32 = 30;

/// A fresh table of jobs, in which a trigger writes down every time that a row is finished.
async fn jobs(admin: &mut RealSession, name: &str, rows: i64) -> Table {
    for sql in [
        format!("DROP TABLE IF EXISTS {name}, {name}_finished"),
        format!(
            "CREATE TABLE {name} (id bigint PRIMARY KEY, attempt int NOT NULL DEFAULT 1, \
             locked_until timestamptz, done_at timestamptz, body text)"
        ),
        format!("CREATE TABLE {name}_finished (id bigint, attempt int)"),
        format!(
            "CREATE OR REPLACE FUNCTION {name}_note() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN INSERT INTO {name}_finished VALUES (NEW.id, NEW.attempt); RETURN NEW; END $$"
        ),
        format!(
            "CREATE TRIGGER note AFTER UPDATE OF done_at ON {name} FOR EACH ROW \
             EXECUTE FUNCTION {name}_note()"
        ),
        format!(
            "INSERT INTO {name} (id, body) SELECT g, 'job ' || g FROM generate_series(1, {rows}) g"
        ),
    ] {
        run(admin, &sql).await;
    }
    Table::new(name, "id")
        .attempt("attempt")
        .processed_at("done_at")
        .payload(["body"])
}

async fn number(admin: &mut RealSession, sql: &str) -> i64 {
    let reply = run(admin, sql).await;
    reply.scalar().and_then(Value::as_int).expect("a number")
}

fn host(name: &str) -> RealHost {
    RealHost::new(name, shared().target("postgres"))
}

fn open(name: &str, table: &Table, options: LeaseOptions) -> Lease<RealHost> {
    let table = table.clone().locked_until("locked_until");
    Lease::open(Pool::new(host(name), 2), Dialect::Postgres, table, options)
        .expect("the table is described")
}

fn one_second() -> LeaseOptions {
    LeaseOptions {
        lease: LeaseLength::new(Duration::from_secs(1)),
        ..LeaseOptions::default()
    }
}

/// Takes a little while, different for each job and attempt.
struct Work(RealHost);

impl Handler for Work {
    async fn handle(&self, _job: &Job) -> Settlement {
        let micros = self.0.random() % 4_000;
        self.0.sleep(Duration::from_micros(micros)).await;
        Settlement::Ack
    }
}

/// Ends backends of the claimers, one after the other.
async fn kill_backends(prefix: &'static str) -> u32 {
    let mut admin = session().await;
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity \
         WHERE application_name LIKE '{prefix}-%' ORDER BY random() LIMIT 1) victim"
    );
    let mut killed = 0;
    while killed < KILLS {
        killed += number(&mut admin, &sql).await as u32;
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    killed
}

/// Counts what workers did.
#[derive(Default)]
struct Totals {
    settled: AtomicU32,
    redelivered: AtomicU32,
    failed_claims: AtomicU32,
}

impl Totals {
    /// Adds a round; whether it found anything, or may have.
    fn add(&self, round: Result<Round, ClaimError>) -> bool {
        match round {
            Ok(round) => {
                self.settled.fetch_add(round.settled, Ordering::Relaxed);
                self.redelivered
                    .fetch_add(round.redelivered, Ordering::Relaxed);
                round.claimed > 0
            }
            Err(error) => {
                assert_ne!(error.next(), Next::GiveUp, "{error}");
                self.failed_claims.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }
}

/// Waits until every row is finished, then checks that each was finished once.
async fn every_row_once(admin: &mut RealSession, name: &str, totals: &Totals) {
    let twice = format!(
        "SELECT count(*) FROM (SELECT id FROM {name}_finished GROUP BY id HAVING count(*) > 1) t"
    );
    assert_eq!(number(admin, &twice).await, 0, "settled twice");
    let finished = number(admin, &format!("SELECT count(*) FROM {name}_finished")).await;
    let rows = number(admin, &format!("SELECT count(*) FROM {name}")).await;
    assert_eq!(finished, rows, "lost");
    let settled = totals.settled.load(Ordering::Relaxed);
    assert!(i64::from(settled) <= rows, "believed to be settled twice");
    let unsure = totals.redelivered.load(Ordering::Relaxed);
    assert!(
        i64::from(settled + unsure) >= rows,
        "settled without anybody's knowing"
    );
    let failed = totals.failed_claims.load(Ordering::Relaxed);
    println!("{name}: {rows} rows, {settled} settled, {unsure} perhaps, {failed} claims failed");
}

async fn left(admin: &mut RealSession, name: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {name} WHERE done_at IS NULL");
    number(admin, &sql).await
}

fn row_locks_and_kills() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        let table = jobs(&mut admin, "locked_job", ROWS).await;
        let (totals, stop) = (
            Arc::new(Totals::default()),
            Arc::new(AtomicBool::new(false)),
        );
        let killer = tokio::spawn(kill_backends("locker"));
        let workers = (0..WORKERS).map(|i| {
            let (table, totals, stop) = (table.clone(), Arc::clone(&totals), Arc::clone(&stop));
            tokio::spawn(async move {
                let host = host(&format!("locker-{i}"));
                let pool = Pool::new(host.clone(), 1);
                let options = RowLockOptions::default();
                let queue = RowLock::open(pool, Dialect::Postgres, table, options)
                    .expect("the table is described");
                let work = Work(host);
                while !stop.load(Ordering::Relaxed) {
                    totals.add(row_lock_round(&queue, 2, &work).await);
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        let killed = drain(&mut admin, "locked_job", killer, &stop).await;
        for worker in workers {
            worker.await?;
        }
        every_row_once(&mut admin, "locked_job", &totals).await;
        // A crash spends no attempt.
        let attempts = "SELECT max(attempt) FROM locked_job";
        assert_eq!(number(&mut admin, attempts).await, 1);
        assert_eq!(killed, KILLS);
        Ok(())
    })
}

/// Keeps rows coming until the kills are done, so that kills meet claims, handlers and settlements;
/// waits until every row is finished, and stops the workers. How many backends were killed.
async fn drain(
    admin: &mut RealSession,
    name: &str,
    killer: tokio::task::JoinHandle<u32>,
    stop: &AtomicBool,
) -> u32 {
    while !killer.is_finished() {
        if left(admin, name).await < ROWS / 2 {
            let more = format!(
                "INSERT INTO {name} (id, body) SELECT (SELECT max(id) FROM {name}) + g, 'more' \
                 FROM generate_series(1, {ROWS}) g"
            );
            run(admin, &more).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let killed = killer.await.expect("the killer does not fail");
    while left(admin, name).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    killed
}

fn leases_and_kills() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        let table = jobs(&mut admin, "leased_job", ROWS).await;
        let (totals, stop) = (
            Arc::new(Totals::default()),
            Arc::new(AtomicBool::new(false)),
        );
        let killer = tokio::spawn(kill_backends("leaser"));
        let workers = (0..WORKERS).map(|i| {
            let (table, totals, stop) = (table.clone(), Arc::clone(&totals), Arc::clone(&stop));
            tokio::spawn(async move {
                let name = format!("leaser-{i}");
                let queue = open(&name, &table, one_second());
                let work = Work(host(&name));
                while !stop.load(Ordering::Relaxed) {
                    if !totals.add(lease_round(&queue, 3, &work).await) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        let killed = drain(&mut admin, "leased_job", killer, &stop).await;
        for worker in workers {
            worker.await?;
        }
        every_row_once(&mut admin, "leased_job", &totals).await;
        assert_eq!(killed, KILLS);
        Ok(())
    })
}

/// Two holders of one row, the first one late. With a token its settlement is refused; without one
/// it takes effect.
fn overrun_lease() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        for (mutation, first, finished) in [
            (None, Err(ClaimError::LeaseLost), 1),
            (Some(Mutation::SettleWithoutToken), Ok(()), 2),
        ] {
            for token in [TokenRule::Fenced, TokenRule::Expiry] {
                let table = jobs(&mut admin, "late_job", 1).await;
                let options = LeaseOptions {
                    without_keeper: true,
                    mutation,
                    token,
                    ..one_second()
                };
                let (a, b) = (
                    open("a", &table, options.clone()),
                    open("b", &table, options),
                );
                let mut late = a.claim(1).await?.pop().expect("a row");
                assert!(b.claim(1).await?.is_empty(), "the lease runs");
                tokio::time::sleep(Duration::from_millis(2_050)).await;
                let mut taken = b.claim(1).await?.pop().expect("the lease has ended");
                assert_eq!(taken.job().attempt(), Some(2));
                assert_eq!(late.ack().await, first);
                taken.ack().await?;
                let sql = "SELECT count(*) FROM late_job_finished";
                assert_eq!(number(&mut admin, sql).await, finished);
            }
        }
        Ok(())
    })
}

/// A row that is given back and claimed again within a second: the end of the lease is the same,
/// and as a token it lets the first holder settle what the second one holds.
fn repeated_token() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        for (token, late) in [
            (TokenRule::Expiry, Ok(())),
            (TokenRule::Fenced, Err(ClaimError::LeaseLost)),
        ] {
            let table = jobs(&mut admin, "repeated_job", 1).await;
            let options = LeaseOptions {
                token,
                ..LeaseOptions::default()
            };
            let (a, b) = (
                open("a", &table, options.clone()),
                open("b", &table, options),
            );
            // Both claims in one second.
            let clock = host("clock");
            let rest = 1_000_000 - clock.now_micros() % 1_000_000;
            clock
                .sleep(Duration::from_micros(rest.unsigned_abs() + 50_000))
                .await;
            let mut first = a.claim(1).await?.pop().expect("a row");
            run(&mut admin, "UPDATE repeated_job SET locked_until = NULL").await;
            let mut second = b.claim(1).await?.pop().expect("it was given back");
            assert_eq!(first.ack().await, late);
            // Who holds it is refused if the other one was not.
            assert_eq!(second.ack().await.is_ok(), late.is_err());
        }
        Ok(())
    })
}

fn dead_letters() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        run(&mut admin, "DROP TABLE IF EXISTS buried_job").await;
        run(&mut admin, "CREATE TABLE buried_job (id bigint, body text)").await;
        let table = jobs(&mut admin, "hopeless_job", 2).await;
        let table = table.dead_letter_table("buried_job");
        let pool = Pool::new(host("locker"), 1);
        let options = RowLockOptions::default();
        let locks = RowLock::open(pool, Dialect::Postgres, table.clone(), options)?;
        let batch = locks.claim(1).await?.expect("a row");
        batch.settle_all(Settlement::DeadLetter).await?;
        let queue = open("leaser", &table, LeaseOptions::default());
        let mut delivery = queue.claim(1).await?.pop().expect("a row");
        delivery.settle(Settlement::DeadLetter).await?;
        let sql = "SELECT count(*) FROM buried_job WHERE body LIKE 'job %'";
        assert_eq!(number(&mut admin, sql).await, 2);
        assert_eq!(
            number(&mut admin, "SELECT count(*) FROM hopeless_job").await,
            0
        );
        Ok(())
    })
}

fn kept_lease() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        for token in [TokenRule::Fenced, TokenRule::Expiry] {
            let table = jobs(&mut admin, "kept_job", 1).await;
            let options = LeaseOptions {
                token,
                ..one_second()
            };
            let (a, b) = (
                open("a", &table, options.clone()),
                open("b", &table, options),
            );
            let mut delivery = a.claim(1).await?.pop().expect("a row");
            for _ in 0..30 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(
                    b.claim(1).await?.is_empty(),
                    "taken from a holder who lives"
                );
            }
            delivery.ack().await?;
        }
        Ok(())
    })
}
