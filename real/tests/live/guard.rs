//! The write guard on a real server, whose backends are ended.

use rowlock_model::Value;
use rowlock_model::guard::{Deadline, Guard, GuardError, GuardOptions, Key};
use rowlock_real::{RealHost, RealSession};

use crate::{Test, TestResult, block_on, run, session, shared};

pub(crate) const TESTS: &[Test] = &[
    ("guard_excludes_and_times_out", excludes),
    ("guard_proofs_count_nothing", proofs),
    ("guard_notices_an_ended_backend", ended),
    ("guard_keeps_nothing_when_cancelled", cancelled),
];

fn host() -> RealHost {
    RealHost::new("guard", shared().target("postgres"))
}

fn options(seconds: f64) -> GuardOptions {
    GuardOptions {
        deadline: Deadline::from_seconds(seconds).expect("in range"),
        ..GuardOptions::default()
    }
}

async fn holders(admin: &mut RealSession, id: &str) -> i64 {
    let (high, low) = Key::of(id).halves();
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted \
         AND classid = {high} AND objid = {low} AND objsubid = 1"
    );
    let reply = run(admin, &sql).await;
    reply.scalar().and_then(Value::as_int).expect("a number")
}

/// Ends the backend that holds the guard.
async fn end_holder(admin: &mut RealSession, id: &str) {
    let (high, low) = Key::of(id).halves();
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted \
         AND classid = {high} AND objid = {low} AND objsubid = 1"
    );
    assert_eq!(run(admin, &sql).await.rows.len(), 1);
}

fn excludes() -> TestResult {
    block_on(async {
        let host = host();
        let mut first = Guard::acquire(&host, "excludes", options(5.0)).await?;
        let before = std::time::Instant::now();
        let second = Guard::acquire(&host, "excludes", options(0.3)).await;
        assert!(
            matches!(second, Err(GuardError::Contention(_))),
            "{second:?}"
        );
        assert!(
            before.elapsed().as_millis() >= 300,
            "waited for its deadline"
        );
        let mut other = Guard::acquire(&host, "another", options(0.3)).await?;
        first.release(&host).await?;
        other.release(&host).await?;
        let mut second = Guard::acquire(&host, "excludes", options(0.3)).await?;
        second.release(&host).await?;
        Ok(())
    })
}

fn proofs() -> TestResult {
    block_on(async {
        let (host, mut admin) = (host(), session().await);
        let mut guard = Guard::acquire(&host, "proofs", options(5.0)).await?;
        for _ in 0..5 {
            guard.require_ownership(&host).await?;
        }
        let idle = "SELECT state FROM pg_stat_activity WHERE application_name = 'guard' \
                    AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)";
        for row in run(&mut admin, idle).await.rows.iter() {
            assert_eq!(row[0].as_str(), Some("idle"), "not in a transaction");
        }
        assert_eq!(holders(&mut admin, "proofs").await, 1);
        guard.release(&host).await?;
        assert_eq!(
            holders(&mut admin, "proofs").await,
            0,
            "one unlock is enough"
        );
        Ok(())
    })
}

fn ended() -> TestResult {
    block_on(async {
        let (host, mut admin) = (host(), session().await);
        let mut guard = Guard::acquire(&host, "ended", options(5.0)).await?;
        end_holder(&mut admin, "ended").await;
        let proof = guard.require_ownership(&host).await;
        assert!(matches!(proof, Err(GuardError::Ownership(_))), "{proof:?}");
        let release = guard.release(&host).await;
        assert!(
            matches!(release, Err(GuardError::Release(_))),
            "{release:?}"
        );
        let mut guard = Guard::acquire(&host, "ended", options(5.0)).await?;
        end_holder(&mut admin, "ended").await;
        let release = guard.release(&host).await;
        assert!(
            matches!(release, Err(GuardError::Release(_))),
            "{release:?}"
        );
        // The next writer is not kept out.
        Guard::acquire(&host, "ended", options(5.0))
            .await?
            .retire()
            .await;
        Ok(())
    })
}

fn cancelled() -> TestResult {
    block_on(async {
        let (host, mut admin) = (host(), session().await);
        let mut holder = Guard::acquire(&host, "cancelled", options(5.0)).await?;
        let waiter = {
            let host = host.clone();
            tokio::spawn(async move {
                Guard::acquire(&host, "cancelled", options(200.0))
                    .await
                    .map(drop)
            })
        };
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        waiter.abort();
        let _ = waiter.await;
        holder.release(&host).await?;
        // A waiter that is gone may be granted the lock until the server notices.
        for _ in 0..200 {
            if holders(&mut admin, "cancelled").await == 0 {
                let mut next = Guard::acquire(&host, "cancelled", options(5.0)).await?;
                next.release(&host).await?;
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        Err("the lock is held by nobody's session".into())
    })
}
