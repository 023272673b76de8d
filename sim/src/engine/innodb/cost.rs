//! What it costs to read a small table in one way or another, as the servers' optimisers reckon.
//!
//! The figures are thousandths of the unit of each server. They were found by asking `EXPLAIN` for tables of 3 to
//! 12 rows: from which number of rows on is another way taken? The servers add pages and rows up. What matters
//! here is which of two ways is cheaper.

use super::flavour::Server;

/// One way to read a part of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Through the clustered index.
    pub(super) clustered: bool,
    /// Through an index that has all columns that are read.
    pub(super) covering: bool,
    /// A query by equalities only (`ref`).
    pub(super) by_equality: bool,
    /// How many rows are expected, at least one for each range.
    pub(super) rows: u64,
    /// How many ranges are read.
    pub(super) ranges: u64,
}

/// What a way costs.
pub(super) fn of_way(server: Server, way: Way) -> u64 {
    let Way { rows, ranges, .. } = way;
    let several = ranges.saturating_sub(1);
    match server {
        Server::MySql97 => {
            let pages = match (way.by_equality, way.clustered, way.covering) {
                (_, true, _) => {
                    if rows <= 2 {
                        rows
                    } else {
                        ranges
                    }
                }
                (_, _, true) => 1,
                (true, ..) => return 350 * rows,
                _ => ranges + rows,
            };
            250 * pages + 100 * rows + 10
        }
        Server::MariaDb1011 => {
            let pages = match (way.by_equality, way.clustered, way.covering) {
                (_, true, _) if ranges == 1 => {
                    return 1_010 + 200 * rows;
                }
                (_, false, true) => return 910 + 200 * rows,
                (true, ..) => return 1_200 * rows,
                _ => 1 + rows,
            };
            1_000 * pages + 200 * rows + 10 + 100 * several
        }
        Server::MariaDb118 => match (way.by_equality, way.clustered, way.covering) {
            (_, true, _) | (_, _, true) if ranges == 1 => 300 + 30 * rows,
            (_, true, _) | (_, _, true) => 300 + 100 * rows,
            (true, ..) => 550 * rows,
            _ if ranges == 1 => 500 + 550 * rows,
            _ => 1_000 * rows,
        },
    }
}

/// What reading the whole table costs. With a limit MariaDB 10.11 reckons more, to use an index.
pub(super) fn of_table(server: Server, rows: u64, limit: Option<u64>) -> u64 {
    match server {
        Server::MariaDb1011 if limit.is_some_and(|limit| limit < rows) => 2_000 + 1_000 * rows,
        Server::MySql97 => 2_350 + 100 * rows,
        Server::MariaDb1011 => 3_900 + 200 * rows,
        Server::MariaDb118 => 5_000 + 50 * rows,
    }
}

/// What reading a whole index costs that has all columns that are read. MariaDB 11.8 prefers any range.
pub(super) fn of_covering_index(server: Server, clustered: bool, rows: u64) -> u64 {
    match server {
        Server::MySql97 if clustered => 300 + 100 * rows,
        Server::MySql97 => 250 + 100 * rows,
        Server::MariaDb1011 => 1_100 + 200 * rows,
        Server::MariaDb118 => u64::MAX,
    }
}

/// What it costs to read an index in its order until `wanted` rows were found, if `matching` of `all` rows match.
pub(super) fn of_ordered_index(server: Server, wanted: u64, matching: u64, all: u64) -> u64 {
    let page = match server {
        Server::MySql97 | Server::MariaDb118 => 250,
        Server::MariaDb1011 => 1_000,
    };
    page * wanted * all.max(1) / matching.max(1)
}
