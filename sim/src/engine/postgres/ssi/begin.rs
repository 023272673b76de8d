//! The snapshot of a SERIALIZABLE transaction.
//!
//! A READ ONLY transaction remembers the writers that run beside it. When each has ended without
//! a conflict out to a transaction that committed before the snapshot, the snapshot is *safe*: no
//! anomaly can involve the transaction, and it stops taking part. If one has, the snapshot is
//! *unsafe* for good. `READ ONLY DEFERRABLE` waits until one or the other is known, and takes a new
//! snapshot if it is unsafe.

use rowlock_model::schedule::SessionId;

use super::{Phase, Ssi, Sxact, SxactId, top_xid};
use crate::engine::postgres::object::name;
use crate::engine::postgres::{Store, Xid};

impl Store {
    /// The transaction of a session has taken its snapshot, which sees the commits up to `csn`.
    /// Nothing is kept of it if the snapshot is safe by itself.
    pub(in crate::engine::postgres) fn ssi_begin(
        &mut self,
        session: SessionId,
        csn: u64,
        read_only: bool,
        deferrable: bool,
    ) {
        self.ssi_record_conflicts(read_only);
        self.ssi_record_xids();
        let writers = |ssi: &Ssi| {
            let writers = ssi.xacts.iter().filter(|x| {
                !x.is_committed() && !x.declared_read_only && !x.read_only && !x.doomed
            });
            writers.map(|x| x.id).collect::<Vec<SxactId>>()
        };
        let writers = if read_only {
            writers(self.ssi())
        } else {
            Vec::new()
        };
        if read_only && writers.is_empty() {
            return;
        }
        let next = Xid(self.world.counters().xid + 1);
        let oldest = self
            .sessions()
            .filter_map(|s| top_xid(&self.world, s))
            .min();
        let counters = self.world.counters_mut();
        counters.sxact += 1;
        let id = SxactId(counters.sxact);
        let snapshot_at = counters.instant;
        let xact = Sxact {
            id,
            session,
            beginner: session,
            phase: Phase::Active,
            read_only,
            declared_read_only: read_only,
            wrote: false,
            doomed: false,
            is_unsafe: false,
            is_safe: false,
            waits: read_only && deferrable,
            conflict_out: false,
            earliest_out: 0,
            csn,
            snapshot_at,
            prepared_at: 0,
            committed_at: 0,
            xmin: oldest.unwrap_or(next),
            finished_before: next,
            commit_csn: None,
            xid: None,
            locks: Vec::new(),
        };
        let ssi = self.ssi_mut();
        let at = ssi
            .xacts
            .partition_point(|x| !x.is_committed() && x.session < session);
        ssi.xacts.insert(at, xact);
        let pairs = writers.into_iter().map(|writer| (id, writer));
        ssi.possibly_unsafe.extend(pairs);
    }

    /// Names the transaction ids in progress in the footprint: a snapshot and a commit compare them.
    pub(super) fn ssi_record_xids(&mut self) {
        if self.world.footprint.is_on() {
            for session in self.sessions() {
                self.world.footprint.read(name::xid(session));
            }
        }
    }

    /// `DEFERRABLE`: whether the session waits to learn whether its snapshot is safe.
    pub(in crate::engine::postgres) fn waits_for_safety(&self, session: SessionId) -> bool {
        self.ssi().of(session).is_some_and(|x| x.waits)
    }

    /// `DEFERRABLE`: what is known of the snapshot of a waiting session; `None` while nothing is.
    pub(in crate::engine::postgres) fn safety(&self, session: SessionId) -> Option<bool> {
        let ssi = self.ssi();
        let Some(xact) = ssi.of(session) else {
            return Some(true);
        };
        if xact.is_unsafe {
            return Some(false);
        }
        let open = ssi
            .possibly_unsafe
            .iter()
            .any(|(reader, _)| *reader == xact.id);
        (!open).then_some(true)
    }

    /// The sessions for whose ends a session waits, ascending.
    pub(in crate::engine::postgres) fn safety_blockers(
        &self,
        session: SessionId,
    ) -> Vec<SessionId> {
        let ssi = self.ssi();
        let Some(xact) = ssi.of(session) else {
            return Vec::new();
        };
        let pairs = ssi.possibly_unsafe.iter().filter(|(r, _)| *r == xact.id);
        let mut blockers: Vec<SessionId> = pairs.map(|(_, w)| ssi.find(*w).session).collect();
        blockers.sort_unstable();
        blockers
    }

    /// The session's transaction takes no part any more, though it goes on.
    pub(in crate::engine::postgres) fn ssi_leave(&mut self, session: SessionId) {
        if self.sxact(session).is_some() {
            self.ssi_end(session, None);
        }
    }
}
