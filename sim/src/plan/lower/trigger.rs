//! Trigger functions and triggers, as far as they have no effect.
//!
//! A trigger `AFTER` a statement ignores what its function returns. If the function does nothing but
//! return, firing it changes nothing; what is left of it are the locks of the statements that make,
//! enable and drop it. Every other trigger and function is refused.

use rowlock_model::DbError;
use sqlparser::ast::{self, CreateFunctionBody, Expr, Value};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use super::ddl::done;
use super::from::name_place;
use super::{Lowered, Lowering, absent, ident, unsupported};
use crate::plan::catalog::Trigger;
use crate::plan::ddl::{AlterTable, Ddl};

impl Lowering<'_> {
    /// `CREATE FUNCTION .. RETURNS trigger` whose body only returns.
    pub(super) fn create_function(
        &mut self,
        create: &ast::CreateFunction,
    ) -> Result<Lowered, DbError> {
        let at = name_place(&create.name, self.begin);
        let (_, name) = self.split_name(&create.name, at)?;
        let is_trigger = matches!(
            &create.return_type,
            Some(ast::FunctionReturnType::DataType(ty)) if ty.to_string().eq_ignore_ascii_case("trigger")
        );
        let language = create.language.as_ref().map(ident);
        let is_plain = create.args.as_ref().is_none_or(Vec::is_empty)
            && !create.or_alter
            && !create.temporary
            && !create.if_not_exists
            && create.set_params.is_empty()
            && create.using.is_none();
        absent(
            !is_plain || !is_trigger || language.as_deref() != Some("plpgsql"),
            "functions other than trigger functions in plpgsql",
            at,
        )?;
        let body = match &create.function_body {
            Some(
                CreateFunctionBody::AsBeforeOptions { body, .. }
                | CreateFunctionBody::AsAfterOptions(body),
            ) => text_of(body),
            _ => None,
        };
        absent(
            !body.is_some_and(only_returns),
            "trigger functions that do more than return",
            at,
        )?;
        if self.catalog.trigger_function(&name) && !create.or_replace {
            return Err(DbError::postgres(
                "42723",
                format!("function \"{name}\" already exists with same argument types"),
            ));
        }
        Ok(done(Ddl::CreateFunction(name.into()), "CREATE FUNCTION"))
    }

    /// `DROP FUNCTION` of trigger functions.
    pub(super) fn drop_functions(&mut self, drop: &ast::DropFunction) -> Result<Lowered, DbError> {
        let at = self.begin;
        absent(drop.if_exists, "DROP FUNCTION IF EXISTS", at)?;
        absent(drop.drop_behavior.is_some(), "DROP FUNCTION CASCADE", at)?;
        let mut names = Vec::new();
        for function in &drop.func_desc {
            let (_, name) = self.split_name(&function.name, at)?;
            let has_arguments = function.args.as_ref().is_some_and(|args| !args.is_empty());
            if has_arguments || !self.catalog.trigger_function(&name) {
                return unsupported("functions other than trigger functions in plpgsql", at);
            }
            names.push(name.into());
        }
        Ok(done(Ddl::DropFunctions(names), "DROP FUNCTION"))
    }

    /// `CREATE TRIGGER`: `AFTER`, for each statement.
    pub(super) fn create_trigger(
        &mut self,
        create: &ast::CreateTrigger,
    ) -> Result<Lowered, DbError> {
        let at = name_place(&create.name, self.begin);
        let for_rows = matches!(
            &create.trigger_object,
            Some(
                ast::TriggerObjectKind::For(ast::TriggerObject::Row)
                    | ast::TriggerObjectKind::ForEach(ast::TriggerObject::Row)
            )
        );
        absent(for_rows, "triggers for each row", at)?;
        absent(
            !matches!(create.period, Some(ast::TriggerPeriod::After)),
            "triggers other than AFTER",
            at,
        )?;
        let plain = !create.or_alter
            && !create.temporary
            && !create.or_replace
            && !create.is_constraint
            && create.referenced_table_name.is_none()
            && create.referencing.is_empty()
            && create.condition.is_none()
            && !create.statements_as
            && create.statements.is_none()
            && create.characteristics.is_none();
        absent(!plain, "this form of CREATE TRIGGER", at)?;
        let table = self.existing_table(&create.table_name)?;
        let (_, name) = self.split_name(&create.name, at)?;
        let Some(body) = &create.exec_body else {
            return unsupported("this form of CREATE TRIGGER", at);
        };
        let (_, function) = self.split_name(&body.func_desc.name, at)?;
        if !self.catalog.trigger_function(&function) {
            return Err(DbError::postgres(
                "42883",
                format!("function {function}() does not exist"),
            ));
        }
        if table.triggers.iter().any(|t| *t.name == *name) {
            return Err(DbError::postgres(
                "42710",
                format!(
                    "trigger \"{name}\" for relation \"{}\" already exists",
                    table.name
                ),
            ));
        }
        let trigger = Trigger {
            name: name.into(),
            function: function.into(),
            enabled: true,
        };
        let actions = vec![AlterTable::AddTrigger(trigger)];
        Ok(done(Ddl::AlterTable { table, actions }, "CREATE TRIGGER"))
    }
}

/// The text of a string literal.
fn text_of(body: &Expr) -> Option<&str> {
    match body {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a body in plpgsql is `BEGIN RETURN NULL; END`, or returns one of the rows.
fn only_returns(body: &str) -> bool {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, body).tokenize() else {
        return false;
    };
    let words: Vec<String> = tokens
        .iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .map(|token| match token {
            Token::Word(Word {
                value,
                quote_style: None,
                ..
            }) => value.to_ascii_lowercase(),
            Token::SemiColon => ";".to_owned(),
            _ => "?".to_owned(),
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["begin", "return", "null" | "new" | "old", ";", "end"]
            | ["begin", "return", "null" | "new" | "old", ";", "end", ";"]
    )
}
