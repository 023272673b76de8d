//! The claim library and the guard through a real PgBouncer in transaction mode: what belongs to a
//! session stays with a server connection, whoever uses it next.

use std::time::Duration;

use rowlock_model::claim::{
    Advisory, AdvisoryOptions, Lease, LeaseOptions, Pool, RowLock, RowLockOptions, Settlement,
    Table,
};
use rowlock_model::guard::{Deadline, Guard, GuardError, GuardOptions};
use rowlock_model::{Dialect, Host, Value};
use rowlock_real::server::PgBouncer;
use rowlock_real::{DeadlockTimeouts, RealHost, RealStage};
use rowlock_scenarios::replay::{Conclusion, Script, replay};
use rowlock_scenarios::scenario::Scenario;
use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::source::Source;

use crate::{Test, TestResult, block_on, run, session, shared};

pub(crate) const TESTS: &[Test] = &[
    ("pooler_shares_advisory_claims", advisory),
    ("pooler_leaves_row_locks_and_leases_alone", others),
    ("pooler_shares_the_guard", shared_guard),
    ("pooler_makes_the_guard_fail_closed", guard_fails_closed),
    ("pooler_takes_schedules", schedules),
];

fn pooler(size: u8) -> PgBouncer {
    PgBouncer::start(shared(), size, "").expect("a throwaway pooler starts")
}

fn host(pooler: &PgBouncer, name: &str) -> RealHost {
    RealHost::new(name, pooler.target("postgres"))
}

async fn table(name: &str) -> Table {
    let mut admin = session().await;
    for sql in [
        format!("DROP TABLE IF EXISTS {name}"),
        format!(
            "CREATE TABLE {name} (id bigint PRIMARY KEY, attempt int NOT NULL DEFAULT 1, \
             locked_until timestamptz)"
        ),
        format!("INSERT INTO {name} (id) VALUES (1)"),
    ] {
        run(&mut admin, &sql).await;
    }
    Table::new(name, "id").attempt("attempt")
}

/// Two workers whose statements share one server connection hold one key at a time, both of them.
/// With connections of their own the second one is turned away.
fn advisory() -> TestResult {
    block_on(async {
        let pooler = pooler(1);
        for both in [false, true] {
            let host = |name: &str| match both {
                false => RealHost::new(name, shared().target("postgres")),
                true => host(&pooler, name),
            };
            let table = table("pooled_job").await.advisory_lock("pooled-{id}");
            let open = |name| {
                let pool = Pool::new(host(name), 2);
                let options = AdvisoryOptions {
                    // What is asked is whether the lock is had, not whether it is looked for.
                    without_probe: true,
                    ..AdvisoryOptions::default()
                };
                Advisory::open(pool, Dialect::Postgres, table.clone(), options)
            };
            let (a, b) = (open("pool-a")?, open("pool-b")?);
            let first = a.claim(1).await?;
            let second = b.claim(1).await?;
            assert_eq!(first.len(), 1);
            assert_eq!(second.len(), usize::from(both), "through a pooler: {both}");
            a.close();
            b.close();
        }
        // Closing the clients' connections freed nothing: the server connection has the lock.
        let mut admin = session().await;
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 \
                    AND pid IN (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pool-%')";
        let reply = run(&mut admin, held).await;
        assert_eq!(
            reply.scalar(),
            Some(&Value::Int(1)),
            "left on the server connection"
        );
        Ok(())
    })
}

/// The other forms keep nothing in a session between two transactions.
fn others() -> TestResult {
    block_on(async {
        let pooler = pooler(2);
        let table = table("pooled_other").await;
        let locks = |name| {
            let pool = Pool::new(host(&pooler, name), 1);
            RowLock::open(
                pool,
                Dialect::Postgres,
                table.clone(),
                RowLockOptions::default(),
            )
        };
        let (a, b) = (locks("a")?, locks("b")?);
        let batch = a.claim(1).await?.expect("a row");
        assert!(b.claim(1).await?.is_none(), "it is locked");
        batch.settle_all(Settlement::Retry).await?;
        let lease = |name| {
            let pool = Pool::new(host(&pooler, name), 1);
            let table = table.clone().locked_until("locked_until");
            Lease::open(pool, Dialect::Postgres, table, LeaseOptions::default())
        };
        let (a, b) = (lease("a")?, lease("b")?);
        let mut delivery = a.claim(1).await?.pop().expect("a row");
        assert_eq!(delivery.job().attempt(), Some(2));
        assert!(b.claim(1).await?.is_empty(), "it is leased");
        delivery.ack().await?;
        Ok(())
    })
}

fn options() -> GuardOptions {
    GuardOptions {
        deadline: Deadline::from_seconds(1.0).expect("in range"),
        ..GuardOptions::default()
    }
}

/// On one server connection a second writer is let in, and both proofs pass.
fn shared_guard() -> TestResult {
    block_on(async {
        let pooler = pooler(1);
        let (a, b) = (host(&pooler, "guard-a"), host(&pooler, "guard-b"));
        let mut first = Guard::acquire(&a, "pooled", options()).await?;
        let mut second = Guard::acquire(&b, "pooled", options()).await?;
        first.require_ownership(&a).await?;
        second.require_ownership(&b).await?;
        first.release(&a).await?;
        // One unlock of two: the other one still proves.
        second.require_ownership(&b).await?;
        second.release(&b).await?;
        Ok(())
    })
}

/// A proof that lands on another server connection is refused, and so is the release.
fn guard_fails_closed() -> TestResult {
    block_on(async {
        let pooler = pooler(2);
        let host = host(&pooler, "guard");
        for proves in [true, false] {
            let mut guard = Guard::acquire(&host, "moved", options()).await?;
            // The connection on which the lock was taken is the one that was idle last.
            let mut other = host.connect().await?;
            run(&mut other, "BEGIN").await;
            let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
                       AND pid = pg_backend_pid()";
            let has_it = run(&mut other, sql).await.scalar().and_then(Value::as_int);
            assert!(
                has_it >= Some(1),
                "the other client was given its connection"
            );
            if proves {
                let proof = guard.require_ownership(&host).await;
                assert!(matches!(proof, Err(GuardError::Ownership(_))), "{proof:?}");
            }
            let release = guard.release(&host).await;
            assert!(
                matches!(release, Err(GuardError::Release(_))),
                "{release:?}"
            );
            // The lock is on the server connection of somebody else: who is there can give it back.
            run(&mut other, "SELECT pg_advisory_unlock_all()").await;
            run(&mut other, "ROLLBACK").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    })
}

/// Schedules say which server connection a transaction gets, and the pooler is made to follow.
fn schedules() -> TestResult {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../scenarios/bugs/pgbouncer-session-lock.toml"
    );
    let scenario = Scenario::parse(Source::new(file, std::fs::read_to_string(file)?))
        .map_err(|error| error.to_string())?;
    let mut stage = RealStage::on_server(shared(), DeadlockTimeouts::default())?;
    for case in scenario.cases.iter().filter(|case| case.pooler > 0) {
        for pinned in &case.pinned {
            let run = replay(&mut stage, Script::Pinned(case, pinned))?;
            assert_eq!(run.conclusion, Conclusion::Confirmed, "{run:?}");
        }
    }
    for name in ["advisory-worker", "guarded-writer"] {
        let file = format!(
            "{}/tests/live/pooler/{name}.schedule",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(&file)?;
        let file =
            ScheduleFile::parse(Source::new(file, text)).map_err(|error| error.to_string())?;
        let run = replay(&mut stage, Script::File(&file))?;
        assert_eq!(run.conclusion, Conclusion::Confirmed, "{name}: {run:?}");
    }
    Ok(())
}
