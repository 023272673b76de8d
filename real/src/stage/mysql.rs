//! The stage on MySQL and MariaDB.
//!
//! Both find deadlocks by themselves, at once, and choose the victim by a fixed rule: a schedule
//! does not plan victims here. What the two say of who waits differs; see [`waits`].

mod waits;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Dialect, ErrorClass, Isolation, Reply, Value};
use rowlock_scenarios::stage::{Blocked, StageError};

use super::{failed, failure};
use crate::mysql::{MySqlLink, MySqlTarget};
use crate::server::MySqlServer;
use crate::session::{Link, RealSession};
use crate::target::Target;
use waits::Queue;

/// The database of a run on a throwaway server, called as in the tests of MySQL and MariaDB.
const DATABASE: &str = "test";

/// The stage's own queries give up soon: it never joins a queue for longer, since those behind it
/// would wait for it.
const OBSERVER_SETTINGS: &[&str] = &[
    "SET SESSION lock_wait_timeout = 2",
    "SET SESSION innodb_lock_wait_timeout = 2",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
];

/// How long the server may take to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct MySqlStage {
    // Sessions before the server that they are on.
    observer: MySqlLink,
    /// Kept for its life; `None` for a server that is not ours.
    _server: Option<Arc<MySqlServer>>,
    /// The database of the run.
    target: MySqlTarget,
    database: String,
    queue: Queue,
}

impl MySqlStage {
    pub(crate) async fn on_server(server: Arc<MySqlServer>) -> Result<MySqlStage, StageError> {
        let mut observer = server
            .target()
            .connect()
            .await
            .map_err(failed("cannot connect to the throwaway server"))?;
        prepare(&mut observer).await?;
        let queue = Queue::on(&mut observer).await?;
        Ok(MySqlStage {
            observer,
            target: server.target().with_database(DATABASE),
            _server: Some(server),
            database: DATABASE.to_owned(),
            queue,
        })
    }

    /// On a database that is there already. Nothing but reading is done before its mark was seen.
    pub(crate) async fn on_url(
        target: &MySqlTarget,
        dialect: Dialect,
    ) -> Result<MySqlStage, StageError> {
        let database = target
            .database()
            .ok_or_else(|| failure("the URL names no database"))?
            .to_owned();
        let mut observer = target
            .connect()
            .await
            .map_err(failed("cannot connect to the server"))?;
        if observer.dialect() != dialect {
            return Err(failure(format!("the server is {}", observer.version())));
        }
        if !is_disposable(&mut observer, &database).await? {
            return Err(failure(format!(
                "database `{database}` is not marked as disposable: a run drops it, makes it anew, \
                 and ends the sessions of others in it; to allow that, give it a name that ends \
                 with `_rowlock`{}",
                match dialect {
                    Dialect::MariaDb => format!(
                        ", or: ALTER DATABASE {} COMMENT '{}'",
                        quote_identifier(&database),
                        Target::DISPOSABLE
                    ),
                    _ => String::new(),
                }
            )));
        }
        prepare(&mut observer).await?;
        let queue = Queue::on(&mut observer).await?;
        Ok(MySqlStage {
            observer,
            _server: None,
            target: target.clone(),
            database,
            queue,
        })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.observer.dialect()
    }

    pub(super) fn version(&self) -> String {
        self.observer.version()
    }

    pub(crate) async fn reset(&mut self, setup: &[String]) -> Result<(), StageError> {
        self.end_others().await?;
        let name = quote_identifier(&self.database);
        // The character set of a database that somebody made for us stays.
        let create = match self.ask(&format!("SHOW CREATE DATABASE {name}")).await {
            Ok(reply) => reply.rows[0][1].to_string(),
            Err(_) => format!("CREATE DATABASE {name}"),
        };
        for sql in [&format!("DROP DATABASE IF EXISTS {name}"), &create] {
            self.observer
                .exec(sql, &[])
                .await
                .map_err(failed("cannot make an empty database"))?;
        }
        self.queue.clear();
        let sql = format!("USE {name}");
        self.observer
            .batch(&sql)
            .await
            .map_err(failed("cannot enter the empty database"))?;
        self.run_setup(setup).await
    }

    async fn run_setup(&self, setup: &[String]) -> Result<(), StageError> {
        if setup.is_empty() {
            return Ok(());
        }
        let mut session = self
            .target
            .connect()
            .await
            .map_err(failed("cannot connect for the set-up"))?;
        for script in setup {
            super::run_setup_script(&mut session, script).await?;
        }
        session
            .close()
            .await
            .map_err(failed("the set-up session was lost"))
    }

    /// Ends every session in the database of the run but our own.
    async fn end_others(&mut self) -> Result<(), StageError> {
        let sql = format!(
            "SELECT id FROM {} WHERE db = {} AND id <> CONNECTION_ID()",
            self.queue.sessions(),
            quote_text(&self.database)
        );
        let reply = self.ask(&sql).await?;
        for id in reply.rows.iter().filter_map(|row| row[0].as_int()) {
            self.terminate(id).await?;
        }
        Ok(())
    }

    pub(super) async fn connect(
        &mut self,
        _id: SessionId,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<RealSession, StageError> {
        let target = match isolation {
            Some(isolation) => self.target.with_isolation(isolation),
            None => self.target.clone(),
        };
        let link = target
            .connect()
            .await
            .map_err(failed(&format!("session `{label}` cannot connect")))?;
        Ok(RealSession::on_mysql(link))
    }

    /// The server looks for deadlocks itself and chooses the victim: there is nothing to plan.
    pub(super) async fn plan_victims(
        &mut self,
        _victims: &[SessionId],
        _open: Vec<(SessionId, &mut RealSession)>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// How long to wait for a deadlock to be found.
    pub(super) fn victim_timeout(&self) -> Result<Duration, StageError> {
        Ok(Duration::from_secs(2))
    }

    /// Those of `busy` that the server does not call blocked.
    pub(super) async fn running(
        &mut self,
        busy: &[(SessionId, i64)],
        _all: &[(SessionId, i64)],
    ) -> Result<Vec<SessionId>, StageError> {
        let blocked = self.queue.blocked(&mut self.observer).await?;
        let running = |blocked: &[i64]| -> Vec<SessionId> {
            busy.iter()
                .filter(|(_, id)| !blocked.contains(id))
                .map(|(session, _)| *session)
                .collect()
        };
        if !running(&blocked).is_empty() {
            return Ok(running(&blocked));
        }
        // A thread of its own looks for cycles (MySQL), right after the wait began: until then
        // the victim of a deadlock looks like everybody else who waits.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(running(&self.queue.blocked(&mut self.observer).await?))
    }

    pub(super) async fn blocked(
        &mut self,
        busy: &[(SessionId, i64)],
        all: &[(SessionId, i64)],
        _labels: &[&str],
    ) -> Result<Vec<Blocked>, StageError> {
        if busy.is_empty() {
            self.queue.clear();
            return Ok(Vec::new());
        }
        let session_of = |id: i64| all.iter().find(|(_, i)| *i == id).map(|(s, _)| *s);
        let mut blocked = Vec::new();
        for wait in self.queue.waits(&mut self.observer).await? {
            let Some((session, _)) = busy.iter().find(|(_, id)| *id == wait.waiter) else {
                continue;
            };
            let mut blockers: Vec<SessionId> =
                wait.blockers.into_iter().filter_map(session_of).collect();
            blockers.sort();
            blockers.dedup();
            blocked.push(Blocked {
                session: *session,
                blockers,
                object: wait.object,
            });
        }
        blocked.sort_by_key(|b| b.session);
        blocked.dedup_by_key(|b| b.session);
        Ok(blocked)
    }

    async fn ask(&mut self, sql: &str) -> Result<Reply, StageError> {
        ask(&mut self.observer, sql).await
    }

    /// Ends a session and waits until its transaction and its locks are gone.
    pub(super) async fn terminate(&mut self, id: i64) -> Result<(), StageError> {
        match self.observer.exec(&format!("KILL {id}"), &[]).await {
            Ok(_) => {}
            // Gone already.
            Err(error) if &*error.code == "1094" => return Ok(()),
            Err(error) => return Err(failed("cannot end a session")(error)),
        }
        let sql = format!("SELECT 1 FROM {} WHERE id = {id}", self.queue.sessions());
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.ask(&sql).await?.rows.is_empty() {
            if Instant::now() > deadline {
                return Err(failure("a session that was killed does not end"));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub(super) async fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        match self.observer.exec(sql, &[]).await {
            Err(error) if error.class == ErrorClass::ConnectionLost => {
                Err(failed("the observing session was lost")(error))
            }
            answer => Ok(answer),
        }
    }
}

async fn prepare(observer: &mut MySqlLink) -> Result<(), StageError> {
    for sql in OBSERVER_SETTINGS {
        observer
            .exec(sql, &[])
            .await
            .map_err(failed("cannot prepare the observing session"))?;
    }
    Ok(())
}

/// MariaDB keeps a comment with a database; MySQL does not, so there the name must tell.
async fn is_disposable(observer: &mut MySqlLink, database: &str) -> Result<bool, StageError> {
    if database.ends_with("_rowlock") {
        return Ok(true);
    }
    if observer.dialect() != Dialect::MariaDb {
        return Ok(false);
    }
    let sql = format!(
        "SELECT schema_comment FROM information_schema.schemata WHERE schema_name = {}",
        quote_text(database)
    );
    let reply = ask(observer, &sql).await?;
    let comment = reply.scalar().and_then(Value::as_str).unwrap_or("");
    Ok(comment.contains(Target::DISPOSABLE))
}

/// A query of the stage itself.
async fn ask(observer: &mut MySqlLink, sql: &str) -> Result<Reply, StageError> {
    observer
        .exec(sql, &[])
        .await
        .map_err(failed("cannot ask the server"))
}

fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
