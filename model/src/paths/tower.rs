//! A tower client: updates of sessions for channels, acknowledged, and sessions that can be deleted
//! once their channels are closed. With an index of what was acknowledged, which is cached in memory.
//!
//! ```sql
//! CREATE TABLE tower_channel (id bigint PRIMARY KEY, db_id bigint NOT NULL, closed_height bigint, writes int NOT NULL);
//! CREATE TABLE tower_session (id bigint PRIMARY KEY, seq_num bigint NOT NULL, last_applied bigint NOT NULL, writes int NOT NULL);
//! CREATE TABLE tower_committed (session bigint, seq bigint, PRIMARY KEY (session, seq));   -- not yet acknowledged
//! CREATE TABLE tower_acked (channel bigint, session bigint, height bigint, PRIMARY KEY (channel, session, height));
//! CREATE TABLE tower_evaluated (session bigint, channel bigint, PRIMARY KEY (session, channel));
//! CREATE TABLE tower_closable (session bigint PRIMARY KEY, height bigint NOT NULL);
//! ```
//!
//! Invariants:
//!
//! * *Evaluated after close:* a session that has acknowledged something for a channel is evaluated at
//!   least once after that channel was closed. Kept by a [`Touch`] of the channel's row on both sides.
//! * *A session that can be deleted owes nothing:* it has no updates that are committed and not
//!   acknowledged. Committing an update writes the session's row and is refused for a session that can be
//!   deleted; kept by a touch of the session's row where a channel is closed.
//! * *Acknowledged implies stored,* and *no dirty read of the cache:* see [`CacheRule`].
//!
//! A session counts as closable here when it has no update to be acknowledged and all its channels are
//! closed; how many updates it may have in all is left out.

use std::collections::BTreeSet;

use super::cache::{CacheRule, Key, RangeCache};
use super::{Inside, Store, Touch, Touched, ask, number};
use crate::retry::{Stop, TransactionError, Work};
use crate::sync::{Guard, Mutex};
use crate::{DbError, Host, Session, Value};

/// When the mutex of the index is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MutexOrder {
    /// Not at all: the cache is right without.
    #[default]
    Never,
    /// Before the connection, by everybody.
    BeforeConnection,
    /// By an acknowledgement inside of its transaction, and by who fills the cache before its own. With no
    /// connection left each waits for the other, and no database knows of it.
    InsideTransaction,
}

/// How the client works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TowerRules {
    /// Rows that two transactions must meet on.
    pub touch: Touch,
    /// When others see what was acknowledged.
    pub cache: CacheRule,
    /// When the mutex of the index is taken.
    pub mutex: MutexOrder,
}

/// The client, as one process shares it among its tasks.
#[derive(Debug, Default)]
pub struct Tower {
    rules: TowerRules,
    cache: RangeCache,
    mutex: Option<Mutex<()>>,
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TowerError {
    /// There is no such session.
    #[error("no such session")]
    NoSession,
    /// The next update of a session has the next number.
    #[error("the updates of a session are committed in order")]
    UnorderedUpdate,
    /// The tower has applied more than was sent.
    #[error("the tower has applied an update that was never sent")]
    UnallocatedLastApplied,
    /// The tower has applied less than before.
    #[error("the tower has applied less than it had")]
    LastAppliedReversion,
    /// The session can be deleted: it gets no more updates.
    #[error("the session can be deleted")]
    SessionClosable,
    /// What is acknowledged was not committed.
    #[error("no such committed update")]
    NoCommittedUpdate,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The session.
    pub session: i64,
    /// The update's number.
    pub seq: i64,
    /// What the tower has applied so far.
    pub last_applied: i64,
    /// The channel that the update was for.
    pub channel: i64,
    /// Its height there.
    pub height: i64,
}

impl Tower {
    /// A client.
    pub fn new(rules: TowerRules) -> Tower {
        Tower {
            rules,
            cache: RangeCache::new(),
            mutex: (rules.mutex != MutexOrder::Never).then(|| Mutex::new(())),
        }
    }

    async fn lock(&self, order: MutexOrder) -> Option<Guard<'_, ()>> {
        match &self.mutex {
            Some(mutex) if self.rules.mutex == order => Some(mutex.lock().await),
            _ => None,
        }
    }

    /// Commits the next update of a session; what the tower had applied.
    ///
    /// # Errors
    /// Refused with a [`TowerError`]; or what the transaction came to.
    pub async fn commit_update<H: Host>(
        &self,
        store: &Store<H>,
        session: i64,
        seq: i64,
    ) -> Result<i64, TransactionError<TowerError>> {
        store.run(&mut CommitUpdate { session, seq }).await
    }

    /// Stores an acknowledgement.
    ///
    /// # Errors
    /// Refused with a [`TowerError`]; or what the transaction came to.
    pub async fn ack_update<H: Host>(
        &self,
        store: &Store<H>,
        ack: Ack,
    ) -> Result<(), TransactionError<TowerError>> {
        let _held = self.lock(MutexOrder::BeforeConnection).await;
        let key = (ack.channel, ack.session);
        let mut work = AckUpdate { tower: self, ack };
        let result = store.run(&mut work).await;
        match (&result, self.rules.cache) {
            (Ok(()), CacheRule::PublishAfterCommit) => self.cache.publish(key, ack.height),
            // It may have been stored: whoever asks next reads it.
            (Err(_), CacheRule::EvictEachAttempt | CacheRule::PublishAfterCommit) => {
                self.cache.evict(key);
            }
            _ => {}
        }
        result
    }

    /// Whether a height is acknowledged; from memory, if the index is there.
    ///
    /// # Errors
    /// What the transaction came to.
    pub async fn is_acked<H: Host>(
        &self,
        store: &Store<H>,
        key: Key,
        height: i64,
    ) -> Result<bool, TransactionError<TowerError>> {
        let _held = match self.rules.mutex {
            MutexOrder::Never => None,
            order => self.lock(order).await,
        };
        if let Some(heights) = self.cache.get(key) {
            return Ok(heights.contains(&height));
        }
        let loading = self.cache.load();
        let heights = store.run(&mut Load(key)).await?;
        let is_acked = heights.contains(&height);
        self.cache.loaded(loading, key, heights);
        Ok(is_acked)
    }

    /// Stores that a channel was closed; the sessions that can be deleted because of it.
    ///
    /// # Errors
    /// What the transaction came to.
    pub async fn mark_channel_closed<H: Host>(
        &self,
        store: &Store<H>,
        channel: i64,
        height: i64,
    ) -> Result<Vec<i64>, TransactionError<TowerError>> {
        let mut work = CloseChannel {
            touch: self.rules.touch,
            channel,
            height,
            closable: Vec::new(),
        };
        store.run(&mut work).await
    }
}

fn channel_row(id: i64) -> Touched<'static> {
    Touched {
        table: "tower_channel",
        key: ("id", id.into()),
        bytes: "db_id",
        count: "writes",
    }
}

fn session_row(id: i64) -> Touched<'static> {
    Touched {
        table: "tower_session",
        key: ("id", id.into()),
        bytes: "seq_num",
        count: "writes",
    }
}

/// Reads the index of a key.
struct Load(Key);

async fn read<S: Session>(session: &mut S, key: Key) -> Result<BTreeSet<i64>, DbError> {
    let sql = "SELECT height FROM tower_acked WHERE channel = $1 AND session = $2";
    let reply = ask(session, sql, &[key.0.into(), key.1.into()]).await?;
    let heights = reply.rows.iter().filter_map(|row| row.first()?.as_int());
    Ok(heights.collect())
}

impl<S: Session> Work<S> for Load {
    type Output = BTreeSet<i64>;
    type Refusal = TowerError;

    fn reset(&mut self) {}

    async fn run(
        &mut self,
        session: &mut Inside<'_, S>,
    ) -> Result<BTreeSet<i64>, Stop<TowerError>> {
        Ok(read(session, self.0).await?)
    }
}

struct CommitUpdate {
    session: i64,
    seq: i64,
}

impl<S: Session> Work<S> for CommitUpdate {
    type Output = i64;
    type Refusal = TowerError;

    fn reset(&mut self) {}

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<i64, Stop<TowerError>> {
        let (seq_num, last_applied) = body(session, self.session).await?;
        if self.seq != seq_num + 1 {
            return Err(Stop::Refused(TowerError::UnorderedUpdate));
        }
        let sql = "SELECT count(*) FROM tower_closable WHERE session = $1";
        if number(&ask(session, sql, &[self.session.into()]).await?) > 0 {
            return Err(Stop::Refused(TowerError::SessionClosable));
        }
        let id = Value::Int(self.session);
        let sql = "UPDATE tower_session SET seq_num = $1 WHERE id = $2";
        ask(session, sql, &[self.seq.into(), id.clone()]).await?;
        let sql = "INSERT INTO tower_committed (session, seq) VALUES ($1, $2)";
        ask(session, sql, &[id, self.seq.into()]).await?;
        Ok(last_applied)
    }
}

/// The body of a session: its last number, and what the tower has applied.
async fn body<S: Session>(session: &mut S, id: i64) -> Result<(i64, i64), Stop<TowerError>> {
    let sql = "SELECT seq_num, last_applied FROM tower_session WHERE id = $1";
    let found = ask(session, sql, &[id.into()]).await?;
    let value = |name| found.first(name).and_then(Value::as_int);
    match (value("seq_num"), value("last_applied")) {
        (Some(seq_num), Some(last_applied)) => Ok((seq_num, last_applied)),
        _ => Err(Stop::Refused(TowerError::NoSession)),
    }
}

struct AckUpdate<'a> {
    tower: &'a Tower,
    ack: Ack,
}

impl<S: Session> Work<S> for AckUpdate<'_> {
    type Output = ();
    type Refusal = TowerError;

    fn reset(&mut self) {
        if self.tower.rules.cache == CacheRule::EvictEachAttempt {
            self.tower.cache.evict((self.ack.channel, self.ack.session));
        }
    }

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<(), Stop<TowerError>> {
        let ack = self.ack;
        let (seq_num, last_applied) = body(session, ack.session).await?;
        if ack.last_applied > seq_num {
            return Err(Stop::Refused(TowerError::UnallocatedLastApplied));
        }
        if ack.last_applied < last_applied {
            return Err(Stop::Refused(TowerError::LastAppliedReversion));
        }
        let id = Value::Int(ack.session);
        let sql = "DELETE FROM tower_committed WHERE session = $1 AND seq = $2";
        if ask(session, sql, &[id.clone(), ack.seq.into()])
            .await?
            .affected
            == 0
        {
            return Err(Stop::Refused(TowerError::NoCommittedUpdate));
        }
        let sql = "SELECT closed_height FROM tower_channel WHERE id = $1";
        let channel = ask(session, sql, &[ack.channel.into()]).await?;
        let closed = channel.first("closed_height").and_then(Value::as_int);
        self.index(session).await?;
        let sql = "UPDATE tower_session SET last_applied = $1 WHERE id = $2";
        ask(session, sql, &[ack.last_applied.into(), id]).await?;
        if let Some(height) = closed {
            evaluate(session, ack.session, ack.channel, height).await?;
        }
        Ok(())
    }
}

impl AckUpdate<'_> {
    /// Adds the height to the index: stored if the index, as this process has it, says that it is new.
    async fn index<S: Session>(&self, session: &mut S) -> Result<(), DbError> {
        let (tower, ack) = (self.tower, self.ack);
        let _held = tower.lock(MutexOrder::InsideTransaction).await;
        let key = (ack.channel, ack.session);
        let publishes = tower.rules.cache == CacheRule::PublishAfterCommit;
        let known = match tower.cache.get(key) {
            // What others published may be newer than this transaction's snapshot, never older.
            Some(known) => known,
            None => {
                let loading = tower.cache.load();
                let read = read(session, key).await?;
                if !publishes {
                    tower.cache.loaded(loading, key, read.clone());
                }
                read
            }
        };
        if known.contains(&ack.height) {
            return Ok(());
        }
        if known.is_empty() {
            tower
                .rules
                .touch
                .row(session, channel_row(ack.channel))
                .await?;
        }
        let sql = "INSERT INTO tower_acked (channel, session, height) VALUES ($1, $2, $3)";
        let row = [ack.channel.into(), ack.session.into(), ack.height.into()];
        ask(session, sql, &row).await?;
        if !publishes {
            tower.cache.add(key, ack.height);
        }
        Ok(())
    }
}

/// Looks whether a session can be deleted now that a channel of it is closed, and stores it.
async fn evaluate<S: Session>(
    session: &mut S,
    id: i64,
    channel: i64,
    height: i64,
) -> Result<bool, DbError> {
    let sql = "SELECT count(*) FROM tower_evaluated WHERE session = $1 AND channel = $2";
    let pair = [Value::Int(id), Value::Int(channel)];
    if number(&ask(session, sql, &pair).await?) == 0 {
        let sql = "INSERT INTO tower_evaluated (session, channel) VALUES ($1, $2)";
        ask(session, sql, &pair).await?;
    }
    let sql = "SELECT (SELECT count(*) FROM tower_committed WHERE session = $1) \
               + (SELECT count(*) FROM tower_acked a, tower_channel c \
               WHERE a.session = $2 AND c.id = a.channel AND c.closed_height IS NULL)";
    if number(&ask(session, sql, &[id.into(), id.into()]).await?) > 0 {
        return Ok(false);
    }
    let sql = "SELECT count(*) FROM tower_closable WHERE session = $1";
    if number(&ask(session, sql, &[id.into()]).await?) == 0 {
        let sql = "INSERT INTO tower_closable (session, height) VALUES ($1, $2)";
        ask(session, sql, &[id.into(), height.into()]).await?;
    }
    Ok(true)
}

struct CloseChannel {
    touch: Touch,
    channel: i64,
    height: i64,
    /// Sessions that can be deleted, as this attempt found them.
    closable: Vec<i64>,
}

impl<S: Session> Work<S> for CloseChannel {
    type Output = Vec<i64>;
    type Refusal = TowerError;

    fn reset(&mut self) {
        self.closable.clear();
    }

    async fn run(&mut self, session: &mut Inside<'_, S>) -> Result<Vec<i64>, Stop<TowerError>> {
        let channel = Value::Int(self.channel);
        let sql = "SELECT DISTINCT session FROM tower_acked WHERE channel = $1 ORDER BY session";
        let sessions = ask(session, sql, std::slice::from_ref(&channel)).await?;
        self.touch.row(session, channel_row(self.channel)).await?;
        // Written as a new row would be: unless it is touched, an acknowledgement that read the
        // channel as open meets nobody.
        let sql = "UPDATE tower_channel SET closed_height = $1 WHERE id = $2";
        ask(session, sql, &[self.height.into(), channel]).await?;
        let ids = sessions.rows.iter().filter_map(|row| row.first()?.as_int());
        for id in ids {
            self.touch.row(session, session_row(id)).await?;
            if evaluate(session, id, self.channel, self.height).await? {
                self.closable.push(id);
            }
        }
        Ok(self.closable.clone())
    }
}
