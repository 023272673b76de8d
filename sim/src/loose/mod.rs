//! The SQL front of the loosely typed products: MySQL, MariaDB and SQLite.
//!
//! PostgreSQL resolves every expression to static types ([`crate::plan`]). Here values decide much at
//! run time: MySQL converts whatever meets whatever, SQLite stores any class of value anywhere.
//! What the types of the two sides of an operator do decide (how they are compared, in which numbers
//! is computed) is settled when names are resolved, so that evaluation knows no products.
//!
//! * [`types`], [`catalog`]: declared types and the schema as plain data.
//! * [`expr`], [`query`], [`plan`]: statements whose names are resolved.
//! * [`storage`]: what an engine offers to the executor.

pub mod catalog;
pub mod expr;
pub mod function;
pub mod plan;
pub mod query;
pub mod storage;
pub mod types;
