//! Function calls.

use rowlock_model::{DbError, Value};
use sqlparser::ast;
use sqlparser::ast::{
    DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
};

use super::datatype::array_of;
use super::names::Place;
use super::operator::{Build, Candidate, candidate, choose};
use super::{
    Lowering, Typed, absent, constant, error, functions, ident, place, server, unsupported,
};
use crate::plan::expr::{Compare, Expr, Function, HostFunction};
use crate::plan::query::Wanted;
use crate::plan::types::Type;
use crate::plan::types::coerce::Context;
use crate::sql::tokens::start_of;

/// The arguments of a call, taken apart.
pub(super) struct Call<'a> {
    pub(super) name: String,
    pub(super) at: usize,
    pub(super) args: Vec<&'a ast::Expr>,
    /// Names of named arguments, in the order of `args`.
    names: Vec<Option<String>>,
    pub(super) star: bool,
    pub(super) distinct: bool,
    pub(super) order: Vec<ast::OrderByExpr>,
    pub(super) filter: Option<&'a ast::Expr>,
    pub(super) over: Option<&'a ast::WindowType>,
}

impl<'a> Call<'a> {
    /// Takes a call apart, refusing what is not modelled.
    fn read(f: &'a ast::Function) -> Result<Call<'a>, DbError> {
        let ast::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = f;
        let last = name.0.last().and_then(|p| p.as_ident());
        let at = name
            .0
            .first()
            .and_then(|p| p.as_ident())
            .map_or(0, |i| start_of(i.span));
        absent(*uses_odbc_syntax, "ODBC syntax", at)?;
        absent(
            !matches!(parameters, FunctionArguments::None),
            "function parameters",
            at,
        )?;
        absent(!within_group.is_empty(), "WITHIN GROUP", at)?;
        absent(null_treatment.is_some(), "IGNORE NULLS", at)?;
        if name.0.len() == 2 {
            let schema = name.0[0].as_ident().map(ident).unwrap_or_default();
            absent(
                schema != "pg_catalog" && schema != "public",
                "a function in another schema",
                at,
            )?;
        }
        let mut call = Call {
            name: last.map(ident).unwrap_or_default(),
            at,
            args: Vec::new(),
            names: Vec::new(),
            star: false,
            distinct: false,
            order: Vec::new(),
            filter: filter.as_deref(),
            over: over.as_ref(),
        };
        match args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(_) => {
                return unsupported("a sub-select as function argument", at);
            }
            FunctionArguments::List(list) => call.read_list(list)?,
        }
        Ok(call)
    }

    fn read_list(&mut self, list: &'a ast::FunctionArgumentList) -> Result<(), DbError> {
        let ast::FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses,
        } = list;
        self.distinct = matches!(duplicate_treatment, Some(DuplicateTreatment::Distinct));
        for arg in args {
            let (name, value) = match arg {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named {
                    name,
                    arg,
                    operator: _,
                } => (Some(ident(name)), arg),
                FunctionArg::ExprNamed {
                    name: ast::Expr::Identifier(name),
                    arg,
                    operator: _,
                } => (Some(ident(name)), arg),
                FunctionArg::ExprNamed { .. } => {
                    return unsupported("an expression as argument name", self.at);
                }
            };
            match value {
                FunctionArgExpr::Expr(e) => {
                    self.args.push(e);
                    self.names.push(name);
                }
                FunctionArgExpr::Wildcard => self.star = true,
                FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_) => {
                    return unsupported("a whole row as function argument", self.at);
                }
            }
        }
        for clause in clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => self.order = keys.clone(),
                _ => return unsupported("a clause inside a function call", self.at),
            }
        }
        Ok(())
    }

    fn is_plain(&self) -> bool {
        !self.star
            && !self.distinct
            && self.order.is_empty()
            && self.filter.is_none()
            && self.over.is_none()
    }
}

impl Lowering<'_> {
    /// A function call.
    pub(super) fn function(&mut self, f: &ast::Function) -> Result<Typed, DbError> {
        if let FunctionArguments::Subquery(query) = &f.args
            && f.name.to_string().eq_ignore_ascii_case("array")
        {
            // `ARRAY(SELECT ..)` is read as a function call.
            let plan = self.subplan(query, Wanted::Rows)?;
            return self.array_subquery(plan, place(f, self.begin));
        }
        let mut call = Call::read(f)?;
        if super::aggregate::is_aggregate(&call.name) || call.over.is_some() {
            return self.aggregate_call(&call);
        }
        if !call.is_plain() {
            if call.star {
                return error(
                    "42809",
                    format!(
                        "{}(*) specified, but {} is not an aggregate function",
                        call.name, call.name
                    ),
                    call.at,
                );
            }
            return unsupported("aggregate syntax on a plain function", call.at);
        }
        if matches!(f.args, FunctionArguments::None) {
            return self.keyword_function(&call);
        }
        match call.name.as_str() {
            "coalesce" | "greatest" | "least" => return self.variadic_common(&call),
            "nullif" => return self.null_if(&call),
            "row" => {
                let fields = self.fields(&call.args)?;
                return Ok(Typed::new(Expr::Record(fields), Type::Record, call.at));
            }
            "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile"
            | "lag" | "lead" | "first_value" | "last_value" | "nth_value" => {
                return error(
                    "42809",
                    format!("window function {} requires an OVER clause", call.name),
                    call.at,
                );
            }
            "pg_typeof" => return self.type_of(&call),
            "make_interval" if call.names.iter().any(Option::is_some) => {
                return self.named_interval(&call);
            }
            "pg_snapshot_xmin"
            | "txid_snapshot_xmin"
            | "pg_snapshot_xmax"
            | "txid_snapshot_xmax"
            | "pg_visible_in_snapshot" => return self.snapshot_function(&call),
            name if super::series::returns_set(name) => {
                if let Place::Clause(what) = self.level().place {
                    return error(
                        "0A000",
                        format!("set-returning functions are not allowed in {what}"),
                        call.at,
                    );
                }
                return unsupported("a set-returning function inside an expression", call.at);
            }
            _ => {}
        }
        if call.names.iter().any(Option::is_some) {
            call.args = self.named_arguments(&call.name, &call.args, &call.names, call.at)?;
        }
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let mut typed = match self.json_argument(&call.name, arg)? {
                Some(row) => row,
                None => self.expr(arg)?,
            };
            self.known_param(&mut typed);
            args.push(typed);
        }
        self.call(&call.name, args, call.at)
    }

    /// A call with lowered arguments.
    pub(super) fn call(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        at: usize,
    ) -> Result<Typed, DbError> {
        if let Some(typed) = self.polymorphic_call(name, &args, at)? {
            return Ok(typed);
        }
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let mut candidates = functions::candidates(name);
        candidates.extend(self.user_candidates(name, &types));
        match choose(&candidates, &types) {
            Ok(chosen) => self.build(&chosen, args, at),
            Err(ambiguous) => {
                let shown: Vec<String> = types.iter().map(|t| self.type_name(*t)).collect();
                let signature = format!("{name}({})", shown.join(", "));
                if ambiguous {
                    return error("42725", format!("function {signature} is not unique"), at);
                }
                if (server::has_function(name, &shown)
                    || (candidates.is_empty() && is_known_elsewhere(name)))
                    && self.catalog.routines(name).is_empty()
                {
                    return unsupported(format!("the function {name}"), at);
                }
                error("42883", format!("function {signature} does not exist"), at)
            }
        }
    }

    /// Functions without parentheses: `current_timestamp`.
    fn keyword_function(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        let at = call.at;
        let now = Typed::new(
            Expr::Host {
                function: HostFunction::TransactionTimestamp,
                args: Vec::new(),
            },
            Type::TimestampTz,
            at,
        );
        let named = |function, ty| {
            Ok(Typed::new(
                Expr::Host {
                    function,
                    args: Vec::new(),
                },
                ty,
                at,
            ))
        };
        let target = match call.name.as_str() {
            "current_timestamp" => return Ok(now),
            "current_date" => Type::Date,
            "localtimestamp" => Type::Timestamp,
            "localtime" => Type::Time,
            "current_user" | "user" | "current_role" => {
                return named(HostFunction::CurrentUser, Type::Name);
            }
            "session_user" => return named(HostFunction::SessionUser, Type::Name),
            "current_catalog" => return named(HostFunction::CurrentDatabase, Type::Name),
            "current_schema" => return named(HostFunction::CurrentSchema, Type::Name),
            other => return unsupported(format!("{other} without parentheses"), at),
        };
        match self.coerce(now, target, Context::Explicit)? {
            Some(typed) => Ok(typed),
            None => unsupported("this function", at),
        }
    }

    /// A word without parentheses that is a function for the server.
    pub(super) fn word_function(&mut self, name: &ast::Ident) -> Option<Typed> {
        if name.quote_style.is_some() {
            return None;
        }
        let function = match ident(name).as_str() {
            "current_schema" => HostFunction::CurrentSchema,
            "current_role" | "current_user" | "user" => HostFunction::CurrentUser,
            "session_user" => HostFunction::SessionUser,
            "current_catalog" => HostFunction::CurrentDatabase,
            _ => return None,
        };
        let expr = Expr::Host {
            function,
            args: Vec::new(),
        };
        Some(Typed::new(expr, Type::Name, start_of(name.span)))
    }

    fn variadic_common(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        let mut list = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            list.push(self.expr(arg)?);
        }
        let (list, ty) = self.unify(list, &call.name.to_ascii_uppercase())?;
        let exprs: Vec<Expr> = list.into_iter().map(|t| t.expr).collect();
        let expr = match call.name.as_str() {
            "coalesce" => Expr::Coalesce(exprs),
            name => Expr::Extreme {
                greatest: name == "greatest",
                by: self.comparison(ty),
                args: exprs,
            },
        };
        Ok(Typed::new(expr, ty, call.at))
    }

    fn null_if(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        let [a, b] = call.args.as_slice() else {
            return error("42601", "syntax error at or near \")\"", call.at);
        };
        let (left, right) = (self.expr(a)?, self.expr(b)?);
        let ty = if left.is_open() { right.ty } else { left.ty };
        let (by, left, right) = self.compare(Compare::Eq, left, right, call.at)?;
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        let expr = Expr::NullIf {
            by,
            sides: Box::new((left, right)),
        };
        Ok(Typed::new(expr, ty, call.at))
    }

    /// The fields of a row, literals as text.
    pub(super) fn fields(&mut self, args: &[&ast::Expr]) -> Result<Vec<(Expr, Type)>, DbError> {
        let mut fields = Vec::with_capacity(args.len());
        for arg in args {
            let typed = self.expr(arg)?;
            let typed = self.settle(typed)?;
            fields.push((typed.expr, typed.ty));
        }
        Ok(fields)
    }

    fn type_of(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        let [arg] = call.args.as_slice() else {
            return unsupported("pg_typeof of several values", call.at);
        };
        let typed = self.expr(arg)?;
        let name = self.type_name(typed.ty);
        Ok(constant(Value::text(name), Type::Text, call.at))
    }

    /// `make_interval(mins => 5)`.
    fn named_interval(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        const NAMES: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
        let mut args: Vec<Option<Typed>> = vec![None; 7];
        for (i, (arg, name)) in call.args.iter().zip(&call.names).enumerate() {
            let index = match name {
                None => i,
                Some(name) => match NAMES.iter().position(|n| n == name) {
                    Some(index) => index,
                    None => {
                        return error("42883", "function make_interval does not exist", call.at);
                    }
                },
            };
            args[index] = Some(self.expr(arg)?);
        }
        let zero = |i: usize| match i {
            6 => constant(Value::Float(0.0), Type::Float8, call.at),
            _ => constant(Value::Int(0), Type::Int4, call.at),
        };
        let args: Vec<Typed> = args
            .into_iter()
            .enumerate()
            .map(|(i, a)| a.unwrap_or_else(|| zero(i)))
            .collect();
        self.call("make_interval", args, call.at)
    }

    /// Functions of the statement's own snapshot: the only snapshots that are modelled.
    fn snapshot_function(&mut self, call: &Call<'_>) -> Result<Typed, DbError> {
        let own = |e: Option<&&ast::Expr>| match e {
            Some(ast::Expr::Function(f)) => {
                let name = f.name.to_string().to_ascii_lowercase();
                matches!(
                    name.as_str(),
                    "pg_current_snapshot" | "txid_current_snapshot"
                )
            }
            _ => false,
        };
        if !own(call.args.last()) {
            return unsupported("snapshots other than the current one", call.at);
        }
        let ty = if call.name.starts_with("txid") {
            Type::Int8
        } else {
            Type::Xid8
        };
        let (function, args, ty) = match call.name.as_str() {
            "pg_visible_in_snapshot" => {
                let first = call.args.first().copied();
                let Some(first) = first.filter(|_| call.args.len() == 2) else {
                    return unsupported("this call", call.at);
                };
                let xid = self.expr(first)?;
                let xid = self.require(xid, Type::Xid8, "pg_visible_in_snapshot")?;
                (HostFunction::XactIsVisible, vec![xid.expr], Type::Bool)
            }
            name if name.ends_with("xmin") => (HostFunction::SnapshotXmin, Vec::new(), ty),
            _ => (HostFunction::SnapshotXmax, Vec::new(), ty),
        };
        Ok(Typed::new(Expr::Host { function, args }, ty, call.at))
    }

    /// Functions whose types follow from their arguments.
    fn polymorphic_call(
        &mut self,
        name: &str,
        args: &[Typed],
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        let first = args.first().map(|a| a.ty);
        let element = match first {
            Some(Type::Array(element)) => Some(*element),
            _ => None,
        };
        let pure = |types: Vec<Type>, result, function| Candidate {
            args: types,
            result,
            build: Build::Pure(function),
        };
        let chosen = match (name, first, element, args.len()) {
            ("array_length" | "array_upper", Some(a), Some(_), 2) => {
                pure(vec![a, Type::Int4], Type::Int4, Function::ArrayLength)
            }
            ("cardinality", Some(a), Some(_), 1) => {
                pure(vec![a], Type::Int4, Function::Cardinality)
            }
            ("array_append", Some(a), Some(e), 2) => pure(vec![a, e], a, Function::ArrayAppend),
            ("array_remove", Some(a), Some(e), 2) => pure(vec![a, e], a, Function::ArrayRemove),
            ("array_position", Some(a), Some(e), 2) => {
                pure(vec![a, e], Type::Int4, Function::ArrayPosition)
            }
            ("array_cat", Some(a), Some(_), 2) => pure(vec![a, a], a, Function::ArrayConcat),
            ("array_to_string", Some(a), Some(e), n @ (2 | 3)) => {
                let mut types = vec![a];
                types.extend(vec![Type::Text; n - 1]);
                pure(types, Type::Text, Function::ArrayToString(e))
            }
            ("array_prepend", Some(e), None, 2) => match array_of(e) {
                Some(a) => pure(vec![e, a], a, Function::ArrayPrepend),
                None => return Ok(None),
            },
            ("concat" | "concat_ws" | "format", Some(_), _, _) => {
                return self.any_text(name, args, at).map(Some);
            }
            ("to_json" | "array_to_json" | "row_to_json", Some(Type::Json), _, 1) => {
                return Ok(Some(args[0].clone()));
            }
            ("to_json", Some(ty), _, 1) if ty != Type::Unknown => {
                pure(vec![ty], Type::Json, Function::JsonOutput(ty))
            }
            ("array_to_json", Some(ty), Some(_), 1) => {
                pure(vec![ty], Type::Json, Function::JsonOutput(ty))
            }
            ("to_jsonb", Some(ty), _, 1) if ty != Type::Unknown => {
                pure(vec![ty], Type::Jsonb, Function::ToJson(ty))
            }
            ("jsonb_build_object" | "json_build_object", _, _, n) if n % 2 == 0 => {
                return self
                    .json_object(name == "jsonb_build_object", args, at)
                    .map(Some);
            }
            ("jsonb_build_array" | "json_build_array", _, _, _) => {
                return self
                    .json_list(name == "jsonb_build_array", args, at)
                    .map(Some);
            }
            (
                "jsonb_extract_path"
                | "jsonb_extract_path_text"
                | "json_extract_path"
                | "json_extract_path_text",
                Some(_),
                _,
                2..,
            ) => return self.json_path(name, args, at).map(Some),
            ("num_nulls" | "num_nonnulls", Some(_), _, _) => {
                let function = Function::NumNulls(name == "num_nulls");
                let args = args.iter().map(|a| a.expr.clone()).collect();
                let expr = Expr::Call { function, args };
                return Ok(Some(Typed::new(expr, Type::Int4, at)));
            }
            ("quote_literal", Some(ty), _, 1) if ty != Type::Text && ty != Type::Unknown => {
                return self.any_text("quote_literal", args, at).map(Some);
            }
            (
                "int4" | "int8" | "text" | "numeric" | "float8" | "varchar" | "bool",
                Some(_),
                _,
                1,
            ) => {
                let ty = match name {
                    "int4" => Type::Int4,
                    "int8" => Type::Int8,
                    "text" => Type::Text,
                    "numeric" => Type::Numeric,
                    "float8" => Type::Float8,
                    "varchar" => Type::Varchar,
                    _ => Type::Bool,
                };
                return self.coerce(args[0].clone(), ty, Context::Explicit);
            }
            _ => return Ok(None),
        };
        self.build(&chosen, args.to_vec(), at).map(Some)
    }

    /// Functions that take values of any type as their output text.
    fn any_text(&mut self, name: &str, args: &[Typed], at: usize) -> Result<Typed, DbError> {
        let mut texts = Vec::with_capacity(args.len());
        for arg in args {
            let typed = self.settle(arg.clone())?;
            texts.push(if typed.ty == Type::Text {
                typed.expr
            } else {
                Expr::Call {
                    function: Function::Output(typed.ty),
                    args: vec![typed.expr],
                }
            });
        }
        let function = match name {
            "concat" => Function::ConcatAll,
            "concat_ws" => Function::ConcatWith,
            "quote_literal" => Function::QuoteLiteral,
            _ => Function::Format,
        };
        let expr = Expr::Call {
            function,
            args: texts,
        };
        Ok(Typed::new(expr, Type::Text, at))
    }

    /// `ceil(x)` and `floor(x)`, which the parser has nodes for.
    pub(super) fn one_argument(
        &mut self,
        name: &str,
        arg: &ast::Expr,
        at: usize,
    ) -> Result<Typed, DbError> {
        let mut typed = self.expr(arg)?;
        self.known_param(&mut typed);
        self.call(name, vec![typed], at)
    }

    /// `-x`.
    pub(super) fn negate(&mut self, mut typed: Typed, at: usize) -> Result<Typed, DbError> {
        self.known_param(&mut typed);
        if let Expr::Const(value) = &typed.expr {
            let negated = match value {
                Value::Int(i) => i.checked_neg().map(Value::Int),
                Value::Decimal(d) if !d.is_zero() => Some(Value::Decimal(-*d)),
                _ => None,
            };
            if let Some(value) = negated {
                return Ok(Typed {
                    at,
                    ..constant(value, typed.ty, at)
                });
            }
        }
        let candidates: Vec<Candidate> = [
            Type::Int2,
            Type::Int4,
            Type::Int8,
            Type::Float4,
            Type::Float8,
            Type::Numeric,
        ]
        .iter()
        .map(|t| candidate(&[*t], *t, Build::Pure(Function::Negate(*t))))
        .chain([candidate(
            &[Type::Interval],
            Type::Interval,
            Build::Pure(Function::IntervalNegate),
        )])
        .collect();
        match choose(&candidates, &[typed.ty]) {
            Ok(chosen) => self.build(&chosen, vec![typed], at),
            Err(true) => error("42725", "operator is not unique: - unknown", at),
            Err(false) => error(
                "42883",
                format!("operator does not exist: - {}", self.type_name(typed.ty)),
                at,
            ),
        }
    }

    /// An interval from a literal with a declared field (`interval '5' minute`).
    pub(super) fn interval_field(
        &mut self,
        text: &str,
        field: &str,
        at: usize,
    ) -> Result<Typed, DbError> {
        let value =
            crate::plan::types::datetime::parse_interval(text, field).map_err(|e| e.at(at))?;
        Ok(constant(value, Type::Interval, at))
    }

    /// A place in the statement where aggregates may stand.
    pub(super) fn at_place<T>(
        &mut self,
        place: Place,
        body: impl FnOnce(&mut Self) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let before = std::mem::replace(&mut self.level().place, place);
        let result = body(self);
        self.level().place = before;
        result
    }
}

/// Whether a name is a function of PostgreSQL that is not modelled, as far as is known here.
fn is_known_elsewhere(name: &str) -> bool {
    name.starts_with("pg_")
        || name.starts_with("json")
        || name.starts_with("regexp_")
        || matches!(
            name,
            "to_char"
                | "to_date"
                | "to_number"
                | "age"
                | "timeofday"
                | "width_bucket"
                | "setseed"
                | "log"
                | "cbrt"
                | "pi"
                | "sin"
                | "cos"
                | "tan"
                | "gcd"
                | "lcm"
                | "overlay"
                | "array_agg"
                | "array_dims"
                | "array_ndims"
                | "array_replace"
                | "array_positions"
                | "array_fill"
                | "row_to_json"
                | "to_regclass"
                | "has_table_privilege"
                | "inet_client_addr"
                | "make_timestamp"
                | "make_timestamptz"
                | "make_time"
                | "date_bin"
                | "justify_days"
                | "justify_hours"
                | "sha256"
                | "set_byte"
                | "get_byte"
                | "bit_length"
                | "hashint8"
                | "hashint4"
                | "obj_description"
                | "col_description"
                | "format_type"
                | "nextval"
        )
}
