//! Workers that were declared as identical may be exchanged: states that differ in nothing but who is
//! who are explored once.
//!
//! Of each class of identical processes, the members are put in the order of what is known of each
//! of them by itself (its history, its sessions, how they stand in the server). Then processes and
//! sessions are numbered in that order, and the state is known by its fingerprint under these
//! numbers. Whatever the order, equal fingerprints mean that one state is the other with its workers
//! exchanged; members that the order cannot tell apart cost states, never correctness.
//!
//! That is sound as long as nobody can see who is who: a process that looks at its name, a text that
//! may show sessions ([`Database::shows_sessions`]), an error that names them, or a monitor that
//! tells processes apart switches it off for the whole search.

use rowlock_model::schedule::{Choice, ProcessId, SessionId};

use rustc_hash::FxHashMap;

use super::hash::mix;
use super::world::{Line, Process, World};
use crate::database::{Database, Renaming};

/// The classes of identical processes, and the numbers of the present state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symmetry {
    /// Processes of each class, ascending; classes of one are left out.
    classes: Vec<Vec<usize>>,
    keys: Vec<(u128, usize)>,
    /// The numbers that are being worked out.
    naming: Naming,
    /// All numbers that states were known by.
    namings: Vec<(Naming, Renaming)>,
    numbers: FxHashMap<Naming, u32>,
    /// The place in `namings` of those of the last state.
    present: u32,
    met: Met,
    alone: Alone,
}

/// What states are known by that were met lately, by their own fingerprints: most steps lead to a
/// state that has been reached another way. A table of one place for each hash, so that it takes
/// no more memory than it is worth.
#[derive(Clone, Debug, Default)]
struct Met {
    places: Vec<(u128, u128, u32)>,
    filled: usize,
}

impl Met {
    /// Places at the beginning, and at the most.
    const SIZES: (usize, usize) = (1 << 9, 1 << 17);

    #[inline]
    fn find(&self, own: u128) -> Option<(u128, u32)> {
        let at = own as usize & self.places.len().checked_sub(1)?;
        let (found, known_as, naming) = self.places[at];
        (found == own && own != 0).then_some((known_as, naming))
    }

    fn remember(&mut self, own: u128, known_as: u128, naming: u32) {
        let size = self.places.len();
        if self.filled >= size && size < Met::SIZES.1 {
            let larger = (size * 2).max(Met::SIZES.0);
            let old = std::mem::replace(&mut self.places, vec![(0, 0, 0); larger]);
            for place in old {
                self.places[place.0 as usize & (larger - 1)] = place;
            }
        }
        self.filled += 1;
        let at = own as usize & (self.places.len() - 1);
        self.places[at] = (own, known_as, naming);
    }
}

/// Renamings that give one session the number 1 and all others 0. Their numbers go down from the
/// highest.
#[derive(Clone, Debug, Default)]
struct Alone {
    /// By session, with the process whose it was then.
    known: Vec<Option<(u8, Renaming)>>,
    made: u32,
}

impl Alone {
    fn of<D: Database>(
        &mut self,
        world: &World<D>,
        process: usize,
        server: SessionId,
    ) -> &Renaming {
        let at = usize::from(server.0);
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        let is_known = matches!(&self.known[at], Some((of, _)) if usize::from(*of) == process);
        if !is_known {
            let number = u32::MAX - self.made;
            self.made += 1;
            self.known[at] = Some((process as u8, world.only(process, server, number)));
        }
        match &self.known[at] {
            Some((_, renaming)) => renaming,
            None => unreachable!("it was just made"),
        }
    }
}

/// New numbers of processes and sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Naming {
    process: Vec<u8>,
    line: Vec<u8>,
}

impl Naming {
    fn is_identity(&self) -> bool {
        let same = |numbers: &[u8]| {
            numbers
                .iter()
                .enumerate()
                .all(|(at, n)| usize::from(*n) == at)
        };
        same(&self.process) && same(&self.line)
    }

    fn make_identity(&mut self) {
        for numbers in [&mut self.process, &mut self.line] {
            for (at, number) in numbers.iter_mut().enumerate() {
                *number = at as u8;
            }
        }
    }

    /// A choice under these numbers.
    pub(crate) fn rename(&self, choice: Choice) -> Choice {
        let process = |p: ProcessId| ProcessId(self.process[usize::from(p.0)]);
        let session = |s: SessionId| SessionId(self.line[usize::from(s.0)]);
        renamed(choice, process, session)
    }

    /// A choice that these numbers have turned into `choice`.
    pub(crate) fn rename_back(&self, choice: Choice) -> Choice {
        let back = |numbers: &[u8], new: u8| {
            numbers
                .iter()
                .position(|n| *n == new)
                .expect("every number is somebody's") as u8
        };
        let process = |p: ProcessId| ProcessId(back(&self.process, p.0));
        let session = |s: SessionId| SessionId(back(&self.line, s.0));
        renamed(choice, process, session)
    }
}

fn renamed(
    choice: Choice,
    process: impl Fn(ProcessId) -> ProcessId,
    session: impl Fn(SessionId) -> SessionId,
) -> Choice {
    match choice {
        Choice::Step(p, r) => Choice::Step(process(p), r),
        Choice::Resume(s) => Choice::Resume(session(s)),
        Choice::Continue(s) => Choice::Continue(session(s)),
        Choice::Route(s, backend) => Choice::Route(session(s), backend),
        Choice::Deadlock(s) => Choice::Deadlock(session(s)),
        Choice::Expire(s) => Choice::Expire(session(s)),
        Choice::Crash(p) => Choice::Crash(process(p)),
        Choice::Notice(s) => Choice::Notice(session(s)),
        Choice::Kill(s) => Choice::Kill(session(s)),
        Choice::Lose(p, r, loss) => Choice::Lose(process(p), r, loss),
        Choice::Late(s) => Choice::Late(session(s)),
        Choice::Advance(by) => Choice::Advance(by),
        Choice::Cancel(p, r) => Choice::Cancel(process(p), r),
    }
}

impl Symmetry {
    /// The classes of a world; `None` if there are none, or if somebody can see who is who.
    pub(crate) fn of<D: Database>(world: &World<D>) -> Option<Symmetry> {
        world.may_exchange().then(|| Symmetry::declared(world))?
    }

    /// The classes as declared, whoever may see what.
    fn declared<D: Database>(world: &World<D>) -> Option<Symmetry> {
        let mut classes: Vec<Vec<usize>> = vec![Vec::new(); world.tries.len()];
        for (process, actor) in world.actors.iter().enumerate() {
            classes[actor.trie].push(process);
        }
        classes.retain(|class| class.len() > 1);
        let symmetry = Symmetry {
            classes,
            naming: Naming {
                process: (0..world.actors.len()).map(|p| p as u8).collect(),
                line: Vec::new(),
            },
            ..Symmetry::default()
        };
        (!symmetry.classes.is_empty()).then_some(symmetry)
    }

    /// The numbers under which the last state was known.
    pub(crate) fn naming(&self) -> &Naming {
        match self.namings.get(self.present as usize) {
            Some((naming, _)) => naming,
            None => &self.naming,
        }
    }

    /// Before a search starts again, by other rules.
    pub(crate) fn start_again(&mut self) {
        self.met = Met::default();
    }

    /// The fingerprint of the present state with its workers in order.
    pub(crate) fn fingerprint<D: Database>(&mut self, world: &mut World<D>) -> u128 {
        let own = world.fingerprint();
        if let Some((known_as, naming)) = self.met.find(own) {
            self.present = naming;
            return known_as;
        }
        let known_as = self.work_out(world, own);
        self.met.remember(own, known_as, self.present);
        known_as
    }

    fn work_out<D: Database>(&mut self, world: &mut World<D>, own: u128) -> u128 {
        for class in &self.classes {
            self.keys.clear();
            for process in class {
                self.keys
                    .push((world.colour(*process, &mut self.alone), *process));
            }
            self.keys.sort_unstable();
            for (place, (_, process)) in class.iter().zip(&self.keys) {
                self.naming.process[*process] = *place as u8;
            }
        }
        let Naming { process, line } = &mut self.naming;
        world.number_lines(process, line);
        self.number(world);
        if self.naming.is_identity() {
            return own;
        }
        let (naming, renaming) = &self.namings[self.present as usize];
        world.fingerprint_as(naming, renaming).unwrap_or_else(|| {
            self.naming.make_identity();
            self.number(world);
            own
        })
    }

    /// Looks the present numbers up, or keeps them.
    fn number<D: Database>(&mut self, world: &World<D>) {
        self.present = match self.numbers.get(&self.naming) {
            Some(number) => *number,
            None => {
                let number = self.namings.len() as u32;
                let mut renaming = world.rename_server(&self.naming);
                renaming.number = number + 1;
                self.namings.push((self.naming.clone(), renaming));
                self.numbers.insert(self.naming.clone(), number);
                number
            }
        };
    }

    /// What a finished run comes to: the least fingerprint over all ways to exchange workers.
    pub(crate) fn outcome<D: Database>(world: &mut World<D>) -> u128 {
        match Symmetry::declared(world) {
            Some(mut symmetry) => symmetry.least_outcome(world),
            None => world.outcome_hash(),
        }
    }

    fn least_outcome<D: Database>(&mut self, world: &mut World<D>) -> u128 {
        let mut least = u128::MAX;
        self.naming.make_identity();
        let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
        for class in &self.classes {
            let before = std::mem::take(&mut orders);
            for order in permutations(class) {
                orders.extend(before.iter().map(|b| [b.as_slice(), &order].concat()));
            }
        }
        for order in orders {
            for (place, process) in self.classes.iter().flatten().zip(order) {
                self.naming.process[process] = *place as u8;
            }
            let Naming { process, line } = &mut self.naming;
            world.number_lines(process, line);
            let outcome = world.outcome_as(&self.naming);
            least = least.min(outcome);
        }
        least
    }
}

/// Every order of a few things.
fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    let [first, rest @ ..] = of else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for shorter in permutations(rest) {
        for at in 0..=shorter.len() {
            let mut order = shorter.clone();
            order.insert(at, *first);
            all.push(order);
        }
    }
    all
}

impl<D: Database> World<D> {
    /// Whether nobody has seen who is who, so far.
    pub(crate) fn may_exchange(&self) -> bool {
        !self.tells_apart
            && !self.db.shows_sessions()
            // Histories are kept by process.
            && self.serial.is_none()
            && self.history.is_none()
            && self.monitors.iter().all(|monitor| monitor.is_symmetric())
    }

    /// What is known of a process by itself.
    fn colour(&mut self, process: usize, alone: &mut Alone) -> u128 {
        const OWN_LINE: u64 = 20;
        let mut sum = self.processes[process].hash(0);
        let now = self.db.now_micros();
        let timers = self
            .timers
            .iter()
            .filter(|t| usize::from(t.process) == process);
        for timer in timers {
            sum = sum.wrapping_add(timer.hash(0, now));
        }
        let line = self.lines.get(process).copied();
        if self.has_one_each() && line == Some(Line::open(process, 0)) {
            // All open sessions are alike.
            let server = self.server_id(process);
            let alone = alone.of(self, process, server);
            let server = self.db.session_colour(server, alone);
            return sum.wrapping_add(server);
        }
        let mut local = 0;
        for at in 0..self.lines.len() {
            let line = self.lines[at];
            if usize::from(line.process) != process {
                continue;
            }
            local += 1;
            let server = self.server_id(at);
            let alone = alone.of(self, process, server);
            let server = self.db.session_colour(server, alone);
            let own = Line { process: 0, ..line }.hash(local);
            sum = sum.wrapping_add(own).wrapping_add(mix(
                OWN_LINE + local as u64,
                server as u64,
                (server >> 64) as u64,
            ));
        }
        sum
    }

    /// Gives a session the number 1, and all others 0.
    fn only(&self, process: usize, server: SessionId, number: u32) -> Renaming {
        let mut renaming = Renaming {
            number,
            sessions: vec![0; 256],
            texts: Vec::new(),
        };
        renaming.sessions[usize::from(server.0)] = 1;
        self.name_sessions(process, &"".into(), &mut renaming);
        renaming
    }

    /// Numbers sessions in the order of their processes' numbers.
    fn number_lines(&self, process: &[u8], line: &mut Vec<u8>) {
        line.clear();
        if self.has_one_each() {
            line.extend_from_slice(process);
            return;
        }
        let number = |at: usize| (process[usize::from(self.lines[at].process)], at);
        for at in 0..self.lines.len() {
            let mine = number(at);
            let before = (0..self.lines.len()).filter(|other| number(*other) < mine);
            line.push(before.count() as u8);
        }
    }

    /// The names of a process's clients stand for those of another.
    fn name_sessions(&self, process: usize, new: &std::sync::Arc<str>, renaming: &mut Renaming) {
        let actor = &self.actors[process];
        renaming.texts.push((actor.name.clone(), new.clone()));
        for local in 1..actor.sessions {
            let name = |of: &str| format!("{of}/{}", local + 1).into();
            renaming.texts.push((name(&actor.name), name(new)));
        }
    }

    fn rename_server(&self, naming: &Naming) -> Renaming {
        let mut all = Renaming::default();
        let renaming = &mut all;
        renaming.sessions.extend(0..self.base);
        let lines = naming.line.iter().map(|line| self.base + line);
        renaming.sessions.extend(lines);
        for (process, new) in naming.process.iter().enumerate() {
            if process != usize::from(*new) {
                let name = self.actors[usize::from(*new)].name.clone();
                self.name_sessions(process, &name, renaming);
            }
        }
        all
    }

    /// The fingerprint under other numbers.
    fn fingerprint_as(&mut self, naming: &Naming, renaming: &Renaming) -> Option<u128> {
        let server = self.db.fingerprint_renamed(renaming)?;
        Some(self.fingerprint_numbered(server, &naming.process, &naming.line))
    }

    /// What a finished run comes to, under other numbers.
    fn outcome_as(&mut self, naming: &Naming) -> u128 {
        let renaming = &self.rename_server(naming);
        let server = self.without_row_order(|db| db.fingerprint_renamed(renaming));
        let server = server.unwrap_or(0);
        let phase = |(at, process): (usize, &Process)| {
            mix(2, u64::from(naming.process[at]), process.phase as u64)
        };
        let phases = self.processes.iter().enumerate().map(phase);
        phases.fold(
            mix(1, server as u64, (server >> 64) as u64),
            u128::wrapping_add,
        )
    }
}

#[cfg(test)]
mod tests {
    use rowlock_model::schedule::RequestId;

    use super::*;

    #[test]
    fn choices_are_renamed_there_and_back() {
        let naming = Naming {
            process: vec![2, 0, 1],
            line: vec![1, 2, 0],
        };
        assert!(!naming.is_identity());
        let choice = Choice::Step(ProcessId(0), RequestId(7));
        let new = Choice::Step(ProcessId(2), RequestId(7));
        assert_eq!(naming.rename(choice), new);
        assert_eq!(naming.rename_back(new), choice);
        let resume = Choice::Resume(SessionId(2));
        assert_eq!(naming.rename_back(naming.rename(resume)), resume);
    }

    #[test]
    fn every_order_comes_once() {
        let mut all = permutations(&[1, 2, 3, 4]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 24);
    }
}
