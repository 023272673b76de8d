//! `ALTER SEQUENCE`: manual, `ALTER SEQUENCE`.
//!
//! It keeps out everybody who draws from the sequence until the transaction ends, and what it does is
//! undone with the transaction; only drawing itself is not.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Notice, Reply};

use super::catalog::Edit;
use super::statement::{Attempt, Halt};
use super::{LockMode, LockScope, Postgres, Stop, Tag, WaitPolicy, errors};
use crate::plan::catalog::{Catalog as _, Relation, Sequence};
use crate::plan::types::Type;
use crate::sql::control::{RelationName, SequenceChange};

/// The bounds of the type of a sequence.
fn bounds(ty: Type) -> (i64, i64) {
    match ty {
        Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn refused(message: String) -> DbError {
    DbError::postgres("22023", message)
}

/// A sequence with changes made, and where it starts again, if it does.
fn changed(old: &Sequence, changes: &[SequenceChange]) -> Result<(Sequence, Option<i64>), DbError> {
    for (i, change) in changes.iter().enumerate() {
        let kind = std::mem::discriminant(change);
        if changes[..i]
            .iter()
            .any(|c| std::mem::discriminant(c) == kind)
        {
            return Err(DbError::postgres(
                "42601",
                "conflicting or redundant options",
            ));
        }
    }
    let mut new = old.clone();
    let (mut min, mut max, mut restart) = (None, None, None);
    for change in changes {
        match change {
            SequenceChange::Type(bytes) => {
                new.ty = match bytes {
                    2 => Type::Int2,
                    4 => Type::Int4,
                    _ => Type::Int8,
                };
                // Bounds that were those of the old type become those of the new one.
                let (least, greatest) = bounds(old.ty);
                if old.max == greatest {
                    max = max.or(Some(Some(bounds(new.ty).1)));
                }
                if old.min == least {
                    min = min.or(Some(Some(bounds(new.ty).0)));
                }
            }
            SequenceChange::Increment(0) => {
                return Err(refused("INCREMENT must not be zero".to_owned()));
            }
            SequenceChange::Increment(by) => new.increment = *by,
            SequenceChange::Min(value) => min = Some(*value),
            SequenceChange::Max(value) => max = Some(*value),
            SequenceChange::Start(value) => new.start = *value,
            SequenceChange::Restart(value) => restart = Some(*value),
            SequenceChange::Cycle(cycle) => new.cycle = *cycle,
            SequenceChange::Cache => {}
        }
    }
    let (least, greatest) = bounds(new.ty);
    let ascends = new.increment > 0;
    if let Some(max) = max {
        new.max = max.unwrap_or(if ascends { greatest } else { -1 });
    }
    if let Some(min) = min {
        new.min = min.unwrap_or(if ascends { 1 } else { least });
    }
    let ty = new.ty.name();
    for (what, value) in [("MAXVALUE", new.max), ("MINVALUE", new.min)] {
        if value < least || value > greatest {
            let message = format!("{what} ({value}) is out of range for sequence data type {ty}");
            return Err(refused(message));
        }
    }
    if new.min >= new.max {
        let (min, max) = (new.min, new.max);
        let message = format!("MINVALUE ({min}) must be less than MAXVALUE ({max})");
        return Err(refused(message));
    }
    within("START", new.start, &new)?;
    let restart = restart.map(|value| value.unwrap_or(new.start));
    Ok((new, restart))
}

/// Whether a value lies within the bounds of a sequence.
fn within(what: &str, value: i64, sequence: &Sequence) -> Result<(), DbError> {
    let (min, max) = (sequence.min, sequence.max);
    if value < min {
        let message = format!("{what} value ({value}) cannot be less than MINVALUE ({min})");
        return Err(refused(message));
    }
    if value > max {
        let message = format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})");
        return Err(refused(message));
    }
    Ok(())
}

impl Postgres {
    /// `ALTER SEQUENCE`.
    pub(super) fn alter_sequence(
        &mut self,
        session: SessionId,
        name: &RelationName,
        if_exists: bool,
        changes: &[SequenceChange],
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        self.refuse_restricted(session, "ALTER SEQUENCE")?;
        self.begin_utility(session, "ALTER SEQUENCE", attempt)?;
        let reply = Reply::tag("ALTER SEQUENCE");
        let Some(id) = self
            .sequence_named(session, name)?
            .map(|sequence| sequence.id)
        else {
            if !if_exists {
                return Err(errors::undefined_table(&name.name).into());
            }
            let notice = Notice {
                severity: "NOTICE".into(),
                message: format!("relation \"{}\" does not exist, skipping", name.name).into(),
            };
            return Ok(Reply {
                notices: [notice].into(),
                ..reply
            });
        };
        let granted = self.store.lock(
            &mut attempt.run,
            Tag::Relation(id),
            LockMode::ShareRowExclusive,
            LockScope::Transaction,
            WaitPolicy::Block,
        );
        match granted {
            Ok(_) => {}
            Err(Stop::Wait) => return Err(Halt::Wait(super::session::Waiting::Lock)),
            Err(Stop::Error(error)) => return Err((*error).into()),
        }
        // As it is now that others are kept out.
        let Some(old) = self.sequence_named(session, name)?.filter(|s| s.id == id) else {
            return Err(errors::undefined_table(&name.name).into());
        };
        let (new, restart) = changed(&old, changes)?;
        let state = self.store.sequence(session, id);
        let (last, called) = match restart {
            Some(value) => (value, false),
            None => state.unwrap_or((old.start, false)),
        };
        within("RESTART", last, &new)?;
        self.store.alter_sequence(session, id, last, called);
        let level = (self.store.xact(session).levels.len() - 1) as u8;
        let edit = Edit::Sequence(Arc::new(new));
        self.store.catalog_mut().edit(session, level, edit);
        self.store.advance_command(session);
        Ok(reply)
    }

    fn sequence_named(
        &mut self,
        session: SessionId,
        name: &RelationName,
    ) -> Result<Option<Arc<Sequence>>, DbError> {
        let schema = self.schema(session);
        match schema.relation(name.schema.as_deref(), &name.name) {
            Some(Relation::Sequence(sequence)) => Ok(Some(sequence)),
            Some(_) => Err(errors::not_a_sequence(&name.name)),
            None => Ok(None),
        }
    }
}
