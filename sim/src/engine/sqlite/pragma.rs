//! `PRAGMA`, as far as it matters to concurrency.

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Reply, Row, Value};

use super::Sqlite;
use super::session::{Need, Synchronous};
use super::statement::Halt;
use crate::loose::ast::Ident;

/// A reply of one value, or of none.
fn reply(name: &str, value: Option<Value>) -> Reply {
    let columns: Vec<Column> = value
        .iter()
        .map(|_| Column {
            name: name.into(),
            type_name: "null".into(),
        })
        .collect();
    let rows: Vec<Row> = value.into_iter().map(|value| Row::from([value])).collect();
    Reply {
        columns: columns.into(),
        rows: rows.into(),
        ..Reply::tag("PRAGMA")
    }
}

/// A boolean as `PRAGMA` reads it.
fn boolean(text: &str) -> bool {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" => true,
        other => other.parse::<i64>().is_ok_and(|i| i != 0),
    }
}

impl Sqlite {
    pub(super) fn pragma(
        &mut self,
        session: SessionId,
        schema: Option<&Ident>,
        name: &Ident,
        value: Option<&str>,
    ) -> Result<Reply, Halt> {
        let unsupported = |what: String| Halt::error(DbError::unsupported(what, Some(name.at)));
        if schema.is_some_and(|schema| !schema.name.eq_ignore_ascii_case("main")) {
            return Err(unsupported("a second database".to_owned()));
        }
        let word = name.name.to_ascii_lowercase();
        let settings = self.session(session).settings;
        let int = |i: i64| Some(Value::Int(i));
        match (word.as_str(), value) {
            ("journal_mode", None) => {
                // Told from memory; only a connection that has read nothing yet looks.
                let seen = match self.session(session).seen_wal {
                    Some(seen) => seen,
                    None => {
                        self.refused_read(session)?;
                        let wal = self.file().wal;
                        self.session_mut(session).seen_wal = Some(wal);
                        wal
                    }
                };
                let mode = if seen { "wal" } else { "delete" };
                Ok(reply("journal_mode", Some(Value::text(mode))))
            }
            ("journal_mode", Some(mode)) => {
                let wal = match mode.to_ascii_lowercase().as_str() {
                    "wal" => true,
                    "delete" => false,
                    other => return Err(unsupported(format!("journal_mode = {other}"))),
                };
                self.set_journal_mode(session, wal)?;
                let mode = if wal { "wal" } else { "delete" };
                Ok(reply("journal_mode", Some(Value::text(mode))))
            }
            ("busy_timeout", None) => Ok(reply("timeout", int(settings.busy_timeout_ms))),
            ("busy_timeout", Some(ms)) => {
                let ms = ms.parse().unwrap_or(0).max(0);
                self.session_mut(session).settings.busy_timeout_ms = ms;
                Ok(reply("timeout", int(ms)))
            }
            ("foreign_keys", None) => {
                Ok(reply("foreign_keys", int(i64::from(settings.foreign_keys))))
            }
            ("foreign_keys", Some(on)) => {
                // Without effect inside a transaction.
                if !self.session(session).in_transaction {
                    self.session_mut(session).settings.foreign_keys = boolean(on);
                }
                Ok(reply("", None))
            }
            ("defer_foreign_keys", None) => {
                let on = i64::from(settings.defer_foreign_keys);
                Ok(reply("defer_foreign_keys", int(on)))
            }
            ("defer_foreign_keys", Some(on)) => {
                self.session_mut(session).settings.defer_foreign_keys = boolean(on);
                Ok(reply("", None))
            }
            ("read_uncommitted", None) => {
                let on = i64::from(settings.read_uncommitted);
                Ok(reply("read_uncommitted", int(on)))
            }
            ("read_uncommitted", Some(on)) => {
                self.session_mut(session).settings.read_uncommitted = boolean(on);
                Ok(reply("", None))
            }
            ("synchronous", None) => {
                Ok(reply("synchronous", int(i64::from(settings.synchronous.0))))
            }
            ("synchronous", Some(level)) => {
                let level = match level.to_ascii_lowercase().as_str() {
                    "off" | "0" => 0,
                    "normal" | "1" => 1,
                    "full" | "2" => 2,
                    "extra" | "3" => 3,
                    other => return Err(unsupported(format!("synchronous = {other}"))),
                };
                self.session_mut(session).settings.synchronous = Synchronous(level);
                Ok(reply("", None))
            }
            ("cache_size" | "temp_store" | "mmap_size", Some(_)) => Ok(reply("", None)),
            ("user_version", None) => {
                let version = {
                    let committed = self.file().image.clone();
                    self.session(session).image(&committed).user_version
                };
                Ok(reply("user_version", int(version)))
            }
            (other, _) => Err(unsupported(format!("PRAGMA {other}"))),
        }
    }

    /// A question about the file needs to read it.
    fn refused_read(&mut self, session: SessionId) -> Result<(), Halt> {
        self.note_shared(session);
        let reads = self.session(session).lock != super::session::Lock::None;
        if !reads && !self.in_the_way(session, Need::Read).is_empty() {
            return Err(self.refused(session, super::lock::Refused::Busy, true, Need::Read));
        }
        Ok(())
    }
}
