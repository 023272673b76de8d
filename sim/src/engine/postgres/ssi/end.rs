//! The end of a SERIALIZABLE transaction, and what may be forgotten then.

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::{Phase, Ssi, SxactId, top_xid};
use crate::engine::postgres::{Store, Xid, errors};

impl Store {
    /// Before a commit: fails if the transaction was marked as a victim; marks pivots in progress of
    /// which this transaction is now the Tout that commits first.
    pub(in crate::engine::postgres) fn ssi_prepare(
        &mut self,
        session: SessionId,
    ) -> Result<(), DbError> {
        let Some(me) = self.sxact(session) else {
            return Ok(());
        };
        self.ssi_record_conflicts(true);
        let ssi = self.ssi();
        if ssi.find(me).doomed {
            return Err(errors::serialization_pivot("commit attempt"));
        }
        let mut victims: Vec<SxactId> = Vec::new();
        for pivot in ssi.readers_of(me) {
            if pivot.is_committed() || pivot.doomed || victims.contains(&pivot.id) {
                continue;
            }
            let is_pivot = ssi
                .readers_of(pivot.id)
                .any(|tin| tin.id == me || (!tin.is_committed() && !tin.read_only && !tin.doomed));
            if !is_pivot {
                continue;
            }
            if pivot.is_prepared() {
                return Err(errors::serialization_prepared_pivot());
            }
            victims.push(pivot.id);
        }
        for victim in victims {
            self.ssi_mut().find_mut(victim).doomed = true;
        }
        let counters = self.world.counters_mut();
        counters.instant += 1;
        let instant = counters.instant;
        let mine = self.ssi_mut().find_mut(me);
        mine.prepared_at = instant;
        mine.phase = Phase::Prepared;
        Ok(())
    }

    /// A session's transaction is prepared, and somebody else stands for it from now on.
    pub(in crate::engine::postgres) fn ssi_hand_over(
        &mut self,
        from: SessionId,
        to: SessionId,
        xid: Xid,
    ) {
        let Some(me) = self.sxact(from) else {
            return;
        };
        self.ssi_record_conflicts(true);
        self.ssi_record_xids();
        let ssi = self.ssi_mut();
        let Some(at) = ssi.xacts.iter().position(|x| x.id == me) else {
            return;
        };
        let mut mine = ssi.xacts.remove(at);
        mine.session = to;
        mine.xid = Some(xid);
        let at = ssi
            .xacts
            .partition_point(|x| !x.is_committed() && x.session < to);
        ssi.xacts.insert(at, mine);
    }

    /// Whether a prepared transaction wrote is not remembered: it is taken to have.
    pub(in crate::engine::postgres) fn ssi_wrote(&mut self, session: SessionId) {
        if let Some(id) = self.sxact(session) {
            self.ssi_mut().find_mut(id).wrote = true;
        }
    }

    /// The session's transaction ends: `committed` has the number of its commit (0 if it wrote
    /// nothing), or nothing if it is rolled back.
    pub(in crate::engine::postgres) fn ssi_end(
        &mut self,
        session: SessionId,
        committed: Option<u64>,
    ) {
        if !self.ssi_in_use() {
            return;
        }
        let Some(me) = self.sxact(session) else {
            return;
        };
        self.ssi_record_conflicts(true);
        self.ssi_record_xids();
        let commits = committed.is_some() && !self.ssi().find(me).is_safe;
        let next = Xid(self.world.counters().xid + 1);
        let xid = top_xid(&self.world, session);
        let counters = self.world.counters_mut();
        counters.instant += u64::from(commits);
        let instant = counters.instant;
        let ssi = self.ssi_mut();
        let mine = ssi.find_mut(me);
        let xmin = mine.xmin;
        mine.finished_before = next;
        if commits {
            mine.phase = Phase::Committed;
            mine.committed_at = instant;
            mine.commit_csn = committed.filter(|csn| *csn != 0);
            mine.xid = xid;
            mine.read_only |= !mine.wrote;
        } else {
            mine.doomed = true;
        }
        if commits {
            ssi.settle_conflicts(me, instant);
        }
        ssi.tell_readers(me, commits);
        if commits {
            // Behind those that are in progress, the last to commit is the last.
            let at = ssi.xacts.iter().position(|x| x.id == me);
            let mine = ssi
                .xacts
                .remove(at.unwrap_or_else(|| unreachable!("it was found")));
            ssi.xacts.push(mine);
        } else {
            ssi.forget(me);
        }
        // The server looks for what it can forget when the last transaction with the oldest snapshot
        // ends.
        let mut active = ssi.xacts.iter().filter(|x| !x.is_committed());
        if active.all(|x| x.xmin > xmin) {
            ssi.forget_old();
        }
    }
}

impl Ssi {
    /// At a commit, conflicts that can decide nothing any more are dropped.
    fn settle_conflicts(&mut self, me: SxactId, now: u64) {
        let mine = self.find(me);
        let counts = !mine.read_only;
        let earliest = self
            .writers_of(me)
            .filter(|w| w.is_committed())
            .map(|w| w.prepared_at)
            .min();
        let dropped_out = |w: &super::Sxact| w.is_committed() || w.snapshot_at >= now;
        let dropped_in = |r: &super::Sxact| r.is_committed() || r.read_only;
        let kept: Vec<(SxactId, SxactId)> = self
            .conflicts
            .iter()
            .filter(|(r, w)| {
                !((*r == me && dropped_out(self.find(*w)))
                    || (*w == me && dropped_in(self.find(*r))))
            })
            .copied()
            .collect();
        self.conflicts = kept;
        if let Some(earliest) = earliest.filter(|_| counts) {
            let mine = self.find_mut(me);
            mine.conflict_out = true;
            mine.earliest_out = earliest;
        }
    }

    /// READ ONLY transactions beside a writer that ends learn what that means for their snapshots.
    fn tell_readers(&mut self, me: SxactId, commits: bool) {
        let mine = self.find(me);
        if mine.declared_read_only {
            self.possibly_unsafe.retain(|(reader, _)| *reader != me);
            return;
        }
        let (threatens, earliest) = (
            commits && mine.wrote && mine.conflict_out,
            mine.earliest_out,
        );
        let readers: Vec<SxactId> = self
            .possibly_unsafe
            .iter()
            .filter(|(_, writer)| *writer == me)
            .map(|(reader, _)| *reader)
            .collect();
        for reader in readers {
            if threatens && earliest <= self.find(reader).snapshot_at {
                self.find_mut(reader).is_unsafe = true;
                self.possibly_unsafe.retain(|(r, _)| *r != reader);
                continue;
            }
            self.possibly_unsafe.retain(|pair| *pair != (reader, me));
            if !self.possibly_unsafe.iter().any(|(r, _)| *r == reader) {
                self.find_mut(reader).is_safe = true;
            }
        }
    }

    /// Forgets committed transactions that overlap none in progress; if only READ ONLY ones are in
    /// progress, nobody can conflict with what was read, and only writes are kept.
    fn forget_old(&mut self) {
        let active = self.xacts.iter().filter(|x| !x.is_committed());
        let oldest = active.clone().map(|x| x.xmin).min();
        let has_writers = active.clone().any(|x| !x.declared_read_only);
        let over = |x: &&super::Sxact| {
            x.is_committed()
                && (oldest.is_none_or(|xmin| x.finished_before <= xmin)
                    || (!has_writers && x.read_only))
        };
        let forgotten: Vec<SxactId> = self.xacts.iter().filter(over).map(|x| x.id).collect();
        for id in forgotten {
            self.forget(id);
        }
        if has_writers {
            return;
        }
        let committed: Vec<SxactId> = self
            .xacts
            .iter()
            .filter(|x| x.is_committed())
            .map(|x| x.id)
            .collect();
        for id in committed {
            self.find_mut(id).locks.clear();
            self.conflicts.retain(|(_, writer)| *writer != id);
        }
    }
}
