//! `RAISE` (manual, "Errors and Messages").

use std::sync::Arc;

use rowlock_model::{DbError, ErrorClass};

use super::super::{Exec, Stop};
use super::frame::Frame;
use crate::sql::plpgsql::{Raise, RaiseOption, Raised, state_of};

impl Exec<'_> {
    pub(super) fn raise(&mut self, frame: &mut Frame<'_>, raise: &Raise) -> Result<(), Stop> {
        let mut code: Option<Arc<str>> = None;
        let mut message: Option<String> = None;
        let mut condition: Option<Arc<str>> = None;
        match &raise.what {
            Raised::Again => {
                return Err(match frame.caught.last() {
                    Some(error) => error.clone().into(),
                    None => DbError::postgres(
                        "0Z002",
                        "RAISE without parameters cannot be used outside an exception handler",
                    )
                    .into(),
                });
            }
            Raised::Message(format) => {
                let mut values = Vec::with_capacity(raise.values.len());
                for value in &raise.values {
                    let text = self.text_or_null(frame, value)?;
                    values.push(text.unwrap_or_else(|| "<NULL>".to_owned()));
                }
                message = Some(filled(format, &values));
            }
            Raised::Condition(state, name) => {
                code = Some(Arc::clone(state));
                condition = Some(Arc::clone(name));
            }
            Raised::Options => {}
        }
        let (mut detail, mut constraint) = (None, None);
        for (option, value) in &raise.options {
            let Some(text) = self.text_or_null(frame, value)? else {
                return Err(
                    DbError::postgres("22004", "RAISE statement option cannot be null").into(),
                );
            };
            match option {
                RaiseOption::Message => message = Some(text),
                RaiseOption::Detail => detail = Some(text),
                RaiseOption::Constraint => constraint = Some(text),
                RaiseOption::Code => {
                    let state = state(&text)?;
                    code = Some(Arc::clone(&state));
                    condition = Some(text.into());
                }
                RaiseOption::Hint | RaiseOption::Object => {}
            }
        }
        let code = code.unwrap_or_else(|| "P0001".into());
        let message: Arc<str> = match (message, condition) {
            (Some(message), _) => message.into(),
            (None, Some(condition)) => condition,
            (None, None) => Arc::clone(&code),
        };
        if raise.level != "EXCEPTION" {
            self.notice(raise.level, message);
            return Ok(());
        }
        let mut error = DbError::new(ErrorClass::of_sqlstate(&code), &code, message);
        if let Some(detail) = detail {
            error = error.with_detail(detail);
        }
        if let Some(constraint) = constraint {
            error = error.with_constraint(constraint);
        }
        Err(error.into())
    }
}

/// The format with its `%` replaced.
fn filled(format: &str, values: &[String]) -> String {
    let mut out = String::with_capacity(format.len());
    let mut values = values.iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '%' if chars.peek() == Some(&'%') => {
                chars.next();
                out.push('%');
            }
            '%' => out.push_str(values.next().map_or("", String::as_str)),
            c => out.push(c),
        }
    }
    out
}

/// An SQLSTATE from its text or from the name of a condition.
fn state(text: &str) -> Result<Arc<str>, DbError> {
    let is_state = text.len() == 5
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    if is_state {
        return Ok(text.into());
    }
    match state_of(text) {
        Some(state) => Ok(state.into()),
        None => Err(DbError::unsupported(
            format!("the exception condition {text}"),
            None,
        )),
    }
}
