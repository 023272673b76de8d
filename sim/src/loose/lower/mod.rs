//! From syntax trees to plans: names are resolved, and what types decide is decided.

mod aggregate;
mod call;
mod cast;
mod compare;
mod conditions;
mod ddl;
mod eliminate;
mod expr;
mod from;
mod function;
mod group;
mod insert;
mod literal;
mod names;
mod query;
pub(crate) mod rules;
mod select;
mod table;
mod write;

use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Value};

use super::ast;
use super::catalog::{Catalog, Table};
use super::errors;
use super::expr::Expr;
use super::parse::Parsed;
use super::plan::{Plan, PlanKind, TableUse};
use super::query::{Cte, CteId, Kind, OutputColumn, SubPlanId};
pub(crate) use conditions::{at_entry, entries_of};
use names::Level;

/// Resolves the names of a statement that is no control statement. The values of its parameters
/// decide their types, as they do on a server.
///
/// # Errors
/// What the server says of a wrong statement; `unsupported` for what is not modelled.
pub fn lower(parsed: &Parsed, catalog: &dyn Catalog, params: &[Value]) -> Result<Plan, DbError> {
    let mut lowering = Lowering::new(parsed, catalog, params);
    let (kind, columns, tag) = lowering.statement(&parsed.tree)?;
    Ok(lowering.finish(kind, columns, tag))
}

/// Resolves the names of an expression of a control statement (`SET @x = ..`, `DO ..`).
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_scalar(
    node: &ast::Node,
    parsed: &Parsed,
    catalog: &dyn Catalog,
    params: &[Value],
) -> Result<Scalar, DbError> {
    let mut lowering = Lowering::new(parsed, catalog, params);
    lowering.levels.push(Level::default());
    let typed = lowering.expr(node)?;
    Ok((typed.expr, lowering.tables))
}

/// An expression, and the tables that its sub-selects use.
type Scalar = (Expr, Vec<(Arc<Table>, TableUse)>);

/// What lowering a statement gives: the plan, its columns and tag.
type Lowered = (PlanKind, Vec<OutputColumn>, &'static str);

/// A common table expression that is visible.
#[derive(Clone, Debug)]
struct VisibleCte {
    name: Arc<str>,
    id: CteId,
    columns: Vec<OutputColumn>,
}

/// In which clause names are looked up, for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Clause {
    #[default]
    Fields,
    Where,
    On,
    Group,
    Having,
    Order,
}

impl Clause {
    fn name(self) -> &'static str {
        match self {
            Clause::Fields => "field list",
            Clause::Where => "where clause",
            Clause::On => "on clause",
            Clause::Group => "group statement",
            Clause::Having => "having clause",
            Clause::Order => "order clause",
        }
    }
}

/// The state of lowering one statement.
struct Lowering<'c> {
    catalog: &'c dyn Catalog,
    dialect: Dialect,
    text: Arc<str>,
    offset: usize,
    end: usize,
    params: Vec<Kind>,
    param_count: usize,
    /// The levels around the present place, innermost last.
    levels: Vec<Level>,
    ctes: Vec<VisibleCte>,
    /// Derived tables and common table expressions of the query being lowered, for each query.
    withs: Vec<Vec<Cte>>,
    tables: Vec<(Arc<Table>, TableUse)>,
    subplans: u32,
    cte_count: u32,
    clause: Clause,
    /// Inside a statement that changes data.
    in_write: bool,
    /// See [`Plan::views`].
    views: Vec<(Arc<str>, usize)>,
    /// See [`Plan::warnings`].
    warnings: Vec<(u16, String)>,
}

impl<'c> Lowering<'c> {
    fn new(parsed: &'c Parsed, catalog: &'c dyn Catalog, params: &[Value]) -> Lowering<'c> {
        Lowering {
            catalog,
            dialect: parsed.dialect,
            text: Arc::clone(&parsed.text),
            offset: parsed.offset,
            end: parsed.end,
            params: params.iter().map(kind_of_param).collect(),
            param_count: parsed.params,
            levels: Vec::new(),
            ctes: Vec::new(),
            withs: Vec::new(),
            tables: Vec::new(),
            subplans: 0,
            cte_count: 0,
            clause: Clause::Fields,
            in_write: false,
            views: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn is_sqlite(&self) -> bool {
        self.dialect == Dialect::Sqlite
    }

    fn statement(&mut self, tree: &ast::Statement) -> Result<Lowered, DbError> {
        use ast::Statement as S;
        match tree {
            S::Query(query) => {
                let query = self.query(query)?;
                let columns = query.columns.clone();
                Ok((PlanKind::Query(Box::new(query)), columns, "SELECT"))
            }
            S::Insert(insert) => self.insert(insert),
            S::Update(update) => self.update(update),
            S::Delete(delete) => self.delete(delete),
            S::Control(_) => errors::unsupported("a control statement as a plan", self.offset),
            other => self.ddl(other),
        }
    }

    fn finish(self, kind: PlanKind, columns: Vec<OutputColumn>, tag: &'static str) -> Plan {
        Plan {
            kind,
            params: self.param_count,
            views: self.views,
            warnings: self.warnings,
            columns,
            tag,
            tables: self.tables,
        }
    }

    fn next_subplan(&mut self) -> SubPlanId {
        self.subplans += 1;
        SubPlanId(self.subplans - 1)
    }

    fn next_cte(&mut self) -> CteId {
        self.cte_count += 1;
        CteId(self.cte_count - 1)
    }

    /// MySQL warns of something that a later version will not have.
    pub(super) fn deprecated(&mut self, code: u16, message: &str) {
        if self.dialect == Dialect::MySql {
            self.warnings.push((code, message.to_owned()));
        }
    }

    /// Notes that the statement touches a table.
    fn touch(&mut self, table: &Arc<Table>, what: TableUse) {
        match self.tables.iter_mut().find(|(t, _)| t.id == table.id) {
            Some((_, held)) => *held = (*held).max(what),
            None => self.tables.push((table.clone(), what)),
        }
    }

    /// Runs `body` inside a new level.
    fn in_level<T>(
        &mut self,
        level: Level,
        body: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        self.levels.push(level);
        let clause = std::mem::take(&mut self.clause);
        let result = body(self);
        self.clause = clause;
        self.levels.pop();
        result
    }

    /// Runs `body` with names looked up in `clause`.
    fn in_clause<T>(
        &mut self,
        clause: Clause,
        body: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let before = std::mem::replace(&mut self.clause, clause);
        let result = body(self);
        self.clause = before;
        result
    }

    /// The innermost level.
    ///
    /// # Panics
    /// If there is none.
    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("inside a level")
    }
}

fn kind_of_param(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) | Value::Int(_) => Kind::Int,
        Value::Float(_) => Kind::Double,
        Value::Decimal(d) => Kind::Decimal(u8::try_from(d.scale()).unwrap_or(28)),
        Value::Text(_) | Value::Interval { .. } | Value::Array(_) => Kind::Text,
        Value::Bytes(_) => Kind::Bytes,
        Value::Date(_) => Kind::Date,
        Value::Time(_) => Kind::Time(6),
        Value::Timestamp(_) | Value::TimestampTz(_) => Kind::DateTime(6),
    }
}
