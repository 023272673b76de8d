//! Inserting a row as a statement asks for it: automatic numbers, and what happens to rows in the way.

use std::rc::Rc;

use rowlock_model::{Row, Value};

use super::errors;
use super::handler::Handler;
use super::key::{Key, Pos};
use super::lock::{Mode, OnBusy, Refused, Span};
use super::run::Entry;
use super::shape::Shape;
use super::write::{Obstacle, Progress};
use crate::loose::catalog::ConflictAction;
use crate::loose::plan::Upsert;
use crate::loose::storage::{NewRow, Stop};

impl Handler<'_> {
    /// A new row with its hidden columns, and its automatic number filled in.
    pub(super) fn complete(
        &mut self,
        shape: &Shape,
        row: &NewRow,
    ) -> Result<(Row, Option<i64>), Stop> {
        let mut values = row.values.clone();
        let mut number = None;
        if let Some(column) = shape.table.auto_increment() {
            let asked = match &values[column] {
                Value::Null | Value::Int(0) => None,
                Value::Int(i) => Some(*i),
                _ => Some(0),
            };
            match asked {
                None => {
                    let next = self.store.next_number(shape.table.id);
                    values[column] = Value::Int(next);
                    self.store.set_next_number(shape.table.id, next + 1);
                    number = Some(next);
                }
                Some(asked) => {
                    if asked >= self.store.next_number(shape.table.id) {
                        self.store.set_next_number(shape.table.id, asked + 1);
                    }
                }
            }
        }
        if shape.hidden_key {
            values.push(Value::Int(self.store.draw_row_number(shape.table.id)));
        }
        Ok((values.into(), number))
    }

    pub(super) fn insert_live(
        &mut self,
        shape: &Rc<Shape>,
        row: &Row,
        or: Option<ConflictAction>,
        upserts: &[Upsert],
    ) -> Result<Entry, Stop> {
        let replaces = or == Some(ConflictAction::Replace);
        let check = if replaces || !upserts.is_empty() {
            Mode::X
        } else {
            Mode::S
        };
        let mut replaced = 0;
        loop {
            let mut progress = std::mem::take(&mut self.run.progress);
            // Deleting the row in the way may wait as well.
            let result = if let Some(at) = progress.replacing.take() {
                Err(Obstacle::Duplicate(at, Key([].into())))
            } else {
                let result = self
                    .store
                    .insert_row(self.session, shape, row, check, &mut progress);
                if matches!(result, Err(Obstacle::Refused(Refused::Wait))) {
                    self.run.progress = progress;
                    return Err(self.refused(Refused::Wait));
                }
                progress = Progress::default();
                result
            };
            match result {
                Ok(()) => {
                    let key = shape.key(shape.clustered(), row);
                    let kind = u8::from(replaced > 0);
                    return Ok(Entry::Inserted(kind, replaced, Some((key, row.clone()))));
                }
                Err(Obstacle::Duplicate(at, _))
                    if replaces && self.replaces_in_place(shape, at) =>
                {
                    return self.replace_in_place(shape, at, row, replaced, progress);
                }
                Err(Obstacle::Duplicate(at, _)) if replaces => {
                    self.replace(shape, at, row, progress)?;
                    replaced += 1;
                }
                Err(Obstacle::Duplicate(at, key)) => {
                    let declared = shape.indexes[at].declared;
                    let clause = upserts.iter().position(|u| u.target.handles(declared));
                    if let Some(clause) = clause {
                        return self.row_in_the_way(shape, at, key, clause);
                    }
                    if or == Some(ConflictAction::Ignore) {
                        let error = self.duplicate(shape, at, row);
                        self.run.warnings.push((1062, error.message.to_string()));
                        return Ok(Entry::Inserted(2, 0, None));
                    }
                    return Err(self.duplicate(shape, at, row).into());
                }
                Err(Obstacle::ForeignKey(error)) if or == Some(ConflictAction::Ignore) => {
                    let error = errors::foreign_key(error.is_child, &error.constraint);
                    self.run.warnings.push((1452, error.message.to_string()));
                    return Ok(Entry::Inserted(2, 0, None));
                }
                Err(other) => return Err(self.obstacle(other, shape, row)),
            }
        }
    }

    /// Whether `REPLACE` changes the row in the way in place: no later unique index could have another
    /// duplicate, and nothing hangs on the row's deletion.
    fn replaces_in_place(&self, shape: &Shape, at: usize) -> bool {
        let last = shape.indexes.iter().rposition(|index| index.unique);
        last == Some(at)
            && (self.store.flavour.replaces_parents_in_place()
                || self.store.schema().children(&shape.table.name).is_empty())
    }

    /// `REPLACE` in place: the row in the way gets the new values.
    fn replace_in_place(
        &mut self,
        shape: &Rc<Shape>,
        at: usize,
        row: &Row,
        replaced: u64,
        mut progress: Progress,
    ) -> Result<Entry, Stop> {
        let Some((key, found)) = self.equal_row(shape, at, row) else {
            return Ok(Entry::Inserted(2, 0, None));
        };
        self.lock_in_the_way(shape, at, &key)?;
        let clustered = shape.clustered().id;
        let old = match self.store.records(clustered).get(&key) {
            Some(record) if progress.written => {
                let before = record.older.first().unwrap_or(&record.newest);
                before.row.clone()
            }
            _ => found,
        };
        let changes = old != *row;
        if changes {
            let result = self
                .store
                .update_row(self.session, shape, &old, row, &mut progress);
            if matches!(result, Err(Obstacle::Refused(Refused::Wait))) {
                progress.replacing = Some(at);
                self.run.progress = progress;
                return Err(self.refused(Refused::Wait));
            }
            if let Err(other) = result {
                return Err(self.obstacle(other, shape, row));
            }
        }
        let key = shape.key(shape.clustered(), row);
        let replaced = replaced + u64::from(changes);
        Ok(Entry::Inserted(1, replaced, Some((key, row.clone()))))
    }

    /// `REPLACE`: deletes the row that has the same key in an index.
    fn replace(
        &mut self,
        shape: &Rc<Shape>,
        at: usize,
        row: &Row,
        mut progress: Progress,
    ) -> Result<(), Stop> {
        let Some((key, old)) = self.equal_row(shape, at, row) else {
            return Ok(());
        };
        self.lock_in_the_way(shape, at, &key)?;
        let result = self
            .store
            .delete_row(self.session, shape, &old, Some(row), &mut progress);
        match result {
            Ok(()) => Ok(()),
            Err(Obstacle::Refused(Refused::Wait)) => {
                progress.replacing = Some(at);
                self.run.progress = progress;
                Err(self.refused(Refused::Wait))
            }
            Err(other) => Err(self.obstacle(other, shape, &old)),
        }
    }

    /// The row that has the same declared key in an index.
    fn equal_row(&mut self, shape: &Shape, at: usize, row: &Row) -> Option<(Key, Row)> {
        let index = &shape.indexes[at];
        let wanted = shape.key(index, row);
        let wanted = index.declared_parts(&wanted).to_vec();
        let first = Key(wanted.clone().into());
        let records = self.store.records(index.id);
        let mut in_index = records.iter_from(&first);
        // The row of a delete that waited is marked already, its record in this index may be not.
        let found = in_index
            .find(|(key, record)| key.starts_with(&wanted) && (at == 0 || !record.newest.deleted));
        let key = found.map(|(key, r)| r.row_key.clone().unwrap_or_else(|| key.clone()))?;
        drop(in_index);
        let record = self.store.record(shape.clustered().id, &key)?;
        Some((key, record.newest.row.clone()))
    }

    /// The duplicate is read as `SELECT .. FOR UPDATE` by its unique key would.
    fn lock_in_the_way(&mut self, shape: &Shape, at: usize, key: &Key) -> Result<(), Stop> {
        let clustered = shape.clustered();
        let _ = at;
        let pos = Pos::Record(key.clone());
        let (mode, span) = (Mode::X, Span::Record);
        let locked = self.store.lock_record(
            self.session,
            shape,
            clustered,
            &pos,
            mode,
            span,
            OnBusy::Wait,
        );
        if let Err(refused) = locked {
            return Err(self.refused(refused));
        }
        let changed = self
            .store
            .records(clustered.id)
            .get(key)
            .is_some_and(|r| self.store.is_changed_since_view(self.session, r));
        if changed {
            return Err(errors::record_changed(&shape.table.name).into());
        }
        Ok(())
    }

    fn row_in_the_way(
        &mut self,
        shape: &Shape,
        at: usize,
        key: Key,
        clause: usize,
    ) -> Result<Entry, Stop> {
        self.lock_in_the_way(shape, at, &key)?;
        let row = self.store.newest_row(shape, &key);
        Ok(Entry::Inserted(3, clause as u64, row.map(|row| (key, row))))
    }
}
