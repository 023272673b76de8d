//! The advisory form, call by call.

use super::*;
use crate::fake::Call;

type Fail = Option<Result<Reply, DbError>>;

fn rows_of(sql: &str) -> Reply {
    let yes = |column: &str| rows(&[column], &[&[Value::Bool(true)]]);
    match sql.split(' ').next() {
        Some("SELECT") if sql.contains("row_key") => rows(
            &["row_id", "row_key"],
            &[
                &[7.into(), "a".into()],
                &[8.into(), "a".into()],
                &[9.into(), "b".into()],
            ],
        ),
        Some("SELECT") if sql.contains("unlock") => yes("unlocked"),
        Some("SELECT") => yes("locked"),
        Some("UPDATE") => rows(
            &["id", "attempt", "body"],
            &[&[7.into(), 1.into(), "mail".into()]],
        ),
        Some(word @ "DELETE") => affected(word, 1),
        Some(word) => Reply::tag(word),
        None => Reply::default(),
    }
}

/// A server with three jobs, two of them of one key, whose answers may be replaced by `fail`.
fn server(mut fail: impl FnMut(&Call) -> Fail + Send + 'static) -> FakeHost {
    FakeHost::new(NOW, move |call: &Call| {
        fail(call).unwrap_or_else(|| Ok(rows_of(&call.sql)))
    })
}

fn open(host: &FakeHost, connections: usize, options: AdvisoryOptions) -> Advisory<FakeHost> {
    let table = small().advisory_lock("{tenant}");
    let pool = Pool::new(host.clone(), connections);
    Advisory::open(pool, Dialect::Postgres, table, options).unwrap()
}

/// The log with statements cut to what they do.
fn words(host: &FakeHost) -> Vec<String> {
    let kinds = [
        ("row_key", "choose"),
        ("pg_try_advisory_lock", "lock"),
        ("pg_advisory_unlock", "unlock"),
        ("UPDATE", "take"),
        ("DELETE", "ack"),
    ];
    let cut = |line: String| {
        let (session, sql) = line.split_once(' ').unwrap();
        let kind = kinds.iter().find(|(word, _)| sql.contains(word));
        let word = kind.map_or_else(|| sql.split(' ').next().unwrap_or_default(), |(_, k)| k);
        format!("{session} {word}")
    };
    host.take_log().into_iter().map(cut).collect()
}

fn no() -> Fail {
    Some(Ok(rows(&["locked"], &[&[Value::Bool(false)]])))
}

#[test]
fn one_connection_a_key_and_one_row_a_key() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, 4, AdvisoryOptions::default());
        let mut deliveries = queue.claim(3).await.unwrap();
        assert_eq!(deliveries.len(), 2, "two rows have one key");
        assert_eq!(deliveries[0].job().attempt(), Some(1), "the first delivery");
        assert_eq!(host.open_sessions(), 2);
        for delivery in &mut deliveries {
            delivery.settle(Settlement::Ack).await.unwrap();
            let again = delivery.settle(Settlement::Ack).await;
            assert_eq!(again, Err(ClaimError::Closed), "settled once");
        }
        assert_eq!(host.open_sessions(), 2, "kept for the next claim");
    });
    assert_eq!(
        words(&host),
        [
            "1 connect",
            "1 choose",
            "1 lock",
            "1 take",
            "2 connect",
            "2 lock",
            "2 take",
            "1 ack",
            "1 unlock",
            "2 ack",
            "2 unlock"
        ],
        "stored, then unlocked"
    );
}

#[test]
fn a_claim_does_not_wait_for_connections_that_it_holds_itself() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        let deliveries = queue.claim(3).await.unwrap();
        assert_eq!(deliveries.len(), 1);
    });
}

#[test]
fn a_key_that_is_held_is_passed_over() {
    let host = server(|call| call.sql.contains("try_advisory_lock").then(no).flatten());
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        assert!(queue.claim(3).await.unwrap().is_empty());
    });
    let expected = ["1 connect", "1 choose", "1 lock", "1 lock", "1 lock"];
    assert_eq!(words(&host), expected, "on one connection");
}

#[test]
fn a_row_that_was_settled_before_the_lock_is_left_alone() {
    let gone = |call: &Call| {
        let none = rows(&["id", "attempt", "body"], &[]);
        call.sql.starts_with("UPDATE").then_some(Ok(none))
    };
    let host = server(gone);
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        assert!(queue.claim(1).await.unwrap().is_empty());
    });
    let expected = ["1 lock", "1 take", "1 unlock"].repeat(3);
    assert_eq!(words(&host)[2..], expected);
}

#[test]
fn every_failure_at_every_call() {
    // Calls: 0 connect, 1 choose, 2 lock, 3 take, 4 ack, 5 unlock.
    for number in 0..=5 {
        for failure in [refused(), lost()] {
            let gone = &*failure.code == "08006";
            let ambiguous = |doing| ClaimError::Ambiguous {
                doing,
                error: failure.clone(),
            };
            let expected = match (number, gone) {
                (0, _) => Err(ClaimError::Connect(failure.clone())),
                (3, true) => Err(ambiguous(Doing::Claim)),
                (4, true) => Err(ambiguous(Doing::Settle)),
                (5, _) => Ok(()),
                _ => Err(ClaimError::Database(failure.clone())),
            };
            let fails = failure.clone();
            let host = server(move |call| (call.number == number).then(|| Err(fails.clone())));
            host.run(async {
                let queue = open(&host, 1, AdvisoryOptions::default());
                let result = match queue.claim(1).await {
                    Ok(mut deliveries) => deliveries[0].settle(Settlement::Ack).await,
                    Err(error) => Err(error),
                };
                assert_eq!(result, expected, "call {number}");
                // The lock statement that failed may have locked, an unlock that failed not have
                // unlocked: such a connection is never used again.
                let kept = !gone && !matches!(number, 0 | 2 | 5);
                assert_eq!(host.open_sessions(), usize::from(kept), "call {number}");
            });
        }
    }
}

#[test]
fn an_unlock_that_is_not_confirmed_closes_the_connection() {
    let host = server(|call| call.sql.contains("unlock").then(no).flatten());
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        delivery.settle(Settlement::Retry).await.unwrap();
        assert_eq!(host.open_sessions(), 0);
    });
    assert_eq!(
        words(&host).pop().unwrap(),
        "1 unlock",
        "a retry writes nothing"
    );
}

#[test]
fn a_dropped_delivery_gives_its_key_back() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        drop(queue.claim(1).await.unwrap());
        assert_eq!(
            queue.claim(1).await.unwrap().len(),
            1,
            "on the same connection"
        );
    });
    let words = words(&host);
    assert_eq!(words[3..5], ["1 take", "1 unlock"]);
    assert_eq!(words.iter().filter(|w| w.ends_with("connect")).count(), 1);
}

#[test]
fn closing_gives_every_key_back_at_once() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, 2, AdvisoryOptions::default());
        let mut deliveries = queue.claim(3).await.unwrap();
        queue.close();
        assert_eq!(host.open_sessions(), 0);
        let late = deliveries[0].settle(Settlement::Ack).await;
        assert_eq!(late, Err(ClaimError::Closed));
        assert_eq!(queue.claim(1).await.unwrap_err(), ClaimError::Closed);
    });
}

#[test]
fn the_handlers_transaction_ends_before_the_lock() {
    for (settlement, expected) in [
        (
            Settlement::Ack,
            ["1 BEGIN", "1 ack", "1 COMMIT", "1 unlock"],
        ),
        (
            Settlement::Drop,
            ["1 BEGIN", "1 ROLLBACK", "1 ack", "1 unlock"],
        ),
    ] {
        let host = server(|_| None);
        host.run(async {
            let queue = open(&host, 1, AdvisoryOptions::default());
            let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
            delivery.transaction(None).await.unwrap();
            delivery.settle(settlement).await.unwrap();
        });
        assert_eq!(words(&host)[4..], expected);
    }
}

#[test]
fn a_handlers_transaction_that_had_failed_stores_nothing() {
    let host = server(|call| (call.sql == "COMMIT").then(|| Ok(Reply::tag("ROLLBACK"))));
    host.run(async {
        let queue = open(&host, 1, AdvisoryOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        delivery.transaction(None).await.unwrap();
        let answer = delivery.settle(Settlement::Ack).await;
        assert_eq!(answer, Err(ClaimError::RolledBack));
    });
}

#[test]
fn mutations_make_the_mistake_that_they_name() {
    let run = |mutation, unlock_fails: bool| {
        let host = server(move |call| {
            let unlock = unlock_fails && call.sql.contains("unlock");
            unlock.then(no).flatten()
        });
        host.run(async {
            let options = AdvisoryOptions {
                mutation: Some(mutation),
                ..AdvisoryOptions::default()
            };
            let queue = open(&host, 1, options);
            let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
            delivery.settle(Settlement::Ack).await.unwrap();
            (words(&host), host.open_sessions())
        })
    };
    let (early, _) = run(Mutation::UnlockBeforeSettle, false);
    assert_eq!(early[4..], ["1 unlock", "1 ack"]);
    let (_, kept) = run(Mutation::IgnoreUnlock, true);
    assert_eq!(kept, 1, "with the lock on it");
}

#[test]
fn keys_of_one_process_exclude_one_another() {
    let table = KeyTable::new();
    let key = "a".into();
    let held = table.try_lock(&key).unwrap();
    assert!(
        table.clone().try_lock(&key).is_none(),
        "clones are one table"
    );
    assert!(table.try_lock(&"b".into()).is_some());
    assert!(KeyTable::new().try_lock(&key).is_some(), "another process");
    drop(held);
    assert!(table.try_lock(&key).is_some());
    assert_eq!(table.held(), 0);
}
