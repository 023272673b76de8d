//! Foreign keys: checks and actions at the end of a statement.
//!
//! What PostgreSQL does with triggers is done here for every queued row change, in the order of the
//! changes; for one change the actions of the referenced side come before the checks of the
//! referencing side, each by constraint in order of creation.
//!
//! * The **referencing** side looks the parent up under a new snapshot (REPEATABLE READ: the
//!   transaction's) and locks it `FOR KEY SHARE`.
//! * The **referenced** side looks for children under the newest snapshot. In REPEATABLE READ an action
//!   that reaches a row which the transaction cannot see is a serialization failure.
//!
//! Each check or action is a nested statement with its own command id; what an action writes is
//! checked in turn before the next event.

use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};

use super::bound::Around;
use super::constraint::{output_text, shown_key};
use super::write::Replaced;
use super::{Exec, Stop};
use crate::engine::postgres::session::Deferred;
use crate::engine::postgres::{
    Birth, Entry, LockMode, LockOutcome, LockScope, RelId, RowLock, Snapshot, Tag, UniqueCheck,
    VersionId, WaitPolicy, errors,
};
use crate::plan::catalog::{Action, ForeignKey, Index, Table};
use crate::plan::write::Assignment;
use crate::world::Digest;

/// A change of a row that foreign keys may have to look at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A new row.
    Insert(Row),
    /// The old row and the new one.
    Update(Row, Row),
    /// A deleted row.
    Delete(Row),
    /// A new key of a deferrable unique constraint that may not be the only one.
    Key(Rc<[Value]>),
}

impl Event {
    /// Adds the event to a digest.
    pub(crate) fn digest(&self, digest: &mut Digest) {
        std::mem::discriminant(self).hash(digest);
        match self {
            Event::Insert(row) | Event::Delete(row) => row.hash(digest),
            Event::Update(old, new) => (old, new).hash(digest),
            Event::Key(key) => key.hash(digest),
        }
    }
}

/// A queued event.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    table: RelId,
    event: Event,
    /// The new version; of a deleted row, the old one.
    version: VersionId,
    /// The old version was made by the same transaction.
    own: bool,
    /// The unique constraint, of a key.
    unique: Option<Arc<str>>,
}

impl Exec<'_> {
    /// Queues a row change, if a foreign key concerns its table.
    pub(super) fn queue(&mut self, table: &Table, event: Event, version: VersionId) {
        self.queue_event(table, event, version, false);
    }

    /// Queues an update; `own`: the old version was made by the same transaction, so that its own
    /// check may not have run on what the row is now.
    pub(super) fn queue_update(
        &mut self,
        table: &Table,
        old: Row,
        new: Row,
        version: VersionId,
        own: bool,
    ) {
        self.queue_event(table, Event::Update(old, new), version, own);
    }

    fn queue_event(&mut self, table: &Table, event: Event, version: VersionId, own: bool) {
        for (name, key) in std::mem::take(&mut self.rechecks) {
            self.events.push(Queued {
                table: table.id,
                event: Event::Key(key),
                version,
                own,
                unique: Some(name),
            });
        }
        if table.foreign_keys.is_empty() && self.schema.references(table.id).next().is_none() {
            return;
        }
        self.events.push(Queued {
            table: table.id,
            event,
            version,
            own,
            unique: None,
        });
    }

    /// Runs what is queued: called at the end of the statement, and of every nested one.
    pub(super) fn fire_events(&mut self) -> Result<(), Stop> {
        for queued in std::mem::take(&mut self.events) {
            self.fire(&queued)?;
        }
        Ok(())
    }

    fn fire(&mut self, queued: &Queued) -> Result<(), Stop> {
        let schema = Rc::clone(&self.schema);
        if let (Event::Key(key), Some(name)) = (&queued.event, &queued.unique) {
            let Some(table) = schema.tables.get(&queued.table) else {
                return Ok(());
            };
            let Some(index) = table.indexes.iter().find(|i| i.name == *name) else {
                return Ok(());
            };
            if self.is_deferred(name, index.deferrable, index.deferred) {
                self.defer(table, name, queued);
                return Ok(());
            }
            return self.recheck_key(table, index, key);
        }
        if let Event::Delete(old) | Event::Update(old, _) = &queued.event {
            let mut keys: Vec<(&Arc<Table>, &ForeignKey)> =
                schema.references(queued.table).collect();
            keys.sort_by(|a, b| (a.0.id, &a.1.name).cmp(&(b.0.id, &b.1.name)));
            for (child, key) in keys {
                let new = match &queued.event {
                    Event::Update(_, new) => Some(new),
                    _ => None,
                };
                self.parent_changed(queued, child, key, old, new)?;
            }
        }
        let Some(table) = schema.tables.get(&queued.table) else {
            return Ok(());
        };
        if let Event::Insert(new) | Event::Update(_, new) = &queued.event {
            for key in &table.foreign_keys {
                if let Event::Update(old, _) = &queued.event
                    && !queued.own
                    && same_key(&key.columns, old, new)
                {
                    continue;
                }
                if self.is_deferred(&key.name, key.deferrable, key.deferred) {
                    self.defer(table, &key.name, queued);
                } else {
                    self.check_child(table, key, new, queued.version)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the check of a constraint waits for the end of the transaction.
    fn is_deferred(&self, name: &str, deferrable: bool, deferred: bool) -> bool {
        if !deferrable {
            return false;
        }
        let deferrals = &self.store.session(self.session).deferrals;
        deferrals
            .get(name)
            .or_else(|| deferrals.get(""))
            .copied()
            .unwrap_or(deferred)
    }

    /// The later check of a deferrable unique constraint.
    fn recheck_key(&mut self, table: &Table, index: &Index, key: &Rc<[Value]>) -> Result<(), Stop> {
        let check = self.store.recheck_unique(&mut self.run, index.id, key)?;
        if let UniqueCheck::Conflict(_) = check {
            let (columns, values) = shown_key(table, index, key);
            return Err(errors::unique(&index.name, &columns, &values).into());
        }
        Ok(())
    }

    fn defer(&mut self, holder: &Table, constraint: &Arc<str>, queued: &Queued) {
        if self.run.replay().is_some() {
            return;
        }
        let level = self.level();
        let deferred = Deferred {
            table: holder.id,
            constraint: Arc::clone(constraint),
            event: queued.event.clone(),
            changed: queued.table,
            version: queued.version,
            level,
        };
        let session = self.store.session_mut(self.session);
        Rc::make_mut(&mut session.deferred).push(deferred);
        self.run.record(Entry::Done);
    }

    fn level(&self) -> u8 {
        let levels = self.store.xact(self.session).levels.len();
        u8::try_from(levels.saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// Runs the checks that were deferred to the end of the transaction.
    pub(in crate::engine::postgres) fn fire_deferred(
        &mut self,
        deferred: &[Deferred],
    ) -> Result<(), Stop> {
        let schema = Rc::clone(&self.schema);
        for check in deferred {
            let Some(holder) = schema.tables.get(&check.table) else {
                continue;
            };
            if let Event::Key(key) = &check.event {
                let index = holder.indexes.iter().find(|i| i.name == check.constraint);
                if let Some(index) = index {
                    self.recheck_key(holder, index, key)?;
                }
                continue;
            }
            let Some(key) = holder
                .foreign_keys
                .iter()
                .find(|k| k.name == check.constraint)
            else {
                continue;
            };
            match &check.event {
                Event::Insert(new) | Event::Update(_, new) if check.changed == check.table => {
                    self.check_child(holder, key, new, check.version)?;
                }
                Event::Delete(old) | Event::Update(old, _) => {
                    self.no_action(holder, key, old)?;
                }
                Event::Insert(_) | Event::Key(_) => {}
            }
            self.fire_events()?;
        }
        Ok(())
    }

    /// A new child row must have its parent.
    fn check_child(
        &mut self,
        table: &Table,
        key: &ForeignKey,
        row: &Row,
        version: VersionId,
    ) -> Result<(), Stop> {
        let values: Vec<Value> = key.columns.iter().map(|c| row[*c].clone()).collect();
        let nulls = values.iter().filter(|v| v.is_null()).count();
        if key.match_full && nulls > 0 && nulls < values.len() {
            return Err(errors::foreign_key_mixed_nulls(&table.name, &key.name).into());
        }
        if nulls > 0 {
            return Ok(());
        }
        // A row that is gone again needs no parent.
        let live = self
            .run
            .once_value(|| Ok(Value::Bool(self.store.live(Some(self.session), version))))?;
        if live != Value::Bool(true) {
            return Ok(());
        }
        let parent = self.table(key.parent);
        if self.lock_parent(&parent, key, &values)? {
            return Ok(());
        }
        let columns = names(table, &key.columns);
        let shown = shown(table, &key.columns, &values);
        Err(
            errors::foreign_key_missing(&table.name, &key.name, &columns, &shown, &parent.name)
                .into(),
        )
    }

    /// Locks the parent row with these key values `FOR KEY SHARE`; whether there is one.
    fn lock_parent(
        &mut self,
        parent: &Table,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<bool, Stop> {
        self.lock_searched(parent.id, LockMode::RowShare)?;
        self.nested(false, |exec| {
            let mut prefix = Vec::new();
            if let Some(index) = parent.indexes.iter().find(|i| i.id == key.parent_index) {
                for index_key in &index.keys {
                    let at = key
                        .parent_columns
                        .iter()
                        .position(|c| Some(*c) == index_key.column);
                    match at {
                        Some(at) => prefix.push(values[at].clone()),
                        None => break,
                    }
                }
            }
            let candidates = exec.store.index_lookup(key.parent_index, &prefix, false);
            exec.note_lookup(key.parent_index, &prefix, &candidates)?;
            exec.lock_matching(&candidates, &key.parent_columns, values)
        })
    }

    /// Locks the visible rows among `candidates` that have the values; whether there is one.
    fn lock_matching(
        &mut self,
        candidates: &[VersionId],
        columns: &[usize],
        values: &[Value],
    ) -> Result<bool, Stop> {
        for &version in candidates {
            if !self.has(version, columns, values)
                || !self.store.visible(self.session, &self.snapshot, version)
            {
                continue;
            }
            match self.lock_row(version, RowLock::KeyShare, WaitPolicy::Block)? {
                LockOutcome::Locked => return Ok(true),
                LockOutcome::LockedNewer(newer) => {
                    if self.has(newer, columns, values) {
                        return Ok(true);
                    }
                }
                LockOutcome::Updated => return Err(errors::concurrent_update().into()),
                LockOutcome::Deleted if self.keeps_snapshot() => {
                    return Err(errors::concurrent_update().into());
                }
                LockOutcome::Deleted
                | LockOutcome::SelfModified(_)
                | LockOutcome::Invisible
                | LockOutcome::WouldBlock => {}
            }
        }
        Ok(false)
    }

    fn has(&self, version: VersionId, columns: &[usize], values: &[Value]) -> bool {
        let row = self.store.row(version);
        columns
            .iter()
            .zip(values)
            .all(|(c, v)| super::order::equal(&row[*c], v))
    }

    /// A parent row was deleted, or its key may have changed.
    fn parent_changed(
        &mut self,
        queued: &Queued,
        child: &Arc<Table>,
        key: &ForeignKey,
        old: &Row,
        new: Option<&Row>,
    ) -> Result<(), Stop> {
        let old_values: Vec<Value> = key.parent_columns.iter().map(|c| old[*c].clone()).collect();
        if old_values.iter().any(Value::is_null) {
            return Ok(());
        }
        let action = match new {
            Some(new) if same_key(&key.parent_columns, old, new) => return Ok(()),
            Some(_) => key.on_update,
            None => key.on_delete,
        };
        match action {
            Action::NoAction if self.is_deferred(&key.name, key.deferrable, key.deferred) => {
                self.defer(child, &key.name, queued);
                Ok(())
            }
            Action::NoAction => self.no_action(child, key, old),
            Action::Restrict => self.refuse(child, key, &old_values),
            Action::Cascade => match new {
                None => self.cascade_delete(child, key, &old_values),
                Some(new) => {
                    let set = key
                        .columns
                        .iter()
                        .zip(&key.parent_columns)
                        .map(|(c, p)| (*c, new[*p].clone()))
                        .collect();
                    self.set_children(child, key, &old_values, set)
                }
            },
            Action::SetNull => {
                let set = key.columns.iter().map(|c| (*c, Value::Null)).collect();
                self.set_children(child, key, &old_values, set)
            }
            Action::SetDefault => {
                let around = Around {
                    params: &[],
                    outer: None,
                };
                let mut set = Vec::new();
                for c in &key.columns {
                    let value = match &child.columns[*c].default {
                        Some(default) => self.evaluate(default, &[], around)?,
                        None => Value::Null,
                    };
                    set.push((*c, value));
                }
                self.set_children(child, key, &old_values, set)?;
                self.no_action(child, key, old)
            }
        }
    }

    /// NO ACTION: refuses unless another parent row has taken the key over.
    fn no_action(&mut self, child: &Table, key: &ForeignKey, old: &Row) -> Result<(), Stop> {
        let values: Vec<Value> = key.parent_columns.iter().map(|c| old[*c].clone()).collect();
        let parent = self.table(key.parent);
        if self.lock_parent(&parent, key, &values)? {
            return Ok(());
        }
        self.refuse(child, key, &values)
    }

    /// 23503 if there is a child with these values.
    fn refuse(&mut self, child: &Table, key: &ForeignKey, values: &[Value]) -> Result<(), Stop> {
        self.lock_searched(child.id, LockMode::RowShare)?;
        let found = self.nested(true, |exec| {
            let candidates = exec.children(child, key, values)?;
            exec.lock_matching(&candidates, &key.columns, values)
        })?;
        if !found {
            return Ok(());
        }
        let parent = self.table(key.parent);
        let columns = names(&parent, &key.parent_columns);
        let shown = shown(&parent, &key.parent_columns, values);
        Err(errors::foreign_key_still_referenced(
            &parent.name,
            &key.name,
            &columns,
            &shown,
            &child.name,
        )
        .into())
    }

    /// Where children with these values can be.
    fn children(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<Vec<VersionId>, Stop> {
        let index = child.indexes.iter().find(|index| {
            index.predicate.is_none()
                && index
                    .keys
                    .first()
                    .and_then(|k| k.column)
                    .is_some_and(|c| key.columns.contains(&c))
        });
        let Some(index) = index else {
            let items = self.store.scan(child.id);
            self.note_scan(child.id, &items)?;
            return Ok(items.to_vec());
        };
        let prefix: Vec<Value> = index
            .keys
            .iter()
            .map_while(|k| {
                let at = key.columns.iter().position(|c| Some(*c) == k.column)?;
                Some(values[at].clone())
            })
            .collect();
        let found = self.store.index_lookup(index.id, &prefix, false);
        self.note_lookup(index.id, &prefix, &found)?;
        Ok(found)
    }

    fn cascade_delete(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<(), Stop> {
        self.lock_searched(child.id, LockMode::RowExclusive)?;
        self.nested(true, |exec| {
            for version in exec.children(child, key, values)? {
                let mut version = version;
                if !exec.is_child(version, key, values)? {
                    continue;
                }
                while let Replaced::Newer(newer) = exec.remove(child, version)? {
                    if !exec.has(newer, &key.columns, values) {
                        break;
                    }
                    version = newer;
                }
            }
            exec.fire_events()
        })
    }

    fn set_children(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        values: &[Value],
        set: Vec<(usize, Value)>,
    ) -> Result<(), Stop> {
        let around = Around {
            params: &[],
            outer: None,
        };
        let assignments: Vec<Assignment> = set
            .iter()
            .map(|(column, value)| Assignment {
                column: *column,
                value: crate::plan::expr::Expr::Const(value.clone()),
            })
            .collect();
        self.lock_searched(child.id, LockMode::RowExclusive)?;
        self.nested(true, |exec| {
            for version in exec.children(child, key, values)? {
                let mut version = version;
                if !exec.is_child(version, key, values)? {
                    continue;
                }
                loop {
                    let mut row = exec.store.row(version).to_vec();
                    for (column, value) in &set {
                        row[*column] = value.clone();
                    }
                    let row = exec.finish_row(child, row, around)?;
                    match exec.replace(child, &assignments, version, row, around)? {
                        Replaced::Newer(newer) if exec.has(newer, &key.columns, values) => {
                            version = newer;
                        }
                        _ => break,
                    }
                }
            }
            exec.fire_events()
        })
    }

    /// Whether a version is a child that an action reaches.
    fn is_child(
        &mut self,
        version: VersionId,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<bool, Stop> {
        if !self.has(version, &key.columns, values)
            || !self.store.visible(self.session, &self.snapshot, version)
        {
            return Ok(false);
        }
        if self.keeps_snapshot()
            && let Some(snapshot) = self.transaction_snapshot()
            && !self.store.visible(self.session, &snapshot, version)
        {
            return Err(errors::concurrent_update().into());
        }
        Ok(true)
    }

    /// The snapshot of a REPEATABLE READ transaction, as of the present command.
    fn transaction_snapshot(&mut self) -> Option<Snapshot> {
        let snapshot = self.store.session(self.session).transaction?.snapshot?;
        Some(Snapshot {
            csn: snapshot.csn,
            cid: self.snapshot.cid,
        })
    }

    /// Runs a nested statement under its own snapshot: in REPEATABLE READ that of the transaction,
    /// unless `newest` is wanted.
    fn nested<R>(
        &mut self,
        newest: bool,
        f: impl FnOnce(&mut Self) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let keeps = self.keeps_snapshot() && !newest;
        let session = self.session;
        let snapshot = match self.run.replay() {
            Some(Entry::Snapshot(snapshot)) => snapshot,
            Some(other) => panic!("the journal has {other:?} where a statement begins"),
            None => {
                self.store.advance_command(session);
                let kept = self
                    .store
                    .session(session)
                    .transaction
                    .and_then(|t| t.snapshot);
                let snapshot = match kept {
                    Some(kept) if keeps => self.store.renew_snapshot(session, kept),
                    _ => self.store.take_snapshot(session),
                };
                self.run.record(Entry::Snapshot(snapshot));
                snapshot
            }
        };
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let events = std::mem::take(&mut self.events);
        let result = f(self);
        self.events = events;
        self.snapshot = before;
        result
    }

    /// Locks a table as a nested statement does.
    pub(super) fn lock_relation(&mut self, table: RelId, mode: LockMode) -> Result<(), Stop> {
        self.store.lock(
            &mut self.run,
            Tag::Relation(table),
            mode,
            LockScope::Transaction,
            WaitPolicy::Block,
        )?;
        Ok(())
    }

    /// Locks all indexes of a table, as its planning does.
    pub(super) fn lock_indexes(&mut self, table: RelId, mode: LockMode) {
        self.store
            .note_lock(self.session, Tag::Indexes(table), mode);
    }

    /// Locks a table that a nested statement reads, and its indexes.
    fn lock_searched(&mut self, table: RelId, mode: LockMode) -> Result<(), Stop> {
        self.lock_relation(table, mode)?;
        self.lock_indexes(table, mode);
        Ok(())
    }

    /// Whether a version was made by the session's own transaction.
    pub(super) fn is_own(&self, version: VersionId) -> bool {
        own(self.session, &self.store.version(version).birth)
    }
}

fn own(session: SessionId, birth: &Birth) -> bool {
    matches!(birth, Birth::Running { owner, .. } if owner.session == session)
}

fn same_key(columns: &[usize], old: &[Value], new: &[Value]) -> bool {
    columns.iter().all(|c| {
        super::order::equal(&old[*c], &new[*c]) || (old[*c].is_null() && new[*c].is_null())
    })
}

fn names(table: &Table, columns: &[usize]) -> String {
    let names: Vec<&str> = columns.iter().map(|c| &*table.columns[*c].name).collect();
    names.join(", ")
}

fn shown(table: &Table, columns: &[usize], values: &[Value]) -> String {
    let texts: Vec<String> = columns
        .iter()
        .zip(values)
        .map(|(c, v)| output_text(v, table.columns[*c].declared.ty))
        .collect();
    texts.join(", ")
}
