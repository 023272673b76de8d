//! `INSERT`, `UPDATE` and `DELETE`.

use std::sync::Arc;

use crate::plan::catalog::Table;
use crate::plan::expr::Expr;
use crate::plan::query::{Cte, OutputColumn, Query, Source, SubPlan};

/// A data-modifying statement. Opens one level.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// `INSERT`.
    Insert(Insert),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
    Delete(Delete),
    /// `MERGE`.
    Merge(Merge),
}

/// `MERGE`. Range-table index 0 is the target's row, which is not bound where nothing matched.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// `WITH` in front of it.
    pub with: Vec<Cte>,
    /// The target, at index 0 of `source.range`.
    pub table: Arc<Table>,
    /// The source, joined with the target: a left join if there is an action for rows that do not match.
    pub source: Source,
    /// `WHEN`, in order.
    pub actions: Vec<MergeWhen>,
}

/// `WHEN [NOT] MATCHED [AND ..] THEN ..`.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeWhen {
    /// `MATCHED`.
    pub matched: bool,
    /// `AND`.
    pub condition: Option<Expr>,
    /// What to do.
    pub action: MergeAction,
}

/// What an action of `MERGE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// `DO NOTHING`.
    Nothing,
    /// `DELETE`.
    Delete,
    /// `UPDATE SET`.
    Update {
        /// The assignments.
        set: Vec<Assignment>,
    },
    /// `INSERT`.
    Insert {
        /// One expression for each column of the table, of the column's type.
        values: Vec<Expr>,
    },
}

/// `RETURNING`: expressions over the level of the write, where range-table index 0 is the new row
/// (for `DELETE`: the old one).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Returning {
    /// The expressions.
    pub exprs: Vec<Expr>,
    /// Their names and types; empty if there is no `RETURNING`.
    pub columns: Vec<OutputColumn>,
}

/// `INSERT`. Two range-table entries: 0 is the target's row, 1 what is said at each field.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// `WITH` in front of it.
    pub with: Vec<Cte>,
    /// The target.
    pub table: Arc<Table>,
    /// Its alias.
    pub alias: Arc<str>,
    /// The rows to insert; `None` for `DEFAULT VALUES` (one row of defaults). The query sees the
    /// insert's level as level 1, but never reads its rows.
    pub source: Option<Box<Query>>,
    /// One expression for each column of the table, of the column's type: range-table entry 1 is
    /// the source's row. Generated and dropped columns are NULL here.
    pub values: Vec<Expr>,
    /// `ON CONFLICT`.
    pub conflict: Option<OnConflict>,
    /// `RETURNING`: entry 0 is the new (or updated) row.
    pub returning: Returning,
}

/// `ON CONFLICT`.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// Positions in [`Table::indexes`] of the unique indexes that arbitrate; empty means all of
    /// them (only for [`ConflictAction::Nothing`]).
    pub arbiters: Vec<usize>,
    /// What to do.
    pub action: ConflictAction,
}

/// What `ON CONFLICT` does.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// `DO NOTHING`.
    Nothing,
    /// `DO UPDATE`: entry 0 is the existing row, entry 1 the row proposed (`EXCLUDED`).
    Update {
        /// The assignments.
        set: Vec<Assignment>,
        /// `WHERE`: the row is locked all the same when it is not true.
        filter: Option<Expr>,
    },
}

/// A column and its new value, already of the column's type.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: usize,
    /// The value.
    pub value: Expr,
}

/// `UPDATE`. Range-table index 0 is the target's old row; in `RETURNING` the new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// `WITH` in front of it.
    pub with: Vec<Cte>,
    /// The target, at index 0 of `source.range`.
    pub table: Arc<Table>,
    /// The target, `FROM` and `WHERE`.
    pub source: Source,
    /// `SET (a, b) = (SELECT ..)`: each is run once for each row; the row that it yields is read in
    /// `set` as range-table entry `source.range.len() + i`.
    pub rows: Vec<SubPlan>,
    /// The assignments; at most one a column.
    pub set: Vec<Assignment>,
    /// `RETURNING`.
    pub returning: Returning,
}

/// `DELETE`. Range-table index 0 is the target's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// `WITH` in front of it.
    pub with: Vec<Cte>,
    /// The target, at index 0 of `source.range`.
    pub table: Arc<Table>,
    /// The target, `USING` and `WHERE`.
    pub source: Source,
    /// `RETURNING`.
    pub returning: Returning,
}
