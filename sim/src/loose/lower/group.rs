//! Grouping: expressions over rows become expressions over groups.

use rowlock_model::{DbError, Dialect};

use super::Lowering;
use crate::loose::errors;
use crate::loose::expr::{Aggregate, AggregateKind, Comparison, Expr, Numbers};
use crate::loose::query::{RangeKind, Representative, Source};
use crate::loose::walk;

/// What is rewritten from rows to groups.
pub(super) struct Regroup<'a> {
    pub(super) keys: Vec<(Expr, Comparison)>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) source: &'a Source,
    pub(super) explicit: bool,
}

impl Lowering<'_> {
    /// Rewrites one expression of a grouped query. Columns that are no keys become values of the
    /// row that stands for the group, where the product allows that.
    pub(super) fn regroup(
        &self,
        expr: &mut Expr,
        regroup: &mut Regroup<'_>,
        place: usize,
        at: usize,
    ) -> Result<(), DbError> {
        let count = regroup.keys.len() as u32;
        let shifted: Vec<Vec<Expr>> = (0..4)
            .map(|depth| regroup.keys.iter().map(|(k, _)| shift(k, depth)).collect())
            .collect();
        let mut bare: Vec<Expr> = Vec::new();
        walk::expr(expr, 0, &mut |inner, depth| {
            let keys = shifted.get(depth as usize);
            let key = keys.and_then(|keys| keys.iter().position(|key| key == inner));
            if let Some(key) = key
                && !matches!(inner, Expr::Const(_))
            {
                *inner = Expr::Group {
                    level: depth,
                    index: key as u32,
                };
                return false;
            }
            match inner {
                Expr::Group { level, index } if *level == depth => {
                    *index += count;
                    false
                }
                Expr::Column { level, .. } | Expr::Rowid { level, .. } if *level == depth => {
                    let mut column = inner.clone();
                    if let Expr::Column { level, .. } | Expr::Rowid { level, .. } = &mut column {
                        *level = 0;
                    }
                    let first = Aggregate {
                        kind: AggregateKind::First,
                        args: vec![column.clone()],
                        distinct: false,
                        by: Comparison::Exact,
                        numbers: Numbers::Int,
                        order: Vec::new(),
                        filter: None,
                    };
                    let known = regroup.aggregates.iter().position(|a| *a == first);
                    let position = known.unwrap_or_else(|| {
                        regroup.aggregates.push(first);
                        regroup.aggregates.len() - 1
                    });
                    bare.push(column);
                    *inner = Expr::Group {
                        level: depth,
                        index: count + position as u32,
                    };
                    false
                }
                _ => true,
            }
        });
        if self.dialect == Dialect::MySql {
            for column in &bare {
                self.check_determined(column, regroup, place, at)?;
            }
        }
        Ok(())
    }

    /// `ONLY_FULL_GROUP_BY`: a column beside aggregates must be determined by the keys.
    fn check_determined(
        &self,
        column: &Expr,
        regroup: &Regroup<'_>,
        place: usize,
        at: usize,
    ) -> Result<(), DbError> {
        let Expr::Column {
            entry, column: c, ..
        } = column
        else {
            return Ok(());
        };
        let range = &regroup.source.range[*entry as usize];
        if let RangeKind::Table(table) = &range.kind
            && let Some(primary) = table.primary()
        {
            let is_key = |part: Option<usize>| {
                regroup.keys.iter().any(|(key, _)| {
                    matches!(key, Expr::Column { level: 0, entry: e, column }
                        if e == entry && Some(*column as usize) == part)
                })
            };
            let keys = &table.indexes[primary].keys;
            if !keys.is_empty() && keys.iter().all(|key| is_key(key.column())) {
                return Ok(());
            }
        }
        let name = &range.columns[*c as usize].name;
        let database = self.catalog.database();
        let full = format!("{database}.{}.{name}", range.alias);
        let error = match regroup.explicit {
            true => errors::mysql(
                1055,
                "42000",
                format!(
                    "Expression #{place} of SELECT list is not in GROUP BY clause and contains \
                     nonaggregated column '{full}' which is not functionally dependent on columns \
                     in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by"
                ),
            ),
            false => errors::mysql(
                1140,
                "42000",
                format!(
                    "In aggregated query without GROUP BY, expression #{place} of SELECT list \
                     contains nonaggregated column '{full}'; this is incompatible with \
                     sql_mode=only_full_group_by"
                ),
            ),
        };
        Err(error.at(at))
    }

    /// Which row stands for a group.
    pub(super) fn representative(&self, aggregates: &[Aggregate]) -> Representative {
        if !self.is_sqlite() {
            return Representative::First;
        }
        let extreme = |a: &Aggregate| matches!(a.kind, AggregateKind::Min | AggregateKind::Max);
        let mut extremes = aggregates.iter().enumerate().filter(|(_, a)| extreme(a));
        match (extremes.next(), extremes.next()) {
            (Some((i, _)), None) => Representative::Extreme(i),
            _ => Representative::Last,
        }
    }
}

/// An expression as it reads from `depth` levels further in.
fn shift(expr: &Expr, depth: u32) -> Expr {
    let mut expr = expr.clone();
    walk::expr(&mut expr, 0, &mut |inner, inside| {
        if let Expr::Column { level, .. } | Expr::Rowid { level, .. } = inner
            && *level >= inside
        {
            *level += depth;
        }
        true
    });
    expr
}
