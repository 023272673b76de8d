//! `ALTER INDEX .. SET (fastupdate = ..)`: manual, `ALTER INDEX`.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Notice, Reply};

use super::catalog::Edit;
use super::statement::{Attempt, Halt};
use super::{LockMode, LockScope, Postgres, Stop, Tag, WaitPolicy, errors};
use crate::plan::catalog::{Catalog as _, IndexMethod, Relation, Table};
use crate::sql::control::RelationName;

impl Postgres {
    /// Whether new rows of a GIN index wait in a list first.
    ///
    /// The server locks the index, which everybody who reads or writes the table has locked too.
    /// Locks of indexes are not kept here, so the table is locked.
    pub(super) fn set_fast_update(
        &mut self,
        session: SessionId,
        name: &RelationName,
        if_exists: bool,
        on: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        self.refuse_restricted(session, "ALTER INDEX")?;
        self.begin_utility(session, "ALTER INDEX", attempt)?;
        let reply = Reply::tag("ALTER INDEX");
        let Some((table, _)) = self.index_named(session, name)? else {
            if !if_exists {
                return Err(errors::undefined_table(&name.name).into());
            }
            let message = format!("relation \"{}\" does not exist, skipping", name.name);
            let notice = Notice {
                severity: "NOTICE".into(),
                message: message.into(),
            };
            return Ok(Reply {
                notices: [notice].into(),
                ..reply
            });
        };
        let granted = self.store.lock(
            &mut attempt.run,
            Tag::Relation(table.id),
            LockMode::AccessExclusive,
            LockScope::Transaction,
            WaitPolicy::Block,
        );
        match granted {
            Ok(_) => {}
            Err(Stop::Wait) => return Err(Halt::Wait(super::session::Waiting::Lock)),
            Err(Stop::Error(error)) => return Err((*error).into()),
        }
        // As it is now that others are kept out.
        let Some((table, at)) = self.index_named(session, name)? else {
            return Err(errors::undefined_table(&name.name).into());
        };
        let mut table = Table::clone(&table);
        let IndexMethod::Gin { fast_update } = &mut table.indexes[at].method else {
            let message = "unrecognized parameter \"fastupdate\"";
            return Err(DbError::postgres("22023", message).into());
        };
        *fast_update = on;
        let level = (self.store.xact(session).levels.len() - 1) as u8;
        self.store.ensure_xid(session);
        let edit = Edit::Table(Arc::new(table));
        self.store.catalog_mut().edit(session, level, edit);
        self.store.advance_command(session);
        Ok(reply)
    }

    /// An index, by its table and its place among the table's indexes.
    fn index_named(
        &mut self,
        session: SessionId,
        name: &RelationName,
    ) -> Result<Option<(Arc<Table>, usize)>, DbError> {
        let schema = self.schema(session);
        match schema.relation(name.schema.as_deref(), &name.name) {
            Some(Relation::Index(_)) => Ok(schema.index(&name.name)),
            Some(_) => {
                let message = format!("\"{}\" is not an index", name.name);
                Err(DbError::postgres("42809", message))
            }
            None => Ok(None),
        }
    }
}
