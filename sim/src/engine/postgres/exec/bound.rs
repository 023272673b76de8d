//! The rows that a query block has bound so far, and the scopes made of them.

use rowlock_model::{Row, Value};

use crate::engine::postgres::VersionId;
use crate::plan::expr::Scope;

/// What one range-table entry is bound to.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    /// The row; `None` if the entry is not bound, or left out by an outer join.
    pub(super) row: Option<Row>,
    /// The row version, for a stored table.
    pub(super) version: Option<VersionId>,
}

impl Bound {
    /// A row that is not stored.
    pub(super) fn computed(row: Row) -> Bound {
        Bound {
            row: Some(row),
            version: None,
        }
    }

    /// A version of a stored row.
    pub(super) fn stored(row: Row, version: VersionId) -> Bound {
        Bound {
            row: Some(row),
            version: Some(version),
        }
    }

    fn values(&self) -> &[Value] {
        self.row.as_deref().unwrap_or(&[])
    }
}

/// What lies around a query block: the statement's parameters and the levels outwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// The statement's parameters.
    pub(super) params: &'a [Value],
    /// The level around the block.
    pub(super) outer: Option<&'a Scope<'a>>,
}

impl<'a> Around<'a> {
    /// How many levels there are.
    pub(super) fn depth(&self) -> usize {
        let mut depth = 0;
        let mut scope = self.outer;
        while let Some(s) = scope {
            depth += 1;
            scope = s.outer;
        }
        depth
    }

    /// This level without any row.
    pub(super) fn scope(&self) -> Scope<'a> {
        Scope {
            rows: &[],
            group: &[],
            windows: &[],
            params: self.params,
            outer: self.outer,
        }
    }

    /// As seen from inside `scope`.
    pub(super) fn inside(scope: &'a Scope<'a>) -> Around<'a> {
        Around {
            params: scope.params,
            outer: Some(scope),
        }
    }

    /// Calls `f` with the scope of the rows in `bound`.
    #[inline]
    pub(super) fn with<R>(&self, bound: &[Bound], f: impl FnOnce(&Scope<'_>) -> R) -> R {
        self.with_more(bound, &[], &[], f)
    }

    /// Calls `f` with the scope of the rows in `bound`, of a group and of window values.
    #[inline]
    pub(super) fn with_more<R>(
        &self,
        bound: &[Bound],
        group: &[Value],
        windows: &[Value],
        f: impl FnOnce(&Scope<'_>) -> R,
    ) -> R {
        /// Range tables up to this size need no allocation.
        const SMALL: usize = 6;
        let mut small: [&[Value]; SMALL] = [&[]; SMALL];
        let large: Vec<&[Value]>;
        let rows = if bound.len() <= SMALL {
            for (place, b) in small.iter_mut().zip(bound) {
                *place = b.values();
            }
            &small[..bound.len()]
        } else {
            large = bound.iter().map(Bound::values).collect();
            &large[..]
        };
        f(&Scope {
            rows,
            group,
            windows,
            params: self.params,
            outer: self.outer,
        })
    }
}
