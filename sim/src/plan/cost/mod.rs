//! Which way the server takes to the rows of one table: from end to end, through an index in its order
//! or backwards, or through a bitmap of what an index finds; and whether it has to sort then.
//!
//! The planner compares costs. They follow from sizes, from what it assumes of conditions when it has no
//! statistics, and from `LIMIT`; the formulas and constants are those of the manual (20.7.2 "Planner Cost
//! Constants", 76.1 "Row Estimation Examples", 64.6 "Index Cost Estimation Functions"), tried on
//! PostgreSQL 15 with its default settings. [`Ways`] is what a statement says; what is known only when
//! it runs comes in [`Sizes`] and [`Wanted`].

mod chance;
mod path;
mod size;
mod ways;

pub use self::path::Pathway;
pub use self::size::{estimated_rows, rows_a_page};
pub use self::ways::{OrderKey, ways};

use self::chance::Chance;
use self::path::{Choices, Path};
use crate::plan::query::KeyCondition;

/// The ways to the rows of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Ways {
    /// The share of rows that pass all conditions.
    share: Chance,
    /// Operators that all conditions call for a row.
    calls: f64,
    /// The order wanted, without what is the same in all rows: what is known of the values of each key.
    keys: Vec<Spread>,
    /// Where each of those keys is in `ORDER BY`.
    places: Vec<usize>,
    /// Those through indexes, in the order in which the planner tries them.
    pub list: Vec<Way>,
}

/// How many different values a sort key is taken to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// As many as rows.
    Unique,
    /// Two.
    Bool,
    /// It is not known.
    Unknown,
}

/// A way through an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The index, by its position in the table.
    pub index: usize,
    /// Conditions on its keys, in the order of the keys.
    pub keys: Vec<KeyCondition>,
    /// The share of rows between the ends of the search in the index.
    walked: Chance,
    /// The share of rows that pass all conditions on keys, and are in the index.
    found: Chance,
    /// Each key is compared with one value, and the index is unique.
    whole: bool,
    /// How many searches there are: a list of values needs one for each.
    searches: f64,
    /// As far as they begin in different places.
    places: f64,
    /// Operators to compute what keys are compared with.
    operands: f64,
    /// Operators of the conditions that the index does not answer.
    rest: f64,
    /// Entries of a page of a partial index.
    partial: Option<usize>,
    /// A B-tree.
    ordered: bool,
    /// How many keys of the order are given by the index, and by the index backwards.
    sorted: (usize, usize),
    /// There is a reason to try it without any condition on its keys: it is partial.
    tried: bool,
}

/// How large a table is when a statement is planned.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Pages that the planner reckons with.
    pub pages: f64,
    /// Rows that it takes the table to have.
    pub rows: f64,
    /// Pages of the index of each of [`Ways::list`].
    pub index_pages: Vec<f64>,
}

/// What is wanted of the rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// `LIMIT`.
    pub limit: Option<f64>,
    /// `OFFSET`.
    pub offset: f64,
    /// The share of rows that will be asked for, if it is below 1, or their number; 0: all.
    pub part: f64,
    /// The rows are locked one by one.
    pub locks: bool,
}

/// The way chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which.
    pub pathway: Pathway,
    /// How many keys of `ORDER BY` the rows are sorted by already: all, none, or some, by which they
    /// come in groups that are sorted.
    pub sorted: usize,
}

/// The way chosen, and what the planner expects of it.
#[derive(Clone, Copy, Debug)]
pub struct Reckoned {
    /// Which.
    pub chosen: Chosen,
    /// What it costs until the first row comes.
    pub startup: f64,
    /// What it costs to get all the rows wanted.
    pub total: f64,
    /// How many rows pass the conditions.
    pub rows: f64,
}

impl Ways {
    /// The sizes of a table that has so many pages, whose indexes have `index_pages`.
    pub fn sizes(
        &self,
        table: &crate::plan::catalog::Table,
        pages: usize,
        index_pages: impl Fn(usize) -> usize,
    ) -> Sizes {
        let list = self.list.iter();
        Sizes {
            pages: size::pages_taken(table, pages) as f64,
            rows: size::rows_taken(table, pages),
            index_pages: list.map(|way| index_pages(way.index) as f64).collect(),
        }
    }

    /// The way that costs least.
    pub fn choose(&self, sizes: &Sizes, wanted: &Wanted, order: usize) -> Chosen {
        self.reckon(sizes, wanted, order).chosen
    }

    /// The way that costs least, with what it costs.
    pub fn reckon(&self, sizes: &Sizes, wanted: &Wanted, order: usize) -> Reckoned {
        let fraction = match wanted.limit {
            Some(limit) => limit.max(1.0) + wanted.offset,
            None => wanted.part,
        };
        let keys = match order {
            0 => 0,
            _ => self.keys.len(),
        };
        let rows = clamp(sizes.rows * self.share.of(sizes.rows));
        let mut scans = Choices::new(fraction > 0.0);
        scans.add(Path::sequential(self, sizes, rows));
        let mut best: Option<Path> = None;
        for (at, way) in self.list.iter().enumerate() {
            let base = path::index_costs(way, sizes, at);
            let forward = way.sorted.0.min(keys);
            let backward = way.sorted.1.min(keys);
            let walk = |backward: bool, sorted: usize| {
                let pathway = Pathway::Walk { way: at, backward };
                Path::walk(way, pathway, &base, sizes, rows, sorted)
            };
            if !way.keys.is_empty() || forward > 0 || way.tried {
                scans.add(walk(false, forward));
            }
            if backward > 0 {
                scans.add(walk(true, backward));
            }
            let selects = way.found.of(sizes.rows) < 1.0;
            let tried = !way.keys.is_empty() || way.tried;
            if tried && (forward == 0 || selects) {
                let bitmap = Path::bitmap(self, at, &base, sizes, rows);
                if best.is_none_or(|b| bitmap.cheaper_bitmap(&b)) {
                    best = Some(bitmap);
                }
            }
        }
        if let Some(bitmap) = best {
            scans.add(bitmap);
        }
        if keys > 0 {
            scans = scans.sorted(self, sizes, keys, wanted);
        }
        let chosen = scans.limited(wanted).cheapest(fraction);
        let sorted = match chosen.given {
            all if all == keys => order,
            0 => 0,
            some => self.places[some],
        };
        Reckoned {
            chosen: Chosen {
                pathway: chosen.pathway,
                sorted,
            },
            startup: chosen.startup,
            total: chosen.total,
            rows,
        }
    }
}

/// A number of rows as the planner rounds it.
fn clamp(rows: f64) -> f64 {
    rows.round_ties_even().max(1.0)
}
