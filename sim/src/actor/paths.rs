//! The actor `write-path`: transactions below SERIALIZABLE, see [`rowlock_model::paths`].
//!
//! | parameter | default | meaning |
//! | --- | --- | --- |
//! | `does` | | what the process does, by commas: each is a task of its own, and all share memory |
//! | `attempts` | 10 | of each transaction |
//! | `peer`, `channel` | `"p"`, 1 | of `open channel`, `close channel` |
//! | `touch` | `"count"` | or `"none"`, `"lock"`, `"same bytes"` |
//! | `mutex` | `"never"` | of `add edge`, `prune nodes`: or `"always"`; of the tower: or `"before connection"`, `"inside transaction"` |
//! | `key`, `if_not_exists`, `creation` | `"k"`, `false`, `"upsert"` | of `create bucket`; or `"bare"` |
//! | `session`, `seq`, `height` | 1, 1, 7 | of `commit update`, `acknowledge`, `ask`, `close tower channel` |
//! | `cache` | `"publish after commit"` | or `"keep"`, `"evict each attempt"` |
//! | `asks_after` | | how long the process waits before it asks |
//! | `except` | | promises that are not watched |
//!
//! Edge 1 is between the nodes 2 and 3; node 1 is never pruned. It needs a session for each connection
//! of its pool. There is no pause between attempts: who is faster is for the explorer to say.

use std::sync::Arc;
use std::time::Duration;

use rowlock_model::claim::Pool;
use rowlock_model::paths::bucket::{BucketError, CreateBucket, Creation};
use rowlock_model::paths::cache::CacheRule;
use rowlock_model::paths::graph::{Edge, Graph};
use rowlock_model::paths::link_node::{CloseChannel, OpenChannel};
use rowlock_model::paths::tower::{Ack, MutexOrder, Tower, TowerRules};
use rowlock_model::paths::{Store, Touch};
use rowlock_model::retry::{RetryPolicy, TransactionError};
use rowlock_model::{Host, Task as _, Value};

use super::ActorError;
use super::params::{Params, wrong};
use crate::explore::{ProcessSpec, Worker};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    OpenChannel,
    CloseChannel,
    AddEdge,
    PruneNodes,
    CreateBucket,
    CommitUpdate,
    Acknowledge,
    Ask,
    CloseTowerChannel,
}

const DEEDS: [(&str, Deed); 9] = [
    ("open channel", Deed::OpenChannel),
    ("close channel", Deed::CloseChannel),
    ("add edge", Deed::AddEdge),
    ("prune nodes", Deed::PruneNodes),
    ("create bucket", Deed::CreateBucket),
    ("commit update", Deed::CommitUpdate),
    ("acknowledge", Deed::Acknowledge),
    ("ask", Deed::Ask),
    ("close tower channel", Deed::CloseTowerChannel),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Never,
    Always,
    BeforeConnection,
    InsideTransaction,
}

/// What an actor of this kind was told.
#[derive(Clone)]
struct Config {
    deeds: Arc<[Deed]>,
    attempts: u32,
    peer: Arc<str>,
    channel: i64,
    touch: Touch,
    held: Held,
    bucket: CreateBucket,
    ack: Ack,
    cache: CacheRule,
    asks_after: Option<Duration>,
}

pub(super) fn process(label: &str, params: &mut Params<'_>) -> Result<ProcessSpec, ActorError> {
    let words: Vec<&str> = DEEDS.iter().map(|(word, _)| *word).collect();
    let expected = format!("one or more of: {}", words.join(", "));
    let does = params.text("does")?.unwrap_or_default();
    let deed = |word: &str| DEEDS.iter().find(|(name, _)| *name == word.trim());
    let deeds = does
        .split(',')
        .map(|word| deed(word).map(|(_, deed)| *deed));
    let deeds: Option<Arc<[Deed]>> = deeds.collect();
    let deeds = deeds.ok_or_else(|| wrong("does", &expected))?;
    let touches = [
        ("none", Touch::None),
        ("lock", Touch::Lock),
        ("same bytes", Touch::SameBytes),
        ("count", Touch::Count),
    ];
    let orders = [
        ("never", Held::Never),
        ("always", Held::Always),
        ("before connection", Held::BeforeConnection),
        ("inside transaction", Held::InsideTransaction),
    ];
    let rules = [
        ("keep", CacheRule::Keep),
        ("evict each attempt", CacheRule::EvictEachAttempt),
        ("publish after commit", CacheRule::PublishAfterCommit),
    ];
    let creations = [("bare", Creation::Bare), ("upsert", Creation::Upsert)];
    let channel = params.number("channel", 1)?.into();
    let seq = params.number("seq", 1)?.into();
    let config = Config {
        deeds,
        attempts: params.number("attempts", 10)?,
        peer: params.text("peer")?.unwrap_or("p").into(),
        channel,
        touch: params.word("touch", &touches)?.unwrap_or_default(),
        held: params.word("mutex", &orders)?.unwrap_or(Held::Never),
        bucket: CreateBucket {
            parent: None,
            key: params.text("key")?.unwrap_or("k").into(),
            if_not_exists: params.flag("if_not_exists", false)?,
            creation: params.word("creation", &creations)?.unwrap_or_default(),
        },
        ack: Ack {
            session: params.number("session", 1)?.into(),
            seq,
            last_applied: seq,
            channel,
            height: params.number("height", 7)?.into(),
        },
        cache: params.word("cache", &rules)?.unwrap_or_default(),
        asks_after: params.duration("asks_after")?,
    };
    Ok(ProcessSpec::new(label, move |worker| {
        run(worker, config.clone())
    }))
}

/// What the tasks of a process share.
struct Shared<H: Host> {
    store: Store<H>,
    graph: Graph,
    tower: Tower,
}

async fn run(worker: Worker, config: Config) {
    let host = worker.host.clone();
    let policy = RetryPolicy {
        attempts: config.attempts,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        contention: false,
    };
    let pool = Pool::with_sessions(worker.host, worker.sessions);
    let shared = Arc::new(Shared {
        store: Store::new(pool, policy, None),
        graph: Graph::new(1, config.held != Held::Never),
        tower: Tower::new(TowerRules {
            touch: config.touch,
            cache: config.cache,
            mutex: match config.held {
                Held::Never | Held::Always => MutexOrder::Never,
                Held::BeforeConnection => MutexOrder::BeforeConnection,
                Held::InsideTransaction => MutexOrder::InsideTransaction,
            },
        }),
    });
    if let [deed] = config.deeds[..] {
        return act(deed, &shared, &config).await;
    }
    let deeds: Vec<Deed> = config.deeds.to_vec();
    let tasks: Vec<_> = deeds
        .into_iter()
        .map(|deed| {
            let (shared, config) = (Arc::clone(&shared), config.clone());
            host.spawn(async move { act(deed, &shared, &config).await })
        })
        .collect();
    for task in tasks {
        task.join().await;
    }
}

/// Does one thing, and tells the host what came of it.
async fn act<H: Host>(deed: Deed, shared: &Shared<H>, config: &Config) {
    let (store, ack) = (&shared.store, config.ack);
    let entry: [Value; 3] = [ack.channel, ack.session, ack.height].map(Value::Int);
    let host = store.host();
    match deed {
        Deed::OpenChannel => {
            let mut work = OpenChannel {
                channel: config.channel,
                peer: Arc::clone(&config.peer),
                touch: config.touch,
            };
            told(host, &store.run(&mut work).await);
        }
        Deed::CloseChannel => {
            let mut work = CloseChannel {
                channel: config.channel,
                peer: Arc::clone(&config.peer),
            };
            told(host, &store.run(&mut work).await);
        }
        Deed::AddEdge => {
            let edge = Edge { id: 1, a: 2, b: 3 };
            told(host, &shared.graph.add_edge(store, edge).await);
        }
        Deed::PruneNodes => told(host, &shared.graph.prune_nodes(store).await),
        Deed::CreateBucket => {
            let result = store.run(&mut config.bucket.clone()).await;
            told(host, &result);
            let key = Value::Text(Arc::clone(&config.bucket.key));
            match result {
                Ok(bucket) if bucket.is_new => host.note("created", &[key]),
                Err(TransactionError::Refused(BucketError::Exists)) | Ok(_) => {
                    host.note("found", &[key]);
                }
                Err(_) => {}
            }
        }
        Deed::CommitUpdate => {
            let result = shared.tower.commit_update(store, ack.session, ack.seq);
            told(host, &result.await);
        }
        Deed::Acknowledge => {
            let result = shared.tower.ack_update(store, ack).await;
            told(host, &result);
            if result.is_ok() {
                host.note("acknowledged", &entry);
            }
        }
        Deed::Ask => {
            if let Some(time) = config.asks_after {
                host.sleep(time).await;
            }
            let key = (ack.channel, ack.session);
            let result = shared.tower.is_acked(store, key, ack.height).await;
            told(host, &result);
            if matches!(result, Ok(true)) {
                host.note("told", &entry);
            }
        }
        Deed::CloseTowerChannel => {
            let closed = shared.tower.mark_channel_closed(store, ack.channel, 100);
            told(host, &closed.await);
        }
    }
}

/// An error of the database that reaches the caller is told as `failed`, with its code.
fn told<H: Host, T, R>(host: &H, result: &Result<T, TransactionError<R>>) {
    if let Err(TransactionError::Database(error)) = result {
        host.note("failed", &[Value::text(&*error.code)]);
    }
}
