//! Row granularity: a statement gives way between two record locks.
//!
//! A server takes the record locks of one statement one after the other, and others run between them. In
//! row granularity the statement stops there, as if it waited, and goes on when it is told to. It does so
//!
//! * before each place that a locking scan looks at and whose lock its transaction does not hold yet, the
//!   place behind the last record included (at READ COMMITTED nothing is locked there, but what others
//!   inserted meanwhile is found),
//! * between the record of a secondary index and its row in the clustered index,
//! * before each row that is inserted.
//!
//! The scan stands *behind* what it looked at last: a record that is inserted between that and the place
//! before which it pauses comes next. What follows from a row's lock (waiting for it, its records in other
//! indexes, duplicates, foreign keys) is not divided further.

use rowlock_model::Isolation;
use rowlock_model::schedule::SessionId;

use super::handler::Handler;
use super::key::Pos;
use super::lock::{Mode, Span};
use super::range::KeyRange;
use super::records::Record;
use super::scan::{At, Cursor, Plan, ScanStop};
use super::session::Waiting;
use super::shape::{IndexShape, Shape};
use super::store::Store;
use crate::loose::storage::Stop;

/// Past which pause a scan was let, until it has looked at what comes behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Passed {
    /// None: it pauses before the next place.
    #[default]
    Nothing,
    /// That before the place at which it looks.
    Place,
    /// That before the row of the secondary record at which it looks as well.
    Row,
}

impl Store {
    /// Whether statements pause before record locks.
    pub(super) fn set_pauses(&mut self, pauses: bool) {
        self.pauses = pauses;
    }

    /// Stops a locking scan before the place that it would look at next, once.
    ///
    /// # Errors
    /// [`ScanStop::Paused`]: it pauses. The next call goes on.
    pub(super) fn pause_before_place(
        &mut self,
        session: SessionId,
        plan: &Plan,
        range: &KeyRange,
        cursor: &mut Cursor,
        pos: &Pos,
    ) -> Result<(), ScanStop> {
        if !self.pauses || cursor.passed != Passed::Nothing || cursor.insist {
            return Ok(());
        }
        let Some(mode) = plan.lock else { return Ok(()) };
        let index = plan.index_shape();
        let asks = self.trx(session).level > Isolation::ReadCommitted
            || match (pos, range) {
                (Pos::Supremum, _) => false,
                (Pos::Record(key), KeyRange::Exact(parts)) => key.starts_with(parts),
                (Pos::Record(_), _) => true,
            };
        // Who waited for a place stands on it.
        let waited = matches!(cursor.at, At::On(_));
        let nothing = !asks && cursor.first;
        if waited || nothing || self.holds(session, index, pos, mode) {
            return Ok(());
        }
        cursor.passed = Passed::Place;
        Err(ScanStop::Paused(self.place_name(&plan.shape, index, pos)))
    }

    /// Stops a locking scan between a secondary record and its row, once.
    ///
    /// # Errors
    /// [`ScanStop::Paused`]: it pauses. The next call goes on.
    pub(super) fn pause_before_row(
        &mut self,
        session: SessionId,
        plan: &Plan,
        cursor: &mut Cursor,
        pos: &Pos,
        mode: Mode,
    ) -> Result<(), ScanStop> {
        let index = plan.shape.clustered();
        if !self.pauses || cursor.passed == Passed::Row || self.holds(session, index, pos, mode) {
            return Ok(());
        }
        cursor.passed = Passed::Row;
        Err(ScanStop::Paused(self.place_name(&plan.shape, index, pos)))
    }

    /// Whether a transaction has a lock on a record already, explicit or by having written it.
    fn holds(&mut self, session: SessionId, index: &IndexShape, pos: &Pos, mode: Mode) -> bool {
        let supremum = pos.is_supremum();
        let holds = |lock: &super::lock::RecordLock| {
            lock.owner == session && lock.covers(mode, Span::Record, supremum)
        };
        let wrote = match pos {
            Pos::Record(key) => {
                let record = self.record(index.id, key);
                record.and_then(Record::holder) == Some(session)
            }
            Pos::Supremum => false,
        };
        wrote || self.locks(index.id, pos).iter().any(holds)
    }

    /// A place of an index, for a person: `job.PRIMARY (2)`.
    fn place_name(&self, shape: &Shape, index: &IndexShape, pos: &Pos) -> String {
        let (table, name) = (&shape.table.name, &index.name);
        let data = match pos {
            Pos::Supremum => "supremum".to_owned(),
            Pos::Record(_) => self.lock_data(shape, index, pos).0,
        };
        format!("{table}.{name} ({data})")
    }
}

impl Handler<'_> {
    /// Stops the statement before it inserts a row, once.
    ///
    /// # Errors
    /// [`Stop::Wait`]: it pauses. The next run goes on from here.
    pub(super) fn pause_before_insert(
        &mut self,
        shape: &Shape,
        row: &rowlock_model::Row,
    ) -> Result<(), Stop> {
        if !self.store.pauses || self.run.let_insert {
            return Ok(());
        }
        self.run.let_insert = true;
        let index = shape.clustered();
        let values: Vec<String> = shape
            .shown(index, row)
            .iter()
            .map(super::errors::shown)
            .collect();
        let name = format!(
            "{}.{} ({})",
            shape.table.name,
            index.name,
            values.join(", ")
        );
        self.waiting = Some(Waiting::Pause(name));
        Err(Stop::Wait)
    }
}
