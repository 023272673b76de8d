//! Who waits, for whom, and on what: MySQL and MariaDB asked in their own ways.
//!
//! * Row locks on MySQL: `performance_schema.data_lock_waits`. Its column `BLOCKING_THREAD_ID` is
//!   of no use: where the lock is implicit (a row just inserted), the requester itself is named
//!   there. The transaction of the blocker is right, and its table lock names its thread.
//! * Row locks on MariaDB: `information_schema.innodb_trx` and `innodb_lock_waits`. They are
//!   snapshots that are made anew only after 100 ms without a reader, and they also call a session
//!   blocked by those that queue behind it. So whether a session is blocked is read from
//!   `SHOW ENGINE INNODB STATUS`, which is never old, and the tables are read at rest only, not too
//!   often, and without those who came later.
//! * Metadata locks and `GET_LOCK`, on both: `performance_schema.metadata_locks`. MariaDB has it
//!   only if started so; without it the state of the session still tells that it waits.

use std::time::Duration;

use rowlock_model::{Dialect, Reply, Row, Value};
use rowlock_scenarios::stage::StageError;
use tokio::time::Instant;

use super::ask;
use crate::mysql::MySqlLink;
use crate::session::Link;

/// How old MariaDB's snapshot of its transactions must be before it is made anew: 100 ms, and some.
const SNAPSHOT_AGE: Duration = Duration::from_millis(120);

/// States of sessions that wait for a metadata lock, a table lock or a user lock.
const WAITING_STATE: &str = "(state = 'User lock' OR state LIKE 'Waiting for % lock')";

/// A session that waits.
#[derive(Debug)]
pub(super) struct Wait {
    /// The connection that waits.
    pub(super) waiter: i64,
    /// The connections that it waits for.
    pub(super) blockers: Vec<i64>,
    /// On what, in words.
    pub(super) object: String,
}

/// Those who wait, in the order in which they began, as far as it was seen.
#[derive(Debug)]
pub(super) struct Queue {
    /// The table of sessions; MySQL has moved it.
    sessions: &'static str,
    /// Whether metadata locks can be seen.
    sees_metadata: bool,
    /// Connections and what they wait on, once that is known.
    order: Vec<(i64, Option<String>)>,
    /// When MariaDB's snapshot was read last.
    read: Option<Instant>,
}

/// One lock that one connection holds or wants.
#[derive(Debug)]
struct Metadata {
    object: String,
    mode: String,
    is_granted: bool,
    owner: i64,
    is_waiting: bool,
}

impl Queue {
    pub(super) async fn on(observer: &mut MySqlLink) -> Result<Queue, StageError> {
        let reply = ask(observer, "SELECT @@performance_schema").await?;
        Ok(Queue {
            sessions: match observer.dialect() {
                Dialect::MariaDb => "information_schema.processlist",
                _ => "performance_schema.processlist",
            },
            sees_metadata: reply.scalar() == Some(&Value::Int(1)),
            order: Vec::new(),
            read: None,
        })
    }

    /// The server's table of its sessions.
    pub(super) fn sessions(&self) -> &'static str {
        self.sessions
    }

    /// Forgets everybody.
    pub(super) fn clear(&mut self) {
        self.order.clear();
    }

    /// The connections that wait for any lock, now.
    pub(super) async fn blocked(
        &mut self,
        observer: &mut MySqlLink,
    ) -> Result<Vec<i64>, StageError> {
        let sql = format!("SELECT id FROM {} WHERE {WAITING_STATE}", self.sessions);
        let mut blocked = ints(&ask(observer, &sql).await?);
        if observer.dialect() == Dialect::MariaDb {
            let reply = ask(observer, "SHOW ENGINE INNODB STATUS").await?;
            let status = reply.rows.first().and_then(|row| row[2].as_str());
            blocked.extend(lock_waits_of_status(status.unwrap_or("")));
        } else {
            let sql = "SELECT t.processlist_id FROM performance_schema.data_lock_waits w \
                JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id";
            blocked.extend(ints(&ask(observer, sql).await?));
        }
        self.order.retain(|(id, _)| blocked.contains(id));
        for id in &blocked {
            if !self.order.iter().any(|(known, _)| known == id) {
                self.order.push((*id, None));
            }
        }
        Ok(blocked)
    }

    /// Everybody who waits, with blockers. To be called when all are at rest.
    pub(super) async fn waits(
        &mut self,
        observer: &mut MySqlLink,
    ) -> Result<Vec<Wait>, StageError> {
        let mut waits = match observer.dialect() {
            Dialect::MariaDb => self.row_waits_of_mariadb(observer).await?,
            _ => row_waits_of_mysql(observer).await?,
        };
        waits.extend(self.metadata_waits(observer).await?);
        Ok(waits)
    }

    /// Notes what `waiter` waits on. Who went on and waits for something else is last again.
    fn enter(&mut self, waiter: i64, object: &str) {
        let known = self.order.iter().position(|(id, _)| *id == waiter);
        match known.map(|at| (at, &self.order[at].1)) {
            Some((_, Some(noted))) if noted == object => return,
            Some((at, None)) => {
                self.order[at].1 = Some(object.to_owned());
                return;
            }
            Some((at, Some(_))) => drop(self.order.remove(at)),
            None => {}
        }
        self.order.push((waiter, Some(object.to_owned())));
    }

    /// Whether `other` waits for something since before `waiter` does.
    fn is_ahead(&self, other: i64, waiter: i64) -> bool {
        let place = |id: i64| self.order.iter().position(|(i, _)| *i == id);
        place(other) < place(waiter)
    }

    async fn row_waits_of_mariadb(
        &mut self,
        observer: &mut MySqlLink,
    ) -> Result<Vec<Wait>, StageError> {
        if let Some(read) = self.read {
            tokio::time::sleep_until(read + SNAPSHOT_AGE).await;
        }
        // One query: all three tables from one snapshot.
        let sql = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id, w.requested_lock_id, \
             w.blocking_lock_id = COALESCE(b.trx_requested_lock_id, ''), \
             l.lock_table, l.lock_index, l.lock_mode, l.lock_data \
             FROM information_schema.innodb_lock_waits w \
             JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id \
             JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id \
             JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id \
             ORDER BY r.trx_wait_started, r.trx_id";
        let reply = ask(observer, sql).await?;
        self.read = Some(Instant::now());
        for row in reply.rows.iter() {
            if let Some(waiter) = row[0].as_int() {
                self.enter(waiter, &row[2].to_string());
            }
        }
        let mut waits: Vec<Wait> = Vec::new();
        for row in reply.rows.iter() {
            let (Some(waiter), Some(blocker)) = (row[0].as_int(), row[1].as_int()) else {
                continue;
            };
            let only_wants = row[3] == Value::Int(1);
            let blockers = match only_wants && !self.is_ahead(blocker, waiter) {
                true => Vec::new(),
                false => vec![blocker],
            };
            add(&mut waits, waiter, blockers, || describe_row(&row[4..]));
        }
        Ok(waits)
    }

    async fn metadata_waits(&mut self, observer: &mut MySqlLink) -> Result<Vec<Wait>, StageError> {
        if !self.sees_metadata {
            let sql = format!(
                "SELECT id, state FROM {} WHERE {WAITING_STATE}",
                self.sessions
            );
            let reply = ask(observer, &sql).await?;
            let wait = |row: &Row| {
                Some(Wait {
                    waiter: row[0].as_int()?,
                    blockers: Vec::new(),
                    object: row[1].to_string(),
                })
            };
            return Ok(reply.rows.iter().filter_map(wait).collect());
        }
        let sql = "SELECT CONCAT_WS(' ', LOWER(m.object_type), NULLIF(CONCAT_WS('.', \
             m.object_schema, m.object_name), '')), m.lock_type, m.lock_status = 'GRANTED', \
             t.processlist_id, t.processlist_state = 'User lock' \
             OR t.processlist_state LIKE 'Waiting for % lock' \
             FROM performance_schema.metadata_locks m \
             JOIN performance_schema.threads t ON t.thread_id = m.owner_thread_id \
             WHERE t.processlist_id <> CONNECTION_ID() ORDER BY m.owner_event_id";
        let reply = ask(observer, sql).await?;
        let locks: Vec<Metadata> = reply.rows.iter().filter_map(metadata).collect();
        let wanted: Vec<&Metadata> = locks
            .iter()
            .filter(|lock| !lock.is_granted && lock.is_waiting)
            .collect();
        for lock in &wanted {
            self.enter(lock.owner, &lock.object);
        }
        let mut waits = Vec::new();
        for lock in wanted {
            let conflicts = |other: &&Metadata| {
                other.object == lock.object
                    && other.owner != lock.owner
                    && are_in_conflict(&lock.mode, &other.mode)
                    && (other.is_granted || self.is_ahead(other.owner, lock.owner))
            };
            let blockers = locks.iter().filter(conflicts).map(|other| other.owner);
            add(&mut waits, lock.owner, blockers.collect(), || {
                format!("{} ({})", lock.object, lock.mode)
            });
        }
        Ok(waits)
    }
}

async fn row_waits_of_mysql(observer: &mut MySqlLink) -> Result<Vec<Wait>, StageError> {
    let owners = ask(
        observer,
        "SELECT DISTINCT l.engine_transaction_id, t.processlist_id \
         FROM performance_schema.data_locks l \
         JOIN performance_schema.threads t ON t.thread_id = l.thread_id \
         WHERE l.lock_type = 'TABLE'",
    )
    .await?;
    let owner_of = |transaction: &Value| {
        let row = owners.rows.iter().find(|row| row[0] == *transaction);
        row.and_then(|row| row[1].as_int())
    };
    let reply = ask(
        observer,
        "SELECT t.processlist_id, w.blocking_engine_transaction_id, \
         CONCAT(l.object_schema, '.', l.object_name), l.index_name, l.lock_mode, l.lock_data \
         FROM performance_schema.data_lock_waits w \
         JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id \
         LEFT JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id",
    )
    .await?;
    let mut waits = Vec::new();
    for row in reply.rows.iter() {
        if let Some(waiter) = row[0].as_int() {
            let blockers = owner_of(&row[1]).into_iter().collect();
            add(&mut waits, waiter, blockers, || describe_row(&row[2..]));
        }
    }
    Ok(waits)
}

/// Adds blockers to the wait of `waiter`.
fn add(waits: &mut Vec<Wait>, waiter: i64, blockers: Vec<i64>, object: impl FnOnce() -> String) {
    match waits.iter_mut().find(|wait| wait.waiter == waiter) {
        Some(wait) => wait.blockers.extend(blockers),
        None => waits.push(Wait {
            waiter,
            blockers,
            object: object(),
        }),
    }
}

/// A row lock in words, of table, index, mode and key.
fn describe_row(row: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::Null => "?".to_owned(),
        value => value.to_string(),
    };
    match &row[1] {
        Value::Null => format!("table {} ({})", text(&row[0]), text(&row[2])),
        index => format!(
            "row ({}) of {}, index {} ({})",
            text(&row[3]),
            text(&row[0]),
            text(index),
            text(&row[2])
        ),
    }
}

fn metadata(row: &Row) -> Option<Metadata> {
    Some(Metadata {
        object: row[0].to_string(),
        mode: row[1].to_string(),
        is_granted: row[2] == Value::Int(1),
        owner: row[3].as_int()?,
        is_waiting: row[4] == Value::Int(1),
    })
}

/// Whether two metadata locks on one object exclude each other (MySQL's source documentation,
/// "The class MDL_lock", compatibility matrices).
fn are_in_conflict(a: &str, b: &str) -> bool {
    // In this order each is at odds with a tail of the list.
    const MODES: [&str; 10] = [
        "SHARED",
        "SHARED_HIGH_PRIO",
        "SHARED_READ",
        "SHARED_WRITE",
        "SHARED_WRITE_LOW_PRIO",
        "SHARED_UPGRADABLE",
        "SHARED_READ_ONLY",
        "SHARED_NO_WRITE",
        "SHARED_NO_READ_WRITE",
        "EXCLUSIVE",
    ];
    const CONFLICTS: [&[usize]; 10] = [
        &[9],
        &[9],
        &[8, 9],
        &[6, 7, 8, 9],
        &[6, 7, 8, 9],
        &[5, 7, 8, 9],
        &[3, 4, 8, 9],
        &[3, 4, 5, 7, 8, 9],
        &[2, 3, 4, 5, 6, 7, 8, 9],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ];
    let place = |mode: &str| MODES.iter().position(|m| *m == mode);
    match (place(a), place(b)) {
        (Some(a), Some(b)) => CONFLICTS[a].contains(&b),
        // The locks of scopes (a whole schema, the server): those that intend to change something
        // below do not exclude each other.
        _ => a != b,
    }
}

/// The connections that `SHOW ENGINE INNODB STATUS` of MariaDB shows in a lock wait.
fn lock_waits_of_status(status: &str) -> Vec<i64> {
    // The report of the latest deadlock comes before, and looks the same.
    let list = status.split_once("LIST OF TRANSACTIONS FOR EACH SESSION:");
    let mut waits = Vec::new();
    let mut is_waiting = false;
    for line in list.map_or("", |(_, list)| list).lines() {
        if line.starts_with("---TRANSACTION") {
            is_waiting = false;
        } else if line.starts_with("LOCK WAIT") {
            is_waiting = true;
        } else if let Some(rest) = line.strip_prefix("MariaDB thread id ") {
            let number = rest.split(',').next().and_then(|id| id.parse::<i64>().ok());
            waits.extend(number.filter(|_| is_waiting));
            is_waiting = false;
        }
    }
    waits
}

fn ints(reply: &Reply) -> Vec<i64> {
    reply
        .rows
        .iter()
        .filter_map(|row| row[0].as_int())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_mutual() {
        for a in [
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_UPGRADABLE",
            "SHARED_NO_WRITE",
            "EXCLUSIVE",
        ] {
            for b in [
                "SHARED_READ",
                "SHARED_READ_ONLY",
                "SHARED_NO_READ_WRITE",
                "EXCLUSIVE",
            ] {
                assert_eq!(are_in_conflict(a, b), are_in_conflict(b, a), "{a} {b}");
            }
        }
        assert!(!are_in_conflict("SHARED_READ", "SHARED_WRITE"));
        assert!(!are_in_conflict(
            "INTENTION_EXCLUSIVE",
            "INTENTION_EXCLUSIVE"
        ));
        assert!(are_in_conflict("INTENTION_EXCLUSIVE", "SHARED"));
    }

    #[test]
    fn only_present_transactions_wait() {
        let status = "LATEST DETECTED DEADLOCK\n---TRANSACTION 1, ACTIVE\nLOCK WAIT 2 lock struct(s)\n\
            MariaDB thread id 9, OS thread handle 1, query id 1\n\
            LIST OF TRANSACTIONS FOR EACH SESSION:\n---TRANSACTION 3, ACTIVE 1 sec\n\
            LOCK WAIT 2 lock struct(s), heap size 1\nMariaDB thread id 4, OS thread handle 1\n\
            ---TRANSACTION 2, ACTIVE 1 sec\n2 lock struct(s)\nMariaDB thread id 3, OS thread handle 2\n";
        assert_eq!(lock_waits_of_status(status), [4]);
    }
}
