//! The explorer: every interleaving of processes over one simulated database, with crashes, lost
//! connections, moving clocks and cancellation.
//!
//! Layers, bottom up:
//!
//! 1. [`crate::host`] runs the code under test, one process at a time, until it asks for something.
//! 2. A *trie* keeps what a program does after each history, so that code is polled once a history.
//! 3. The *world* is one server and the processes around it: choices, undo, fingerprint.
//! 4. The *search* visits every state once, the *random* mode runs seeded executions, *replay* runs
//!    one schedule.
//! 5. The *graph* of states answers questions after the search: the smallest violating schedule,
//!    the number of interleavings covered.
//! 6. [`Explorer`] is the front.
//!
//! # What is a choice
//!
//! See [`rowlock_model::schedule::Choice`]. A statement that waits is two events, or more: it is
//! sent, and it resumes after its lock was granted; other sessions may be faster in between. A
//! crash is two events as well: the process is gone, and later the server notices, unless one of
//! its statements still waits. The clock moves only to instants at which something changes, and to
//! 1 ms after each.
//!
//! # What must be true of the code under test
//!
//! It is deterministic, awaits nothing but its sessions, its host and its own tasks, and shares no
//! memory with other processes. The first two are checked.

mod anytime;
mod apply;
mod check;
mod choices;
mod cycles;
mod deliver;
mod dpor;
mod error;
mod explorer;
mod footprints;
mod graph;
mod hash;
mod history;
mod liveness;
mod long;
mod minimise;
mod modes;
mod monitor;
mod orders;
mod paths;
mod program;
mod random;
mod reduce;
mod replay;
mod search;
mod serial;
mod strategy;
mod survey;
mod symmetry;
mod table;
mod trie;
mod watch;
mod world;

pub(crate) use hash::mix;

pub use error::ExploreError;
pub use explorer::{Detailed, Explorer};
pub use long::Checkpoints;
pub use monitor::{Inspect, Monitor, NoDeadlock, Remark, Seen, Watch, What};
pub use program::{Control, Ending, ProcessSpec, StepEnding, Worker};
pub use random::Random;
pub use reduce::{Broken, Reductions};
pub use replay::Replayed;
pub use search::{OnProgress, Progress};
pub use strategy::Strategy;
pub use survey::Survey;
