//! The engine as the executor sees it: [`Storage`] over the store, with a journal.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Row, Value};

use super::access;
use super::errors;
use super::key::Key;
use super::lock::{Mode, OnBusy, Refused, TableMode};
use super::position;
use super::range::{self, Bound};
use super::run::{Entry, Run, Scanning};
use super::scan::{Cursor, Found, Plan, ScanStop};
use super::session::Waiting;
use super::shape::Shape;
use super::store::Store;
use super::views::{self, Reader};
use super::write::Obstacle;
use crate::loose::catalog::{ConflictAction, Table, VirtualTable};
use crate::loose::plan::Upsert;
use crate::loose::query::{self, Strength};
use crate::loose::storage::{
    Access, Candidate, Choice, Inserted, NewRow, Purpose, Scan, SourcePlan, Stop, Storage,
    StoredRow, Ties,
};
use crate::trace::{Condition, Sees, Trace};

/// What the engine has to know of the statement that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Tables that it reads without a locking clause are locked in shared mode even at READ
    /// COMMITTED: `DELETE`, updates of several tables, `SET`.
    pub locks_what_it_reads: bool,
    /// `UPDATE` of a table by `IN (SELECT ..)` from the same one.
    pub reads_itself: bool,
    /// It changes data.
    pub writes: bool,
    /// It replaces or updates duplicates.
    pub duplicates: bool,
    /// `INSERT IGNORE`, `UPDATE IGNORE`.
    pub ignore: bool,
    /// It is a plain query that is a transaction of its own.
    pub alone: bool,
}

/// One run of a statement.
#[derive(Debug)]
pub struct Handler<'a> {
    /// The server.
    pub store: &'a mut Store,
    /// The statement in flight.
    pub run: &'a mut Run,
    /// Whose.
    pub session: SessionId,
    /// The values of `?`.
    pub args: &'a [Value],
    /// See [`Facts`].
    pub facts: Facts,
    /// What it waits for, if it ended with [`Stop::Wait`].
    pub waiting: Option<Waiting>,
}

impl Handler<'_> {
    fn level(&self) -> Isolation {
        self.store.trx(self.session).level
    }

    fn shape(&self, table: &Table) -> Rc<Shape> {
        self.store.shape(table.id)
    }

    /// The transaction takes part in InnoDB from now on.
    fn join(&mut self) {
        let level = self.store.session(self.session).level;
        self.store.join(self.session, level);
        if self
            .store
            .flavour_of(self.session)
            .locking_read_opens_view(level)
        {
            self.store.open_view(self.session, true);
        }
    }

    pub(super) fn refused(&mut self, refused: Refused) -> Stop {
        match refused {
            Refused::Wait => {
                self.waiting = Some(Waiting::Row);
                Stop::Wait
            }
            Refused::Busy => errors::nowait(self.store.flavour).into(),
            Refused::Deadlock => errors::deadlock().into(),
        }
    }

    fn scan_stop(&mut self, stop: ScanStop, table: &Table) -> Stop {
        match stop {
            ScanStop::Refused(refused) => self.refused(refused),
            ScanStop::Changed => errors::record_changed(&table.name).into(),
            ScanStop::Paused(before) => {
                self.waiting = Some(Waiting::Pause(before));
                Stop::Wait
            }
        }
    }

    pub(super) fn obstacle(&mut self, obstacle: Obstacle, shape: &Shape, row: &[Value]) -> Stop {
        match obstacle {
            Obstacle::Refused(refused) => self.refused(refused),
            Obstacle::Changed => errors::record_changed(&shape.table.name).into(),
            Obstacle::Duplicate(at, _) => self.duplicate(shape, at, row).into(),
            Obstacle::ForeignKey(error) => {
                errors::foreign_key(error.is_child, &error.constraint).into()
            }
        }
    }

    pub(super) fn duplicate(&self, shape: &Shape, at: usize, row: &[Value]) -> DbError {
        let key = self.store.key_text(shape, at, row);
        let index = &shape.indexes[at].name;
        errors::duplicate(self.store.flavour, &shape.table.name, index, &key)
    }

    /// How the records of a scan are locked.
    fn lock_mode(&self, scan: &Scan<'_>) -> Option<Mode> {
        if scan.purpose != Purpose::Read {
            return Some(Mode::X);
        }
        if let Some(clause) = &scan.lock {
            return Some(match clause.strength {
                Strength::Share => Mode::S,
                Strength::Update => Mode::X,
            });
        }
        let level = self.store.session(self.session).level;
        let in_change = scan.around.in_write || self.facts.writes;
        let shared = match level {
            Isolation::Serializable => !self.facts.alone,
            Isolation::RepeatableRead => in_change || scan.around.in_set,
            _ => (in_change && self.facts.locks_what_it_reads) || scan.around.in_set,
        };
        shared.then_some(Mode::S)
    }

    fn plan(&mut self, scan: &Scan<'_>) -> Result<Plan, Stop> {
        let shape = self.shape(scan.table);
        let lock = self.lock_mode(scan);
        let index = shape.stored(scan.access.index);
        let position = shape.indexes.iter().position(|i| i.id == index.id);
        let position = position.unwrap_or(0);
        let bounds = bounds(scan);
        let reverse = scan.access.reverse;
        let ranges = range::ranges(&shape, index, &bounds, reverse);
        let level = self.store.session(self.session).level;
        let busy = match scan.lock.map(|clause| clause.busy) {
            Some(query::OnBusy::Fail) => OnBusy::Fail,
            Some(query::OnBusy::Skip) => OnBusy::Skip,
            Some(query::OnBusy::WaitSeconds(0)) => OnBusy::Fail,
            Some(query::OnBusy::WaitSeconds(_) | query::OnBusy::Wait) | None => OnBusy::Wait,
        };
        let covers = !scan.access.lookup;
        let constants = scan.access.conditions.iter().all(|at| {
            let condition = &scan.entry.conditions[*at];
            condition.constant
        });
        let reads = scan.purpose == Purpose::Read;
        Ok(Plan {
            index: position,
            lock,
            busy,
            wait_seconds: match scan.lock.map(|clause| clause.busy) {
                Some(query::OnBusy::WaitSeconds(seconds)) => Some(seconds),
                _ => None,
            },
            reverse,
            lookup: !covers || lock == Some(Mode::X),
            tests_index_first: reads && !covers,
            bounded: !reads || ranges.len() > 1,
            filters: range::filters(&shape, index, &bounds),
            semi_consistent: scan.purpose == Purpose::Update
                && position == 0
                && self
                    .store
                    .flavour_of(self.session)
                    .reads_semi_consistently(level),
            constant: reads
                && constants
                && ranges.len() == 1
                && is_unique_equality(&shape, position, &ranges[0]),
            ranges,
            shape,
        })
    }

    fn open_live(&mut self, scan: &Scan<'_>) -> Result<usize, Stop> {
        self.join();
        let plan = self.plan(scan)?;
        let table = scan.table.id;
        match plan.lock {
            // Nothing is looked for: the table is not touched.
            _ if plan.ranges.is_empty() => {}
            Some(Mode::S) => {
                self.store
                    .lock_table(self.session, table, TableMode::IntentionShared);
            }
            Some(Mode::X) => {
                self.store
                    .lock_table(self.session, table, TableMode::IntentionExclusive);
            }
            None if self.level() > Isolation::ReadUncommitted => {
                let keeps = self.level() > Isolation::ReadCommitted;
                let view = self.store.open_view(self.session, keeps);
                if plan.shape.indexes[plan.index].created > view {
                    return Err(errors::table_changed().into());
                }
            }
            // What READ UNCOMMITTED reads does not depend on its view, what it may touch does.
            None if self.store.flavour_of(self.session).checks_snapshot() => {
                self.store.open_view(self.session, false);
            }
            None => {}
        }
        self.run.scans.push(Scanning {
            plan,
            cursor: Cursor::default(),
        });
        Ok(self.run.scans.len() - 1)
    }

    fn scan_live(&mut self, number: usize, confirm: bool) -> Result<Entry, Stop> {
        let mut scan = self.run.scans[number].clone();
        let (plan, cursor) = (&scan.plan, &mut scan.cursor);
        let found = if confirm {
            self.store.scan_confirm(self.session, plan, cursor)
        } else {
            self.store.scan_next(self.session, plan, cursor)
        };
        let table = Arc::clone(&scan.plan.shape.table);
        self.run.scans[number].cursor = scan.cursor;
        match found {
            Ok(found) => Ok(Entry::Row(found.map(|found| {
                let Found {
                    key,
                    row,
                    tentative,
                } = found;
                (key, row, tentative)
            }))),
            Err(stop) => {
                let waits = stop == ScanStop::Refused(Refused::Wait);
                if let Some(seconds) = scan.plan.wait_seconds.filter(|_| waits) {
                    let now = self.store.now_micros();
                    self.run.until_micros = Some(now + i64::from(seconds) * 1_000_000);
                }
                Err(self.scan_stop(stop, &table))
            }
        }
    }

    /// A row of a table without its hidden columns.
    fn stored(&self, width: usize, key: Key, row: &Row) -> StoredRow<Key> {
        let values = if row.len() > width {
            row[..width].into()
        } else {
            Arc::clone(row)
        };
        StoredRow {
            id: key,
            values,
            rowid: 0,
        }
    }

    /// The newest version of a row, hidden columns included.
    fn newest(&mut self, shape: &Shape, key: &Key) -> Option<Row> {
        self.store.newest_row(shape, key)
    }
}

fn is_unique_equality(shape: &Shape, index: usize, range: &super::range::KeyRange) -> bool {
    let index = &shape.indexes[index];
    match range {
        super::range::KeyRange::Exact(parts) => {
            index.unique
                && parts.len() >= index.declared_columns
                && !parts.iter().any(super::key::Part::is_null)
        }
        _ => false,
    }
}

/// The conditions of a scan with their values.
fn bounds(scan: &Scan<'_>) -> Vec<Bound> {
    let conditions = scan.access.conditions.iter().zip(&scan.bounds);
    let bound = |(at, values): (&usize, &Vec<Value>)| {
        let condition = &scan.entry.conditions[*at];
        Some(Bound {
            condition: *at,
            column: condition.column?,
            op: condition.op,
            values: Some(values.clone()),
            arms: condition.arms.clone(),
        })
    };
    conditions.filter_map(bound).collect()
}

impl Storage for Handler<'_> {
    type RowId = Key;
    type Cursor = usize;

    fn is_traced(&self) -> bool {
        self.store.world.trace.is_on()
    }

    fn trace_scan(&mut self, cursor: &usize, table: &Arc<Table>, condition: Rc<Condition>) {
        let trx = self.store.trx(self.session);
        let sees = match (self.run.scans[*cursor].plan.lock, trx.view) {
            (Some(_), _) => Sees::Committed,
            (None, _) if trx.level == Isolation::ReadUncommitted => Sees::Everything,
            (None, Some(view)) => Sees::Upto(view),
            (None, None) => Sees::Committed,
        };
        self.store.world.trace.push(Trace::Scan {
            session: self.session,
            table: table.id.0,
            condition,
            sees,
        });
    }

    fn trace_read(&mut self, table: &Arc<Table>, row: &Row) {
        self.store.world.trace.push(Trace::Read {
            session: self.session,
            table: table.id.0,
            row: Row::clone(row),
        });
    }

    fn choose(&mut self, plan: &SourcePlan<'_>) -> Result<Choice, Stop> {
        let store = &*self.store;
        match self
            .run
            .once(|_| Ok(Entry::Choice(access::choose(store, plan))))?
        {
            Entry::Choice(choice) => Ok(choice),
            other => panic!("the journal has {other:?} where a choice is asked for"),
        }
    }

    fn open(&mut self, scan: &Scan<'_>) -> Result<usize, Stop> {
        if let Some(entry) = self.run.replay() {
            match entry {
                Entry::Opened(number) => return Ok(number),
                other => panic!("the journal has {other:?} where a scan is opened"),
            }
        }
        let number = self.open_live(scan)?;
        self.run.record(Entry::Opened(number));
        Ok(number)
    }

    fn next(&mut self, cursor: &mut usize) -> Result<Option<Candidate<Key>>, Stop> {
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let entry = self.scan_live(*cursor, false)?;
                self.run.record(entry.clone());
                entry
            }
        };
        let width = self.run.scans[*cursor].plan.shape.table.columns.len();
        match entry {
            Entry::Row(row) => Ok(row.map(|(key, row, tentative)| Candidate {
                row: self.stored(width, key, &row),
                tentative,
            })),
            other => panic!("the journal has {other:?} where a row is asked for"),
        }
    }

    fn reject(&mut self, cursor: &mut usize) -> Result<(), Stop> {
        if self.run.replay().is_some() {
            return Ok(());
        }
        let mut scan = self.run.scans[*cursor].clone();
        self.store
            .scan_reject(self.session, &scan.plan, &mut scan.cursor);
        self.run.scans[*cursor].cursor = scan.cursor;
        self.run.record(Entry::Flag(true));
        Ok(())
    }

    fn confirm(&mut self, cursor: &mut usize) -> Result<Option<StoredRow<Key>>, Stop> {
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let entry = self.scan_live(*cursor, true)?;
                self.run.record(entry.clone());
                entry
            }
        };
        let width = self.run.scans[*cursor].plan.shape.table.columns.len();
        match entry {
            Entry::Row(row) => Ok(row.map(|(key, row, _)| self.stored(width, key, &row))),
            other => panic!("the journal has {other:?} where a row is confirmed"),
        }
    }

    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: NewRow,
        or: Option<ConflictAction>,
        upserts: &[Upsert],
    ) -> Result<Inserted<Key>, Stop> {
        let shape = self.shape(table);
        // The number that the row gets is drawn once, whatever becomes of the row.
        let complete = match self.run.replay() {
            Some(entry) => entry,
            None => {
                self.join();
                let (row, number) = self.complete(&shape, &row)?;
                let entry = Entry::Inserted(
                    0,
                    number.map_or(0, |n| n as u64),
                    Some((Key([].into()), row)),
                );
                self.run.record(entry.clone());
                entry
            }
        };
        let Entry::Inserted(_, number, Some((_, full))) = complete else {
            panic!("the journal has {complete:?} where a row is completed")
        };
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                self.pause_before_insert(&shape, &full)?;
                let entry = self.insert_live(&shape, &full, or, upserts)?;
                self.run.record(entry.clone());
                entry
            }
        };
        let width = table.columns.len();
        let Entry::Inserted(kind, count, row) = entry else {
            panic!("the journal has {entry:?} where a row is inserted")
        };
        if number != 0 && kind < 2 && self.run.insert_id.is_none() {
            self.run.insert_id = Some(number as i64);
        }
        if kind < 2 {
            self.note_number(table, row.as_ref().map(|(_, row)| row));
        }
        Ok(match (kind, row) {
            (0, Some((key, row))) => Inserted::Done(self.stored(width, key, &row)),
            (1, Some((key, row))) => Inserted::Replaced(self.stored(width, key, &row), count),
            (3, Some((key, row))) => {
                Inserted::Conflict(count as usize, self.stored(width, key, &row))
            }
            _ => Inserted::Skipped,
        })
    }

    fn update(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<Key>,
        new: NewRow,
        changed: &[usize],
        or: Option<ConflictAction>,
    ) -> Result<Option<StoredRow<Key>>, Stop> {
        let shape = self.shape(table);
        let _ = changed;
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let entry = self.update_live(&shape, row, &new, or)?;
                self.run.record(entry.clone());
                entry
            }
        };
        let width = table.columns.len();
        match entry {
            Entry::Row(row) => {
                if self.facts.duplicates {
                    self.note_number(table, row.as_ref().map(|(_, row, _)| row));
                }
                Ok(row.map(|(key, row, _)| self.stored(width, key, &row)))
            }
            other => panic!("the journal has {other:?} where a row is updated"),
        }
    }

    fn delete(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<Key>,
        ignore: bool,
    ) -> Result<bool, Stop> {
        let shape = self.shape(table);
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let entry = self.delete_live(&shape, row, ignore)?;
                self.run.record(entry.clone());
                entry
            }
        };
        match entry {
            Entry::Flag(done) => Ok(done),
            other => panic!("the journal has {other:?} where a row is deleted"),
        }
    }

    fn reread(&mut self, table: &Arc<Table>, row: &StoredRow<Key>) -> Option<StoredRow<Key>> {
        let shape = self.shape(table);
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                let newest = self.newest(&shape, &row.id);
                let entry = Entry::Row(newest.map(|values| (row.id.clone(), values, false)));
                self.run.record(entry.clone());
                entry
            }
        };
        let width = table.columns.len();
        match entry {
            Entry::Row(row) => row.map(|(key, row, _)| self.stored(width, key, &row)),
            other => panic!("the journal has {other:?} where a row is read again"),
        }
    }

    fn virtual_rows(&mut self, table: &VirtualTable) -> Result<Vec<Row>, Stop> {
        let entry = match self.run.replay() {
            Some(entry) => entry,
            None => {
                if views::is_dictionary(&table.name)
                    && self.store.flavour.dictionary_is_transactional()
                {
                    self.join();
                    if self.level() > Isolation::ReadCommitted {
                        self.store.open_view(self.session, true);
                    }
                }
                let rows = views::rows(
                    self.store,
                    table,
                    Reader {
                        session: self.session,
                        text: &self.run.text,
                    },
                )?;
                self.run.record(Entry::Rows(rows.clone()));
                Entry::Rows(rows)
            }
        };
        match entry {
            Entry::Rows(rows) => Ok(rows),
            other => panic!("the journal has {other:?} where a view is read"),
        }
    }

    fn collect_first(&self, table: &Table, access: &Access, changed: &[usize]) -> bool {
        let shape = self.shape(table);
        let index = shape.stored(access.index);
        let columns = &index.columns;
        changed.iter().any(|column| columns.contains(column))
    }

    fn ties(&self) -> Ties {
        self.store.flavour.ties()
    }

    fn writes_by_position(&self) -> bool {
        self.store.flavour.is_mariadb()
    }

    fn position(&self, table: &Arc<Table>, row: &StoredRow<Key>) -> Vec<u8> {
        let shape = self.shape(table);
        position::of_row(&shape, row)
    }
}
