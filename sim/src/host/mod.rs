//! The simulated side of the seam: [`SimSession`] and [`SimHost`], and the small deterministic
//! executor that runs the tasks of one process.
//!
//! A process is opaque: it is polled until it waits for *requests* only (`Ask`), and goes on when
//! its driver gives it the answer to one of them. What it did is then a function of the ordered
//! answers it was given, of the host's clock where it read it, and of its identity (name and
//! randomness) where it asked for it. Clock and identity are noted when read, so that the driver
//! can tell apart what would differ.
//!
//! Sessions and hosts are numbers: the state behind them is `Desk`, which is put into a
//! thread-local place while a process is polled. That keeps every future `Send`, as the seam
//! demands, without a lock or an async runtime.

mod desk;
mod live;
mod seam;

pub(crate) use desk::{Ask, Given, Label, Note, Observed};
pub(crate) use live::{Event, Finish, Live, Program, Rest, Start};
pub use seam::{SimHost, SimSession, SimTask};
