//! `EXISTS` as a join: what MySQL does with it, and what that means for the order of rows.

use rowlock_model::Dialect;

use crate::loose::expr::Expr;
use crate::loose::query::{Body, KeyOp, RangeKind, Select, SubPlan};

/// Whether rows leave a query in no order of an index, because an `EXISTS` or `NOT EXISTS` of its `WHERE`
/// is a hash join: MySQL makes a semijoin or an antijoin of it, and joins by hash where the inner table
/// has no index that begins with the column that is compared (MySQL manual, "Optimizing IN and EXISTS
/// Subquery Predicates with Semijoin Transformations", "Hash Join Optimization"; MySQL 9.7
/// says `Hash antijoin` in `EXPLAIN FORMAT=TREE`). Then `ORDER BY` sorts, and every candidate is read,
/// and locked, before the first row is returned. MariaDB runs the sub-select for each row.
pub(super) fn is_hashed(select: &Select, dialect: Dialect) -> bool {
    dialect == Dialect::MySql
        && select.source.filter.iter().any(|conjunct| {
            let expr = match &conjunct.expr {
                Expr::Not(inner) => inner,
                expr => expr,
            };
            matches!(expr, Expr::Exists(plan) if hashes(plan))
        })
}

/// Whether a sub-select is joined by a hash.
fn hashes(plan: &SubPlan) -> bool {
    let Body::Select(inner) = &plan.query.body else {
        return false;
    };
    let [entry] = &inner.source.range[..] else {
        return false;
    };
    let RangeKind::Table(table) = &entry.kind else {
        return false;
    };
    if inner.grouping.is_some() || plan.query.limit.is_some() {
        return false;
    }
    // What the other side of an equality reads is of the outer level if it is neither constant nor
    // of this one.
    let mut joins = entry.conditions.iter().filter(|condition| {
        let [operand] = &condition.operands[..] else {
            return false;
        };
        condition.op == KeyOp::Eq && matches!(operand, Expr::Column { level: 1, .. })
    });
    let has_index = |column: usize| {
        let mut indexes = table.indexes.iter();
        indexes.any(|index| index.keys.first().and_then(|key| key.column()) == Some(column))
    };
    let first = joins.next();
    first.is_some_and(|join| join.column.is_some_and(|column| !has_index(column)))
        && joins.all(|join| join.column.is_some_and(|column| !has_index(column)))
}
