//! Parents and children: which tables a name in `FROM` stands for, and which partitions can be left
//! out.

use std::sync::Arc;

use rowlock_model::Value;

use super::Lowering;
use super::access::{self, NoHost};
use crate::plan::catalog::{Catalog, Table};
use crate::plan::cost::{OrderKey, ways};
use crate::plan::expr::{Compare, Comparison, Expr, Scope, compare, eval};
use crate::plan::partition::{Bound, Partitioning};
use crate::plan::query::{Conjunct, From, KeyCondition, KeyOp, Member, RangeKind, Rerun, Source};
use crate::plan::walk;

/// Where each column of a table is in one of its descendants, by name; `None` if all are in the same
/// place.
pub fn column_map(root: &Table, member: &Table) -> Option<Arc<[usize]>> {
    let map: Vec<usize> = root
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            if column.dropped {
                usize::MAX
            } else {
                member.column(&column.name).unwrap_or(i)
            }
        })
        .collect();
    let same = root.columns.len() == member.columns.len()
        && map
            .iter()
            .enumerate()
            .all(|(i, at)| *at == i || *at == usize::MAX);
    (!same).then(|| map.into())
}

/// A table and all its descendants, in the order in which the server reads them: level by level.
pub fn descendants(catalog: &dyn Catalog, table: &Arc<Table>) -> Vec<Arc<Table>> {
    if table.partitioned.is_some() {
        // Partitions of partitions take the place of their parent.
        let mut all = vec![Arc::clone(table)];
        for child in catalog.children(table.id) {
            all.extend(descendants(catalog, &child));
        }
        return all;
    }
    let mut all = vec![Arc::clone(table)];
    let mut next = 0;
    while next < all.len() {
        for child in catalog.children(all[next].id) {
            if !all.iter().any(|known| known.id == child.id) {
                all.push(child);
            }
        }
        next += 1;
    }
    all
}

impl Lowering<'_> {
    /// Fills in the access paths of a source, and for tables with children what is read of them. `order`:
    /// that of the rows wanted; `checked`: the rows are locked or written.
    pub(super) fn choose_access(&mut self, source: &mut Source, order: &[OrderKey], checked: bool) {
        self.choose_members(source);
        let Some(From::Entry(at)) = source.from else {
            return;
        };
        if let RangeKind::Table(table) = &source.range[at].kind
            && source.range[at].members.is_none()
        {
            source.ways = ways(table, at, &source.filter, order, checked).map(Box::new);
            source.rerun = rerun(table, at, &source.filter, checked).map(Box::new);
        }
    }

    fn choose_members(&mut self, source: &mut Source) {
        access::choose(source);
        let conditions = access::conditions(source);
        for i in 0..source.range.len() {
            let RangeKind::Table(table) = source.range[i].kind.clone() else {
                continue;
            };
            if source.range[i].only {
                continue;
            }
            let tables = self.kept_members(&table, i as u32, &conditions);
            if let [only] = &tables[..]
                && only.id == table.id
            {
                continue;
            }
            let members = tables
                .into_iter()
                .map(|member| {
                    self.late_locks.push((Arc::clone(&member), table.id));
                    let columns = column_map(&table, &member);
                    let paths = access::member_paths(&member, columns.as_deref(), i, &conditions);
                    Member {
                        access: access::first_bound(&paths),
                        paths,
                        columns,
                        stored: member.partitioned.is_none(),
                        table: member,
                    }
                })
                .collect();
            source.range[i].members = Some(members);
        }
    }

    /// A table with those descendants that may have rows which pass the conditions.
    fn kept_members(
        &mut self,
        table: &Arc<Table>,
        entry: u32,
        conditions: &[Conjunct],
    ) -> Vec<Arc<Table>> {
        let Some(partitioning) = &table.partitioned else {
            return descendants(self.catalog, table);
        };
        let mut all = vec![Arc::clone(table)];
        let keys = self.known_conditions(partitioning, entry, conditions);
        let children = self.catalog.children(table.id);
        let others: Vec<&Bound> = children
            .iter()
            .filter_map(|c| c.partition.as_ref())
            .collect();
        for child in &children {
            let kept = match &child.partition {
                Some(bound) => may_match(bound, &keys, &others),
                None => true,
            };
            if kept {
                all.extend(self.kept_members(child, entry, conditions));
            }
        }
        all
    }
}

impl Lowering<'_> {
    /// Conditions on the first key of a partitioned table with what is constant while the statement
    /// runs, as far as it is known.
    fn known_conditions(
        &mut self,
        partitioning: &Partitioning,
        entry: u32,
        conditions: &[Conjunct],
    ) -> Vec<(KeyOp, Value)> {
        let Some(key) = partitioning.keys.first() else {
            return Vec::new();
        };
        let found: Vec<KeyCondition> = access::conditions_on(&key.expr, entry, conditions);
        let mut known = Vec::with_capacity(found.len());
        for condition in found {
            if let Some(value) = self.known_value(&condition.operand) {
                known.push((condition.op, value));
            }
        }
        known
    }

    /// The value of an expression over constants and known parameters.
    fn known_value(&mut self, e: &Expr) -> Option<Value> {
        let mut plain = true;
        let mut uses_parameters = false;
        walk::expr(&mut e.clone(), 0, &mut |e, _| {
            match e {
                Expr::Param(index) => {
                    uses_parameters = true;
                    plain &= *index < self.values.len();
                }
                Expr::Column { .. }
                | Expr::System { .. }
                | Expr::Group { .. }
                | Expr::Window(_)
                | Expr::Host { .. }
                | Expr::Routine { .. }
                | Expr::Subquery(_)
                | Expr::Exists(_)
                | Expr::AnyOfRows { .. }
                | Expr::ArraySubquery(_) => plain = false,
                _ => {}
            }
            true
        });
        if !plain {
            return None;
        }
        let scope = Scope::empty(self.values);
        let value = eval(e, &scope, &mut NoHost).ok()?.into_owned();
        self.for_values |= uses_parameters;
        Some(value)
    }
}

/// What decides whether a sub-select that locks rows is run for each row of a table.
fn rerun(table: &Table, entry: usize, filter: &[Conjunct], checked: bool) -> Option<Rerun> {
    let locking = |c: &Conjunct| match &c.expr {
        Expr::AnyOfRows {
            op: Compare::Eq,
            all: false,
            left,
            plan,
        } => left.len() == 1 && plan.once && !plan.query.locks.is_empty(),
        _ => false,
    };
    let conjunct = filter.iter().position(locking)?;
    let Expr::AnyOfRows { left, .. } = &filter[conjunct].expr else {
        return None;
    };
    let (value, by) = left[0].clone();
    let mut others = filter.to_vec();
    let found = others.remove(conjunct);
    let outer = ways(table, entry, &others, &[], checked)?;
    // As if the value was compared with a parameter.
    others.push(Conjunct {
        expr: Expr::Compare {
            op: Compare::Eq,
            by,
            sides: Box::new((value, Expr::Param(0))),
        },
        ..found
    });
    let lookup = ways(table, entry, &others, &[], checked)?;
    let unique = lookup.list.iter().any(|way| {
        let index = &table.indexes[way.index];
        index.unique
            && index.keys.len() == 1
            && way.keys.iter().any(|k| k.operand == Expr::Param(0))
    });
    Some(Rerun {
        unique,
        conjunct,
        outer,
        lookup,
    })
}

/// Whether a value of the key can pass a condition.
fn passes(value: &Value, (op, operand): &(KeyOp, Value)) -> bool {
    let by = |op| compare::compare(op, value, operand, &Comparison::Plain) == Some(true);
    match op {
        KeyOp::Eq => by(Compare::Eq),
        KeyOp::Lt => by(Compare::Lt),
        KeyOp::Le => by(Compare::Le),
        KeyOp::Gt => by(Compare::Gt),
        KeyOp::Ge => by(Compare::Ge),
        KeyOp::IsNull => value.is_null(),
        KeyOp::Contains => true,
        KeyOp::Any => match operand {
            Value::Array(items) => items.iter().any(|item| {
                compare::compare(Compare::Eq, value, item, &Comparison::Plain) == Some(true)
            }),
            _ => true,
        },
    }
}

/// Whether a partition can have rows that pass all conditions.
fn may_match(bound: &Bound, keys: &[(KeyOp, Value)], others: &[&Bound]) -> bool {
    let elsewhere = |value: &Value| {
        let value = std::slice::from_ref(value);
        others.iter().any(|other| other.admits(value))
    };
    match bound {
        Bound::List(list) => list
            .iter()
            .any(|value| keys.iter().all(|key| passes(value, key))),
        Bound::Range { from, to } => keys.iter().all(|(op, operand)| {
            range_may_match(from.first(), to.first(), to.len() > 1, *op, operand)
        }),
        Bound::Default => keys.iter().all(|(op, operand)| match (op, operand) {
            (KeyOp::Eq, value) => !elsewhere(value),
            (KeyOp::Any, Value::Array(items)) => items.iter().any(|item| !elsewhere(item)),
            (KeyOp::IsNull, _) => !elsewhere(&Value::Null),
            _ => true,
        }),
    }
}

fn range_may_match(
    from: Option<&crate::plan::partition::Edge>,
    to: Option<&crate::plan::partition::Edge>,
    to_included: bool,
    op: KeyOp,
    operand: &Value,
) -> bool {
    use crate::plan::partition::Edge;
    // Whether there are values of the partition that are not below, or not above the operand.
    let reaches = |value: &Value| match to {
        Some(Edge::Value(edge)) => {
            let op = if to_included {
                Compare::Le
            } else {
                Compare::Lt
            };
            compare::compare(op, value, edge, &Comparison::Plain) != Some(false)
        }
        Some(Edge::Min) => false,
        _ => true,
    };
    let begins = |value: &Value, op| match from {
        Some(Edge::Value(edge)) => {
            compare::compare(op, edge, value, &Comparison::Plain) != Some(false)
        }
        Some(Edge::Max) => false,
        _ => true,
    };
    match op {
        _ if operand.is_null() => false,
        KeyOp::Eq => reaches(operand) && begins(operand, Compare::Le),
        KeyOp::Gt | KeyOp::Ge => reaches(operand),
        KeyOp::Lt => begins(operand, Compare::Lt),
        KeyOp::Le => begins(operand, Compare::Le),
        KeyOp::Any => match operand {
            Value::Array(items) => items
                .iter()
                .any(|item| reaches(item) && begins(item, Compare::Le)),
            _ => true,
        },
        KeyOp::IsNull => false,
        KeyOp::Contains => true,
    }
}
