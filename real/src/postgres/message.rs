//! The server's half of the PostgreSQL protocol (manual, section 55.7), as far as replies need it.

use std::collections::VecDeque;
use std::sync::Arc;

use rowlock_model::{Batch, DbError, Notice, Reply, Row, TransactionStatus, Value};

use super::decode::{self, Format};
use super::types::TypeNames;
use crate::tap::Framing;

impl Message {
    /// Whether the server has answered and waits for the next request.
    pub(super) fn is_ready(&self) -> bool {
        self.kind == READY_FOR_QUERY
    }

    /// Whether the server refused.
    pub(super) fn is_error(&self) -> bool {
        self.kind == ERROR
    }
}

/// One message of the server: its type byte and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
}

pub(super) const BACKEND_KEY_DATA: u8 = b'K';
pub(super) const COMMAND_COMPLETE: u8 = b'C';
pub(super) const DATA_ROW: u8 = b'D';
pub(super) const ERROR: u8 = b'E';
pub(super) const NOTIFICATION: u8 = b'A';
pub(super) const NOTICE: u8 = b'N';
pub(super) const PARAMETER_STATUS: u8 = b'S';
pub(super) const READY_FOR_QUERY: u8 = b'Z';
pub(super) const ROW_DESCRIPTION: u8 = b'T';

/// Cuts a stream of bytes into messages.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    pending: VecDeque<u8>,
}

impl Framing for Splitter {
    type Message = Message;

    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    fn next(&mut self) -> Option<Message> {
        if self.pending.len() < 5 {
            return None;
        }
        let length = (1..5).fold(0usize, |n, i| n << 8 | usize::from(self.pending[i]));
        // The length counts itself, but not the type byte.
        if self.pending.len() < 1 + length.max(4) {
            return None;
        }
        let kind = self.pending[0];
        self.pending.drain(..5);
        let body = self.pending.drain(..length.max(4) - 4).collect();
        Some(Message { kind, body })
    }
}

/// Reads fields of a message body; a body that is too short reads as zeroes, never as a panic.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    fn u16(&mut self) -> u16 {
        self.take(2)
            .iter()
            .fold(0, |n, byte| n << 8 | u16::from(*byte))
    }

    fn u32(&mut self) -> u32 {
        self.take(4)
            .iter()
            .fold(0, |n, byte| n << 8 | u32::from(*byte))
    }

    fn text(&mut self) -> &'a str {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(self.0.len());
        let bytes = self.take(end);
        self.take(1);
        std::str::from_utf8(bytes).unwrap_or("")
    }
}

/// A column as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) oid: u32,
}

/// The process id of the backend, from `BackendKeyData`.
pub(super) fn backend_pid(body: &[u8]) -> i32 {
    Reader(body).u32() as i32
}

/// Name and value of a `ParameterStatus`.
pub(super) fn parameter(body: &[u8]) -> (String, String) {
    let mut reader = Reader(body);
    (reader.text().to_owned(), reader.text().to_owned())
}

/// The transaction status of a `ReadyForQuery`.
pub(super) fn status(body: &[u8]) -> TransactionStatus {
    match body.first() {
        Some(b'T') => TransactionStatus::InTransaction,
        Some(b'E') => TransactionStatus::Failed,
        _ => TransactionStatus::Idle,
    }
}

pub(super) fn row_description(body: &[u8]) -> Vec<Described> {
    let mut reader = Reader(body);
    (0..reader.u16())
        .map(|_| {
            let name = reader.text().to_owned();
            reader.take(6); // table and attribute number
            let oid = reader.u32();
            reader.take(8); // size, modifier, format
            Described { name, oid }
        })
        .collect()
}

fn data_row(body: &[u8], columns: &[Described], format: Format, types: &TypeNames) -> Row {
    let mut reader = Reader(body);
    (0..usize::from(reader.u16()))
        .map(|i| {
            let length = reader.u32() as i32;
            match usize::try_from(length) {
                Err(_) => Value::Null,
                Ok(length) => {
                    let bytes = reader.take(length);
                    let oid = columns.get(i).map_or(0, |c| c.oid);
                    decode::value(oid, format, bytes, types)
                }
            }
        })
        .collect()
}

/// A command tag without its numbers, and its last number: `INSERT 0 3` is `("INSERT", 3)`.
fn command_tag(body: &[u8]) -> (Arc<str>, u64) {
    let text = Reader(body).text();
    let is_number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
    let affected = text
        .rsplit(' ')
        .next()
        .filter(is_number)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    let words: Vec<&str> = text
        .split(' ')
        .take_while(|word| !is_number(word))
        .collect();
    (words.join(" ").into(), affected)
}

/// The fields of an `ErrorResponse` or `NoticeResponse` by their type bytes.
fn fields(body: &[u8]) -> Vec<(u8, &str)> {
    let mut reader = Reader(body);
    let mut fields = Vec::new();
    while let [kind, ..] = *reader.0 {
        if kind == 0 {
            break;
        }
        reader.take(1);
        fields.push((kind, reader.text()));
    }
    fields
}

/// An `ErrorResponse` as an error. `sql` is the text that its position counts characters in.
pub(super) fn error(body: &[u8], sql: &str) -> DbError {
    let fields = fields(body);
    let field = |kind: u8| fields.iter().find(|(k, _)| *k == kind).map(|(_, v)| *v);
    let mut error = DbError::postgres(
        field(b'C').unwrap_or("XX000"),
        field(b'M').unwrap_or("no message"),
    );
    error.detail = field(b'D').map(Arc::from);
    error.constraint = field(b'n').map(Arc::from);
    error.position = field(b'P')
        .and_then(|position| position.parse::<usize>().ok())
        .and_then(|position| {
            let starts = sql.char_indices().map(|(i, _)| i);
            starts.chain([sql.len()]).nth(position.checked_sub(1)?)
        });
    error
}

fn notice(body: &[u8]) -> Notice {
    let fields = fields(body);
    // `V` is the severity that is never translated (since 9.6); `S` may be.
    let field = |kind: u8| fields.iter().find(|(k, _)| *k == kind).map(|(_, v)| *v);
    Notice {
        severity: field(b'V').or_else(|| field(b'S')).unwrap_or("").into(),
        message: field(b'M').unwrap_or("").into(),
    }
}

/// A `NotificationResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notified {
    /// The process that sent it.
    pub(crate) pid: i32,
    pub(crate) channel: String,
    pub(crate) payload: String,
}

/// A message as a client sees it that shows everything as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    /// The names of the columns.
    Columns(Vec<String>),
    /// The values of a row; `None` is `NULL`.
    Row(Vec<Option<String>>),
    /// A statement is complete.
    Complete,
    /// A statement was refused.
    Error { severity: String, message: String },
    /// A notice or warning.
    Notice(Notice),
    /// A notification.
    Notified(Notified),
    /// The whole request is answered.
    Ready,
    /// Anything else.
    Other,
}

impl Message {
    /// The message as text; values are taken as they are.
    pub(crate) fn raw(&self) -> Raw {
        let mut reader = Reader(&self.body);
        match self.kind {
            ROW_DESCRIPTION => {
                let columns = row_description(&self.body);
                Raw::Columns(columns.into_iter().map(|c| c.name).collect())
            }
            DATA_ROW => Raw::Row(
                (0..reader.u16())
                    .map(|_| {
                        let length = usize::try_from(reader.u32() as i32).ok()?;
                        Some(String::from_utf8_lossy(reader.take(length)).into_owned())
                    })
                    .collect(),
            ),
            COMMAND_COMPLETE => Raw::Complete,
            ERROR => {
                let notice = notice(&self.body);
                Raw::Error {
                    severity: notice.severity.to_string(),
                    message: notice.message.to_string(),
                }
            }
            NOTICE => Raw::Notice(notice(&self.body)),
            NOTIFICATION => Raw::Notified(Notified {
                pid: reader.u32() as i32,
                channel: reader.text().to_owned(),
                payload: reader.text().to_owned(),
            }),
            READY_FOR_QUERY => Raw::Ready,
            _ => Raw::Other,
        }
    }
}

/// Everything that a script answered, from the messages that came.
pub(super) fn batch(messages: &[Message], sql: &str, format: Format, types: &TypeNames) -> Batch {
    let mut batch = Batch::default();
    let mut columns: Vec<Described> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut notices: Vec<Notice> = Vec::new();
    for Message { kind, body } in messages {
        match *kind {
            ROW_DESCRIPTION => columns = row_description(body),
            DATA_ROW => rows.push(data_row(body, &columns, format, types)),
            NOTICE => notices.push(notice(body)),
            COMMAND_COMPLETE => {
                let (tag, affected) = command_tag(body);
                batch.replies.push(Reply {
                    columns: columns.drain(..).map(|c| types.column(c)).collect(),
                    rows: std::mem::take(&mut rows).into(),
                    affected,
                    tag,
                    notices: std::mem::take(&mut notices).into(),
                });
            }
            ERROR => batch.error = Some(error(body, sql)),
            READY_FOR_QUERY => batch.status = status(body),
            _ => {}
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_any_boundary() {
        let stream = [b"Z\0\0\0\x05I".as_slice(), b"C\0\0\0\x0bINSERT\0"].concat();
        for cut in 0..stream.len() {
            let mut splitter = Splitter::default();
            splitter.push(&stream[..cut]);
            let mut kinds: Vec<u8> = std::iter::from_fn(|| splitter.next())
                .map(|m| m.kind)
                .collect();
            splitter.push(&stream[cut..]);
            kinds.extend(std::iter::from_fn(|| splitter.next()).map(|m| m.kind));
            assert_eq!(kinds, [READY_FOR_QUERY, COMMAND_COMPLETE], "cut at {cut}");
        }
    }

    #[test]
    fn tags_lose_their_numbers() {
        assert_eq!(command_tag(b"INSERT 0 3\0"), ("INSERT".into(), 3));
        assert_eq!(command_tag(b"SELECT 2\0"), ("SELECT".into(), 2));
        assert_eq!(command_tag(b"CREATE TABLE\0"), ("CREATE TABLE".into(), 0));
    }

    #[test]
    fn positions_count_characters_and_become_byte_offsets() {
        let error = error(b"C42703\0Mno such column\0P10\0\0", "SELECT 'ä' x");
        assert_eq!(error.position, Some(10));
        let error = super::error(b"C42703\0Mno such column\0P11\0\0", "SELECT 'ä' x");
        assert_eq!(error.position, Some(11));
    }
}
