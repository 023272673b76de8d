//! All state of one simulated server: small typed objects that are reached through an access layer.
//!
//! The access layer gives four properties at once:
//!
//! * *copy*: an object is an `Rc` that is copied when first written after a mark;
//! * *undo*: that first write puts the old `Rc` on the undo log, and [`World::undo_to`] puts it back;
//! * *hash*: the fingerprint is the sum of one 128-bit digest an object, and only objects written
//!   since the last fingerprint are digested again;
//! * *footprint*: what was touched is recorded by name ([`Recorder`]).
//!
//! # UNDO
//!
//! The log holds, for each slot written in a mark's epoch, what the slot was before. A slot that is
//! written again in the same epoch is not logged again. Creating an object logs "nothing", removing
//! one logs the object; free slots are a stack, so that undoing in reverse order hands out the same
//! slots again. Slots are therefore deterministic, but they are not canonical: no digest contains
//! a slot number.
//!
//! # FINGERPRINT
//!
//! `sum` is always the sum of the digests that the slots carry; a slot on the dirty list carries a
//! stale one. Where the digest of one object depends on another (a version on the snapshots that see
//! it), whoever changes the other calls [`World::touch`] on the one.

mod digest;
mod footprint;

use std::cell::Cell;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

use rustc_hash::FxHashMap;

pub use self::digest::{Digest, Renaming};
pub use self::footprint::Recorder;
use crate::database::Mark;
use crate::trace::Tracer;

/// A typed object of a world.
pub trait Object: Clone + Debug {
    /// What names an object that can be looked up.
    type Key: Copy + Eq + Hash + Debug;
    /// Counters that belong to the state, are undone with it, and never enter the fingerprint
    /// (the next transaction id, the next item number).
    type Counters: Copy + Debug + Default + PartialEq;

    /// The canonical digest of this object in `world`; `None` if it is covered by another object's.
    fn digest(&self, world: &World<Self>) -> Option<u128>;

    /// Whether the digest has the number or the name of a session in it. Only a mistake in saying no
    /// does harm.
    fn names_sessions(&self, world: &World<Self>) -> bool {
        let _ = world;
        true
    }
}

/// The place of an object in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

#[derive(Clone, Debug)]
struct Place<O: Object> {
    object: Option<Rc<O>>,
    key: Option<O::Key>,
    digest: u128,
    dirty: bool,
    /// The epoch in which this place was last logged.
    logged: u64,
}

#[derive(Clone, Debug)]
enum Undo<O: Object> {
    Write(Slot, Rc<O>, u128, bool),
    Create(Slot),
    Remove(Slot, Rc<O>, Option<O::Key>, u128, bool),
    Counters(O::Counters),
}

/// More renamed digests than this are not kept.
const RENAMED_MAX: usize = 1 << 20;

/// The objects of one server.
#[derive(Clone, Debug)]
pub struct World<O: Object> {
    places: Vec<Place<O>>,
    free: Vec<Slot>,
    index: FxHashMap<O::Key, Slot>,
    counters: O::Counters,
    counters_logged: u64,
    log: Vec<Undo<O>>,
    /// Grows at every mark; in a cell because taking a mark changes nothing.
    epoch: Cell<u64>,
    sum: u128,
    dirty: Vec<Slot>,
    /// Whether numbers count that a program normally cannot see, and which object counts the
    /// counters.
    exact: Option<Slot>,
    /// Whether the order of rows is left out of digests, and the tables (by number) of which it was
    /// seen all the same.
    hides_order: bool,
    ordered: Vec<u32>,
    /// What digests become under renamings: follows from both, so it is remembered.
    renamed: FxHashMap<(u128, u32), u128>,
    /// The footprint of the current step.
    pub footprint: Recorder,
    /// What the current step does, row by row, if somebody wants to know.
    pub trace: Tracer,
}

impl<O: Object> Default for World<O> {
    fn default() -> Self {
        World {
            places: Vec::new(),
            free: Vec::new(),
            index: FxHashMap::default(),
            counters: O::Counters::default(),
            counters_logged: 0,
            log: Vec::new(),
            epoch: Cell::new(1),
            sum: 0,
            dirty: Vec::new(),
            exact: None,
            hides_order: false,
            ordered: Vec::new(),
            renamed: FxHashMap::default(),
            footprint: Recorder::default(),
            trace: Tracer::default(),
        }
    }
}

impl<O: Object> World<O> {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }

    /// The object in `slot`.
    ///
    /// # Panics
    /// If the slot is empty: a reference outlived its object.
    #[inline]
    pub fn read(&self, slot: Slot) -> &O {
        match &self.places[slot.0 as usize].object {
            Some(object) => object,
            None => panic!("{slot:?} is read after its removal"),
        }
    }

    /// The object in `slot`, shared: it stays as it is while the world goes on.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline]
    pub fn share(&self, slot: Slot) -> Rc<O> {
        match &self.places[slot.0 as usize].object {
            Some(object) => Rc::clone(object),
            None => panic!("{slot:?} is read after its removal"),
        }
    }

    /// The slot of the object called `key`.
    #[inline]
    pub fn find(&self, key: O::Key) -> Option<Slot> {
        self.index.get(&key).copied()
    }

    /// Whether the slot has an object (not necessarily the one that it had before).
    #[inline]
    pub fn is_present(&self, slot: Slot) -> bool {
        self.places[slot.0 as usize].object.is_some()
    }

    /// The object in `slot`, to be changed.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline]
    pub fn write(&mut self, slot: Slot) -> &mut O {
        self.touch(slot);
        match &mut self.places[slot.0 as usize].object {
            Some(object) => Rc::make_mut(object),
            None => panic!("{slot:?} is written after its removal"),
        }
    }

    /// Says that the digest of the object in `slot` has changed, or will.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        let place = &mut self.places[slot.0 as usize];
        if place.logged != self.epoch.get() {
            let Some(object) = &place.object else {
                panic!("{slot:?} is touched after its removal")
            };
            place.logged = self.epoch.get();
            let old = Rc::clone(object);
            self.log
                .push(Undo::Write(slot, old, place.digest, place.dirty));
        }
        if !place.dirty {
            place.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Adds an object, under a key if it shall be found by one.
    ///
    /// # Panics
    /// If the key is taken.
    pub fn create(&mut self, key: Option<O::Key>, object: O) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                object: None,
                key: None,
                digest: 0,
                dirty: false,
                logged: 0,
            });
            Slot(u32::try_from(self.places.len() - 1).expect("fewer than 2^32 objects"))
        });
        let place = &mut self.places[slot.0 as usize];
        place.object = Some(Rc::new(object));
        place.key = key;
        place.logged = self.epoch.get();
        debug_assert_eq!(place.digest, 0);
        if !place.dirty {
            place.dirty = true;
            self.dirty.push(slot);
        }
        if let Some(key) = key {
            let old = self.index.insert(key, slot);
            assert!(old.is_none(), "{key:?} is created twice");
        }
        self.log.push(Undo::Create(slot));
        slot
    }

    /// Takes an object away.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn remove(&mut self, slot: Slot) {
        let place = &mut self.places[slot.0 as usize];
        let Some(object) = place.object.take() else {
            panic!("{slot:?} is removed twice")
        };
        let key = place.key.take();
        self.log
            .push(Undo::Remove(slot, object, key, place.digest, place.dirty));
        self.sum = self.sum.wrapping_sub(place.digest);
        place.digest = 0;
        place.dirty = false;
        place.logged = 0;
        if let Some(key) = key {
            self.index.remove(&key);
        }
        self.free.push(slot);
    }

    /// The counters.
    #[inline]
    pub fn counters(&self) -> &O::Counters {
        &self.counters
    }

    /// The counters, to be changed.
    #[inline]
    pub fn counters_mut(&mut self) -> &mut O::Counters {
        if self.counters_logged != self.epoch.get() {
            self.counters_logged = self.epoch.get();
            self.log.push(Undo::Counters(self.counters));
        }
        &mut self.counters
    }

    /// The present position in the undo log. What is written from here on can be undone.
    pub fn mark(&self) -> Mark {
        self.epoch.set(self.epoch.get() + 1);
        Mark(self.log.len())
    }

    /// Puts every object back to what it was at `mark`.
    ///
    /// # Panics
    /// If `mark` lies ahead, being of a state that was undone.
    pub fn undo_to(&mut self, mark: Mark) {
        assert!(mark.0 <= self.log.len(), "a mark that was undone is used");
        while self.log.len() > mark.0 {
            match self.log.pop() {
                Some(Undo::Write(slot, object, digest, dirty)) => {
                    self.put_back(slot, object, digest, dirty);
                }
                Some(Undo::Create(slot)) => self.uncreate(slot),
                Some(Undo::Remove(slot, object, key, digest, dirty)) => {
                    let free = self.free.pop();
                    debug_assert_eq!(free, Some(slot));
                    self.put_back(slot, object, digest, dirty);
                    self.places[slot.0 as usize].key = key;
                    if let Some(key) = key {
                        self.index.insert(key, slot);
                    }
                }
                Some(Undo::Counters(counters)) => {
                    self.counters = counters;
                    self.soil_counting();
                }
                None => unreachable!("the length was checked"),
            }
        }
        // What was logged in the undone epoch must be logged again.
        self.epoch.set(self.epoch.get() + 1);
    }

    /// The object that counts the counters is to be digested again.
    fn soil_counting(&mut self) {
        if let Some(slot) = self.exact
            && !std::mem::replace(&mut self.places[slot.0 as usize].dirty, true)
        {
            self.dirty.push(slot);
        }
    }

    fn put_back(&mut self, slot: Slot, object: Rc<O>, digest: u128, dirty: bool) {
        let place = &mut self.places[slot.0 as usize];
        self.sum = self.sum.wrapping_sub(place.digest).wrapping_add(digest);
        place.object = Some(object);
        place.digest = digest;
        place.logged = 0;
        if dirty && !place.dirty {
            self.dirty.push(slot);
        }
        place.dirty = dirty;
    }

    fn uncreate(&mut self, slot: Slot) {
        let place = &mut self.places[slot.0 as usize];
        self.sum = self.sum.wrapping_sub(place.digest);
        place.object = None;
        place.digest = 0;
        place.dirty = false;
        place.logged = 0;
        if let Some(key) = place.key.take() {
            self.index.remove(&key);
        }
        self.free.push(slot);
    }

    /// Whether the fingerprint counts numbers (of transactions, of versions) instead of roles.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// From now on the fingerprint counts numbers, because some program can see them, and the object
    /// in `counting` has the counters in its digest. Is not undone: fingerprints taken before and
    /// after are not to be compared.
    pub fn set_exact(&mut self, counting: Slot) {
        if self.exact.replace(counting).is_none() {
            self.soil_all();
        }
    }

    /// Leaves the order of rows out of digests, or takes it in again. Not undone: fingerprints taken
    /// before and after are not to be compared.
    pub fn hide_order(&mut self, hides: bool) {
        if self.hides_order != hides {
            self.hides_order = hides;
            self.soil_all();
        }
    }

    /// Whether the order of the rows of a table is left out: it was not seen so far.
    #[inline]
    pub fn hides_order_of(&self, table: u32) -> bool {
        self.hides_order && self.exact.is_none() && !self.ordered.contains(&table)
    }

    /// Some program has seen the order of the rows of a table. Not undone.
    pub fn show_order_of(&mut self, table: u32) {
        if !self.ordered.contains(&table) {
            self.ordered.push(table);
            if self.hides_order {
                self.soil_all();
            }
        }
    }

    /// How many tables there are of which the order of rows was seen.
    pub fn orders_seen(&self) -> usize {
        self.ordered.len()
    }

    /// Every object is to be digested again.
    fn soil_all(&mut self) {
        self.renamed.clear();
        for entry in &mut self.log {
            if let Undo::Write(_, _, _, dirty) | Undo::Remove(_, _, _, _, dirty) = entry {
                *dirty = true;
            }
        }
        for (at, place) in self.places.iter_mut().enumerate() {
            if place.object.is_some() && !std::mem::replace(&mut place.dirty, true) {
                self.dirty.push(Slot(at as u32));
            }
        }
    }

    /// Forgets how to undo; frees the memory that this takes. Marks taken before become invalid.
    pub fn forget_undo(&mut self) {
        self.log.clear();
        self.epoch.set(self.epoch.get() + 1);
    }

    /// The canonical fingerprint of all objects.
    pub fn fingerprint(&mut self) -> u128 {
        while let Some(slot) = self.dirty.pop() {
            let place = &self.places[slot.0 as usize];
            if !place.dirty {
                continue;
            }
            let digest = match &place.object {
                Some(object) => object.digest(self).unwrap_or(0),
                None => 0,
            };
            let place = &mut self.places[slot.0 as usize];
            self.sum = self.sum.wrapping_sub(place.digest).wrapping_add(digest);
            place.digest = digest;
            place.dirty = false;
        }
        debug_assert!(self.stale().is_none(), "stale digest: {:?}", self.stale());
        self.sum
    }

    /// What the fingerprint would be if sessions had other numbers.
    pub fn fingerprint_renamed(&mut self, renaming: &Renaming) -> u128 {
        let mut sum = self.fingerprint();
        for at in 0..self.places.len() {
            let place = &self.places[at];
            let digest = place.digest;
            if digest != 0
                && place
                    .object
                    .as_deref()
                    .is_some_and(|o| o.names_sessions(self))
            {
                let renamed = self.digest_renamed(Slot(at as u32), renaming);
                sum = sum.wrapping_sub(digest).wrapping_add(renamed);
            }
        }
        sum
    }

    /// The digest of one object if sessions had other numbers; 0 if another object's covers it. Right
    /// only as long as no object was written since the last fingerprint.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn digest_renamed(&mut self, slot: Slot, renaming: &Renaming) -> u128 {
        let key = (self.places[slot.0 as usize].digest, renaming.number);
        if renaming.number != 0
            && let Some(known) = self.renamed.get(&key)
        {
            debug_assert_eq!(
                *known,
                renaming.within(|| self.read(slot).digest(self).unwrap_or(0)),
                "a digest that is remembered is another one now"
            );
            return *known;
        }
        let renamed = renaming.within(|| self.read(slot).digest(self).unwrap_or(0));
        if renaming.number != 0 {
            if self.renamed.len() >= RENAMED_MAX {
                self.renamed.clear();
            }
            self.renamed.insert(key, renamed);
        }
        renamed
    }

    /// An object that carries another digest than it should: somebody forgot to touch it.
    fn stale(&self) -> Option<&O> {
        let places = self.places.iter().filter(|place| !place.dirty);
        let mut objects = places.filter_map(|place| Some((place.object.as_deref()?, place.digest)));
        let stale = objects.find(|(object, kept)| object.digest(self).unwrap_or(0) != *kept);
        stale.map(|(object, _)| object)
    }

    /// The same fingerprint, computed without any digest that is kept. For tests.
    pub fn fingerprint_from_scratch(&self) -> u128 {
        self.objects()
            .filter_map(|(_, object)| object.digest(self))
            .fold(0, u128::wrapping_add)
    }

    /// Every object, in slot order (which is deterministic, not canonical).
    pub fn objects(&self) -> impl Iterator<Item = (Slot, &O)> {
        self.places.iter().enumerate().filter_map(|(i, place)| {
            let object = place.object.as_deref()?;
            Some((Slot(i as u32), object))
        })
    }
}
