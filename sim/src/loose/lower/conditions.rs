//! What may become bounds of an index, and which columns an entry is read for.

use crate::loose::expr::{Compare, Comparison, Expr, Match};
use crate::loose::query::{Conjunct, From, Join, KeyCondition, KeyOp, Query, RangeKind, Source};
use crate::loose::walk;

/// Fills in the conditions of every entry of a source.
pub(super) fn fill(source: &mut Source) {
    let count = source.range.len();
    for number in 0..count {
        let mut found = Vec::new();
        for (i, conjunct) in source.filter.iter().enumerate() {
            of_conjunct(source, number, conjunct, Some(i), &mut found);
        }
        if let Some(from) = &source.from {
            of_joins(source, number, from, &mut found);
        }
        source.range[number].conditions = found;
    }
}

/// Notes which columns each entry is read for; run on the whole query.
pub(super) fn used_columns(query: &mut Query) {
    let mut used = Vec::new();
    walk::query(query, 0, &mut |expr, depth| {
        if let Expr::Column {
            level,
            entry,
            column,
        } = expr
            && *level == depth
        {
            used.push((*entry as usize, *column));
        }
        true
    });
    if let crate::loose::query::Body::Select(select) = &mut query.body {
        note(&mut select.source, &used);
    }
}

/// Notes columns that are read.
pub(super) fn note(source: &mut Source, used: &[(usize, u32)]) {
    for (entry, column) in used {
        if let Some(entry) = source.range.get_mut(*entry) {
            entry.used_columns |= 1 << (*column).min(63);
        }
    }
}

fn of_joins(source: &Source, number: usize, from: &From, out: &mut Vec<KeyCondition>) {
    let From::Join {
        kind,
        left,
        right,
        on,
    } = from
    else {
        return;
    };
    of_joins(source, number, left, out);
    of_joins(source, number, right, out);
    let mut inner = entries_of(right);
    if *kind != Join::Left {
        inner |= entries_of(left);
    }
    if inner & (1 << number) != 0 {
        for conjunct in on {
            of_conjunct(source, number, conjunct, None, out);
        }
    }
}

/// The entries below a join, as a bit set.
pub(crate) fn entries_of(from: &From) -> u64 {
    match from {
        From::Entry(entry) => 1 << entry,
        From::Join { left, right, .. } => entries_of(left) | entries_of(right),
    }
}

/// What is compared in a condition on an entry.
enum Side {
    Column(usize),
    Rowid,
    /// An indexed expression.
    Expression,
}

fn side(source: &Source, number: usize, expr: &Expr) -> Option<Side> {
    match expr {
        Expr::Column {
            level: 0,
            entry,
            column,
        } if *entry as usize == number => Some(Side::Column(*column as usize)),
        Expr::Rowid { level: 0, entry } if *entry as usize == number => Some(Side::Rowid),
        _ => {
            let RangeKind::Table(table) = &source.range[number].kind else {
                return None;
            };
            let indexed = table.indexes.iter().flat_map(|index| &index.keys);
            let mut indexed = indexed.filter_map(|key| match &key.part {
                crate::loose::catalog::KeyPart::Expr(expr) => Some(expr),
                crate::loose::catalog::KeyPart::Column(_) => None,
            });
            indexed
                .any(|key| at_entry(key, number as u32) == *expr)
                .then_some(Side::Expression)
        }
    }
}

/// An expression over entry 0 as one over another entry.
pub(crate) fn at_entry(expr: &Expr, number: u32) -> Expr {
    let mut expr = expr.clone();
    walk::expr(&mut expr, 0, &mut |inner, depth| {
        if let Expr::Column { level, entry, .. } | Expr::Rowid { level, entry } = inner
            && *level == depth
        {
            *entry = number;
        }
        true
    });
    expr
}

struct Finder<'s> {
    source: &'s Source,
    number: usize,
    conjunct: Option<usize>,
}

impl Finder<'_> {
    fn condition(
        &self,
        expr: &Expr,
        op: KeyOp,
        operands: Vec<Expr>,
        by: Comparison,
    ) -> Option<KeyCondition> {
        let side = side(self.source, self.number, expr)?;
        let uses = operands.iter().map(walk::entries).fold(0, |a, b| a | b);
        if uses & (1 << self.number) != 0 {
            return None;
        }
        let constant = uses == 0 && !operands.iter().any(walk::reaches_out);
        Some(KeyCondition {
            column: match side {
                Side::Column(column) => Some(column),
                Side::Rowid | Side::Expression => None,
            },
            expr: expr.clone(),
            op,
            operands,
            subselect: None,
            by,
            uses,
            constant,
            conjunct: self.conjunct,
            arms: Vec::new(),
        })
    }
}

fn of_conjunct(
    source: &Source,
    number: usize,
    conjunct: &Conjunct,
    place: Option<usize>,
    out: &mut Vec<KeyCondition>,
) {
    let finder = Finder {
        source,
        number,
        conjunct: place,
    };
    match &conjunct.expr {
        Expr::Compare { op, by, sides } => {
            let (left, right) = (&sides.0, &sides.1);
            let found = finder.condition(left, key_op(*op), vec![right.clone()], *by);
            if !matches!(op, Compare::IsNot) {
                out.extend(found);
                let flipped =
                    finder.condition(right, key_op(flip(*op)), vec![left.clone()], mirrored(*by));
                out.extend(flipped);
            }
        }
        Expr::CompareRows {
            op: Compare::Eq,
            fields,
        } => {
            for (left, right, by) in fields {
                out.extend(finder.condition(left, KeyOp::Eq, vec![right.clone()], *by));
            }
        }
        Expr::Between {
            parts,
            by,
            negated: false,
        } => {
            let (expr, low, high) = (&parts.0, &parts.1, &parts.2);
            out.extend(finder.condition(expr, KeyOp::Ge, vec![low.clone()], by.0));
            out.extend(finder.condition(expr, KeyOp::Le, vec![high.clone()], by.1));
        }
        Expr::InList {
            expr,
            items,
            negated: false,
        } if !items.is_empty() => {
            let by = items[0].1;
            if items.iter().all(|(_, other)| *other == by) {
                let operands = items.iter().map(|(item, _)| item.clone()).collect();
                out.extend(finder.condition(expr, KeyOp::In, operands, by));
            }
        }
        Expr::AnyOfRows {
            op: Compare::Eq,
            all: false,
            left,
            plan,
        } if left.len() == 1 => {
            let (expr, by) = &left[0];
            if let Some(mut condition) = finder.condition(expr, KeyOp::In, Vec::new(), *by) {
                let probe = Expr::Exists(plan.clone());
                condition.uses = walk::entries(&probe);
                if condition.uses & (1 << number) == 0 {
                    condition.constant = false;
                    condition.subselect = Some(plan.clone());
                    out.push(condition);
                }
            }
        }
        Expr::IsNull { expr, negated } => {
            let op = match negated {
                true => KeyOp::IsNotNull,
                false => KeyOp::IsNull,
            };
            out.extend(finder.condition(expr, op, Vec::new(), Comparison::Exact));
        }
        Expr::Match {
            kind: Match::Like,
            parts,
            collation,
            negated: false,
        } if parts.2.is_none() => {
            let operands = vec![parts.1.clone()];
            out.extend(finder.condition(
                &parts.0,
                KeyOp::Like,
                operands,
                Comparison::Text(*collation),
            ));
        }
        Expr::Or(items) => {
            let found = of_or(&finder, items).or_else(|| of_ranges(&finder, items));
            out.extend(found);
        }
        _ => {}
    }
}

/// `a = 1 OR a = 2` is `a IN (1, 2)`.
fn of_or(finder: &Finder<'_>, items: &[Expr]) -> Option<KeyCondition> {
    let mut first: Option<(&Expr, Comparison)> = None;
    let mut operands = Vec::new();
    for item in items {
        let Expr::Compare {
            op: Compare::Eq,
            by,
            sides,
        } = item
        else {
            return None;
        };
        match first {
            None => first = Some((&sides.0, *by)),
            Some((expr, known)) if *expr == sides.0 && known == *by => {}
            Some(_) => return None,
        }
        operands.push(sides.1.clone());
    }
    let (expr, by) = first?;
    finder.condition(expr, KeyOp::In, operands, by)
}

/// Comparisons of one column, joined by `OR`: `a < 1 OR a BETWEEN 3 AND 4`.
fn of_ranges(finder: &Finder<'_>, items: &[Expr]) -> Option<KeyCondition> {
    let mut arms = Vec::new();
    let mut operands = Vec::new();
    let mut known: Option<(&Expr, Comparison)> = None;
    for item in items {
        let mut arm = Vec::new();
        let parts = match item {
            Expr::And(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        for part in parts {
            for (expr, by, op, value) in comparisons(part)? {
                match known {
                    None => known = Some((expr, by)),
                    Some(same) if same == (expr, by) => {}
                    Some(_) => return None,
                }
                arm.push((op, operands.len()));
                operands.push(value.clone());
            }
        }
        arms.push(arm);
    }
    let (expr, by) = known?;
    let mut condition = finder.condition(expr, KeyOp::Or, operands, by)?;
    condition.arms = arms;
    Some(condition)
}

/// A comparison as `column, how, operator, value`; `BETWEEN` is two.
fn comparisons(expr: &Expr) -> Option<Vec<(&Expr, Comparison, KeyOp, &Expr)>> {
    match expr {
        Expr::Compare { op, by, sides } => {
            let op = key_op(*op);
            let fits = matches!(
                op,
                KeyOp::Eq | KeyOp::Lt | KeyOp::Le | KeyOp::Gt | KeyOp::Ge
            );
            fits.then(|| vec![(&sides.0, *by, op, &sides.1)])
        }
        Expr::Between {
            parts,
            by,
            negated: false,
        } => Some(vec![
            (&parts.0, by.0, KeyOp::Ge, &parts.1),
            (&parts.0, by.1, KeyOp::Le, &parts.2),
        ]),
        _ => None,
    }
}

fn key_op(op: Compare) -> KeyOp {
    match op {
        Compare::Eq => KeyOp::Eq,
        Compare::Ne | Compare::IsNot => KeyOp::Ne,
        Compare::Lt => KeyOp::Lt,
        Compare::Le => KeyOp::Le,
        Compare::Gt => KeyOp::Gt,
        Compare::Ge => KeyOp::Ge,
        Compare::Is => KeyOp::Is,
    }
}

fn flip(op: Compare) -> Compare {
    match op {
        Compare::Lt => Compare::Gt,
        Compare::Le => Compare::Ge,
        Compare::Gt => Compare::Lt,
        Compare::Ge => Compare::Le,
        other => other,
    }
}

fn mirrored(by: Comparison) -> Comparison {
    match by {
        Comparison::Classes {
            left,
            right,
            collation,
        } => Comparison::Classes {
            left: right,
            right: left,
            collation,
        },
        other => other,
    }
}
