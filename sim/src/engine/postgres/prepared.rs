//! Transactions in two phases: `PREPARE TRANSACTION`, `COMMIT PREPARED`, `ROLLBACK PREPARED`.
//!
//! A prepared transaction belongs to no session any more. Whatever the session's transaction had (row
//! versions, row locks, heavyweight locks, changes of the schema, its part in SERIALIZABLE) is handed
//! over to a *seat*: a number that stands where that of a session stands, for somebody who never
//! sends a statement and never waits. So everybody who meets what a prepared transaction holds waits
//! for it by the ordinary rules, and nothing that befalls the session that prepared it matters.
//!
//! Manual: `PREPARE TRANSACTION`, `COMMIT PREPARED`, `ROLLBACK PREPARED`, 53.17 `pg_prepared_xacts`.

use std::hash::Hash;
use std::sync::Arc;

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::lock::Tag;
use super::object::{Key, Object, name};
use super::store::Server;
use super::version::Birth;
use super::{Store, VersionId, Xact, Xid, errors};
use crate::world::{Digest, Slot};

/// The number of the first seat; those below are sessions.
pub(super) const FIRST_SEAT: u8 = 192;

/// How many transactions can be prepared at a time (`max_prepared_transactions`): as many as on the
/// throwaway servers on which schedules are replayed.
pub(super) const MOST_PREPARED: u8 = 10;

/// The longest identifier, in bytes.
const LONGEST_IDENTIFIER: usize = 199;

/// A prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Who stands for it.
    pub seat: SessionId,
    /// The session that prepared it; it may be gone.
    pub session: SessionId,
    /// Its identifier.
    pub identifier: Arc<str>,
    /// When it was prepared: microseconds since 1970.
    pub at_micros: i64,
    /// Its transaction id.
    pub xid: Xid,
}

/// Whether a number is that of a prepared transaction, not of a session.
pub(super) fn is_seat(session: SessionId) -> bool {
    session.0 >= FIRST_SEAT
}

impl Server {
    /// The prepared transactions enter the fingerprint in the order in which the view lists them.
    pub(super) fn digest_prepared(&self, digest: &mut Digest) {
        digest.word(self.prepared.len() as u64);
        for prepared in &self.prepared {
            (prepared.seat, prepared.session).hash(digest);
            (&prepared.identifier, prepared.at_micros).hash(digest);
        }
    }

    /// All sessions that were ever opened, ascending, then those who stand for prepared transactions.
    pub(super) fn everybody(&self) -> impl Iterator<Item = SessionId> + use<> {
        let taken = self.prepared.iter();
        let mut seats: u16 = taken.fold(0, |set, p| set | 1 << (p.seat.0 - FIRST_SEAT));
        let mut seat = FIRST_SEAT;
        let prepared = std::iter::from_fn(move || {
            while seats != 0 {
                let is_taken = seats & 1 != 0;
                let found = SessionId(seat);
                seats >>= 1;
                seat += 1;
                if is_taken {
                    return Some(found);
                }
            }
            None
        });
        (0..self.sessions).map(SessionId).chain(prepared)
    }
}

impl Store {
    /// The prepared transactions, as `pg_prepared_xacts` lists them.
    pub(super) fn prepared(&mut self) -> &[Prepared] {
        self.world.footprint.read(name::PREPARED);
        &self.server().prepared
    }

    /// The session that began the transaction of somebody; the own number for a session.
    pub(super) fn beginner(&self, somebody: SessionId) -> SessionId {
        let mut prepared = self.server().prepared.iter();
        prepared
            .find(|p| p.seat == somebody)
            .map_or(somebody, |p| p.session)
    }

    /// Whether the open transaction of a session could be prepared under an identifier. All that can
    /// be wrong with the transaction's work itself was checked before.
    ///
    /// # Errors
    /// 22023 for a long identifier, 42710 if it is in use, 53200 if there is no room, 0A000 if it
    /// has notified or an advisory key is locked at both levels.
    pub(super) fn check_prepare(
        &mut self,
        session: SessionId,
        identifier: &str,
    ) -> Result<(), DbError> {
        if identifier.len() > LONGEST_IDENTIFIER {
            return Err(errors::long_identifier(identifier));
        }
        if self.prepared().iter().any(|p| &*p.identifier == identifier) {
            return Err(errors::identifier_in_use(identifier));
        }
        if self.prepared().len() >= usize::from(MOST_PREPARED) {
            return Err(errors::too_many_prepared());
        }
        if self.session(session).notifying.is_pending() {
            return Err(errors::prepare_with_notifications());
        }
        let xact = self.xact(session);
        let mut kept = xact.session_locks.iter();
        let both = |tag: &Tag| {
            let mut locks = xact.levels.iter().flat_map(|level| &level.locks);
            locks.any(|(other, _)| other == tag)
        };
        match kept.any(|(tag, _)| both(tag)) {
            true => Err(errors::prepare_with_both_locks()),
            false => Ok(()),
        }
    }

    /// Hands the open transaction of a session over to a seat. The session has none afterwards.
    ///
    /// # Panics
    /// If no transaction is open, or every seat is taken.
    pub(super) fn prepare(&mut self, session: SessionId, identifier: &Arc<str>) {
        while self.xact(session).levels.len() > 1 {
            let level = (self.xact(session).levels.len() - 1) as u8;
            self.release_level(session);
            self.release_catalog(session, level);
        }
        let xid = self.ensure_xid(session);
        let seat = self.free_seat();
        let at_micros = self.now_micros();
        let held = self.held_versions(session, 0);
        self.record_handover(session, seat, &held);
        self.server_mut().prepared.push(Prepared {
            seat,
            session,
            identifier: Arc::clone(identifier),
            at_micros,
            xid,
        });
        let xact = self.xact_mut(session);
        let levels = std::mem::take(&mut xact.levels);
        let command = std::mem::take(&mut xact.command);
        let had_snapshots = !std::mem::take(&mut xact.snapshots).is_empty();
        xact.common.clear();
        xact.xmin = None;
        let mut tags: Vec<Tag> = Vec::new();
        tags.extend(levels.iter().flat_map(|l| &l.locks).map(|(tag, _)| *tag));
        tags.extend(
            levels
                .iter()
                .flat_map(|l| &l.xids)
                .map(|x| Tag::Transaction(*x)),
        );
        let theirs = Xact {
            levels,
            command,
            ..Xact::new(seat)
        };
        self.world
            .create(Some(Key::Xact(seat)), Object::Xact(theirs));
        for version in held {
            self.hand_over_version(version, session, seat);
        }
        tags.sort_unstable();
        tags.dedup();
        for tag in tags {
            self.hand_over_lock(tag, session, seat);
        }
        self.ssi_hand_over(session, seat, xid);
        if self.has_catalog_edits(session) {
            self.catalog_mut().hand_over(session, seat);
        }
        if had_snapshots {
            self.settle_commits();
        }
        self.touch_waiters();
    }

    /// Commits a prepared transaction, or rolls it back.
    ///
    /// # Errors
    /// 42704 if there is none of this name.
    pub(super) fn finish_prepared(
        &mut self,
        identifier: &str,
        commits: bool,
    ) -> Result<(), DbError> {
        let mut prepared = self.prepared().iter();
        let Some(at) = prepared.position(|p| &*p.identifier == identifier) else {
            return Err(errors::not_prepared(identifier));
        };
        self.world.footprint.write(name::PREPARED);
        let seat = self.server().prepared[at].seat;
        if commits {
            if self.has_catalog_edits(seat) {
                self.catalog_mut().commit(seat);
            }
            self.ssi_wrote(seat);
            self.commit(seat);
        } else {
            if self.has_catalog_edits(seat) {
                self.catalog_mut().rollback(seat, 0);
            }
            self.rollback(seat);
        }
        let slot = self.xact_slot(seat);
        self.world.remove(slot);
        // As the server's list does: the last takes the place of the one that goes.
        self.server_mut().prepared.swap_remove(at);
        Ok(())
    }

    /// Where the transaction of a seat is.
    pub(super) fn seat_slot(&self, seat: SessionId) -> Slot {
        match self.world.find(Key::Xact(seat)) {
            Some(slot) => slot,
            None => panic!("{seat:?} stands for no prepared transaction"),
        }
    }

    fn free_seat(&self) -> SessionId {
        let prepared = &self.server().prepared;
        let is_free = |seat: &u8| !prepared.iter().any(|p| p.seat.0 == *seat);
        match (FIRST_SEAT..FIRST_SEAT + MOST_PREPARED).find(is_free) {
            Some(seat) => SessionId(seat),
            None => panic!("the number of prepared transactions was checked"),
        }
    }

    fn hand_over_version(&mut self, id: VersionId, from: SessionId, to: SessionId) {
        let version = self.version_mut(id);
        if let Birth::Running { owner, .. } = &mut version.birth
            && owner.session == from
        {
            owner.session = to;
        }
        for holder in &mut version.holders {
            if holder.owner.session == from {
                holder.owner.session = to;
            }
        }
    }

    /// The queue of a lock, if there is one, learns who holds it now. Nobody can be granted anything
    /// by that.
    fn hand_over_lock(&mut self, tag: Tag, from: SessionId, to: SessionId) {
        let Some(slot) = self.world.find(Key::Lock(tag)) else {
            return;
        };
        let (kept, given) = match tag {
            Tag::Transaction(_) => (Default::default(), self.queue(slot).held_by(from)),
            _ => (self.modes_listed(from, tag), self.modes_listed(to, tag)),
        };
        let queue = self.queue_mut(slot);
        queue.set_held(from, kept);
        queue.set_held(to, given);
    }

    /// Names in the footprint all by which others can tell whose the transaction is.
    fn record_handover(&mut self, session: SessionId, seat: SessionId, held: &[VersionId]) {
        if !self.world.footprint.is_on() {
            return;
        }
        let mut names = vec![
            name::PREPARED,
            name::WAITS,
            name::xid(session),
            name::xid(seat),
        ];
        for level in &self.xact(session).levels {
            for (tag, _) in &level.locks {
                names.extend([name::lock(*tag), name::weak_lock(session, *tag)]);
                names.push(name::weak_lock(seat, *tag));
            }
            let xids = level.xids.iter();
            names.extend(xids.map(|xid| name::lock(Tag::Transaction(*xid))));
        }
        for id in held {
            let version = self.version(*id);
            names.push(name::row_lock(version.table, version.position));
        }
        for name in names {
            self.world.footprint.write(name);
        }
    }
}
