//! Pages: where row versions and index entries lie.
//!
//! The place is computed from what is there, by sizes as a server would lay it out on pages of 8 KB,
//! so that it needs no state. It is exact for tables of one page, and for larger ones that only
//! grow.

use rowlock_model::{Row, Value};

use crate::engine::postgres::object::Key;
use crate::engine::postgres::{Object, RelId, Store, VersionId};

const PAGE: usize = 8192;
/// Larger tables are taken to have rows of equal size.
const MOST_ADDED_UP: usize = 1000;
const PAGE_HEADER: usize = 24;
const LINE_POINTER: usize = 4;
const ROW_HEADER: usize = 24;
/// What an index page has at its end.
const INDEX_SPECIAL: usize = 16;
const ENTRY_HEADER: usize = 8;

/// How far a table is filled: its last page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The number of the page.
    pub page: u32,
    /// How many rows were put on it.
    pub items: u32,
    used: usize,
}

impl Filled {
    /// Up to the last of some rows, given by place.
    pub(in crate::engine::postgres) fn through(rows: &[((u32, u32), Row)]) -> Filled {
        let Some(((page, items), _)) = rows.last() else {
            return Filled::default();
        };
        let last = rows.iter().filter(|((p, _), _)| p == page);
        Filled {
            page: *page,
            items: *items,
            used: PAGE_HEADER + last.map(|(_, row)| row_size(row)).sum::<usize>(),
        }
    }

    /// With one more row.
    pub(in crate::engine::postgres) fn with(self, row: &[Value]) -> Filled {
        let size = row_size(row);
        let used = self.used.max(PAGE_HEADER) + size;
        match used > PAGE && self.items > 0 {
            true => Filled {
                page: self.page + 1,
                items: 1,
                used: PAGE_HEADER + size,
            },
            false => Filled {
                items: self.items + 1,
                used,
                ..self
            },
        }
    }
}

impl Store {
    /// The page of its table on which a version lies.
    pub(super) fn page_of(&self, version: VersionId) -> u32 {
        self.place_of(version).0
    }

    /// Page, and item on it, of a version.
    pub(in crate::engine::postgres) fn place_of(&self, version: VersionId) -> (u32, u32) {
        let heap = self.heap(self.version(version).table);
        let rank = Store::place_in_order(&self.world, version) as usize;
        if heap.items.len() > MOST_ADDED_UP {
            let most = ((PAGE - PAGE_HEADER) / row_size(self.row(version))).max(1);
            return ((rank / most) as u32, (rank % most) as u32 + 1);
        }
        let (mut page, mut item, mut used) = (0, 0, PAGE_HEADER);
        for id in heap.items.iter().take(rank + 1) {
            let size = row_size(&self.version(*id).row);
            if used + size > PAGE && item > 0 {
                (page, item, used) = (page + 1, 0, PAGE_HEADER);
            }
            used += size;
            item += 1;
        }
        (page, item)
    }

    /// Whether two versions lie on one page.
    pub(in crate::engine::postgres) fn fits_beside(
        &self,
        version: VersionId,
        new: VersionId,
    ) -> bool {
        self.page_of(version) == self.page_of(new)
    }

    /// The leaf of an index, from 0, on which the entry of this rank lies, or would.
    pub(in crate::engine::postgres) fn leaf_of(&self, index: RelId, rank: usize) -> u32 {
        let entries = &self.index(index).entries;
        let Some(entry) = entries.first() else {
            return 0;
        };
        let data: usize = entry.key.iter().map(value_size).sum();
        let size = align(ENTRY_HEADER + data) + LINE_POINTER;
        let room = PAGE - PAGE_HEADER - INDEX_SPECIAL;
        let most = (room / size).max(1);
        if entries.len() <= most {
            return 0;
        }
        // Leaves split at the right end are left nine tenths full.
        let filled = (most * 9 / 10).max(1);
        let last = (entries.len() - 1) / filled;
        (rank / filled).min(last) as u32
    }

    /// The ranks of the entries whose keys start with `prefix`.
    pub(in crate::engine::postgres) fn span(
        &self,
        index: RelId,
        prefix: &[Value],
    ) -> std::ops::Range<usize> {
        let index = self.index(index);
        let from = index
            .entries
            .partition_point(|entry| index.compare(&entry.key, prefix).is_lt());
        from..from + index.equal(prefix).len()
    }

    /// The ranks from the first to the last of the entries of these versions.
    pub(in crate::engine::postgres) fn span_of(
        &self,
        index: RelId,
        versions: &[VersionId],
    ) -> std::ops::Range<usize> {
        let entries = self.index(index).entries.iter();
        let mut ranks = entries
            .enumerate()
            .filter(|(_, entry)| versions.contains(&entry.version))
            .map(|(rank, _)| rank);
        let first = ranks.next().unwrap_or(0);
        let last = ranks.next_back().unwrap_or(first);
        first..last + 1
    }

    /// The table of a table or index.
    pub(super) fn table_of(&self, rel: RelId) -> RelId {
        match self.world.find(Key::Index(rel)).map(|s| self.world.read(s)) {
            Some(Object::Index(index)) => index.shape.table,
            _ => rel,
        }
    }
}

/// What a row takes on its page.
pub(in crate::engine::postgres) fn row_size(row: &[Value]) -> usize {
    let data: usize = row.iter().map(value_size).sum();
    align(ROW_HEADER + data) + LINE_POINTER
}

/// What a value takes, roughly: its declared type is not known here.
fn value_size(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(n) if i32::try_from(*n).is_ok() => 4,
        Value::Text(text) => 1 + text.len(),
        Value::Bytes(bytes) => 1 + bytes.len(),
        Value::Array(items) => 24 + items.iter().map(value_size).sum::<usize>(),
        Value::Interval { .. } => 16,
        _ => 8,
    }
}

fn align(size: usize) -> usize {
    size.div_ceil(8) * 8
}
