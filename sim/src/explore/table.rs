//! The table of visited states: open addressing over fingerprints.
//!
//! Keys lie by themselves, four to a cache line, since most look-ups need nothing else: the state is
//! known. What is known of it lies beside, under the same place.

use super::hash::Key;

/// A map from fingerprints to small values.
#[derive(Debug)]
pub(crate) struct Table<V> {
    keys: Vec<Key>,
    values: Vec<V>,
    len: usize,
    keeps_values: bool,
}

/// Where a key is, or would be; valid until something is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Taken(usize),
    Free(usize),
}

const FIRST_PLACES: usize = 1 << 10;

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table {
            keys: Vec::new(),
            values: Vec::new(),
            len: 0,
            keeps_values: true,
        }
    }
}

impl<V: Copy + Default> Table<V> {
    /// A table for whoever only asks whether a key is there.
    pub(crate) fn without_values() -> Table<V> {
        Table {
            keeps_values: false,
            ..Table::default()
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.keys.len() * size_of::<Key>() + self.values.len() * size_of::<V>()) as u64
    }

    /// The values, in no order that means anything.
    pub(crate) fn values(&self) -> impl Iterator<Item = V> + '_ {
        let entries = self.keys.iter().zip(&self.values);
        entries
            .filter(|(key, _)| **key != Key::NONE)
            .map(|(_, value)| *value)
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        *self = Table {
            keeps_values: self.keeps_values,
            ..Table::default()
        };
    }

    /// Looks for a key; makes room for it first.
    #[inline]
    pub(crate) fn place(&mut self, key: Key) -> Place {
        // At most five of eight places are taken, so that runs stay short.
        if (self.len + 1) * 8 > self.keys.len() * 5 {
            self.grow();
        }
        let mask = self.keys.len() - 1;
        let mut at = key.word() as usize & mask;
        loop {
            let found = self.keys[at];
            if found == key {
                return Place::Taken(at);
            }
            if found == Key::NONE {
                return Place::Free(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Fills a free place.
    #[inline]
    pub(crate) fn fill(&mut self, at: usize, key: Key, value: V) {
        debug_assert_eq!(self.keys[at], Key::NONE);
        self.keys[at] = key;
        if self.keeps_values {
            self.values[at] = value;
        }
        self.len += 1;
    }

    /// The value at a taken place.
    ///
    /// # Panics
    /// If the table keeps no values.
    #[inline]
    pub(crate) fn value(&mut self, at: usize) -> &mut V {
        &mut self.values[at]
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.keys.len() * 2).max(FIRST_PLACES);
        let keys = std::mem::replace(&mut self.keys, vec![Key::NONE; places]);
        let fresh = vec![V::default(); if self.keeps_values { places } else { 0 }];
        let values = std::mem::replace(&mut self.values, fresh);
        let mask = places - 1;
        for (old, key) in keys.into_iter().enumerate() {
            if key == Key::NONE {
                continue;
            }
            let mut at = key.word() as usize & mask;
            while self.keys[at] != Key::NONE {
                at = (at + 1) & mask;
            }
            self.keys[at] = key;
            if self.keeps_values {
                self.values[at] = values[old];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_and_nothing_else() {
        let mut table = Table::default();
        let key = |n: u64| Key::from(super::super::mix(1, n, 2));
        for n in 0..5_000u64 {
            match table.place(key(n)) {
                Place::Free(at) => table.fill(at, key(n), n as u32),
                Place::Taken(_) => panic!("{n} was not put in yet"),
            }
        }
        assert_eq!(table.len(), 5_000);
        for n in 0..5_000u64 {
            match table.place(key(n)) {
                Place::Taken(at) => assert_eq!(*table.value(at), n as u32),
                Place::Free(_) => panic!("{n} is lost"),
            }
        }
        assert!(matches!(table.place(key(5_000)), Place::Free(_)));
        table.clear();
        assert!(matches!(table.place(key(1)), Place::Free(_)));
    }
}
