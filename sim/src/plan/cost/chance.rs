//! How many of a table's rows are expected to pass conditions, by what the server assumes without
//! statistics (manual, 76.1 "Row Estimation Examples"; the constants are the server's defaults).

use crate::plan::catalog::Table;
use crate::plan::expr::{Compare, Expr, Function};
use crate::plan::types::Type;
use crate::plan::walk;
use rowlock_model::Value;

/// Values that a column is taken to have, if nothing is known.
pub(super) const DISTINCT: f64 = 200.0;
/// Of an order comparison with one value.
const INEQUALITY: f64 = 0.333_333_333_333_333_3;
/// Of two that leave a range.
const RANGE: f64 = 0.005;
/// Of `IS NULL`.
const NULL: f64 = 0.005;
/// Of patterns and of arrays that contain something.
const MATCH: f64 = 0.005;
/// Of `jsonb` that contains something.
const JSON_CONTAINS: f64 = 0.01;
/// Of a function that says yes or no.
const FUNCTION: f64 = 0.333_333_3;
/// Of anything else.
const OTHER: f64 = 0.5;
/// How many elements an array is taken to have whose length is not known.
pub(super) const ELEMENTS: usize = 10;

/// The share of rows that pass a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chance {
    Known(f64),
    /// Equality with one value of a column that has each value once.
    OneRow,
    /// Equality with one of the values that a column is taken to have.
    OneValue,
    Not(Box<Chance>),
    All(Vec<Chance>),
    Any(Vec<Chance>),
    /// Equality with any of so many values that are known to differ.
    Several(Box<Chance>, usize),
}

impl Chance {
    /// The share, in a table of so many rows.
    pub(super) fn of(&self, rows: f64) -> f64 {
        let share = match self {
            Chance::Known(share) => *share,
            Chance::OneRow => 1.0 / rows.max(1.0),
            Chance::OneValue => 1.0 / DISTINCT.min(rows.max(1.0)),
            Chance::Not(chance) => 1.0 - chance.of(rows),
            Chance::All(list) => list.iter().map(|c| c.of(rows)).product(),
            Chance::Any(list) => list.iter().fold(0.0, |sum, chance| {
                let one = chance.of(rows);
                sum + one - sum * one
            }),
            Chance::Several(chance, count) => {
                let one = chance.of(rows);
                let apart = one * *count as f64;
                match apart <= 1.0 {
                    true => apart,
                    false => 1.0 - (1.0 - one).powi(*count as i32),
                }
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// A table at an entry of a range table, as conditions see it.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) table: &'a Table,
    pub(super) entry: u32,
    /// Which of its indexes have all rows that pass.
    pub(super) usable: &'a [bool],
}

impl Subject<'_> {
    fn column(&self, e: &Expr) -> Option<usize> {
        match e {
            Expr::Column {
                level: 0,
                entry,
                column,
            } if *entry == self.entry => Some(*column as usize),
            _ => None,
        }
    }

    pub(super) fn is_unique(&self, column: usize) -> bool {
        let mut indexes = self.table.indexes.iter().zip(self.usable);
        indexes.any(|(index, usable)| {
            index.unique
                && *usable
                && !index.deferrable
                && index.keys.len() == 1
                && index.keys[0].column == Some(column)
        })
    }

    /// Equality of an expression with one value.
    fn equality(&self, e: &Expr) -> Chance {
        match self.column(e) {
            Some(column) if self.is_unique(column) => Chance::OneRow,
            Some(column) if self.table.columns[column].declared.ty == Type::Bool => {
                Chance::Known(0.5)
            }
            _ => Chance::OneValue,
        }
    }

    /// A side of a comparison that depends on rows of the table, rather than the other one.
    fn measured<'e>(&self, sides: &'e (Expr, Expr)) -> &'e Expr {
        match walk::entries_used(&sides.0) & (1 << self.entry) != 0 {
            true => &sides.0,
            false => &sides.1,
        }
    }

    fn compare(&self, op: Compare, sides: &(Expr, Expr)) -> Chance {
        let equal = || match (self.column(&sides.0), self.column(&sides.1)) {
            (Some(_), Some(_)) => Chance::OneValue,
            _ => self.equality(self.measured(sides)),
        };
        if matches!(&sides.0, Expr::Const(Value::Null))
            || matches!(&sides.1, Expr::Const(Value::Null))
        {
            return Chance::Known(0.0);
        }
        match op {
            Compare::Eq => equal(),
            Compare::Ne => Chance::Not(Box::new(equal())),
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => Chance::Known(INEQUALITY),
        }
    }

    /// One condition.
    pub(super) fn chance(&self, e: &Expr) -> Chance {
        match e {
            Expr::Const(Value::Bool(true)) => Chance::Known(1.0),
            Expr::Const(_) => Chance::Known(0.0),
            Expr::And(list) => self.chances(list),
            Expr::Or(list) => Chance::Any(list.iter().map(|e| self.chance(e)).collect()),
            Expr::Not(e) => Chance::Not(Box::new(self.chance(e))),
            Expr::Compare { op, sides, .. } => self.compare(*op, sides),
            Expr::CompareRows { op, fields } => match fields.first() {
                Some((a, b, _)) => self.compare(*op, &(a.clone(), b.clone())),
                None => Chance::Known(OTHER),
            },
            Expr::Distinct {
                distinct, sides, ..
            } => {
                let equal = self.compare(Compare::Eq, sides);
                match distinct {
                    true => Chance::Not(Box::new(equal)),
                    false => equal,
                }
            }
            Expr::IsNull { negated, .. } => match negated {
                true => Chance::Known(1.0 - NULL),
                false => Chance::Known(NULL),
            },
            Expr::IsBool {
                expr,
                value,
                negated,
            } => match value != negated {
                true => self.chance(expr),
                false => Chance::Not(Box::new(self.chance(expr))),
            },
            Expr::AnyOfArray { op, all, sides, .. } => self.array(*op, *all, sides),
            Expr::Call { function, .. } => match function {
                Function::ArrayContains => Chance::Known(MATCH),
                Function::JsonbContains => Chance::Known(JSON_CONTAINS),
                Function::Like(_) => Chance::Known(MATCH),
                _ => Chance::Known(FUNCTION),
            },
            Expr::Host { .. } | Expr::Routine { .. } => Chance::Known(FUNCTION),
            Expr::Column { .. } => self.equality(e),
            _ => Chance::Known(OTHER),
        }
    }

    fn array(&self, op: Compare, all: bool, sides: &(Expr, Expr)) -> Chance {
        let one = match op {
            Compare::Eq => self.equality(&sides.0),
            Compare::Ne => Chance::Not(Box::new(self.equality(&sides.0))),
            _ => Chance::Known(INEQUALITY),
        };
        let (count, known) = match &sides.1 {
            Expr::Array(items) => (items.len(), true),
            Expr::Const(Value::Array(items)) => (items.len(), true),
            _ => (ELEMENTS, false),
        };
        match (all, op) {
            (false, Compare::Eq) if known => Chance::Several(Box::new(one), count),
            (true, Compare::Ne) if known => {
                let equal = Box::new(self.equality(&sides.0));
                Chance::Not(Box::new(Chance::Several(equal, count)))
            }
            (false, _) => Chance::Any(vec![one; count]),
            (true, _) => Chance::All(vec![one; count]),
        }
    }

    /// Conditions that must all hold. Two bounds of one value are a range.
    pub(super) fn chances<'e>(&self, list: impl IntoIterator<Item = &'e Expr>) -> Chance {
        let mut parts = Vec::new();
        let mut bounds: Vec<(&Expr, bool, bool)> = Vec::new();
        for e in list {
            let Some((of, lower)) = self.bound(e) else {
                parts.push(self.chance(e));
                continue;
            };
            match bounds.iter_mut().find(|(known, ..)| *known == of) {
                Some((_, low, high)) => (*low, *high) = (*low | lower, *high | !lower),
                None => bounds.push((of, lower, !lower)),
            }
        }
        let bounds = bounds.into_iter().map(|(_, low, high)| match low && high {
            true => Chance::Known(RANGE),
            false => Chance::Known(INEQUALITY),
        });
        parts.extend(bounds);
        Chance::All(parts)
    }

    /// What a condition bounds, and whether from below.
    fn bound<'e>(&self, e: &'e Expr) -> Option<(&'e Expr, bool)> {
        let Expr::Compare { op, sides, .. } = e else {
            return None;
        };
        let uses = |e: &Expr| walk::entries_used(e) & (1 << self.entry) != 0;
        let (of, op) = match (uses(&sides.0), uses(&sides.1)) {
            (true, false) => (&sides.0, *op),
            (false, true) => (&sides.1, op.flipped()),
            _ => return None,
        };
        match op {
            Compare::Gt | Compare::Ge => Some((of, true)),
            Compare::Lt | Compare::Le => Some((of, false)),
            Compare::Eq | Compare::Ne => None,
        }
    }
}

/// How many operators and functions are called to compute an expression, as the planner counts them.
pub(super) fn calls(e: &Expr) -> f64 {
    let sum = |list: &[Expr]| list.iter().map(calls).sum::<f64>();
    match e {
        Expr::Const(_)
        | Expr::Param(_)
        | Expr::Column { .. }
        | Expr::System { .. }
        | Expr::Group { .. }
        | Expr::Window(_) => 0.0,
        Expr::And(list) | Expr::Or(list) | Expr::Coalesce(list) | Expr::Array(list) => sum(list),
        Expr::Not(e) | Expr::IsNull { expr: e, .. } | Expr::IsBool { expr: e, .. } => calls(e),
        Expr::Compare { sides, .. } | Expr::Distinct { sides, .. } | Expr::NullIf { sides, .. } => {
            1.0 + calls(&sides.0) + calls(&sides.1)
        }
        Expr::CompareRows { fields, .. } => {
            let fields = fields.iter();
            fields.map(|(a, b, _)| 1.0 + calls(a) + calls(b)).sum()
        }
        Expr::Case {
            branches,
            otherwise,
        } => {
            let branches = branches.iter();
            let branches: f64 = branches.map(|(when, then)| calls(when) + calls(then)).sum();
            branches + calls(otherwise)
        }
        Expr::Extreme { args, .. } => 1.0 + sum(args),
        Expr::AnyOfArray { sides, .. } => {
            let elements = match &sides.1 {
                Expr::Array(items) => items.len(),
                Expr::Const(Value::Array(items)) => items.len(),
                _ => ELEMENTS,
            };
            0.5 * elements as f64 + calls(&sides.0) + calls(&sides.1)
        }
        Expr::AnyOfRows { left, .. } => left.iter().map(|(e, _)| 1.0 + calls(e)).sum(),
        Expr::Subquery(_) | Expr::Exists(_) | Expr::ArraySubquery(_) => 0.0,
        Expr::Record(fields) => fields.iter().map(|(e, _)| calls(e)).sum(),
        Expr::Cast { expr, from, to, .. } => {
            let texts = [Type::Text, Type::Varchar];
            let same = from == to
                || texts.contains(from) && texts.contains(to)
                // Operators take integers of different sizes.
                || is_integer(*from) && is_integer(*to);
            calls(expr) + if same { 0.0 } else { 1.0 }
        }
        Expr::Call { args, .. } | Expr::Host { args, .. } => 1.0 + sum(args),
        Expr::Routine { args, .. } => 100.0 + sum(args),
    }
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int2 | Type::Int4 | Type::Int8)
}
