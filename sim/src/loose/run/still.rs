//! Conditions over one row, with nobody to ask.

use std::rc::Rc;

use rowlock_model::{DbError, Dialect, Row, Value};

use crate::loose::eval::{Env, Frame};
use crate::loose::expr::HostFunction;
use crate::loose::query::SubPlan;
use crate::loose::storage::{Host, Stop};

/// The values of `?`, and no session.
pub(super) struct Still<'a> {
    params: &'a [Value],
    dialect: Dialect,
}

impl<'a> Still<'a> {
    pub(super) fn new(params: &'a [Value], dialect: Dialect) -> Still<'a> {
        Still { params, dialect }
    }
}

fn nobody() -> Stop {
    DbError::unsupported("a question to the session here", None).into()
}

impl Host for Still<'_> {
    fn param(&self, index: usize) -> Result<Value, Stop> {
        self.params.get(index).cloned().ok_or_else(nobody)
    }

    fn call(&mut self, _: HostFunction, _: &[Value]) -> Result<Value, Stop> {
        Err(nobody())
    }

    fn user_variable(&mut self, _: &str) -> Value {
        Value::Null
    }

    fn set_user_variable(&mut self, _: &str, _: Value) {}

    fn system_variable(&mut self, _: &str, _: bool) -> Result<Value, Stop> {
        Err(nobody())
    }

    fn warn(&mut self, _: u16, _: String) {}

    fn is_strict(&self) -> bool {
        false
    }
}

impl Env for Still<'_> {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn subquery(&mut self, _: &SubPlan, _: &Frame<'_>) -> Result<Rc<[Row]>, Stop> {
        Err(nobody())
    }
}
