//! Reports: pure functions from results to text.
//!
//! Nothing here reads files, clocks or the environment; the caller says how wide the terminal is
//! and whether colour is wanted. What can be seen:
//!
//! * [`lanes`]: a schedule as one column a session, time downwards.
//! * [`terminal`]: results of an exploration for a person.
//! * [`json`]: the same results as JSON lines, equal bytes for equal results.
//! * [`diagnose`]: an error at a place in a file, in the look of rustc.

pub mod diagnose;
pub mod frame;
pub mod json;
pub mod lanes;
pub mod layout;
pub mod pinned;
pub mod replay;
pub mod shorten;
pub mod style;
pub mod terminal;

pub use diagnose::Diagnostic;
pub use frame::Frame;
pub use lanes::Lanes;
pub use style::Palette;
pub use terminal::{Case, CaseResult, Columns, Manner, Tally};
