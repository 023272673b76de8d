//! Changing and deleting a row as a statement asks for it.

use std::rc::Rc;

use rowlock_model::Row;

use super::errors;
use super::handler::Handler;
use super::key::Key;
use super::lock::Refused;
use super::run::Entry;
use super::shape::Shape;
use super::write::Obstacle;
use crate::loose::catalog::{ConflictAction, Table};
use crate::loose::storage::{NewRow, Stop, StoredRow};

impl Handler<'_> {
    /// The automatic number of the row written last is what the client is told, if none was drawn.
    pub(super) fn note_number(&mut self, table: &Table, row: Option<&Row>) {
        if let (Some(column), Some(row)) = (table.auto_increment(), row) {
            self.run.written_number = row[column].as_int();
        }
    }

    pub(super) fn update_live(
        &mut self,
        shape: &Rc<Shape>,
        row: &StoredRow<Key>,
        new: &NewRow,
        or: Option<ConflictAction>,
    ) -> Result<Entry, Stop> {
        let mut progress = std::mem::take(&mut self.run.progress);
        let clustered = shape.clustered().id;
        let old = self.store.records(clustered).get(&row.id).map(|record| {
            // Half done already: what it was is behind what it is.
            let version = if progress.written {
                record.older.first().unwrap_or(&record.newest)
            } else {
                &record.newest
            };
            version.row.clone()
        });
        let Some(old) = old else {
            return Ok(Entry::Row(None));
        };
        let mut values = new.values.clone();
        values.extend(old[values.len()..].iter().cloned());
        let values: Row = values.into();
        let result = self
            .store
            .update_row(self.session, shape, &old, &values, &mut progress);
        match result {
            Ok(()) => {
                let key = shape.key(shape.clustered(), &values);
                Ok(Entry::Row(Some((key, values, false))))
            }
            Err(Obstacle::Refused(Refused::Wait)) => {
                self.run.progress = progress;
                Err(self.refused(Refused::Wait))
            }
            Err(Obstacle::Duplicate(at, _)) if or == Some(ConflictAction::Ignore) => {
                let error = self.duplicate(shape, at, &values);
                self.run.warnings.push((1062, error.message.to_string()));
                Ok(Entry::Row(None))
            }
            Err(other) => Err(self.obstacle(other, shape, &values)),
        }
    }

    pub(super) fn delete_live(
        &mut self,
        shape: &Rc<Shape>,
        row: &StoredRow<Key>,
        ignore: bool,
    ) -> Result<Entry, Stop> {
        let mut progress = std::mem::take(&mut self.run.progress);
        let clustered = shape.clustered().id;
        let old = self.store.records(clustered).get(&row.id);
        let Some(old) = old.map(|record| record.newest.row.clone()) else {
            return Ok(Entry::Flag(false));
        };
        let result = self
            .store
            .delete_row(self.session, shape, &old, None, &mut progress);
        match result {
            Ok(()) => Ok(Entry::Flag(true)),
            Err(Obstacle::Refused(Refused::Wait)) => {
                self.run.progress = progress;
                Err(self.refused(Refused::Wait))
            }
            Err(Obstacle::ForeignKey(error)) if ignore => {
                let error = errors::foreign_key(error.is_child, &error.constraint);
                self.run.warnings.push((1451, error.message.to_string()));
                Ok(Entry::Flag(false))
            }
            Err(other) => Err(self.obstacle(other, shape, &old)),
        }
    }
}
