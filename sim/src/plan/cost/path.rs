//! What a way costs, and which of several the planner keeps.

use super::chance::DISTINCT;
use super::{Sizes, Spread, Wanted, Way, Ways, clamp};

const SEQ_PAGE: f64 = 1.0;
const RANDOM_PAGE: f64 = 4.0;
const CPU_TUPLE: f64 = 0.01;
const CPU_INDEX_TUPLE: f64 = 0.005;
const CPU_OPERATOR: f64 = 0.0025;
/// Comparing two rows in a sort.
const COMPARISON: f64 = 2.0 * CPU_OPERATOR;
/// A page of an index that is passed on the way down, in operators.
const DESCENT: f64 = 50.0;
/// Costs that differ by less count as equal.
const FUZZ: f64 = 1.01;

/// How rows are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pathway {
    /// The table, from end to end.
    Sequential,
    /// A way through an index (by its number in [`Ways::list`]), in the order of the index.
    Walk {
        /// Which.
        way: usize,
        /// From its end.
        backward: bool,
    },
    /// A bitmap of what an index finds: in physical order.
    Bitmap {
        /// Which.
        way: usize,
    },
}

/// A way with its costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) pathway: Pathway,
    pub(super) startup: f64,
    pub(super) total: f64,
    rows: f64,
    /// How many keys of the order it gives.
    pub(super) sorted: usize,
    /// How many of those need no sort.
    pub(super) given: usize,
}

/// What the search in an index costs.
pub(super) struct IndexCosts {
    startup: f64,
    total: f64,
    share: f64,
}

/// Pages of a table fetched for so many rows in no order (Mackert and Lohman).
fn pages_fetched(rows: f64, pages: f64) -> f64 {
    let pages = pages.max(1.0);
    let fetched = 2.0 * pages * rows / (2.0 * pages + rows);
    match fetched >= pages {
        true => pages,
        false => fetched.ceil(),
    }
}

/// What the search in an index costs.
pub(super) fn index_costs(way: &Way, sizes: &Sizes, at: usize) -> IndexCosts {
    let pages = sizes.index_pages[at];
    let tuples = match way.partial {
        // The first page of an index has no entries.
        Some(entries) => (entries as f64 * (pages - 1.0)).min(sizes.rows),
        None => sizes.rows,
    };
    let share = way.found.of(sizes.rows);
    let walked = match (way.whole, way.ordered) {
        (true, _) => 1.0,
        (_, true) => (way.walked.of(sizes.rows) * sizes.rows / way.places).round_ties_even(),
        (_, false) => share * sizes.rows / way.searches,
    };
    let walked = match walked <= 0.0 {
        true => (share * sizes.rows / way.searches).round_ties_even(),
        false => walked,
    };
    let walked = walked.min(tuples).max(1.0);
    let leaves = match pages > 1.0 && tuples > 1.0 {
        true => (walked * pages / tuples).ceil(),
        false => 1.0,
    };
    let read = match way.searches > 1.0 {
        true => pages_fetched(leaves * way.searches, pages),
        false => leaves,
    };
    let operands = way.operands * CPU_OPERATOR;
    let mut startup = operands;
    let per_entry = CPU_INDEX_TUPLE + CPU_OPERATOR * way.keys.len() as f64;
    let mut total = read * RANDOM_PAGE + operands + walked * way.searches * per_entry;
    if way.ordered {
        if tuples > 1.0 {
            let descent = tuples.log2().ceil() * CPU_OPERATOR;
            startup += descent;
            total += way.searches * descent;
        }
        let height = if pages > 2.0 { 1.0 } else { 0.0 };
        let descent = (height + 1.0) * DESCENT * CPU_OPERATOR;
        startup += descent;
        total += way.searches * descent;
    }
    IndexCosts {
        startup,
        total,
        share,
    }
}

impl Path {
    /// From end to end.
    pub(super) fn sequential(ways: &Ways, sizes: &Sizes, rows: f64) -> Path {
        let per_row = CPU_TUPLE + CPU_OPERATOR * ways.calls;
        Path {
            pathway: Pathway::Sequential,
            startup: 0.0,
            total: sizes.pages * SEQ_PAGE + per_row * sizes.rows,
            rows,
            sorted: 0,
            given: 0,
        }
    }

    /// Through an index in its order.
    pub(super) fn walk(
        way: &Way,
        pathway: Pathway,
        index: &IndexCosts,
        sizes: &Sizes,
        rows: f64,
        sorted: usize,
    ) -> Path {
        let fetched = clamp(index.share * sizes.rows);
        // Without statistics the order of the index says nothing about the order of the rows.
        let read = pages_fetched(fetched, sizes.pages) * RANDOM_PAGE;
        let per_row = CPU_TUPLE + CPU_OPERATOR * way.rest;
        Path {
            pathway,
            startup: index.startup,
            total: index.total + read + per_row * fetched,
            rows,
            sorted,
            given: sorted,
        }
    }

    /// Through a bitmap.
    pub(super) fn bitmap(
        ways: &Ways,
        at: usize,
        index: &IndexCosts,
        sizes: &Sizes,
        rows: f64,
    ) -> Path {
        let fetched = clamp(index.share * sizes.rows);
        let pages = sizes.pages.max(1.0);
        let read = pages_fetched(fetched, pages);
        let per_page = match read >= 2.0 {
            true => RANDOM_PAGE - (RANDOM_PAGE - SEQ_PAGE) * (read / pages).sqrt(),
            false => RANDOM_PAGE,
        };
        // A search that gives a bitmap costs a little for each row of the table that passes.
        let startup = index.total + 0.1 * CPU_OPERATOR * rows;
        let per_row = CPU_TUPLE + CPU_OPERATOR * ways.calls;
        Path {
            pathway: Pathway::Bitmap { way: at },
            startup,
            total: startup + read * per_page + per_row * fetched,
            rows,
            sorted: 0,
            given: 0,
        }
    }

    /// Which of two bitmaps the planner takes.
    pub(super) fn cheaper_bitmap(&self, other: &Path) -> bool {
        self.total < other.total
    }

    /// With a sort of everything by the keys wanted.
    fn sort(self, keys: usize, wanted: &Wanted) -> Path {
        let (startup, run) = sort_costs(self.rows, wanted);
        Path {
            startup: self.total + startup,
            total: self.total + startup + run,
            sorted: keys,
            given: 0,
            ..self
        }
    }

    /// With a sort of each group that is equal in the keys that are there.
    fn sort_groups(self, ways: &Ways, sizes: &Sizes, keys: usize, wanted: &Wanted) -> Path {
        let rows = self.rows.max(2.0);
        let groups = ways.groups(self.sorted, sizes, self.rows).min(rows);
        let run = self.total - self.startup;
        let (first, rest) = sort_costs(rows / groups, wanted);
        let startup = first + self.startup + run / groups;
        let more = groups - 1.0;
        let mut after = rest + (rest + first) * more + run / groups * more;
        after += (CPU_TUPLE + COMPARISON) * rows + 2.0 * CPU_TUPLE * groups;
        Path {
            startup,
            total: startup + after,
            sorted: keys,
            ..self
        }
    }

    /// With row locks, offset and limit above.
    fn limit(mut self, wanted: &Wanted) -> Path {
        if wanted.locks {
            self.total += CPU_TUPLE * self.rows;
        }
        let rows = self.rows;
        let run = self.total - self.startup;
        if wanted.offset > 0.0 {
            let skipped = wanted.offset.min(rows);
            self.startup += run * skipped / rows;
            self.rows = (self.rows - skipped).max(1.0);
        }
        if let Some(limit) = wanted.limit {
            let count = limit.max(1.0).min(self.rows);
            self.total = self.startup + run * count / rows;
            self.rows = count;
        }
        self
    }
}

/// What sorting so many rows costs: before the first one comes, and then.
fn sort_costs(rows: f64, wanted: &Wanted) -> (f64, f64) {
    let rows = rows.max(2.0);
    let kept = match wanted.limit {
        Some(limit) if limit + wanted.offset < rows => limit.max(1.0) + wanted.offset,
        _ => rows,
    };
    let compared = match rows > 2.0 * kept {
        true => 2.0 * kept,
        false => rows,
    };
    (COMPARISON * rows * compared.log2(), CPU_OPERATOR * rows)
}

impl Ways {
    /// How many groups the first keys of the order make among so many rows.
    fn groups(&self, keys: usize, sizes: &Sizes, rows: f64) -> f64 {
        let mut product = 1.0;
        let mut most: f64 = 1.0;
        let mut counted = 0;
        for spread in &self.keys[..keys] {
            let values = match spread {
                Spread::Unique => sizes.rows,
                Spread::Bool => 2.0,
                Spread::Unknown => DISTINCT.min(sizes.rows),
            };
            product *= values;
            most = most.max(values);
            counted += 1;
        }
        let mut limit = sizes.rows;
        if counted > 1 {
            limit = (limit * 0.1).max(most).min(sizes.rows);
        }
        let mut values = product.min(limit);
        if rows < sizes.rows {
            let missed = (sizes.rows - rows) / sizes.rows;
            values *= 1.0 - missed.powf(sizes.rows / values);
        }
        clamp(values).min(rows.max(1.0)).max(1.0)
    }
}

/// The paths that the planner keeps.
pub(super) struct Choices {
    list: Vec<Path>,
    /// What it costs until the first row counts too.
    startup: bool,
}

#[derive(PartialEq, Eq)]
enum Costs {
    Equal,
    Better,
    Worse,
    Different,
}

impl Choices {
    pub(super) fn new(startup: bool) -> Choices {
        Choices {
            list: Vec::with_capacity(4),
            startup,
        }
    }

    fn compare(&self, a: &Path, b: &Path, fuzz: f64) -> Costs {
        if a.total > b.total * fuzz {
            return match self.startup && b.startup > a.startup * fuzz {
                true => Costs::Different,
                false => Costs::Worse,
            };
        }
        if b.total > a.total * fuzz {
            return match self.startup && a.startup > b.startup * fuzz {
                true => Costs::Different,
                false => Costs::Better,
            };
        }
        if a.startup > b.startup * fuzz {
            return Costs::Worse;
        }
        if b.startup > a.startup * fuzz {
            return Costs::Better;
        }
        Costs::Equal
    }

    /// Takes a path in, unless there is one that is as good in every way, and drops those that it beats.
    pub(super) fn add(&mut self, new: Path) {
        let mut accepted = true;
        let mut insert_at = 0;
        let mut at = 0;
        while at < self.list.len() {
            let old = self.list[at];
            let costs = self.compare(&new, &old, FUZZ);
            let mut remove = false;
            let order = new.sorted.cmp(&old.sorted);
            match costs {
                Costs::Different => {}
                Costs::Equal if order.is_gt() => remove = true,
                Costs::Equal if order.is_lt() => accepted = false,
                Costs::Equal => match self.compare(&new, &old, 1.000_000_000_1) {
                    Costs::Better => remove = true,
                    _ => accepted = false,
                },
                Costs::Better => remove = order.is_ge(),
                Costs::Worse => accepted = order.is_gt(),
            }
            if remove {
                self.list.remove(at);
            } else {
                if new.total >= old.total {
                    insert_at = at + 1;
                }
                at += 1;
            }
            if !accepted {
                return;
            }
        }
        self.list.insert(insert_at.min(self.list.len()), new);
    }

    fn cheapest_total(&self) -> Path {
        let mut best = self.list[0];
        for path in &self.list[1..] {
            let order = best
                .total
                .total_cmp(&path.total)
                .then(best.startup.total_cmp(&path.startup));
            if order.is_gt() || (order.is_eq() && path.sorted > best.sorted) {
                best = *path;
            }
        }
        best
    }

    /// The paths in the order wanted: as they are, or sorted.
    pub(super) fn sorted(
        self,
        ways: &Ways,
        sizes: &Sizes,
        keys: usize,
        wanted: &Wanted,
    ) -> Choices {
        let mut sorted = Choices::new(self.startup);
        let cheapest = self.cheapest_total().pathway;
        for path in self.list {
            if path.sorted == keys {
                sorted.add(path);
                continue;
            }
            if path.pathway == cheapest {
                sorted.add(path.sort(keys, wanted));
            }
            if path.sorted > 0 {
                sorted.add(path.sort_groups(ways, sizes, keys, wanted));
            }
        }
        sorted
    }

    /// The paths with row locks and limit above.
    pub(super) fn limited(self, wanted: &Wanted) -> Choices {
        let mut last = Choices::new(self.startup);
        for path in self.list {
            last.add(path.limit(wanted));
        }
        last
    }

    /// The path that is cheapest for a part of the rows.
    pub(super) fn cheapest(&self, fraction: f64) -> Path {
        let mut best = self.cheapest_total();
        let mut part = fraction;
        if part >= 1.0 {
            part /= best.rows;
        }
        if part > 0.0 && part < 1.0 {
            let cost = |p: &Path| p.startup + part * (p.total - p.startup);
            for path in &self.list {
                if cost(path) < cost(&best) {
                    best = *path;
                }
            }
        }
        best
    }
}
