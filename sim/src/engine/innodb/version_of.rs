//! From a record to the row that a scan shows: looked up and locked, as it was committed, or as a read view
//! sees it.

use rowlock_model::schedule::SessionId;
use rowlock_model::{Isolation, Value};

use super::key::{Key, Pos};
use super::lock::{Granted, Mode, OnBusy, Refused, Span};
use super::pause::Passed;
use super::range::KeyRange;
use super::records::Record;
use super::scan::{Cursor, Found, Plan, ScanStop, Step, Taken};
use super::store::Store;

impl Store {
    /// A semi-consistent read of a record that somebody has locked.
    pub(super) fn show_committed(&mut self, plan: &Plan, range: &KeyRange, key: &Key) -> Step {
        let record = self.records(plan.index_shape().id).get(key);
        let committed = record.and_then(Record::committed);
        let Some(version) = committed.filter(|v| !v.deleted) else {
            return Step::Next;
        };
        if range.is_past(key, plan.reverse_in(range)) {
            return Step::RangeEnds;
        }
        Step::Row(Found {
            key: key.clone(),
            row: version.row.clone(),
            tentative: true,
        })
    }

    /// The row of a secondary record that is locked.
    pub(super) fn look_up(
        &mut self,
        session: SessionId,
        plan: &Plan,
        cursor: &mut Cursor,
        record: &Record,
        mode: Mode,
    ) -> Result<Option<Found>, ScanStop> {
        let shape = &plan.shape;
        let Some(key) = record.row_key.clone() else {
            return Ok(None);
        };
        if !plan.lookup {
            let width = shape.table.columns.len() + usize::from(shape.hidden_key);
            let mut row = vec![Value::Null; width];
            for (column, value) in plan
                .index_shape()
                .columns
                .iter()
                .zip(record.newest.row.iter())
            {
                row[*column] = value.clone();
            }
            return Ok(Some(Found {
                key,
                row: row.into(),
                tentative: false,
            }));
        }
        let clustered = shape.clustered();
        let pos = Pos::Record(key.clone());
        self.pause_before_row(session, plan, cursor, &pos, mode)?;
        match self.lock_record(
            session,
            shape,
            clustered,
            &pos,
            mode,
            Span::Record,
            plan.busy,
        ) {
            Ok(Granted::Held) => {}
            Ok(Granted::New) => cursor.taken.push(Taken {
                index: clustered.id,
                pos,
                mode,
                span: Span::Record,
            }),
            Err(Refused::Busy) if plan.busy == OnBusy::Skip => return Ok(None),
            Err(refused) => {
                // A record that was waited for stays locked.
                cursor.passed = Passed::Place;
                return Err(refused.into());
            }
        }
        let Some(row) = self.record(clustered.id, &key).cloned() else {
            return Ok(None);
        };
        if self.is_changed_since_view(session, &row) {
            return Err(ScanStop::Changed);
        }
        if row.newest.deleted {
            self.give_back(session, plan, cursor);
            return Ok(None);
        }
        Ok(Some(Found {
            key,
            row: row.newest.row,
            tentative: false,
        }))
    }

    /// Looks at one place without locking: the version that the read view sees, or the newest one
    /// at READ UNCOMMITTED.
    pub(super) fn look_consistently(
        &mut self,
        session: SessionId,
        plan: &Plan,
        range: &KeyRange,
        pos: &Pos,
    ) -> Step {
        let index = plan.index_shape();
        let dirty = self.trx(session).level == Isolation::ReadUncommitted;
        if dirty {
            self.reads_newest(index.id, pos);
        } else {
            self.reads(index.id, pos);
        }
        let Pos::Record(key) = pos else {
            return if plan.reverse_in(range) {
                Step::Next
            } else {
                Step::RangeEnds
            };
        };
        if range.is_past(key, plan.reverse_in(range)) {
            return Step::RangeEnds;
        }
        let row_key = match self.records(index.id).get(key) {
            Some(record) if !plan.is_clustered() => record.row_key.clone(),
            _ => Some(key.clone()),
        };
        let Some(row_key) = row_key else {
            return Step::Next;
        };
        let clustered = plan.shape.clustered().id;
        let here = Pos::Record(row_key.clone());
        if dirty {
            self.reads_newest(clustered, &here);
        } else {
            self.reads(clustered, &here);
        }
        let view = self.trx(session).view.unwrap_or(u64::MAX);
        let record = self.records(clustered).get(&row_key);
        let seen = record.and_then(|record| {
            if dirty {
                Some(&record.newest)
            } else {
                record.seen(session, view)
            }
        });
        let Some(version) = seen.filter(|v| !v.deleted) else {
            return Step::Next;
        };
        // A secondary record that belongs to another version of the row is passed over.
        if !plan.is_clustered() && plan.shape.key(index, &version.row) != *key {
            return Step::Next;
        }
        Step::Row(Found {
            key: row_key,
            row: version.row.clone(),
            tentative: false,
        })
    }
}
