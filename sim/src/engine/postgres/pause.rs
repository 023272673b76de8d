//! Row granularity: a statement gives way before it locks a row.
//!
//! A server takes the row locks of one statement one after the other, and others run between them.
//! In row granularity the statement stops there, as if it waited, and goes on when it is told to. It
//! does so before each lock on a row that its snapshot sees and its transaction does not hold yet:
//! before the rows of `SELECT .. FOR ..`, UPDATE and DELETE, and before the rows that foreign keys
//! look up. What follows from a lock (waiting for it, locking the newest version instead,
//! `ON CONFLICT`) is not divided further.

use rowlock_model::schedule::SessionId;

use super::{Run, Snapshot, Stop, Store, Suspended, VersionId};

impl Store {
    /// Whether statements pause before row locks.
    pub(super) fn set_pauses(&mut self, pauses: bool) {
        self.pauses = pauses;
    }

    /// Stops the statement before it locks a row for the first time, if statements pause at all.
    ///
    /// # Errors
    /// [`Stop::Wait`]: it pauses. The next run goes on from here.
    pub(super) fn pause_before(
        &self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
    ) -> Result<(), Stop> {
        let pauses = self.pauses
            && self.visible(run.session, snapshot, version)
            && !self.is_held_by(run.session, version);
        match pauses {
            true => Err(run.suspend(Suspended::Pause(version))),
            false => Ok(()),
        }
    }

    fn is_held_by(&self, session: SessionId, version: VersionId) -> bool {
        let holders = self.version(version).holders.iter();
        holders.into_iter().any(|h| h.owner.session == session)
    }

    /// A row, for a person: `job (0,2)`.
    pub(super) fn row_name(&self, version: VersionId) -> String {
        let (page, item) = self.ctid(version);
        let (schema, _) = self.catalog_unrecorded().view(None);
        let table = self.version(version).table;
        match schema.name(table) {
            Some(table) => format!("{table} ({page},{item})"),
            None => format!("({page},{item})"),
        }
    }
}
