//! The replay driver on a toy server whose every answer is known: one exclusive lock a name.

use std::collections::VecDeque;
use std::time::Duration;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{Column, DbError, Dialect, Isolation, Reply, Value};
use rowlock_scenarios::replay::{
    Conclusion, Replay, ReplayError, Script, StepVerdict, mirror, replay,
};
use rowlock_scenarios::schedule::ScheduleFile;
use rowlock_scenarios::stage::{Answer, Blocked, Completion, Stage, StageError};
use rowlock_scenarios::{Scenario, Source};

/// `SELECT n` returns a row, `LOCK` waits for the one lock, `FREE` gives it up, `FAIL` is refused.
#[derive(Default)]
struct Toy {
    sessions: usize,
    holder: Option<SessionId>,
    queue: VecDeque<SessionId>,
    done: Vec<Completion>,
    /// Grants to the last waiter: a server that takes the other branch.
    last_first: bool,
    /// Adds this to every number that it returns: a server with a mistake.
    error: i64,
}

impl Toy {
    fn answer(&mut self, session: SessionId, result: Result<Reply, DbError>) {
        let answer = Answer::Exec(result);
        self.done.push(Completion { session, answer });
    }

    fn grant(&mut self) {
        let next = match self.last_first {
            true => self.queue.pop_back(),
            false => self.queue.pop_front(),
        };
        self.holder = next;
        if let Some(session) = next {
            self.answer(session, Ok(Reply::tag("LOCK")));
        }
    }

    fn leave(&mut self, session: SessionId) {
        self.queue.retain(|waiter| *waiter != session);
        if self.holder == Some(session) {
            self.grant();
        }
    }
}

impl Stage for Toy {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn version(&mut self) -> Result<String, StageError> {
        Ok("toy".into())
    }

    fn reset(&mut self, _: &[String]) -> Result<(), StageError> {
        *self = Toy {
            last_first: self.last_first,
            error: self.error,
            ..Toy::default()
        };
        Ok(())
    }

    fn connect(&mut self, _: &str, _: Option<Isolation>) -> Result<SessionId, StageError> {
        self.sessions += 1;
        Ok(SessionId(self.sessions as u8 - 1))
    }

    fn send(&mut self, session: SessionId, statement: &Statement) -> Result<(), StageError> {
        let words: Vec<&str> = statement.sql.split_whitespace().collect();
        match words[..] {
            ["LOCK"] if self.holder.is_none() => {
                self.holder = Some(session);
                self.answer(session, Ok(Reply::tag("LOCK")));
            }
            ["LOCK"] => self.queue.push_back(session),
            ["FREE"] => {
                self.answer(session, Ok(Reply::tag("FREE")));
                self.leave(session);
            }
            ["SELECT", n] => {
                let value = match statement.args.first() {
                    Some(arg) => arg.clone(),
                    None => Value::Int(n.parse::<i64>().expect("a number") + self.error),
                };
                let column = Column {
                    name: "n".into(),
                    type_name: "int8".into(),
                };
                let reply = Reply {
                    columns: [column].into(),
                    rows: [[value].into()].into(),
                    affected: 1,
                    ..Reply::tag("SELECT")
                };
                self.answer(session, Ok(reply));
            }
            _ => self.answer(session, Err(DbError::postgres("42601", "syntax error"))),
        }
        Ok(())
    }

    fn settle(&mut self, _: Option<SessionId>) -> Result<Vec<Completion>, StageError> {
        Ok(std::mem::take(&mut self.done))
    }

    fn blocked(&mut self) -> Result<Vec<Blocked>, StageError> {
        let blocked = |session: &SessionId| Blocked {
            session: *session,
            blockers: self.holder.into_iter().collect(),
            object: "the lock".into(),
        };
        Ok(self.queue.iter().map(blocked).collect())
    }

    fn deadlock(&mut self, _: SessionId) -> Result<Vec<Completion>, StageError> {
        Ok(Vec::new())
    }

    fn plan_victims(&mut self, _: &[SessionId]) -> Result<(), StageError> {
        Ok(())
    }

    fn drop_client(&mut self, _: SessionId) -> Result<(), StageError> {
        Ok(())
    }

    fn terminate(&mut self, session: SessionId) -> Result<(), StageError> {
        self.leave(session);
        Ok(())
    }

    fn advance(&mut self, _: Duration) -> Result<(), StageError> {
        Ok(())
    }

    fn query(&mut self, _: &str) -> Result<Result<Reply, DbError>, StageError> {
        Ok(Ok(Reply::default()))
    }
}

const STEPS: &str = r"title = 'toy'
databases = ['postgres']

[[process]]
name = 'w'
count = 3

[[process.step]]
name = 'look'
sql = '''SELECT 7'''

[[process.step]]
name = 'say'
sql = '''SELECT :look.n'''

[[process.step]]
name = 'lock'
sql = '''LOCK'''

[[process.step]]
name = 'free'
sql = '''FREE'''

[[process.step]]
name = 'work'
app = 'works'
";

fn scenario(schedule: &str, outcome: &str) -> Scenario {
    let text = format!(
        "{STEPS}\n[[pinned]]\nname = 'p'\nschedule = '{schedule}'\noutcome = {{ postgres = [{outcome}] }}\n"
    );
    Scenario::parse(Source::new("toy.toml", text)).unwrap_or_else(|error| panic!("{error}"))
}

fn run(toy: &mut Toy, schedule: &str, outcome: &str) -> Result<Replay, ReplayError> {
    let scenario = scenario(schedule, outcome);
    let case = &scenario.cases[0];
    replay(toy, Script::Pinned(case, &case.pinned[0]))
}

fn conclusion(schedule: &str, outcome: &str) -> Conclusion {
    let replay = run(&mut Toy::default(), schedule, outcome);
    replay.expect("the schedule can be run").conclusion
}

#[test]
fn outcomes_bindings_and_waiters() {
    let schedule = "w-1:look w-1:say w-1:lock w-2:lock w-1:work +5s w-1:free";
    let right = "'1 row (7)', '1 row (7)', 'ok', 'waits (w-1)', 'ok', 'ok', 'ok; w-2:lock ok'";
    assert_eq!(conclusion(schedule, right), Conclusion::Confirmed);
    let other_row = right.replacen("(7)", "(8)", 1);
    assert_eq!(conclusion(schedule, &other_row), Conclusion::DivergedAt(0));
    let other_blocker = right.replace("waits (w-1)", "waits (w-3)");
    assert_eq!(
        conclusion(schedule, &other_blocker),
        Conclusion::DivergedAt(3)
    );
    let nobody_goes_on = right.replace("ok; w-2:lock ok", "ok");
    assert_eq!(
        conclusion(schedule, &nobody_goes_on),
        Conclusion::DivergedAt(6)
    );
    let not_compared = right.replace("1 row (7)", "*");
    assert_eq!(conclusion(schedule, &not_compared), Conclusion::Confirmed);
}

#[test]
fn a_crash_frees_nothing_until_the_server_notices() {
    let schedule = "w-1:lock w-2:lock w-1:crash w-1:notice";
    let right = "'ok', 'waits', 'ok', 'ok; w-2:lock ok'";
    assert_eq!(conclusion(schedule, right), Conclusion::Confirmed);
}

#[test]
fn a_resume_takes_the_answer_that_came_before_it() {
    let schedule = "w-1:lock w-2:lock w-1:free w-2:resume";
    let right = "'ok', 'waits', 'ok', 'ok'";
    assert_eq!(conclusion(schedule, right), Conclusion::Confirmed);
}

#[test]
fn another_waiter_first_is_another_branch() {
    let mut toy = Toy {
        last_first: true,
        ..Toy::default()
    };
    let schedule = "w-1:lock w-2:lock w-3:lock w-1:free";
    let outcome = "'ok', 'waits', 'waits', 'ok; w-2:lock ok'";
    let replay = run(&mut toy, schedule, outcome).expect("the schedule can be run");
    assert_eq!(replay.conclusion, Conclusion::DivergedAt(3));
    let expected = StepVerdict::OtherBranch {
        expected: "ok; w-2:lock ok".into(),
        got: "ok; w-3:lock ok".into(),
    };
    assert_eq!(replay.steps[3].verdict, expected);
}

#[test]
fn a_busy_session_cannot_send() {
    let error = run(
        &mut Toy::default(),
        "w-1:lock w-2:lock w-2:look",
        "'ok', 'waits', 'ok'",
    );
    assert_eq!(
        error.expect_err("w-2 waits").to_string(),
        "event 3: w-2 still waits for the answer to its last statement"
    );
}

#[test]
fn a_mirror_finds_the_first_difference() {
    let scenario = scenario("w-1:lock w-2:look w-3:lock", "'*', '*', '*'");
    let case = &scenario.cases[0];
    let script = Script::Pinned(case, &case.pinned[0]);
    let mut wrong = Toy {
        error: 1,
        ..Toy::default()
    };
    let same = mirror(&mut Toy::default(), &mut Toy::default(), script);
    assert_eq!(same.expect("both can be run").difference, None);
    let mirrored = mirror(&mut Toy::default(), &mut wrong, script).expect("both can be run");
    let difference = mirrored.difference.expect("they differ");
    assert_eq!(difference.step, Some(1));
    assert_eq!(difference.left, "w-2 1 row (7)");
    assert_eq!(difference.right, "w-2 1 row (8)");
}

const FILE: &str = "rowlock schedule 1
database: postgres
isolation: read committed
process a
process b

events
a lock #0: LOCK
  -> ok
b lock #0: LOCK
  -> waits for a
a free #1: FREE
  -> ok
a look #2: SELECT 7
  -> 1 row (7)
  columns n int8
b resumes lock
  -> ok
  tag 'LOCK'
a crash
a noticed
";

#[test]
fn schedule_files_run_too_and_the_whole_reply_is_compared() {
    let conclude = |text: &str| {
        let file = ScheduleFile::parse(Source::new("x", text));
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        let replay = replay(&mut Toy::default(), Script::File(&file));
        replay.expect("the schedule can be run").conclusion
    };
    assert_eq!(conclude(FILE), Conclusion::Confirmed);
    let wrong = [
        ("waits for a", "waits for b", 1),
        ("(7)", "(8)", 3),
        ("n int8", "n int4", 3),
        ("tag 'LOCK'", "tag 'UNLOCK'", 4),
        (
            "b resumes lock\n  -> ok",
            "b resumes lock\n  -> 1 affected",
            4,
        ),
    ];
    for (old, new, at) in wrong {
        let changed = FILE.replace(old, new);
        assert_eq!(conclude(&changed), Conclusion::DivergedAt(at), "{new}");
    }
    // Every step is as expected, but the query finds no violation.
    let checked = FILE.replace("database:", "check: SELECT 1 WHERE false\ndatabase:");
    assert_eq!(conclude(&checked), Conclusion::Refuted);
}
