//! The storage half of the server: one world, and what can be done to it.

use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rustc_hash::FxHashMap;

use super::object::{Key, Object, name};
use super::prepared::{FIRST_SEAT, is_seat};
use super::statement::Planned;
use super::{Catalog, Prepared, RelId, SessionState, Ssi, VersionId, Xact};
use crate::database::{Footprint, Mark, RowOrder};
use crate::numbers;
use crate::plan::types::Type;
use crate::plan::variables::Variables;
use crate::world::{Digest, Renaming, Slot, World};

/// What belongs to the server as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The clock: microseconds since 1970-01-01 00:00:00 UTC.
    pub now_micros: i64,
    /// The sessions that were opened, ended ones included.
    pub sessions: u8,
    /// Commits that some kept snapshot does not see, oldest first, with the versions that they made
    /// or ended.
    pub recent: Vec<(u64, Vec<VersionId>)>,
    /// The prepared transactions.
    pub prepared: Vec<Prepared>,
    /// The sessions that listen, in the order in which they began to.
    pub listeners: Vec<SessionId>,
}

impl Server {
    pub(super) fn digest(&self, digest: &mut Digest) {
        // Recent commits count through the versions that carry them.
        time_digest(self.now_micros, digest);
        self.sessions.hash(digest);
        self.digest_prepared(digest);
        self.listeners.hash(digest);
    }
}

/// How an instant enters the fingerprint: absolute, so far.
fn time_digest(micros: i64, digest: &mut Digest) {
    micros.hash(digest);
}

/// The storage half of a server. All state is in its world; all of it can be undone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) world: World<Object>,
    /// Where the state and the transaction of each session are, for those that were ever opened; an
    /// undone opening leaves a stale entry, which the next one replaces.
    slots: Vec<(Slot, Slot)>,
    /// Plans of the statements of functions; follows from what they were made of.
    bodies: FxHashMap<BodyKey, Rc<Planned>>,
    /// Whether anybody looks at the server's views.
    pub(super) has_viewers: bool,
    /// Whether statements pause before row locks.
    pub(super) pauses: bool,
    /// What the order of rows counts for.
    pub(super) row_order: RowOrder,
    /// What runs now does the same whatever the order of rows ([`crate::plan::is_blind`]).
    pub(super) is_blind: bool,
}

/// What the plan of a statement of a function follows from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BodyKey {
    pub(super) text: Arc<str>,
    pub(super) types: Vec<Type>,
    pub(super) variables: Variables,
    /// Names the schema.
    pub(super) stamp: u64,
}

/// More plans than this are not kept.
const MOST_BODIES: usize = 4_096;

const SERVER: Slot = Slot(0);
const CATALOG: Slot = Slot(1);

impl Store {
    /// An empty database whose clock shows `now_micros`.
    pub fn new(now_micros: i64) -> Store {
        let mut world: World<Object> = World::new();
        // The counter holds the last number that was given.
        world.counters_mut().xid = (numbers::POSTGRES_TRANSACTION.start - 1) as u32;
        let server = Server {
            now_micros,
            sessions: 0,
            recent: Vec::new(),
            prepared: Vec::new(),
            listeners: Vec::new(),
        };
        let slot = world.create(None, Object::Server(server));
        assert_eq!(slot, SERVER);
        let slot = world.create(None, Object::Catalog(Catalog::default()));
        assert_eq!(slot, CATALOG);
        let slot = world.create(None, Object::Ssi(Ssi::default()));
        assert_eq!(slot, super::ssi::SLOT);
        Store {
            world,
            slots: Vec::new(),
            bodies: FxHashMap::default(),
            has_viewers: false,
            pauses: false,
            row_order: RowOrder::Counts,
            is_blind: false,
        }
    }

    /// The plan of a statement of a function, if it was made before.
    pub(super) fn body_plan(&self, key: &BodyKey) -> Option<Rc<Planned>> {
        self.bodies.get(key).map(Rc::clone)
    }

    /// Keeps the plan of a statement of a function.
    pub(super) fn keep_body_plan(&mut self, key: BodyKey, planned: Rc<Planned>) {
        if self.bodies.len() >= MOST_BODIES {
            self.bodies.clear();
        }
        self.bodies.insert(key, planned);
    }

    /// See [`World::mark`].
    pub fn mark(&self) -> Mark {
        self.world.mark()
    }

    /// See [`World::undo_to`].
    pub fn undo_to(&mut self, mark: Mark) {
        self.world.undo_to(mark);
    }

    /// See [`World::fingerprint`].
    pub fn fingerprint(&mut self) -> u128 {
        self.ssi_touch();
        self.world.fingerprint()
    }

    /// Some program can see transaction ids or places of rows (`pg_current_xact_id`, `xmin`, `ctid`,
    /// ...): from now on numbers count in the fingerprint, and steps that hand them out depend on each
    /// other. Not undone.
    pub fn show_numbers(&mut self) {
        self.world.set_exact(SERVER);
    }

    /// A transaction id or a version's position was handed out, or a transaction id has ended.
    pub(super) fn number_handed_out(&mut self) {
        if self.world.is_exact() {
            self.world.touch(SERVER);
            self.world.footprint.write(name::XIDS);
        }
    }

    /// Starts recording a step's footprint.
    pub fn begin_footprint(&mut self) {
        self.world.footprint.begin();
    }

    /// Stops recording.
    pub fn end_footprint(&mut self) {
        self.world.footprint.off();
    }

    /// The footprint since [`begin_footprint`](Self::begin_footprint).
    pub fn footprint(&self) -> Footprint {
        self.world.footprint.footprint()
    }

    /// Says that the present step reads (or writes) something of the executor's own, by a name
    /// that it makes up.
    pub fn touch_name(&mut self, name: u64, write: bool) {
        if write {
            self.world.footprint.write(name);
        } else {
            self.world.footprint.read(name);
        }
    }

    /// Opens a session.
    ///
    /// # Panics
    /// If there are 192 already.
    pub fn open_session(&mut self, state: SessionState) -> SessionId {
        let server = self.server_mut();
        let session = SessionId(server.sessions);
        assert!(!is_seat(session), "fewer than {FIRST_SEAT} sessions");
        server.sessions += 1;
        let state = self
            .world
            .create(Some(Key::Session(session)), Object::Session(session, state));
        let xact = self
            .world
            .create(Some(Key::Xact(session)), Object::Xact(Xact::new(session)));
        self.slots.truncate(usize::from(session.0));
        self.slots.push((state, xact));
        session
    }

    /// A session's state.
    ///
    /// # Panics
    /// If it was never opened.
    pub fn session(&self, session: SessionId) -> &SessionState {
        match self.world.read(self.session_slot(session)) {
            Object::Session(_, state) => state,
            other => panic!("{session:?} is not a session but {other:?}"),
        }
    }

    /// A session's state, to be changed.
    ///
    /// # Panics
    /// If it was never opened.
    pub fn session_mut(&mut self, session: SessionId) -> &mut SessionState {
        let slot = self.session_slot(session);
        match self.world.write(slot) {
            Object::Session(_, state) => state,
            other => panic!("{session:?} is not a session but {other:?}"),
        }
    }

    fn session_slot(&self, session: SessionId) -> Slot {
        match self.slots.get(usize::from(session.0)) {
            Some((state, _)) => *state,
            None => panic!("{session:?} was never opened"),
        }
    }

    pub(super) fn xact_slot(&self, session: SessionId) -> Slot {
        match self.slots.get(usize::from(session.0)) {
            Some((_, xact)) => *xact,
            None if is_seat(session) => self.seat_slot(session),
            None => panic!("{session:?} was never opened"),
        }
    }

    /// How many sessions were ever opened; they are numbered from 0.
    pub fn session_count(&self) -> u8 {
        self.server().sessions
    }

    /// The digest of a session and its transaction.
    pub(super) fn session_digest(&mut self, session: SessionId, renaming: &Renaming) -> u128 {
        self.fingerprint();
        let (state, xact) = (self.session_slot(session), self.xact_slot(session));
        let state = self.world.digest_renamed(state, renaming);
        state.wrapping_add(self.world.digest_renamed(xact, renaming))
    }

    /// The schema. Recorded as a read of the whole catalogue.
    pub fn catalog(&mut self) -> &Catalog {
        self.world.footprint.read(name::CATALOG);
        self.catalog_unrecorded()
    }

    /// The schema, for reports and digests: not recorded.
    ///
    /// # Panics
    /// Never: the catalogue is always there.
    pub fn catalog_unrecorded(&self) -> &Catalog {
        match self.world.read(CATALOG) {
            Object::Catalog(catalog) => catalog,
            other => panic!("the catalogue is {other:?}"),
        }
    }

    /// The schema, to be changed.
    ///
    /// # Panics
    /// Never: the catalogue is always there.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        self.world.footprint.write(name::CATALOG);
        match self.world.write(CATALOG) {
            Object::Catalog(catalog) => catalog,
            other => panic!("the catalogue is {other:?}"),
        }
    }

    /// The server's clock; the step depends on it.
    pub fn now_micros(&mut self) -> i64 {
        self.world.footprint.read(name::CLOCK);
        self.server().now_micros
    }

    /// The server's clock, for reports: not recorded.
    pub fn now_unrecorded(&self) -> i64 {
        self.server().now_micros
    }

    /// Moves the clock.
    pub fn set_now_micros(&mut self, now_micros: i64) {
        self.world.footprint.write(name::CLOCK);
        self.server_mut().now_micros = now_micros;
        self.world.counters_mut().committed += 1;
    }

    /// Grows with every commit that wrote something, and with the clock.
    pub fn committed_version(&self) -> u64 {
        self.world.counters().committed
    }

    /// Creates a sequence: its last value, and whether `nextval` has returned that already. Gone
    /// again if the transaction of `session` is rolled back.
    ///
    /// # Panics
    /// If the number is taken, or no transaction is open.
    pub fn create_sequence(&mut self, session: SessionId, rel: RelId, last: i64, called: bool) {
        self.world.create(
            Some(Key::Sequence(rel)),
            Object::Sequence(rel, last, called),
        );
        self.innermost(session).created.push(rel);
    }

    /// A sequence's last value as a session sees it, and whether `nextval` has returned that already.
    pub fn sequence(&mut self, session: SessionId, rel: RelId) -> Option<(i64, bool)> {
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::sequence(rel));
        }
        let mut levels = self.xact(session).levels.iter().rev();
        let altered = levels.find_map(|level| level.sequences.get(&rel));
        if let Some(altered) = altered {
            return Some(*altered);
        }
        let slot = self.world.find(Key::Sequence(rel))?;
        match self.world.read(slot) {
            Object::Sequence(_, last, called) => Some((*last, *called)),
            _ => None,
        }
    }

    /// Sets a sequence. Not undone by a rollback of the transaction, unless that has altered it.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn set_sequence(&mut self, session: SessionId, rel: RelId, last: i64, called: bool) {
        let levels = self.xact(session).levels.iter();
        if levels.rev().any(|level| level.sequences.contains_key(&rel)) {
            let levels = self.xact_mut(session).levels.iter_mut().rev();
            let mut altered = levels.filter_map(|level| level.sequences.get_mut(&rel));
            if let Some(altered) = altered.next() {
                *altered = (last, called);
            }
            return;
        }
        self.put_sequence(rel, last, called);
    }

    /// Gives a sequence a new value that counts for others when the transaction commits, as
    /// `ALTER SEQUENCE` does. The caller holds a lock that keeps out `nextval`.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn alter_sequence(&mut self, session: SessionId, rel: RelId, last: i64, called: bool) {
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::sequence(rel));
        }
        let level = self.innermost(session);
        level.sequences.insert(rel, (last, called));
    }

    /// Sets a sequence for everybody.
    pub(super) fn put_sequence(&mut self, rel: RelId, last: i64, called: bool) {
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::sequence(rel));
        }
        let Some(slot) = self.world.find(Key::Sequence(rel)) else {
            panic!("{rel:?} is not a sequence")
        };
        *self.world.write(slot) = Object::Sequence(rel, last, called);
    }

    pub(super) fn server(&self) -> &Server {
        Store::server_in(&self.world)
    }

    pub(super) fn server_in(world: &World<Object>) -> &Server {
        match world.read(SERVER) {
            Object::Server(server) => server,
            other => panic!("the server is {other:?}"),
        }
    }

    pub(super) fn server_mut(&mut self) -> &mut Server {
        match self.world.write(SERVER) {
            Object::Server(server) => server,
            other => panic!("the server is {other:?}"),
        }
    }

    /// All sessions that were ever opened, then those who stand for prepared transactions.
    pub(super) fn sessions_in(world: &World<Object>) -> impl Iterator<Item = SessionId> + use<> {
        Store::server_in(world).everybody()
    }

    pub(super) fn xact_in(world: &World<Object>, session: SessionId) -> &Xact {
        let slot = world.find(Key::Xact(session));
        match slot.map(|slot| world.read(slot)) {
            Some(Object::Xact(xact)) => xact,
            _ => panic!("{session:?} was never opened"),
        }
    }
}
