//! Sessions that share memory, under shuttle: the production code of the write paths with its cache,
//! its mutex and its pool, over a simulated PostgreSQL, scheduled at random and by PCT. What fails is
//! written as a schedule of shuttle's, and fails again when that is replayed.
//!
//! `cargo test --release -p rowlock-sim --test shuttle -- --ignored` runs what holds 20,000 times.

mod host;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rowlock_model::claim::Pool;
use rowlock_model::paths::Store;
use rowlock_model::paths::cache::CacheRule;
use rowlock_model::paths::graph::{Edge, Graph};
use rowlock_model::paths::tower::{Ack, MutexOrder, Tower, TowerRules};
use rowlock_model::retry::RetryPolicy;
use rowlock_model::{Host as _, Isolation, Task as _};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use host::ShuttleHost;

/// Executions of each scheduler.
const EXECUTIONS: usize = 300;

/// Executions in the deep profile, and at most until something fails.
const MANY: usize = 20_000;

/// PCT: the number of ordering constraints that a failure may need.
const DEPTH: usize = 3;

const SEED: u64 = 1;

#[derive(Clone, Copy, Debug)]
enum Scheduling {
    Random,
    Pct,
}

const BOTH: [Scheduling; 2] = [Scheduling::Random, Scheduling::Pct];

/// What went wrong, and shuttle's schedule.
struct Failure {
    message: String,
    schedule: String,
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default()
}

fn config(failures: FailurePersistence) -> Config {
    let mut config = Config::new();
    config.failure_persistence = failures;
    // Statements are parsed and planned on the stack of the task that sends them.
    config.stack_size = 8 << 20;
    config
}

/// Where shuttle writes schedules: it takes the folder of the first run for all runs of a process.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("shuttle")
}

/// One test at a time: so the schedule in the folder is its own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `test` many times; the first failure.
fn explore(scheduling: Scheduling, executions: usize, test: fn()) -> Option<Failure> {
    let _ = std::fs::remove_dir_all(folder());
    std::fs::create_dir_all(folder()).expect("a folder for schedules");
    let config = config(FailurePersistence::File(Some(folder())));
    let run = move || match scheduling {
        Scheduling::Random => {
            Runner::new(RandomScheduler::new_from_seed(SEED, executions), config).run(test)
        }
        Scheduling::Pct => {
            Runner::new(PctScheduler::new_from_seed(SEED, DEPTH, executions), config).run(test)
        }
    };
    // On one thread shuttle writes no second schedule of the same length.
    match std::thread::spawn(run).join() {
        Ok(ran) => {
            assert_eq!(ran, executions);
            None
        }
        Err(panic) => {
            let mut files = std::fs::read_dir(folder()).expect("the folder can be read");
            let file = files.next().expect("a schedule was written");
            let file = file.expect("the folder can be read").path();
            Some(Failure {
                message: message(&*panic),
                schedule: std::fs::read_to_string(file).expect("the schedule can be read"),
            })
        }
    }
}

/// The test holds under both schedulers.
fn holds(executions: usize, test: fn()) {
    let _one = ONE_AT_A_TIME.lock();
    for scheduling in BOTH {
        if let Some(failure) = explore(scheduling, executions, test) {
            panic!("{scheduling:?}: {} ({})", failure.message, failure.schedule);
        }
    }
}

/// The test fails with `what` under both schedulers, and again when the schedule is replayed.
fn fails(what: &str, test: fn()) {
    let _one = ONE_AT_A_TIME.lock();
    for scheduling in BOTH {
        // It ends with the first failure.
        let failure = explore(scheduling, MANY, test);
        let failure = failure.unwrap_or_else(|| panic!("{scheduling:?} finds nothing"));
        assert!(
            failure.message.contains(what),
            "{scheduling:?}: {}",
            failure.message
        );
        let again = catch_unwind(|| {
            let schedule = ReplayScheduler::new_from_encoded(&failure.schedule);
            Runner::new(schedule, config(FailurePersistence::None)).run(test)
        });
        let again = again.expect_err("the schedule fails again");
        assert!(message(&*again).contains(what), "{}", message(&*again));
    }
}

const TOWER: &str = "
    CREATE TABLE tower_channel (id bigint PRIMARY KEY, db_id bigint NOT NULL, closed_height bigint, writes int NOT NULL);
    CREATE TABLE tower_session (id bigint PRIMARY KEY, seq_num bigint NOT NULL, last_applied bigint NOT NULL, writes int NOT NULL);
    CREATE TABLE tower_committed (session bigint, seq bigint, PRIMARY KEY (session, seq));
    CREATE TABLE tower_acked (channel bigint, session bigint, height bigint, PRIMARY KEY (channel, session, height));
    CREATE TABLE tower_evaluated (session bigint, channel bigint, PRIMARY KEY (session, channel));
    CREATE TABLE tower_closable (session bigint PRIMARY KEY, height bigint NOT NULL);
    INSERT INTO tower_channel VALUES (1, 1, NULL, 0);
    INSERT INTO tower_session VALUES (1, 2, 1, 0);
    INSERT INTO tower_committed VALUES (1, 2);
    INSERT INTO tower_acked VALUES (1, 1, 6);
";

/// A store with so many connections and attempts.
fn store(host: &ShuttleHost, connections: usize, attempts: u32) -> Store<ShuttleHost> {
    let policy = RetryPolicy {
        attempts,
        ..RetryPolicy::default()
    };
    Store::new(Pool::new(host.clone(), connections), policy, None)
}

/// An acknowledgement, the close of its channel, and somebody who asks what is acknowledged: three
/// tasks of one process.
fn tower(rules: TowerRules, connections: usize, attempts: u32) {
    shuttle::future::block_on(async move {
        let host = ShuttleHost::new(TOWER, Isolation::RepeatableRead);
        let store = store(&host, connections, attempts);
        let tower = Arc::new(Tower::new(rules));
        let ack = Ack {
            session: 1,
            seq: 2,
            last_applied: 2,
            channel: 1,
            height: 7,
        };
        let acks = {
            let (tower, store) = (Arc::clone(&tower), store.clone());
            host.spawn(async move { tower.ack_update(&store, ack).await })
        };
        let closes = {
            let (tower, store) = (Arc::clone(&tower), store.clone());
            host.spawn(async move { tower.mark_channel_closed(&store, 1, 100).await })
        };
        let asks = {
            let (tower, store) = (Arc::clone(&tower), store.clone());
            host.spawn(async move { tower.is_acked(&store, (1, 1), 7).await })
        };
        let acked = acks.join().await.expect("nobody aborts it");
        let _ = closes.join().await;
        let asked = asks.join().await.expect("nobody aborts it");
        let stored = host.number("SELECT count(*) FROM tower_acked WHERE height = 7") == 1;
        assert!(acked.is_err() || stored, "acknowledged, and not stored");
        assert!(
            !matches!(asked, Ok(true)) || stored,
            "told of what is not stored"
        );
        if rules.cache != CacheRule::PublishAfterCommit {
            // Who fills the cache beside an acknowledgement may leave it behind what is stored.
            return;
        }
        let later = tower.is_acked(&store, (1, 1), 7).await;
        assert!(
            later.is_err() || later == Ok(stored),
            "the cache is not what is stored"
        );
    });
}

fn rules(cache: CacheRule, mutex: MutexOrder) -> TowerRules {
    TowerRules {
        cache,
        mutex,
        ..TowerRules::default()
    }
}

#[test]
fn a_cache_that_keeps_what_was_rolled_back_loses_the_acknowledgement() {
    fails("acknowledged, and not stored", || {
        tower(rules(CacheRule::Keep, MutexOrder::Never), 3, 10);
    });
}

#[test]
fn a_cache_that_shows_what_is_not_committed_tells_of_what_is_not_stored() {
    fails("told of what is not stored", || {
        tower(rules(CacheRule::EvictEachAttempt, MutexOrder::Never), 3, 1);
    });
}

#[test]
fn a_cache_that_shows_what_is_committed_is_what_is_stored() {
    holds(EXECUTIONS, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::Never),
            3,
            10,
        );
    });
    holds(EXECUTIONS, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::Never),
            3,
            1,
        );
    });
}

#[test]
fn a_mutex_inside_of_a_transaction_and_a_pool_wait_for_each_other() {
    fails("deadlock", || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::InsideTransaction),
            1,
            10,
        );
    });
}

#[test]
fn a_mutex_before_the_connection_waits_for_nobody_who_waits() {
    holds(EXECUTIONS, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::BeforeConnection),
            1,
            10,
        );
    });
}

#[test]
#[ignore = "takes minutes in release"]
fn what_holds_holds_in_many_executions() {
    holds(MANY, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::Never),
            3,
            10,
        );
    });
    holds(MANY, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::Never),
            3,
            1,
        );
    });
    holds(MANY, || {
        tower(
            rules(CacheRule::PublishAfterCommit, MutexOrder::BeforeConnection),
            1,
            10,
        );
    });
    holds(MANY, || graph(true, 1));
}

/// An edge is added while nodes without edges are pruned.
fn graph(is_guarded: bool, processes: usize) {
    shuttle::future::block_on(async move {
        let setup = "
            CREATE TABLE graph_node (id bigint PRIMARY KEY);
            CREATE TABLE graph_edge (id bigint PRIMARY KEY, a bigint NOT NULL, b bigint NOT NULL);
            INSERT INTO graph_node VALUES (1), (2), (3);";
        let host = ShuttleHost::new(setup, Isolation::RepeatableRead);
        let graphs: Vec<_> = (0..2)
            .map(|process| process % processes)
            .map(|_| Arc::new(Graph::new(1, is_guarded)))
            .collect();
        let of = |task: usize| Arc::clone(&graphs[task % processes]);
        let (adding, pruning) = (of(0), of(1));
        let adds = {
            let store = store(&host, 2, 10);
            let edge = Edge { id: 1, a: 2, b: 3 };
            host.spawn(async move { adding.add_edge(&store, edge).await })
        };
        let prunes = {
            let store = store(&host, 2, 10);
            host.spawn(async move { pruning.prune_nodes(&store).await })
        };
        adds.join()
            .await
            .expect("nobody aborts it")
            .expect("it is added");
        prunes
            .join()
            .await
            .expect("nobody aborts it")
            .expect("it is done");
        let nodes = host.number("SELECT count(*) FROM graph_node WHERE id IN (2, 3)");
        assert_eq!(nodes, 2, "an edge without its nodes");
    });
}

#[test]
fn pruning_beside_adding_leaves_edges_without_nodes() {
    fails("an edge without its nodes", || graph(false, 1));
}

#[test]
fn the_mutex_of_the_graph_keeps_one_process_right() {
    holds(EXECUTIONS, || graph(true, 1));
}

#[test]
fn the_mutex_of_another_process_is_of_no_use() {
    fails("an edge without its nodes", || graph(true, 2));
}
