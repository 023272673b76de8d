//! An index that is kept in memory beyond the transaction in which it was read.

use std::collections::{BTreeMap, BTreeSet};

use crate::sync::Lock;

/// When what a transaction adds is seen in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheRule {
    /// At once, whatever becomes of the transaction. An attempt that was rolled back stays in
    /// memory, and the next attempt finds nothing left to store.
    Keep,
    /// At once; before each further attempt, and after giving up, the entry is forgotten. What is
    /// stored is right; in between others are told what is then rolled back.
    EvictEachAttempt,
    /// When the transaction has committed.
    #[default]
    PublishAfterCommit,
}

/// An entry of the cache: the heights that a session has acknowledged for a channel.
pub type Key = (i64, i64);

/// The cache. Shared by the tasks of a process.
#[derive(Debug, Default)]
pub struct RangeCache {
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<Key, BTreeSet<i64>>,
    /// Counts publications and evictions: what was read before one of them may be outdated.
    generation: u64,
}

/// A reading of an entry that has begun; see [`RangeCache::loaded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loading(u64);

impl RangeCache {
    /// An empty cache.
    pub fn new() -> RangeCache {
        RangeCache::default()
    }

    /// An entry, if it is in memory.
    pub fn get(&self, key: Key) -> Option<BTreeSet<i64>> {
        self.state.with(|state| state.entries.get(&key).cloned())
    }

    /// To be called before an entry is read from the database.
    pub fn load(&self) -> Loading {
        self.state.with(|state| Loading(state.generation))
    }

    /// The entry as it was read. It is kept unless something was published or evicted since: then what
    /// was read may be older than that.
    pub fn loaded(&self, loading: Loading, key: Key, heights: BTreeSet<i64>) {
        self.state.with(|state| {
            if state.generation == loading.0 {
                state.entries.insert(key, heights);
            }
        });
    }

    /// Adds to an entry before the transaction has committed ([`CacheRule::Keep`],
    /// [`CacheRule::EvictEachAttempt`]).
    pub fn add(&self, key: Key, height: i64) {
        self.state.with(|state| {
            state.entries.entry(key).or_default().insert(height);
        });
    }

    /// Adds to an entry what was committed. An entry that is not in memory will be read with it.
    pub fn publish(&self, key: Key, height: i64) {
        self.state.with(|state| {
            state.generation += 1;
            if let Some(heights) = state.entries.get_mut(&key) {
                heights.insert(height);
            }
        });
    }

    /// Forgets an entry.
    pub fn evict(&self, key: Key) {
        self.state.with(|state| {
            state.generation += 1;
            state.entries.remove(&key);
        });
    }
}
