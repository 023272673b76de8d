//! What steps touch, and which steps commute: footprints by number, and sets of choices by number.
//!
//! A step touches objects of the server, which the engine names ([`Footprint`]), and objects of the
//! explorer: processes, budgets, the numbering of sessions, monitors. Two steps that do not conflict
//! in either commute.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::graph::Packed;
use crate::database::Footprint;

/// A footprint by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FootprintId(u32);

impl FootprintId {
    /// Conflicts with every footprint.
    pub(crate) const EVERYTHING: FootprintId = FootprintId(0);

    /// The number.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An object of the explorer that steps read and write, as part of a footprint. The names lie where
/// an engine's names hardly ever do; if they meet, steps look dependent that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// A process with its requests, its sessions and its timers.
    Process(usize),
    /// How many faults of a kind may still happen.
    Budget(Fault),
    /// The numbering of sessions.
    Sessions,
    /// The state of a monitor.
    Monitor(usize),
    /// What time it is, for sleeps that begin and for code that looks at its clock.
    Time,
}

/// Kinds of faults that have a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    Kill,
    Loss,
    Cancel,
}

const OWN: u64 = 0xf0f0_f0f0;

impl Own {
    /// The name in a footprint.
    pub(crate) fn name(self) -> u64 {
        let (kind, at) = match self {
            Own::Process(at) => (1, at),
            Own::Budget(fault) => (2, fault as usize),
            Own::Sessions => (3, 0),
            Own::Monitor(at) => (4, at),
            Own::Time => (5, 0),
        };
        OWN << 32 | kind << 24 | at as u64
    }

    /// Whether this is the name of a monitor's state.
    pub(crate) fn is_monitor(name: u64) -> bool {
        name >> 24 == (Own::Monitor(0).name() >> 24)
    }

    /// Whether this is the name of a budget.
    pub(crate) fn is_budget(name: u64) -> bool {
        name >> 24 == (Own::Budget(Fault::Crash).name() >> 24)
    }
}

/// Footprints that were met, numbered, and what is known of their conflicts.
#[derive(Debug)]
pub(crate) struct Footprints {
    list: Vec<Rc<Footprint>>,
    numbers: FxHashMap<Rc<Footprint>, FootprintId>,
    /// Pairs asked for so far; the smaller number first.
    conflicts: FxHashMap<(FootprintId, FootprintId), bool>,
}

impl Footprints {
    pub(crate) fn new() -> Footprints {
        Footprints {
            // The first number stands for "everything"; what it holds is never looked at.
            list: vec![Rc::default()],
            numbers: FxHashMap::default(),
            conflicts: FxHashMap::default(),
        }
    }

    /// The number of a footprint.
    pub(crate) fn number(&mut self, footprint: Footprint) -> FootprintId {
        if let Some(known) = self.numbers.get(&footprint) {
            return *known;
        }
        let id = FootprintId(self.list.len() as u32);
        let footprint = Rc::new(footprint);
        self.list.push(Rc::clone(&footprint));
        self.numbers.insert(footprint, id);
        id
    }

    /// The footprint with a number; not to be asked of [`FootprintId::EVERYTHING`].
    pub(crate) fn get(&self, id: FootprintId) -> &Footprint {
        &self.list[id.0 as usize]
    }

    /// Whether steps with these footprints depend on each other.
    pub(crate) fn conflict(&mut self, a: FootprintId, b: FootprintId) -> bool {
        if a == FootprintId::EVERYTHING || b == FootprintId::EVERYTHING {
            return true;
        }
        let pair = (a.min(b), a.max(b));
        if let Some(known) = self.conflicts.get(&pair) {
            return *known;
        }
        let conflict = self.get(a).conflicts(self.get(b));
        self.conflicts.insert(pair, conflict);
        conflict
    }

    /// Bytes in use, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        (self.list.len() * 200 + self.conflicts.capacity() * 16) as u64
    }
}

/// A set of choices by number; 0 is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SleepId(u32);

impl SleepId {
    /// Nothing sleeps.
    pub(crate) const NOTHING: SleepId = SleepId(0);
}

/// Sets of choices that were met, numbered.
#[derive(Debug)]
pub(crate) struct SleepSets {
    list: Vec<Rc<[Packed]>>,
    numbers: FxHashMap<Rc<[Packed]>, SleepId>,
}

impl SleepSets {
    pub(crate) fn new() -> SleepSets {
        let empty: Rc<[Packed]> = Rc::new([]);
        SleepSets {
            list: vec![Rc::clone(&empty)],
            numbers: FxHashMap::from_iter([(empty, SleepId::NOTHING)]),
        }
    }

    /// The number of a set, given ascending.
    pub(crate) fn number(&mut self, set: &[Packed]) -> SleepId {
        if let Some(known) = self.numbers.get(set) {
            return *known;
        }
        let id = SleepId(self.list.len() as u32);
        let set: Rc<[Packed]> = set.into();
        self.list.push(Rc::clone(&set));
        self.numbers.insert(set, id);
        id
    }

    /// The set with a number, ascending.
    pub(crate) fn get(&self, id: SleepId) -> Rc<[Packed]> {
        Rc::clone(&self.list[id.0 as usize])
    }

    /// Bytes in use, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        self.list.len() as u64 * 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_those_of_the_footprints() {
        let mut all = Footprints::new();
        let mut number = |reads: &[u64], writes: &[u64]| {
            all.number(Footprint {
                reads: reads.to_vec(),
                writes: writes.to_vec(),
            })
        };
        let (reader, writer, other) = (number(&[11], &[]), number(&[], &[11]), number(&[], &[12]));
        assert_eq!(reader, number(&[11], &[]));
        assert!(all.conflict(reader, writer));
        assert!(all.conflict(writer, writer));
        assert!(!all.conflict(reader, reader));
        assert!(!all.conflict(reader, other));
        assert!(all.conflict(FootprintId::EVERYTHING, other));
    }
}
