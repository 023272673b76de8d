//! The simulated [`Stage`]: somebody else's schedule on a simulated database.

use std::fmt;
use std::time::Duration;

use rowlock_model::schedule::{Granularity, SessionId, Statement};
use rowlock_model::{DbError, Dialect, Isolation, Reply};
use rowlock_scenarios::stage::{
    Answer, Blocked, Completion, Decision, Numbered, PausePlan, Paused, Stage, StageError,
};

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
    /// Ways to take where the order is open.
    ways: Vec<u16>,
    decisions: Vec<Decision>,
    /// Sessions whose deadlock check may be the one that fires.
    victims: Vec<SessionId>,
    /// Sessions that do not go on yet.
    held: Vec<SessionId>,
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
        let mut db = fresh();
        db.keep_views();
        SimStage {
            db,
            fresh: Box::new(fresh),
            version: version.into(),
            seats: Vec::new(),
            waiting: Vec::new(),
            completions: Vec::new(),
            ways: Vec::new(),
            decisions: Vec::new(),
            victims: Vec::new(),
            held: Vec::new(),
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
            // It goes on when a schedule says so.
            Progress::Pauses => {
                seat.running = true;
                self.waiting.retain(|other| *other != session);
            }
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
            Internal::Resume(s)
            | Internal::Continue(s)
            | Internal::Route(s, _)
            | Internal::Deadlock(s)
            | Internal::Expire(s) => *s,
        };
        internals
            .into_iter()
            .filter_map(|internal| Some((self.here(of(&internal))?, internal)))
            .collect()
    }

    /// What happens next: a timer that is due, else a session that goes on. Of several the order is
    /// open: by itself the stage takes `first`, else who waited longest.
    fn next(&mut self, first: Option<SessionId>) -> Option<(SessionId, Internal)> {
        let place = |session: SessionId| self.waiting.iter().position(|other| *other == session);
        let mut pending = self.pending();
        pending.retain(|(session, internal)| match internal {
            Internal::Deadlock(_) | Internal::Continue(_) | Internal::Route(..) => false,
            Internal::Resume(_) => !self.held.contains(session),
            Internal::Expire(_) => true,
        });
        pending.sort_by_key(|(session, internal)| {
            let timer = matches!(internal, Internal::Expire(_));
            (!timer, Some(*session) != first, place(*session), *session)
        });
        match pending.first()? {
            timer @ (_, Internal::Expire(_)) => Some(*timer),
            _ => Some(pending[self.take_way(pending.len())]),
        }
    }

    /// Decides between so many ways.
    fn take_way(&mut self, of: usize) -> usize {
        if of < 2 {
            return 0;
        }
        let way = self.ways.get(self.decisions.len()).copied().unwrap_or(0);
        let of = of as u16;
        let taken = way.min(of - 1);
        self.decisions.push(Decision { taken, of });
        usize::from(taken)
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
            Progress::Waits | Progress::Pauses => {
                Err(DbError::unsupported("an observer that waits", None))
            }
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
        self.db.keep_views();
        self.seats.clear();
        self.waiting.clear();
        self.completions.clear();
        self.decisions.clear();
        self.victims.clear();
        self.held.clear();
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
                Progress::Waits | Progress::Pauses => {
                    Some(DbError::unsupported("a set-up that waits", None))
                }
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
        let id = self.db.connect_client(isolation, label);
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

    fn info(&self, session: SessionId) -> Option<String> {
        self.db.info(self.seat(session).ok()?.id)
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
        // Of several whose checks may fire, one fires first.
        let victims = &self.victims;
        let mut checks = self.pending();
        checks.retain(|(session, internal)| {
            let planned = *session == victim || victims.contains(session);
            matches!(internal, Internal::Deadlock(_)) && planned
        });
        checks.sort_by_key(|(session, _)| (*session != victim, *session));
        if checks.first().is_none_or(|(session, _)| *session != victim) {
            return Err(failure(format!("session {} is in no deadlock", victim.0)));
        }
        let (session, internal) = checks[self.take_way(checks.len())];
        let progress = self.db.internal(internal);
        self.take(session, progress);
        self.settle(None)
    }

    fn plan_victims(&mut self, victims: &[SessionId]) -> Result<(), StageError> {
        self.victims = victims.to_vec();
        Ok(())
    }

    fn numbered(&self, number: i64) -> Option<Numbered> {
        crate::numbered(self.db.dialect(), number)
    }

    fn decide(&mut self, ways: &[u16]) {
        self.ways = ways.to_vec();
    }

    fn decisions(&self) -> Vec<Decision> {
        self.decisions.clone()
    }

    fn pause_at(&mut self, _: &PausePlan) -> Result<(), StageError> {
        self.db
            .set_granularity(Granularity::Row)
            .map_err(|error| failure(error.message.to_string()))
    }

    fn paused(&mut self) -> Result<Vec<Paused>, StageError> {
        let pauses = self.db.pauses().into_iter();
        let here = pauses.filter_map(|pause| {
            Some(Paused {
                session: self.here(pause.session)?,
                before: pause.before,
            })
        });
        Ok(here.collect())
    }

    fn proceed(&mut self, session: SessionId) -> Result<(), StageError> {
        let Seat { id, .. } = *self.seat(session)?;
        let event = Internal::Continue(id);
        if !self.pending().contains(&(session, event)) {
            return Err(failure(format!("session {} does not pause", session.0)));
        }
        let progress = self.db.internal(event);
        self.take(session, progress);
        Ok(())
    }

    fn hold(&mut self, sessions: &[SessionId]) -> Result<(), StageError> {
        self.held = sessions.to_vec();
        Ok(())
    }

    fn pool(&mut self, size: u8) -> Result<(), StageError> {
        self.db
            .pool(size)
            .map_err(|error| failure(error.message.to_string()))
    }

    fn route(&mut self, session: SessionId, backend: u8) -> Result<(), StageError> {
        let Seat { id, .. } = *self.seat(session)?;
        let event = Internal::Route(id, backend);
        if !self.pending().contains(&(session, event)) {
            let message = format!(
                "session {} is not the first that waits for a server connection, or connection {} \
                 is not free",
                session.0,
                backend + 1
            );
            return Err(failure(message));
        }
        let progress = self.db.internal(event);
        self.take(session, progress);
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
