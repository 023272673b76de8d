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
//! checked in turn, after all that is queued already.

use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Row, Value};

use super::bound::Around;
use super::constraint::{output_text, shown_key};
use super::partition::{Leaf, ancestors_row};
use super::trigger::{Action as Fired, Firing, QueuedTrigger};
use super::write::Replaced;
use super::{Exec, Stop};
use crate::engine::postgres::session::Deferred;
use crate::engine::postgres::{
    Birth, Entry, LockMode, LockOutcome, LockScope, RelId, RowLock, Snapshot, Tag, UniqueCheck,
    VersionId, WaitPolicy, errors,
};
use crate::plan::catalog::{Action, ForeignKey, Index, Table, Timing, Trigger};
use crate::plan::write::Assignment;
use crate::plan::{column_map, descendants};
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
    /// The event of a partition's row as one of the table above it.
    fn seen_from(&self, map: Option<&[usize]>) -> Event {
        let seen = |row: &Row| ancestors_row(map, row);
        match self {
            Event::Insert(row) => Event::Insert(seen(row)),
            Event::Update(old, new) => Event::Update(seen(old), seen(new)),
            Event::Delete(row) => Event::Delete(seen(row)),
            Event::Key(key) => Event::Key(Rc::clone(key)),
        }
    }

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
    /// The row was deleted here because it is in another partition now.
    moved: bool,
    /// A trigger that fires instead of looking at foreign keys.
    trigger: Option<Box<QueuedTrigger>>,
}

impl Exec<'_> {
    /// Queues a row change, if a foreign key concerns its table.
    pub(super) fn queue(&mut self, table: &Table, event: Event, version: VersionId) {
        self.queue_event(table, event, version, false);
    }

    /// Queues a deletion; `moved`: the row is in another partition now.
    pub(super) fn queue_delete(
        &mut self,
        table: &Table,
        old: Row,
        version: VersionId,
        moved: bool,
    ) {
        let before = self.events.len();
        self.queue_event(table, Event::Delete(old), version, false);
        for queued in &mut self.events[before..] {
            queued.moved = moved;
        }
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
                moved: false,
                trigger: None,
            });
        }
        let referred = |id| self.schema.references(id).next().is_some();
        if table.foreign_keys.is_empty()
            && !referred(table.id)
            && !(table.partition.is_some()
                && self.ancestors(table.id).iter().any(|t| referred(t.id)))
        {
            return;
        }
        self.events.push(Queued {
            table: table.id,
            event,
            version,
            own,
            unique: None,
            moved: false,
            trigger: None,
        });
    }

    /// Queues a trigger that fires when the statement ends.
    pub(super) fn queue_trigger(
        &mut self,
        table: &Table,
        trigger: &Trigger,
        action: super::trigger::Action,
        old: Option<&Row>,
        new: Option<&Row>,
    ) {
        self.events.push(Queued {
            table: table.id,
            event: Event::Insert([].into()),
            version: crate::world::Slot(0),
            own: false,
            unique: None,
            moved: false,
            trigger: Some(Box::new(QueuedTrigger {
                trigger: Arc::new(trigger.clone()),
                action,
                old: old.map(Row::clone),
                new: new.map(Row::clone),
            })),
        });
    }

    /// Takes a trigger for a statement out of the queue.
    pub(super) fn unqueue_trigger(
        &mut self,
        table: &Table,
        trigger: &Trigger,
        action: super::trigger::Action,
    ) {
        self.events.retain(|queued| match &queued.trigger {
            Some(other) => {
                queued.table != table.id
                    || other.trigger.each_row
                    || other.trigger.name != trigger.name
                    || other.action != action
            }
            None => true,
        });
    }

    fn fire_queued(&mut self, table: &Table, queued: &QueuedTrigger) -> Result<(), Stop> {
        let QueuedTrigger {
            trigger,
            action,
            old,
            new,
        } = queued;
        if trigger.each_row {
            self.call_trigger(Firing {
                trigger,
                table,
                action: *action,
                old: old.as_ref(),
                new: new.as_ref(),
            })?;
            return Ok(());
        }
        self.fire_for_statement(table, trigger, *action)
    }

    /// Runs what is queued: called at the end of the statement, and of every nested one.
    pub(super) fn fire_events(&mut self) -> Result<(), Stop> {
        while !self.events.is_empty() {
            for queued in std::mem::take(&mut self.events) {
                self.fire(&queued)?;
            }
        }
        Ok(())
    }

    fn fire(&mut self, queued: &Queued) -> Result<(), Stop> {
        let schema = Rc::clone(&self.schema);
        if let Some(trigger) = &queued.trigger {
            let Some(table) = schema.tables.get(&queued.table) else {
                return Ok(());
            };
            return self.fire_queued(table, trigger);
        }
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
        let Some(table) = schema.tables.get(&queued.table) else {
            return Ok(());
        };
        if !matches!(queued.event, Event::Insert(_)) {
            // Keys may refer to a partition or to a table above it.
            let mut referred = vec![Arc::clone(table)];
            if !queued.moved {
                referred.extend(self.ancestors(queued.table));
            }
            for parent in referred {
                let mut keys: Vec<(&Arc<Table>, &ForeignKey)> =
                    schema.references(parent.id).collect();
                if keys.is_empty() {
                    continue;
                }
                keys.sort_by(|a, b| (a.0.id, &a.1.name).cmp(&(b.0.id, &b.1.name)));
                let map = column_map(&parent, table);
                let queued = Queued {
                    event: queued.event.seen_from(map.as_deref()),
                    table: parent.id,
                    ..queued.clone()
                };
                for (child, key) in keys {
                    self.parent_changed(&queued, child, key)?;
                }
            }
        }
        if table.partitioned.is_some() {
            return Ok(());
        }
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
                    let changed = self.store.version(check.version).table;
                    self.no_action(holder, key, old, changed)?;
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
        parent: &Arc<Table>,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<bool, Stop> {
        self.lock_searched(parent.id, LockMode::RowShare)?;
        let places = self.places(parent, &key.parent_columns, values)?;
        for (leaf, _) in places.iter().filter(|(leaf, _)| leaf.table.id != parent.id) {
            self.lock_searched(leaf.table.id, LockMode::RowShare)?;
        }
        // Rows of a partitioned table are looked for under the newest snapshot.
        self.nested(parent.partitioned.is_some(), |exec| {
            for (leaf, columns) in &places {
                let Some(index) = exec.index_of_part(&leaf.table, key.parent_index) else {
                    continue;
                };
                let mut prefix = Vec::new();
                for index_key in &index.keys {
                    match columns.iter().position(|c| Some(*c) == index_key.column) {
                        Some(at) => prefix.push(values[at].clone()),
                        None => break,
                    }
                }
                let candidates = exec.store.index_lookup(index.id, &prefix, false);
                exec.note_lookup(index.id, &prefix, &candidates)?;
                if exec.lock_matching(&candidates, columns, values)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// The stored tables in which rows of a table with these values can be, and where the columns are
    /// in each.
    fn places(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        values: &[Value],
    ) -> Result<Vec<(Leaf, Vec<usize>)>, Stop> {
        let Some(partitioning) = &table.partitioned else {
            return Ok(vec![(Leaf::itself(table), columns.to_vec())]);
        };
        let known = partitioning
            .keys
            .iter()
            .all(|k| k.column.is_some_and(|c| columns.contains(&c)));
        let mut row = vec![Value::Null; table.columns.len()];
        for (column, value) in columns.iter().zip(values) {
            row[*column] = value.clone();
        }
        let mut places = Vec::new();
        for leaf in self.leaves(table) {
            let own = leaf.own_columns(columns);
            let direct = leaf.table.parents.first() == Some(&table.id);
            if known && direct {
                let row: Row = leaf.own_row(row.clone()).into();
                if !self.belongs(&leaf.table, &row)? {
                    continue;
                }
            }
            places.push((leaf, own));
        }
        Ok(places)
    }

    /// The index of a table that is, or belongs to, an index of a table above it.
    fn index_of_part(&self, table: &Arc<Table>, id: RelId) -> Option<Index> {
        let chain = self.ancestors(table.id);
        let belongs = |index: &&Index| {
            let mut at = Some(index.id);
            while let Some(one) = at {
                if one == id {
                    return true;
                }
                let mut indexes = table
                    .indexes
                    .iter()
                    .chain(chain.iter().flat_map(|t| &t.indexes));
                at = indexes.find(|i| i.id == one).and_then(|i| i.parent);
            }
            false
        };
        table.indexes.iter().find(belongs).cloned()
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
    ) -> Result<(), Stop> {
        let (old, new) = match &queued.event {
            Event::Delete(old) => (old, None),
            Event::Update(old, new) => (old, Some(new)),
            Event::Insert(_) | Event::Key(_) => return Ok(()),
        };
        let changed = self.store.version(queued.version).table;
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
            Action::NoAction => self.no_action(child, key, old, changed),
            Action::Restrict => self.refuse(child, key, &old_values, changed),
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
                self.no_action(child, key, old, changed)
            }
        }
    }

    /// NO ACTION: refuses unless another parent row has taken the key over. `changed` is the table in
    /// which the row was stored.
    fn no_action(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        old: &Row,
        changed: RelId,
    ) -> Result<(), Stop> {
        let values: Vec<Value> = key.parent_columns.iter().map(|c| old[*c].clone()).collect();
        let parent = self.table(key.parent);
        if self.lock_parent(&parent, key, &values)? {
            return Ok(());
        }
        self.refuse(child, key, &values, changed)
    }

    /// 23503 if there is a child with these values.
    fn refuse(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Value],
        changed: RelId,
    ) -> Result<(), Stop> {
        let places = self.child_places(child, key, values, LockMode::RowShare)?;
        let found = self.nested(true, |exec| {
            for (leaf, columns) in &places {
                let candidates = exec.children(&leaf.table, columns, values)?;
                if exec.lock_matching(&candidates, columns, values)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if !found {
            return Ok(());
        }
        let parent = self.table(key.parent);
        let columns = names(&parent, &key.parent_columns);
        let shown = shown(&parent, &key.parent_columns, values);
        // A key that refers to a partitioned table has a part for each of its partitions.
        let parts = descendants(&*self.schema, &parent);
        let (table, name) = match parts.iter().position(|t| t.id == changed) {
            Some(n) if n > 0 => (
                Arc::clone(&parts[n].name),
                format!("{}{n}", key.name).into(),
            ),
            _ => (Arc::clone(&parent.name), Arc::clone(&key.name)),
        };
        Err(
            errors::foreign_key_still_referenced(&table, &name, &columns, &shown, &child.name)
                .into(),
        )
    }

    /// The tables in which children can be, locked.
    fn child_places(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Value],
        mode: LockMode,
    ) -> Result<Vec<(Leaf, Vec<usize>)>, Stop> {
        self.lock_searched(child.id, mode)?;
        let places = self.places(child, &key.columns, values)?;
        for (leaf, _) in places.iter().filter(|(leaf, _)| leaf.table.id != child.id) {
            self.lock_searched(leaf.table.id, mode)?;
        }
        Ok(places)
    }

    /// Where children with these values can be.
    fn children(
        &mut self,
        child: &Table,
        columns: &[usize],
        values: &[Value],
    ) -> Result<Vec<VersionId>, Stop> {
        let index = child.indexes.iter().find(|index| {
            index.predicate.is_none()
                && index
                    .keys
                    .first()
                    .and_then(|k| k.column)
                    .is_some_and(|c| columns.contains(&c))
        });
        let Some(index) = index else {
            let blind = self.store.may_see_order();
            let items = self.store.scan(child.id);
            self.store.is_blind = blind;
            self.note_scan(child.id, &items)?;
            return Ok(items.to_vec());
        };
        let prefix: Vec<Value> = index
            .keys
            .iter()
            .map_while(|k| {
                let at = columns.iter().position(|c| Some(*c) == k.column)?;
                Some(values[at].clone())
            })
            .collect();
        let blind = self.store.may_see_order();
        let found = self.store.index_lookup(index.id, &prefix, false);
        self.store.is_blind = blind;
        self.note_lookup(index.id, &prefix, &found)?;
        Ok(found)
    }

    fn cascade_delete(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Value],
    ) -> Result<(), Stop> {
        let places = self.child_places(child, key, values, LockMode::RowExclusive)?;
        self.nested(true, |exec| {
            exec.before_statement(child, Fired::Delete, &[])?;
            for (leaf, columns) in &places {
                for version in exec.children(&leaf.table, columns, values)? {
                    exec.delete_child(&leaf.table, columns, values, version)?;
                }
            }
            exec.after_statement(child, Fired::Delete, &[]);
            Ok(())
        })
    }

    fn delete_child(
        &mut self,
        child: &Table,
        columns: &[usize],
        values: &[Value],
        mut version: VersionId,
    ) -> Result<(), Stop> {
        if !self.is_child(version, columns, values)? {
            return Ok(());
        }
        if child.has_triggers(Timing::Before, true, Fired::Delete) {
            match self.lock_for_trigger(version, RowLock::Update)? {
                Replaced::Done(_) => {}
                Replaced::Newer(newer) if self.has(newer, columns, values) => version = newer,
                _ => return Ok(()),
            }
            let old = Row::clone(self.store.row(version));
            if !self.before_delete(child, &old)? {
                return Ok(());
            }
        }
        while let Replaced::Newer(newer) = self.remove(child, version)? {
            if !self.has(newer, columns, values) {
                break;
            }
            version = newer;
        }
        Ok(())
    }

    fn set_children(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Value],
        set: Vec<(usize, Value)>,
    ) -> Result<(), Stop> {
        let keys = child.partitioned.iter().flat_map(|p| &p.keys);
        let mut keys = keys.filter_map(|k| k.column);
        if keys.any(|k| set.iter().any(|(column, _)| *column == k)) {
            return Err(DbError::unsupported(
                "a foreign key's action that sets a partition key",
                None,
            )
            .into());
        }
        let assignments: Vec<Assignment> = set
            .iter()
            .map(|(column, value)| Assignment {
                column: *column,
                value: crate::plan::expr::Expr::Const(value.clone()),
            })
            .collect();
        let columns_set = super::trigger::columns_set(&assignments);
        let places = self.child_places(child, key, values, LockMode::RowExclusive)?;
        self.nested(true, |exec| {
            exec.before_statement(child, Fired::Update, &columns_set)?;
            for (leaf, columns) in &places {
                let set = leaf.own_set(&assignments);
                for version in exec.children(&leaf.table, columns, values)? {
                    exec.set_child(&leaf.table, columns, values, &set, version)?;
                }
            }
            exec.after_statement(child, Fired::Update, &columns_set);
            Ok(())
        })
    }

    fn set_child(
        &mut self,
        child: &Table,
        columns: &[usize],
        values: &[Value],
        set: &[Assignment],
        mut version: VersionId,
    ) -> Result<(), Stop> {
        let around = Around {
            params: &[],
            outer: None,
        };
        if !self.is_child(version, columns, values)? {
            return Ok(());
        }
        let assigned = super::trigger::columns_set(set);
        if child.has_triggers(Timing::Before, true, Fired::Update) {
            let strength = super::write::set_strength(child, set);
            match self.lock_for_trigger(version, strength)? {
                Replaced::Done(_) => {}
                Replaced::Newer(newer) if self.has(newer, columns, values) => version = newer,
                _ => return Ok(()),
            }
        }
        loop {
            let old = Row::clone(self.store.row(version));
            let row = self.assigned(set, old.to_vec(), &[], around)?;
            let fired = Fired::Update;
            let Some(row) = self.before_row(child, fired, &assigned, Some(&old), row)? else {
                return Ok(());
            };
            let row = self.finish_row(child, row, around)?;
            match self.replace(child, set, version, row, around)? {
                Replaced::Newer(newer) if self.has(newer, columns, values) => version = newer,
                _ => return Ok(()),
            }
        }
    }

    /// Whether a version is a child that an action reaches.
    fn is_child(
        &mut self,
        version: VersionId,
        columns: &[usize],
        values: &[Value],
    ) -> Result<bool, Stop> {
        if !self.has(version, columns, values)
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
    pub(super) fn nested<R>(
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
        let result = f(self);
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
