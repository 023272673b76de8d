//! Inserting, changing and deleting rows: the clustered index first, then each secondary one.
//!
//! A row that is written needs no lock of its own: that its newest version is not committed is the lock
//! (see [`super::records::Writer`]). Each step may wait; what was done before it stays done, and the
//! step is tried again.

use std::ops::Bound;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};

use super::key::{Key, Part, Pos};
use super::lock::{Mode, OnBusy, Refused, Span, TableMode};
use super::records::{Record, Version, Writer};
use super::shape::{IndexShape, Shape};
use super::store::Store;
use super::trx::Undo;
use crate::loose::catalog::TableId;
use crate::trace::Trace;

/// Why a row was not written.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// Somebody has something locked.
    Refused(Refused),
    /// A unique index has an equal row: the index's position in the shape, and the key of that row.
    Duplicate(usize, Key),
    /// Snapshot isolation: a record in the way is newer than the read view.
    Changed,
    /// A foreign key refuses: its message and whether this row is the child.
    ForeignKey(ForeignKeyError),
}

/// A foreign key refuses a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyError {
    /// The row is a child without a parent; otherwise a parent with children.
    pub is_child: bool,
    /// The constraint, as the server shows it behind its message.
    pub constraint: String,
}

impl From<Refused> for Obstacle {
    fn from(refused: Refused) -> Obstacle {
        Obstacle::Refused(refused)
    }
}

/// How far writing a row has got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// The transaction's changes when it began.
    pub base: Option<usize>,
    /// How many steps are done.
    pub done: usize,
    /// The row itself is changed already.
    pub written: bool,
    /// A row of another table that is being changed inside the present step.
    pub child: Option<Box<Child>>,
    /// It follows a change of its parent, which is not looked for.
    pub cascaded: bool,
    /// `REPLACE` is deleting the row that is in the way in this index.
    pub replacing: Option<usize>,
}

/// A child row that is changed because its parent is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Its table.
    pub table: TableId,
    /// What it was.
    pub old: Row,
    /// What it will be; `None` if it is deleted.
    pub new: Option<Row>,
    /// How far that has got.
    pub progress: Progress,
}

impl Store {
    /// Whether snapshot isolation forbids to touch a record.
    pub fn is_changed_since_view(&self, session: SessionId, record: &Record) -> bool {
        let trx = self.trx(session);
        let checks = self.flavour_of(session).checks_snapshot();
        let Some(view) = trx.view.filter(|_| checks) else {
            return false;
        };
        !record.newest.writer.is_seen(session, view)
    }

    fn begin(&mut self, session: SessionId, progress: &mut Progress) {
        if progress.base.is_none() {
            progress.base = Some(self.trx(session).undo.len());
        }
    }

    /// What a failed write did is undone; a wait keeps it.
    fn settle(
        &mut self,
        session: SessionId,
        progress: &Progress,
        result: Result<(), Obstacle>,
    ) -> Result<(), Obstacle> {
        let fails = matches!(
            result,
            Err(Obstacle::Duplicate(..) | Obstacle::Changed | Obstacle::ForeignKey(_))
        );
        if let Some(base) = progress.base.filter(|_| fails) {
            self.rollback_to(session, base);
        }
        result
    }

    /// Inserts a row. `check` is the lock that duplicates are checked with.
    ///
    /// # Errors
    /// See [`Obstacle`].
    pub fn insert_row(
        &mut self,
        session: SessionId,
        shape: &Shape,
        row: &Row,
        check: Mode,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        self.begin(session, progress);
        let mut result = Ok(());
        if progress.done == 0 {
            result = self.check_parents_first(session, shape, None, row);
        }
        if result.is_ok() {
            self.lock_table(session, shape.table.id, TableMode::IntentionExclusive);
        }
        while progress.done < shape.indexes.len() && result.is_ok() {
            let at = progress.done;
            result = self.check_parents_of(session, shape, at, row);
            if result.is_ok() {
                result = self.insert_step(session, shape, at, row, check);
            }
            if result.is_ok() {
                progress.done += 1;
            }
        }
        self.settle(session, progress, result)
    }

    fn insert_step(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        row: &Row,
        check: Mode,
    ) -> Result<(), Obstacle> {
        if at == 0 {
            self.insert_clustered(session, shape, row, check)
        } else {
            self.insert_entry(session, shape, at, row, check)
        }
    }

    fn insert_clustered(
        &mut self,
        session: SessionId,
        shape: &Shape,
        row: &Row,
        check: Mode,
    ) -> Result<(), Obstacle> {
        let index = shape.clustered();
        let key = shape.key(index, row);
        let here = Pos::Record(key.clone());
        let version = Version {
            row: row.clone(),
            deleted: false,
            writer: Writer::Active(session),
        };
        self.reads_newest(index.id, &here);
        if self.record(index.id, &key).is_some() {
            self.lock_record(
                session,
                shape,
                index,
                &here,
                check,
                Span::Record,
                OnBusy::Wait,
            )?;
            // Nothing waited, so it is still there.
            if let Some(record) = self.records(index.id).get(&key) {
                if self.is_changed_since_view(session, record) {
                    return Err(Obstacle::Changed);
                }
                if !record.newest.deleted {
                    return Err(Obstacle::Duplicate(0, key));
                }
            }
            self.lock_for_change(session, shape, index, &here)?;
            self.push_version(session, shape, &key, version);
            return Ok(());
        }
        let successor = self.records(index.id).successor(&key);
        self.reads_newest(index.id, &successor);
        self.lock_gap_for_insert(session, shape, index, &successor)?;
        self.world.trace.push(Trace::Write {
            session,
            table: shape.table.id.0,
            old: None,
            new: Some(row.clone()),
        });
        let record = Record {
            newest: version,
            older: Vec::new(),
            row_key: None,
        };
        self.put_record(index.id, key.clone(), record);
        self.split_gap(shape.table.id, index, &here, &successor);
        self.trx_mut(session).undo.push(Undo::Row {
            table: shape.table.id,
            index: index.id,
            key,
        });
        Ok(())
    }

    fn push_version(&mut self, session: SessionId, shape: &Shape, key: &Key, version: Version) {
        let index = shape.clustered().id;
        let new = (!version.deleted).then(|| version.row.clone());
        let record = self.record_mut(index, key, false);
        let old = std::mem::replace(&mut record.newest, version);
        let before = (!old.deleted).then(|| old.row.clone());
        record.older.insert(0, old);
        self.world.trace.push(Trace::Write {
            session,
            table: shape.table.id.0,
            old: before,
            new,
        });
        self.trx_mut(session).undo.push(Undo::Row {
            table: shape.table.id,
            index,
            key: key.clone(),
        });
    }

    fn insert_entry(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        row: &Row,
        check: Mode,
    ) -> Result<(), Obstacle> {
        let index = &shape.indexes[at];
        let key = shape.key(index, row);
        let null = index.declared_parts(&key).iter().any(Part::is_null);
        if index.unique && !null {
            self.check_unique(session, shape, at, &key, check)?;
        }
        let here = Pos::Record(key.clone());
        let record = Record {
            newest: Version {
                row: shape.shown(index, row).into(),
                deleted: false,
                writer: Writer::Active(session),
            },
            older: Vec::new(),
            row_key: Some(shape.key(shape.clustered(), row)),
        };
        let before = self.record(index.id, &key).cloned();
        match before {
            Some(before) => {
                self.lock_for_change(session, shape, index, &here)?;
                *self.record_mut(index.id, &key, false) = record;
                self.log_entry(session, shape, index, key, Some(before));
            }
            None => {
                let successor = self.records(index.id).successor(&key);
                self.reads_newest(index.id, &successor);
                self.lock_gap_for_insert(session, shape, index, &successor)?;
                self.put_record(index.id, key.clone(), record);
                self.split_gap(shape.table.id, index, &here, &successor);
                self.log_entry(session, shape, index, key, None);
            }
        }
        Ok(())
    }

    fn log_entry(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        key: Key,
        before: Option<Record>,
    ) {
        self.trx_mut(session).undo.push(Undo::Entry {
            table: shape.table.id,
            index: index.id,
            key,
            before: before.map(Box::new),
        });
    }

    /// Looks for an equal record in a unique secondary index. If there are any, marked as deleted or not,
    /// they are locked one after the other, and so is the record behind them, each with its gap, at
    /// every level.
    fn check_unique(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        key: &Key,
        check: Mode,
    ) -> Result<(), Obstacle> {
        let index = &shape.indexes[at];
        let wanted = index.declared_parts(key).to_vec();
        let prefix = Key(wanted.clone().into());
        let mut pos = match self.records(index.id).first(Bound::Included(&prefix)) {
            Some((found, _)) => Pos::Record(found.clone()),
            None => Pos::Supremum,
        };
        self.reads_newest(index.id, &pos);
        let equal = |pos: &Pos| matches!(pos, Pos::Record(found) if found.starts_with(&wanted));
        if !equal(&pos) {
            return Ok(());
        }
        loop {
            // What is behind the equal records: a plain INSERT on MySQL locks the gap only.
            let span = if !equal(&pos) && check == Mode::S && self.flavour.spares_next_key() {
                Span::Gap
            } else {
                Span::NextKey
            };
            self.lock_record(session, shape, index, &pos, check, span, OnBusy::Wait)?;
            let Pos::Record(found) = &pos else {
                return Ok(());
            };
            if !equal(&pos) {
                return Ok(());
            }
            let record = self.records(index.id).get(found);
            if let Some(record) = record
                && !record.newest.deleted
            {
                let row = record.row_key.clone();
                return Err(Obstacle::Duplicate(
                    at,
                    row.unwrap_or_else(|| found.clone()),
                ));
            }
            pos = self.records(index.id).successor(found);
            self.reads_newest(index.id, &pos);
        }
    }

    /// Gives the row with this key new values.
    ///
    /// # Errors
    /// See [`Obstacle`].
    pub fn update_row(
        &mut self,
        session: SessionId,
        shape: &Shape,
        old: &Row,
        new: &Row,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        self.begin(session, progress);
        let mut result = Ok(());
        if progress.done == 0 && !progress.cascaded {
            result = self.check_parents_first(session, shape, Some(old), new);
        }
        // Two steps an index: the old record, the new one. The children come first or last.
        let steps = 2 * shape.indexes.len() + 1;
        let first = self.flavour.checks_foreign_keys_first();
        let children = if first { 0 } else { steps - 1 };
        while progress.done < steps && result.is_ok() {
            let at = progress.done - usize::from(first && progress.done > 0);
            result = if progress.done == children {
                self.check_children(session, shape, old, Some(new), None, progress)
            } else if at.is_multiple_of(2) {
                self.leave_index(session, shape, at / 2, old, new)
            } else {
                self.enter_index(session, shape, at / 2, old, new)
            };
            if result.is_ok() {
                progress.written |= progress.done != children;
                progress.done += 1;
            }
        }
        self.settle(session, progress, result)
    }

    fn leave_index(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        old: &Row,
        new: &Row,
    ) -> Result<(), Obstacle> {
        let index = &shape.indexes[at];
        let key = shape.key(index, old);
        let moves = key != shape.key(index, new);
        if at > 0 {
            if moves {
                self.mark_entry(session, shape, index, &key)?;
            }
            return Ok(());
        }
        self.lock_for_change(session, shape, index, &Pos::Record(key.clone()))?;
        let version = Version {
            row: if moves { old.clone() } else { new.clone() },
            deleted: moves,
            writer: Writer::Active(session),
        };
        self.push_version(session, shape, &key, version);
        Ok(())
    }

    fn enter_index(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        old: &Row,
        new: &Row,
    ) -> Result<(), Obstacle> {
        let index = &shape.indexes[at];
        let key = shape.key(index, new);
        if key != shape.key(index, old) {
            self.check_parents_of(session, shape, at, new)?;
            // `REPLACE` and `ON DUPLICATE KEY UPDATE` check for duplicates exclusively.
            let duplicates = self.trx(session).duplicates;
            let check = if duplicates { Mode::X } else { Mode::S };
            return self.insert_step(session, shape, at, new, check);
        }
        // Equal keys may still look different (`a` and `A`).
        if at > 0 && shape.shown(index, old) != shape.shown(index, new) {
            self.lock_for_change(session, shape, index, &Pos::Record(key.clone()))?;
            let record = self.record_mut(index.id, &key, false);
            let before = record.clone();
            record.newest.row = shape.shown(index, new).into();
            record.newest.writer = Writer::Active(session);
            self.log_entry(session, shape, index, key, Some(before));
        }
        Ok(())
    }

    fn mark_entry(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        key: &Key,
    ) -> Result<(), Obstacle> {
        self.lock_for_change(session, shape, index, &Pos::Record(key.clone()))?;
        let record = self.record_mut(index.id, key, false);
        let before = record.clone();
        record.newest.deleted = true;
        record.newest.writer = Writer::Active(session);
        self.log_entry(session, shape, index, key.clone(), Some(before));
        Ok(())
    }

    /// Deletes a row: its records are marked, and stay until nobody needs them. `by` is the row that
    /// takes its place, if it is a `REPLACE` that deletes.
    ///
    /// # Errors
    /// See [`Obstacle`].
    pub fn delete_row(
        &mut self,
        session: SessionId,
        shape: &Shape,
        old: &Row,
        by: Option<&Row>,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        self.begin(session, progress);
        let mut result = Ok(());
        let steps = shape.indexes.len() + 1;
        while progress.done < steps && result.is_ok() {
            // The children come before the row, or between it and its secondary records.
            let first = self.flavour.checks_foreign_keys_first();
            let children = usize::from(!first);
            result = match progress.done {
                at if at == children => {
                    self.check_children(session, shape, old, None, by, progress)
                }
                0 | 1 => self.mark_row(session, shape, old),
                at => {
                    let index = &shape.indexes[at - 1];
                    let key = shape.key(index, old);
                    self.mark_entry(session, shape, index, &key)
                }
            };
            if result.is_ok() {
                progress.done += 1;
            }
        }
        self.settle(session, progress, result)
    }

    fn mark_row(&mut self, session: SessionId, shape: &Shape, old: &Row) -> Result<(), Obstacle> {
        let index = shape.clustered();
        let key = shape.key(index, old);
        self.lock_for_change(session, shape, index, &Pos::Record(key.clone()))?;
        let version = Version {
            row: old.clone(),
            deleted: true,
            writer: Writer::Active(session),
        };
        self.push_version(session, shape, &key, version);
        Ok(())
    }

    /// The newest version of a row that is not deleted.
    pub fn newest_row(&mut self, shape: &Shape, key: &Key) -> Option<Row> {
        let record = self.record(shape.clustered().id, key)?;
        (!record.newest.deleted).then(|| record.newest.row.clone())
    }

    /// The text of a key in the message of a duplicate: its declared fields, joined by `-`.
    pub fn key_text(&self, shape: &Shape, at: usize, row: &[Value]) -> String {
        let index = &shape.indexes[at];
        let columns = index.columns[..index.declared_columns].iter();
        let fields: Vec<String> = columns.map(|c| super::errors::shown(&row[*c])).collect();
        fields.join("-")
    }
}
