//! Variables: names from outside a statement that stand for its parameters.
//!
//! Inside a function, a name that is no column may be an argument or a variable. In PL/pgSQL a name that
//! is both is an error (manual, "Variable Substitution"); in SQL functions the column wins.

use std::sync::Arc;

use rowlock_model::DbError;
use sqlparser::ast;

use super::{Lowering, Typed, error, ident};
use crate::plan::expr::Expr;
use crate::plan::types::Type;
use crate::sql::tokens::start_of;

/// The variables in sight of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variables {
    /// Later ones hide earlier ones of the same name.
    pub list: Vec<Variable>,
    /// A column of the same name wins; otherwise that is 42702.
    pub columns_first: bool,
    /// How many of the parameters can be written as `$1`, `$2`, ...
    pub numbered: usize,
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// What may stand before its name and a dot: the label of its block, or the function's name.
    pub qualifier: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: VariableKind,
}

/// What a variable is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VariableKind {
    /// One value: the parameter that holds it, and its type.
    Value(usize, Type),
    /// A row.
    Row {
        /// The parameter that holds the whole row as text, or NULL.
        whole: usize,
        /// Its fields in order; each is a parameter.
        fields: Vec<(Arc<str>, usize, Type)>,
    },
    /// A `record` that nothing was assigned to.
    Unassigned,
}

fn value(param: usize, ty: Type, at: usize) -> Typed {
    Typed::new(Expr::Param(param), ty, at)
}

fn unassigned<T>(name: &str, at: usize) -> Result<T, DbError> {
    Err(
        DbError::postgres("55000", format!("record \"{name}\" is not assigned yet"))
            .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
            .at(at),
    )
}

/// A field of a row variable, and its name.
type Field = (Typed, Arc<str>);

impl Lowering<'_> {
    fn find_variable(&self, qualifier: Option<&str>, name: &str) -> Option<&Variable> {
        self.variables.list.iter().rev().find(|v| {
            *v.name == *name && qualifier.is_none_or(|q| v.qualifier.as_deref() == Some(q))
        })
    }

    /// The variable that a bare name means.
    pub(super) fn variable(&self, name: &str, at: usize) -> Result<Option<Typed>, DbError> {
        let Some(variable) = self.find_variable(None, name) else {
            return Ok(None);
        };
        whole(variable, at).map(Some)
    }

    /// The variable, or the field of one, that `qualifier.name` means.
    pub(super) fn qualified_variable(
        &self,
        qualifier: &str,
        name: &str,
        at: usize,
    ) -> Result<Option<Typed>, DbError> {
        if let Some(variable) = self.find_variable(Some(qualifier), name) {
            return whole(variable, at).map(Some);
        }
        let Some(variable) = self.find_variable(None, qualifier) else {
            return Ok(None);
        };
        match &variable.kind {
            VariableKind::Value(..) => Ok(None),
            VariableKind::Unassigned => unassigned(qualifier, at),
            VariableKind::Row { fields, .. } => {
                match fields.iter().find(|(field, ..)| **field == *name) {
                    Some((_, param, ty)) => Ok(Some(value(*param, *ty, at))),
                    None => error(
                        "42703",
                        format!("record \"{qualifier}\" has no field \"{name}\""),
                        at,
                    ),
                }
            }
        }
    }

    /// The fields that `name.*` means, if the name is that of a row variable.
    pub(super) fn variable_fields(&self, name: &ast::Ident) -> Result<Option<Vec<Field>>, DbError> {
        let at = start_of(name.span);
        let name = ident(name);
        let Some(variable) = self.find_variable(None, &name) else {
            return Ok(None);
        };
        match &variable.kind {
            VariableKind::Value(..) => Ok(None),
            VariableKind::Unassigned => unassigned(&name, at),
            VariableKind::Row { fields, .. } => Ok(Some(
                fields
                    .iter()
                    .map(|(field, param, ty)| (value(*param, *ty, at), Arc::clone(field)))
                    .collect(),
            )),
        }
    }

    /// 42702 if a name that is a column is a variable too.
    pub(super) fn refuse_ambiguous(&self, name: &str, at: usize) -> Result<(), DbError> {
        if self.variables.columns_first || self.find_variable(None, name).is_none() {
            return Ok(());
        }
        Err(
            DbError::postgres("42702", format!("column reference \"{name}\" is ambiguous"))
                .with_detail("It could refer to either a PL/pgSQL variable or a table column.")
                .at(at),
        )
    }
}

fn whole(variable: &Variable, at: usize) -> Result<Typed, DbError> {
    match &variable.kind {
        VariableKind::Value(param, ty) => Ok(value(*param, *ty, at)),
        VariableKind::Row { whole, .. } => Ok(value(*whole, Type::Record, at)),
        VariableKind::Unassigned => unassigned(&variable.name, at),
    }
}
