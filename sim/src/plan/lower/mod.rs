//! From syntax trees to plans: names, types and operators are resolved here, and everything that
//! is not modelled is refused with its place.
//!
//! **The strict gate.** `sqlparser` parses the union of many products' SQL. Its structures are
//! taken apart without `..`, and each field that is not translated must be empty; so nothing of a
//! statement is lost in silence, and a new version of the parser with a new field does not compile.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use sqlparser::ast;
use sqlparser::ast::Spanned;

use crate::plan::catalog::{Catalog, RelationId, Table};
use crate::plan::expr::Expr;
use crate::plan::query::{Cte, CteId, OutputColumn, SubPlanId};
use crate::plan::types::{Declared, Modifier, Type};
use crate::plan::{Plan, PlanKind, TableLock};
use crate::sql::control::TableLockMode;
use crate::sql::tokens::{end_of, is_known, start_of};
use crate::sql::{Statement, StatementKind};

pub(super) mod access;
mod aggregate;
mod alter;
mod call;
mod coerce;
mod column;
mod conflict;
mod datatype;
mod ddl;
mod expr;
mod from;
mod functions;
mod inherit;
mod json;
mod merge;
mod names;
mod operator;
mod partition;
mod query;
mod routine;
mod select;
mod series;
mod server;
mod table;
mod trigger;
pub mod variables;
mod write;

pub use inherit::{column_map, descendants};
use names::Level;
pub use routine::argument_variables;
use variables::Variables;

/// Resolves the names and types of a data or schema statement.
///
/// `params` are declared types of parameters (`PREPARE`); [`Type::Unknown`] and missing ones are
/// inferred.
///
/// # Errors
/// What the server's analysis raises, with its code and place; `unsupported` for what is not
/// modelled.
pub fn lower(
    statement: &Statement,
    catalog: &dyn Catalog,
    params: &[Type],
) -> Result<Plan, DbError> {
    static NONE: Variables = Variables {
        list: Vec::new(),
        columns_first: true,
        numbered: usize::MAX,
    };
    lower_inside(statement, catalog, params, &NONE)
}

/// As [`lower`], for a statement that is sent with values for its parameters: partitions are left out
/// by them ([`Plan::for_values`]). Without any value, the text has no parameters: it goes by the simple
/// protocol.
///
/// # Errors
/// As [`lower`]; 42P02, 08P01 for a parameter without a value.
pub fn lower_sent(
    statement: &Statement,
    catalog: &dyn Catalog,
    params: &[Type],
    values: &[Value],
) -> Result<Plan, DbError> {
    let variables = Variables {
        list: Vec::new(),
        columns_first: true,
        numbered: if values.is_empty() { 0 } else { usize::MAX },
    };
    let plan = lower_with(statement, catalog, params, &variables, values)?;
    if plan.params.len() > values.len() && !values.is_empty() {
        let (sent, wanted) = (values.len(), plan.params.len());
        return Err(DbError::postgres(
            "08P01",
            format!(
                "bind message supplies {sent} parameters, but prepared statement \"\" requires {wanted}"
            ),
        ));
    }
    Ok(plan)
}

/// The type of a variable by its name.
///
/// # Errors
/// 42704, or `unsupported`.
pub fn variable_type(ty: &ast::DataType, catalog: &dyn Catalog) -> Result<Declared, DbError> {
    let variables = Variables::default();
    Lowering::new("", 0, catalog, &[], &variables).data_type(ty, 0)
}

/// As [`lower`], for a statement of a function: names may be those of `variables`, which are among
/// the parameters.
///
/// # Errors
/// As [`lower`].
pub fn lower_inside(
    statement: &Statement,
    catalog: &dyn Catalog,
    params: &[Type],
    variables: &Variables,
) -> Result<Plan, DbError> {
    lower_with(statement, catalog, params, variables, &[])
}

fn lower_with(
    statement: &Statement,
    catalog: &dyn Catalog,
    params: &[Type],
    variables: &Variables,
    values: &[Value],
) -> Result<Plan, DbError> {
    let mut lowering = Lowering::new(
        &statement.text,
        statement.offset,
        catalog,
        params,
        variables,
    );
    lowering.values = values;
    let tree = match &statement.kind {
        StatementKind::Data(tree) => tree,
        StatementKind::Do(block) => {
            let (kind, columns, tag) = lowering.do_block(block);
            return lowering.finish(kind, columns, tag);
        }
        StatementKind::Control(_) => {
            return Err(DbError::unsupported(
                "a control statement as a plan",
                Some(statement.offset),
            ));
        }
    };
    let (kind, columns, tag) = lowering.statement(tree)?;
    lowering.finish(kind, columns, tag)
}

/// An expression with its type and place.
#[derive(Clone, Debug)]
struct Typed {
    expr: Expr,
    ty: Type,
    modifier: Option<Modifier>,
    /// Byte offset in the text.
    at: usize,
}

impl Typed {
    fn new(expr: Expr, ty: Type, at: usize) -> Typed {
        Typed {
            expr,
            ty,
            modifier: None,
            at,
        }
    }

    /// A literal or parameter whose type is still open.
    fn is_open(&self) -> bool {
        self.ty == Type::Unknown
    }
}

/// A common table expression that is visible.
#[derive(Clone, Debug)]
struct VisibleCte {
    name: Arc<str>,
    columns: Vec<OutputColumn>,
    source: CteSource,
}

/// How a reference to a common table expression is answered.
#[derive(Clone, Debug)]
enum CteSource {
    /// Computed once.
    Once(CteId),
    /// Put in place of each reference.
    Inline {
        /// The query.
        query: Box<ast::Query>,
        /// How many other common table expressions it sees.
        ctes: usize,
        /// How many levels are around it.
        levels: usize,
    },
}

/// The state of lowering one statement.
struct Lowering<'c> {
    catalog: &'c dyn Catalog,
    /// What names mean that are no columns.
    variables: &'c Variables,
    text: &'c str,
    begin: usize,
    params: Vec<Type>,
    /// The values of the parameters, as far as they are known.
    values: &'c [Value],
    /// The plan is good for these values only.
    for_values: bool,
    /// The levels around the present place, innermost last.
    levels: Vec<Level>,
    ctes: Vec<VisibleCte>,
    locks: Vec<TableLock>,
    /// Descendants that are locked as the table with this id, but only once all of the statement is
    /// analysed.
    late_locks: Vec<(Arc<Table>, RelationId)>,
    subplans: u32,
    cte_count: u32,
    /// Sequences of tables under construction.
    defaults: Vec<Arc<str>>,
}

/// `unsupported`, at a byte.
fn unsupported<T>(what: impl std::fmt::Display, at: usize) -> Result<T, DbError> {
    Err(DbError::unsupported(what, Some(at)))
}

/// An error of the server, at a byte.
fn error<T>(code: &str, message: impl Into<Arc<str>>, at: usize) -> Result<T, DbError> {
    Err(DbError::postgres(code, message).at(at))
}

/// Refuses a part of a tree that is present but not modelled.
fn absent(present: bool, what: &str, at: usize) -> Result<(), DbError> {
    if present {
        return unsupported(what, at);
    }
    Ok(())
}

/// The name of an identifier, folded to lower case unless quoted.
fn ident(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Where a piece of the tree begins; `fallback` if the tree does not say.
fn place(node: &impl Spanned, fallback: usize) -> usize {
    let span = node.span();
    if is_known(span) {
        start_of(span)
    } else {
        fallback
    }
}

/// Where a piece of the tree ends.
fn end_place(node: &impl Spanned, fallback: usize) -> usize {
    let span = node.span();
    if is_known(span) {
        end_of(span)
    } else {
        fallback
    }
}

/// A constant of a type.
fn constant(value: Value, ty: Type, at: usize) -> Typed {
    Typed::new(Expr::Const(value), ty, at)
}

/// What lowering a statement gives: the plan, its columns and tag.
type Lowered = (PlanKind, Vec<OutputColumn>, &'static str);

impl<'c> Lowering<'c> {
    fn new(
        text: &'c str,
        begin: usize,
        catalog: &'c dyn Catalog,
        params: &[Type],
        variables: &'c Variables,
    ) -> Lowering<'c> {
        Lowering {
            catalog,
            variables,
            text,
            begin,
            params: params.to_vec(),
            values: &[],
            for_values: false,
            levels: Vec::new(),
            ctes: Vec::new(),
            locks: Vec::new(),
            late_locks: Vec::new(),
            subplans: 0,
            cte_count: 0,
            defaults: Vec::new(),
        }
    }
}

impl Lowering<'_> {
    fn statement(&mut self, tree: &ast::Statement) -> Result<Lowered, DbError> {
        match tree {
            ast::Statement::Query(query) => {
                if let Some(lowered) = self.write_with_ctes(query)? {
                    return Ok(lowered);
                }
                let query = self.query(query, &[])?;
                let columns = visible(&query.columns);
                Ok((PlanKind::Query(Box::new(query)), columns, "SELECT"))
            }
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_) => {
                let (write, columns, tag) = self.write(tree, Vec::new())?;
                Ok((PlanKind::Write(Box::new(write)), columns, tag))
            }
            other => self.ddl(other),
        }
    }

    fn finish(
        mut self,
        kind: PlanKind,
        columns: Vec<OutputColumn>,
        tag: &'static str,
    ) -> Result<Plan, DbError> {
        for (table, root) in std::mem::take(&mut self.late_locks) {
            let root: Vec<TableLockMode> = self
                .locks
                .iter()
                .filter(|lock| lock.table.id == root)
                .map(|lock| lock.mode)
                .collect();
            if let Some(mode) = root.into_iter().max() {
                self.lock(&table, mode);
            }
        }
        let mut params = self.params;
        for (i, ty) in params.iter_mut().enumerate() {
            if *ty == Type::Unknown {
                return error(
                    "42P18",
                    format!("could not determine data type of parameter ${}", i + 1),
                    self.begin,
                );
            }
        }
        Ok(Plan {
            kind,
            params,
            for_values: self.for_values,
            columns,
            tag,
            locks: self.locks,
            subplans: self.subplans,
            ctes: self.cte_count,
        })
    }

    /// Numbers a sub-select.
    fn next_subplan(&mut self) -> SubPlanId {
        self.subplans += 1;
        SubPlanId(self.subplans - 1)
    }

    /// Numbers a common table expression.
    fn next_cte(&mut self) -> CteId {
        self.cte_count += 1;
        CteId(self.cte_count - 1)
    }

    /// Notes that the statement locks a table to read it.
    fn lock(&mut self, table: &Arc<Table>, mode: TableLockMode) {
        let read = |lock: &&mut TableLock| {
            lock.table.id == table.id && lock.mode < TableLockMode::RowExclusive
        };
        match self.locks.iter_mut().find(read) {
            Some(lock) => lock.mode = lock.mode.max(mode),
            None => self.locks.push(TableLock {
                table: table.clone(),
                mode,
                indexes: true,
            }),
        }
    }

    /// Notes that the statement locks a table to write it; `indexes` as in [`TableLock`].
    fn lock_target(&mut self, table: &Arc<Table>, indexes: bool) {
        let mode = TableLockMode::RowExclusive;
        let same = |lock: &&mut TableLock| lock.table.id == table.id && lock.mode == mode;
        match self.locks.iter_mut().find(same) {
            Some(lock) => lock.indexes |= indexes,
            None => self.locks.push(TableLock {
                table: table.clone(),
                mode,
                indexes,
            }),
        }
    }

    /// Runs `body` inside a new level.
    fn in_level<T>(
        &mut self,
        level: Level,
        body: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        self.levels.push(level);
        let result = body(self);
        self.levels.pop();
        result
    }

    /// The innermost level.
    ///
    /// # Panics
    /// If there is none.
    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("inside a level")
    }

    /// Hides the common table expressions that `body` adds.
    fn with_ctes<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let count = self.ctes.len();
        let result = body(self);
        self.ctes.truncate(count);
        result
    }
}

/// The columns as a client sees them: literals without a type are text.
fn visible(columns: &[OutputColumn]) -> Vec<OutputColumn> {
    columns
        .iter()
        .map(|c| OutputColumn {
            name: c.name.clone(),
            ty: if c.ty == Type::Unknown {
                Type::Text
            } else {
                c.ty
            },
        })
        .collect()
}

/// The `WITH` list of a statement.
type CteList = Vec<Cte>;
