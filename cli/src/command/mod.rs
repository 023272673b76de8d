//! One module a command.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod list;
pub(crate) mod mirror;
pub(crate) mod mysqltest;
pub(crate) mod replay;
pub(crate) mod servers;
pub(crate) mod show;
pub(crate) mod spec;
