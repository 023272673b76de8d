//! Simulated InnoDB: MySQL and MariaDB.
//!
//! See `README.md` beside this file for how it locks, waits and sees. In short:
//!
//! | question | file |
//! | --- | --- |
//! | What differs between MySQL 9.7, MariaDB 10.11 and 11.8? | [`flavour`] |
//! | How is a table stored? Who sees which version? | [`shape`], [`records`], [`key`] |
//! | What can be locked, what conflicts, who is next, who dies? | [`lock`] |
//! | What does a scan lock? | [`scan`] |
//! | What does a write lock, and how are duplicates found? | [`write`](mod@write), [`foreign_key`] |
//! | What does the end of a transaction or statement undo? | [`end`] |
//! | Through which index is a table read? | [`access`] |
//! | How does a statement go on after a wait? | [`run`], [`handler`] |

pub mod access;
mod alter;
mod audit;
pub mod catalog;
mod change;
mod control;
mod cost;
mod create;
mod database;
mod ddl;
pub mod end;
pub mod errors;
pub mod flavour;
pub mod foreign_key;
pub mod handler;
mod host;
mod impossible;
mod insert;
pub mod key;
pub mod lock;
pub mod metadata;
mod object;
pub mod pause;
mod position;
pub mod range;
pub mod records;
pub mod run;
pub mod scan;
pub mod session;
pub mod shape;
mod show;
mod statement;
mod store;
mod time;
pub mod trx;
pub mod user_lock;
mod variables;
mod version_of;
pub mod views;
pub mod write;

pub use self::database::InnoDb;
pub use self::object::{Counters, Key, Object, Server};
pub use self::store::Store;
