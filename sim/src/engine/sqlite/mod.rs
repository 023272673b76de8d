#![doc = include_str!("README.md")]

mod audit;
mod choose;
mod database;
mod ddl;
mod exec;
mod footprint;
mod foreign_key;
mod image;
mod lock;
mod object;
mod pragma;
mod referential;
mod session;
mod statement;
mod tracing;
mod transaction;

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rustc_hash::FxHashMap;

use self::database::{Ids, Script};
use self::image::Schema;
pub use self::object::{Counters, Key, Object};
use self::object::{File, Inner};
use self::session::SessionState;
use crate::loose::plan::Plan;
use crate::world::{Slot, World};

/// What `sqlite_version()` says: the version that comes with the live sessions.
const VERSION: &str = "3.51.3";

/// Where the clock of a new machine stands: 2030-01-01 00:00:00 UTC.
const START_MICROS: i64 = 1_893_456_000_000_000;

/// One simulated database file, with the connections of all processes to it.
#[derive(Clone, Debug)]
pub struct Sqlite {
    world: World<Object>,
    file: Slot,
    clock: Slot,
    /// Prepared texts; they are no part of the state.
    prepared: Vec<Script>,
    /// Their texts.
    texts: Vec<Arc<str>>,
    ids: Ids,
    scripts: FxHashMap<Arc<str>, Script>,
    /// Plans of statements, by the statement's address, each for one schema.
    plans: FxHashMap<usize, (Rc<Schema>, Rc<Plan>)>,
}

impl Default for Sqlite {
    fn default() -> Sqlite {
        Sqlite::new(START_MICROS)
    }
}

impl Sqlite {
    /// An empty file with a rollback journal, on a machine whose clock shows `now_micros`.
    pub fn new(now_micros: i64) -> Sqlite {
        let mut world = World::new();
        let file = world.create(Some(Key::File), Object(Inner::File(File::default())));
        let clock = world.create(Some(Key::Clock), Object(Inner::Clock(now_micros)));
        Sqlite {
            world,
            file,
            clock,
            prepared: Vec::new(),
            texts: Vec::new(),
            ids: FxHashMap::default(),
            scripts: FxHashMap::default(),
            plans: FxHashMap::default(),
        }
    }

    /// The same with a write-ahead log (`PRAGMA journal_mode = wal`).
    #[must_use]
    pub fn with_log(mut self) -> Sqlite {
        self.file_mut().wal = true;
        self
    }

    fn file(&self) -> &File {
        match &self.world.read(self.file).0 {
            Inner::File(file) => file,
            _ => panic!("the file is in another place"),
        }
    }

    fn file_mut(&mut self) -> &mut File {
        match &mut self.world.write(self.file).0 {
            Inner::File(file) => file,
            _ => panic!("the file is in another place"),
        }
    }

    fn now(&self) -> i64 {
        match &self.world.read(self.clock).0 {
            Inner::Clock(now) => *now,
            _ => panic!("the clock is in another place"),
        }
    }

    fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        (0..self.world.counters().sessions).map(SessionId)
    }

    fn slot(&self, session: SessionId) -> Slot {
        match self.world.find(Key::Session(session)) {
            Some(slot) => slot,
            None => panic!("there is no session {}", session.0),
        }
    }

    fn session(&self, session: SessionId) -> &SessionState {
        match &self.world.read(self.slot(session)).0 {
            Inner::Session(_, state) => state,
            _ => panic!("the session is in another place"),
        }
    }

    fn session_mut(&mut self, session: SessionId) -> &mut SessionState {
        let slot = self.slot(session);
        match &mut self.world.write(slot).0 {
            Inner::Session(_, state) => state,
            _ => panic!("the session is in another place"),
        }
    }

    /// A commit makes snapshots old: what decides their fate has changed.
    fn touch_sessions(&mut self) {
        for session in self.sessions() {
            if self.session(session).snapshot.is_some() {
                let slot = self.slot(session);
                self.world.touch(slot);
            }
        }
    }
}
