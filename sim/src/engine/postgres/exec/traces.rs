//! Telling which rows a block looks for and reads.

use rowlock_model::{DbError, Row, Value};

use super::Exec;
use super::bound::{Around, Bound};
use crate::engine::postgres::Store;
use crate::plan::expr::{self, Expr, Host, HostFunction, Scope, SystemColumn};
use crate::plan::query::{Conjunct, From, Join, RangeKind, Source, SubPlan};
use crate::trace::{Condition, Sees, Trace};

/// A host for conditions that need none.
struct Nobody;

impl Host for Nobody {
    type Error = DbError;

    fn call(&mut self, _: HostFunction, _: &[Value]) -> Result<Value, DbError> {
        Err(DbError::unsupported("a function here", None))
    }

    fn rows(&mut self, _: &SubPlan, _: &Scope<'_>) -> Result<std::sync::Arc<[Row]>, DbError> {
        Err(DbError::unsupported("a sub-select here", None))
    }

    fn system(&mut self, _: SystemColumn, _: usize, _: &Scope<'_>) -> Result<Value, DbError> {
        Err(DbError::unsupported("a system column here", None))
    }
}

impl Store {
    /// Whether somebody wants to know what is read and written.
    #[inline]
    pub(in crate::engine::postgres) fn is_traced(&self) -> bool {
        self.world.trace.is_on()
    }
}

impl Exec<'_> {
    /// The rows that are bound were read, those of `wanted` entries.
    pub(super) fn trace_reads(
        &mut self,
        source: &Source,
        bound: &[Bound],
        wanted: impl Fn(usize) -> bool,
    ) {
        for (entry, bound) in bound.iter().enumerate().take(source.range.len()) {
            let Some(version) = bound.version.filter(|_| wanted(entry)) else {
                continue;
            };
            let table = self.store.version(version).table.0;
            let row = Row::clone(self.store.row(version));
            self.store.world.trace.push(Trace::Read {
                session: self.session,
                table,
                row,
            });
        }
    }

    /// An entry is about to be read for the rows that are bound already: on what condition.
    pub(super) fn trace_scan(
        &mut self,
        source: &Source,
        entry: usize,
        have: u64,
        bound: &[Bound],
        around: Around<'_>,
    ) {
        let RangeKind::Table(table) = &source.range[entry].kind else {
            return;
        };
        let mut conjuncts: Vec<&Conjunct> = source.filter.iter().collect();
        let plain = source
            .from
            .as_ref()
            .is_none_or(|from| gather(from, &mut conjuncts));
        if !plain || around.outer.is_some() || source.range[entry].members.is_some() {
            // What is bound outside is not kept: such a search shows in the rows that it reads.
            return;
        }
        let here = 1u64 << entry;
        let decided = |c: &&&Conjunct| c.uses & here != 0 && c.uses & !(have | here) == 0;
        let exprs: Vec<Expr> = conjuncts
            .iter()
            .filter(decided)
            .map(|c| c.expr.clone())
            .collect();
        let params = around.params.to_vec();
        let mut rows: Vec<Row> = Vec::new();
        for (at, bound) in bound.iter().enumerate() {
            let is_bound = have & (1 << at) != 0;
            let row = bound.row.as_ref().filter(|_| is_bound);
            rows.push(row.cloned().unwrap_or_else(|| Row::from([])));
        }
        let shown = (&exprs, &params, &rows);
        let name = format!("{shown:?}");
        let condition = Condition::new(&name, move |row| {
            let slices: Vec<&[Value]> = (0..rows.len())
                .map(|at| if at == entry { &row[..] } else { &rows[at][..] })
                .collect();
            let scope = Scope {
                rows: &slices,
                group: &[],
                windows: &[],
                params: &params,
                outer: None,
            };
            for test in &exprs {
                if expr::test(test, &scope, &mut Nobody).ok()? != Some(true) {
                    return Some(false);
                }
            }
            Some(true)
        });
        self.store.world.trace.push(Trace::Scan {
            session: self.session,
            table: table.id.0,
            condition,
            sees: Sees::Upto(self.snapshot.csn),
        });
    }
}

/// Collects the conditions of inner joins; `false` if there is an outer join.
fn gather<'a>(from: &'a From, conjuncts: &mut Vec<&'a Conjunct>) -> bool {
    match from {
        From::Entry(_) => true,
        From::Join {
            kind: Join::Cross | Join::Inner,
            left,
            right,
            on,
        } => {
            conjuncts.extend(on);
            gather(left, conjuncts) && gather(right, conjuncts)
        }
        From::Join { .. } => false,
    }
}
