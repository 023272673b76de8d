//! Typed plans: what a statement means once every name and type in it is resolved.
//!
//! * [`types`] names the SQL types; [`catalog`] is the schema as plain data.
//! * [`expr`] holds compiled expressions and their evaluation.
//! * [`query`], [`mod@write`] and [`ddl`] are the statements; [`cost`] is how the planner chooses
//!   between the ways to the rows of a table.
//!
//! A plan holds `Arc`s of the catalogue entries that it uses, so it is valid for one version of the
//! catalogue only and must be made again when that changes. The rule of scoping is one sentence:
//! **every [`query::Query`] and every write (`INSERT`, `UPDATE`, `DELETE`) opens one level**, and
//! `level` in an expression counts levels outwards from the innermost one.

use std::sync::Arc;

use crate::sql::control::TableLockMode;

pub mod catalog;
pub mod cost;
pub mod ddl;
pub mod expr;
mod lower;
pub mod partition;
pub mod query;
pub mod routine;
mod row_order;
pub mod types;
pub mod walk;
pub mod write;

pub use lower::variables;
pub use lower::{
    argument_variables, column_map, descendants, lower, lower_inside, lower_sent, variable_type,
};
pub use row_order::{is_bag, is_blind};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanKind {
    /// A query.
    Query(Box<query::Query>),
    /// A data-modifying statement.
    Write(Box<write::Write>),
    /// A change of the schema.
    Ddl(Box<ddl::Ddl>),
    /// `DO`: a function without a name.
    Do(Arc<routine::Routine>),
}

/// The lock of a statement on a stored table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableLock {
    /// The table.
    pub table: Arc<catalog::Table>,
    /// How. A table that is read and written is there twice; one that is read twice only once, with
    /// the stronger mode.
    pub mode: TableLockMode,
    /// The planner looks for ways to find rows of it, and locks all its indexes alike.
    pub indexes: bool,
}

/// A statement ready to run, valid for one version of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do.
    pub kind: PlanKind,
    /// The types of `$1`, `$2`, ...
    pub params: Vec<types::Type>,
    /// Partitions were left out because of the values of parameters: the plan is good for these values.
    pub for_values: bool,
    /// The columns of the answer; empty if the statement returns no rows at all.
    pub columns: Vec<query::OutputColumn>,
    /// The command tag: `SELECT`, `INSERT`, `CREATE TABLE`.
    pub tag: &'static str,
    /// Stored tables that the statement locks before it starts, in the order in which the server
    /// locks them (that of analysis).
    pub locks: Vec<TableLock>,
    /// How many sub-selects there are: [`query::SubPlanId`]s are below this.
    pub subplans: u32,
    /// How many common table expressions there are: [`query::CteId`]s are below this.
    pub ctes: u32,
}
