//! The workload under shuttle (tasks, at random) and under loom (threads, every interleaving).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::model::{Size, State};

/// Random executions of asynchronous workers in shuttle; the statements that they took.
pub(crate) fn shuttle_random(size: Size, executions: usize) -> u64 {
    let statements = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&statements);
    let mut config = shuttle::Config::new();
    config.failure_persistence = shuttle::FailurePersistence::None;
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(1, executions);
    shuttle::Runner::new(scheduler, config).run(move || {
        let table = Arc::new(Mutex::new(State::new(size)));
        let workers = (0..size.workers).map(|worker| {
            let (table, counted) = (Arc::clone(&table), Arc::clone(&counted));
            shuttle::future::spawn(async move {
                loop {
                    // The scheduling point before a statement.
                    shuttle::future::yield_now().await;
                    counted.fetch_add(1, Ordering::Relaxed);
                    let mut table = table.lock().expect("nobody panics");
                    let goes_on = table.step(worker);
                    assert!(table.one_holder());
                    if !goes_on {
                        break;
                    }
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        shuttle::future::block_on(async move {
            for worker in workers {
                worker.await.expect("nobody panics");
            }
        });
        assert!(table.lock().expect("nobody panics").all_done());
    });
    statements.load(Ordering::Relaxed)
}

/// Every interleaving of threads in loom that share one mutex, up to a time limit; the executions,
/// and whether they are all.
pub(crate) fn loom_exhaust(size: Size, limit: Duration) -> (u64, bool) {
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.max_duration = Some(limit);
    builder.checkpoint_interval = 1_000;
    builder.max_branches = 100_000;
    let start = std::time::Instant::now();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let table = loom::sync::Arc::new(loom::sync::Mutex::new(State::new(size)));
        let work = |table: loom::sync::Arc<loom::sync::Mutex<State>>, worker: usize| {
            loop {
                let mut table = table.lock().expect("nobody panics");
                let goes_on = table.step(worker);
                assert!(table.one_holder());
                if !goes_on {
                    break;
                }
            }
        };
        let threads = (1..size.workers).map(|worker| {
            let table = table.clone();
            loom::thread::spawn(move || work(table, worker))
        });
        let threads: Vec<_> = threads.collect();
        work(table.clone(), 0);
        for thread in threads {
            thread.join().expect("nobody panics");
        }
        assert!(table.lock().expect("nobody panics").all_done());
    });
    (executions.load(Ordering::Relaxed), start.elapsed() < limit)
}
