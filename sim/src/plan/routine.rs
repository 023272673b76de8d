//! Functions that users define, as the catalogue has them.

use std::fmt;
use std::sync::Arc;

use crate::plan::expr::{Expr, Volatility};
use crate::plan::query::OutputColumn;
use crate::plan::types::{Declared, Type};
use crate::sql::Statement;
use crate::sql::plpgsql;

/// A function by its object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutineId(pub u32);

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    /// A type.
    Declared(Declared),
    /// `anyelement`: in each call, one type for all arguments that are declared so.
    AnyElement,
    /// `anynonarray`: as `anyelement`, but no array.
    AnyNonArray,
}

impl ArgumentType {
    /// Its name, as messages show it.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentType::Declared(declared) => declared.ty.name(),
            ArgumentType::AnyElement => "anyelement",
            ArgumentType::AnyNonArray => "anynonarray",
        }
    }
}

/// An argument that a caller gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub ty: ArgumentType,
    /// `DEFAULT`, already of the type.
    pub default: Option<Expr>,
}

/// What a function returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Returns {
    /// One value.
    Value(ArgumentType),
    /// Nothing.
    Void,
    /// It is a trigger function.
    Trigger,
    /// Rows of these columns (`RETURNS TABLE`, `SETOF table`, `SETOF type`).
    Rows(Arc<[OutputColumn]>),
}

/// The body.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// `LANGUAGE sql`: its statements.
    Sql(Arc<[Statement]>),
    /// `LANGUAGE plpgsql`.
    Plpgsql(Arc<plpgsql::Block>),
}

/// A function.
#[derive(Clone, PartialEq)]
pub struct Routine {
    /// Its id; 0 in a plan that is to create it.
    pub id: RoutineId,
    /// Its name.
    pub name: Arc<str>,
    /// What is given to it.
    pub args: Vec<Argument>,
    /// Variables that hold its result: the columns of `RETURNS TABLE`, `OUT` arguments.
    pub outputs: Vec<(Arc<str>, Declared)>,
    /// What it returns.
    pub returns: Returns,
    /// `IMMUTABLE`, `STABLE`, `VOLATILE`.
    pub volatility: Volatility,
    /// `STRICT`: not called if an argument is NULL, which then is the result.
    pub strict: bool,
    /// The body as text.
    pub source: Arc<str>,
    /// The body.
    pub body: Body,
}

impl Routine {
    /// Name and argument types, as messages show them: `f(integer, text)`.
    pub fn signature(&self) -> String {
        let types: Vec<&str> = self.args.iter().map(|arg| arg.ty.name()).collect();
        format!("{}({})", self.name, types.join(", "))
    }

    /// Whether a trigger may call it.
    pub fn is_trigger(&self) -> bool {
        self.returns == Returns::Trigger
    }

    /// Whether another function has the same name and argument types, so that there cannot be both.
    pub fn is_same(&self, other: &Routine) -> bool {
        let types = |routine: &Routine| -> Vec<ArgumentType> {
            let plain = |ty| match ty {
                ArgumentType::Declared(declared) => {
                    ArgumentType::Declared(Declared::from(declared.ty))
                }
                other => other,
            };
            routine.args.iter().map(|arg| plain(arg.ty)).collect()
        };
        self.name == other.name && types(self) == types(other)
    }

    /// The types of the arguments in a call with these, in which open ones may be
    /// [`Type::Unknown`]: polymorphic ones resolved. `None`: such a call is not possible.
    pub fn resolve(&self, given: &[Type]) -> Option<Vec<Type>> {
        let required = self.args.iter().filter(|arg| arg.default.is_none()).count();
        if given.len() < required || given.len() > self.args.len() {
            return None;
        }
        let args = &self.args[..given.len()];
        let mut element = None;
        for (arg, ty) in args.iter().zip(given) {
            if matches!(arg.ty, ArgumentType::Declared(_)) || *ty == Type::Unknown {
                continue;
            }
            if element.is_some_and(|known| known != *ty)
                || (arg.ty == ArgumentType::AnyNonArray && matches!(ty, Type::Array(_)))
            {
                return None;
            }
            element = Some(*ty);
        }
        let types = args.iter().map(|arg| match arg.ty {
            ArgumentType::Declared(declared) => declared.ty,
            _ => element.unwrap_or(Type::Text),
        });
        Some(types.collect())
    }

    /// The type of its result in a call with these (resolved) argument types.
    pub fn result(&self, types: &[Type]) -> Type {
        match &self.returns {
            Returns::Value(ArgumentType::Declared(declared)) => declared.ty,
            Returns::Value(_) => {
                let at = self
                    .args
                    .iter()
                    .position(|arg| !matches!(arg.ty, ArgumentType::Declared(_)));
                at.and_then(|at| types.get(at))
                    .copied()
                    .unwrap_or(Type::Text)
            }
            Returns::Void | Returns::Trigger => Type::Void,
            Returns::Rows(_) => Type::Record,
        }
    }
}

/// The text says all that the tree does.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Sql(_) => "sql",
            Body::Plpgsql(_) => "plpgsql",
        })
    }
}

impl fmt::Debug for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routine")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("args", &self.args)
            .field("outputs", &self.outputs)
            .field("returns", &self.returns)
            .field("volatility", &self.volatility)
            .field("strict", &self.strict)
            .field("body", &self.body)
            .field("source", &self.source)
            .finish()
    }
}
