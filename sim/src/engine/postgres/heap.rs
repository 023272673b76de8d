//! Tables: versions in the order in which they were appended.

use std::hash::Hash;
use std::ops::Deref;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};
use rustc_hash::FxHashMap;

use super::object::{Key, name};
use super::ssi::Filled;
use super::version::{Birth, Death, Hold, row_digest};
use super::{Entry, Holder, Object, RelId, Run, Snapshot, Store, Version, VersionId, Xid};
use crate::trace::Trace;
use crate::world::{Digest, Slot, World};

/// The versions of a table, in physical order.
#[derive(Clone, Debug)]
pub struct Heap {
    /// Which table.
    pub rel: RelId,
    /// Its versions.
    pub items: Vec<VersionId>,
    /// Its indexes.
    pub indexes: Vec<RelId>,
    /// How far it is filled.
    pub filled: Filled,
}

impl Heap {
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        digest.word(u64::from(self.rel.0));
        digest.word(self.items.len() as u64);
        for index in &self.indexes {
            // An index that was never used has no page; all else follows from the rows.
            if let Some(Object::Index(index)) =
                world.find(Key::Index(*index)).map(|slot| world.read(slot))
            {
                digest.word(u64::from(index.rooted));
            }
        }
        if world.hides_order_of(self.rel.0) {
            digest.wide(self.contents(world));
            return;
        }
        for item in &self.items {
            if let Object::Version(version) = world.read(*item) {
                version.digest(world, digest);
            }
        }
        // Chains keep their place for index scans: that order counts where it is another one.
        let root = |item: &VersionId| match world.read(*item) {
            Object::Version(version) => version.root,
            _ => 0,
        };
        if !self.items.is_sorted_by_key(root) {
            let mut order: Vec<usize> = (0..self.items.len()).collect();
            order.sort_by_key(|i| root(&self.items[*i]));
            order.hash(digest);
        }
    }

    /// All versions, in whatever order: each with the one that replaced it by name.
    fn contents(&self, world: &World<Object>) -> u128 {
        let versions = || {
            self.items
                .iter()
                .filter_map(|item| version_in(world, *item))
        };
        let mut equals: FxHashMap<u128, u64> = FxHashMap::default();
        let is_long = self.items.len() > 16;
        let mut sum = 0u128;
        for (at, version) in versions().enumerate() {
            let ordinal = match is_long {
                true => {
                    let count = equals.entry(version.row_digest).or_default();
                    *count += 1;
                    *count - 1
                }
                false => equals_among(versions().take(at), version.row_digest),
            };
            let mut digest = Digest::new(202);
            digest.word(ordinal);
            version.digest(world, &mut digest);
            sum = sum.wrapping_add(digest.finish128());
        }
        sum
    }

    /// A name of a version that does not depend on the order of rows: its row, and how many versions
    /// with an equal one lie before it. (Versions of one row follow each other in the order in which
    /// they replace each other.)
    fn name_of(&self, world: &World<Object>, id: VersionId, version: &Version) -> u64 {
        let before = self.items.iter().take_while(|item| **item != id);
        let before = before.filter_map(|item| version_in(world, *item));
        let mut digest = Digest::new(204);
        digest.wide(version.row_digest);
        digest.word(equals_among(before, version.row_digest));
        digest.finish128() as u64
    }

    /// Whether a version is made, held or ended by somebody, or known by who does not see it.
    pub(super) fn names_sessions(&self, world: &World<Object>) -> bool {
        let mut items = self.items.iter();
        items.any(|item| matches!(world.read(*item), Object::Version(v) if !v.is_at_rest()))
    }

    /// The rank of the version at a position.
    fn rank(&self, world: &World<Object>, position: u64) -> usize {
        self.items.partition_point(
            |item| matches!(world.read(*item), Object::Version(v) if v.position < position),
        )
    }
}

fn version_in(world: &World<Object>, id: VersionId) -> Option<&Version> {
    match world.read(id) {
        Object::Version(version) => Some(version),
        _ => None,
    }
}

fn equals_among<'a>(versions: impl Iterator<Item = &'a Version>, row_digest: u128) -> u64 {
    versions.filter(|v| v.row_digest == row_digest).count() as u64
}

/// The versions of a table as they were when a scan began; later changes do not show.
#[derive(Clone, Debug)]
pub struct Items(Rc<Object>);

impl Deref for Items {
    type Target = [VersionId];

    fn deref(&self) -> &[VersionId] {
        match &*self.0 {
            Object::Heap(heap) => &heap.items,
            _ => &[],
        }
    }
}

impl Store {
    /// Creates an empty table; gone again if the transaction of `session` is rolled back.
    ///
    /// # Panics
    /// If the number is taken, or no transaction is open.
    pub fn create_heap(&mut self, session: SessionId, rel: RelId) {
        self.world.footprint.write(name::CATALOG);
        self.world.create(
            Some(Key::Heap(rel)),
            Object::Heap(Heap {
                rel,
                items: Vec::new(),
                indexes: Vec::new(),
                filled: Filled::default(),
            }),
        );
        self.innermost(session).created.push(rel);
    }

    /// Drops a table (with its indexes) or an index or a sequence; takes place when the transaction
    /// of `session` commits.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn drop_relation(&mut self, session: SessionId, rel: RelId) {
        self.world.footprint.write(name::CATALOG);
        self.innermost(session).dropped.push(rel);
    }

    pub(super) fn innermost(&mut self, session: SessionId) -> &mut super::Level {
        match self.xact_mut(session).levels.last_mut() {
            Some(level) => level,
            None => panic!("{session:?} has no transaction"),
        }
    }

    /// Removes a relation with all that belongs to it.
    pub(super) fn remove_relation(&mut self, rel: RelId) {
        self.world.footprint.write(name::CATALOG);
        if let Some(slot) = self.world.find(Key::Heap(rel)) {
            let Object::Heap(heap) = self.world.read(slot) else {
                panic!("{rel:?} is not a table")
            };
            let (items, indexes) = (heap.items.clone(), heap.indexes.clone());
            for item in items {
                self.world.remove(item);
            }
            for index in indexes {
                self.remove_index(index);
            }
            self.world.remove(slot);
        }
        self.remove_index(rel);
        if let Some(slot) = self.world.find(Key::Sequence(rel)) {
            self.world.remove(slot);
        }
    }

    pub(super) fn heap_slot(&self, rel: RelId) -> Slot {
        match self.world.find(Key::Heap(rel)) {
            Some(slot) => slot,
            None => panic!("{rel:?} has no heap"),
        }
    }

    pub(super) fn heap(&self, rel: RelId) -> &Heap {
        match self.world.read(self.heap_slot(rel)) {
            Object::Heap(heap) => heap,
            other => panic!("{rel:?} is not a table but {other:?}"),
        }
    }

    pub(super) fn heap_mut(&mut self, rel: RelId) -> &mut Heap {
        let slot = self.heap_slot(rel);
        match self.world.write(slot) {
            Object::Heap(heap) => heap,
            other => panic!("{rel:?} is not a table but {other:?}"),
        }
    }

    /// All versions of a table in physical order, for a sequential scan: the step depends on every
    /// commit that writes the table.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn scan(&mut self, rel: RelId) -> Items {
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::table(rel));
        }
        self.note_order(rel);
        Items(self.world.share(self.heap_slot(rel)))
    }

    /// A name of a version that is canonical, unlike its id: its rank in its heap, or what its row says
    /// if the order of rows is hidden.
    pub fn rank(world: &World<Object>, version: VersionId) -> u64 {
        if world.is_present(version)
            && let Object::Version(found) = world.read(version)
            && world.hides_order_of(found.table.0)
            && let Some(heap) = world.find(Key::Heap(found.table))
            && let Object::Heap(heap) = world.read(heap)
        {
            return heap.name_of(world, version, found);
        }
        Store::place_in_order(world, version)
    }

    /// The rank of a version in its heap.
    pub(super) fn place_in_order(world: &World<Object>, version: VersionId) -> u64 {
        if !world.is_present(version) {
            return u64::MAX;
        }
        let Object::Version(version) = world.read(version) else {
            return u64::MAX;
        };
        match world.find(Key::Heap(version.table)).map(|h| world.read(h)) {
            Some(Object::Heap(heap)) => heap.rank(world, version.position) as u64,
            _ => u64::MAX,
        }
    }

    /// The `ctid` of a version, as page and item.
    pub fn ctid(&self, version: VersionId) -> (u32, u32) {
        self.version(version).place
    }

    /// Where the next row of a table goes: on its last page, if there is room. Places of rows that are
    /// gone are not used again, as long as nobody vacuums.
    fn next_place(&mut self, rel: RelId, row: &[Value]) -> (u32, u32) {
        let filled = self.heap_mut(rel).filled.with(row);
        self.heap_mut(rel).filled = filled;
        (filled.page, filled.items)
    }

    /// Whether a version is visible under a snapshot of `session`.
    pub fn visible(&self, session: SessionId, snapshot: &Snapshot, version: VersionId) -> bool {
        let version = self.version(version);
        let born = match version.birth {
            Birth::Settled => true,
            Birth::Committed(csn) => csn <= snapshot.csn,
            Birth::Running { owner, cid } => owner.session == session && cid < snapshot.cid,
        };
        if !born || version.death.is_some_and(|death| death.csn <= snapshot.csn) {
            return false;
        }
        let ended_by_self = |holder: &Holder| {
            holder.owner.session == session
                && holder.hold.command().is_some_and(|cid| cid < snapshot.cid)
        };
        !version.holders.iter().any(ended_by_self)
    }

    /// Whether a version is what a command sees that looks at the newest state: made by a committed
    /// transaction or by the session itself, and not ended by either. For properties (`None`), and
    /// for foreign keys, which look past a REPEATABLE READ snapshot.
    pub fn live(&self, session: Option<SessionId>, version: VersionId) -> bool {
        let version = self.version(version);
        let born = match version.birth {
            Birth::Settled | Birth::Committed(_) => true,
            Birth::Running { owner, .. } => Some(owner.session) == session,
        };
        let ended = |holder: &Holder| {
            Some(holder.owner.session) == session && holder.hold.command().is_some()
        };
        born && version.death.is_none() && !version.holders.iter().any(ended)
    }

    /// Appends a row in the command of `snapshot`. Its index entries are the caller's next business
    /// ([`index_insert`](Self::index_insert), for every index).
    ///
    /// # Panics
    /// If the journal has something else here, or no transaction is open.
    pub fn insert(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        rel: RelId,
        row: Row,
    ) -> VersionId {
        if let Some(entry) = run.replay() {
            let Entry::Insert(version) = entry else {
                panic!("the journal has {entry:?} where a row is inserted")
            };
            return version;
        }
        let version = self.append(run.session, snapshot.cid, rel, row, None);
        run.record(Entry::Insert(version));
        version
    }

    /// Appends a version, replacing `prev`.
    pub(super) fn append(
        &mut self,
        session: SessionId,
        cid: u32,
        rel: RelId,
        row: Row,
        prev: Option<VersionId>,
    ) -> VersionId {
        let xmin = self.ensure_xid(session);
        let owner = self.owner(session);
        let birth = Birth::Running { owner, cid };
        self.append_as(rel, row, birth, xmin, prev, session)
    }

    /// Says that a new version changed no indexed column: it belongs to the chain of `old`, if there
    /// was room for it on the same page.
    pub fn keep_chain(&mut self, old: VersionId, new: VersionId) {
        let root = self.version(old).root;
        if self.version(new).root != root && self.fits_beside(old, new) {
            self.version_mut(new).root = root;
        }
    }

    /// A TRUNCATE was rolled back: the table is filled as far as its rows go.
    pub(super) fn refill(&mut self, rel: RelId) {
        let items = self.heap(rel).items.iter();
        let mut rows: Vec<_> = items
            .map(|item| (self.version(*item).place, Row::clone(self.row(*item))))
            .collect();
        rows.sort_by_key(|(place, _)| *place);
        self.heap_mut(rel).filled = Filled::through(&rows);
    }

    fn append_as(
        &mut self,
        rel: RelId,
        row: Row,
        birth: Birth,
        xmin: Xid,
        prev: Option<VersionId>,
        session: SessionId,
    ) -> VersionId {
        let counters = self.world.counters_mut();
        counters.position += 1;
        let position = counters.position;
        self.number_handed_out();
        self.note_order(rel);
        if self.world.footprint.is_on() && !self.world.hides_order_of(rel.0) {
            self.world.footprint.write(name::tail(rel));
            self.world.footprint.write(name::row_lock(rel, position));
        }
        if self.world.trace.is_on() {
            let old = prev.map(|old| Row::clone(self.row(old)));
            let new = Some(Row::clone(&row));
            self.world.trace.push(Trace::Write {
                session,
                table: rel.0,
                old,
                new,
            });
        }
        let place = self.next_place(rel, &row);
        let version = Version {
            table: rel,
            position,
            root: position,
            row_digest: row_digest(&row),
            row,
            birth,
            xmin,
            holders: Vec::new(),
            death: None,
            speculative: false,
            next: None,
            prev,
            place,
            xmax: prev.and_then(|old| self.carried_xmax(old)),
        };
        let id = self.world.create(None, Object::Version(version));
        let heap = self.heap_mut(rel);
        heap.items.push(id);
        self.note_touched(session, id);
        id
    }

    /// Removes a version that nobody can see any more, with its index entries. What pointed to it
    /// points to its successor.
    pub(super) fn remove_version(&mut self, id: VersionId) {
        let version = self.version(id);
        let (rel, position) = (version.table, version.position);
        let (prev, next, death) = (version.prev, version.next, version.death);
        // Others may hold locks on a version whose maker rolls back, or replaced it itself.
        for holder in version.holders.clone() {
            self.forget_touched(holder.owner.session, id);
        }
        if let Some(next) = next {
            self.version_mut(next).prev = prev;
        }
        if let Some(prev) = prev {
            let prev = self.version_mut(prev);
            prev.next = next;
            if let Some(death) = death {
                prev.absorb(death);
            }
        }
        self.forget_awaited(id);
        let rank = self.heap(rel).rank(&self.world, position);
        let heap = self.heap_mut(rel);
        let removed = heap.items.remove(rank);
        debug_assert_eq!(removed, id);
        for at in 0..self.heap(rel).indexes.len() {
            let index = self.heap(rel).indexes[at];
            self.remove_entry(index, id);
        }
        self.world.remove(id);
    }

    /// Rewrites the stored columns of every version of a table, for `ALTER TABLE`. `None` leaves a
    /// row as it is. Undone if the transaction is rolled back. The caller holds AccessExclusive.
    pub fn rewrite(
        &mut self,
        session: SessionId,
        rel: RelId,
        mut change: impl FnMut(&[Value]) -> Option<Row>,
    ) {
        for item in self.scan(rel).iter() {
            let old = self.row(*item).clone();
            if let Some(row) = change(&old) {
                self.set_row(*item, row);
                self.innermost(session).rewritten.push((*item, old));
            }
        }
    }

    /// Removes all rows of a table (`TRUNCATE`): for the own transaction at once, for all others,
    /// whatever their snapshot, when it commits. The caller holds AccessExclusive.
    pub fn truncate(&mut self, session: SessionId, snapshot: &Snapshot, rel: RelId) {
        let xid = self.ensure_xid(session);
        let owner = self.owner(session);
        self.heap_mut(rel).filled = Filled::default();
        for item in self.scan(rel).iter() {
            let version = self.version_mut(*item);
            if version.ender().is_none() {
                version.add_holder(Holder {
                    owner,
                    xid,
                    hold: Hold::Delete(snapshot.cid),
                });
                self.note_touched(session, *item);
            }
            self.innermost(session).truncated.push(*item);
        }
    }
}

impl Version {
    /// The version that replaced this one is taken out of the chain: its end becomes part of this
    /// one's.
    fn absorb(&mut self, end: Death) {
        let strength = end.strength;
        if let Some(death) = &mut self.death {
            death.strength = death.strength.max(strength);
            death.moved |= end.moved;
            return;
        }
        for holder in &mut self.holders {
            if let Hold::Update(held, _) = &mut holder.hold {
                *held = (*held).max(strength);
            }
        }
    }
}
