//! Scans: which records are looked at, in which order, and what is locked of them.
//!
//! A scan goes through one index, range by range. Each record is locked first, then judged: is it past
//! the end, deleted, does its row exist. So it is the path that decides what is locked, not the
//! result (README, "What a scan locks").

use std::cmp::Ordering;
use std::hash::Hash;
use std::ops::Bound;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Isolation, Row};

use super::key::{Key, Part, Pos};
use super::lock::{Granted, Mode, OnBusy, Refused, Span};
use super::pause::Passed;
use super::range::{Filter, KeyRange};
use super::records::Record;
use super::shape::{IndexId, IndexShape, Shape};
use super::store::Store;
use crate::world::Digest;

/// Where a scan stands in its range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Before its first record.
    Start,
    /// At a place that is to be looked at (again).
    On(Pos),
    /// Behind a place, in the direction of the scan.
    Behind(Pos),
    /// Behind its last record.
    End,
}

/// A lock that the last candidate brought, which READ COMMITTED may give back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    pub(super) index: IndexId,
    pub(super) pos: Pos,
    pub(super) mode: Mode,
    pub(super) span: Span,
}

/// How a scan is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The table.
    pub shape: Rc<Shape>,
    /// The index, by its position in the shape.
    pub index: usize,
    /// The ranges, in the order in which they are read.
    pub ranges: Vec<KeyRange>,
    /// Backwards.
    pub reverse: bool,
    /// How records are locked; `None` is a consistent read.
    pub lock: Option<Mode>,
    /// If a record is busy.
    pub busy: OnBusy,
    /// How long to wait, if the statement says so (`WAIT n`).
    pub wait_seconds: Option<u32>,
    /// The row is looked up in the clustered index.
    pub lookup: bool,
    /// The server's conditions on the columns of a secondary index are tested before the row is looked
    /// up: the record past the end is locked, its row is not.
    pub tests_index_first: bool,
    /// It is read as ranges even if they are equalities: for changes, and if there are several.
    pub bounded: bool,
    /// Those conditions, beside the range.
    pub filters: Vec<Filter>,
    /// A semi-consistent read: a locked record is shown as it was committed.
    pub semi_consistent: bool,
    /// The one row is read before the conditions are looked at: it stays locked.
    pub constant: bool,
}

/// The position of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    range: usize,
    pub(super) at: At,
    /// No record of the range was looked at yet.
    pub(super) first: bool,
    pub(super) taken: Vec<Taken>,
    /// The end of the range was met exactly: nothing behind it can be in the range.
    met_end: bool,
    /// The candidate shown last is to be locked, waiting if need be.
    pub(super) insist: bool,
    /// Past which pause it was let, in row granularity.
    pub(super) passed: Passed,
}

/// A row that a scan found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its key in the clustered index.
    pub key: Key,
    /// Its values, hidden ones included.
    pub row: Row,
    /// It is not locked: see [`Plan::semi_consistent`].
    pub tentative: bool,
}

/// Why a scan did not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStop {
    /// Somebody has something locked.
    Refused(Refused),
    /// Snapshot isolation: a record is newer than the read view.
    Changed,
    /// It pauses before this place.
    Paused(String),
}

impl From<Refused> for ScanStop {
    fn from(refused: Refused) -> ScanStop {
        ScanStop::Refused(refused)
    }
}

/// What became of one place.
pub(super) enum Step {
    Row(Found),
    Next,
    RangeEnds,
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor {
            range: 0,
            at: At::Start,
            first: true,
            taken: Vec::new(),
            met_end: false,
            insist: false,
            passed: Passed::Nothing,
        }
    }
}

impl Plan {
    pub(super) fn index_shape(&self) -> &IndexShape {
        &self.shape.indexes[self.index]
    }

    pub(super) fn is_clustered(&self) -> bool {
        self.index == 0
    }

    /// Whether a range is read backwards. One that can have one record only is just looked up, and so are
    /// equalities on all columns among several ranges.
    pub(super) fn reverse_in(&self, range: &KeyRange) -> bool {
        let whole = match range {
            KeyRange::Exact(parts) => parts.len() >= self.index_shape().declared_columns,
            _ => false,
        };
        self.reverse && !self.is_unique(range) && !(self.bounded && whole)
    }

    /// Whether the range can have one record only.
    fn is_unique(&self, range: &KeyRange) -> bool {
        let index = self.index_shape();
        match range {
            KeyRange::Exact(parts) => {
                index.unique
                    && parts.len() >= index.declared_columns
                    && (self.is_clustered() || !parts.iter().any(Part::is_null))
            }
            _ => false,
        }
    }
}

impl Store {
    /// The next row of a scan.
    ///
    /// # Errors
    /// See [`ScanStop`]. After [`Refused::Wait`] the same call goes on where it waited: with the record
    /// if it is still there, else with the next one.
    pub fn scan_next(
        &mut self,
        session: SessionId,
        plan: &Plan,
        cursor: &mut Cursor,
    ) -> Result<Option<Found>, ScanStop> {
        if cursor.passed != Passed::Row {
            cursor.taken.clear();
        }
        loop {
            let Some(range) = plan.ranges.get(cursor.range) else {
                return Ok(None);
            };
            if cursor.at == At::End {
                cursor.range += 1;
                cursor.at = At::Start;
                cursor.first = true;
                cursor.met_end = false;
                continue;
            }
            let Some(pos) = self.place(plan, range, cursor) else {
                self.lock_start_of_reverse(session, plan, range, cursor, None)?;
                cursor.at = At::End;
                continue;
            };
            self.pause_before_place(session, plan, range, cursor, &pos)?;
            self.lock_start_of_reverse(session, plan, range, cursor, Some(&pos))?;
            cursor.at = At::On(pos.clone());
            let insist = cursor.insist;
            let step = self.look(session, plan, range, cursor, &pos)?;
            cursor.first = false;
            cursor.insist = false;
            cursor.passed = Passed::Nothing;
            match step {
                Step::Row(found) => {
                    let alone = plan.is_unique(range) && !found.tentative;
                    cursor.met_end = self.ends_here(session, plan, range, &pos);
                    cursor.at = if alone { At::End } else { At::Behind(pos) };
                    return Ok(Some(found));
                }
                Step::Next => {
                    cursor.at = At::Behind(pos);
                    if insist {
                        // The candidate that was to be confirmed is gone.
                        return Ok(None);
                    }
                }
                Step::RangeEnds => {
                    cursor.at = At::End;
                    if insist {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The tentative candidate passed: it is to be locked, and read as it is then.
    ///
    /// # Errors
    /// As [`scan_next`](Self::scan_next).
    pub fn scan_confirm(
        &mut self,
        session: SessionId,
        plan: &Plan,
        cursor: &mut Cursor,
    ) -> Result<Option<Found>, ScanStop> {
        if !cursor.insist {
            cursor.insist = true;
            if let At::Behind(pos) = &cursor.at {
                cursor.at = At::On(pos.clone());
            }
        }
        let wanted = match &cursor.at {
            At::On(pos) | At::Behind(pos) => Some(pos.clone()),
            At::Start | At::End => None,
        };
        let found = self.scan_next(session, plan, cursor)?;
        // The record may have gone while it was waited for: what comes then is looked at as a new one.
        let same = |found: &Found| match &wanted {
            Some(Pos::Record(key)) => *key == found.key,
            _ => false,
        };
        match found {
            Some(found) if same(&found) => Ok(Some(found)),
            Some(found) => {
                let pos = Pos::Record(found.key);
                cursor.at = At::On(pos);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// The candidate did not pass: READ COMMITTED gives back what it brought.
    pub fn scan_reject(&mut self, session: SessionId, plan: &Plan, cursor: &mut Cursor) {
        if !plan.constant {
            self.give_back(session, plan, cursor);
        }
    }

    pub(super) fn give_back(&mut self, session: SessionId, plan: &Plan, cursor: &mut Cursor) {
        let taken = std::mem::take(&mut cursor.taken);
        let releases = self.trx(session).level <= Isolation::ReadCommitted
            && (plan.is_clustered() || self.flavour.releases_on_secondary_scans());
        if releases {
            for lock in taken {
                self.release_one(session, lock.index, &lock.pos, lock.mode, lock.span);
            }
        }
    }

    /// Whether the end of a range of the clustered index is met exactly.
    fn ends_here(&self, session: SessionId, plan: &Plan, range: &KeyRange, pos: &Pos) -> bool {
        let Pos::Record(key) = pos else { return false };
        let exact = matches!(range.high(), Some((parts, true)) if parts == &key.0[..]);
        exact && !plan.reverse_in(range) && self.range_end_is_gap(session, plan)
    }

    fn range_end_is_gap(&self, session: SessionId, plan: &Plan) -> bool {
        plan.lock.is_some()
            && plan.is_clustered()
            && self.locks_gaps(session)
            && self.flavour.clustered_range_end_is_gap()
    }

    fn locks_gaps(&self, session: SessionId) -> bool {
        self.trx(session).level > Isolation::ReadCommitted
    }

    /// The place that is to be looked at next; `None` at the end of the range.
    fn place(&self, plan: &Plan, range: &KeyRange, cursor: &Cursor) -> Option<Pos> {
        let index = plan.index_shape();
        let records = self.records(index.id);
        let found = |found: Option<(&Key, &Record)>| found.map(|(key, _)| Pos::Record(key.clone()));
        if !plan.reverse_in(range) {
            let next = match &cursor.at {
                At::Start => match range.low() {
                    None => found(records.first(Bound::Unbounded)),
                    Some((parts, inclusive)) => {
                        let low = Key(parts.into());
                        let mut from = records.iter_from(&low);
                        let first = from.find(|(key, _)| inclusive || !key.starts_with(parts));
                        found(first)
                    }
                },
                At::On(Pos::Record(key)) => found(records.first(Bound::Included(key))),
                At::Behind(Pos::Record(key)) => found(records.first(Bound::Excluded(key))),
                At::On(Pos::Supremum) => None,
                At::Behind(Pos::Supremum) | At::End => return None,
            };
            return Some(next.unwrap_or(Pos::Supremum));
        }
        match &cursor.at {
            At::Start => match range.high() {
                // A scan that begins at the end locks the end.
                None => Some(Pos::Supremum),
                Some((parts, inclusive)) => {
                    let last = records
                        .iter()
                        .rev()
                        .find(|(key, _)| match key.cmp_prefix(parts) {
                            Ordering::Less => true,
                            Ordering::Equal => inclusive,
                            Ordering::Greater => false,
                        });
                    found(last)
                }
            },
            At::On(Pos::Supremum) => Some(Pos::Supremum),
            At::On(Pos::Record(key)) => found(records.last(Bound::Included(key))),
            At::Behind(Pos::Record(key)) => found(records.last(Bound::Excluded(key))),
            At::Behind(Pos::Supremum) => found(records.iter().next_back()),
            At::End => None,
        }
    }

    /// A scan backwards from a key locks the gap behind its first record, or in front of all records if
    /// it has none.
    fn lock_start_of_reverse(
        &mut self,
        session: SessionId,
        plan: &Plan,
        range: &KeyRange,
        cursor: &Cursor,
        first: Option<&Pos>,
    ) -> Result<(), ScanStop> {
        if !plan.reverse_in(range) || cursor.at != At::Start || range.high().is_none() {
            return Ok(());
        }
        let index = plan.index_shape();
        let records = self.records(index.id);
        let behind = match first {
            Some(Pos::Record(key)) => records.successor(key),
            _ => match records.first(Bound::Unbounded) {
                Some((key, _)) => Pos::Record(key.clone()),
                None => Pos::Supremum,
            },
        };
        let behind = &behind;
        self.reads_newest(index.id, behind);
        if let Some(mode) = plan.lock.filter(|_| self.locks_gaps(session)) {
            let span = Span::Gap;
            self.lock_record(
                session,
                &plan.shape,
                index,
                behind,
                mode,
                span,
                OnBusy::Wait,
            )?;
        }
        Ok(())
    }

    /// Looks at one place: locks it, and says what is there.
    fn look(
        &mut self,
        session: SessionId,
        plan: &Plan,
        range: &KeyRange,
        cursor: &mut Cursor,
        pos: &Pos,
    ) -> Result<Step, ScanStop> {
        let Some(mode) = plan.lock else {
            return Ok(self.look_consistently(session, plan, range, pos));
        };
        let (shape, index) = (&plan.shape, plan.index_shape());
        self.reads_newest(index.id, pos);
        let gaps = self.locks_gaps(session);
        let Pos::Record(key) = pos else {
            if gaps {
                self.lock_record(
                    session,
                    shape,
                    index,
                    pos,
                    mode,
                    Span::NextKey,
                    OnBusy::Wait,
                )?;
            }
            return Ok(if plan.reverse_in(range) {
                Step::Next
            } else {
                Step::RangeEnds
            });
        };
        if let KeyRange::Exact(parts) = range
            && !key.starts_with(parts)
            && !(plan.reverse_in(range) && plan.bounded)
        {
            if gaps {
                self.lock_record(session, shape, index, pos, mode, Span::Gap, OnBusy::Wait)?;
            }
            return Ok(Step::RangeEnds);
        }
        let past = range.is_past(key, plan.reverse_in(range));
        if past && !plan.reverse_in(range) && self.range_end_is_gap(session, plan) {
            if !cursor.met_end {
                self.lock_record(session, shape, index, pos, mode, Span::Gap, OnBusy::Wait)?;
            }
            return Ok(Step::RangeEnds);
        }
        let span = self.span(session, plan, range, cursor.first, key);
        let semi = plan.semi_consistent && !cursor.insist && !plan.is_unique(range);
        let busy = if semi { OnBusy::Skip } else { plan.busy };
        match self.lock_record(session, shape, index, pos, mode, span, busy) {
            Ok(Granted::Held) => {}
            Ok(Granted::New) => cursor.taken.push(Taken {
                index: index.id,
                pos: pos.clone(),
                mode,
                span,
            }),
            Err(Refused::Busy) if semi => return Ok(self.show_committed(plan, range, key)),
            Err(Refused::Busy) if plan.busy == OnBusy::Skip => return Ok(Step::Next),
            Err(refused) => return Err(refused.into()),
        }
        let record = self.records(index.id).get(key);
        if plan.is_clustered()
            && let Some(record) = record
            && self.is_changed_since_view(session, record)
        {
            return Err(ScanStop::Changed);
        }
        let Some(record) = record.filter(|r| !r.newest.deleted) else {
            self.give_back(session, plan, cursor);
            let alone = plan.is_clustered() && plan.is_unique(range);
            return Ok(if alone { Step::RangeEnds } else { Step::Next });
        };
        let looks = plan.reverse_in(range) && self.flavour.looks_up_past_reverse();
        if past && plan.tests_index_first && !plan.is_clustered() && !looks {
            self.give_back(session, plan, cursor);
            return Ok(Step::RangeEnds);
        }
        let tested = plan.tests_index_first && !plan.is_clustered();
        if tested && !plan.filters.iter().all(|filter| filter.passes(key)) {
            self.give_back(session, plan, cursor);
            return Ok(Step::Next);
        }
        let found = if plan.is_clustered() {
            Found {
                key: key.clone(),
                row: record.newest.row.clone(),
                tentative: false,
            }
        } else {
            let record = record.clone();
            match self.look_up(session, plan, cursor, &record, mode)? {
                Some(found) => found,
                None => return Ok(Step::Next),
            }
        };
        if past {
            if !plan.reverse_in(range) {
                self.give_back(session, plan, cursor);
            }
            return Ok(Step::RangeEnds);
        }
        Ok(Step::Row(found))
    }

    /// What of a record is locked.
    fn span(
        &self,
        session: SessionId,
        plan: &Plan,
        range: &KeyRange,
        first: bool,
        key: &Key,
    ) -> Span {
        if !self.locks_gaps(session) {
            return Span::Record;
        }
        let alone = plan.is_unique(range);
        if plan.is_clustered() {
            // The record that a range begins with exactly: nothing can be inserted before it that
            // would be in the range.
            let start = match range.low() {
                Some((parts, true)) => parts == &key.0[..],
                _ => false,
            };
            return if alone || (first && start && !plan.reverse_in(range)) {
                Span::Record
            } else {
                Span::NextKey
            };
        }
        let deleted = self
            .records(plan.index_shape().id)
            .get(key)
            .is_some_and(|r| r.newest.deleted);
        if alone && !deleted && self.flavour.unique_secondary_without_gap() {
            Span::Record
        } else {
            Span::NextKey
        }
    }
}

impl Cursor {
    /// Adds it to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        self.hash(digest);
    }
}
