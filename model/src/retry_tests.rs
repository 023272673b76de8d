use super::*;
use crate::fake::{Call, FakeHost, FakeSession, affected};

fn serialization() -> DbError {
    DbError::postgres(
        "40001",
        "could not serialize access due to concurrent update",
    )
}

/// Adds to a balance, and keeps in memory what it did: wrong unless it is reset.
#[derive(Default)]
struct Deposit {
    resets: u32,
    in_memory: Vec<i64>,
    swallow: bool,
}

impl Work<FakeSession> for Deposit {
    type Output = Vec<i64>;
    type Refusal = &'static str;

    fn reset(&mut self) {
        self.resets += 1;
        self.in_memory.clear();
    }

    async fn run(
        &mut self,
        session: &mut Watched<'_, FakeSession>,
    ) -> Result<Vec<i64>, Stop<&'static str>> {
        let reply = session.exec("UPDATE account", &[]).await;
        if !self.swallow {
            reply?;
        }
        self.in_memory.push(1);
        match session.exec("INSERT entry", &[]).await {
            Ok(reply) if reply.affected == 9 => return Err(Stop::Refused("not today")),
            Err(error) if !self.swallow => return Err(error.into()),
            _ => {}
        }
        Ok(self.in_memory.clone())
    }
}

type Outcome = Result<Vec<i64>, TransactionError<&'static str>>;

/// Runs a deposit; `fail` may replace the reply to a call.
fn deposit(
    work: &mut Deposit,
    mut fail: impl FnMut(&Call) -> Option<Result<Reply, DbError>> + Send + 'static,
) -> (Outcome, Vec<String>) {
    let host = FakeHost::new(0, move |call| {
        fail(call).unwrap_or_else(|| {
            Ok(match call.sql.split(' ').next() {
                Some("UPDATE" | "INSERT") => affected("UPDATE", 1),
                Some(word) => Reply::tag(word),
                None => Reply::default(),
            })
        })
    });
    let policy = RetryPolicy {
        attempts: 3,
        ..RetryPolicy::default()
    };
    let outcome = host.run(async {
        let mut session = host.connect().await.unwrap();
        transaction(&host, &mut session, &policy, None, work).await
    });
    (outcome, host.take_log())
}

#[test]
fn a_lost_race_is_run_again_from_the_start() {
    let mut work = Deposit::default();
    let (outcome, log) = deposit(&mut work, |call| {
        (call.number == 3).then(|| Err(serialization()))
    });
    // The first attempt got as far as the memory: without a reset it would be there twice.
    assert_eq!(outcome, Ok(vec![1]));
    assert_eq!(work.resets, 2);
    assert_eq!(
        log,
        [
            "1 connect",
            "1 BEGIN",
            "1 UPDATE account",
            "1 INSERT entry",
            "1 ROLLBACK",
            "1 BEGIN",
            "1 UPDATE account",
            "1 INSERT entry",
            "1 COMMIT"
        ]
    );
}

#[test]
fn every_attempt_may_fail() {
    let (outcome, log) = deposit(&mut Deposit::default(), |call| {
        (call.sql == "COMMIT").then(|| Err(serialization()))
    });
    assert_eq!(
        outcome,
        Err(TransactionError::Exhausted {
            attempts: 3,
            last: serialization()
        })
    );
    assert_eq!(log.iter().filter(|line| *line == "1 ROLLBACK").count(), 3);
}

#[test]
fn the_first_error_decides() {
    let mut work = Deposit {
        swallow: true,
        ..Deposit::default()
    };
    let unique = || DbError::postgres("23505", "duplicate key value");
    // A swallowed 23505, then 25P02 for everything, then COMMIT answered by ROLLBACK.
    let (outcome, log) = deposit(&mut work, move |call| match call.sql.as_str() {
        "UPDATE account" => Some(Err(unique())),
        "INSERT entry" => Some(Err(DbError::postgres("25P02", "aborted"))),
        "COMMIT" => Some(Ok(Reply::tag("ROLLBACK"))),
        _ => None,
    });
    assert_eq!(outcome, Err(TransactionError::RolledBack(unique())));
    assert_eq!(
        log.len(),
        5,
        "not repeated, no transaction left to roll back"
    );
}

#[test]
fn a_swallowed_lost_race_is_run_again() {
    let mut work = Deposit {
        swallow: true,
        ..Deposit::default()
    };
    let mut first = true;
    let (outcome, _) = deposit(&mut work, move |call| match call.sql.as_str() {
        "UPDATE account" if first => Some(Err(serialization())),
        "COMMIT" if std::mem::take(&mut first) => Some(Ok(Reply::tag("ROLLBACK"))),
        _ => None,
    });
    assert_eq!(outcome, Ok(vec![1]));
    assert_eq!(work.resets, 2);
}

#[test]
fn a_connection_lost_at_commit_is_ambiguous_and_before_it_is_not() {
    let lost = || DbError::connection_lost("reset by peer");
    let (outcome, log) = deposit(&mut Deposit::default(), move |call| {
        (call.sql == "COMMIT").then(|| Err(lost()))
    });
    assert_eq!(outcome, Err(TransactionError::Ambiguous(lost())));
    assert_eq!(log.last().map(String::as_str), Some("1 COMMIT"));

    let (outcome, log) = deposit(&mut Deposit::default(), move |call| {
        (call.number == 2).then(|| Err(lost()))
    });
    assert_eq!(outcome, Ok(vec![1]));
    assert_eq!(log[3..5], ["2 connect", "2 BEGIN"]);
}

#[test]
fn a_refusal_rolls_back_and_is_not_repeated() {
    let (outcome, log) = deposit(&mut Deposit::default(), |call| {
        (call.number == 3).then(|| Ok(affected("INSERT", 9)))
    });
    assert_eq!(outcome, Err(TransactionError::Refused("not today")));
    assert_eq!(log.last().map(String::as_str), Some("1 ROLLBACK"));
}

#[test]
fn other_errors_are_not_repeated_at_any_call() {
    for number in 1..=4 {
        let (outcome, log) = deposit(&mut Deposit::default(), move |call| {
            (call.number == number).then(|| Err(DbError::postgres("22012", "division by zero")))
        });
        assert!(matches!(outcome, Err(TransactionError::Database(_))));
        let ended = log.last().map(String::as_str);
        // A BEGIN that was refused has opened nothing.
        assert_eq!(
            ended,
            Some(if number == 1 { "1 BEGIN" } else { "1 ROLLBACK" })
        );
    }
}

#[test]
fn pauses_double_and_are_jittered() {
    let policy = RetryPolicy::default();
    let ms = Duration::from_millis;
    assert_eq!(policy.pause(1, 0), ms(20));
    assert_eq!(policy.pause(1, 20_000), ms(40));
    assert_eq!(policy.pause(1, 20_001), ms(20));
    assert_eq!(policy.pause(2, 0), ms(40));
    assert_eq!(policy.pause(60, 0), ms(500));
    let host = FakeHost::new(0, |_: &Call| Ok(Reply::default()));
    host.set_random(&[5]);
    assert_eq!((host.random(), host.random()), (5, 0));
}

#[test]
fn what_is_repeated_follows_from_the_database() {
    let class = |dialect, code: &str| match dialect {
        Dialect::Postgres => ErrorClass::of_sqlstate(code),
        Dialect::Sqlite => ErrorClass::of_sqlite(code.parse().unwrap()),
        Dialect::MySql | Dialect::MariaDb => ErrorClass::of_errno(code.parse().unwrap(), "HY000"),
    };
    for (dialect, repeated, passed_on) in [
        (
            Dialect::Postgres,
            &["40001", "40P01"][..],
            &["23505", "55P03", "57014", "25P02", "42601"][..],
        ),
        (
            Dialect::MySql,
            &["1213", "1205", "3058", "1020"],
            &["1062", "1317", "1451"],
        ),
        (
            Dialect::MariaDb,
            &["1213", "1205", "1020"],
            &["1062", "1969"],
        ),
        (Dialect::Sqlite, &["5", "517", "6"], &["2067", "1555", "1"]),
    ] {
        let policy = RetryPolicy::on(dialect);
        for code in repeated {
            assert!(policy.repeats(class(dialect, code)), "{dialect} {code}");
        }
        for code in passed_on {
            assert!(!policy.repeats(class(dialect, code)), "{dialect} {code}");
        }
    }
}

#[test]
fn the_detail_of_a_conflict_is_shown_and_that_of_a_constraint_is_not() {
    let text = |code, detail: &str| {
        let last = DbError::postgres(code, "refused").with_detail(detail);
        TransactionError::<()>::Exhausted { attempts: 2, last }.to_string()
    };
    assert_eq!(
        text(
            "40001",
            "Reason code: Canceled on identification as a pivot."
        ),
        "gave up after 2 attempts: 40001: refused \
         (Reason code: Canceled on identification as a pivot.)"
    );
    assert!(!text("23505", "Key (mail)=(a@b) already exists.").contains("a@b"));
}
