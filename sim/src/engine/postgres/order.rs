//! The order of values in indexes.

use std::cmp::Ordering;

use rowlock_model::Value;

/// Compares two values of one type as a B-tree does, NULLs last. Text by bytes (collation "C").
pub fn compare_values(a: &Value, b: &Value) -> Ordering {
    todo!("{a:?} {b:?}")
}

/// Compares two keys column by column; `order` says for each column whether it is descending, and
/// whether NULLs come first. A shorter key is equal to every key that it is a prefix of.
pub fn compare_keys(a: &[Value], b: &[Value], order: &[(bool, bool)]) -> Ordering {
    todo!("{a:?} {b:?} {order:?}")
}
