//! The SQL front of the loosely typed products: MySQL, MariaDB and SQLite.
//!
//! PostgreSQL resolves every expression to static types ([`crate::plan`]). Here values decide much at
//! run time: MySQL converts whatever meets whatever, SQLite stores any class of value anywhere.
//! What the types of the two sides of an operator do decide (how they are compared, in which numbers
//! is computed) is settled when names are resolved, so that evaluation knows no products.
//!
//! * [`mod@parse`] reads a text; what it takes is what the product takes.
//! * [`types`], [`catalog`]: declared types and the schema as plain data.
//! * [`expr`], [`query`], [`plan`]: statements whose names are resolved.
//! * [`eval`] evaluates expressions, [`run`] runs statements over an engine's rows.
//! * [`storage`]: what an engine offers to the executor.

mod arithmetic;
pub(crate) mod ast;
pub mod catalog;
pub(crate) mod collate;
pub mod errors;
pub mod eval;
pub mod expr;
pub mod function;
mod json;
mod lex;
pub(crate) mod lower;
mod mysql_time;
mod numeric;
pub mod parse;
pub mod plan;
pub mod query;
pub mod run;
mod sqlite_time;
pub mod storage;
pub mod store;
pub mod temporal;
pub mod types;
pub mod value;
mod walk;

pub use lower::lower;
pub(crate) use lower::lower_scalar;
pub use parse::parse;
