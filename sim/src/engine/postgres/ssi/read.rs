//! What a read of a SERIALIZABLE transaction leaves behind and looks at.
//!
//! All of a sequential scan is done when it begins. A search in an index is done at once too; the
//! rows that it found are fetched page by page, as a bitmap of them is read. A statement that waits and is run again must not do it again, since its own
//! writes may have dropped locks meanwhile; its journal counts the scans.

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::{Searched, SxactId, Target};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{Birth, RelId, Run, Snapshot, Store, VersionId, errors};

impl Store {
    /// Whether a scan by the session must be noted: the transaction is SERIALIZABLE, takes part
    /// still, and has not done this scan in an earlier run of the statement.
    fn notes_scan(&mut self, run: &mut Run) -> Option<SxactId> {
        if !self.ssi_in_use() {
            return None;
        }
        let id = self.sxact(run.session)?;
        if !run.scan_is_new() {
            return None;
        }
        self.ssi_record_conflicts(false);
        if self.ssi().find(id).is_safe {
            self.ssi_leave(run.session);
            return None;
        }
        Some(id)
    }

    /// A sequential scan of a table begins.
    pub(in crate::engine::postgres) fn ssi_scan(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        rel: RelId,
        versions: &[VersionId],
    ) -> Result<(), DbError> {
        let Some(id) = self.notes_scan(run) else {
            return Ok(());
        };
        self.lock_read(id, Target::Relation(rel));
        self.record_read(run.session, rel);
        for version in versions {
            self.check_out(id, snapshot, *version)?;
        }
        Ok(())
    }

    /// A search in an index begins: what it looks at in the index itself.
    pub(in crate::engine::postgres) fn ssi_search(
        &mut self,
        run: &mut Run,
        index: RelId,
        searched: &Searched,
    ) -> Result<(), DbError> {
        let Some(id) = self.notes_scan(run) else {
            return Ok(());
        };
        self.record_read(run.session, self.table_of(index));
        match self.pages_searched(run.session, index, searched)? {
            Some(pages) => {
                for page in pages {
                    self.lock_read(id, Target::Page(index, page));
                }
            }
            // Nothing finer is there yet.
            None => self.lock_read(id, Target::Relation(index)),
        }
        Ok(())
    }

    /// The rows that a search in an index has found are fetched: all at once, or those of one page.
    pub(in crate::engine::postgres) fn ssi_fetch(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        versions: &[VersionId],
    ) -> Result<(), DbError> {
        let Some(id) = self.notes_scan(run) else {
            return Ok(());
        };
        for version in versions {
            if self.is_behind_visible(run.session, snapshot, *version) {
                continue;
            }
            self.check_out(id, snapshot, *version)?;
            let own = matches!(self.version(*version).birth,
                Birth::Running { owner, .. } if owner.session == run.session);
            if !own && self.visible(run.session, snapshot, *version) {
                let rel = self.version(*version).table;
                self.lock_read(id, Target::Tuple(rel, *version));
            }
        }
        Ok(())
    }

    /// Reading a table depends on what others write there without having committed.
    fn record_read(&mut self, session: SessionId, table: RelId) {
        if !self.world.footprint.is_on() {
            return;
        }
        for other in self.sessions().filter(|s| *s != session) {
            self.world.footprint.read(name::writes_of(other, table));
        }
    }

    /// Whether an index scan stops before it comes to this version: an earlier one of the same chain
    /// on the page (HOT) is visible.
    fn is_behind_visible(
        &self,
        session: SessionId,
        snapshot: &Snapshot,
        version: VersionId,
    ) -> bool {
        let mut version = self.version(version);
        while version.is_hot()
            && let Some(prev) = version.prev
        {
            if self.visible(session, snapshot, prev) {
                return true;
            }
            version = self.version(prev);
        }
        false
    }

    /// The reader comes to a version. If it does not see it, or sees it though another transaction
    /// has ended it, that transaction comes after the reader.
    fn check_out(
        &mut self,
        me: SxactId,
        snapshot: &Snapshot,
        version: VersionId,
    ) -> Result<(), DbError> {
        let reader = self.ssi().find(me);
        if reader.doomed {
            return Err(errors::serialization_pivot("conflict out checking"));
        }
        let (session, csn) = (reader.session, reader.csn);
        let visible = self.visible(session, snapshot, version);
        let version = self.version(version);
        let writer = if visible {
            match (version.death, version.ender()) {
                (Some(death), _) => self.committed_as(death.csn, csn),
                (None, Some(ender)) => self.sxact(ender.owner.session),
                (None, None) => None,
            }
        } else {
            match version.birth {
                Birth::Settled => None,
                Birth::Committed(at) => self.committed_as(at, csn),
                Birth::Running { owner, .. } => self.sxact(owner.session),
            }
        };
        match writer {
            Some(writer) if writer != me => self.read_past(me, writer),
            _ => Ok(()),
        }
    }

    /// The SERIALIZABLE transaction whose commit has this number, if the snapshot misses it.
    fn committed_as(&self, at: u64, snapshot: u64) -> Option<SxactId> {
        if at <= snapshot {
            return None;
        }
        let mut xacts = self.ssi().xacts.iter();
        xacts.find(|x| x.commit_csn == Some(at)).map(|x| x.id)
    }

    /// The reader has not seen what a concurrent writer wrote.
    fn read_past(&mut self, me: SxactId, writer: SxactId) -> Result<(), DbError> {
        let (mine, theirs) = (self.ssi().find(me), self.ssi().find(writer));
        if theirs.doomed {
            return Ok(());
        }
        // A reader that writes nothing can come first, unless the writer comes after somebody whom
        // the reader has seen.
        let comes_first = mine.read_only
            && theirs.is_committed()
            && (!theirs.conflict_out || mine.snapshot_at < theirs.earliest_out);
        if comes_first || self.ssi().has_conflict(me, writer) {
            return Ok(());
        }
        self.flag_conflict(me, writer, me)
    }
}
