//! Foreign keys: a child locks its parent in shared mode; a parent that goes looks for its children
//! and takes them along, or stays (MySQL manual, "FOREIGN KEY Constraints").

use std::fmt::Write as _;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Isolation, Row, Value};

use super::key::{Key, Part, Pos};
use super::lock::{Mode, OnBusy, Span, TableMode};
use super::shape::{IndexShape, Shape};
use super::store::Store;
use super::write::{Child, ForeignKeyError, Obstacle, Progress};
use crate::loose::catalog::{ForeignKey, Reference};

/// The index whose first columns are these, in this order.
fn supporting<'s>(shape: &'s Shape, columns: &[usize]) -> Option<(usize, &'s IndexShape)> {
    let fits = |(_, index): &(usize, &IndexShape)| index.columns.starts_with(columns);
    shape.indexes.iter().enumerate().find(fits)
}

/// The columns of the parent that a foreign key is about.
fn parent_columns(parent: &Shape, key: &ForeignKey) -> Vec<usize> {
    if key.parent_columns.is_empty() {
        let clustered = parent.clustered();
        return clustered.columns[..clustered.declared_columns].to_vec();
    }
    let columns = key.parent_columns.iter();
    columns
        .filter_map(|name| parent.table.column(name))
        .collect()
}

impl Store {
    fn parts(&self, shape: &Shape, columns: &[usize], values: &[Value]) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for (column, value) in columns.iter().zip(values) {
            let part = Part::of(value, shape.table.columns[*column].collation);
            if part.is_null() {
                return None;
            }
            parts.push(part);
        }
        Some(parts)
    }

    fn foreign_key_error(
        &self,
        is_child: bool,
        child: &Shape,
        key: &ForeignKey,
        parent: &Shape,
    ) -> Obstacle {
        let quoted = |names: Vec<&str>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let columns = key.columns.iter().map(|c| &*child.table.columns[*c].name);
        let parents = parent_columns(parent, key);
        let parents = parents.iter().map(|c| &*parent.table.columns[*c].name);
        let mut constraint = format!(
            "`{}`.`{}`, CONSTRAINT `{}` FOREIGN KEY ({}) REFERENCES `{}` ({})",
            self.database,
            child.table.name,
            key.name,
            quoted(columns.collect()),
            key.parent,
            quoted(parents.collect()),
        );
        for (event, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
            let action = match action {
                Reference::NoAction | Reference::SetDefault => continue,
                Reference::Restrict => "RESTRICT",
                Reference::Cascade => "CASCADE",
                Reference::SetNull => "SET NULL",
            };
            let _ = write!(constraint, " ON {event} {action}");
        }
        Obstacle::ForeignKey(ForeignKeyError {
            is_child,
            constraint,
        })
    }

    /// Before a row is written, where that is when foreign keys are checked: those of all indexes whose
    /// record changes.
    pub(super) fn check_parents_first(
        &mut self,
        session: SessionId,
        shape: &Shape,
        old: Option<&Row>,
        row: &Row,
    ) -> Result<(), Obstacle> {
        if !self.flavour.checks_foreign_keys_first() || shape.table.foreign_keys.is_empty() {
            return Ok(());
        }
        for at in 0..shape.indexes.len() {
            self.check_parents(session, shape, at, old, row)?;
        }
        Ok(())
    }

    /// Before a row's record goes into index `at`, where that is when foreign keys are checked: those that
    /// this index is for.
    pub(super) fn check_parents_of(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        row: &Row,
    ) -> Result<(), Obstacle> {
        if self.flavour.checks_foreign_keys_first() {
            return Ok(());
        }
        self.check_parents(session, shape, at, None, row)
    }

    /// The parents of a row, as far as index `at` is for them; not those that it had before.
    fn check_parents(
        &mut self,
        session: SessionId,
        shape: &Shape,
        at: usize,
        old: Option<&Row>,
        row: &Row,
    ) -> Result<(), Obstacle> {
        if !self.session(session).settings.foreign_keys {
            return Ok(());
        }
        let table = std::sync::Arc::clone(&shape.table);
        for key in &table.foreign_keys {
            if supporting(shape, &key.columns).map(|(at, _)| at) != Some(at) {
                continue;
            }
            let same = |old: &Row| key.columns.iter().all(|c| old[*c] == row[*c]);
            if old.is_some_and(same) {
                continue;
            }
            let values: Vec<Value> = key.columns.iter().map(|c| row[*c].clone()).collect();
            let Some(parent) = self.schema().table(&key.parent).cloned() else {
                continue;
            };
            let columns = parent_columns(&parent, key);
            let (Some((_, index)), Some(parts)) = (
                supporting(&parent, &columns),
                self.parts(&parent, &columns, &values),
            ) else {
                continue;
            };
            self.lock_table(session, parent.table.id, TableMode::IntentionShared);
            if !self.lock_parent(session, &parent, index, &parts)? {
                return Err(self.foreign_key_error(true, shape, key, &parent));
            }
        }
        Ok(())
    }

    /// Locks the parent in shared mode; `false` if there is none.
    fn lock_parent(
        &mut self,
        session: SessionId,
        parent: &Shape,
        index: &IndexShape,
        parts: &[Part],
    ) -> Result<bool, Obstacle> {
        let gaps = self.trx(session).level > Isolation::ReadCommitted;
        let prefix = Key(parts.into());
        let first = self.records(index.id).iter_from(&prefix).next();
        let mut pos = first.map_or(Pos::Supremum, |(key, _)| Pos::Record(key.clone()));
        loop {
            self.reads_newest(index.id, &pos);
            let mode = Mode::S;
            let found = match &pos {
                Pos::Record(key) if key.starts_with(parts) => key.clone(),
                _ => {
                    if gaps {
                        self.lock_record(
                            session,
                            parent,
                            index,
                            &pos,
                            mode,
                            Span::Gap,
                            OnBusy::Wait,
                        )?;
                    }
                    return Ok(false);
                }
            };
            self.lock_record(
                session,
                parent,
                index,
                &pos,
                mode,
                Span::Record,
                OnBusy::Wait,
            )?;
            let record = self.records(index.id).get(&found);
            if let Some(record) = record {
                if self.is_changed_since_view(session, record) {
                    return Err(Obstacle::Changed);
                }
                if !record.newest.deleted {
                    return Ok(true);
                }
            }
            pos = self.records(index.id).successor(&found);
        }
    }

    /// After a row was marked as deleted, or changed: its children.
    pub(super) fn check_children(
        &mut self,
        session: SessionId,
        shape: &Shape,
        old: &Row,
        new: Option<&Row>,
        by: Option<&Row>,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        self.finish_child(session, progress)?;
        if !self.session(session).settings.foreign_keys {
            return Ok(());
        }
        let kept = new.or(by.filter(|_| self.flavour.keeps_children_of_replaced()));
        let children = self.schema().children(&shape.table.name);
        for (child, at) in children {
            let key = child.table.foreign_keys[at].clone();
            let columns = parent_columns(shape, &key);
            let values: Vec<Value> = columns.iter().map(|c| old[*c].clone()).collect();
            let goes = kept.is_none_or(|new| columns.iter().any(|c| new[*c] != old[*c]));
            if !goes {
                continue;
            }
            let (Some((_, index)), Some(parts)) = (
                supporting(&child, &key.columns),
                self.parts(&child, &key.columns, &values),
            ) else {
                continue;
            };
            let index = index.clone();
            self.take_children_along(session, shape, &child, &key, &index, &parts, new, progress)?;
        }
        Ok(())
    }

    /// A child whose change had to wait is changed to its end.
    fn finish_child(
        &mut self,
        session: SessionId,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        let Some(mut child) = progress.child.take() else {
            return Ok(());
        };
        let shape = self.shape(child.table);
        let result = match &child.new {
            None => self.delete_row(session, &shape, &child.old, None, &mut child.progress),
            Some(new) => self.update_row(session, &shape, &child.old, new, &mut child.progress),
        };
        if result.is_err() {
            progress.child = Some(child);
        }
        result
    }

    #[expect(clippy::too_many_arguments, reason = "a foreign key has two sides")]
    fn take_children_along(
        &mut self,
        session: SessionId,
        parent: &Shape,
        child: &Rc<Shape>,
        key: &ForeignKey,
        index: &IndexShape,
        parts: &[Part],
        new: Option<&Row>,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        let action = if new.is_none() {
            key.on_delete
        } else {
            key.on_update
        };
        let refuses = matches!(
            action,
            Reference::NoAction | Reference::Restrict | Reference::SetDefault
        );
        let record_only = self.flavour.cascade_reads_child_shared();
        let shared = record_only || refuses;
        let (mode, intention) = if shared {
            (Mode::S, TableMode::IntentionShared)
        } else {
            (Mode::X, TableMode::IntentionExclusive)
        };
        self.lock_table(session, child.table.id, intention);
        let gaps = self.trx(session).level > Isolation::ReadCommitted;
        let first = self.records(index.id).iter_from(&Key(parts.into())).next();
        let mut pos = first.map_or(Pos::Supremum, |(key, _)| Pos::Record(key.clone()));
        loop {
            self.reads_newest(index.id, &pos);
            let found = match &pos {
                Pos::Record(found) if found.starts_with(parts) => found.clone(),
                _ => {
                    if gaps {
                        self.lock_record(
                            session,
                            child,
                            index,
                            &pos,
                            mode,
                            Span::Gap,
                            OnBusy::Wait,
                        )?;
                    }
                    return Ok(());
                }
            };
            let span = if gaps && !record_only {
                Span::NextKey
            } else {
                Span::Record
            };
            self.lock_record(session, child, index, &pos, mode, span, OnBusy::Wait)?;
            let record = self.records(index.id).get(&found);
            let row_key = record
                .filter(|r| !r.newest.deleted)
                .map(|r| r.row_key.clone().unwrap_or_else(|| found.clone()));
            if let Some(row_key) = row_key {
                if refuses {
                    return Err(self.foreign_key_error(false, child, key, parent));
                }
                self.take_along(session, parent, child, key, &row_key, new, progress)?;
            }
            pos = self.records(index.id).successor(&found);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a foreign key has two sides")]
    fn take_along(
        &mut self,
        session: SessionId,
        parent: &Shape,
        child: &Rc<Shape>,
        key: &ForeignKey,
        row_key: &Key,
        new: Option<&Row>,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        self.lock_table(session, child.table.id, TableMode::IntentionExclusive);
        let clustered = child.clustered();
        let pos = Pos::Record(row_key.clone());
        let (mode, span) = (Mode::X, Span::Record);
        self.lock_record(session, child, clustered, &pos, mode, span, OnBusy::Wait)?;
        let Some(old) = self.newest_row(child, row_key) else {
            return Ok(());
        };
        let changed = match (new, key.on_delete, key.on_update) {
            (None, Reference::Cascade, _) => None,
            (None, ..) => Some(self.with_columns(key, &old, None)),
            (Some(new), _, Reference::Cascade) => {
                let columns = parent_columns(parent, key);
                let values: Vec<Value> = columns.iter().map(|c| new[*c].clone()).collect();
                Some(self.with_columns(key, &old, Some(&values)))
            }
            (Some(_), ..) => Some(self.with_columns(key, &old, None)),
        };
        progress.child = Some(Box::new(Child {
            table: child.table.id,
            old,
            new: changed,
            progress: Progress {
                base: progress.base,
                cascaded: true,
                ..Progress::default()
            },
        }));
        self.finish_child(session, progress)
    }

    /// A child row with other values in the columns of its foreign key: NULL if there are none.
    fn with_columns(&self, key: &ForeignKey, old: &Row, values: Option<&[Value]>) -> Row {
        let mut row = old.to_vec();
        for (i, column) in key.columns.iter().enumerate() {
            row[*column] = values.map_or(Value::Null, |values| values[i].clone());
        }
        row.into()
    }
}
