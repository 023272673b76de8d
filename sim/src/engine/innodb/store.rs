//! The state of the server behind its access layer.

use std::rc::Rc;

use rowlock_model::Isolation;
use rowlock_model::schedule::SessionId;

use super::catalog::Schema;
use super::flavour::Flavour;
use super::key::{Key as RecordKey, Pos};
use super::lock::{RecordLock, RecordLocks};
use super::metadata::Metadata;
use super::object::{Key, Object, Server, name};
use super::records::{Record, Records};
use super::session::{SessionState, Settings};
use super::shape::{IndexId, Shape};
use super::trx::Trx;
use super::user_lock::UserLocks;
use crate::database::{Footprint, Mark};
use crate::loose::catalog::TableId;
use crate::world::{Slot, World};

/// All state of one server. Everything that reads or writes it goes through here, so that undo, footprints
/// and the fingerprint see it.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which server.
    pub flavour: Flavour,
    /// The name of the one database.
    pub database: std::sync::Arc<str>,
    pub(super) world: World<Object>,
    server: Slot,
    schema: Slot,
    metadata: Slot,
    user_locks: Slot,
    /// Whether statements pause before record locks; no part of the state.
    pub(super) pauses: bool,
}

/// The object in a slot is of another kind than its key says: our mistake.
#[cold]
fn mixed_up(object: &Object) -> ! {
    panic!("an object of another kind was expected: {object:?}")
}

impl Store {
    /// An empty server whose clock shows `now_micros`.
    pub fn new(flavour: Flavour, database: &str, now_micros: i64) -> Store {
        let mut world = World::new();
        let server = world.create(
            None,
            Object::Server(Server {
                now_micros,
                history: Vec::new(),
                globals: Rc::new(Settings::new(flavour, Isolation::RepeatableRead)),
            }),
        );
        let schema = world.create(None, Object::Schema(Schema::default()));
        let metadata = world.create(None, Object::Metadata(Metadata::default()));
        let user_locks = world.create(None, Object::UserLocks(UserLocks::default()));
        Store {
            flavour,
            database: database.into(),
            world,
            server,
            schema,
            metadata,
            user_locks,
            pauses: false,
        }
    }

    // --- sessions and transactions

    /// Opens a session.
    pub fn open_session(&mut self, state: SessionState) -> SessionId {
        let id = SessionId(u8::try_from(self.session_count()).expect("fewer than 256 sessions"));
        let (key, trx) = (Key::Session(id), Key::Trx(id));
        self.world
            .create(Some(key), Object::Session(id, Box::new(state)));
        self.world.create(Some(trx), Object::Trx(Trx::new(id)));
        id
    }

    /// How many sessions were opened.
    pub fn session_count(&self) -> usize {
        (0..=u8::MAX)
            .take_while(|id| self.world.find(Key::Session(SessionId(*id))).is_some())
            .count()
    }

    /// All sessions, ascending.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        (0..self.session_count()).map(|id| SessionId(id as u8))
    }

    fn slot(&self, key: Key) -> Slot {
        match self.world.find(key) {
            Some(slot) => slot,
            None => panic!("{key:?} does not exist"),
        }
    }

    /// A session.
    pub fn session(&self, id: SessionId) -> &SessionState {
        match self.world.read(self.slot(Key::Session(id))) {
            Object::Session(_, state) => state,
            other => mixed_up(other),
        }
    }

    /// A session, to be changed.
    pub fn session_mut(&mut self, id: SessionId) -> &mut SessionState {
        let slot = self.slot(Key::Session(id));
        match self.world.write(slot) {
            Object::Session(_, state) => state,
            other => mixed_up(other),
        }
    }

    /// A session's transaction.
    pub fn trx(&self, id: SessionId) -> &Trx {
        match self.world.read(self.slot(Key::Trx(id))) {
            Object::Trx(trx) => trx,
            other => mixed_up(other),
        }
    }

    /// A session's transaction, to be changed.
    pub fn trx_mut(&mut self, id: SessionId) -> &mut Trx {
        let slot = self.slot(Key::Trx(id));
        match self.world.write(slot) {
            Object::Trx(trx) => trx,
            other => mixed_up(other),
        }
    }

    /// The server as a session has it: `innodb_snapshot_isolation` is a setting of the session.
    pub fn flavour_of(&self, session: SessionId) -> Flavour {
        let on = self.session(session).settings.snapshot_isolation;
        self.flavour.with_snapshot_isolation(on)
    }

    // --- the server

    /// The clock, for what a client can see of it.
    pub fn now_micros(&mut self) -> i64 {
        self.world.footprint.read(name::CLOCK);
        self.now_unrecorded()
    }

    /// The clock.
    pub fn now_unrecorded(&self) -> i64 {
        self.server().now_micros
    }

    /// Moves the clock.
    pub fn set_now_micros(&mut self, now_micros: i64) {
        self.world.footprint.write(name::CLOCK);
        self.server_mut().now_micros = now_micros;
        self.world.counters_mut().committed += 1;
    }

    /// The variables of the server.
    pub fn globals(&self) -> &Settings {
        &self.server().globals
    }

    /// The variables of the server, to be changed.
    pub fn globals_mut(&mut self) -> &mut Settings {
        self.world.footprint.write(name::GLOBALS);
        self.world.counters_mut().committed += 1;
        Rc::make_mut(&mut self.server_mut().globals)
    }

    /// Says that the step depends on the variables of the server.
    pub fn reads_globals(&mut self) {
        self.world.footprint.read(name::GLOBALS);
    }

    pub(super) fn server(&self) -> &Server {
        match self.world.read(self.server) {
            Object::Server(server) => server,
            other => mixed_up(other),
        }
    }

    pub(super) fn server_mut(&mut self) -> &mut Server {
        match self.world.write(self.server) {
            Object::Server(server) => server,
            other => mixed_up(other),
        }
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        match self.world.read(self.schema) {
            Object::Schema(schema) => schema,
            other => mixed_up(other),
        }
    }

    /// The schema, to be changed.
    pub fn schema_mut(&mut self) -> &mut Schema {
        self.world.footprint.write(name::SCHEMA);
        self.world.counters_mut().committed += 1;
        match self.world.write(self.schema) {
            Object::Schema(schema) => schema,
            other => mixed_up(other),
        }
    }

    /// Says that the step depends on the schema.
    pub fn reads_schema(&mut self) {
        self.world.footprint.read(name::SCHEMA);
    }

    /// How a table is stored.
    ///
    /// # Panics
    /// If there is no such table: statements hold metadata locks of what they use.
    pub fn shape(&self, table: TableId) -> Rc<Shape> {
        match self.schema().shape(table) {
            Some(shape) => Rc::clone(shape),
            None => panic!("{table:?} was dropped under a statement that uses it"),
        }
    }

    pub(super) fn metadata(&self) -> &Metadata {
        match self.world.read(self.metadata) {
            Object::Metadata(metadata) => metadata,
            other => mixed_up(other),
        }
    }

    pub(super) fn metadata_mut(&mut self) -> &mut Metadata {
        match self.world.write(self.metadata) {
            Object::Metadata(metadata) => metadata,
            other => mixed_up(other),
        }
    }

    pub(super) fn user_locks(&self) -> &UserLocks {
        match self.world.read(self.user_locks) {
            Object::UserLocks(locks) => locks,
            other => mixed_up(other),
        }
    }

    pub(super) fn user_locks_mut(&mut self) -> &mut UserLocks {
        match self.world.write(self.user_locks) {
            Object::UserLocks(locks) => locks,
            other => mixed_up(other),
        }
    }

    // --- indexes

    /// Makes an index: no records, no locks.
    pub fn create_index(&mut self, table: TableId, index: IndexId) {
        let records = Object::Records(Records::new(index, table));
        self.world.create(Some(Key::Records(index)), records);
        let locks = Object::Locks(RecordLocks::new(index));
        self.world.create(Some(Key::Locks(index)), locks);
    }

    /// Takes an index away.
    pub fn drop_index(&mut self, index: IndexId) {
        for key in [Key::Records(index), Key::Locks(index)] {
            let slot = self.slot(key);
            self.world.remove(slot);
        }
    }

    /// The records of an index. Whoever looks at one says so by [`reads`](Self::reads) and the like.
    pub fn records(&self, index: IndexId) -> &Records {
        match self.world.read(self.slot(Key::Records(index))) {
            Object::Records(records) => records,
            other => mixed_up(other),
        }
    }

    fn records_mut(&mut self, index: IndexId) -> &mut Records {
        let slot = self.slot(Key::Records(index));
        match self.world.write(slot) {
            Object::Records(records) => records,
            other => mixed_up(other),
        }
    }

    /// The record with this key, as its writers see it.
    pub fn record(&mut self, index: IndexId, key: &RecordKey) -> Option<&Record> {
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::record(index, key));
            self.world.footprint.read(name::committed(index, key));
        }
        self.records(index).get(key)
    }

    /// Says that the step saw the committed state of a place and what lies before it.
    pub fn reads(&mut self, index: IndexId, pos: &Pos) {
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::gap(index, pos));
            if let Pos::Record(key) = pos {
                self.world.footprint.read(name::committed(index, key));
            }
        }
    }

    /// Says that the step saw a place and what lies before it, uncommitted changes included.
    pub fn reads_newest(&mut self, index: IndexId, pos: &Pos) {
        self.reads(index, pos);
        if self.world.footprint.is_on()
            && let Pos::Record(key) = pos
        {
            self.world.footprint.read(name::record(index, key));
        }
    }

    /// The record with this key, to be changed. What others see as committed changes with it only
    /// if `commit` says so.
    ///
    /// # Panics
    /// If there is none.
    pub fn record_mut(&mut self, index: IndexId, key: &RecordKey, commit: bool) -> &mut Record {
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::record(index, key));
            if commit {
                self.world.footprint.write(name::committed(index, key));
            }
        }
        match self.records_mut(index).get_mut(key) {
            Some(record) => record,
            None => panic!("a record that is to be changed is gone: {key:?}"),
        }
    }

    fn structure_changes(&mut self, index: IndexId, key: &RecordKey) {
        if self.world.footprint.is_on() {
            let successor = self.records(index).successor(key);
            let here = Pos::Record(key.clone());
            self.world.footprint.write(name::record(index, key));
            self.world.footprint.write(name::gap(index, &here));
            self.world.footprint.write(name::gap(index, &successor));
        }
    }

    /// Puts a record in; locks on the gap are not looked after here.
    pub(super) fn put_record(&mut self, index: IndexId, key: RecordKey, record: Record) {
        self.structure_changes(index, &key);
        self.records_mut(index).insert(key, record);
    }

    /// Takes a record out; locks on it are not looked after here.
    pub(super) fn take_record(&mut self, index: IndexId, key: &RecordKey) {
        self.structure_changes(index, key);
        self.records_mut(index).remove(key);
    }

    /// The locks on a place.
    pub fn locks(&mut self, index: IndexId, pos: &Pos) -> &[RecordLock] {
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::locks(index, pos));
        }
        self.record_locks(index).at(pos)
    }

    /// The record locks of an index.
    pub fn record_locks(&self, index: IndexId) -> &RecordLocks {
        match self.world.read(self.slot(Key::Locks(index))) {
            Object::Locks(locks) => locks,
            other => mixed_up(other),
        }
    }

    /// The locks on a place, to be changed.
    pub(super) fn queue_mut(&mut self, index: IndexId, pos: &Pos) -> &mut Vec<RecordLock> {
        if self.world.footprint.is_on() {
            self.world.footprint.write(name::locks(index, pos));
        }
        let slot = self.slot(Key::Locks(index));
        match self.world.write(slot) {
            Object::Locks(locks) => locks.queues.entry(pos.clone()).or_default(),
            other => mixed_up(other),
        }
    }

    /// Forgets a place without locks.
    pub(super) fn tidy_queue(&mut self, index: IndexId, pos: &Pos) {
        if self.record_locks(index).at(pos).is_empty() {
            let slot = self.slot(Key::Locks(index));
            match self.world.write(slot) {
                Object::Locks(locks) => locks.queues.remove(pos),
                other => mixed_up(other),
            };
        }
    }

    // --- numbers

    /// Makes the counters of a table.
    pub fn create_numbers(&mut self, table: TableId, next: i64) {
        let numbers = Object::Numbers(table, next, 1);
        self.world.create(Some(Key::Numbers(table)), numbers);
    }

    /// Takes the counters of a table away.
    pub fn drop_numbers(&mut self, table: TableId) {
        let slot = self.slot(Key::Numbers(table));
        self.world.remove(slot);
    }

    /// The next automatic number of a table.
    pub fn next_number(&mut self, table: TableId) -> i64 {
        self.world.footprint.read(name::numbers(table));
        match self.world.read(self.slot(Key::Numbers(table))) {
            Object::Numbers(_, next, _) => *next,
            other => mixed_up(other),
        }
    }

    /// Sets the next automatic number of a table.
    pub fn set_next_number(&mut self, table: TableId, value: i64) {
        self.world.footprint.write(name::numbers(table));
        let slot = self.slot(Key::Numbers(table));
        match self.world.write(slot) {
            Object::Numbers(_, next, _) => *next = value,
            other => mixed_up(other),
        }
    }

    /// Draws a hidden row number.
    pub fn draw_row_number(&mut self, table: TableId) -> i64 {
        self.world.footprint.write(name::numbers(table));
        let slot = self.slot(Key::Numbers(table));
        match self.world.write(slot) {
            Object::Numbers(_, _, row) => {
                *row += 1;
                *row - 1
            }
            other => mixed_up(other),
        }
    }

    // --- marks

    /// See [`crate::database::Database::mark`].
    pub fn mark(&self) -> Mark {
        self.world.mark()
    }

    /// See [`crate::database::Database::undo_to`].
    pub fn undo_to(&mut self, mark: Mark) {
        self.world.undo_to(mark);
    }

    /// See [`crate::database::Database::fingerprint`].
    pub fn fingerprint(&mut self) -> u128 {
        self.world.fingerprint()
    }

    /// See [`crate::database::Database::begin_footprint`].
    pub fn begin_footprint(&mut self) {
        self.world.footprint.begin();
    }

    /// See [`crate::database::Database::end_footprint`].
    pub fn end_footprint(&mut self) {
        self.world.footprint.off();
    }

    /// See [`crate::database::Database::footprint`].
    pub fn footprint(&self) -> Footprint {
        self.world.footprint.footprint()
    }

    /// See [`crate::database::Database::committed_version`].
    pub fn committed_version(&self) -> u64 {
        self.world.counters().committed
    }

    /// What counts the age of versions has changed: the digests of records and transactions change
    /// with it.
    pub(super) fn views_changed(&mut self) {
        let aged = self.world.objects().filter_map(|(slot, object)| {
            let aged = matches!(
                object,
                Object::Records(_) | Object::Trx(_) | Object::Schema(_)
            );
            aged.then_some(slot)
        });
        let aged: Vec<Slot> = aged.collect();
        for slot in aged {
            self.world.touch(slot);
        }
    }
}
