//! What a statement reads and writes, for who wants to know.

use rowlock_model::Row;
use rowlock_model::schedule::SessionId;

use crate::loose::catalog::Table;
use crate::trace::Trace;

/// What a statement reads and writes, as far as it has come.
#[derive(Debug)]
pub(super) struct Tracing {
    pub(super) session: SessionId,
    /// The commit whose image it reads.
    pub(super) snapshot: u64,
    pub(super) list: Vec<Trace>,
}

impl Tracing {
    /// A row is made, replaced or ended.
    pub(super) fn write(&mut self, table: &Table, old: Option<&Row>, new: Option<&Row>) {
        self.list.push(Trace::Write {
            session: self.session,
            table: table.id.0,
            old: old.cloned(),
            new: new.cloned(),
        });
    }
}
