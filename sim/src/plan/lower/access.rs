//! Which index a condition can use.
//!
//! For joins and tables with descendants the rule is a simple one, which PostgreSQL follows for tables that were
//! never analysed: a condition on the leading column of a usable index means access through the index. A table that
//! is read alone has [`crate::plan::cost`].

use std::collections::BTreeMap;

use rowlock_model::{DbError, Row, Value};

use crate::plan::catalog::{Index, IndexMethod, Table};
use crate::plan::expr::{
    Compare, Comparison, Expr, Function, Host, HostFunction, Scope, SystemColumn, test,
};
use crate::plan::query::{
    Access, Conjunct, From, Join, KeyCondition, KeyOp, RangeKind, Source, SubPlan,
};
use crate::plan::types::Type;
use crate::plan::walk;

/// Fills in the access paths of every stored table.
pub(super) fn choose(source: &mut Source) {
    let conditions = conditions(source);
    for i in 0..source.range.len() {
        let RangeKind::Table(table) = source.range[i].kind.clone() else {
            continue;
        };
        let paths = paths(&table, i as u32, &conditions);
        let entry = &mut source.range[i];
        entry.access = first_bound(&paths);
        entry.paths = paths;
    }
}

/// The conditions that may be used to find rows.
pub(super) fn conditions(source: &Source) -> Vec<Conjunct> {
    let mut conditions: Vec<Conjunct> = source.filter.clone();
    if let Some(from) = &source.from {
        join_conditions(from, &mut conditions);
    }
    conditions
}

/// The access through an index that needs nothing else to be bound.
pub(super) fn first_bound(paths: &[Access]) -> Access {
    let mut bound = paths.iter().filter_map(|path| bound(path, 0));
    bound.next().unwrap_or_default()
}

/// Every index path of a table that is read in the place of its ancestor at an entry.
pub(super) fn member_paths(
    table: &Table,
    columns: Option<&[usize]>,
    entry: usize,
    conditions: &[Conjunct],
) -> Vec<Access> {
    let Some(columns) = columns else {
        return paths(table, entry as u32, conditions);
    };
    // Its indexes as they would be on the ancestor's columns.
    let mut table = table.clone();
    let moved = |expr: &mut Expr| {
        walk::expr(expr, 0, &mut |e, depth| {
            if let Expr::Column { level, column, .. } = e
                && *level == depth
            {
                let at = columns.iter().position(|c| *c == *column as usize);
                *column = at.map_or(u32::MAX, |at| at as u32);
            }
            true
        });
    };
    for index in &mut table.indexes {
        for key in &mut index.keys {
            moved(&mut key.expr);
        }
        if let Some(predicate) = &mut index.predicate {
            moved(predicate);
        }
    }
    paths(&table, entry as u32, conditions)
}

/// Conditions on an expression of the catalogue with operands that need no rows.
pub(super) fn conditions_on(key: &Expr, entry: u32, conditions: &[Conjunct]) -> Vec<KeyCondition> {
    let wanted = at_entry(key, entry);
    let plain = conditions.iter().filter(|c| !c.volatile);
    plain
        .filter_map(|conjunct| {
            let (op, operand) = match_key(&conjunct.expr, &wanted)?;
            Some(KeyCondition {
                key: 0,
                op,
                operand: operand.clone(),
                uses: walk::entries_used(operand),
            })
        })
        .filter(|condition| condition.uses == 0)
        .collect()
}

/// Conditions of joins that may be used to find rows: of inner joins, and of outer joins for the
/// side that is looked up.
fn join_conditions(from: &From, out: &mut Vec<Conjunct>) {
    if let From::Join {
        kind,
        left,
        right,
        on,
    } = from
    {
        join_conditions(left, out);
        join_conditions(right, out);
        if *kind != Join::Full {
            out.extend(on.iter().cloned());
        }
    }
}

/// The path with only those conditions that need no entries beyond `ready`; nothing if the leading
/// condition does.
fn bound(path: &Access, ready: u64) -> Option<Access> {
    let Access::Index { index, keys } = path else {
        return None;
    };
    let keys: Vec<KeyCondition> = keys
        .iter()
        .filter(|k| k.uses & !ready == 0)
        .cloned()
        .collect();
    keys.iter().any(|k| k.key == 0).then_some(Access::Index {
        index: *index,
        keys,
    })
}

/// Every index path of a table, best first.
fn paths(table: &Table, entry: u32, conditions: &[Conjunct]) -> Vec<Access> {
    let mut scored: Vec<((usize, bool, usize), Access)> = Vec::new();
    for (position, index) in table.indexes.iter().enumerate() {
        if !is_usable(index, entry, conditions) {
            continue;
        }
        // Constant conditions and those on other entries make separate paths.
        for joins in [false, true] {
            let keys = key_conditions(index, entry, conditions, joins);
            let leads = keys.iter().any(|k| k.key == 0);
            let needed = joins && keys.iter().all(|k| k.uses == 0);
            if !leads || needed {
                continue;
            }
            let equal = (0..index.keys.len())
                .take_while(|i| {
                    keys.iter().any(|k| {
                        k.key == *i && matches!(k.op, KeyOp::Eq | KeyOp::Any | KeyOp::IsNull)
                    })
                })
                .count();
            let whole = index.unique && equal == index.keys.len();
            // One of two values is expected to leave half of the rows: no use for an index.
            let tells = |k: &KeyCondition| k.op != KeyOp::Eq || index.keys[k.key].ty != Type::Bool;
            if !whole && !keys.iter().any(tells) {
                continue;
            }
            let score = (equal, whole, keys.len());
            scored.push((
                score,
                Access::Index {
                    index: position,
                    keys,
                },
            ));
        }
    }
    // Stable: of equal ones the index made first.
    scored.sort_by(|(a, _), (b, _)| b.cmp(a));
    scored.into_iter().map(|(_, path)| path).collect()
}

/// Whether a partial index's predicate follows from the conditions.
pub(in crate::plan) fn is_usable(index: &Index, entry: u32, conditions: &[Conjunct]) -> bool {
    let Some(predicate) = &index.predicate else {
        return true;
    };
    let known: Vec<&Expr> = conditions.iter().map(|c| &c.expr).collect();
    implies(&known, &at_entry(predicate, entry), entry)
}

/// An expression of the catalogue (over entry 0) read at another entry.
pub(in crate::plan) fn at_entry(expr: &Expr, to: u32) -> Expr {
    let mut expr = expr.clone();
    walk::expr(&mut expr, 0, &mut |e, depth| {
        if let Expr::Column { level, entry, .. } = e
            && *level == depth
        {
            *entry = to;
        }
        true
    });
    expr
}

/// The conditions on the keys of an index; `joins`: those too that need other entries to be bound.
pub(in crate::plan) fn key_conditions(
    index: &Index,
    entry: u32,
    conditions: &[Conjunct],
    joins: bool,
) -> Vec<KeyCondition> {
    let mut keys = Vec::new();
    for (i, key) in index.keys.iter().enumerate() {
        let wanted = at_entry(&key.expr, entry);
        for conjunct in conditions.iter().filter(|c| !c.volatile) {
            if let Some((op, operand)) = match_key(&conjunct.expr, &wanted)
                && finds(index.method, op)
            {
                let uses = walk::entries_used(operand);
                if uses & (1 << entry) != 0 || (!joins && uses != 0) {
                    continue;
                }
                keys.push(KeyCondition {
                    key: i,
                    op,
                    operand: operand.clone(),
                    uses,
                });
            }
        }
    }
    keys
}

/// Whether an index of a method can be searched for a condition.
fn finds(method: IndexMethod, op: KeyOp) -> bool {
    match method {
        IndexMethod::BTree => op != KeyOp::Contains,
        IndexMethod::Hash { .. } => matches!(op, KeyOp::Eq | KeyOp::Any),
        IndexMethod::Gin { .. } => op == KeyOp::Contains,
    }
}

/// `key op operand`, whichever side the key is on.
pub(in crate::plan) fn match_key<'e>(condition: &'e Expr, key: &Expr) -> Option<(KeyOp, &'e Expr)> {
    match condition {
        Expr::Compare { op, by, sides } if *by != Comparison::Jsonb => {
            let (op, operand) = if sides.0 == *key {
                (*op, &sides.1)
            } else if sides.1 == *key {
                (op.flipped(), &sides.0)
            } else {
                return None;
            };
            let op = match op {
                Compare::Eq => KeyOp::Eq,
                Compare::Lt => KeyOp::Lt,
                Compare::Le => KeyOp::Le,
                Compare::Gt => KeyOp::Gt,
                Compare::Ge => KeyOp::Ge,
                Compare::Ne => return None,
            };
            Some((op, operand))
        }
        Expr::AnyOfArray {
            op: Compare::Eq,
            all: false,
            by: _,
            sides,
        } if sides.0 == *key => Some((KeyOp::Any, &sides.1)),
        Expr::IsNull {
            expr,
            negated: false,
        } if **expr == *key => Some((KeyOp::IsNull, &NULL)),
        Expr::Call {
            function: Function::ArrayContains,
            args,
        } => match &args[..] {
            [array, operand] if array == key => Some((KeyOp::Contains, operand)),
            _ => None,
        },
        // A boolean key that must be true, or false.
        Expr::Not(inner) if **inner == *key => Some((KeyOp::Eq, &FALSE)),
        other if other == key => Some((KeyOp::Eq, &TRUE)),
        _ => None,
    }
}

static TRUE: Expr = Expr::Const(Value::Bool(true));
static FALSE: Expr = Expr::Const(Value::Bool(false));
static NULL: Expr = Expr::Const(Value::Null);

/// Whether `conclusion` is true whenever all of `known` are. Knows equal conditions, and tries
/// conditions of the form `column = constant` and `column IN (constants)` out.
pub(in crate::plan) fn implies(known: &[&Expr], conclusion: &Expr, entry: u32) -> bool {
    let parts: Vec<&Expr> = match conclusion {
        Expr::And(parts) => parts.iter().collect(),
        one => vec![one],
    };
    let flat: Vec<&Expr> = known
        .iter()
        .flat_map(|e| match e {
            Expr::And(parts) => parts.iter().collect::<Vec<_>>(),
            one => vec![*one],
        })
        .collect();
    parts
        .into_iter()
        .all(|part| flat.contains(&part) || follows(&flat, part, entry))
}

/// Whether `part` holds for every value that the conditions leave to its columns.
fn follows(known: &[&Expr], part: &Expr, entry: u32) -> bool {
    let mut columns: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    let mut simple = true;
    walk::expr(&mut part.clone(), 0, &mut |e, _| {
        match e {
            Expr::Column {
                level: 0,
                entry: of,
                column,
            } if *of == entry => {
                columns.entry(*column).or_default();
            }
            Expr::Column { .. }
            | Expr::System { .. }
            | Expr::Param(_)
            | Expr::Host { .. }
            | Expr::Routine { .. }
            | Expr::Subquery(_)
            | Expr::Exists(_)
            | Expr::AnyOfRows { .. }
            | Expr::ArraySubquery(_) => simple = false,
            _ => {}
        }
        true
    });
    // `x IS NOT NULL` follows from any strict comparison of x.
    if let Expr::IsNull {
        expr,
        negated: true,
    } = part
        && known.iter().any(|k| {
            matches!(k, Expr::Compare { sides, .. } if sides.0 == **expr || sides.1 == **expr)
                || matches!(k, Expr::AnyOfArray { sides, .. } if sides.0 == **expr)
        })
    {
        return true;
    }
    if !simple || columns.len() != 1 {
        return false;
    }
    let Some((column, _)) = columns.pop_first() else {
        return false;
    };
    let target = Expr::Column {
        level: 0,
        entry,
        column,
    };
    let values = known.iter().find_map(|k| possible(k, &target));
    values.is_some_and(|values| values.iter().all(|v| holds(part, entry, column, v)))
}

/// The constants that a condition leaves to a column.
fn possible(condition: &Expr, column: &Expr) -> Option<Vec<Value>> {
    match condition {
        Expr::Compare {
            op: Compare::Eq,
            sides,
            ..
        } => match &**sides {
            (left, Expr::Const(value)) | (Expr::Const(value), left) if left == column => {
                Some(vec![value.clone()])
            }
            _ => None,
        },
        Expr::AnyOfArray {
            op: Compare::Eq,
            all: false,
            sides,
            ..
        } if sides.0 == *column => match &sides.1 {
            Expr::Array(items) => items
                .iter()
                .map(|i| match i {
                    Expr::Const(value) => Some(value.clone()),
                    _ => None,
                })
                .collect(),
            Expr::Const(Value::Array(items)) => Some(items.to_vec()),
            _ => None,
        },
        Expr::IsNull {
            expr,
            negated: false,
        } if **expr == *column => Some(vec![Value::Null]),
        _ => None,
    }
}

/// Whether a condition over one column is true for a value of it.
fn holds(condition: &Expr, entry: u32, column: u32, value: &Value) -> bool {
    let mut row = vec![Value::Null; column as usize + 1];
    row[column as usize] = value.clone();
    let mut rows: Vec<&[Value]> = vec![&[]; entry as usize + 1];
    rows[entry as usize] = &row;
    let scope = Scope {
        rows: &rows,
        ..Scope::empty(&[])
    };
    matches!(test(condition, &scope, &mut NoHost), Ok(Some(true)))
}

/// A host for expressions that need none.
pub(super) struct NoHost;

impl Host for NoHost {
    type Error = DbError;

    fn call(&mut self, _: HostFunction, _: &[Value]) -> Result<Value, DbError> {
        Err(DbError::unsupported("a stateful function here", None))
    }

    fn rows(&mut self, _: &SubPlan, _: &Scope<'_>) -> Result<std::sync::Arc<[Row]>, DbError> {
        Err(DbError::unsupported("a sub-select here", None))
    }

    fn system(&mut self, _: SystemColumn, _: usize, _: &Scope<'_>) -> Result<Value, DbError> {
        Err(DbError::unsupported("a system column here", None))
    }
}
