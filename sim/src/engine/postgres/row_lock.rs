//! Row locks: strengths, and how one is taken.
//!
//! A row lock is a [`Holder`] in the version. Who has to wait does so in two stages: first for the
//! heavyweight lock on the version, which makes a queue of those who want it, and then, at the head
//! of that queue, for the end of each transaction that holds a conflicting lock. The queue is left
//! before a newer version is locked, so waiters do not keep their order over an update.
//!
//! [`Store::lock_row`] is a machine with few states ([`Stage`]); each wait leaves the machine in the
//! journal, and the next run goes on from there.

use std::hash::Hash;

use rowlock_model::schedule::SessionId;

use super::errors;
use super::lock::{LockMode, LockScope, Request, Tag, WaitPolicy, deadlock_error};
use super::object::name;
use super::version::{Birth, Hold};
use super::{Entry, Holder, Object, Run, Snapshot, Stop, Store, Suspended, VersionId, Xid};
use crate::world::{Digest, World};

/// The four strengths, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowLock {
    /// `FOR KEY SHARE`.
    KeyShare,
    /// `FOR SHARE`.
    Share,
    /// `FOR NO KEY UPDATE`; also an update that changes no key.
    NoKeyUpdate,
    /// `FOR UPDATE`; also a delete, and an update that changes a key.
    Update,
}

impl RowLock {
    /// Whether two transactions cannot both hold these.
    pub fn conflicts(self, other: RowLock) -> bool {
        let (weak, strong) = (self.min(other), self.max(other));
        match strong {
            RowLock::KeyShare | RowLock::Share => false,
            RowLock::NoKeyUpdate => weak != RowLock::KeyShare,
            RowLock::Update => true,
        }
    }

    /// The mode of the heavyweight lock on the version that queues for this strength.
    pub fn queue_mode(self) -> LockMode {
        match self {
            RowLock::KeyShare => LockMode::AccessShare,
            RowLock::Share => LockMode::RowShare,
            RowLock::NoKeyUpdate => LockMode::Exclusive,
            RowLock::Update => LockMode::AccessExclusive,
        }
    }
}

/// Which versions beside the one asked for a lock request deals with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Follow {
    /// If a committed transaction updated the version, lock the newest one instead (READ COMMITTED).
    /// Otherwise the update is reported.
    pub to_newest: bool,
    /// Lock newer versions along with the old one (`SELECT .. FOR ..`, foreign-key checks; not the
    /// re-locking after a write conflict, triggers or `ON CONFLICT`).
    pub newer_too: bool,
}

impl Follow {
    /// For `SELECT .. FOR ..` and foreign-key checks; `read_committed` as the isolation level is.
    pub fn select(read_committed: bool) -> Follow {
        Follow {
            to_newest: read_committed,
            newer_too: true,
        }
    }

    /// For locking the newest version after [`WriteOutcome::Updated`](super::WriteOutcome::Updated).
    pub const RECHECK: Follow = Follow {
        to_newest: true,
        newer_too: false,
    };

    /// For the version given and nothing else (`ON CONFLICT DO UPDATE`).
    pub const NONE: Follow = Follow {
        to_newest: false,
        newer_too: false,
    };
}

/// What came of asking for a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The version that was asked for is locked.
    Locked,
    /// It had been updated; the newest version is locked. Re-check the quals on it.
    LockedNewer(VersionId),
    /// Updated by a transaction that committed, and following was not asked for: 40001 in
    /// REPEATABLE READ.
    Updated,
    /// Deleted by a transaction that committed (the row, or its newest version).
    Deleted,
    /// Changed by the own transaction, in its command of this number: the same command as the
    /// caller's is a silent skip, a later one an error.
    SelfModified(u32),
    /// Not visible to the own command: made by a later one.
    Invisible,
    /// It would have to wait, and must not: skip the row, or 55P03 for `NOWAIT`.
    WouldBlock,
}

impl LockOutcome {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        std::mem::discriminant(self).hash(digest);
        match self {
            LockOutcome::LockedNewer(version) => digest.word(rank(*version)),
            LockOutcome::SelfModified(cid) => cid.hash(digest),
            _ => {}
        }
    }
}

/// What the newest state of a version means for a command that wants to lock or change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Free.
    Free,
    /// Made by a later command of the own transaction, or ended by an earlier one.
    Invisible,
    /// Ended by the same or a later command of the own transaction.
    SelfModified(u32),
    /// Held by transactions in progress, perhaps the own.
    Held,
    /// Updated by a transaction that committed.
    Updated,
    /// Deleted by a transaction that committed.
    Deleted,
}

/// Where [`Store::lock_row`] stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Look at the version.
    Look,
    /// Wait for those who hold the version, one after the other.
    Holders(Vec<Xid>),
    /// Lock this newer version along.
    Newer(VersionId),
    /// Fetch this version, the next in the chain.
    Fetch(VersionId),
}

/// The position of [`Store::lock_row`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLockState {
    stage: Stage,
    /// The version to be locked.
    at: VersionId,
    /// It is not the one that was asked for.
    traversed: bool,
    /// The first look at this version is over.
    looked: bool,
    /// The queue of this version is held.
    queued: bool,
    /// Do not queue: a lock on the row is held already.
    skip_queue: bool,
    /// Once the holders are gone, lock the newer version along, if there is one then.
    newer: bool,
    /// Newer versions are locked.
    newer_done: bool,
}

impl RowLockState {
    fn new(at: VersionId) -> RowLockState {
        RowLockState {
            stage: Stage::Look,
            at,
            traversed: false,
            looked: false,
            queued: false,
            skip_queue: false,
            newer: false,
            newer_done: false,
        }
    }

    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        std::mem::discriminant(&self.stage).hash(digest);
        match &self.stage {
            Stage::Look => {}
            Stage::Holders(xids) => {
                for xid in xids {
                    Store::xid_owner_in(world, *xid).hash(digest);
                }
            }
            Stage::Newer(version) | Stage::Fetch(version) => {
                digest.word(Store::rank(world, *version));
            }
        }
        digest.word(Store::rank(world, self.at));
        (self.traversed, self.looked, self.queued, self.newer).hash(digest);
        (self.skip_queue, self.newer_done).hash(digest);
    }
}

/// What one call asks for.
struct Wanted {
    session: SessionId,
    cid: u32,
    strength: RowLock,
    policy: WaitPolicy,
    follow: Follow,
}

/// What one step of the machine leads to.
enum Next {
    Go,
    Wait,
    Done(LockOutcome),
    Deadlock,
    /// The row is in another partition.
    Moved,
}

impl Store {
    /// Locks a version for the transaction of the run's session, waiting as `policy` says.
    ///
    /// # Errors
    /// [`Stop::Wait`] if it waits; 40P01 if its queue shows a deadlock at once.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn lock_row(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        strength: RowLock,
        policy: WaitPolicy,
        follow: Follow,
    ) -> Result<LockOutcome, Stop> {
        if let Some(entry) = run.replay() {
            let Entry::Lock(outcome) = entry else {
                panic!("the journal has {entry:?} where a row lock is asked for")
            };
            return Ok(outcome);
        }
        let mut state = match run.take_suspended()? {
            None => {
                if follow.newer_too {
                    self.pause_before(run, snapshot, version)?;
                }
                RowLockState::new(version)
            }
            Some(Suspended::Pause(_)) => RowLockState::new(version),
            Some(Suspended::RowLock(mut state)) => {
                let wait = self.finish_wait(run.session);
                if let Stage::Newer(newer) = state.stage
                    && !wait.versions.contains(&Some(newer))
                {
                    // Its maker was rolled back.
                    state.newer_done = true;
                    state.stage = Stage::Look;
                }
                state
            }
            Some(other) => panic!("{other:?} is suspended where a row lock is asked for"),
        };
        let wanted = Wanted {
            session: run.session,
            cid: snapshot.cid,
            strength,
            policy,
            follow,
        };
        loop {
            match self.step(&mut state, &wanted) {
                Next::Go => {}
                Next::Wait => return Err(run.suspend(Suspended::RowLock(state))),
                Next::Deadlock => return Err(deadlock_error().into()),
                Next::Moved => return Err(errors::moved_to_another_partition().into()),
                Next::Done(outcome) => {
                    self.leave_queue(&mut state, &wanted);
                    run.record(Entry::Lock(outcome));
                    return Ok(outcome);
                }
            }
        }
    }

    fn step(&mut self, state: &mut RowLockState, wanted: &Wanted) -> Next {
        match &mut state.stage {
            Stage::Look => self.look(state, wanted),
            Stage::Holders(xids) => {
                if xids.is_empty() {
                    let newer = self.version(state.at).next.filter(|_| state.newer);
                    state.newer = false;
                    state.stage = newer.map_or(Stage::Look, Stage::Newer);
                    return Next::Go;
                }
                let xid = xids.remove(0);
                match self.wait_for_xid(wanted.session, xid, [Some(state.at), None]) {
                    true => Next::Go,
                    false => Next::Wait,
                }
            }
            Stage::Newer(version) => {
                let version = *version;
                self.lock_newer(state, wanted, version)
            }
            Stage::Fetch(version) => {
                let version = *version;
                self.fetch(state, wanted, version)
            }
        }
    }

    /// Looks at the version that is to be locked, and locks it if nobody is in the way.
    fn look(&mut self, state: &mut RowLockState, wanted: &Wanted) -> Next {
        let session = wanted.session;
        self.read_row_lock(state.at);
        let standing = self.standing(session, wanted.cid, state.at);
        match standing {
            Standing::Invisible => return Next::Done(LockOutcome::Invisible),
            Standing::SelfModified(cid) => return Next::Done(LockOutcome::SelfModified(cid)),
            Standing::Free => return self.locked(state, wanted),
            Standing::Held | Standing::Updated | Standing::Deleted => {}
        }
        if !std::mem::replace(&mut state.looked, true) {
            let version = self.version(state.at);
            let is_mine = |holder: &&Holder| holder.owner.session == session;
            let mine = version.holders.iter().filter(is_mine);
            match mine.map(|holder| holder.hold.strength()).max() {
                Some(held) if held >= wanted.strength => return Next::Done(state.outcome()),
                Some(_) => state.skip_queue = true,
                None => {}
            }
        }
        let version = self.version(state.at);
        let ended = version.death.map(|death| death.strength);
        let waits_for = self.conflicting(state.at, session, wanted.strength);
        let must_wait = !waits_for.is_empty();
        if !must_wait && !ended.is_some_and(|ended| ended.conflicts(wanted.strength)) {
            // Only a KEY SHARE lock passes by an update, that of no key.
            let is_updated = ended.is_some() || version.ender().is_some();
            if let Some(newer) = version.next
                && is_updated
                && wanted.follow.newer_too
                && !state.newer_done
            {
                state.stage = Stage::Newer(newer);
                return Next::Go;
            }
            return self.locked(state, wanted);
        }
        if !must_wait {
            return self.ended(state, wanted);
        }
        let newer = version.next.is_some() && wanted.follow.newer_too;
        self.queue_for(state, wanted, waits_for, newer)
    }

    /// Joins the queue of the version, and at its head waits for the holders.
    fn queue_for(
        &mut self,
        state: &mut RowLockState,
        wanted: &Wanted,
        waits_for: Vec<Xid>,
        newer: bool,
    ) -> Next {
        if !state.queued && !state.skip_queue {
            let tag = Tag::Tuple(self.version(state.at).table, state.at);
            let request = self.request(
                wanted.session,
                tag,
                wanted.strength.queue_mode(),
                LockScope::Transaction,
                wanted.policy,
                [Some(state.at), None],
            );
            match request {
                Request::Granted => state.queued = true,
                Request::Refused => return Next::Done(LockOutcome::WouldBlock),
                Request::Deadlock => return Next::Deadlock,
                Request::Queued => {
                    // Granted, it holds the queue, and looks again.
                    state.queued = true;
                    return Next::Wait;
                }
            }
        }
        if wanted.policy != WaitPolicy::Block {
            return Next::Done(LockOutcome::WouldBlock);
        }
        state.newer = newer;
        state.stage = Stage::Holders(waits_for);
        Next::Go
    }

    /// Takes the lock on the version.
    fn locked(&mut self, state: &RowLockState, wanted: &Wanted) -> Next {
        self.hold(wanted.session, state.at, Hold::Lock(wanted.strength));
        Next::Done(state.outcome())
    }

    /// The version has ended in a way that matters: reports it, or follows the chain.
    fn ended(&mut self, state: &mut RowLockState, wanted: &Wanted) -> Next {
        let version = self.version(state.at);
        let updated = match (version.death, version.ender()) {
            (Some(death), _) => death.updated,
            (None, ender) => matches!(
                ender.map(|e| e.hold),
                Some(Hold::Update(..) | Hold::Move(_))
            ),
        };
        let moved = match (version.death, version.ender()) {
            (Some(death), _) => death.moved,
            (None, ender) => matches!(ender.map(|e| e.hold), Some(Hold::Move(_))),
        };
        let next = version.next;
        if !updated {
            return Next::Done(LockOutcome::Deleted);
        }
        if !wanted.follow.to_newest {
            return Next::Done(LockOutcome::Updated);
        }
        self.leave_queue(state, wanted);
        match next {
            Some(next) => {
                state.stage = Stage::Fetch(next);
                Next::Go
            }
            None if moved => Next::Moved,
            None => Next::Done(LockOutcome::Deleted),
        }
    }

    /// Looks at the next version in the chain: waits for an update of it in progress, passes by if
    /// it has ended, else goes on to lock it.
    fn fetch(&mut self, state: &mut RowLockState, wanted: &Wanted, id: VersionId) -> Next {
        self.read_row_lock(id);
        let version = self.version(id);
        if let Some(ender) = version.ender().filter(|_| version.death.is_none()) {
            if ender.owner.session != wanted.session {
                if wanted.policy != WaitPolicy::Block {
                    return Next::Done(LockOutcome::WouldBlock);
                }
                let xid = ender.xid;
                return match self.wait_for_xid(wanted.session, xid, [Some(id), None]) {
                    true => Next::Go,
                    false => Next::Wait,
                };
            }
            return match (ender.hold, version.next) {
                (Hold::Update(..), Some(next)) => {
                    state.stage = Stage::Fetch(next);
                    Next::Go
                }
                _ => Next::Done(LockOutcome::Deleted),
            };
        }
        if let Some(death) = version.death {
            return match version.next.filter(|_| death.updated) {
                Some(next) => {
                    state.stage = Stage::Fetch(next);
                    Next::Go
                }
                None if death.moved => Next::Moved,
                None => Next::Done(LockOutcome::Deleted),
            };
        }
        if let Birth::Running { owner, cid } = version.birth
            && owner.session == wanted.session
            && cid >= wanted.cid
        {
            return Next::Done(LockOutcome::SelfModified(cid));
        }
        *state = RowLockState {
            traversed: true,
            ..RowLockState::new(id)
        };
        Next::Go
    }

    /// Locks a newer version along with the one asked for. Waits whatever the policy is, and without
    /// a queue.
    fn lock_newer(&mut self, state: &mut RowLockState, wanted: &Wanted, id: VersionId) -> Next {
        let session = wanted.session;
        self.read_row_lock(id);
        let version = self.version(id);
        let conflicts = |h: &Holder| h.hold.strength().conflicts(wanted.strength);
        let mut is_mine = false;
        let mut waits_for = None;
        for holder in &version.holders {
            is_mine = holder.owner.session == session;
            if is_mine {
                break;
            }
            if conflicts(holder) {
                waits_for = Some(holder.xid);
                break;
            }
        }
        let next = version.next;
        let death = version.death;
        if let Some(xid) = waits_for {
            return match self.wait_for_xid(session, xid, [Some(state.at), Some(id)]) {
                true => Next::Go,
                false => Next::Wait,
            };
        }
        if !is_mine {
            if death.is_some_and(|death| death.strength.conflicts(wanted.strength)) {
                return self.ended(state, wanted);
            }
            self.hold(session, id, Hold::Lock(wanted.strength));
        }
        match next {
            Some(next) => state.stage = Stage::Newer(next),
            None => {
                state.newer_done = true;
                state.stage = Stage::Look;
            }
        }
        Next::Go
    }

    fn leave_queue(&mut self, state: &mut RowLockState, wanted: &Wanted) {
        if std::mem::replace(&mut state.queued, false) {
            let tag = Tag::Tuple(self.version(state.at).table, state.at);
            self.release_early(wanted.session, tag, wanted.strength.queue_mode());
        }
    }

    /// The transaction ids of other sessions whose hold on a version conflicts with a strength, in
    /// the order in which one waits for them.
    pub(super) fn conflicting(
        &self,
        version: VersionId,
        session: SessionId,
        strength: RowLock,
    ) -> Vec<Xid> {
        let holders = self.version(version).holders.iter();
        let conflicting = holders.filter(|holder| {
            holder.owner.session != session && holder.hold.strength().conflicts(strength)
        });
        conflicting.map(|holder| holder.xid).collect()
    }

    /// What the newest state of a version means for the session's command `cid`.
    pub(super) fn standing(&self, session: SessionId, cid: u32, id: VersionId) -> Standing {
        let version = self.version(id);
        if let Birth::Running { owner, cid: made } = version.birth
            && (owner.session != session || made >= cid)
        {
            return Standing::Invisible;
        }
        if let Some(ender) = version.ender()
            && ender.owner.session == session
        {
            return match ender.hold.command() {
                Some(ended) if ended >= cid => Standing::SelfModified(ended),
                _ => Standing::Invisible,
            };
        }
        if !version.holders.is_empty() {
            return Standing::Held;
        }
        match version.death {
            None => Standing::Free,
            Some(death) if death.updated => Standing::Updated,
            Some(_) => Standing::Deleted,
        }
    }

    /// Records a hold of the session's innermost level in a version.
    pub(super) fn hold(&mut self, session: SessionId, id: VersionId, hold: Hold) {
        let xid = self.ensure_xid(session);
        let owner = self.owner(session);
        self.note_xmax(id, xid, hold);
        let version = self.version_mut(id);
        version.add_holder(Holder { owner, xid, hold });
        let (rel, position) = (version.table, version.position);
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::row_lock(rel, position));
        }
        self.note_touched(session, id);
    }

    pub(super) fn read_row_lock(&mut self, id: VersionId) {
        if self.world.footprint.is_on() && self.world.is_present(id) {
            let version = self.version(id);
            let name = name::row_lock(version.table, version.position);
            self.world.footprint.read(name);
        }
    }
}

impl RowLockState {
    fn outcome(&self) -> LockOutcome {
        if self.traversed {
            LockOutcome::LockedNewer(self.at)
        } else {
            LockOutcome::Locked
        }
    }
}
