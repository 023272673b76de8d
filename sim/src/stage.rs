//! The simulated [`Stage`]: somebody else's schedule on a simulated database.

use std::fmt;
use std::time::Duration;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, Dialect, Isolation, Reply};
use rowlock_scenarios::stage::{Answer, Blocked, Completion, Stage, StageError};

use crate::database::{self, Database, Internal, Progress, Request};

/// A session on the stage.
#[derive(Clone, Debug)]
struct Seat {
    /// Its number in the database; set-up and queries take numbers as well.
    id: SessionId,
    /// A statement of it waits for an answer.
    running: bool,
}

/// A stage over any simulated database.
///
/// Where a server leaves open which of several sessions goes on first, [`Stage::settle`] takes the
/// one that has waited longest.
pub struct SimStage<D> {
    fresh: Box<dyn FnMut() -> D>,
    db: D,
    version: String,
    seats: Vec<Seat>,
    /// Sessions that wait, longest first.
    waiting: Vec<SessionId>,
    completions: Vec<Completion>,
}

impl<D: fmt::Debug> fmt::Debug for SimStage<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStage")
            .field("db", &self.db)
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

fn failure(message: impl Into<String>) -> StageError {
    StageError {
        message: message.into(),
    }
}

fn answer(answer: database::Answer) -> Answer {
    match answer {
        database::Answer::Exec(result) => Answer::Exec(result),
        database::Answer::Batch(result) => Answer::Batch(result),
    }
}

impl<D: Database> SimStage<D> {
    /// A stage whose databases, one for each [`Stage::reset`], come from `fresh`. The version is
    /// for reports: `simulated PostgreSQL 15`.
    pub fn new(version: impl Into<String>, mut fresh: impl FnMut() -> D + 'static) -> SimStage<D> {
        SimStage {
            db: fresh(),
            fresh: Box::new(fresh),
            version: version.into(),
            seats: Vec::new(),
            waiting: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// The database, to look at it.
    pub fn database(&mut self) -> &mut D {
        &mut self.db
    }

    fn seat(&self, session: SessionId) -> Result<&Seat, StageError> {
        self.seats
            .get(usize::from(session.0))
            .ok_or_else(|| failure(format!("there is no session {}", session.0)))
    }

    /// The number on the stage of a session of the database.
    fn here(&self, id: SessionId) -> Option<SessionId> {
        let at = self.seats.iter().position(|seat| seat.id == id)?;
        Some(SessionId(at as u8))
    }

    fn take(&mut self, session: SessionId, progress: Progress) {
        let seat = &mut self.seats[usize::from(session.0)];
        match progress {
            Progress::Waits => {
                seat.running = true;
                if !self.waiting.contains(&session) {
                    self.waiting.push(session);
                }
            }
            Progress::Done(done) => {
                // A timer may end an idle session: nobody hears of that.
                if std::mem::take(&mut seat.running) {
                    self.completions.push(Completion {
                        session,
                        answer: answer(done),
                    });
                }
                self.waiting.retain(|other| *other != session);
            }
        }
    }

    /// What the server does by itself now, for sessions of the stage.
    fn pending(&self) -> Vec<(SessionId, Internal)> {
        let mut internals = Vec::new();
        self.db.pending(&mut internals);
        let of = |internal: &Internal| match internal {
            Internal::Resume(s) | Internal::Deadlock(s) | Internal::Expire(s) => *s,
        };
        internals
            .into_iter()
            .filter_map(|internal| Some((self.here(of(&internal))?, internal)))
            .collect()
    }

    /// The session that goes on next: a timer that is due, else `first`, else who waited longest.
    fn next(&self, first: Option<SessionId>) -> Option<(SessionId, Internal)> {
        let pending = self.pending();
        let place = |session: SessionId| self.waiting.iter().position(|other| *other == session);
        pending
            .into_iter()
            .filter(|(_, internal)| !matches!(internal, Internal::Deadlock(_)))
            .min_by_key(|(session, internal)| {
                let timer = matches!(internal, Internal::Expire(_));
                (!timer, Some(*session) != first, place(*session), *session)
            })
    }

    /// Runs a query in a session of its own and leaves no trace of it.
    fn look(&mut self, sql: &str) -> Result<Reply, DbError> {
        let mark = self.db.mark();
        let statement = self.db.prepare(sql);
        let session = self.db.connect(None);
        let request = Request::Exec(statement, [].into());
        let result = match self.db.submit(session, &request) {
            Progress::Done(database::Answer::Exec(result)) => result,
            Progress::Done(database::Answer::Batch(_)) => {
                unreachable!("a statement was answered as a script")
            }
            Progress::Waits => Err(DbError::unsupported("an observer that waits", None)),
        };
        self.db.undo_to(mark);
        result
    }
}

impl<D: Database> Stage for SimStage<D> {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    fn version(&mut self) -> Result<String, StageError> {
        Ok(self.version.clone())
    }

    fn reset(&mut self, setup: &[String]) -> Result<(), StageError> {
        self.db = (self.fresh)();
        self.seats.clear();
        self.waiting.clear();
        self.completions.clear();
        for script in setup {
            let session = self.db.connect(None);
            let done = self
                .db
                .submit(session, &Request::Batch(script.as_str().into()));
            let error = match done {
                Progress::Done(database::Answer::Batch(Ok(batch))) => batch.error,
                Progress::Done(database::Answer::Batch(Err(error))) => Some(error),
                Progress::Done(database::Answer::Exec(_)) => {
                    unreachable!("a script was answered as a statement")
                }
                Progress::Waits => Some(DbError::unsupported("a set-up that waits", None)),
            };
            if let Some(error) = error {
                return Err(failure(format!("the set-up failed: {error}")));
            }
            if !self.db.is_gone(session) {
                self.db.terminate(session);
            }
        }
        Ok(())
    }

    fn connect(
        &mut self,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<SessionId, StageError> {
        let id = self.db.connect(isolation);
        self.db.name_client(id, label);
        let session = SessionId(self.seats.len() as u8);
        self.seats.push(Seat { id, running: false });
        Ok(session)
    }

    fn send(&mut self, session: SessionId, statement: &Statement) -> Result<(), StageError> {
        let Seat { id, running } = *self.seat(session)?;
        if running {
            return Err(failure(format!("session {} is busy", session.0)));
        }
        self.seats[usize::from(session.0)].running = true;
        let request = match statement.batch {
            true => Request::Batch(statement.sql.clone()),
            false => {
                let prepared = self.db.prepare(&statement.sql);
                Request::Exec(prepared, statement.args.as_slice().into())
            }
        };
        let progress = self.db.submit(id, &request);
        self.take(session, progress);
        Ok(())
    }

    fn settle(&mut self, first: Option<SessionId>) -> Result<Vec<Completion>, StageError> {
        let mut first = first;
        while let Some((session, internal)) = self.next(first) {
            if Some(session) == first {
                first = None;
            }
            let progress = self.db.internal(internal);
            self.take(session, progress);
        }
        Ok(std::mem::take(&mut self.completions))
    }

    fn blocked(&mut self) -> Result<Vec<Blocked>, StageError> {
        let waits = self.db.waits();
        let mut blocked: Vec<Blocked> = waits
            .into_iter()
            .filter_map(|wait| {
                let mut blockers: Vec<SessionId> = wait
                    .blockers
                    .iter()
                    .filter_map(|id| self.here(*id))
                    .collect();
                blockers.sort_unstable();
                Some(Blocked {
                    session: self.here(wait.session)?,
                    blockers,
                    object: wait.object,
                })
            })
            .collect();
        blocked.sort_unstable_by_key(|blocked| blocked.session);
        Ok(blocked)
    }

    fn deadlock(&mut self, victim: SessionId) -> Result<Vec<Completion>, StageError> {
        let found = self.pending().into_iter().find(|pending| {
            *pending
                == (
                    victim,
                    Internal::Deadlock(self.seats[usize::from(victim.0)].id),
                )
        });
        let Some((_, internal)) = found else {
            return Err(failure(format!("session {} is in no deadlock", victim.0)));
        };
        let progress = self.db.internal(internal);
        self.take(victim, progress);
        self.settle(None)
    }

    fn plan_victims(&mut self, _: &[SessionId]) -> Result<(), StageError> {
        Ok(())
    }

    fn drop_client(&mut self, session: SessionId) -> Result<(), StageError> {
        if self.db.dialect() == Dialect::Sqlite {
            // There is no server: the system frees the locks of a process that is gone.
            return self.terminate(session);
        }
        // The server has not noticed yet; `terminate` is when it does.
        self.seat(session).map(|_| ())
    }

    fn terminate(&mut self, session: SessionId) -> Result<(), StageError> {
        let Seat { id, .. } = *self.seat(session)?;
        if self.db.is_gone(id) {
            return Ok(());
        }
        self.db.terminate(id);
        let error = DbError::postgres(
            "57P01",
            "terminating connection due to administrator command",
        );
        self.take(session, Progress::Done(database::Answer::Exec(Err(error))));
        Ok(())
    }

    fn advance(&mut self, by: Duration) -> Result<(), StageError> {
        let micros = i64::try_from(by.as_micros()).map_err(|_| failure("too long a time"))?;
        let now = self.db.now_micros();
        self.db.set_now_micros(now.saturating_add(micros));
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        Ok(self.look(sql))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Mutant, Toy};

    fn statement(sql: &str) -> Statement {
        Statement {
            sql: sql.into(),
            args: Vec::new(),
            batch: false,
        }
    }

    #[test]
    fn a_waiter_goes_on_when_its_lock_is_free() {
        let mut stage = SimStage::new("toy", || Toy::new(2).with(Mutant::ClaimWaits));
        stage.reset(&[]).unwrap();
        let sessions: Vec<SessionId> = (0..3).map(|_| stage.connect("s", None).unwrap()).collect();
        for session in &sessions {
            stage.send(*session, &statement("claim")).unwrap();
        }
        let done = |stage: &mut SimStage<Toy>, first| -> Vec<u8> {
            let completions = stage.settle(first).unwrap();
            completions.iter().map(|c| c.session.0).collect()
        };
        assert_eq!(done(&mut stage, None), [0]);
        let blocked: Vec<(u8, Vec<SessionId>)> = stage
            .blocked()
            .unwrap()
            .into_iter()
            .map(|blocked| (blocked.session.0, blocked.blockers))
            .collect();
        assert_eq!(blocked, [(1, vec![SessionId(0)]), (2, vec![SessionId(0)])]);
        stage.send(sessions[0], &statement("commit")).unwrap();
        // Session 2 takes the next row at once, session 1 then waits for it.
        assert_eq!(done(&mut stage, Some(sessions[2])), [0, 2]);
        stage.terminate(sessions[2]).unwrap();
        assert_eq!(done(&mut stage, None), [1]);
    }
}
