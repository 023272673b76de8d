//! The `xmax` of a row version, as the server stores it.
//!
//! What a lock does follows from the holders of a version; this is only what people see of it: the
//! system column `xmax`, and `pgrowlocks`. Unlike a holder it stays when its transaction ends, until
//! the next one writes over it. Kept only while some program can see numbers ([`Store::show_numbers`]).

use std::hash::Hash;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;

use super::version::Hold;
use super::{Birth, RowLock, Snapshot, Store, VersionId, Xid};

/// What a transaction has done to a version, in the order in which members of a multixact with one
/// transaction id are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    /// Locked it.
    Lock(RowLock),
    /// Updated it without changing a key.
    NoKeyUpdate,
    /// Updated a key, or deleted it.
    Update,
}

impl Mark {
    fn of(hold: Hold) -> Mark {
        match hold {
            Hold::Lock(strength) => Mark::Lock(strength),
            Hold::Update(RowLock::Update, _) | Hold::Delete(_) | Hold::Move(_) => Mark::Update,
            Hold::Update(..) => Mark::NoKeyUpdate,
        }
    }

    fn strength(self) -> RowLock {
        match self {
            Mark::Lock(strength) => strength,
            Mark::NoKeyUpdate => RowLock::NoKeyUpdate,
            Mark::Update => RowLock::Update,
        }
    }

    fn is_lock(self) -> bool {
        matches!(self, Mark::Lock(_))
    }

    /// One of two by the same transaction: the stronger; an update stays one.
    fn joined(self, new: Mark) -> Mark {
        let strength = self.strength().max(new.strength());
        match (self.is_lock() && new.is_lock(), strength) {
            (true, strength) => Mark::Lock(strength),
            (false, RowLock::Update) => Mark::Update,
            (false, _) => Mark::NoKeyUpdate,
        }
    }

    /// As `pgrowlocks` calls it; a lock by a single transaction with `For` before it.
    fn name(self, single: bool) -> &'static str {
        match (self, single) {
            (Mark::Lock(RowLock::KeyShare), true) => "For Key Share",
            (Mark::Lock(RowLock::KeyShare), false) => "Key Share",
            (Mark::Lock(RowLock::Share), true) => "For Share",
            (Mark::Lock(RowLock::Share), false) => "Share",
            (Mark::Lock(RowLock::NoKeyUpdate), _) => "For No Key Update",
            (Mark::Lock(RowLock::Update), _) => "For Update",
            (Mark::NoKeyUpdate, _) => "No Key Update",
            (Mark::Update, _) => "Update",
        }
    }
}

/// A stored `xmax`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Xmax {
    /// Of one transaction.
    One(Xid, Mark),
    /// Of several: a multixact with its number and its members, by transaction id.
    Many(u32, Vec<(Xid, Mark)>),
}

impl Xmax {
    /// The number in the column.
    pub fn number(&self) -> u32 {
        match self {
            Xmax::One(xid, _) => xid.0,
            Xmax::Many(number, _) => *number,
        }
    }

    fn members(&self) -> Vec<(Xid, Mark)> {
        match self {
            Xmax::One(xid, mark) => vec![(*xid, *mark)],
            Xmax::Many(_, members) => members.clone(),
        }
    }
}

/// A row of `pgrowlocks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedRow {
    /// Page and item.
    pub place: (u32, u32),
    /// The transaction id, or the multixact's.
    pub locker: u32,
    /// Whether it is a multixact.
    pub multi: bool,
    /// Each member: its id, the name of what it did, the session whose transaction it is and that
    /// is still in progress.
    pub members: Vec<(Xid, &'static str, Option<SessionId>)>,
}

impl Store {
    /// Notes in a version's `xmax` that a transaction locks, updates or deletes it.
    pub(super) fn note_xmax(&mut self, id: VersionId, xid: Xid, hold: Hold) {
        if !self.world.is_exact() {
            return;
        }
        let mark = Mark::of(hold);
        let old = self.version(id).xmax.clone();
        let is_dead = self.version(id).death.is_some();
        let runs = |xid: Xid| self.xid_owner(xid).is_some();
        // What a committed update has left stays in it.
        let stays =
            |(xid, mark): &(Xid, Mark)| runs(*xid) || (!mark.is_lock() && is_dead && !runs(*xid));
        let new = match old.as_deref() {
            Some(Xmax::One(same, before)) if *same == xid => Xmax::One(xid, before.joined(mark)),
            Some(old @ Xmax::Many(_, members)) if members.contains(&(xid, mark)) => old.clone(),
            Some(old) => {
                let mut members = old.members();
                members.retain(stays);
                match members.is_empty() {
                    true => Xmax::One(xid, mark),
                    false => {
                        members.push((xid, mark));
                        members.sort_unstable();
                        let counters = self.world.counters_mut();
                        counters.multi += 1;
                        let number = counters.multi;
                        self.number_handed_out();
                        Xmax::Many(number, members)
                    }
                }
            }
            None => Xmax::One(xid, mark),
        };
        self.version_mut(id).xmax = Some(Rc::new(new));
    }

    /// The `xmax` with which the version that replaces `old` begins: locks go on with the row.
    pub(super) fn carried_xmax(&self, old: VersionId) -> Option<Rc<Xmax>> {
        let xmax = self.version(old).xmax.as_ref()?;
        let runs = |(xid, _): &(Xid, Mark)| self.xid_owner(*xid).is_some();
        if !xmax.members().iter().any(runs) {
            return None;
        }
        Some(match &**xmax {
            Xmax::One(xid, _) => Rc::new(Xmax::One(*xid, Mark::Lock(RowLock::KeyShare))),
            Xmax::Many(..) => Rc::clone(xmax),
        })
    }

    /// The rows of a table that a snapshot of `session` sees and somebody has locked, as
    /// `pgrowlocks` lists them.
    pub(super) fn locked_rows(
        &mut self,
        session: SessionId,
        snapshot: &Snapshot,
        table: super::RelId,
    ) -> Vec<LockedRow> {
        let items = self.scan(table);
        let mut rows = Vec::new();
        for &id in items.iter() {
            if !self.visible(session, snapshot, id) || !self.is_being_modified(session, id) {
                continue;
            }
            let Some(xmax) = &self.version(id).xmax else {
                continue;
            };
            let multi = matches!(**xmax, Xmax::Many(..));
            let members = xmax.members().into_iter();
            rows.push(LockedRow {
                place: self.ctid(id),
                locker: xmax.number(),
                multi,
                members: members
                    .map(|(xid, mark)| (xid, mark.name(!multi), self.top_of(xid)))
                    .collect(),
            });
        }
        rows
    }

    /// Whether a transaction in progress holds the version, other than by its own update.
    fn is_being_modified(&self, session: SessionId, id: VersionId) -> bool {
        let version = self.version(id);
        let is_made = !matches!(version.birth, Birth::Running { .. });
        let own_end = version.ender().is_some_and(|e| e.owner.session == session);
        is_made && !own_end && version.death.is_none() && !version.holders.is_empty()
    }

    /// The session whose transaction, not a savepoint in it, has this id.
    fn top_of(&self, xid: Xid) -> Option<SessionId> {
        let owner = self.xid_owner(xid)?;
        let level = self.xact(owner.session).levels.first()?;
        (level.has_own_xid && level.xids[0] == xid).then_some(owner.session)
    }
}
