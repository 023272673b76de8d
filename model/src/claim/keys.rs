//! Keys that are locked within one process, where the database has no locks of sessions (SQLite).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::sync::Lock;

/// The keys that deliveries of this process hold.
///
/// All queues of a process on one database file share one table (clones are the same table). It
/// knows nothing of other processes: **two processes on one file need the lease form.**
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    held: Arc<Lock<BTreeSet<Arc<str>>>>,
}

impl KeyTable {
    /// A table in which nothing is held.
    pub fn new() -> KeyTable {
        KeyTable::default()
    }

    /// Takes a key unless somebody holds it.
    pub fn try_lock(&self, key: &Arc<str>) -> Option<KeyHold> {
        let taken = self.held.with(|held| held.insert(Arc::clone(key)));
        taken.then(|| KeyHold {
            table: self.clone(),
            key: Arc::clone(key),
        })
    }

    /// How many keys are held.
    pub fn held(&self) -> usize {
        self.held.with(|held| held.len())
    }
}

/// A key that is held until this is dropped.
#[derive(Debug)]
pub struct KeyHold {
    table: KeyTable,
    key: Arc<str>,
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        self.table.held.with(|held| held.remove(&self.key));
    }
}
