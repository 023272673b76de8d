//! The server's half of the MySQL protocol (MySQL manual, "Client/Server Protocol"), as far as
//! replies need it. MariaDB speaks the same.

use std::sync::Arc;

use rowlock_model::{Batch, Column, DbError, ErrorClass, Reply, Row, TransactionStatus, Value};

use super::decode::{self, Format};
use crate::tap::Framing;

/// One packet: its number within an answer, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(super) sequence: u8,
    pub(super) body: Vec<u8>,
}

/// Packets of this length are continued in the next one.
const LONGEST: usize = 0xff_ff_ff;

/// Capability: the end of rows is an OK packet, and nothing ends the list of columns.
const DEPRECATE_EOF: u32 = 1 << 24;

const STATUS_IN_TRANSACTION: u16 = 0x0001;
const STATUS_MORE_RESULTS: u16 = 0x0008;

/// Cuts a stream of bytes into packets.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    pending: Vec<u8>,
    /// The beginning of a packet that is continued.
    begun: Option<Packet>,
}

impl Framing for Splitter {
    type Message = Packet;

    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    fn next(&mut self) -> Option<Packet> {
        loop {
            let [a, b, c, sequence] = *self.pending.first_chunk()?;
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            let body = self.pending.get(4..4 + length)?.to_vec();
            self.pending.drain(..4 + length);
            let mut packet = match self.begun.take() {
                Some(begun) => begun,
                None => Packet {
                    sequence,
                    body: Vec::new(),
                },
            };
            packet.body.extend(body);
            if length < LONGEST {
                return Some(packet);
            }
            self.begun = Some(packet);
        }
    }
}

/// Reads fields of a packet; a packet that is too short reads as zeroes, never as a panic.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// An integer of `n` bytes, least significant first.
    pub(super) fn uint(&mut self, n: usize) -> u64 {
        let bytes = self.take(n);
        bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    /// An integer of one to nine bytes.
    fn length(&mut self) -> usize {
        let n = match self.uint(1) {
            0xfc => self.uint(2),
            0xfd => self.uint(3),
            0xfe => self.uint(8),
            n => n,
        };
        usize::try_from(n).unwrap_or(usize::MAX)
    }

    /// Bytes that follow their length.
    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let length = self.length();
        self.take(length)
    }

    fn until_zero(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|b| *b == 0);
        let bytes = self.take(end.unwrap_or(self.0.len()));
        self.take(1);
        bytes
    }
}

/// What a server says of itself before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Greeting {
    /// `8.4.0`, `10.11.14-MariaDB-...`.
    pub(super) version: String,
    /// The number of the connection, for `KILL`.
    pub(super) connection_id: u32,
    /// The end of rows is an OK packet.
    pub(super) deprecate_eof: bool,
}

/// Takes `CLIENT_FOUND_ROWS` out of a `HandshakeResponse41`, with its packet header.
pub(super) fn count_changed_rows(response: &mut [u8]) {
    const HEADER: usize = 4;
    const CLIENT_FOUND_ROWS: u8 = 2;
    if let Some(capabilities) = response.get_mut(HEADER) {
        *capabilities &= !CLIENT_FOUND_ROWS;
    }
}

/// Reads a `HandshakeV10`.
pub(super) fn greeting(body: &[u8]) -> Greeting {
    let mut reader = Reader(body);
    reader.take(1); // protocol version
    let version = String::from_utf8_lossy(reader.until_zero()).into_owned();
    let connection_id = reader.uint(4) as u32;
    reader.take(9); // part of the challenge
    let low = reader.uint(2) as u32;
    reader.take(3); // character set, status
    let high = reader.uint(2) as u32;
    Greeting {
        // MariaDB puts a number before its own that old replication clients want to see.
        version: version.trim_start_matches("5.5.5-").to_owned(),
        connection_id,
        deprecate_eof: (low | high << 16) & DEPRECATE_EOF != 0,
    }
}

/// A column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    name: Arc<str>,
    pub(super) kind: u8,
    pub(super) flags: u16,
    /// The values are bytes, not text.
    pub(super) is_binary: bool,
    length: u32,
}

const FLAG_UNSIGNED: u16 = 0x20;
const FLAG_ENUM: u16 = 0x100;
const FLAG_SET: u16 = 0x800;

impl Described {
    pub(super) fn is_unsigned(&self) -> bool {
        self.flags & FLAG_UNSIGNED != 0
    }

    fn read(body: &[u8]) -> Described {
        let mut reader = Reader(body);
        for _ in 0..4 {
            reader.bytes(); // catalogue, schema, table, original table
        }
        let name = String::from_utf8_lossy(reader.bytes()).into();
        reader.bytes(); // original name
        reader.length(); // of what follows
        let charset = reader.uint(2);
        let length = reader.uint(4) as u32;
        Described {
            name,
            kind: reader.uint(1) as u8,
            flags: reader.uint(2) as u16,
            is_binary: charset == 63,
            length,
        }
    }

    /// The type as `SHOW COLUMNS` would name it, without lengths.
    fn type_name(&self) -> String {
        let by_charset = |text: &str, binary: &str| {
            let name = if self.is_binary { binary } else { text };
            name.to_owned()
        };
        let name = match self.kind {
            0 | 246 => "decimal",
            1 => "tinyint",
            2 => "smallint",
            3 => "int",
            4 => "float",
            5 => "double",
            6 => "null",
            7 => "timestamp",
            8 => "bigint",
            9 => "mediumint",
            10 => "date",
            11 => "time",
            12 => "datetime",
            13 => return "year".to_owned(),
            16 => return "bit".to_owned(),
            245 => "json",
            255 => "geometry",
            _ if self.flags & FLAG_ENUM != 0 || self.kind == 247 => "enum",
            _ if self.flags & FLAG_SET != 0 || self.kind == 248 => "set",
            249..=252 => match self.length {
                0..=1023 => return by_charset("tinytext", "tinyblob"),
                0x00ff_ffff.. if self.length > 0x0fff_ffff => {
                    return by_charset("longtext", "longblob");
                }
                0x000f_ffff.. => return by_charset("mediumtext", "mediumblob"),
                _ => return by_charset("text", "blob"),
            },
            254 => return by_charset("char", "binary"),
            _ => return by_charset("varchar", "varbinary"),
        };
        match self.is_unsigned() {
            true => format!("{name} unsigned"),
            false => name.to_owned(),
        }
    }
}

/// An `ERR_Packet` as an error.
pub(super) fn error(body: &[u8]) -> DbError {
    let mut reader = Reader(body);
    reader.take(1);
    let number = reader.uint(2) as u16;
    let mut sqlstate = String::new();
    if reader.0.first() == Some(&b'#') {
        reader.take(1);
        sqlstate = String::from_utf8_lossy(reader.take(5)).into_owned();
    }
    DbError::new(
        ErrorClass::of_errno(number, &sqlstate),
        &number.to_string(),
        String::from_utf8_lossy(reader.0).into_owned(),
    )
}

/// The packets of the last answer: numbers begin with 1 again for each request.
pub(super) fn last_answer(packets: &[Packet]) -> &[Packet] {
    let start = packets.iter().rposition(|p| p.sequence == 1);
    &packets[start.unwrap_or(0)..]
}

/// Everything that a request answered. `tags` are those of its statements, in order.
pub(super) fn batch(
    packets: &[Packet],
    deprecate_eof: bool,
    format: Format,
    tags: &[Arc<str>],
    before: TransactionStatus,
) -> Batch {
    let mut batch = Batch {
        status: before,
        ..Batch::default()
    };
    let mut packets = packets.iter().map(|p| p.body.as_slice());
    while let Some(first) = packets.next() {
        let mut reply = Reply {
            tag: tags.get(batch.replies.len()).cloned().unwrap_or_default(),
            ..Reply::default()
        };
        let status = match first.first() {
            Some(0x00) => {
                let (affected, status) = ok(first);
                reply.affected = affected;
                status
            }
            Some(0xff) | None => {
                batch.error = Some(error(first));
                break;
            }
            Some(_) => match rows(&mut packets, first, deprecate_eof, format, &mut reply) {
                Ok(status) => status,
                Err(error) => {
                    batch.error = Some(error);
                    break;
                }
            },
        };
        batch.replies.push(reply);
        batch.status = match status & STATUS_IN_TRANSACTION {
            0 => TransactionStatus::Idle,
            _ => TransactionStatus::InTransaction,
        };
        if status & STATUS_MORE_RESULTS == 0 {
            break;
        }
    }
    // An error has no status. These end the transaction, all others leave it open.
    let ends = [ErrorClass::Deadlock, ErrorClass::Serialization];
    if batch
        .error
        .as_ref()
        .is_some_and(|e| ends.contains(&e.class))
    {
        batch.status = TransactionStatus::Idle;
    }
    batch
}

/// Affected rows and status of an `OK_Packet`.
fn ok(body: &[u8]) -> (u64, u16) {
    let mut reader = Reader(body);
    reader.take(1);
    let affected = reader.length() as u64;
    reader.length(); // last insert id
    (affected, reader.uint(2) as u16)
}

/// Reads columns and rows into `reply`; gives the status at their end.
fn rows<'a>(
    packets: &mut impl Iterator<Item = &'a [u8]>,
    first: &[u8],
    deprecate_eof: bool,
    format: Format,
    reply: &mut Reply,
) -> Result<u16, DbError> {
    let count = Reader(first).length();
    let columns: Vec<Described> = packets.take(count).map(Described::read).collect();
    if !deprecate_eof {
        packets.next();
    }
    reply.columns = columns
        .iter()
        .map(|column| Column {
            name: Arc::clone(&column.name),
            type_name: column.type_name().into(),
        })
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut status = 0;
    for body in packets {
        match body.first() {
            Some(0xff) => return Err(error(body)),
            Some(0xfe) if deprecate_eof && body.len() < LONGEST => {
                status = ok(body).1;
                break;
            }
            Some(0xfe) if body.len() < 9 => {
                status = Reader(body.get(3..).unwrap_or(&[])).uint(2) as u16;
                break;
            }
            _ => rows.push(row(body, &columns, format)),
        }
    }
    reply.rows = rows.into();
    Ok(status)
}

fn row(body: &[u8], columns: &[Described], format: Format) -> Row {
    let mut reader = Reader(body);
    match format {
        Format::Text => columns
            .iter()
            .map(|column| match reader.0.first() {
                Some(0xfb) => {
                    reader.take(1);
                    Value::Null
                }
                _ => decode::from_text(column, reader.bytes()),
            })
            .collect(),
        Format::Binary => {
            reader.take(1);
            // Two bits are reserved.
            let nulls = reader.take((columns.len() + 9) / 8);
            columns
                .iter()
                .enumerate()
                .map(|(i, column)| {
                    let bit = i + 2;
                    match nulls.get(bit / 8).is_some_and(|b| b >> (bit % 8) & 1 == 1) {
                        true => Value::Null,
                        false => decode::from_binary(column, &mut reader),
                    }
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_cut_at_any_boundary() {
        let stream = [b"\x02\0\0\x01ab".as_slice(), b"\x01\0\0\x02c"].concat();
        for cut in 0..stream.len() {
            let mut splitter = Splitter::default();
            let mut bodies: Vec<Vec<u8>> = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                splitter.push(part);
                bodies.extend(std::iter::from_fn(|| splitter.next()).map(|p| p.body));
            }
            assert_eq!(bodies, [b"ab".to_vec(), b"c".to_vec()], "cut at {cut}");
        }
    }

    #[test]
    fn errors_have_number_class_and_text() {
        let error = error(b"\xff\xbd\x04#40001Deadlock found");
        assert_eq!(&*error.code, "1213");
        assert_eq!(error.class, ErrorClass::Deadlock);
        assert_eq!(&*error.message, "Deadlock found");
    }
}
