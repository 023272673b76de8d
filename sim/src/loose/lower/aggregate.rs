//! Aggregates and window functions.

use rowlock_model::{DbError, Dialect, Value};

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast::Call;
use crate::loose::errors;
use crate::loose::expr::{Aggregate, AggregateKind, Comparison, Expr, Numbers, Window, WindowKind};
use crate::loose::query::{Kind, SortBy, SortKey, Ty};

impl Lowering<'_> {
    pub(super) fn aggregate_call(
        &mut self,
        call: &Call,
        kind: AggregateKind,
        at: usize,
    ) -> Result<Typed, DbError> {
        let name = &call.name.name;
        if self.levels.is_empty() || self.level().no_aggregates {
            return Err(errors::either(
                self.dialect,
                1111,
                "HY000",
                "Invalid use of group function",
                format!("misuse of aggregate function {name}()"),
            )
            .at(at));
        }
        self.level().no_aggregates = true;
        let lowered = self.aggregate(call, kind);
        self.level().no_aggregates = false;
        let (aggregate, ty) = lowered?;
        let level = self.level();
        let found = level.aggregates.iter().position(|a| *a == aggregate);
        let index = found.unwrap_or_else(|| {
            level.aggregates.push(aggregate);
            level.aggregates.len() - 1
        });
        Ok(Typed {
            expr: Expr::Group {
                level: 0,
                index: index as u32,
            },
            ty,
            at,
        })
    }

    fn aggregate(&mut self, call: &Call, kind: AggregateKind) -> Result<(Aggregate, Ty), DbError> {
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.expr(arg)?);
        }
        let most = match kind {
            AggregateKind::GroupConcat => 1 + usize::from(self.is_sqlite()),
            AggregateKind::Count => 1 + if call.distinct { 8 } else { 0 },
            _ => 1,
        };
        let counted = kind == AggregateKind::Count && (call.star || self.is_sqlite());
        if args.len() > most || (args.is_empty() && !counted) || (call.star && !counted) {
            return Err(self.wrong_count(call));
        }
        let ty = args.first().map_or_else(
            || rules::plain(Kind::Int, self.dialect),
            |arg| arg.ty.clone(),
        );
        let by = args.first().map_or(Comparison::Exact, |arg| {
            rules::own_comparison(&arg.ty, self.dialect)
        });
        let (numbers, result) = self.aggregate_type(kind, &ty);
        let filter = match &call.filter {
            Some(filter) => Some(self.expr(filter)?.expr),
            None => None,
        };
        let mut order = Vec::new();
        for key in &call.order {
            order.push(self.order_key(key)?);
        }
        let mut args: Vec<Expr> = args.into_iter().map(|arg| arg.expr).collect();
        if kind == AggregateKind::GroupConcat && args.len() == 1 {
            let separator = call.separator.as_deref().unwrap_or(",");
            args.push(Expr::Const(Value::text(separator)));
        }
        let aggregate = Aggregate {
            kind,
            args,
            distinct: call.distinct,
            by,
            numbers,
            order,
            filter,
        };
        Ok((aggregate, result))
    }

    /// In which numbers an aggregate computes, and the type of its value.
    fn aggregate_type(&self, kind: AggregateKind, arg: &Ty) -> (Numbers, Ty) {
        let plain = |kind| rules::plain(kind, self.dialect);
        if self.is_sqlite() {
            let ty = match kind {
                AggregateKind::Min | AggregateKind::Max | AggregateKind::First => Ty {
                    declared: None,
                    affinity: None,
                    ..arg.clone()
                },
                _ => plain(Kind::Any),
            };
            return (Numbers::Dynamic, ty);
        }
        let double = matches!(
            arg.kind,
            Kind::Text | Kind::Bytes | Kind::Json | Kind::Double | Kind::Any | Kind::Null
        );
        let scale = match arg.kind {
            Kind::Decimal(scale) | Kind::Time(scale) | Kind::DateTime(scale) => scale,
            _ => 0,
        };
        match kind {
            AggregateKind::Count => (Numbers::Int, rules::integer(false, 21, 21, self.dialect)),
            AggregateKind::Sum | AggregateKind::Total if double => {
                (Numbers::Double, plain(Kind::Double))
            }
            AggregateKind::Sum | AggregateKind::Total => {
                let digits = (arg.width.digits + 22).min(65);
                let ty = rules::decimal(digits, scale, self.dialect);
                (Numbers::Decimal { scale }, ty)
            }
            AggregateKind::Avg if double => (Numbers::Double, plain(Kind::Double)),
            AggregateKind::Avg => {
                let scale = scale + 4;
                let ty = rules::decimal(arg.width.digits + 4, scale, self.dialect);
                (Numbers::Decimal { scale }, ty)
            }
            AggregateKind::GroupConcat => {
                let chars = match self.dialect {
                    Dialect::MariaDb => 0x40_0000,
                    _ => 16_384,
                };
                (Numbers::Int, rules::text(chars, self.dialect))
            }
            AggregateKind::Min | AggregateKind::Max | AggregateKind::First => {
                (Numbers::Int, rules::extreme(arg, self.dialect))
            }
        }
    }

    /// A sort key over an expression of the present level.
    pub(super) fn order_key(&mut self, key: &crate::loose::ast::Order) -> Result<SortKey, DbError> {
        let typed = self.expr(&key.expr)?;
        let comparison = rules::own_comparison(&typed.ty, self.dialect);
        Ok(sort_key(SortBy::Expr(typed.expr), comparison, key))
    }

    pub(super) fn window(
        &mut self,
        call: &Call,
        name: &str,
        over: &crate::loose::ast::Over,
        at: usize,
    ) -> Result<Typed, DbError> {
        let number = match self.dialect {
            Dialect::MySql => Kind::Unsigned,
            _ => Kind::Int,
        };
        let kind = match name {
            "ROW_NUMBER" => Some((WindowKind::RowNumber, number)),
            "RANK" => Some((WindowKind::Rank, number)),
            "DENSE_RANK" => Some((WindowKind::DenseRank, number)),
            "LAG" => Some((WindowKind::Lag, Kind::Any)),
            "LEAD" => Some((WindowKind::Lead, Kind::Any)),
            "FIRST_VALUE" => Some((WindowKind::FirstValue, Kind::Any)),
            _ => None,
        };
        let (kind, args, ty) = match kind {
            Some((kind, value)) => {
                let mut args = Vec::new();
                for arg in &call.args {
                    args.push(self.expr(arg)?);
                }
                let ty = match args.first() {
                    Some(arg) => rules::of_other_row(&arg.ty, self.dialect),
                    None => rules::plain(value, self.dialect),
                };
                (kind, args.into_iter().map(|arg| arg.expr).collect(), ty)
            }
            None => {
                let Some(kind) = aggregate_kind(name, self.dialect) else {
                    return errors::unsupported(format!("the window function {name}"), at);
                };
                if call.distinct {
                    return errors::unsupported("DISTINCT in a window function", at);
                }
                let (aggregate, ty) = self.aggregate(call, kind)?;
                let ty = rules::of_other_row(&ty, self.dialect);
                (WindowKind::Aggregate(Box::new(aggregate)), Vec::new(), ty)
            }
        };
        let mut partition = Vec::new();
        for key in &over.partition {
            let typed = self.expr(key)?;
            let by = rules::own_comparison(&typed.ty, self.dialect);
            partition.push((typed.expr, by));
        }
        let mut order = Vec::new();
        for key in &over.order {
            order.push(self.order_key(key)?);
        }
        let level = self.level();
        level.windows.push(Window {
            kind,
            args,
            partition,
            order,
        });
        let index = level.windows.len() as u32 - 1;
        Ok(Typed {
            expr: Expr::Window(index),
            ty,
            at,
        })
    }
}

/// A sort key with its directions.
pub(super) fn sort_key(
    by: SortBy,
    comparison: Comparison,
    key: &crate::loose::ast::Order,
) -> SortKey {
    SortKey {
        by,
        comparison,
        descending: key.descending,
        // NULLs are the smallest values in both products.
        nulls_flipped: key.nulls_first.is_some_and(|first| first == key.descending),
    }
}

pub(super) fn aggregate_kind(name: &str, dialect: Dialect) -> Option<AggregateKind> {
    Some(match name {
        "COUNT" => AggregateKind::Count,
        "SUM" => AggregateKind::Sum,
        "TOTAL" if dialect == Dialect::Sqlite => AggregateKind::Total,
        "AVG" => AggregateKind::Avg,
        "MIN" => AggregateKind::Min,
        "MAX" => AggregateKind::Max,
        "GROUP_CONCAT" => AggregateKind::GroupConcat,
        "ANY_VALUE" if dialect == Dialect::MySql => AggregateKind::First,
        _ => return None,
    })
}
