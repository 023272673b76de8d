//! The storage half of the server: one world, and what can be done to it.

use std::hash::Hash;

use rowlock_model::schedule::SessionId;

use super::object::{Key, Object, name};
use super::{Catalog, RelId, SessionState, VersionId};
use crate::database::{Footprint, Mark};
use crate::world::{Digest, World};

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
}

impl Server {
    pub(super) fn digest(&self, digest: &mut Digest) {
        // Recent commits count through the versions that carry them.
        self.now_micros.hash(digest);
        self.sessions.hash(digest);
    }
}

/// The storage half of a server. All state is in its world; all of it can be undone.
#[derive(Debug)]
pub struct Store {
    pub(super) world: World<Object>,
}

impl Store {
    /// An empty database whose clock shows `now_micros`.
    pub fn new(now_micros: i64) -> Store {
        let mut world = World::new();
        world.create(
            Some(Key::Server),
            Object::Server(Server {
                now_micros,
                sessions: 0,
                recent: Vec::new(),
            }),
        );
        world.create(Some(Key::Catalog), Object::Catalog(Catalog::default()));
        Store { world }
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
        self.world.fingerprint()
    }

    /// Starts recording a step's footprint.
    pub fn begin_footprint(&mut self) {
        self.world.footprint.begin();
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
    pub fn open_session(&mut self, state: SessionState) -> SessionId {
        todo!("{state:?}")
    }

    /// A session's state.
    pub fn session(&self, session: SessionId) -> &SessionState {
        todo!("{session:?}")
    }

    /// A session's state, to be changed.
    pub fn session_mut(&mut self, session: SessionId) -> &mut SessionState {
        todo!("{session:?}")
    }

    /// How many sessions were ever opened; they are numbered from 0.
    pub fn session_count(&self) -> u8 {
        todo!()
    }

    /// The schema. Recorded as a read of the whole catalogue.
    pub fn catalog(&mut self) -> &Catalog {
        self.world.footprint.read(name::CATALOG);
        todo!()
    }

    /// The schema, to be changed.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        todo!()
    }

    /// The server's clock; the step depends on it.
    pub fn now_micros(&mut self) -> i64 {
        self.world.footprint.read(name::CLOCK);
        todo!()
    }

    /// Moves the clock.
    pub fn set_now_micros(&mut self, now_micros: i64) {
        todo!("{now_micros}")
    }

    /// Grows with every commit that wrote something, and with the clock.
    pub fn committed_version(&self) -> u64 {
        self.world.counters().committed
    }

    /// Creates a sequence: its last value, and whether `nextval` has returned that already.
    pub fn create_sequence(&mut self, rel: RelId, last: i64, called: bool) {
        self.world.create(
            Some(Key::Sequence(rel)),
            Object::Sequence(rel, last, called),
        );
    }

    /// A sequence's last value, and whether `nextval` has returned that already.
    pub fn sequence(&mut self, rel: RelId) -> Option<(i64, bool)> {
        todo!("{rel:?}")
    }

    /// Sets a sequence. Not undone by a rollback of the transaction.
    pub fn set_sequence(&mut self, rel: RelId, last: i64, called: bool) {
        todo!("{rel:?} {last} {called}")
    }

    /// The rank of a version in its heap: canonical, unlike its id.
    pub fn rank(world: &World<Object>, version: VersionId) -> u64 {
        todo!("{world:?} {version:?}")
    }
}
