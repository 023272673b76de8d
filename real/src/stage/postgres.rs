//! The stage on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, Dialect, ErrorClass, Isolation, Reply, Session, Value};
use rowlock_scenarios::stage::{Blocked, PausePlan, Paused, StageError};

use super::gate::{self, Gates};
use super::pooled::Pooled;
use super::stopped::Stopped;
use super::{DeadlockTimeouts, failed, failure};
use crate::postgres::{PostgresLink, PostgresTarget};
use crate::server::PostgresServer;
use crate::session::{Link, RealSession};
use crate::target::Target;

/// How long the stage's own queries wait for a lock before they give up: it never joins a queue
/// for longer, since those behind it would wait for it.
const OBSERVER_LOCK_TIMEOUT: &str = "2s";

/// What the stage may do with the server.
#[derive(Debug)]
enum Ownership {
    /// The server is ours: a database is dropped and created for each run.
    Server {
        // Kept for its life.
        server: Arc<PostgresServer>,
        admin: Box<PostgresLink>,
    },
    /// One database is at our disposal: it is emptied for each run.
    Database,
}

#[derive(Debug)]
pub(crate) struct PostgresStage {
    /// Backends that are held back; first, since a server waits for them when it ends.
    stopped: Stopped,
    /// Those that are held back until another one has gone on.
    behind: Stopped,
    // Sessions before the server that they are on.
    observer: Option<PostgresLink>,
    ownership: Ownership,
    target: PostgresTarget,
    timeouts: DeadlockTimeouts,
    /// Deadlock timeouts are a superuser's to set.
    is_superuser: bool,
    victims: Vec<SessionId>,
    version: String,
    gates: Option<Gates>,
    /// Server connections of the pooler through which sessions shall go; 0: none.
    pool_size: u8,
    /// That pooler, once there is a session.
    pub(super) pooled: Option<Pooled>,
}

impl PostgresStage {
    pub(crate) async fn on_server(
        server: Arc<PostgresServer>,
        timeouts: DeadlockTimeouts,
    ) -> Result<PostgresStage, StageError> {
        let admin = server
            .target("postgres")
            .with_application_name("rowlock admin")
            .connect()
            .await
            .map_err(failed("cannot connect to the throwaway server"))?;
        let version = admin.version();
        Ok(PostgresStage {
            stopped: Stopped::default(),
            behind: Stopped::default(),
            observer: None,
            target: server.target(&server.fresh_database_name()),
            ownership: Ownership::Server {
                server,
                admin: Box::new(admin),
            },
            timeouts,
            is_superuser: true,
            victims: Vec::new(),
            version,
            gates: None,
            pool_size: 0,
            pooled: None,
        })
    }

    /// On a database that is there already. Nothing but reading is done before its mark was seen.
    pub(crate) async fn on_url(
        target: &PostgresTarget,
        timeouts: DeadlockTimeouts,
    ) -> Result<PostgresStage, StageError> {
        let mut observer = target
            .with_application_name("rowlock observer")
            .connect()
            .await
            .map_err(failed("cannot connect to the server"))?;
        let reply = observer
            .exec(
                "SELECT pg_catalog.shobj_description(d.oid, 'pg_database'), r.rolsuper, d.datname \
                 FROM pg_catalog.pg_database d, pg_catalog.pg_roles r \
                 WHERE d.datname = pg_catalog.current_database() AND r.rolname = current_user",
                &[],
            )
            .await
            .map_err(failed("cannot look at the database"))?;
        let row = reply
            .rows
            .first()
            .ok_or_else(|| failure("the database cannot be looked up"))?;
        let comment = row[0].as_str().unwrap_or("");
        let name = row[2].as_str().unwrap_or("").to_owned();
        if !comment.contains(Target::DISPOSABLE) && !name.ends_with("_rowlock") {
            return Err(failure(format!(
                "database `{name}` is not marked as disposable: a run drops everything in it and \
                 ends the sessions of others; to allow that: COMMENT ON DATABASE {} IS '{}'",
                quote_identifier(&name),
                Target::DISPOSABLE
            )));
        }
        Ok(PostgresStage {
            stopped: Stopped::default(),
            behind: Stopped::default(),
            version: observer.version(),
            observer: Some(observer),
            ownership: Ownership::Database,
            target: target.clone(),
            timeouts,
            is_superuser: row[1].as_bool().unwrap_or(false),
            victims: Vec::new(),
            gates: None,
            pool_size: 0,
            pooled: None,
        })
    }

    /// The database.
    pub(crate) fn target(&self) -> &PostgresTarget {
        &self.target
    }

    pub(super) fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    pub(super) fn version(&self) -> String {
        self.version.clone()
    }

    pub(crate) async fn reset(&mut self, setup: &[String]) -> Result<(), StageError> {
        self.victims.clear();
        self.gates = None;
        self.pool_size = 0;
        self.pooled = None;
        match &mut self.ownership {
            Ownership::Server { admin, .. } => {
                self.observer = None;
                let name = quote_identifier(self.target.database());
                if !ask_texts(admin, "SELECT gid FROM pg_prepared_xacts")
                    .await?
                    .is_empty()
                {
                    let inside = self.target.with_application_name("rowlock admin");
                    let inside = inside.connect().await;
                    let mut inside = inside.map_err(failed("cannot connect to the database"))?;
                    end_prepared(&mut inside).await?;
                }
                let mut script = vec![format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")];
                script.extend(ask_texts(admin, DROP_ROLES).await?);
                script.push(format!("CREATE DATABASE {name}"));
                for sql in script {
                    admin
                        .exec(&sql, &[])
                        .await
                        .map_err(failed("cannot create a fresh database"))?;
                }
                // Types of the old database may have the numbers of new ones.
                self.target = self.target.with_database(self.target.database());
            }
            Ownership::Database => self.empty_database().await?,
        }
        self.run_setup(setup).await?;
        if self.observer.is_none() {
            let observer = self
                .target
                .with_application_name("rowlock observer")
                .with_setting("lock_timeout", OBSERVER_LOCK_TIMEOUT)
                .connect()
                .await
                .map_err(failed("cannot connect to the fresh database"))?;
            self.observer = Some(observer);
        }
        Ok(())
    }

    /// Ends all other sessions of the database, and drops all that is in it.
    async fn empty_database(&mut self) -> Result<(), StageError> {
        let observer = self.observer()?;
        end_prepared(observer).await?;
        observer
            .exec(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid() \
                 AND backend_type = 'client backend'",
                &[],
            )
            .await
            .map_err(failed("cannot end the sessions of an earlier run"))?;
        let batch = observer.batch(EMPTY_DATABASE).await;
        match batch.map(|batch| batch.error) {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(failed("cannot empty the database")(error)),
        }
    }

    async fn run_setup(&self, setup: &[String]) -> Result<(), StageError> {
        if setup.is_empty() {
            return Ok(());
        }
        let mut session = self
            .target
            .with_application_name("rowlock set-up")
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

    fn observer(&mut self) -> Result<&mut PostgresLink, StageError> {
        self.observer
            .as_mut()
            .ok_or_else(|| failure("the stage has no database yet: reset it first"))
    }

    pub(super) async fn connect(
        &mut self,
        id: SessionId,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<RealSession, StageError> {
        if self.pool_size > 0 {
            return self.pooled_session(label, isolation).await;
        }
        let mut target = self.target.with_application_name(label);
        if let Some(isolation) = isolation {
            target = target.with_isolation(isolation);
        }
        if self.is_superuser {
            target = target.with_setting("deadlock_timeout", &self.deadlock_timeout(id));
        }
        let link = target
            .connect()
            .await
            .map_err(failed(&format!("session `{label}` cannot connect")))?;
        let mut session = RealSession::on_postgres(link);
        if let Some(gates) = &mut self.gates {
            gates.admit(id, &mut session).await?;
        }
        Ok(session)
    }

    /// Holds these backends back, which wait for a lock, and no others. Only where that is possible.
    pub(super) fn hold(&mut self, backends: &[i64]) -> Result<(), StageError> {
        match self.can_stop() {
            true => self.stopped.set(backends),
            false => Ok(()),
        }
    }

    /// Holds these back as well, until [`let_others_go`](Self::let_others_go).
    pub(super) fn keep_behind(&mut self, backends: &[i64]) -> Result<(), StageError> {
        let mut backends = backends.to_vec();
        backends.retain(|backend| !self.stopped.has(*backend));
        match self.can_stop() {
            true => self.behind.set(&backends),
            false => Ok(()),
        }
    }

    /// Lets those go on that were kept behind; whether there are any.
    pub(super) fn let_others_go(&mut self) -> bool {
        let any = !self.behind.is_empty();
        self.behind.release(|_| true);
        any
    }

    /// Nobody is held back any more.
    pub(super) fn let_all_go(&mut self) {
        self.stopped.release(|_| true);
        self.behind.release(|_| true);
    }

    /// Backends may be stopped on a server that is ours, where they wait for locks and for nothing else: no
    /// pooler, and no gate.
    fn can_stop(&self) -> bool {
        let ours = matches!(self.ownership, Ownership::Server { .. });
        ours && self.pool_size == 0 && self.gates.is_none()
    }

    /// Sessions from now on go through a pooler with so many server connections.
    pub(super) fn pool(&mut self, size: u8) -> Result<(), StageError> {
        if size > 0 && !matches!(self.ownership, Ownership::Server { .. }) {
            return Err(failure(
                "a pooler is started in front of a throwaway server only (`--on postgres`)",
            ));
        }
        self.pool_size = size;
        Ok(())
    }

    /// A session by way of the pooler, which the first one starts.
    async fn pooled_session(
        &mut self,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<RealSession, StageError> {
        if self.pooled.is_none() {
            self.start_pooler(isolation).await?;
        }
        let pooled = self.pooled.as_ref();
        let target = pooled
            .ok_or_else(|| failure("there is no pooler"))?
            .target();
        let link = target.with_application_name(label).connect().await;
        let link = link.map_err(failed(&format!("session `{label}` cannot connect")))?;
        Ok(RealSession::on_postgres(link))
    }

    async fn start_pooler(&mut self, isolation: Option<Isolation>) -> Result<(), StageError> {
        let Ownership::Server { server, .. } = &self.ownership else {
            return Err(failure(
                "a pooler is started in front of a throwaway server only (`--on postgres`)",
            ));
        };
        let mut prepare = format!(
            "SET deadlock_timeout = '{}ms'",
            self.timeouts.other.as_millis()
        );
        if let Some(isolation) = isolation {
            let name = isolation.name();
            prepare += &format!("; SET default_transaction_isolation = '{name}'");
        }
        let (server, database) = (Arc::clone(server), self.target.database().to_owned());
        let size = self.pool_size;
        self.pooled = Some(Pooled::start(server, &database, size, &prepare).await?);
        Ok(())
    }

    /// Frees the server connections of those sessions whose transactions have ended, as the server
    /// says; each is given with the number of its backend.
    pub(super) async fn free_connections(
        &mut self,
        answered: &[(SessionId, i64)],
    ) -> Result<(), StageError> {
        if answered.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND pid = ANY ('{}'::int[])",
            pids(answered)
        );
        let reply = self.ask(&sql).await?;
        let idle: Vec<i64> = reply
            .rows
            .iter()
            .filter_map(|row| row[0].as_int())
            .collect();
        let idle: Vec<SessionId> = answered
            .iter()
            .filter(|(_, pid)| idle.contains(pid))
            .map(|(session, _)| *session)
            .collect();
        match &mut self.pooled {
            Some(pooled) => pooled.take_back(&idle).await,
            None => Ok(()),
        }
    }

    /// In the server's notation.
    fn deadlock_timeout(&self, session: SessionId) -> String {
        let timeout = match self.victims.contains(&session) {
            true => self.timeouts.victim,
            false => self.timeouts.other,
        };
        format!("{}ms", timeout.as_millis())
    }

    /// How long to wait for a deadlock to be found.
    pub(super) fn victim_timeout(&self) -> Result<Duration, StageError> {
        Ok(self.timeouts.victim + Duration::from_secs(10))
    }

    pub(super) async fn plan_victims(
        &mut self,
        victims: &[SessionId],
        open: Vec<(SessionId, &mut RealSession)>,
    ) -> Result<(), StageError> {
        if self.pooled.is_some() {
            return match victims.is_empty() {
                true => Ok(()),
                false => Err(failure(
                    "deadlock victims cannot be planned behind a pooler",
                )),
            };
        }
        let before = std::mem::replace(&mut self.victims, victims.to_vec());
        if !self.is_superuser {
            return match victims.is_empty() {
                true => Ok(()),
                false => Err(failure(
                    "deadlock victims can be planned as a superuser only (deadlock_timeout)",
                )),
            };
        }
        for (id, session) in open {
            if before.contains(&id) == victims.contains(&id) {
                continue;
            }
            let sql = format!("SET deadlock_timeout = '{}'", self.deadlock_timeout(id));
            session
                .exec(&sql, &[])
                .await
                .map_err(failed("cannot set a deadlock timeout"))?;
        }
        Ok(())
    }

    /// Puts gates before the tables whose rows statements are to pause at.
    pub(super) async fn pause_at(
        &mut self,
        plan: &PausePlan,
        open: Vec<(SessionId, &mut RealSession)>,
    ) -> Result<(), StageError> {
        let mut gates = Gates::install(&self.target, plan).await?;
        for (id, session) in open {
            gates.admit(id, session).await?;
        }
        self.gates = Some(gates);
        Ok(())
    }

    /// Before a statement is sent, if there are gates.
    pub(super) async fn before(
        &mut self,
        id: SessionId,
        session: &mut RealSession,
        statement: &Statement,
    ) {
        if let Some(gates) = &mut self.gates {
            gates.prepare(id, session, statement).await;
        }
    }

    /// Who stands at a gate.
    pub(super) async fn paused(
        &mut self,
        all: &[(SessionId, i64)],
    ) -> Result<Vec<Paused>, StageError> {
        if let Some(pooled) = &self.pooled {
            return Ok(pooled.paused());
        }
        if self.gates.is_none() {
            return Ok(Vec::new());
        }
        let reply = self.ask(&gate::standing()).await?;
        let Some(gates) = &self.gates else {
            return Ok(Vec::new());
        };
        let rows = reply.rows.iter();
        let mut paused: Vec<Paused> = rows
            .filter_map(|row| gate::paused(row, all, gates))
            .collect();
        paused.sort_by_key(|paused| paused.session);
        Ok(paused)
    }

    /// Lets a session pass its gate.
    pub(super) async fn proceed(&mut self, id: SessionId) -> Result<(), StageError> {
        match &mut self.gates {
            Some(gates) => gates.pass(id).await,
            None => Err(failure("no session pauses")),
        }
    }

    /// Those of `busy` that the server does not call blocked by one of `all`, and that are not held back.
    pub(super) async fn running(
        &mut self,
        busy: &[(SessionId, i64)],
        all: &[(SessionId, i64)],
    ) -> Result<Vec<SessionId>, StageError> {
        // As PostgreSQL's isolation tester asks. A blocker with the number 0 is a prepared
        // transaction, which that tester does not count.
        let sql = format!(
            "SELECT pid FROM unnest('{}'::int[]) AS pid \
             WHERE NOT (pg_isolation_test_session_is_blocked(pid, '{}') \
             OR 0 = ANY (pg_blocking_pids(pid)))",
            pids(busy),
            self.blocking(all)
        );
        let reply = self.ask(&sql).await?;
        let mut running: Vec<i64> = reply
            .rows
            .iter()
            .filter_map(|row| row[0].as_int())
            .filter(|pid| !self.stopped.has(*pid) && !self.behind.has(*pid))
            .collect();
        for paused in self.paused(all).await? {
            let pid = all.iter().find(|(s, _)| *s == paused.session);
            running.retain(|other| pid.is_none_or(|(_, pid)| pid != other));
        }
        Ok(busy
            .iter()
            .filter(|(_, pid)| running.contains(pid))
            .map(|(session, _)| *session)
            .collect())
    }

    pub(super) async fn blocked(
        &mut self,
        busy: &[(SessionId, i64)],
        all: &[(SessionId, i64)],
        labels: &[&str],
    ) -> Result<Vec<Blocked>, StageError> {
        if busy.is_empty() {
            return Ok(self.queued());
        }
        // A transaction that waits for a safe snapshot waits for no lock: `pg_blocking_pids` is empty.
        let sql = format!(
            "SELECT b.pid, pg_blocking_pids(b.pid) || pg_safe_snapshot_blocking_pids(b.pid), l.locktype, l.mode, \
             CASE WHEN l.relation IS NOT NULL THEN l.relation::regclass::text END, \
             l.page, l.tuple, l.classid, l.objid, l.objsubid, holder.pid \
             FROM unnest('{}'::int[]) AS b(pid) \
             LEFT JOIN pg_locks l ON l.pid = b.pid AND NOT l.granted \
             LEFT JOIN pg_locks holder ON holder.granted AND holder.pid <> b.pid \
             AND holder.transactionid = l.transactionid \
             WHERE pg_isolation_test_session_is_blocked(b.pid, '{}') \
             OR 0 = ANY (pg_blocking_pids(b.pid))",
            pids(busy),
            self.blocking(all)
        );
        let reply = self.ask(&sql).await?;
        let session_of = |pid: i64| all.iter().find(|(_, p)| *p == pid).map(|(s, _)| *s);
        let mut blocked: Vec<Blocked> = Vec::new();
        for row in reply.rows.iter() {
            let Some(session) = row[0].as_int().and_then(session_of) else {
                continue;
            };
            let mut blockers: Vec<SessionId> = match &row[1] {
                Value::Array(pids) => pids
                    .iter()
                    .filter_map(|pid| session_of(pid.as_int()?))
                    .collect(),
                _ => Vec::new(),
            };
            blockers.sort();
            blockers.dedup();
            let holder = row[10]
                .as_int()
                .and_then(session_of)
                .and_then(|s| labels.get(usize::from(s.0)));
            blocked.push(Blocked {
                session,
                blockers,
                object: describe(row, holder.copied()),
            });
        }
        blocked.extend(self.queued());
        blocked.sort_by_key(|b| b.session);
        blocked.dedup_by_key(|b| b.session);
        Ok(blocked)
    }

    /// The backends that may block a session: behind a pooler idle ones as well, as the text of an
    /// `int[]`.
    fn blocking(&self, all: &[(SessionId, i64)]) -> String {
        match &self.pooled {
            None => pids(all),
            Some(pooled) => {
                let all: Vec<String> = pooled.backends().map(|pid| pid.to_string()).collect();
                format!("{{{}}}", all.join(","))
            }
        }
    }

    /// Who waits for a server connection of the pooler because there is none.
    fn queued(&self) -> Vec<Blocked> {
        let Some(pooled) = &self.pooled else {
            return Vec::new();
        };
        let (waiting, users) = pooled.waiting();
        let blocked = waiting.into_iter().map(|session| Blocked {
            session,
            blockers: users.clone(),
            object: "a server connection of the pooler".to_owned(),
        });
        blocked.collect()
    }

    async fn ask(&mut self, sql: &str) -> Result<Reply, StageError> {
        self.observer()?
            .exec(sql, &[])
            .await
            .map_err(failed("cannot ask the server who is blocked"))
    }

    pub(super) async fn terminate(&mut self, pid: i64) -> Result<(), StageError> {
        // One that is held back would not notice.
        self.stopped.release(|backend| backend == pid);
        self.behind.release(|backend| backend == pid);
        self.observer()?
            .exec(&format!("SELECT pg_terminate_backend({pid}, 10000)"), &[])
            .await
            .map_err(failed("cannot end a session"))?;
        Ok(())
    }

    /// Ends the server connection that a session of the pooler has, if it has one.
    pub(super) async fn terminate_pooled(&mut self, session: SessionId) -> Result<(), StageError> {
        let pooled = self.pooled.as_ref();
        if let Some(backend) = pooled.and_then(|pooled| pooled.backend(session)) {
            self.terminate(backend).await?;
        }
        match &mut self.pooled {
            Some(pooled) => pooled.leave(session).await,
            None => Ok(()),
        }
    }

    /// Those of some backends that are gone.
    pub(super) async fn gone(&mut self, backends: &[i64]) -> Result<Vec<i64>, StageError> {
        let list: Vec<String> = backends.iter().map(ToString::to_string).collect();
        let sql = format!(
            "SELECT pid FROM unnest('{{{}}}'::int[]) AS pid \
             WHERE NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = pid.pid)",
            list.join(",")
        );
        let reply = self.ask(&sql).await?;
        let pids = reply.rows.iter().filter_map(|row| row[0].as_int());
        Ok(pids.collect())
    }

    pub(super) async fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        match self.observer()?.exec(sql, &[]).await {
            Err(error) if error.class == ErrorClass::ConnectionLost => {
                Err(failed("the observing session was lost")(error))
            }
            answer => Ok(answer),
        }
    }
}

/// As the text of an `int[]`.
fn pids(sessions: &[(SessionId, i64)]) -> String {
    let pids: Vec<String> = sessions.iter().map(|(_, pid)| pid.to_string()).collect();
    format!("{{{}}}", pids.join(","))
}

/// The lock that a row of [`PostgresStage::blocked`] waits for, in words.
fn describe(row: &[Value], holder: Option<&str>) -> String {
    let text = |i: usize| match &row[i] {
        Value::Null => "?".to_owned(),
        value => value.to_string(),
    };
    match row[2].as_str() {
        Some("transactionid") => match holder {
            Some(label) => format!("the end of the transaction of {label}"),
            None => "the end of a transaction".to_owned(),
        },
        Some("tuple") => format!("row ({},{}) of {}", text(5), text(6), text(4)),
        Some("relation") => format!("table {} ({})", text(4), text(3)),
        // One 64-bit key has 1 here, two 32-bit keys have 2.
        Some("advisory") if row[9] == Value::Int(1) => {
            let half = |i: usize| row[i].as_int().unwrap_or(0);
            format!("advisory lock {}", half(7) << 32 | half(8))
        }
        Some("advisory") => format!("advisory lock ({}, {})", text(7), text(8)),
        Some(other) => format!("{other} ({})", text(3)),
        None => "a safe snapshot".to_owned(),
    }
}

/// Statements that drop the roles which earlier runs have made on a server that is ours.
const DROP_ROLES: &str =
    "SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE oid >= 16384 ORDER BY oid";

/// The first column of a query's rows.
async fn ask_texts(link: &mut PostgresLink, sql: &str) -> Result<Vec<String>, StageError> {
    let reply = link.exec(sql, &[]).await;
    let reply = reply.map_err(failed("cannot look at the server"))?;
    let texts = reply.rows.iter().filter_map(|row| row[0].as_str());
    Ok(texts.map(str::to_owned).collect())
}

/// Rolls back what earlier runs have prepared in the database: it would keep its locks for ever.
async fn end_prepared(link: &mut PostgresLink) -> Result<(), StageError> {
    let sql = "SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts \
         WHERE database = current_database()";
    for statement in ask_texts(link, sql).await? {
        let done = link.exec(&statement, &[]).await;
        done.map_err(failed("cannot end a prepared transaction"))?;
    }
    Ok(())
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Leaves a database as `CREATE DATABASE` makes it, as far as schemas and large objects go.
const EMPTY_DATABASE: &str = r"
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT extname FROM pg_extension WHERE extname <> 'plpgsql' LOOP
        EXECUTE format('DROP EXTENSION IF EXISTS %I CASCADE', name);
    END LOOP;
    FOR name IN SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
        EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', name);
    END LOOP;
    PERFORM lo_unlink(oid) FROM pg_largeobject_metadata;
    CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
END
$$";
