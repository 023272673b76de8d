//! What statements read and write, row version by row version, for who wants to know which
//! transactions depend on which.
//!
//! Engines tell it while they work, if they are asked to. A version is known by its image: the
//! allocation that holds its values. Whoever follows a trace keeps the images, so none is used twice.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::Row;
use rowlock_model::schedule::SessionId;

/// A condition on the rows of one table, with everything else in it bound.
pub struct Condition {
    /// Conditions with the same name say the same of every row.
    name: u128,
    test: Box<Test>,
}

/// Whether a row passes; `None` if that cannot be said from the row alone.
type Test = dyn Fn(&Row) -> Option<bool>;

impl Condition {
    /// A condition that `shown` describes completely.
    pub fn new(
        shown: &impl fmt::Debug,
        test: impl Fn(&Row) -> Option<bool> + 'static,
    ) -> Rc<Condition> {
        let mut digest = crate::world::Digest::new(0x636f_6e64);
        std::hash::Hash::hash(&format!("{shown:?}"), &mut digest);
        Rc::new(Condition {
            name: digest.finish128(),
            test: Box::new(test),
        })
    }

    /// What it is known by.
    pub fn name(&self) -> u128 {
        self.name
    }

    /// Whether a row passes; `None` if that cannot be said from the row alone.
    pub fn test(&self, row: &Row) -> Option<bool> {
        (self.test)(row)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:032x})", self.name)
    }
}

/// What a search for rows sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Commits up to this number.
    Upto(u64),
    /// All that is committed when it comes to a row.
    Committed,
    /// Also what is not committed.
    Everything,
}

/// One thing that a statement did.
#[derive(Clone, Debug)]
pub enum Trace {
    /// It looks for the rows of a table that pass a condition.
    Scan {
        /// Whose.
        session: SessionId,
        /// The table, by the engine's number.
        table: u32,
        /// The condition.
        condition: Rc<Condition>,
        /// What it sees.
        sees: Sees,
    },
    /// It has read a version of a row.
    Read {
        /// Whose.
        session: SessionId,
        /// The table.
        table: u32,
        /// The image.
        row: Row,
    },
    /// It has made, replaced or ended a row.
    Write {
        /// Whose.
        session: SessionId,
        /// The table.
        table: u32,
        /// The version that was there.
        old: Option<Row>,
        /// The version that is there now.
        new: Option<Row>,
    },
    /// A write is taken back without the end of its transaction: of this new version, or of the end of
    /// this old one.
    Undone {
        /// The table.
        table: u32,
        /// The image of the version.
        row: Row,
        /// The version was ended, not made.
        ended: bool,
    },
    /// A transaction is committed; its number, if it wrote something.
    Committed(SessionId, Option<u64>),
    /// A transaction is rolled back.
    RolledBack(SessionId),
    /// Something happened that is not traced.
    Lost(&'static str),
}

/// Collects what statements do. Off, it costs one branch.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    on: bool,
    list: Vec<Trace>,
}

impl Tracer {
    /// Starts with nothing collected.
    pub fn begin(&mut self) {
        self.on = true;
        self.list.clear();
    }

    /// Stops, and gives what was collected.
    pub fn end(&mut self) -> Vec<Trace> {
        self.on = false;
        std::mem::take(&mut self.list)
    }

    /// Whether something is to be collected.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Adds something.
    #[inline]
    pub fn push(&mut self, trace: Trace) {
        if self.on {
            self.list.push(trace);
        }
    }
}

/// Whether two images are the same version.
pub(crate) fn is_same(a: &Row, b: &Row) -> bool {
    Arc::ptr_eq(a, b)
}
