//! The stage on SQLite: sessions on one temporary file.

use std::time::Duration;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Dialect, Isolation, Reply};
use rowlock_scenarios::stage::{Blocked, StageError};

use super::{failed, failure};
use crate::directory::PrivateDirectory;
use crate::session::{Link, RealSession};
use crate::sqlite::{Journal, SqliteTarget};

#[derive(Debug)]
pub(super) struct SqliteStage {
    directory: PrivateDirectory,
    journal: Journal,
    /// Counts the runs, each on a file of its own.
    run: u64,
    version: String,
}

impl SqliteStage {
    pub(super) async fn open(journal: Journal) -> Result<SqliteStage, StageError> {
        let directory = PrivateDirectory::create("sqlite")
            .map_err(|cause| failure(format!("cannot create a temporary directory: {cause}")))?;
        let mut stage = SqliteStage {
            directory,
            journal,
            run: 0,
            version: String::new(),
        };
        let link = stage
            .target()
            .connect()
            .await
            .map_err(failed("cannot create a database file"))?;
        stage.version = link.version();
        Ok(stage)
    }

    pub(super) fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    pub(super) fn version(&self) -> String {
        self.version.clone()
    }

    fn target(&self) -> SqliteTarget {
        let file = self.directory.path().join(format!("run-{}.db", self.run));
        SqliteTarget::file(file)
    }

    pub(super) async fn reset(&mut self, setup: &[String]) -> Result<(), StageError> {
        // The last session of the old file may still be closing it.
        let old = self.directory.path().join(format!("run-{}.db", self.run));
        let _ = std::fs::remove_file(old);
        self.run += 1;
        let target = self.target();
        target
            .set_journal(self.journal)
            .await
            .map_err(failed("cannot create a database file"))?;
        let mut session = target
            .connect()
            .await
            .map_err(failed("cannot open the database file"))?;
        for script in setup {
            super::run_setup_script(&mut session, script).await?;
        }
        session
            .close()
            .await
            .map_err(failed("cannot close the database file"))
    }

    pub(super) async fn connect(
        &mut self,
        _id: SessionId,
        _label: &str,
        isolation: Option<Isolation>,
    ) -> Result<RealSession, StageError> {
        match isolation {
            None | Some(Isolation::Serializable) => {}
            Some(other) => {
                return Err(failure(format!(
                    "SQLite has no isolation level {other}; its sessions are serializable"
                )));
            }
        }
        let link = self
            .target()
            .connect()
            .await
            .map_err(failed("cannot open the database file"))?;
        Ok(RealSession::on_sqlite(link))
    }

    /// With a busy timeout of 0 nothing waits.
    pub(super) async fn running(
        &mut self,
        busy: &[(SessionId, i64)],
        _all: &[(SessionId, i64)],
    ) -> Result<Vec<SessionId>, StageError> {
        Ok(busy.iter().map(|(session, _)| *session).collect())
    }

    pub(super) async fn blocked(
        &mut self,
        _busy: &[(SessionId, i64)],
        _all: &[(SessionId, i64)],
        _labels: &[&str],
    ) -> Result<Vec<Blocked>, StageError> {
        Ok(Vec::new())
    }

    pub(super) async fn plan_victims(
        &mut self,
        _victims: &[SessionId],
        _open: Vec<(SessionId, &mut RealSession)>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    pub(super) fn victim_timeout(&self) -> Result<Duration, StageError> {
        Err(failure("SQLite has no deadlocks"))
    }

    pub(super) async fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        let mut link = self
            .target()
            .connect()
            .await
            .map_err(failed("cannot open the database file"))?;
        let answer = link.exec(sql, &[]).await;
        link.close()
            .await
            .map_err(failed("cannot close the database file"))?;
        Ok(answer)
    }
}
