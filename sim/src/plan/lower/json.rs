//! Calls that make JSON of values of any type, and rows as JSON.

use rowlock_model::{DbError, Value};
use sqlparser::ast;

use super::{Lowering, Typed, constant, error, ident, unsupported};
use crate::plan::expr::{Expr, Function};
use crate::plan::query::RangeKind;
use crate::plan::types::Type;
use crate::sql::tokens::start_of;

/// A value as JSON, by the rules of `to_jsonb` or `to_json`.
fn converted(typed: Typed, binary: bool) -> Expr {
    let function = if binary {
        Function::ToJson(typed.ty)
    } else {
        Function::JsonOutput(typed.ty)
    };
    Expr::Call {
        function,
        args: vec![typed.expr],
    }
}

fn json_type(binary: bool) -> Type {
    if binary { Type::Jsonb } else { Type::Json }
}

impl Lowering<'_> {
    /// `jsonb_build_object(..)`, `json_build_object(..)`.
    pub(super) fn json_object(
        &mut self,
        binary: bool,
        args: &[Typed],
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut parts = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            let typed = self.settle(arg.clone())?;
            parts.push(if i % 2 == 0 {
                Expr::Call {
                    function: Function::Output(typed.ty),
                    args: vec![typed.expr],
                }
            } else {
                converted(typed, binary)
            });
        }
        let function = if binary {
            Function::JsonbBuildObject
        } else {
            Function::JsonBuildObject
        };
        let expr = Expr::Call {
            function,
            args: parts,
        };
        Ok(Typed::new(expr, json_type(binary), at))
    }

    /// `jsonb_build_array(..)`, `json_build_array(..)`.
    pub(super) fn json_list(
        &mut self,
        binary: bool,
        args: &[Typed],
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut parts = Vec::with_capacity(args.len());
        for arg in args {
            let typed = self.settle(arg.clone())?;
            parts.push(converted(typed, binary));
        }
        let ty = json_type(binary);
        let expr = Expr::Call {
            function: Function::JsonBuildArray(ty),
            args: parts,
        };
        Ok(Typed::new(expr, ty, at))
    }

    /// `jsonb_extract_path(json, name, ..)` and its kin.
    pub(super) fn json_path(
        &mut self,
        name: &str,
        args: &[Typed],
        at: usize,
    ) -> Result<Typed, DbError> {
        let ty = json_type(name.starts_with("jsonb"));
        let as_text = name.ends_with("_text");
        let whole = self.require(args[0].clone(), ty, name)?;
        let mut path = Vec::with_capacity(args.len() - 1);
        for arg in &args[1..] {
            path.push(self.require(arg.clone(), Type::Text, name)?.expr);
        }
        let expr = Expr::Call {
            function: Function::JsonPath(as_text, ty),
            args: vec![whole.expr, Expr::Array(path)],
        };
        Ok(Typed::new(expr, if as_text { Type::Text } else { ty }, at))
    }

    /// The argument of a function that makes JSON of a row, if it is the name of a table (or of another
    /// item of `FROM`) or a `ROW(..)`: that row as JSON.
    pub(super) fn json_argument(
        &mut self,
        function: &str,
        tree: &ast::Expr,
    ) -> Result<Option<Typed>, DbError> {
        let binary = match function {
            "to_jsonb" | "jsonb_agg" => true,
            "to_json" | "row_to_json" | "json_agg" => false,
            _ => return Ok(None),
        };
        match tree {
            ast::Expr::Identifier(name) => self.table_as_json(name, binary),
            ast::Expr::Function(call)
                if function != "json_agg"
                    && function != "jsonb_agg"
                    && call.name.to_string().eq_ignore_ascii_case("row") =>
            {
                self.record_as_json(call, binary).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The row of an item of `FROM`, named where a value is expected, as JSON.
    fn table_as_json(&mut self, name: &ast::Ident, binary: bool) -> Result<Option<Typed>, DbError> {
        let at = start_of(name.span);
        let folded = ident(name);
        let Some((index, distance, entry)) = self.find_table(&folded) else {
            return Ok(None);
        };
        let hidden = self.levels[index..]
            .iter()
            .any(|level| level.names.columns.iter().any(|c| *c.name == *folded));
        if hidden {
            return Ok(None);
        }
        let level = &self.levels[index];
        let found = level.range[entry].clone();
        let alone = level.range.len() == 1;
        let column = |i: usize| Expr::Column {
            level: distance as u32,
            entry: entry as u32,
            column: i as u32,
        };
        let mut fields = Vec::new();
        // What only a row that an outer join found no partner for lacks.
        let mut never_null = None;
        for (i, each) in found.columns.iter().enumerate() {
            if let RangeKind::Table(table) = &found.kind {
                if table.columns[i].dropped {
                    continue;
                }
                if table.columns[i].not_null {
                    never_null.get_or_insert(i);
                }
            }
            let typed = Typed::new(column(i), each.ty, at);
            fields.push((each.name.to_string(), typed));
        }
        let row = self.fields_as_json(fields, binary, at)?;
        if alone {
            return Ok(Some(row));
        }
        let Some(key) = never_null else {
            return unsupported("a whole row of one of several tables", at).map(Some);
        };
        let absent = Expr::IsNull {
            expr: Box::new(column(key)),
            negated: false,
        };
        let expr = Expr::Case {
            branches: vec![(absent, Expr::Const(Value::Null))],
            otherwise: Box::new(row.expr),
        };
        Ok(Some(Typed::new(expr, row.ty, at)))
    }

    /// `ROW(a, b)` as JSON: its fields are `f1`, `f2`, ...
    fn record_as_json(&mut self, call: &ast::Function, binary: bool) -> Result<Typed, DbError> {
        let at = super::place(call, self.begin);
        let ast::FunctionArguments::List(list) = &call.args else {
            return error("42601", "syntax error", at);
        };
        let mut fields = Vec::with_capacity(list.args.len());
        for (i, arg) in list.args.iter().enumerate() {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(tree)) = arg else {
                return unsupported("this field of a row", at);
            };
            let typed = self.expr(tree)?;
            fields.push((format!("f{}", i + 1), self.settle(typed)?));
        }
        self.fields_as_json(fields, binary, at)
    }

    fn fields_as_json(
        &mut self,
        fields: Vec<(String, Typed)>,
        binary: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut args = Vec::with_capacity(2 * fields.len());
        for (name, typed) in fields {
            args.push(constant(Value::text(name), Type::Text, at).expr);
            args.push(converted(typed, binary));
        }
        let function = if binary {
            Function::JsonbBuildObject
        } else {
            Function::RowToJson
        };
        let expr = Expr::Call { function, args };
        Ok(Typed::new(expr, json_type(binary), at))
    }
}
