//! Pages of indexes that are no B-trees, as SIREAD locks see them.
//!
//! *Hash*: a key is in the page of its bucket. How many buckets there are at first follows from how many
//! rows the server takes the table to have; there is one more whenever there are more than 307 rows for
//! each, which takes rows of an old one, and its locks with them.
//!
//! *GIN*: the elements of the indexed arrays are entries in leaves, in their order; an element of
//! very many rows has a tree of its own, whose root stands for it. With `fastupdate`, new rows wait in
//! a list that every search reads too: the first page of the index stands for that list.
//!
//! Manual: 13.2.3, 72 "Hash Indexes", 70 "GIN Indexes".

use std::collections::BTreeMap;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Value};

use super::{SxactId, Target};
use crate::engine::postgres::object::Key;
use crate::engine::postgres::{RelId, Store, compare_values};
use crate::plan::catalog::IndexMethod;
use crate::plan::expr::hash::hash_text;

/// Rows a bucket, on average, before there is one more.
const ROWS_A_BUCKET: usize = 307;

/// The page of a GIN index that stands for its list of new rows.
const PENDING: u32 = 0;
/// The number of the first entry leaf.
const FIRST_LEAF: u32 = 1;
/// Trees of single elements have numbers from here on.
const FIRST_TREE: u32 = 1 << 31;
/// How many entries fit on one leaf, and how many are left on one when it is split.
const MOST_ENTRIES: usize = 290;
const KEPT_ENTRIES: usize = 145;
/// Places of rows are kept with an element while they need no more bytes.
const MOST_BYTES: usize = 2_690;
/// Rows that the places of a page's rows cost one byte more for.
const ROWS_A_PAGE: usize = 200;

/// What a search in an index looks for.
#[derive(Clone, Debug)]
pub(in crate::engine::postgres) enum Searched {
    /// The entries of a B-tree between two ranks.
    Ranks(std::ops::Range<usize>),
    /// Keys of a hash index, or elements of a GIN index.
    Keys(Vec<Value>),
}

/// The bucket of a hash among so many buckets.
fn bucket(hash: u32, buckets: u32) -> u32 {
    let mask = buckets.next_power_of_two() - 1;
    let bucket = hash & mask;
    if bucket >= buckets {
        bucket & (mask >> 1)
    } else {
        bucket
    }
}

/// How many buckets a hash index is made with for so many rows.
pub(in crate::engine::postgres) fn first_buckets(rows: usize) -> u32 {
    (rows / ROWS_A_BUCKET).max(2).next_power_of_two() as u32
}

/// How many there are for so many rows.
fn buckets(first: u32, rows: usize) -> u32 {
    first.max(rows.div_ceil(ROWS_A_BUCKET) as u32)
}

/// The hash by which a value is put into a bucket, as the server computes it for the type.
fn hash(value: &Value) -> Result<u32, DbError> {
    let hash = match value {
        Value::Bool(b) => hash_text(&u32::from(*b).to_le_bytes()),
        Value::Int(n) => {
            // An eight-byte integer has the hash of a four-byte one of the same value.
            let (low, high) = (*n as u32, (*n >> 32) as u32);
            let folded = low ^ if *n >= 0 { high } else { !high };
            hash_text(&folded.to_le_bytes())
        }
        Value::Text(text) => hash_text(text.as_bytes()),
        _ => {
            let what = "a hash index on this type at SERIALIZABLE";
            return Err(DbError::unsupported(what, None));
        }
    };
    Ok(hash as u32)
}

/// An element, ordered.
#[derive(Clone, Debug)]
struct Element(Value);

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> std::cmp::Ordering {
        compare_values(&self.0, &other.0)
    }
}

/// The elements of an indexed array.
fn elements(key: &Value) -> Vec<Value> {
    match key {
        Value::Array(items) => items.iter().filter(|v| !v.is_null()).cloned().collect(),
        _ => Vec::new(),
    }
}

impl Store {
    /// How an index is organised, as a session sees it.
    fn method_of(&self, session: SessionId, index: RelId) -> IndexMethod {
        self.method_seen(Some(session), index)
    }

    /// The number of a page as the server would give it: in a B-tree, the metapage and the root have
    /// numbers too.
    pub(super) fn page_number(&self, rel: RelId, page: u32) -> u32 {
        if self.world.find(Key::Index(rel)).is_none() {
            return page;
        }
        match self.method_seen(None, rel) {
            IndexMethod::BTree if page < 2 => page + 1,
            IndexMethod::BTree => page + 2,
            IndexMethod::Hash { .. } => page + 1,
            IndexMethod::Gin { .. } => page,
        }
    }

    fn method_seen(&self, by: Option<SessionId>, index: RelId) -> IndexMethod {
        let table = self.table_of(index);
        let (schema, _) = self.catalog_unrecorded().view(by);
        let indexes = schema.tables.get(&table).map_or(&[][..], |t| &t.indexes);
        let found = indexes.iter().find(|i| i.id == index);
        found.map_or(IndexMethod::BTree, |i| i.method)
    }

    /// The pages of an index that a search looks at, or nothing if the index has none yet.
    pub(super) fn pages_searched(
        &self,
        session: SessionId,
        index: RelId,
        searched: &Searched,
    ) -> Result<Option<Vec<u32>>, DbError> {
        let keys = match searched {
            Searched::Ranks(ranks) => {
                let rooted = self.index(index).rooted;
                let leaf = |rank: usize| self.leaf_of(index, rank);
                return Ok(rooted.then(|| (leaf(ranks.start)..=leaf(ranks.end)).collect()));
            }
            Searched::Keys(keys) => keys,
        };
        Ok(Some(match self.method_of(session, index) {
            IndexMethod::Gin { fast_update } => {
                let mut pages = vec![PENDING];
                if !fast_update {
                    pages.extend(self.entry_pages(index, keys));
                }
                pages
            }
            IndexMethod::Hash { buckets } => self.bucket_pages(index, buckets, keys)?,
            IndexMethod::BTree => unreachable!("a B-tree is searched by ranks"),
        }))
    }

    /// The pages to which a new entry of an index goes.
    pub(super) fn pages_entered(
        &self,
        session: SessionId,
        index: RelId,
        key: &[Value],
    ) -> Result<Vec<u32>, DbError> {
        match self.method_of(session, index) {
            IndexMethod::BTree => {
                let shape = self.index(index);
                let rank = shape
                    .entries
                    .partition_point(|entry| shape.compare(&entry.key, key).is_lt());
                Ok(vec![self.leaf_of(index, rank)])
            }
            // NULL is no key of a hash index.
            IndexMethod::Hash { .. } if key[0].is_null() => Ok(Vec::new()),
            IndexMethod::Hash { buckets } => self.bucket_pages(index, buckets, key),
            IndexMethod::Gin { fast_update: true } => Ok(vec![PENDING]),
            IndexMethod::Gin { fast_update: false } => {
                Ok(self.entry_pages(index, &elements(&key[0])))
            }
        }
    }

    fn bucket_pages(&self, index: RelId, first: u32, keys: &[Value]) -> Result<Vec<u32>, DbError> {
        let buckets = buckets(first, self.index(index).entries.len());
        keys.iter()
            .map(|key| Ok(bucket(hash(key)?, buckets)))
            .collect()
    }

    /// The pages of elements: the tree of one that has its own, else the leaf where it is or would be.
    fn entry_pages(&self, index: RelId, wanted: &[Value]) -> Vec<u32> {
        let mut rows: BTreeMap<Element, usize> = BTreeMap::new();
        for entry in &self.index(index).entries {
            for element in elements(&entry.key[0]) {
                *rows.entry(Element(element)).or_default() += 1;
            }
        }
        let last = match rows.len() {
            0..=MOST_ENTRIES => 0,
            more => (more - 1) / KEPT_ENTRIES,
        };
        let page = |element: &Value| {
            let element = Element(element.clone());
            let count = rows.get(&element).copied().unwrap_or(0);
            if count + count / ROWS_A_PAGE > MOST_BYTES {
                let digest = hash_text(element.0.to_string().as_bytes());
                return FIRST_TREE | digest as u32;
            }
            let rank = rows.range(..element).count();
            FIRST_LEAF + (rank / KEPT_ENTRIES).min(last) as u32
        };
        let mut pages: Vec<u32> = wanted.iter().map(page).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// An entry was added to a hash index: if that made one more bucket, who has read the old one has
    /// read it too.
    pub(super) fn ssi_split_bucket(&mut self, session: SessionId, index: RelId) {
        let IndexMethod::Hash { buckets: first } = self.method_of(session, index) else {
            return;
        };
        let rows = self.index(index).entries.len();
        let (before, now) = (buckets(first, rows), buckets(first, rows + 1));
        if before == now {
            return;
        }
        let old = Target::Page(index, (now - 1) & ((now.next_power_of_two() - 1) >> 1));
        let readers = self.ssi().xacts.iter();
        let readers = readers.filter(|x| x.locks.binary_search(&old).is_ok());
        let readers: Vec<SxactId> = readers.map(|x| x.id).collect();
        for reader in readers {
            self.lock_read(reader, Target::Page(index, now - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_server() {
        // SELECT hashint4(10), hashint8(5), hashint8(-5), hashint2(7), hashtext('a').
        let of = |value: Value| hash(&value).map(|h| h as i32);
        assert_eq!(of(Value::Int(10)), Ok(-1_547_814_713));
        assert_eq!(of(Value::Int(5)), Ok(-1_330_264_708));
        assert_eq!(of(Value::Int(-5)), Ok(1_412_886_042));
        assert_eq!(of(Value::Int(7)), Ok(-978_793_473));
        assert_eq!(of(Value::text("a")), Ok(1_075_015_857));
    }

    #[test]
    fn a_bucket_is_split_when_it_is_its_turn() {
        assert_eq!((first_buckets(0), first_buckets(2_260)), (2, 8));
        assert_eq!([0, 614, 615].map(|rows| buckets(2, rows)), [2, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|h| bucket(h, 2)), [0, 1, 0, 1]);
        assert_eq!([0, 1, 2, 3, 6].map(|h| bucket(h, 3)), [0, 1, 2, 1, 2]);
    }
}
