//! A function that returns a set, in a select list without `FROM`.
//!
//! `SELECT generate_series(1, 3) % 2` has a row for each value of the set, exactly as
//! `SELECT generate_series % 2 FROM generate_series(1, 3)`. That holds while the function stands
//! where its value is computed once a row: at the top of a target or under operators and casts, and
//! with no other function beside it. Everything else is left as it is, and refused later.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, SelectItem, Visit, Visitor};

/// Whether a function returns a set of single values.
pub(super) fn is_column(name: &str) -> bool {
    matches!(
        name,
        "generate_series"
            | "unnest"
            | "jsonb_array_elements"
            | "jsonb_array_elements_text"
            | "json_array_elements"
            | "json_array_elements_text"
            | "jsonb_object_keys"
            | "json_object_keys"
    )
}

/// Whether a function returns a set.
pub(super) fn returns_set(name: &str) -> bool {
    is_column(name)
        || matches!(
            name,
            "generate_subscripts"
                | "regexp_split_to_table"
                | "regexp_matches"
                | "string_to_table"
                | "jsonb_each"
                | "jsonb_each_text"
                | "json_each"
                | "json_each_text"
                | "jsonb_to_recordset"
                | "json_to_recordset"
                | "jsonb_populate_recordset"
                | "json_populate_recordset"
                | "jsonb_path_query"
        )
}

/// The same query with the function in `FROM`, if it has one and may be written so.
pub(super) fn moved_into_from(select: &ast::Select) -> Option<ast::Select> {
    let plain =
        matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !select.from.is_empty() || !plain || select.having.is_some() || select.distinct.is_some() {
        return None;
    }
    let mut count = Functions::default();
    let _ = select.projection.visit(&mut count);
    if count.functions != 1 || count.queries != 0 {
        return None;
    }
    let mut moved = select.clone();
    let function = moved.projection.iter_mut().find_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => take(expr),
        _ => None,
    })?;
    moved.from = vec![ast::TableWithJoins {
        relation: function,
        joins: Vec::new(),
    }];
    Some(moved)
}

/// Replaces the function in an expression by a column of its name; gives the function.
fn take(expr: &mut Expr) -> Option<ast::TableFactor> {
    match expr {
        Expr::BinaryOp { left, right, .. } => take(left).or_else(|| take(right)),
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => take(expr),
        Expr::Function(function) => {
            let name = function.name.0.last()?.as_ident()?.clone();
            let is_set = is_column(&name.value.to_ascii_lowercase());
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let is_plain = list.duplicate_treatment.is_none()
                && list.clauses.is_empty()
                && function.over.is_none()
                && function.filter.is_none();
            if !is_set || !is_plain {
                return None;
            }
            let factor = ast::TableFactor::Function {
                lateral: false,
                name: function.name.clone(),
                args: list.args.clone(),
                with_ordinality: false,
                // The one column has the name of the function, whatever the function calls it.
                alias: Some(ast::TableAlias {
                    explicit: false,
                    name: name.clone(),
                    columns: vec![ast::TableAliasColumnDef::from_name(name.value.clone())],
                    at: None,
                }),
            };
            *expr = Expr::Identifier(name);
            Some(factor)
        }
        _ => None,
    }
}

/// Counts what else a select list calls.
#[derive(Default)]
struct Functions {
    functions: usize,
    queries: usize,
}

impl Visitor for Functions {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.functions += usize::from(matches!(expr, Expr::Function(_)));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }
}
