//! Conversions that analysis adds.

use std::sync::Arc;

use rowlock_model::{DbError, Value};

use super::{Lowering, Typed, error};
use crate::plan::catalog::EnumType;
use crate::plan::expr::{Comparison, Expr, HostFunction};
use crate::plan::types::coerce::{Context, can_coerce, common_type, is_binary};
use crate::plan::types::convert::{Conversion, convert};
use crate::plan::types::{Declared, Type};

impl Lowering<'_> {
    /// The enumeration behind a type.
    pub(super) fn labels(&self, ty: Type) -> Option<Arc<EnumType>> {
        match ty {
            Type::Enum(id) => self.catalog.enum_by_id(id),
            _ => None,
        }
    }

    /// The name of a type in messages.
    pub(super) fn type_name(&self, ty: Type) -> String {
        match self.labels(ty) {
            Some(labels) => labels.name.to_string(),
            None => ty.name().to_owned(),
        }
    }

    /// How values of a type are compared.
    pub(super) fn comparison(&self, ty: Type) -> Comparison {
        match ty {
            Type::Char => Comparison::Char,
            Type::Jsonb => Comparison::Jsonb,
            Type::Array(element) => self.comparison(*element),
            _ => match self.labels(ty) {
                Some(labels) => Comparison::Enum(labels),
                None => Comparison::Plain,
            },
        }
    }

    /// The expression as a value of `target`, or `None` if that is not allowed in `context`.
    ///
    /// # Errors
    /// A literal is not a value of the type.
    pub(super) fn coerce(
        &mut self,
        typed: Typed,
        target: impl Into<Declared>,
        context: Context,
    ) -> Result<Option<Typed>, DbError> {
        let target = target.into();
        if let (Expr::Param(index), Type::Unknown) = (&typed.expr, typed.ty) {
            let known = self.params.get(*index).copied().unwrap_or(Type::Unknown);
            if known == Type::Unknown {
                self.params[*index] = target.ty;
            } else if known != target.ty {
                let typed = Typed { ty: known, ..typed };
                return self.coerce(typed, target, context);
            }
            let typed = Typed {
                ty: target.ty,
                ..typed
            };
            return self.apply(typed, target, context).map(Some);
        }
        if !can_coerce(typed.ty, target.ty, context) {
            return Ok(None);
        }
        self.apply(typed, target, context).map(Some)
    }

    /// Adds the conversion, if it does anything.
    fn apply(
        &mut self,
        typed: Typed,
        target: Declared,
        context: Context,
    ) -> Result<Typed, DbError> {
        let at = typed.at;
        let same_modifier = target.modifier.is_none() || typed.modifier == target.modifier;
        let widening = matches!(
            (typed.ty, target.ty),
            (Type::Int2, Type::Int4 | Type::Int8)
                | (Type::Int4, Type::Int8)
                | (Type::Float4, Type::Float8)
        );
        let result = |expr| Typed {
            expr,
            ty: target.ty,
            modifier: target.modifier,
            at,
        };
        // A `regclass` is a name here and an `oid` a number: what is binary on the server is not.
        let by_name =
            typed.ty != target.ty && (typed.ty == Type::RegClass || target.ty == Type::RegClass);
        if same_modifier && (is_binary(typed.ty, target.ty) || widening) && !by_name {
            return Ok(result(typed.expr));
        }
        if let Some(host) = self.host_cast(&typed, target.ty)? {
            return Ok(result(host));
        }
        let labels = self.labels(target.ty);
        if let Expr::Const(value) = &typed.expr {
            let how = Conversion {
                from: typed.ty,
                to: target.ty,
                modifier: target.modifier,
                explicit: context == Context::Explicit,
                labels: labels.as_deref(),
            };
            // Only the reading of a literal has a place in the text for the server; the others are
            // evaluated early by it too, but reported without one.
            let converted = convert(value, how).map_err(|e| match typed.ty {
                Type::Unknown => e.at(at),
                _ => e,
            })?;
            return Ok(result(Expr::Const(converted)));
        }
        Ok(result(Expr::Cast {
            from: typed.ty,
            to: target.ty,
            modifier: target.modifier,
            explicit: context == Context::Explicit,
            labels,
            expr: Box::new(typed.expr),
        }))
    }

    /// Conversions to and from `regclass` need the catalogue.
    fn host_cast(&self, typed: &Typed, target: Type) -> Result<Option<Expr>, DbError> {
        use Type::{Char, Name, Oid, RegClass, Text, Unknown, Varchar};
        let function = match (typed.ty, target) {
            (Text | Varchar | Char | Name | Unknown, RegClass) => {
                if let Expr::Const(Value::Text(name)) = &typed.expr {
                    return self.relation_constant(name, typed.at).map(Some);
                }
                HostFunction::RelationByName
            }
            (Oid | Type::Int2 | Type::Int4 | Type::Int8, RegClass) => HostFunction::RelationName,
            (RegClass, Oid | Type::Int4 | Type::Int8) => HostFunction::RelationOid,
            _ => return Ok(None),
        };
        Ok(Some(Expr::Host {
            function,
            args: vec![typed.expr.clone()],
        }))
    }

    /// `'t'::regclass`, resolved at once as the server does.
    fn relation_constant(&self, name: &str, at: usize) -> Result<Expr, DbError> {
        let (schema, bare) = match name.split_once('.') {
            Some((schema, bare)) => (Some(schema.to_ascii_lowercase()), bare),
            None => (None, name),
        };
        let folded = match bare.strip_prefix('"').and_then(|b| b.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => bare.to_ascii_lowercase(),
        };
        // Sequences of the table under construction are not in the catalogue yet.
        let pending = self.defaults.iter().any(|d| **d == *folded);
        let found = pending
            || self.catalog.relation(schema.as_deref(), &folded).is_some()
            || self.catalog.sequence(&folded).is_some()
            || self.catalog.index(&folded).is_some();
        if !found {
            return error("42P01", format!("relation \"{name}\" does not exist"), at);
        }
        Ok(Expr::Const(Value::text(folded)))
    }

    /// The expression as a value of `target` wherever an expression may stand.
    ///
    /// # Errors
    /// 42804 in the words of `what`.
    pub(super) fn require(
        &mut self,
        typed: Typed,
        target: Type,
        what: &str,
    ) -> Result<Typed, DbError> {
        let (ty, at) = (typed.ty, typed.at);
        match self.coerce(typed, target, Context::Implicit)? {
            Some(typed) => Ok(typed),
            None => error(
                "42804",
                format!(
                    "argument of {what} must be type {}, not type {}",
                    self.type_name(target),
                    self.type_name(ty)
                ),
                at,
            ),
        }
    }

    /// A condition.
    ///
    /// # Errors
    /// 42804.
    pub(super) fn condition(&mut self, typed: Typed, what: &str) -> Result<Expr, DbError> {
        Ok(self.require(typed, Type::Bool, what)?.expr)
    }

    /// The value for a column.
    ///
    /// # Errors
    /// 42804.
    pub(super) fn assign(
        &mut self,
        typed: Typed,
        column: &crate::plan::catalog::Column,
    ) -> Result<Typed, DbError> {
        let (ty, at) = (typed.ty, typed.at);
        match self.coerce(typed, column.declared, Context::Assignment)? {
            Some(typed) => Ok(typed),
            None => error(
                "42804",
                format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name,
                    self.type_name(column.declared.ty),
                    self.type_name(ty)
                ),
                at,
            ),
        }
    }

    /// The expressions as values of their common type.
    ///
    /// # Errors
    /// 42804: `{what} types integer and text cannot be matched`.
    pub(super) fn unify(
        &mut self,
        mut list: Vec<Typed>,
        what: &str,
    ) -> Result<(Vec<Typed>, Type), DbError> {
        for typed in &mut list {
            self.known_param(typed);
        }
        let types: Vec<Type> = list.iter().map(|t| t.ty).collect();
        let common = match common_type(&types) {
            Ok(common) => common,
            Err((a, b)) => {
                let at = list.iter().find(|t| t.ty == b).map_or(self.begin, |t| t.at);
                return error(
                    "42804",
                    format!(
                        "{what} types {} and {} cannot be matched",
                        self.type_name(a),
                        self.type_name(b)
                    ),
                    at,
                );
            }
        };
        let mut out = Vec::with_capacity(list.len());
        for typed in list {
            out.push(self.require(typed, common, what)?);
        }
        Ok((out, common))
    }

    /// Gives a parameter the type that it was found to have.
    pub(super) fn known_param(&self, typed: &mut Typed) {
        if let Expr::Param(index) = typed.expr
            && typed.ty == Type::Unknown
        {
            typed.ty = self.params.get(index).copied().unwrap_or(Type::Unknown);
        }
    }

    /// An expression whose type must be known by now: open literals become text.
    pub(super) fn settle(&mut self, typed: Typed) -> Result<Typed, DbError> {
        if typed.is_open() {
            let fallback = typed.clone();
            return Ok(self
                .coerce(typed, Type::Text, Context::Implicit)?
                .unwrap_or(fallback));
        }
        Ok(typed)
    }
}
