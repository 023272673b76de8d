//! `CREATE FUNCTION`, `DROP FUNCTION`, `DO`, and calls of functions that users define.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast::{self, CreateFunctionBody, DataType};

use super::ddl::done;
use super::from::{Item, name_place};
use super::names::{Level, Place};
use super::operator::{Build, Candidate};
use super::variables::{Variable, VariableKind, Variables};
use super::{Lowered, Lowering, Typed, absent, error, ident, place, unsupported, visible};
use crate::plan::PlanKind;
use crate::plan::catalog::Relation;
use crate::plan::ddl::Ddl;
use crate::plan::expr::{Expr, Volatility};
use crate::plan::query::{OutputColumn, RangeKind};
use crate::plan::routine::{Argument, ArgumentType, Body, Returns, Routine, RoutineId};
use crate::plan::types::coerce::{Context, can_coerce};
use crate::plan::types::{Declared, Type};
use crate::sql::{self, Statement, StatementKind, plpgsql};

/// A function to call, with the types and values of its arguments.
type Call = (Arc<Routine>, Vec<Type>, Vec<Expr>);

impl Lowering<'_> {
    /// `CREATE [OR REPLACE] FUNCTION`.
    pub(super) fn create_function(
        &mut self,
        create: &ast::CreateFunction,
    ) -> Result<Lowered, DbError> {
        let at = name_place(&create.name, self.begin);
        refuse_foreign(create, at)?;
        let (_, name) = self.split_name(&create.name, at)?;
        let mut routine = Routine {
            id: RoutineId(0),
            name: name.into(),
            args: Vec::new(),
            outputs: Vec::new(),
            returns: Returns::Void,
            volatility: match create.behavior {
                Some(ast::FunctionBehavior::Immutable) => Volatility::Immutable,
                Some(ast::FunctionBehavior::Stable) => Volatility::Stable,
                Some(ast::FunctionBehavior::Volatile) | None => Volatility::Volatile,
            },
            strict: matches!(
                create.called_on_null,
                Some(
                    ast::FunctionCalledOnNull::ReturnsNullOnNullInput
                        | ast::FunctionCalledOnNull::Strict
                )
            ),
            source: "".into(),
            body: Body::Sql(Arc::default()),
        };
        for arg in create.args.iter().flatten() {
            self.argument(&mut routine, arg, at)?;
        }
        self.returns(&mut routine, create.return_type.as_ref(), at)?;
        self.function_body(&mut routine, create, at)?;
        Ok(done(
            Ddl::CreateRoutine {
                routine: Box::new(routine),
                replace: create.or_replace,
            },
            "CREATE FUNCTION",
        ))
    }

    fn argument(
        &mut self,
        routine: &mut Routine,
        arg: &ast::OperateFunctionArg,
        at: usize,
    ) -> Result<(), DbError> {
        let ast::OperateFunctionArg {
            mode,
            name,
            data_type,
            default_expr,
        } = arg;
        let name: Option<Arc<str>> = name.as_ref().map(|n| ident(n).into());
        let ty = self.argument_type(data_type, at)?;
        match mode {
            None | Some(ast::ArgMode::In) => {}
            Some(ast::ArgMode::Out) => {
                let (Some(name), ArgumentType::Declared(declared)) = (name, ty) else {
                    return unsupported("this OUT argument", at);
                };
                routine.outputs.push((name, declared));
                return Ok(());
            }
            Some(_) => return unsupported("INOUT and VARIADIC arguments", at),
        }
        let default = match default_expr {
            None => None,
            Some(tree) => {
                let ArgumentType::Declared(declared) = ty else {
                    return unsupported("the default of a polymorphic argument", at);
                };
                let typed = self
                    .in_level(Level::new(Place::Clause("DEFAULT expressions")), |this| {
                        this.expr(tree)
                    })?;
                match self.coerce(typed, declared.ty, Context::Assignment)? {
                    Some(typed) => Some(typed.expr),
                    None => return unsupported("this default of an argument", at),
                }
            }
        };
        let without = routine.args.last().is_some_and(|arg| arg.default.is_some());
        if without && default.is_none() {
            return error(
                "42P13",
                "input parameters after one with a default value must also have defaults",
                at,
            );
        }
        routine.args.push(Argument { name, ty, default });
        Ok(())
    }

    fn argument_type(&self, ty: &DataType, at: usize) -> Result<ArgumentType, DbError> {
        let text = ty.to_string().to_ascii_lowercase();
        match text.as_str() {
            "anyelement" => Ok(ArgumentType::AnyElement),
            "anynonarray" => Ok(ArgumentType::AnyNonArray),
            "any" | "anyarray" | "anyenum" | "anyrange" | "anycompatible" | "record"
            | "refcursor" | "internal" => unsupported(format!("the argument type {text}"), at),
            _ => Ok(ArgumentType::Declared(Declared::from(
                self.data_type(ty, at)?.ty,
            ))),
        }
    }

    fn returns(
        &mut self,
        routine: &mut Routine,
        ty: Option<&ast::FunctionReturnType>,
        at: usize,
    ) -> Result<(), DbError> {
        let from_outputs = |routine: &Routine| -> Arc<[OutputColumn]> {
            routine
                .outputs
                .iter()
                .map(|(name, declared)| OutputColumn {
                    name: Arc::clone(name),
                    ty: declared.ty,
                })
                .collect()
        };
        routine.returns = match ty {
            None => match &routine.outputs[..] {
                [] => return error("42P13", "function result type must be specified", at),
                [(_, declared)] => Returns::Value(ArgumentType::Declared(*declared)),
                _ => return unsupported("several OUT arguments", at),
            },
            Some(ast::FunctionReturnType::DataType(DataType::Table(columns))) => {
                for column in columns.iter().flatten() {
                    let declared = self.data_type(&column.data_type, at)?;
                    let name = ident(&column.name).into();
                    routine.outputs.push((name, declared));
                }
                Returns::Rows(from_outputs(routine))
            }
            Some(ast::FunctionReturnType::DataType(ty)) => {
                let text = ty.to_string().to_ascii_lowercase();
                match text.as_str() {
                    "trigger" if !routine.args.is_empty() => {
                        return error(
                            "42P13",
                            "trigger functions cannot have declared arguments",
                            at,
                        );
                    }
                    "trigger" => Returns::Trigger,
                    "void" => Returns::Void,
                    "event_trigger" => return unsupported("event triggers", at),
                    _ if self.table_named(&text).is_some() => {
                        return unsupported("functions that return one row", at);
                    }
                    _ => Returns::Value(self.argument_type(ty, at)?),
                }
            }
            Some(ast::FunctionReturnType::SetOf(ty)) => {
                let text = ty.to_string().to_ascii_lowercase();
                if let Some(columns) = self.table_named(&text) {
                    Returns::Rows(columns)
                } else if text == "record" {
                    if routine.outputs.is_empty() {
                        return unsupported("functions that return SETOF record", at);
                    }
                    Returns::Rows(from_outputs(routine))
                } else {
                    let declared = self.data_type(ty, at)?;
                    Returns::Rows(
                        [OutputColumn {
                            name: Arc::clone(&routine.name),
                            ty: declared.ty,
                        }]
                        .into(),
                    )
                }
            }
        };
        let polymorphic = |arg: &Argument| !matches!(arg.ty, ArgumentType::Declared(_));
        if let Returns::Value(ty) = routine.returns
            && !matches!(ty, ArgumentType::Declared(_))
            && !routine.args.iter().any(polymorphic)
        {
            return error("42P13", "cannot determine result data type", at);
        }
        Ok(())
    }

    /// The columns of a table by name: its rows are a type.
    fn table_named(&self, name: &str) -> Option<Arc<[OutputColumn]>> {
        let name = name.strip_prefix("public.").unwrap_or(name);
        let Some(Relation::Table(table)) = self.catalog.relation(None, name) else {
            return None;
        };
        Some(
            table
                .columns
                .iter()
                .filter(|c| !c.dropped)
                .map(|c| OutputColumn {
                    name: Arc::clone(&c.name),
                    ty: c.declared.ty,
                })
                .collect(),
        )
    }

    fn function_body(
        &mut self,
        routine: &mut Routine,
        create: &ast::CreateFunction,
        at: usize,
    ) -> Result<(), DbError> {
        let text = match &create.function_body {
            Some(
                CreateFunctionBody::AsBeforeOptions {
                    body,
                    link_symbol: None,
                }
                | CreateFunctionBody::AsAfterOptions(body),
            ) => text_of(body),
            None => return error("42P13", "no function body specified", at),
            Some(_) => None,
        };
        let Some((text, text_at)) = text else {
            return unsupported("this form of a function's body", at);
        };
        routine.source = text.into();
        let Some(language) = create.language.as_ref().map(ident) else {
            return error("42P13", "no language specified", at);
        };
        // Positions inside the body are shown as places in the statement.
        let moved = |e: DbError| match e.position {
            Some(inside) => e.at(text_at + inside),
            None => e,
        };
        routine.body = match language.as_str() {
            "plpgsql" => Body::Plpgsql(Arc::new(plpgsql::parse(text).map_err(moved)?)),
            "sql" if routine.is_trigger() => {
                return error("42P13", "SQL functions cannot return type trigger", at);
            }
            "sql" => {
                let statements =
                    sql::parse(text, rowlock_model::Dialect::Postgres).map_err(moved)?;
                self.check_sql_body(routine, &statements).map_err(moved)?;
                Body::Sql(statements.into())
            }
            "c" | "internal" => return unsupported(format!("functions in {language}"), at),
            other => {
                return error("42704", format!("language \"{other}\" does not exist"), at);
            }
        };
        Ok(())
    }

    /// Analyses the statements of an SQL function, as the server does when it is made.
    fn check_sql_body(&self, routine: &Routine, statements: &[Statement]) -> Result<(), DbError> {
        let mut types = Vec::with_capacity(routine.args.len());
        for arg in &routine.args {
            match arg.ty {
                ArgumentType::Declared(declared) => types.push(declared.ty),
                _ => return Ok(()),
            }
        }
        let variables = argument_variables(routine, &types);
        let mut last = None;
        for statement in statements {
            if let StatementKind::Control(_) = statement.kind {
                return unsupported("this statement in an SQL function", statement.offset);
            }
            let plan = super::lower_inside(statement, self.catalog, &types, &variables)?;
            if matches!(plan.kind, PlanKind::Ddl(_)) {
                return unsupported("changes of the schema in a function", statement.offset);
            }
            last = Some(plan);
        }
        let returned = last.as_ref().map_or(&[][..], |plan| &plan.columns[..]);
        let mismatch = |detail: String| {
            Err(DbError::postgres(
                "42P13",
                format!(
                    "return type mismatch in function declared to return {}",
                    routine.result(&types).name()
                ),
            )
            .with_detail(detail))
        };
        match &routine.returns {
            Returns::Void | Returns::Trigger => Ok(()),
            Returns::Value(_) => match returned {
                [] => mismatch(
                    "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING."
                        .to_owned(),
                ),
                [one] => {
                    let wanted = routine.result(&types);
                    if can_coerce(one.ty, wanted, Context::Assignment) {
                        Ok(())
                    } else {
                        mismatch(format!("Actual return type is {}.", self.type_name(one.ty)))
                    }
                }
                _ => mismatch("Final statement must return exactly one column.".to_owned()),
            },
            Returns::Rows(columns) if columns.len() == returned.len() => Ok(()),
            Returns::Rows(columns) if returned.len() < columns.len() => {
                mismatch("Final statement returns too few columns.".to_owned())
            }
            Returns::Rows(_) => mismatch("Final statement returns too many columns.".to_owned()),
        }
    }

    /// `DROP FUNCTION`.
    pub(super) fn drop_functions(&mut self, drop: &ast::DropFunction) -> Result<Lowered, DbError> {
        let at = self.begin;
        let mut routines = Vec::new();
        let mut missing: Vec<Arc<str>> = Vec::new();
        for function in &drop.func_desc {
            let (_, name) = self.split_name(&function.name, at)?;
            let named = self.catalog.routines(&name);
            let types = match &function.args {
                None => None,
                Some(args) => {
                    let types: Result<Vec<ArgumentType>, DbError> = args
                        .iter()
                        .filter(|arg| !matches!(arg.mode, Some(ast::ArgMode::Out)))
                        .map(|arg| self.argument_type(&arg.data_type, at))
                        .collect();
                    Some(types?)
                }
            };
            let fits = |routine: &&Arc<Routine>| match &types {
                None => true,
                Some(types) => {
                    routine.args.len() == types.len()
                        && routine
                            .args
                            .iter()
                            .zip(types)
                            .all(|(arg, ty)| arg.ty == *ty)
                }
            };
            let found: Vec<&Arc<Routine>> = named.iter().filter(fits).collect();
            let signature = match &types {
                None => name.clone(),
                Some(types) => {
                    let types: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
                    format!("{name}({})", types.join(", "))
                }
            };
            match &found[..] {
                [one] => routines.push(Arc::clone(one)),
                [] if drop.if_exists => missing.push(signature.into()),
                [] if types.is_none() => {
                    return Err(DbError::postgres(
                        "42883",
                        format!("could not find a function named \"{name}\""),
                    ));
                }
                [] => {
                    return Err(DbError::postgres(
                        "42883",
                        format!("function {signature} does not exist"),
                    ));
                }
                _ => {
                    return Err(DbError::postgres(
                        "42725",
                        format!("function name \"{name}\" is not unique"),
                    ));
                }
            }
        }
        let cascade = matches!(drop.drop_behavior, Some(ast::DropBehavior::Cascade));
        Ok(done(
            Ddl::DropRoutines {
                routines,
                missing,
                cascade,
            },
            "DROP FUNCTION",
        ))
    }

    /// The functions of users that a call may mean, by its argument types.
    pub(super) fn user_candidates(&self, name: &str, given: &[Type]) -> Vec<Candidate> {
        self.catalog
            .routines(name)
            .iter()
            .filter_map(|routine| {
                let args = routine.resolve(given)?;
                Some(Candidate {
                    result: routine.result(&args),
                    build: Build::Routine(routine.id),
                    args,
                })
            })
            .collect()
    }

    /// A call of a function that a user has defined; arguments of the right types.
    pub(super) fn routine_call(
        &self,
        id: RoutineId,
        types: &[Type],
        mut args: Vec<Expr>,
        at: usize,
    ) -> Result<Call, DbError> {
        let Some(routine) = self.catalog.routine(id) else {
            return unsupported("this function", at);
        };
        let mut types = types.to_vec();
        for arg in &routine.args[args.len()..] {
            args.extend(arg.default.clone());
            if let ArgumentType::Declared(declared) = arg.ty {
                types.push(declared.ty);
            }
        }
        if routine.is_trigger() {
            return error(
                "0A000",
                "trigger functions can only be called as triggers",
                at,
            );
        }
        Ok((routine, types, args))
    }

    /// A set-returning function in `FROM`.
    pub(super) fn routine_item(
        &mut self,
        chosen: &Candidate,
        args: Vec<Typed>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        at: usize,
    ) -> Result<Item, DbError> {
        let Build::Routine(id) = chosen.build else {
            return unsupported("this function in FROM", at);
        };
        let mut exprs = Vec::with_capacity(args.len());
        for (arg, ty) in args.into_iter().zip(&chosen.args) {
            match self.coerce(arg, *ty, Context::Implicit)? {
                Some(typed) => exprs.push(typed.expr),
                None => return unsupported("this argument of a function in FROM", at),
            }
        }
        let (routine, types, args) = self.routine_call(id, &chosen.args, exprs, at)?;
        let Returns::Rows(columns) = &routine.returns else {
            return unsupported("this function in FROM", at);
        };
        let mut columns = columns.to_vec();
        let shown = alias.map_or(routine.name.to_string(), |a| ident(&a.name));
        if let [only] = &mut columns[..]
            && routine.outputs.is_empty()
            && only.name == routine.name
        {
            // A function that gives plain values names its column like its table.
            only.name = shown.as_str().into();
        }
        if ordinality {
            columns.push(OutputColumn {
                name: "ordinality".into(),
                ty: Type::Int8,
            });
        }
        let kind = RangeKind::Routine {
            routine,
            types,
            args,
            ordinality,
        };
        let item = self.item(&shown, kind, columns, alias, at)?;
        if let Some(entry) = self.level().range.last_mut() {
            entry.lateral = true;
        }
        Ok(item)
    }

    /// Puts the arguments of a call with names in their order.
    pub(super) fn named_arguments<'a>(
        &self,
        name: &str,
        args: &[&'a ast::Expr],
        names: &[Option<String>],
        at: usize,
    ) -> Result<Vec<&'a ast::Expr>, DbError> {
        let routines = self.catalog.routines(name);
        let [routine] = &routines[..] else {
            return unsupported("named arguments", at);
        };
        let mut ordered: Vec<Option<&'a ast::Expr>> = vec![None; routine.args.len()];
        for (i, (arg, name)) in args.iter().zip(names).enumerate() {
            let place = match name {
                None => Some(i),
                Some(name) => routine
                    .args
                    .iter()
                    .position(|a| a.name.as_deref() == Some(name)),
            };
            match place.and_then(|p| ordered.get_mut(p)) {
                Some(slot @ None) => *slot = Some(arg),
                _ => return unsupported("these named arguments", at),
            }
        }
        let given = ordered.iter().take_while(|arg| arg.is_some()).count();
        if ordered[given..].iter().any(Option::is_some) {
            return unsupported("named arguments that leave a default out", at);
        }
        Ok(ordered.into_iter().flatten().collect())
    }

    /// `DO`: a function without a name.
    pub(super) fn do_block(&self, block: &sql::DoBlock) -> Lowered {
        let routine = Routine {
            id: RoutineId(0),
            name: "inline_code_block".into(),
            args: Vec::new(),
            outputs: Vec::new(),
            returns: Returns::Void,
            volatility: Volatility::Volatile,
            strict: false,
            source: Arc::clone(&block.source),
            body: Body::Plpgsql(Arc::clone(&block.body)),
        };
        (PlanKind::Do(Arc::new(routine)), visible(&[]), "DO")
    }

    /// A whole row of a variable where `name.*` stands as a value.
    pub(super) fn starred_variable(&self, name: &ast::ObjectName) -> Result<Typed, DbError> {
        let at = name_place(name, self.begin);
        if let [part] = &name.0[..]
            && let Some(part) = part.as_ident()
            && let Some(typed) = self.variable(&ident(part), at)?
        {
            return Ok(typed);
        }
        unsupported("a whole row as a value", at)
    }
}

/// The arguments of a function as variables of its statements.
pub fn argument_variables(routine: &Routine, types: &[Type]) -> Variables {
    let named = routine.args.iter().zip(types).enumerate();
    Variables {
        list: named
            .filter_map(|(i, (arg, ty))| {
                Some(Variable {
                    qualifier: Some(Arc::clone(&routine.name)),
                    name: Arc::clone(arg.name.as_ref()?),
                    kind: VariableKind::Value(i, *ty),
                })
            })
            .collect(),
        columns_first: true,
        numbered: types.len(),
    }
}

/// The text of a string literal, and where it begins.
fn text_of(body: &ast::Expr) -> Option<(&str, usize)> {
    let ast::Expr::Value(value) = body else {
        return None;
    };
    let at = place(body, 0);
    match &value.value {
        ast::Value::SingleQuotedString(text) => Some((text, at + 1)),
        ast::Value::DollarQuotedString(text) => {
            let tag = text.tag.as_ref().map_or(0, String::len);
            Some((&text.value, at + tag + 2))
        }
        _ => None,
    }
}

/// What other products, or PostgreSQL beyond what is modelled, have in a `CREATE FUNCTION`.
fn refuse_foreign(create: &ast::CreateFunction, at: usize) -> Result<(), DbError> {
    let ast::CreateFunction {
        or_alter,
        or_replace: _,
        temporary,
        if_not_exists,
        name: _,
        args: _,
        return_type: _,
        function_body: _,
        behavior: _,
        called_on_null: _,
        parallel: _,
        security: _,
        set_params,
        using,
        language: _,
        determinism_specifier,
        options,
        remote_connection,
    } = create;
    absent(!set_params.is_empty(), "SET in CREATE FUNCTION", at)?;
    absent(
        *or_alter
            || *temporary
            || *if_not_exists
            || using.is_some()
            || determinism_specifier.is_some()
            || options.is_some()
            || remote_connection.is_some(),
        "options of other products",
        at,
    )
}
