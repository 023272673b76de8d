//! `Session` and `Host`: what code that is generic over them may rely on.

use std::time::{Duration, Instant};

use rowlock_model::{DbError, Host, Session, Task, Value};
use rowlock_real::RealHost;

use crate::{Test, TestResult, block_on, run, session, shared};

pub(crate) const TESTS: &[Test] = &[
    (
        "dropped_futures_leave_the_statement_running",
        dropped_future,
    ),
    ("generic_workers_can_be_spawned", generic_workers),
    ("tasks_and_time", tasks_and_time),
    ("dropped_sessions_are_closed", dropped_sessions),
];

fn dropped_future() -> TestResult {
    block_on(async {
        let mut session = session().await;
        run(&mut session, "CREATE TEMP TABLE t (n int)").await;
        let started = Instant::now();
        let statement = session.exec(
            "WITH w AS MATERIALIZED (SELECT pg_sleep(0.3)) INSERT INTO t SELECT 1 FROM w",
            &[],
        );
        let impatient = tokio::time::timeout(Duration::from_millis(30), statement).await;
        assert!(impatient.is_err(), "the statement takes longer");
        // The session is busy until the statement ends, and the statement took effect.
        let reply = run(&mut session, "SELECT count(*) FROM t").await;
        assert!(started.elapsed() >= Duration::from_millis(300));
        assert_eq!(reply.scalar(), Some(&Value::Int(1)));
        Ok(())
    })
}

/// A worker as users write it: generic over the seam and nothing else.
async fn claim_all<H: Host>(host: H) -> Result<Vec<i64>, DbError> {
    let mut session = host.connect().await?;
    let mut claimed = Vec::new();
    loop {
        session.exec("BEGIN", &[]).await?;
        let job = session
            .exec(
                "UPDATE claimable SET owner = $1 WHERE id = (SELECT id FROM claimable \
                 WHERE owner IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
                &[Value::text(host.process_name())],
            )
            .await?;
        session.exec("COMMIT", &[]).await?;
        match job.scalar().and_then(Value::as_int) {
            Some(id) => claimed.push(id),
            None => break,
        }
        host.sleep(Duration::from_micros(host.random() % 500)).await;
    }
    session.close().await?;
    Ok(claimed)
}

fn generic_workers() -> TestResult {
    block_on(async {
        let mut admin = session().await;
        run(
            &mut admin,
            "CREATE TABLE claimable (id int PRIMARY KEY, owner text)",
        )
        .await;
        run(
            &mut admin,
            "INSERT INTO claimable SELECT generate_series(1, 20)",
        )
        .await;
        let workers: Vec<_> = (0..4)
            .map(|i| {
                let host = RealHost::new(format!("worker-{i}"), shared().target("postgres"));
                tokio::spawn(claim_all(host))
            })
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.await??);
        }
        all.sort_unstable();
        assert_eq!(all, (1..=20).collect::<Vec<i64>>());
        run(&mut admin, "DROP TABLE claimable").await;
        Ok(())
    })
}

fn tasks_and_time() -> TestResult {
    block_on(async {
        let host = RealHost::new("a", shared().target("postgres"));
        assert_eq!(host.spawn(async { 7 }).join().await, Some(7));
        let sleeper = host.clone();
        let task = host.spawn(async move { sleeper.sleep(Duration::from_secs(60)).await });
        task.abort();
        assert_eq!(task.join().await, None);
        let never = std::future::pending::<()>();
        assert!(host.timeout(Duration::from_millis(1), never).await.is_err());
        // 2020 to 2200, in microseconds.
        assert!((1_577_836_800_000_000..7_258_118_400_000_000).contains(&host.now_micros()));
        assert_ne!(host.random(), host.random());
        Ok(())
    })
}

fn dropped_sessions() -> TestResult {
    block_on(async {
        let (observer, dropped) = (&mut session().await, session().await);
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {}",
            dropped.backend()
        );
        assert_eq!(run(observer, &sql).await.scalar(), Some(&Value::Int(1)));
        drop(dropped);
        let deadline = Instant::now() + Duration::from_secs(10);
        while run(observer, &sql).await.scalar() != Some(&Value::Int(0)) {
            assert!(Instant::now() < deadline, "the backend is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    })
}
