//! The cache and its mutex under loom.

use std::collections::BTreeSet;

use loom::future::block_on;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::cache::RangeCache;
use crate::sync::Mutex as AsyncMutex;

const KEY: (i64, i64) = (1, 1);

/// A reader that fills the cache, and a writer that commits and then publishes: whatever the order,
/// what the cache says afterwards is what is stored.
#[test]
fn loom_a_published_height_is_not_lost_to_a_reader() {
    loom::model(|| {
        let cache = Arc::new(RangeCache::new());
        let stored = Arc::new(Mutex::new(BTreeSet::new()));
        let reader = {
            let (cache, stored) = (Arc::clone(&cache), Arc::clone(&stored));
            thread::spawn(move || {
                let loading = cache.load();
                let read = stored.lock().unwrap().clone();
                cache.loaded(loading, KEY, read);
            })
        };
        stored.lock().unwrap().insert(7);
        cache.publish(KEY, 7);
        reader.join().unwrap();
        if let Some(known) = cache.get(KEY) {
            assert_eq!(known, *stored.lock().unwrap());
        }
    });
}

/// Eviction while a reader fills the cache: what was rolled back does not come back.
#[test]
fn loom_an_evicted_height_does_not_come_back() {
    loom::model(|| {
        let cache = Arc::new(RangeCache::new());
        cache.loaded(cache.load(), KEY, BTreeSet::new());
        let acker = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                // An attempt that is rolled back.
                cache.add(KEY, 7);
                cache.evict(KEY);
            })
        };
        let loading = cache.load();
        cache.loaded(loading, KEY, BTreeSet::new());
        acker.join().unwrap();
        assert!(cache.get(KEY).unwrap_or_default().is_empty());
    });
}

/// The mutex around the graph: a check and a change of two threads never meet in between.
#[test]
fn loom_the_cache_mutex_keeps_checks_and_changes_together() {
    loom::model(|| {
        let mutex = Arc::new(AsyncMutex::new(()));
        // Edges and the node that they need.
        let world = Arc::new(Mutex::new((0, true)));
        let adder = {
            let (mutex, world) = (Arc::clone(&mutex), Arc::clone(&world));
            thread::spawn(move || {
                block_on(async {
                    let _held = mutex.lock().await;
                    let has_node = world.lock().unwrap().1;
                    if has_node {
                        world.lock().unwrap().0 += 1;
                    }
                });
            })
        };
        block_on(async {
            let _held = mutex.lock().await;
            let edges = world.lock().unwrap().0;
            if edges == 0 {
                world.lock().unwrap().1 = false;
            }
        });
        adder.join().unwrap();
        let (edges, has_node) = *world.lock().unwrap();
        assert!(edges == 0 || has_node, "an edge without its node");
    });
}
