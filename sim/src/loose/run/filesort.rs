//! Sorts of which only the first rows are wanted, and which of equal rows they give first.
//!
//! MariaDB keeps the first rows in a queue of one row more than the limit, the largest at its top. What comes
//! when the queue is full takes the place of the row at the top; so of equal rows it is not the first ones that
//! are kept. What is left is sorted in the order of the places in which the rows were put.

use std::cmp::Ordering;

/// The first `limit` of `rows`, and the one that is kept beside them, as the queue leaves them: not sorted.
pub(super) fn kept_by_queue<T>(
    rows: Vec<T>,
    limit: u64,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    let size = usize::try_from(limit.saturating_add(1)).unwrap_or(usize::MAX);
    if rows.len() <= size {
        return rows;
    }
    let mut places: Vec<T> = Vec::with_capacity(size);
    // A heap of numbers of places.
    let mut heap: Vec<usize> = Vec::with_capacity(size);
    for row in rows {
        if places.len() < size {
            places.push(row);
            heap.push(places.len() - 1);
            rise(&mut heap, |a, b| compare(&places[a], &places[b]));
        } else {
            places[heap[0]] = row;
            sink(&mut heap, |a, b| compare(&places[a], &places[b]));
        }
    }
    places
}

/// The last number of the heap goes up as long as it is larger than what is above it.
fn rise(heap: &mut [usize], compare: impl Fn(usize, usize) -> Ordering) {
    let mut at = heap.len() - 1;
    while at > 0 {
        let above = (at - 1) / 2;
        if compare(heap[at], heap[above]).is_le() {
            break;
        }
        heap.swap(at, above);
        at = above;
    }
}

/// The top goes down as long as something below it is larger.
fn sink(heap: &mut [usize], compare: impl Fn(usize, usize) -> Ordering) {
    let mut at = 0;
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let Some(below) = heap.get(left) else { return };
        let larger = match heap.get(right) {
            Some(other) if compare(*other, *below).is_gt() => right,
            _ => left,
        };
        if compare(heap[larger], heap[at]).is_le() {
            return;
        }
        heap.swap(at, larger);
        at = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::kept_by_queue;

    /// Rows `(id, v)` and what MariaDB 10.11 answered to `SELECT id .. ORDER BY v LIMIT n`.
    #[test]
    fn equal_rows_come_as_from_the_server() {
        let seen: [(&[i32], u64, &[usize]); 6] = [
            (&[0, 0], 1, &[1]),
            (&[0, 0, 0], 1, &[3]),
            (&[0, 0, 0], 2, &[1, 2]),
            (&[0, 0, 0, 0, 0, 0, 0], 3, &[7, 2, 3]),
            (&[2, 0, 3, 1, 0], 1, &[5]),
            (&[2, 0, 3, 1, 0], 2, &[5, 2]),
        ];
        for (values, limit, expected) in seen {
            let rows: Vec<(usize, i32)> = (1..).zip(values.iter().copied()).collect();
            let mut kept = kept_by_queue(rows, limit, |a, b| a.1.cmp(&b.1));
            kept.sort_by_key(|row| row.1);
            kept.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            let ids: Vec<usize> = kept.iter().map(|row| row.0).collect();
            assert_eq!(ids, expected, "{values:?} limit {limit}");
        }
    }
}
