//! Record and table locks as the server lists them.

use std::fmt::Write as _;

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::super::key::Pos;
use super::super::shape::{IndexShape, Shape};
use super::super::store::Store;
use super::{Mode, RecordLock, Span};

/// A lock as `performance_schema.data_locks` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLock {
    /// Whose.
    pub owner: SessionId,
    /// The table.
    pub table: String,
    /// The index; `None` for a lock on the table.
    pub index: Option<String>,
    /// `X,REC_NOT_GAP` and the like.
    pub mode: String,
    /// What is locked: `20, 20`, `supremum pseudo-record`.
    pub data: Option<String>,
    /// It is not granted yet.
    pub waiting: bool,
    /// The record is marked as deleted.
    pub deleted: bool,
}

impl ListedLock {
    /// The lock in MySQL's notation: `l.PRIMARY X,REC_NOT_GAP {20}`.
    pub fn notation(&self, shows_delete_marks: bool) -> String {
        let mut text = self.table.clone();
        if let Some(index) = &self.index {
            let _ = write!(text, ".{index}");
        }
        let _ = write!(text, " {}", self.mode);
        if let Some(data) = &self.data {
            let _ = write!(text, " {{{data}}}");
        }
        if self.deleted && shows_delete_marks {
            text.push_str(" (delmark)");
        }
        if self.waiting {
            text.push_str(" WAITING");
        }
        text
    }
}

/// A record lock's mode in MySQL's notation. The place behind the last record has a gap only.
pub fn mode_name(lock: &RecordLock, is_supremum: bool) -> String {
    let mode = match lock.mode {
        Mode::S => "S",
        Mode::X => "X",
    };
    let span = match lock.span {
        Span::NextKey => "",
        Span::Record => ",REC_NOT_GAP",
        Span::Gap => ",GAP",
        Span::Insert if is_supremum => ",INSERT_INTENTION",
        Span::Insert => ",GAP,INSERT_INTENTION",
    };
    format!("{mode}{span}")
}

impl Store {
    /// All explicit locks of a session: its tables, then its records by index and place.
    pub fn listed_locks(&self, session: SessionId) -> Vec<ListedLock> {
        let trx = self.trx(session);
        let mut list = Vec::new();
        for (table, mode) in &trx.tables {
            list.push(ListedLock {
                owner: session,
                table: self.shape(*table).table.name.to_string(),
                index: None,
                mode: mode.name().to_owned(),
                data: None,
                waiting: false,
                deleted: false,
            });
        }
        let mut places = trx.locks.clone();
        places.sort();
        for (table, index, pos) in &places {
            let shape = self.shape(*table);
            let Some(index) = shape.indexes.iter().find(|i| i.id == *index) else {
                continue;
            };
            let (data, deleted) = self.lock_data(&shape, index, pos);
            for lock in self.record_locks(index.id).at(pos) {
                if lock.owner == session {
                    list.push(ListedLock {
                        owner: session,
                        table: shape.table.name.to_string(),
                        index: Some(index.name.to_string()),
                        mode: mode_name(lock, pos.is_supremum()),
                        data: Some(data.clone()),
                        waiting: lock.waiting,
                        deleted,
                    });
                }
            }
        }
        list
    }

    pub(in super::super) fn lock_data(
        &self,
        shape: &Shape,
        index: &IndexShape,
        pos: &Pos,
    ) -> (String, bool) {
        let Pos::Record(key) = pos else {
            return ("supremum pseudo-record".to_owned(), false);
        };
        let Some(record) = self.records(index.id).get(key) else {
            return (String::new(), false);
        };
        let row = &record.newest.row;
        let shown = if shape.is_clustered(index) {
            shape.shown(index, row)
        } else {
            row.to_vec()
        };
        let fields: Vec<String> = shown
            .iter()
            .map(|value| self.lock_field(shape, index, value))
            .collect();
        (fields.join(", "), record.newest.deleted)
    }

    fn lock_field(&self, shape: &Shape, index: &IndexShape, value: &Value) -> String {
        match value {
            Value::Null => "NULL".to_owned(),
            Value::Int(i) if shape.hidden_key && shape.is_clustered(index) => {
                if self.flavour.is_mariadb() {
                    format!("{i:012x}")
                } else {
                    format!("0x{i:012X}")
                }
            }
            Value::Int(i) => i.to_string(),
            Value::Text(s) => format!("'{s}'"),
            Value::Decimal(d) => d.to_string(),
            Value::Bytes(b) => {
                let mut hex = "0x".to_owned();
                for byte in b.iter() {
                    let _ = write!(hex, "{byte:02X}");
                }
                hex
            }
            Value::Timestamp(_) | Value::TimestampTz(_) | Value::Date(_) | Value::Time(_) => {
                // The server shows the bytes in which it stores a point in time.
                super::super::time::stored_time(value)
            }
            other => format!("{other:?}"),
        }
    }
}
