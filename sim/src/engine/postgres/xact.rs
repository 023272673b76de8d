//! Transactions, savepoints and their ends.

use std::collections::BTreeMap;
use std::hash::Hash;

use rowlock_model::schedule::SessionId;

use super::lock::{LockMode, Tag, WaitRecord};
use super::object::{Key, name};
use super::version::{Birth, Death, Hold};
use super::{Object, RelId, Store, VersionId, Xid};
use crate::trace::Trace;
use crate::world::{Digest, World};
use rowlock_model::Row;

/// Who did something: a session, at a nesting level of its transaction (0 is the transaction
/// itself, each open savepoint adds one). What a savepoint did belongs to its parent's level once it
/// is released, and is gone when it is rolled back; so this is enough to know what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The level.
    pub level: u8,
}

/// One nesting level of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Its own transaction ids: the one it was given, and those of released savepoints below it.
    pub xids: Vec<Xid>,
    /// Whether the last of `xids` was given to this level itself.
    pub has_own_xid: bool,
    /// The versions that it inserted, locked, updated or deleted, in order; may repeat.
    pub touched: Vec<VersionId>,
    /// Heaps and indexes that it created; they go when it is rolled back.
    pub created: Vec<RelId>,
    /// Heaps and indexes that it dropped; they go when the transaction commits.
    pub dropped: Vec<RelId>,
    /// Versions that `TRUNCATE` emptied out; they go when the transaction commits, whoever might
    /// still see them.
    pub truncated: Vec<VersionId>,
    /// Rows as they were before `ALTER TABLE` rewrote them; put back when it is rolled back.
    pub rewritten: Vec<(VersionId, Row)>,
    /// Heavyweight locks that it took, once for every time.
    pub locks: Vec<(Tag, LockMode)>,
    /// Sequences that it altered: the last value, and whether `nextval` has returned that already.
    pub sequences: BTreeMap<RelId, (i64, bool)>,
}

/// The transaction of a session, present also while none is open (then empty), or one that is
/// prepared, with the number that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xact {
    /// Whose it is.
    pub session: SessionId,
    /// The levels, outermost first; empty while no transaction is open.
    pub levels: Vec<Level>,
    /// The present command id.
    pub command: u32,
    /// The commit numbers of the snapshots that are kept, once for every holder.
    pub snapshots: Vec<u64>,
    /// Advisory locks held at session level, once for every time they were taken.
    pub session_locks: Vec<(Tag, LockMode)>,
    /// What the session waits for.
    pub wait: Option<WaitRecord>,
    /// Weak locks on relations that are in the server's common table; for views only.
    pub common: Vec<(Tag, LockMode)>,
    /// The oldest transaction in progress when the first of the kept snapshots was taken; for views
    /// only.
    pub xmin: Option<Xid>,
}

impl Xact {
    pub(super) fn new(session: SessionId) -> Xact {
        Xact {
            session,
            levels: Vec::new(),
            command: 0,
            snapshots: Vec::new(),
            session_locks: Vec::new(),
            wait: None,
            common: Vec::new(),
            xmin: None,
        }
    }

    /// Whether a transaction (explicit, or of a single statement) is open.
    pub fn is_open(&self) -> bool {
        !self.levels.is_empty()
    }

    /// The innermost level's number.
    fn depth(&self) -> u8 {
        u8::try_from(self.levels.len().saturating_sub(1)).expect("fewer than 256 savepoints")
    }

    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        self.session.hash(digest);
        digest.word(self.levels.len() as u64);
        for level in &self.levels {
            // What it wrote is told by the versions.
            if world.is_exact() {
                level.xids.hash(digest);
            }
            level.xids.is_empty().hash(digest);
            level.created.hash(digest);
            level.dropped.hash(digest);
            level.sequences.hash(digest);
            digest.word(level.truncated.len() as u64);
            for (version, row) in &level.rewritten {
                digest.word(Store::rank(world, *version));
                row.hash(digest);
            }
            digest.wide(lock_set(world, &level.locks));
        }
        if world.is_exact() {
            self.xmin.hash(digest);
            digest.wide(lock_set(world, &self.common));
        }
        digest.word(self.snapshots.len() as u64);
        digest.wide(lock_set(world, &self.session_locks));
        match &self.wait {
            None => digest.word(0),
            Some(wait) => {
                digest.word(1);
                wait.tag.digest(world, digest);
                (wait.mode, wait.scope, wait.granted).hash(digest);
            }
        }
    }
}

/// The digest of a bag of locks: the order in which they were taken does not count.
fn lock_set(world: &World<Object>, locks: &[(Tag, LockMode)]) -> u128 {
    let one = |(tag, mode): &(Tag, LockMode)| {
        let mut digest = Digest::new(100);
        tag.digest(world, &mut digest);
        mode.hash(&mut digest);
        digest.finish128()
    };
    locks.iter().map(one).fold(0, u128::wrapping_add)
}

impl Store {
    /// The transaction of a session.
    pub fn xact(&self, session: SessionId) -> &Xact {
        match self.world.read(self.xact_slot(session)) {
            Object::Xact(xact) => xact,
            other => panic!("{session:?} has {other:?} for a transaction"),
        }
    }

    pub(super) fn xact_mut(&mut self, session: SessionId) -> &mut Xact {
        let slot = self.xact_slot(session);
        match self.world.write(slot) {
            Object::Xact(xact) => xact,
            other => panic!("{session:?} has {other:?} for a transaction"),
        }
    }

    /// Opens a transaction.
    ///
    /// # Panics
    /// If one is open.
    pub fn begin(&mut self, session: SessionId) {
        let xact = self.xact_mut(session);
        assert!(!xact.is_open(), "{session:?} opens a second transaction");
        xact.levels.push(Level::default());
        xact.command = 0;
    }

    /// Opens a savepoint: one more level. Its name is the executor's business.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn push_level(&mut self, session: SessionId) {
        let xact = self.xact_mut(session);
        assert!(xact.is_open(), "{session:?} has no transaction");
        xact.levels.push(Level::default());
    }

    /// The transaction id of the innermost level, handed out now if it has none. A savepoint's
    /// parents get theirs first.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn ensure_xid(&mut self, session: SessionId) -> Xid {
        let xact = self.xact(session);
        let level = xact.levels.last();
        if let Some(level) = level.filter(|level| level.has_own_xid) {
            return level.xids[0];
        }
        assert!(xact.is_open(), "{session:?} has no transaction");
        for depth in 0..xact.levels.len() {
            if self.xact(session).levels[depth].has_own_xid {
                continue;
            }
            if depth == 0 && self.world.footprint.is_on() {
                self.world.footprint.write(name::xid(session));
            }
            let counters = self.world.counters_mut();
            counters.xid += 1;
            let xid = Xid(counters.xid);
            self.number_handed_out();
            let level = &mut self.xact_mut(session).levels[depth];
            level.xids.insert(0, xid);
            level.has_own_xid = true;
        }
        let levels = &self.xact(session).levels;
        levels[levels.len() - 1].xids[0]
    }

    /// Whose a transaction id is, at which level now; `None` once it has ended.
    pub fn xid_owner(&self, xid: Xid) -> Option<Owner> {
        Store::xid_owner_in(&self.world, xid)
    }

    pub(super) fn xid_owner_in(world: &World<Object>, xid: Xid) -> Option<Owner> {
        Store::sessions_in(world).find_map(|session| {
            let Object::Xact(xact) = world.read(world.find(Key::Xact(session))?) else {
                return None;
            };
            let level = xact.levels.iter().position(|l| l.xids.contains(&xid))?;
            Some(Owner {
                session,
                level: level as u8,
            })
        })
    }

    /// Makes what was written so far visible to the transaction's next commands.
    pub fn advance_command(&mut self, session: SessionId) {
        self.xact_mut(session).command += 1;
    }

    /// Who acts for a session now.
    pub(super) fn owner(&self, session: SessionId) -> Owner {
        Owner {
            session,
            level: self.xact(session).depth(),
        }
    }

    /// Notes that the innermost level did something to a version.
    pub(super) fn note_touched(&mut self, session: SessionId, version: VersionId) {
        if let Some(level) = self.xact_mut(session).levels.last_mut()
            && level.touched.last() != Some(&version)
        {
            level.touched.push(version);
        }
    }

    /// A version that a session touched is gone.
    pub(super) fn forget_touched(&mut self, session: SessionId, version: VersionId) {
        for level in &mut self.xact_mut(session).levels {
            level.touched.retain(|touched| *touched != version);
        }
    }

    /// Commits: what it wrote becomes visible to snapshots taken from now on, its locks go, waiters
    /// that can go on are granted.
    ///
    /// # Panics
    /// If none is open.
    pub fn commit(&mut self, session: SessionId) {
        assert!(
            self.xact(session).is_open(),
            "{session:?} has no transaction"
        );
        let held = self.held_versions(session, 0);
        self.record_end(session, &held, true);
        let wrote_rows = held
            .iter()
            .any(|version| self.is_written_by(*version, session));
        let wrote = wrote_rows
            || self
                .xact(session)
                .levels
                .iter()
                .any(|l| !l.created.is_empty() || !l.dropped.is_empty());
        if wrote {
            let counters = self.world.counters_mut();
            counters.csn += 1;
            counters.committed += 1;
        }
        let csn = self.world.counters().csn;
        let number = wrote.then_some(csn);
        self.world.trace.push(Trace::Committed(session, number));
        self.ssi_end(session, Some(if wrote { csn } else { 0 }));
        let xact = self.xact_mut(session);
        let levels = std::mem::take(&mut xact.levels);
        let had_snapshots = !std::mem::take(&mut xact.snapshots).is_empty();
        xact.xmin = None;
        xact.command = 0;
        let emptied = levels.iter().flat_map(|level| &level.truncated);
        let emptied: Vec<VersionId> = emptied.copied().collect();
        self.settle_own(session, &held, &emptied);
        for (rel, (last, called)) in levels.iter().flat_map(|level| &level.sequences) {
            self.put_sequence(*rel, *last, *called);
        }
        for level in &levels {
            for rel in &level.dropped {
                self.remove_relation(*rel);
            }
        }
        self.give_back(session, &levels);
        if had_snapshots {
            self.settle_commits();
        }
        self.touch_waiters();
    }

    /// Rolls the whole transaction back.
    ///
    /// # Panics
    /// If none is open.
    pub fn rollback(&mut self, session: SessionId) {
        assert!(
            self.xact(session).is_open(),
            "{session:?} has no transaction"
        );
        self.world.trace.push(Trace::RolledBack(session));
        self.ssi_end(session, None);
        let xact = self.xact_mut(session);
        let had_snapshots = !std::mem::take(&mut xact.snapshots).is_empty();
        xact.xmin = None;
        self.roll_back_to(session, 0);
        self.xact_mut(session).command = 0;
        if had_snapshots {
            self.settle_commits();
        }
        self.touch_waiters();
    }

    /// Undoes everything of the innermost level and closes it. `ROLLBACK TO` is this, for all
    /// levels down to the savepoint's own, followed by [`push_level`](Self::push_level).
    ///
    /// # Panics
    /// If no savepoint is open.
    pub fn rollback_level(&mut self, session: SessionId) {
        let depth = self.xact(session).depth();
        assert!(depth > 0, "{session:?} has no savepoint");
        self.roll_back_to(session, depth);
        self.touch_waiters();
    }

    /// Gives everything of the innermost level to its parent (`RELEASE`).
    ///
    /// # Panics
    /// If no savepoint is open.
    pub fn release_level(&mut self, session: SessionId) {
        let depth = self.xact(session).depth();
        assert!(depth > 0, "{session:?} has no savepoint");
        let level = |level| Owner { session, level };
        for version in self.held_versions(session, depth) {
            self.version_mut(version)
                .hand_up(level(depth), level(depth - 1));
        }
        let xact = self.xact_mut(session);
        let Some(child) = xact.levels.pop() else {
            unreachable!("the depth was checked")
        };
        let parent = &mut xact.levels[usize::from(depth) - 1];
        parent.xids.extend(child.xids);
        parent.touched.extend(child.touched);
        parent.created.extend(child.created);
        parent.dropped.extend(child.dropped);
        parent.truncated.extend(child.truncated);
        parent.rewritten.extend(child.rewritten);
        parent.locks.extend(child.locks);
        parent.sequences.extend(child.sequences);
        self.touch_waiters();
    }

    /// Ends a session: rolls back, releases session-level locks, forgets its wait.
    pub fn end_session(&mut self, session: SessionId) {
        self.cancel_wait(session);
        if self.xact(session).is_open() {
            self.rollback(session);
        }
        self.unlock_all(session);
        self.touch_waiters();
    }

    /// Undoes the levels from `depth` on and closes them.
    fn roll_back_to(&mut self, session: SessionId, depth: u8) {
        let held = self.held_versions(session, depth);
        self.record_end(session, &held, false);
        if depth > 0 {
            self.trace_undone(session, depth, &held);
        }
        let at = usize::from(depth);
        let levels = self.xact_mut(session).levels.split_off(at);
        for (version, row) in levels.iter().flat_map(|l| &l.rewritten).rev() {
            let (version, row) = (*version, row.clone());
            if self.world.is_present(version) {
                self.set_row(version, row);
            }
        }
        for version in held {
            let made = self.version(version).birth;
            match made {
                Birth::Running { owner, .. }
                    if owner.session == session && owner.level >= depth =>
                {
                    self.remove_version(version);
                }
                _ => self.drop_holds(version, session, depth),
            }
        }
        let emptied = levels.iter().flat_map(|level| &level.truncated);
        let emptied = emptied.filter(|version| self.world.is_present(**version));
        let mut tables: Vec<RelId> = emptied.map(|v| self.version(*v).table).collect();
        tables.dedup();
        for table in tables {
            self.refill(table);
        }
        for rel in levels.iter().flat_map(|level| level.created.iter().rev()) {
            self.remove_relation(*rel);
        }
        self.give_back(session, &levels);
    }

    /// Releases the locks of levels that are closed already, and wakes waiters.
    fn give_back(&mut self, session: SessionId, levels: &[Level]) {
        for xid in levels.iter().flat_map(|level| &level.xids) {
            self.xid_ended(*xid);
        }
        if !self.xact(session).common.is_empty() {
            let mut common = std::mem::take(&mut self.xact_mut(session).common);
            common.retain(|(tag, mode)| self.holds(session, *tag, *mode));
            self.xact_mut(session).common = common;
        }
        let mut done: Vec<Tag> = Vec::new();
        for (tag, _) in levels.iter().flat_map(|level| &level.locks) {
            if !done.contains(tag) {
                done.push(*tag);
                self.released(session, *tag);
            }
        }
    }

    /// The versions that the levels from `depth` on made or hold, each once: those they touched, and
    /// newer ones to which an update by somebody carried their locks.
    pub(super) fn held_versions(&self, session: SessionId, depth: u8) -> Vec<VersionId> {
        let levels = &self.xact(session).levels[usize::from(depth)..];
        let mut held: Vec<VersionId> = Vec::new();
        for version in levels.iter().flat_map(|level| &level.touched) {
            held.push(*version);
            let mut next = self.version(*version).next;
            while let Some(newer) = next {
                let version = self.version(newer);
                if version.holders.iter().any(|h| h.owner.session == session) {
                    held.push(newer);
                }
                next = version.next;
            }
        }
        held.sort_unstable();
        held.dedup();
        held
    }

    /// Whether the session's transaction has made, updated or deleted the version.
    fn is_written_by(&self, version: VersionId, session: SessionId) -> bool {
        let version = self.version(version);
        let made =
            matches!(version.birth, Birth::Running { owner, .. } if owner.session == session);
        made || version
            .holders
            .iter()
            .any(|holder| holder.owner.session == session && !matches!(holder.hold, Hold::Lock(_)))
    }

    /// Turns what a committing transaction holds into commits.
    fn settle_own(&mut self, session: SessionId, held: &[VersionId], emptied: &[VersionId]) {
        let csn = self.world.counters().csn;
        // Everything up to here is seen by every snapshot that is kept.
        let settled = self.horizon().unwrap_or(csn);
        let mut recent = Vec::new();
        for version in held {
            let (made, ended) = self.commit_version(*version, session, csn);
            // A SERIALIZABLE reader comes to it, though it does not see it.
            let never_seen = made && ended && !self.ssi_in_use();
            if never_seen || emptied.contains(version) {
                self.remove_version(*version);
                continue;
            }
            if (made || ended) && settled < csn {
                recent.push(*version);
            }
            self.settle_version(*version, settled);
        }
        if !recent.is_empty() {
            self.server_mut().recent.push((csn, recent));
            self.remove_unreachable();
        }
    }

    /// Commits what one session did to one version; says whether it made it, and whether it ended
    /// it.
    fn commit_version(&mut self, id: VersionId, session: SessionId, csn: u64) -> (bool, bool) {
        let version = self.version_mut(id);
        let mut made = false;
        if let Birth::Running { owner, .. } = version.birth
            && owner.session == session
        {
            made = true;
            version.birth = Birth::Committed(csn);
        }
        let mut ended = false;
        let is_mine = |holder: &super::Holder| holder.owner.session == session;
        for holder in version.holders.iter().filter(|holder| is_mine(holder)) {
            let (strength, updated) = match holder.hold {
                Hold::Lock(_) => continue,
                Hold::Update(strength, _) => (strength, true),
                Hold::Delete(_) => (super::RowLock::Update, false),
                Hold::Move(_) => (super::RowLock::Update, true),
            };
            let moved = matches!(holder.hold, Hold::Move(_));
            ended = true;
            version.death = Some(Death {
                csn,
                strength,
                updated,
                moved,
            });
        }
        version.holders.retain(|holder| !is_mine(holder));
        (made, ended)
    }

    /// After snapshots were let go: commits that every kept snapshot sees now are settled; versions
    /// that nobody can reach any more are removed.
    pub(super) fn settle_commits(&mut self) {
        if self.server().recent.is_empty() {
            return;
        }
        let horizon = self.horizon();
        let recent = std::mem::take(&mut self.server_mut().recent);
        let mut left = Vec::new();
        for (csn, versions) in recent {
            let present = versions.into_iter().filter(|v| self.is_of(*v, csn));
            let present: Vec<VersionId> = present.collect();
            if horizon.is_some_and(|oldest| oldest < csn) {
                for version in &present {
                    self.touch_version(*version);
                }
                if !present.is_empty() {
                    left.push((csn, present));
                }
            } else {
                for version in present {
                    self.settle_version(version, csn);
                }
            }
        }
        self.server_mut().recent = left;
        self.remove_unreachable();
        self.touch_waiters();
    }

    /// Whether the slot still has a version made or ended by this commit.
    fn is_of(&self, id: VersionId, csn: u64) -> bool {
        self.world.is_present(id)
            && matches!(self.world.read(id), Object::Version(version)
                if version.birth == Birth::Committed(csn)
                    || version.death.is_some_and(|death| death.csn == csn))
    }

    /// Every kept snapshot sees the commits up to `settled`: what they made is settled, what they
    /// ended goes, unless somebody still holds a lock on it.
    fn settle_version(&mut self, id: VersionId, settled: u64) {
        let version = self.version(id);
        let is_dead = version.death.is_some_and(|death| death.csn <= settled);
        if is_dead && version.holders.is_empty() {
            self.remove_version(id);
        } else if matches!(version.birth, Birth::Committed(csn) if csn <= settled) {
            self.version_mut(id).birth = Birth::Settled;
        }
    }

    /// Removes versions that were made and ended between two kept snapshots: no snapshot sees them,
    /// and who follows the chain of versions only passes by.
    fn remove_unreachable(&mut self) {
        if self.ssi_in_use() {
            // SERIALIZABLE readers come to them, though they do not see them.
            return;
        }
        let versions = self
            .server()
            .recent
            .iter()
            .flat_map(|(_, versions)| versions);
        let mut candidates: Vec<VersionId> = versions.copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|id| self.world.is_present(*id) && self.is_unreachable(*id));
        for id in candidates {
            self.remove_version(id);
        }
    }

    fn is_unreachable(&self, id: VersionId) -> bool {
        let Object::Version(version) = self.world.read(id) else {
            return false;
        };
        let (Some(death), []) = (version.death, &version.holders[..]) else {
            return false;
        };
        let born = match version.birth {
            Birth::Settled => 0,
            Birth::Committed(csn) => csn,
            Birth::Running { .. } => return false,
        };
        self.sessions().all(|session| {
            let xact = self.xact(session);
            let sees = |csn: &u64| born <= *csn && *csn < death.csn;
            !xact.snapshots.iter().any(sees)
                && xact
                    .wait
                    .is_none_or(|wait| !wait.versions.contains(&Some(id)))
        })
    }

    /// Takes a transaction's holds at levels from `depth` on off a version; a dead version that only
    /// they kept goes.
    fn drop_holds(&mut self, id: VersionId, session: SessionId, depth: u8) {
        let horizon = self.horizon();
        let version = self.version_mut(id);
        let is_gone =
            |holder: &super::Holder| holder.owner.session == session && holder.owner.level >= depth;
        let updated = version
            .holders
            .iter()
            .any(|holder| is_gone(holder) && matches!(holder.hold, Hold::Update(..)));
        version.holders.retain(|holder| !is_gone(holder));
        if updated {
            version.next = None;
        }
        if let Some(death) = version.death
            && version.holders.is_empty()
            && horizon.is_none_or(|oldest| death.csn <= oldest)
        {
            self.remove_version(id);
        }
    }

    /// Names in the footprint what the end of a transaction changes for others.
    fn record_end(&mut self, session: SessionId, held: &[VersionId], commits: bool) {
        if !self.world.footprint.is_on() {
            return;
        }
        if commits {
            self.world.footprint.write(name::COMMITS);
        }
        if self
            .xact(session)
            .levels
            .first()
            .is_some_and(|l| l.has_own_xid)
        {
            self.world.footprint.write(name::xid(session));
        }
        for id in held {
            let version = self.version(*id);
            let (rel, position) = (version.table, version.position);
            self.world.footprint.write(name::row_lock(rel, position));
            if !self.is_written_by(*id, session) {
                continue;
            }
            self.world.footprint.write(name::version(rel, position));
            self.world.footprint.write(name::table(rel));
            for name in self.key_names(*id) {
                self.world.footprint.write(name);
            }
        }
    }

    /// The digests of what a session wrote depend on whether a statement of it is in flight.
    pub(super) fn touch_written(&mut self, session: SessionId) {
        let mut heaps: Vec<RelId> = Vec::new();
        for level in &self.xact(session).levels {
            for version in &level.touched {
                let table = self.version(*version).table;
                if !heaps.contains(&table) {
                    heaps.push(table);
                }
            }
        }
        for rel in heaps {
            self.touch_heap(rel);
        }
    }

    /// The digests of those who wait name versions by rank and transactions by level: both may have
    /// changed.
    pub(super) fn touch_waiters(&mut self) {
        for session in self.sessions() {
            let Some(wait) = self.xact(session).wait else {
                continue;
            };
            // Row queues are held only by those who wait for the row's holders.
            let levels = self.xact(session).levels.iter();
            let queues = levels
                .flat_map(|level| &level.locks)
                .filter_map(|(tag, _)| matches!(tag, Tag::Tuple(..)).then_some(Key::Lock(*tag)));
            let mut keys: Vec<Key> = queues.collect();
            keys.extend([Key::Xact(session), Key::Session(session)]);
            keys.push(Key::Lock(wait.tag));
            for key in keys {
                if let Some(slot) = self.world.find(key) {
                    self.world.touch(slot);
                }
            }
        }
    }
}
