//! Asking for record locks.

use rowlock_model::schedule::SessionId;

use super::super::key::Pos;
use super::super::object::name;
use super::super::records::Record;
use super::super::shape::{IndexShape, Shape};
use super::super::store::Store;
use super::{Mode, RecordLock, RowWait, Span, TableMode, must_wait};
use crate::loose::catalog::TableId;

/// What to do when a lock is not to be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBusy {
    /// Wait for it.
    Wait,
    /// Give up with an error (`NOWAIT`).
    Fail,
    /// Give up (`SKIP LOCKED`, semi-consistent reads).
    Skip,
}

/// A request was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// What the transaction held already is enough.
    Held,
    /// A lock was added: READ COMMITTED may give it back.
    New,
}

/// A request was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is queued, and the transaction waits.
    Wait,
    /// The lock is not to be had, and the caller did not want to wait.
    Busy,
    /// Waiting would have closed a cycle, and this transaction was chosen; it is rolled back.
    Deadlock,
}

impl Store {
    /// Locks a table for row locks of that mode.
    pub fn lock_table(&mut self, session: SessionId, table: TableId, mode: TableMode) {
        // Nobody else sees a temporary table.
        if self.shape(table).table.temporary {
            return;
        }
        let held = &self.trx(session).tables;
        let covers = |(t, m): &(TableId, TableMode)| *t == table && m.covers(mode);
        if !held.iter().any(covers) {
            self.trx_mut(session).tables.push((table, mode));
        }
    }

    /// Asks for a lock on a place of an index. A record written by a transaction that is not over is
    /// locked by that one first.
    ///
    /// # Errors
    /// See [`Refused`].
    #[expect(clippy::too_many_arguments, reason = "a request is all of this")]
    pub fn lock_record(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        pos: &Pos,
        mode: Mode,
        span: Span,
        busy: OnBusy,
    ) -> Result<Granted, Refused> {
        if shape.table.temporary {
            return Ok(Granted::Held);
        }
        if span != Span::Gap {
            let own = self.flavour.own_record_becomes_explicit();
            self.make_explicit(session, shape, index, pos, own);
            if span == Span::Record && self.holds_implicitly(session, index, pos) && !own {
                return Ok(Granted::Held);
            }
        }
        let supremum = pos.is_supremum();
        let mut span = span;
        let queue = self.locks(index.id, pos);
        let mine = |l: &&RecordLock| l.owner == session;
        if queue
            .iter()
            .filter(mine)
            .any(|l| l.covers(mode, span, supremum))
        {
            return Ok(Granted::Held);
        }
        if span == Span::NextKey && !supremum {
            let queue = self.locks(index.id, pos);
            let record = queue
                .iter()
                .filter(mine)
                .any(|l| l.covers(mode, Span::Record, false));
            if record {
                span = Span::Gap;
                let queue = self.locks(index.id, pos);
                if queue
                    .iter()
                    .filter(mine)
                    .any(|l| l.covers(mode, span, false))
                {
                    return Ok(Granted::Held);
                }
            }
        }
        self.enqueue(session, shape.table.id, index, pos, mode, span, busy)
    }

    /// Whether an insert before `pos` may go on: it waits for the gap locks of others. No lock is left
    /// if it need not wait.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn lock_gap_for_insert(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        pos: &Pos,
    ) -> Result<(), Refused> {
        if self.conflict(session, index, pos, Mode::X, Span::Insert) {
            let (mode, span) = (Mode::X, Span::Insert);
            let table = shape.table.id;
            self.enqueue(session, table, index, pos, mode, span, OnBusy::Wait)?;
        }
        Ok(())
    }

    /// Locks a record that is about to be changed: implicitly, by changing it, unless somebody is in
    /// the way.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn lock_for_change(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        pos: &Pos,
    ) -> Result<(), Refused> {
        self.make_explicit(session, shape, index, pos, false);
        let queue = self.locks(index.id, pos);
        let mine = |l: &&RecordLock| l.owner == session;
        if queue
            .iter()
            .filter(mine)
            .any(|l| l.covers(Mode::X, Span::Record, false))
        {
            return Ok(());
        }
        if self.conflict(session, index, pos, Mode::X, Span::Record) {
            let (mode, span) = (Mode::X, Span::Record);
            let table = shape.table.id;
            self.enqueue(session, table, index, pos, mode, span, OnBusy::Wait)?;
        }
        Ok(())
    }

    /// Whether the session's transaction wrote the record and thereby holds it.
    fn holds_implicitly(&mut self, session: SessionId, index: &IndexShape, pos: &Pos) -> bool {
        let Pos::Record(key) = pos else { return false };
        let record = self.record(index.id, key);
        record.is_some_and(|r| r.holder() == Some(session))
    }

    /// The transaction that wrote the record, if it is not over, gets the lock that it implies; `own`:
    /// also if it is the session's.
    fn make_explicit(
        &mut self,
        session: SessionId,
        shape: &Shape,
        index: &IndexShape,
        pos: &Pos,
        own: bool,
    ) {
        let Pos::Record(key) = pos else { return };
        let Some(holder) = self.record(index.id, key).and_then(Record::holder) else {
            return;
        };
        if holder == session && !own {
            return;
        }
        self.hold_explicitly(holder, shape.table.id, index, pos);
    }

    /// Gives a transaction an exclusive lock on a record that it holds implicitly.
    pub(in super::super) fn hold_explicitly(
        &mut self,
        holder: SessionId,
        table: TableId,
        index: &IndexShape,
        pos: &Pos,
    ) {
        let queue = self.locks(index.id, pos);
        let held = |l: &RecordLock| l.owner == holder && l.covers(Mode::X, Span::Record, false);
        if !queue.iter().any(held) {
            self.add_lock(holder, table, index, pos, Mode::X, Span::Record, false);
        }
    }

    /// Whether a request conflicts with somebody's lock, or with a request that came before.
    fn conflict(
        &mut self,
        session: SessionId,
        index: &IndexShape,
        pos: &Pos,
        mode: Mode,
        span: Span,
    ) -> bool {
        let passes = self.flavour.upgrade_passes_waiters();
        let queue = self.locks(index.id, pos);
        let supremum = pos.is_supremum();
        let blocks = |other: &RecordLock| {
            other.owner != session
                && must_wait(mode, span, supremum, other)
                && !(passes && span != Span::Insert && waits_for(other, session, queue, supremum))
        };
        queue.iter().any(blocks)
    }

    #[expect(clippy::too_many_arguments, reason = "a request is all of this")]
    fn enqueue(
        &mut self,
        session: SessionId,
        table: TableId,
        index: &IndexShape,
        pos: &Pos,
        mode: Mode,
        span: Span,
        busy: OnBusy,
    ) -> Result<Granted, Refused> {
        if !self.conflict(session, index, pos, mode, span) {
            self.add_lock(session, table, index, pos, mode, span, false);
            return Ok(Granted::New);
        }
        if busy != OnBusy::Wait {
            return Err(Refused::Busy);
        }
        self.add_lock(session, table, index, pos, mode, span, true);
        self.world.footprint.write(name::WAITS);
        self.trx_mut(session).wait = Some(RowWait {
            table,
            index: index.id,
            pos: pos.clone(),
            granted: false,
        });
        self.resolve_deadlocks(session)
    }

    /// Adds a lock to the end of a queue.
    #[expect(clippy::too_many_arguments, reason = "a lock is all of this")]
    pub(in super::super) fn add_lock(
        &mut self,
        owner: SessionId,
        table: TableId,
        index: &IndexShape,
        pos: &Pos,
        mode: Mode,
        span: Span,
        waiting: bool,
    ) {
        // The end has a gap only; all that covers it is written as next-key.
        let span = match span {
            Span::Record | Span::Gap if pos.is_supremum() => Span::NextKey,
            span => span,
        };
        self.queue_mut(index.id, pos).push(RecordLock {
            owner,
            mode,
            span,
            waiting,
        });
        let place = (table, index.id, pos.clone());
        if !self.trx(owner).locks.contains(&place) {
            self.trx_mut(owner).locks.push(place);
        }
    }
}

/// Whether `waiting` waits for a lock that `session` holds on the same place.
pub(super) fn waits_for(
    waiting: &RecordLock,
    session: SessionId,
    queue: &[RecordLock],
    supremum: bool,
) -> bool {
    waiting.waiting
        && queue.iter().any(|held| {
            held.owner == session
                && !held.waiting
                && must_wait(waiting.mode, waiting.span, supremum, held)
        })
}
