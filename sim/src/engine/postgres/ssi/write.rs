//! What a write of a SERIALIZABLE transaction looks at: the SIREAD locks of others.

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::{SxactId, Target};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{RelId, Store, VersionId, errors};

impl Store {
    /// A row is about to be inserted: those who have read the whole table are concerned. What they
    /// have read in indexes is looked at when the entries are added.
    pub(in crate::engine::postgres) fn ssi_insert(
        &mut self,
        session: SessionId,
        table: RelId,
    ) -> Result<(), DbError> {
        let Some(id) = self.notes_write(session, table)? else {
            return Ok(());
        };
        self.check_in(id, Target::Relation(table))
    }

    /// A version is about to be updated or deleted.
    pub(in crate::engine::postgres) fn ssi_change(
        &mut self,
        session: SessionId,
        version: VersionId,
    ) -> Result<(), DbError> {
        if !self.ssi_in_use() {
            return Ok(());
        }
        let table = self.version(version).table;
        let Some(id) = self.notes_write(session, table)? else {
            return Ok(());
        };
        let page = self.page_of(version);
        self.check_in(id, Target::Tuple(table, version))?;
        // From now on the own write lock says more. A savepoint may be rolled back, and the write
        // with it.
        if self.xact(session).levels.len() == 1 {
            let tuple = Target::Tuple(table, version);
            if self.ssi().find(id).locks.contains(&tuple) {
                self.ssi_mut().find_mut(id).locks.retain(|t| *t != tuple);
            }
        }
        self.check_in(id, Target::Page(table, page))?;
        self.check_in(id, Target::Relation(table))
    }

    /// An entry is about to be added to an index for a version, or was refused because its key is
    /// taken. A version that stays on the page of the old one, with equal keys, has no entries of
    /// its own.
    pub(in crate::engine::postgres) fn ssi_index_insert(
        &mut self,
        session: SessionId,
        index: RelId,
        key: &[rowlock_model::Value],
        version: VersionId,
    ) -> Result<(), DbError> {
        if !self.ssi_in_use() || self.version(version).is_hot() {
            return Ok(());
        }
        let table = self.table_of(index);
        let Some(id) = self.notes_write(session, table)? else {
            return Ok(());
        };
        for page in self.pages_entered(session, index, key)? {
            self.check_in(id, Target::Page(index, page))?;
        }
        self.check_in(id, Target::Relation(index))?;
        self.ssi_split_bucket(session, index);
        Ok(())
    }

    /// A table is about to be emptied or dropped: everybody who has read any of it is concerned.
    pub(in crate::engine::postgres) fn ssi_empty(
        &mut self,
        session: SessionId,
        table: RelId,
    ) -> Result<(), DbError> {
        let Some(id) = self.notes_write(session, table)? else {
            return Ok(());
        };
        let readers: Vec<SxactId> = self
            .ssi()
            .xacts
            .iter()
            .filter(|x| x.id != id)
            .filter(|x| x.locks.iter().any(|t| self.table_of(t.relation()) == table))
            .map(|x| x.id)
            .collect();
        for reader in readers {
            if !self.ssi().has_conflict(reader, id) {
                self.flag_conflict(reader, id, id)?;
            }
        }
        Ok(())
    }

    /// The transaction that writes, if it takes part.
    fn notes_write(
        &mut self,
        session: SessionId,
        table: RelId,
    ) -> Result<Option<SxactId>, DbError> {
        let Some(id) = self.sxact(session) else {
            return Ok(None);
        };
        self.ssi_record_conflicts(false);
        if self.ssi().find(id).doomed {
            return Err(errors::serialization_pivot("conflict in checking"));
        }
        if !self.ssi().find(id).wrote {
            self.ssi_mut().find_mut(id).wrote = true;
        }
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::writes_of(session, table));
            for other in self.sessions().filter(|s| *s != session) {
                self.world.footprint.read(name::reads_of(other, table));
            }
        }
        Ok(Some(id))
    }

    /// Flags a conflict with everybody else who has a lock on `target`.
    fn check_in(&mut self, me: SxactId, target: Target) -> Result<(), DbError> {
        let mine = self.ssi().find(me);
        // A reader that has committed counts if it was not over for this transaction's snapshot,
        // going by the oldest transaction in progress then.
        let readers: Vec<SxactId> = self
            .ssi()
            .xacts
            .iter()
            .filter(|x| x.id != me && !x.doomed)
            .filter(|x| !x.is_committed() || mine.xmin < x.finished_before)
            .filter(|x| x.locks.binary_search(&target).is_ok())
            .map(|x| x.id)
            .collect();
        for reader in readers {
            if !self.ssi().has_conflict(reader, me) {
                self.flag_conflict(reader, me, me)?;
            }
        }
        Ok(())
    }
}
