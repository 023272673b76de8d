//! Updates, deletes and unique keys.

use std::hash::Hash;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};

use super::index::Key;
use super::lock::{LockScope, Request, Tag, WaitPolicy, deadlock_error};
use super::object::name;
use super::row_lock::Standing;
use super::version::{Birth, Hold};
use super::{Entry, Object, RelId, RowLock, Run, Snapshot, Stop, Store, Suspended, VersionId, Xid};
use crate::world::{Digest, World};

/// What came of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Done; the new version, if it was an update. Its index entries are the caller's next business.
    Done(Option<VersionId>),
    /// A transaction that committed meanwhile updated the version: lock the newest one with
    /// [`Store::lock_row`], re-check the quals on it, and write that (READ COMMITTED), or 40001.
    Updated,
    /// A transaction that committed meanwhile deleted it.
    Deleted,
    /// The own transaction changed it, in its command of this number.
    SelfModified(u32),
    /// Not visible to the own command.
    Invisible,
}

impl WriteOutcome {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        std::mem::discriminant(self).hash(digest);
        match self {
            WriteOutcome::Done(version) => digest.word(version.map_or(u64::MAX, rank)),
            WriteOutcome::SelfModified(cid) => cid.hash(digest),
            _ => {}
        }
    }
}

/// What came of a unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueCheck {
    /// The entry is in the index (or, for a probe, no other row has the key).
    Unique,
    /// This version has the key already: 23505, or `ON CONFLICT`.
    Conflict(VersionId),
}

impl UniqueCheck {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        match self {
            UniqueCheck::Unique => digest.word(0),
            UniqueCheck::Conflict(version) => {
                digest.word(1);
                digest.word(rank(*version));
            }
        }
    }
}

/// The position of [`Store::update`] or [`Store::delete`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteState {
    /// The queue of the version is held.
    queued: bool,
    /// Holders still to wait for.
    holders: Vec<Xid>,
}

impl WriteState {
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        self.queued.hash(digest);
        for xid in &self.holders {
            Store::xid_owner_in(world, *xid).hash(digest);
        }
    }
}

/// The position of a unique check: it looks again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueState;

impl UniqueState {
    pub(super) fn digest(&self, _world: &World<Object>, digest: &mut Digest) {
        digest.word(0);
    }
}

/// What a look for a key finds.
enum Found {
    Free,
    Taken(VersionId),
    /// It depends on how this transaction ends, which has made or ended this version.
    Depends(Xid, VersionId),
}

/// The version for which a key is checked.
#[derive(Clone, Copy)]
enum Added {
    /// None: the key is only looked up.
    Nothing,
    /// It is added if the key is free.
    Now(VersionId),
    /// It was added before; none: it is gone again.
    Before(Option<VersionId>),
}

/// What a write does to a version.
enum Change {
    Update(Row, RowLock),
    Delete(bool),
}

impl Change {
    fn strength(&self) -> RowLock {
        match self {
            Change::Update(_, strength) => *strength,
            Change::Delete(_) => RowLock::Update,
        }
    }
}

impl Store {
    /// Replaces a version by a new one with `row`. `strength` is [`RowLock::Update`] if the value of
    /// a key column differs, else [`RowLock::NoKeyUpdate`].
    ///
    /// # Errors
    /// [`Stop::Wait`] if another transaction holds the row; 40P01 if its queue shows a deadlock at
    /// once.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn update(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        row: Row,
        strength: RowLock,
    ) -> Result<WriteOutcome, Stop> {
        self.change(run, snapshot, version, Change::Update(row, strength))
    }

    /// Deletes a version; `moving`: the row goes on in another partition.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn delete(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        moving: bool,
    ) -> Result<WriteOutcome, Stop> {
        self.change(run, snapshot, version, Change::Delete(moving))
    }

    fn change(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        change: Change,
    ) -> Result<WriteOutcome, Stop> {
        if let Some(entry) = run.replay() {
            let Entry::Write(outcome) = entry else {
                panic!("the journal has {entry:?} where a row is written")
            };
            return Ok(outcome);
        }
        let mut state = match run.take_suspended()? {
            None => {
                self.pause_before(run, snapshot, version)?;
                // Handed out before any wait, and whatever comes of it.
                self.ensure_xid(run.session);
                WriteState::default()
            }
            Some(Suspended::Pause(_)) => {
                self.ensure_xid(run.session);
                WriteState::default()
            }
            Some(Suspended::Write(state)) => {
                self.finish_wait(run.session);
                state
            }
            Some(other) => panic!("{other:?} is suspended where a row is written"),
        };
        let strength = change.strength();
        let session = run.session;
        let outcome = loop {
            if !state.holders.is_empty() {
                let xid = state.holders.remove(0);
                if !self.wait_for_xid(session, xid, [Some(version), None]) {
                    return Err(run.suspend(Suspended::Write(state)));
                }
                continue;
            }
            self.read_row_lock(version);
            match self.standing(session, snapshot.cid, version) {
                Standing::Free => {
                    self.ssi_change(session, version)?;
                    break self.apply(session, snapshot.cid, version, change);
                }
                Standing::Invisible => break WriteOutcome::Invisible,
                Standing::SelfModified(cid) => break WriteOutcome::SelfModified(cid),
                Standing::Updated => break WriteOutcome::Updated,
                Standing::Deleted => break WriteOutcome::Deleted,
                Standing::Held => {}
            }
            let holders = self.conflicting(version, session, strength);
            if holders.is_empty() {
                break match self.version(version).death {
                    None => {
                        self.ssi_change(session, version)?;
                        self.apply(session, snapshot.cid, version, change)
                    }
                    Some(death) if death.updated => WriteOutcome::Updated,
                    Some(_) => WriteOutcome::Deleted,
                };
            }
            if !state.queued && !self.has_hold(session, version) {
                state.queued = true;
                match self.join_queue(session, version, strength) {
                    Request::Granted => {}
                    Request::Queued => return Err(run.suspend(Suspended::Write(state))),
                    Request::Deadlock | Request::Refused => return Err(deadlock_error().into()),
                }
            }
            state.holders = holders;
        };
        if state.queued {
            let tag = Tag::Tuple(self.version(version).table, version);
            self.release_early(session, tag, strength.queue_mode());
        }
        run.record(Entry::Write(outcome));
        Ok(outcome)
    }

    fn join_queue(&mut self, session: SessionId, id: VersionId, strength: RowLock) -> Request {
        let tag = Tag::Tuple(self.version(id).table, id);
        self.request(
            session,
            tag,
            strength.queue_mode(),
            LockScope::Transaction,
            WaitPolicy::Block,
            [Some(id), None],
        )
    }

    fn has_hold(&self, session: SessionId, id: VersionId) -> bool {
        let holders = &self.version(id).holders;
        holders.iter().any(|holder| holder.owner.session == session)
    }

    /// Carries a write out. Locks of others that do not conflict go on to the new version.
    fn apply(
        &mut self,
        session: SessionId,
        cid: u32,
        id: VersionId,
        change: Change,
    ) -> WriteOutcome {
        let (row, strength) = match change {
            Change::Delete(moving) => {
                let hold = if moving {
                    Hold::Move(cid)
                } else {
                    Hold::Delete(cid)
                };
                self.trace_end_of_row(session, id);
                self.hold(session, id, hold);
                return WriteOutcome::Done(None);
            }
            Change::Update(row, strength) => (row, strength),
        };
        let version = self.version(id);
        let rel = version.table;
        let is_lock = |holder: &&super::Holder| matches!(holder.hold, Hold::Lock(_));
        let carried: Vec<super::Holder> = version.holders.iter().filter(is_lock).copied().collect();
        let new = self.append(session, cid, rel, row, Some(id));
        self.hold(session, id, Hold::Update(strength, cid));
        self.version_mut(id).next = Some(new);
        if !carried.is_empty() {
            self.version_mut(new).holders = carried;
        }
        WriteOutcome::Done(Some(new))
    }

    /// Adds the entry of a new version to an index. If the index is unique and an in-progress
    /// transaction decides whether the key is free, waits for its end and looks again. On a
    /// conflict nothing is added; the version stays (the statement fails, or the caller takes it
    /// back with [`retract`](Self::retract)).
    ///
    /// # Errors
    /// [`Stop::Wait`].
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn index_insert(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
        version: VersionId,
    ) -> Result<UniqueCheck, Stop> {
        if !self.index(index).forbids(key) {
            // Nothing to journal: only this run's own version can be missing.
            if !run.is_replaying() {
                self.ssi_index_insert(run.session, index, key, version)?;
                self.index_build(index, Key::clone(key), version);
                run.record(Entry::Unique(UniqueCheck::Unique));
            } else {
                run.replay();
            }
            return Ok(UniqueCheck::Unique);
        }
        let check = self.check_unique(run, index, key, Added::Now(version))?;
        Ok(check)
    }

    /// As [`index_insert`](Self::index_insert) for a speculative insertion: it does not wait. If the
    /// key is taken, or another transaction decides that, nothing is added.
    ///
    /// # Errors
    /// 40001.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn index_try_insert(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
        version: VersionId,
    ) -> Result<UniqueCheck, Stop> {
        if !run.is_replaying()
            && self.index(index).forbids(key)
            && let Found::Depends(..) = self.find_key(run.session, index, key, Some(version))
        {
            self.read_key(index, key);
            let check = UniqueCheck::Conflict(version);
            run.record(Entry::Unique(check));
            return Ok(check);
        }
        self.index_insert(run, index, key, version)
    }

    /// Says that a version was inserted speculatively, or that it is sure now.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn set_speculative(&mut self, run: &mut Run, version: VersionId, speculative: bool) {
        match run.replay() {
            Some(Entry::Done) => {}
            Some(other) => panic!("the journal has {other:?} where a speculation is noted"),
            None => {
                self.version_mut(version).speculative = speculative;
                run.record(Entry::Done);
            }
        }
    }

    /// The version that has a key now, whoever made it, and whether that depends on how another
    /// transaction ends. Does not wait.
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn peek_unique(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
    ) -> Option<(VersionId, bool)> {
        if !self.index(index).forbids(key) {
            return None;
        }
        let session = run.session;
        let mut depends = false;
        let entry = run.once(|| {
            self.read_key(index, key);
            let found = self.find_key(session, index, key, None);
            Ok(match found {
                Found::Free => Entry::Unique(UniqueCheck::Unique),
                Found::Taken(version) => Entry::Unique(UniqueCheck::Conflict(version)),
                Found::Depends(_, version) => {
                    depends = true;
                    Entry::Unique(UniqueCheck::Conflict(version))
                }
            })
        });
        match entry {
            Ok(Entry::Unique(UniqueCheck::Conflict(version))) => {
                let depends = run.once(|| Ok(Entry::Granted(depends)));
                Some((version, depends == Ok(Entry::Granted(true))))
            }
            Ok(Entry::Unique(UniqueCheck::Unique)) => None,
            other => panic!("the journal has {other:?} where a key is looked for"),
        }
    }

    /// Looks for a live row with the key, without adding anything: the first step of `ON CONFLICT`.
    /// Waits for in-progress transactions as [`index_insert`](Self::index_insert) does.
    ///
    /// # Errors
    /// As [`index_insert`](Self::index_insert).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn probe_unique(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
    ) -> Result<UniqueCheck, Stop> {
        if !self.index(index).forbids(key) {
            return Ok(UniqueCheck::Unique);
        }
        self.check_unique(run, index, key, Added::Nothing)
    }

    /// Adds the entry of a deferrable unique constraint, whoever has the key: nothing waits and
    /// nothing is refused yet. Whether another row had the key, or a transaction that runs may
    /// come to have it, so that the key must be checked again later
    /// ([`recheck_unique`](Self::recheck_unique)).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn index_insert_deferrable(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
        version: VersionId,
    ) -> bool {
        if let Some(entry) = run.replay() {
            let Entry::Unique(check) = entry else {
                panic!("the journal has {entry:?} where a key is added")
            };
            return check != UniqueCheck::Unique;
        }
        let forbids = self.index(index).forbids(key);
        if forbids && self.world.footprint.is_on() {
            self.read_key(index, key);
            self.world.footprint.write(name::key(index, key));
        }
        let check = match self.find_key(run.session, index, key, Some(version)) {
            Found::Taken(other) if forbids => UniqueCheck::Conflict(other),
            Found::Depends(..) if forbids => UniqueCheck::Conflict(version),
            _ => UniqueCheck::Unique,
        };
        self.index_build(index, Key::clone(key), version);
        run.record(Entry::Unique(check));
        check != UniqueCheck::Unique
    }

    /// The later check of a key of a deferrable unique constraint. A key that the transaction has
    /// no live row with any more conflicts with nothing.
    ///
    /// # Errors
    /// As [`index_insert`](Self::index_insert).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn recheck_unique(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
    ) -> Result<UniqueCheck, Stop> {
        let session = run.session;
        let own = self.index(index).equal(key).iter().find(|entry| {
            let version = self.version(entry.version);
            let mine =
                matches!(version.birth, Birth::Running { owner, .. } if owner.session == session);
            mine && version.death.is_none() && version.ender().is_none()
        });
        let own = own.map(|entry| entry.version);
        self.check_unique(run, index, key, Added::Before(own))
    }

    fn check_unique(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
        added: Added,
    ) -> Result<UniqueCheck, Stop> {
        if let Some(entry) = run.replay() {
            let Entry::Unique(check) = entry else {
                panic!("the journal has {entry:?} where a key is checked")
            };
            return Ok(check);
        }
        match run.take_suspended()? {
            None => {}
            Some(Suspended::Unique(_)) => {
                self.finish_wait(run.session);
            }
            Some(other) => panic!("{other:?} is suspended where a key is checked"),
        }
        let (add, except) = match added {
            Added::Nothing => (None, None),
            Added::Now(version) => (Some(version), Some(version)),
            Added::Before(Some(version)) => (None, Some(version)),
            Added::Before(None) => {
                run.record(Entry::Unique(UniqueCheck::Unique));
                return Ok(UniqueCheck::Unique);
            }
        };
        if self.world.footprint.is_on() {
            self.read_key(index, key);
            if add.is_some() {
                self.world.footprint.write(name::key(index, key));
            }
        }
        let check = loop {
            match self.find_key(run.session, index, key, except) {
                Found::Free => break UniqueCheck::Unique,
                Found::Taken(version) => break UniqueCheck::Conflict(version),
                Found::Depends(_, version) if self.version(version).speculative => {
                    return Err(rowlock_model::DbError::unsupported(
                        "waiting for a speculative insertion in the middle",
                        None,
                    )
                    .into());
                }
                Found::Depends(xid, _) => {
                    if !self.wait_for_xid(run.session, xid, [add, None]) {
                        return Err(run.suspend(Suspended::Unique(UniqueState)));
                    }
                }
            }
        };
        if let Some(version) = add {
            self.ssi_index_insert(run.session, index, key, version)?;
        }
        if let (UniqueCheck::Unique, Some(version)) = (check, add) {
            self.index_build(index, Key::clone(key), version);
        }
        run.record(Entry::Unique(check));
        Ok(check)
    }

    /// Looks at every row with the key as it is now, whoever made it.
    fn find_key(
        &self,
        session: SessionId,
        index: RelId,
        key: &Key,
        except: Option<VersionId>,
    ) -> Found {
        for entry in self.index(index).equal(key) {
            if Some(entry.version) == except {
                continue;
            }
            let version = self.version(entry.version);
            if let Birth::Running { owner, .. } = version.birth
                && owner.session != session
            {
                return Found::Depends(version.xmin, entry.version);
            }
            if version.death.is_some() {
                continue;
            }
            match version.ender() {
                None => return Found::Taken(entry.version),
                Some(ender) if ender.owner.session == session => {}
                Some(ender) => return Found::Depends(ender.xid, entry.version),
            }
        }
        Found::Free
    }

    /// Names in the footprint what [`find_key`](Self::find_key) looks at: who has the key, and whether
    /// somebody is about to delete or replace those rows.
    fn read_key(&mut self, index: RelId, key: &Key) {
        if !self.world.footprint.is_on() {
            return;
        }
        self.world.footprint.read(name::key(index, key));
        let entries = self.index(index).equal(key).iter();
        let versions: Vec<VersionId> = entries.map(|entry| entry.version).collect();
        for version in versions {
            self.read_row_lock(version);
        }
    }

    /// Waits for transactions of others that have made a relation of this name. Whether there is one
    /// then.
    ///
    /// # Errors
    /// As [`index_insert`](Self::index_insert).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub(super) fn await_name(&mut self, run: &mut Run, name: &str) -> Result<bool, Stop> {
        if let Some(entry) = run.replay() {
            let Entry::Value(Value::Bool(taken)) = entry else {
                panic!("the journal has {entry:?} where a name is claimed")
            };
            return Ok(taken);
        }
        match run.take_suspended()? {
            None => {}
            Some(Suspended::Unique(_)) => {
                self.finish_wait(run.session);
            }
            Some(other) => panic!("{other:?} is suspended where a name is claimed"),
        }
        while let Some(maker) = self.catalog().maker(name, run.session) {
            let Some(xid) = self.xact(maker).levels[0].xids.first().copied() else {
                break;
            };
            if !self.wait_for_xid(run.session, xid, [None, None]) {
                return Err(run.suspend(Suspended::Unique(UniqueState)));
            }
        }
        let taken = self.catalog().view(Some(run.session)).0.id(name).is_some();
        run.record(Entry::Value(Value::Bool(taken)));
        Ok(taken)
    }

    /// Takes back a version that the same statement inserted (a failed speculative insertion).
    ///
    /// # Panics
    /// If the journal has something else here.
    pub fn retract(&mut self, run: &mut Run, version: VersionId) {
        if let Some(entry) = run.replay() {
            assert_eq!(entry, Entry::Done, "the journal differs at a retraction");
            return;
        }
        self.forget_touched(run.session, version);
        self.remove_version(version);
        run.record(Entry::Done);
    }
}
