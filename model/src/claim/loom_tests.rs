//! The slots under loom: every interleaving of the keeper with a settlement, on threads.

use loom::future::block_on;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::keys::KeyTable;
use super::slot::Slots;
use super::token::Token;
use crate::Value;
use crate::sync::{Mutex as AsyncMutex, Semaphore};

fn token(expiry_micros: i64) -> Token {
    Token {
        expiry_micros,
        fence: None,
    }
}

/// A row as the server has it: which end of the lease it holds, and whether it was settled.
#[derive(Debug, Default)]
struct Row {
    until: i64,
    settled: u32,
}

/// An extension and a settlement, both by token against one row. The settlement must find the
/// token that the extension left, whichever comes first and however the extension ends.
fn extension_against_settlement(reply_lost: bool) {
    loom::model(move || {
        let slots = Arc::new(Slots::default());
        let row = Arc::new(Mutex::new(Row {
            until: 10,
            settled: 0,
        }));
        let key = slots.insert(Value::Int(1), token(10));
        let keeper = {
            let (slots, row) = (Arc::clone(&slots), Arc::clone(&row));
            thread::spawn(move || {
                let Some(extension) = slots.begin_extend(key, 20) else {
                    return;
                };
                let hit = {
                    let mut row = row.lock().unwrap();
                    // What never arrived, and was answered by an error: the old token stays.
                    if !reply_lost && row.settled == 0 && row.until == extension.held.expiry_micros
                    {
                        row.until = 20;
                        true
                    } else {
                        false
                    }
                };
                match (reply_lost, hit) {
                    (true, _) => drop(extension),
                    (false, true) => extension.succeeded(),
                    (false, false) => extension.lost(),
                }
            })
        };
        let settling = block_on(slots.begin_settle(key)).expect("nobody took the row");
        {
            let mut row = row.lock().unwrap();
            assert_eq!(row.until, settling.token.expiry_micros, "a false loss");
            row.settled += 1;
        }
        settling.done();
        keeper.join().unwrap();
        assert_eq!(row.lock().unwrap().settled, 1);
        // The keeper must not have brought the slot back.
        assert!(slots.held().is_empty());
    });
}

#[test]
fn loom_extension_against_settlement() {
    extension_against_settlement(false);
}

#[test]
fn loom_failed_extension_against_settlement() {
    extension_against_settlement(true);
}

#[test]
fn loom_lost_lease_is_seen_by_the_settlement_that_waits() {
    loom::model(|| {
        let slots = Arc::new(Slots::default());
        let key = slots.insert(Value::Int(1), token(10));
        let extension = slots.begin_extend(key, 20).unwrap();
        let settler = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || block_on(slots.begin_settle(key)).is_err())
        };
        extension.lost();
        assert!(settler.join().unwrap(), "settled what was lost");
        assert!(slots.is_lost(key));
    });
}

#[test]
fn loom_a_settlement_ahead_is_not_undone_by_the_extension() {
    loom::model(|| {
        let slots = Arc::new(Slots::default());
        let key = slots.insert(Value::Int(1), token(10));
        let keeper = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                if let Some(extension) = slots.begin_extend(key, 20) {
                    extension.succeeded();
                }
            })
        };
        let settling = slots.settle_ahead(key).unwrap();
        let used = settling.token;
        settling.done();
        keeper.join().unwrap();
        assert!(used == token(10) || used == token(20));
        assert!(slots.held().is_empty());
    });
}

#[test]
fn loom_a_slot_used_again_is_not_touched_by_the_round_before() {
    loom::model(|| {
        let slots = Arc::new(Slots::default());
        let key = slots.insert(Value::Int(1), token(10));
        let keeper = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                for key in slots.held() {
                    if let Some(extension) = slots.begin_extend(key, 20) {
                        // By the token that belongs to the row, or not at all.
                        let old = extension.id == Value::Int(1);
                        assert_eq!(extension.held, token(if old { 10 } else { 15 }));
                        extension.lost();
                    }
                }
            })
        };
        if let Ok(settling) = slots.settle_ahead(key) {
            settling.done();
            let again = slots.insert(Value::Int(2), token(15));
            assert_eq!(again, key);
        }
        keeper.join().unwrap();
    });
}

#[test]
fn loom_semaphore_serves_everybody() {
    loom::model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let inside = Arc::new(Mutex::new(0));
        let work = |semaphore: Arc<Semaphore>, inside: Arc<Mutex<u32>>| {
            let permit = block_on(semaphore.acquire());
            *inside.lock().unwrap() += 1;
            assert_eq!(*inside.lock().unwrap(), 1);
            *inside.lock().unwrap() -= 1;
            drop(permit);
        };
        let other = {
            let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
            thread::spawn(move || work(semaphore, inside))
        };
        work(semaphore, inside);
        other.join().unwrap();
    });
}

#[test]
fn loom_mutex_loses_no_update() {
    loom::model(|| {
        let mutex = Arc::new(AsyncMutex::new(0));
        let other = {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || *block_on(mutex.lock()) += 1)
        };
        *block_on(mutex.lock()) += 1;
        other.join().unwrap();
        assert_eq!(*block_on(mutex.lock()), 2);
    });
}

#[test]
fn loom_keys_exclude_and_come_free() {
    loom::model(|| {
        let table = KeyTable::new();
        let inside = Arc::new(Mutex::new(0));
        let key: std::sync::Arc<str> = "tenant-1".into();
        let work = |table: KeyTable, key: std::sync::Arc<str>, inside: Arc<Mutex<u32>>| {
            let Some(hold) = table.try_lock(&key) else {
                return false;
            };
            *inside.lock().unwrap() += 1;
            assert_eq!(*inside.lock().unwrap(), 1, "two deliveries of one key");
            *inside.lock().unwrap() -= 1;
            drop(hold);
            true
        };
        let other = {
            let (table, key, inside) = (table.clone(), key.clone(), Arc::clone(&inside));
            thread::spawn(move || work(table, key, inside))
        };
        let mine = work(table.clone(), key, inside);
        let others = other.join().unwrap();
        assert!(mine || others, "a free key is had by somebody");
        assert_eq!(table.held(), 0);
    });
}

#[test]
fn loom_a_permit_that_is_tried_for_is_given_back() {
    loom::model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let other = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || drop(semaphore.try_acquire()))
        };
        // Whoever waits is served, also behind one who only tries.
        drop(block_on(semaphore.acquire()));
        other.join().unwrap();
        assert!(semaphore.try_acquire().is_some());
    });
}

/// A cached index that is changed by attempts which may be rolled back: what it says to a reader is
/// stored, since it is changed under its mutex only after the commit.
#[test]
fn loom_a_cache_behind_its_mutex_never_runs_ahead_of_the_store() {
    loom::model(|| {
        let stored = Arc::new(Mutex::new(0));
        let cache = Arc::new(AsyncMutex::new(0));
        let writer = {
            let (stored, cache) = (Arc::clone(&stored), Arc::clone(&cache));
            thread::spawn(move || {
                let mut cached = block_on(cache.lock());
                // The first attempt is rolled back: nothing may be left of it. The second commits.
                for commits in [false, true] {
                    let next = *cached + 1;
                    if commits {
                        *stored.lock().unwrap() = next;
                        *cached = next;
                    }
                }
            })
        };
        let seen = *block_on(cache.lock());
        assert!(
            seen <= *stored.lock().unwrap(),
            "acknowledged and not stored"
        );
        writer.join().unwrap();
        assert_eq!(*block_on(cache.lock()), 1);
    });
}
