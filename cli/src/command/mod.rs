//! One module a command.

pub(crate) mod check;
pub(crate) mod list;
pub(crate) mod servers;
