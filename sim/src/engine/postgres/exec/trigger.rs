//! Triggers (manual, "Overview of Trigger Behavior").
//!
//! `BEFORE` row triggers see the row as it is to be written and may change it or leave it out. For
//! an update or delete the old row is locked before they are called, in its newest version, and the
//! condition of the statement is checked again if that is a newer one. `AFTER` triggers are queued with
//! the foreign keys' checks and run when the statement ends. Triggers of one kind fire in the order
//! of their names.

use std::sync::Arc;

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::write::Replaced;
use super::{Exec, Stop};
use crate::engine::postgres::{Follow, LockOutcome, RowLock, VersionId, WaitPolicy, errors};
use crate::plan::catalog::{Table, Timing, Trigger};
use crate::plan::expr;

/// What a statement does to a table, for triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// `INSERT`.
    Insert,
    /// `UPDATE`.
    Update,
    /// `DELETE`.
    Delete,
}

impl Action {
    /// `TG_OP`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Action::Insert => "INSERT",
            Action::Update => "UPDATE",
            Action::Delete => "DELETE",
        }
    }
}

/// One firing of a trigger.
#[derive(Clone, Copy)]
pub(super) struct Firing<'f> {
    /// Which trigger.
    pub(super) trigger: &'f Trigger,
    /// Of which table.
    pub(super) table: &'f Table,
    /// For what.
    pub(super) action: Action,
    /// `OLD`.
    pub(super) old: Option<&'f Row>,
    /// `NEW`.
    pub(super) new: Option<&'f Row>,
}

impl Table {
    /// Whether there is a trigger of this kind.
    pub(super) fn has_triggers(&self, timing: Timing, each_row: bool, action: Action) -> bool {
        self.triggers
            .iter()
            .any(|t| is_of_kind(t, timing, each_row, action))
    }
}

fn is_of_kind(t: &Trigger, timing: Timing, each_row: bool, action: Action) -> bool {
    t.enabled
        && t.timing == timing
        && t.each_row == each_row
        && match action {
            Action::Insert => t.insert,
            Action::Update => t.update,
            Action::Delete => t.delete,
        }
}

/// The triggers of a kind, in the order in which they fire. `set`: the columns that an update
/// assigns to.
fn of_kind<'t>(
    table: &'t Table,
    timing: Timing,
    each_row: bool,
    action: Action,
    set: &[usize],
) -> Vec<&'t Trigger> {
    let concerned = |t: &&Trigger| {
        is_of_kind(t, timing, each_row, action)
            && (action != Action::Update
                || t.columns.is_empty()
                || t.columns.iter().any(|c| set.contains(c)))
    };
    let mut found: Vec<&Trigger> = table.triggers.iter().filter(concerned).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Exec<'_> {
    /// Fires `BEFORE` triggers of a statement.
    pub(super) fn before_statement(
        &mut self,
        table: &Table,
        action: Action,
        set: &[usize],
    ) -> Result<(), Stop> {
        let found = of_kind(table, Timing::Before, false, action, set);
        if found.is_empty() || self.statement_fired.contains(&(table.id, action)) {
            return Ok(());
        }
        self.statement_fired.push((table.id, action));
        for trigger in found {
            self.fire_for_statement(table, trigger, action)?;
        }
        Ok(())
    }

    /// Queues `AFTER` triggers of a statement. Those that are queued already and have not fired give way:
    /// they fire once, after all that is part of the statement.
    pub(super) fn after_statement(&mut self, table: &Table, action: Action, set: &[usize]) {
        for trigger in of_kind(table, Timing::After, false, action, set) {
            self.unqueue_trigger(table, trigger, action);
            self.queue_trigger(table, trigger, action, None, None);
        }
    }

    pub(super) fn fire_for_statement(
        &mut self,
        table: &Table,
        trigger: &Trigger,
        action: Action,
    ) -> Result<(), Stop> {
        let firing = Firing {
            trigger,
            table,
            action,
            old: None,
            new: None,
        };
        if self.trigger_applies(firing)? {
            self.call_trigger(firing)?;
        }
        Ok(())
    }

    /// Whether the `WHEN` of a trigger holds.
    fn trigger_applies(&mut self, firing: Firing<'_>) -> Result<bool, Stop> {
        let Some(when) = &firing.trigger.when else {
            return Ok(true);
        };
        let bind = |row: Option<&Row>| match row {
            Some(row) => Bound::computed(Row::clone(row)),
            None => Bound::default(),
        };
        let bound = [bind(firing.old), bind(firing.new)];
        let around = Around {
            params: &[],
            outer: None,
        };
        around.with(&bound, |scope| {
            Ok(expr::test(when, scope, self)? == Some(true))
        })
    }

    /// Fires `BEFORE` triggers for a row that is to be inserted or updated: the row to be written,
    /// or `None` if a trigger leaves it out.
    pub(super) fn before_row(
        &mut self,
        table: &Table,
        action: Action,
        set: &[usize],
        old: Option<&Row>,
        new: Vec<Value>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        if table.triggers.is_empty() {
            return Ok(Some(new));
        }
        let mut new: Row = new.into();
        for trigger in of_kind(table, Timing::Before, true, action, set) {
            let firing = Firing {
                trigger,
                table,
                action,
                old,
                new: Some(&new),
            };
            if !self.trigger_applies(firing)? {
                continue;
            }
            match self.call_trigger(firing)? {
                Some(row) => new = row,
                None => return Ok(None),
            }
        }
        Ok(Some(new.to_vec()))
    }

    /// Fires `BEFORE DELETE` triggers for a row: whether it is to be deleted.
    pub(super) fn before_delete(&mut self, table: &Table, old: &Row) -> Result<bool, Stop> {
        for trigger in of_kind(table, Timing::Before, true, Action::Delete, &[]) {
            let firing = Firing {
                trigger,
                table,
                action: Action::Delete,
                old: Some(old),
                new: None,
            };
            if self.trigger_applies(firing)? && self.call_trigger(firing)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Queues `AFTER` triggers for a row that was written.
    pub(super) fn after_row(
        &mut self,
        table: &Table,
        action: Action,
        set: &[usize],
        old: Option<&Row>,
        new: Option<&Row>,
    ) -> Result<(), Stop> {
        if table.triggers.is_empty() {
            return Ok(());
        }
        for trigger in of_kind(table, Timing::After, true, action, set) {
            let firing = Firing {
                trigger,
                table,
                action,
                old,
                new,
            };
            if self.trigger_applies(firing)? {
                self.queue_trigger(table, trigger, action, old, new);
            }
        }
        Ok(())
    }

    /// Locks the row that an update or delete with `BEFORE` triggers is to write, in its newest
    /// version: `Done` is the version itself, `Newer` is to be checked again.
    pub(super) fn lock_for_trigger(
        &mut self,
        version: VersionId,
        strength: RowLock,
    ) -> Result<Replaced, Stop> {
        let follow = Follow {
            to_newest: !self.keeps_snapshot(),
            newer_too: false,
        };
        let outcome = self.store.lock_row(
            &mut self.run,
            &self.snapshot,
            version,
            strength,
            WaitPolicy::Block,
            follow,
        )?;
        Ok(match outcome {
            LockOutcome::Locked => Replaced::Done(version),
            LockOutcome::LockedNewer(newer) => Replaced::Newer(newer),
            LockOutcome::Updated => return Err(errors::concurrent_update().into()),
            LockOutcome::Deleted if self.keeps_snapshot() => {
                return Err(errors::concurrent_delete().into());
            }
            LockOutcome::SelfModified(cid) if cid != self.snapshot.cid => {
                return Err(errors::modified_by_current_command("updated").into());
            }
            LockOutcome::Deleted => Replaced::Gone,
            LockOutcome::SelfModified(_) => Replaced::Again,
            LockOutcome::Invisible => Replaced::Skip,
            LockOutcome::WouldBlock => unreachable!("a lock that waits does not give up"),
        })
    }

    /// The columns of a row that are there, of all.
    pub(super) fn live_values(table: &Table, row: &Row) -> Row {
        let live = table.columns.iter().zip(row.iter());
        live.filter(|(c, _)| !c.dropped)
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// A row with places for the columns that were dropped.
    pub(super) fn stored_values(table: &Table, row: &Row) -> Row {
        let mut values = row.iter().cloned();
        let stored = table.columns.iter().map(|c| {
            if c.dropped {
                Value::Null
            } else {
                values.next().unwrap_or(Value::Null)
            }
        });
        stored.collect()
    }
}

/// The columns that assignments are made to.
pub(super) fn columns_set(set: &[crate::plan::write::Assignment]) -> Vec<usize> {
    set.iter().map(|a| a.column).collect()
}

/// A trigger that waits for the end of its statement.
#[derive(Clone, Debug)]
pub(super) struct QueuedTrigger {
    /// Its name.
    pub(super) trigger: Arc<Trigger>,
    /// For what.
    pub(super) action: Action,
    /// `OLD`.
    pub(super) old: Option<Row>,
    /// `NEW`.
    pub(super) new: Option<Row>,
}
