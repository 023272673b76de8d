//! The row-lock form, call by call.

use super::*;
use crate::Isolation;
use crate::fake::Call;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A server with two jobs, whose answers may be replaced by `fail`.
fn server(
    mut fail: impl FnMut(&Call) -> Option<Result<Reply, DbError>> + Send + 'static,
) -> FakeHost {
    FakeHost::new(NOW, move |call: &Call| {
        fail(call).unwrap_or_else(|| {
            Ok(match call.sql.split(' ').next() {
                Some("SELECT") => rows(
                    &["id", "attempt", "body"],
                    &[
                        &[7.into(), 1.into(), "mail".into()],
                        &[8.into(), 3.into(), "fax".into()],
                    ],
                ),
                Some(word @ ("UPDATE" | "DELETE")) => affected(word, 1),
                Some(word) => Reply::tag(word),
                None => Reply::default(),
            })
        })
    })
}

fn open(host: &FakeHost, table: Table, options: RowLockOptions) -> RowLock<FakeHost> {
    RowLock::open(
        Pool::new(host.clone(), 1),
        Dialect::Postgres,
        table,
        options,
    )
    .unwrap()
}

/// The log without session numbers and arguments, statements cut to two words.
fn words(host: &FakeHost) -> Vec<String> {
    let cut = |line: String| {
        let words: Vec<&str> = line.split(' ').skip(1).take(2).collect();
        words.join(" ")
    };
    host.take_log().into_iter().map(cut).collect()
}

#[test]
fn a_batch_is_settled_row_by_row_and_committed_once() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, small(), RowLockOptions::default());
        let mut batch = queue.claim(2).await.unwrap().unwrap();
        assert_eq!(batch.jobs()[0].attempt(), Some(1), "the first delivery");
        batch.settle(0, Settlement::Ack).await.unwrap();
        assert_eq!(
            batch.settle(0, Settlement::Ack).await,
            Err(ClaimError::RowGone),
            "settled once"
        );
        batch.settle(1, Settlement::Retry).await.unwrap();
        batch.commit().await.unwrap();
        assert_eq!(host.open_sessions(), 1, "kept for the next claim");
    });
    let log = host.take_log();
    assert_eq!(log[0], "1 connect");
    assert_eq!(log[1], format!("1 {BEGIN}"));
    assert!(log[2].ends_with("LIMIT $1 FOR UPDATE SKIP LOCKED [2]"));
    assert_eq!(
        log[3..],
        [
            "1 DELETE FROM \"job\" WHERE \"id\" = $1 [7]",
            "1 UPDATE \"job\" SET \"attempt\" = \"attempt\" + 1 WHERE \"id\" = $1 [8]",
            "1 COMMIT"
        ]
    );
}

#[test]
fn an_empty_claim_leaves_no_transaction_open() {
    let host = server(|call| {
        call.sql
            .starts_with("SELECT")
            .then(|| Ok(rows(&["id", "attempt", "body"], &[])))
    });
    host.run(async {
        let queue = open(&host, small(), RowLockOptions::default());
        assert!(queue.claim(1).await.unwrap().is_none());
        assert!(
            queue.claim(1).await.unwrap().is_none(),
            "the connection is free again"
        );
    });
    let expected = ["connect", "BEGIN ISOLATION", "SELECT \"id\",", "ROLLBACK"];
    assert_eq!(words(&host)[..4], expected);
}

#[test]
fn a_retry_that_counts_nothing_writes_nothing() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, Table::new("job", "id"), RowLockOptions::default());
        let batch = queue.claim(1).await.unwrap().unwrap();
        batch.settle_all(Settlement::Retry).await.unwrap();
    });
    assert_eq!(words(&host)[3..], ["ROLLBACK"]);
}

#[test]
fn a_dropped_batch_closes_its_connection() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, small(), RowLockOptions::default());
        drop(queue.claim(1).await.unwrap());
        assert_eq!(host.open_sessions(), 0, "which rolls back");
        assert!(
            queue.claim(1).await.unwrap().is_some(),
            "its place in the pool is free"
        );
    });
}

#[test]
fn every_failure_at_every_call() {
    // Calls: 0 connect, 1 begin, 2 claim, 3 and 4 settle, 5 commit.
    for number in 0..=5 {
        for failure in [refused(), lost()] {
            let expected = match (number, &*failure.code) {
                (0, _) => ClaimError::Connect(failure.clone()),
                (5, "08006") => ClaimError::Ambiguous {
                    doing: Doing::Commit,
                    error: failure.clone(),
                },
                _ => ClaimError::Database(failure.clone()),
            };
            let gone = number == 0 || &*failure.code == "08006";
            let host = server(move |call| (call.number == number).then(|| Err(failure.clone())));
            host.run(async {
                let queue = open(&host, small(), RowLockOptions::default());
                let result = match queue.claim(2).await {
                    Ok(batch) => batch.unwrap().settle_all(Settlement::Ack).await,
                    Err(error) => Err(error),
                };
                assert_eq!(result, Err(expected), "call {number}");
                assert_eq!(host.open_sessions(), usize::from(!gone), "call {number}");
            });
            let last = words(&host).pop().unwrap();
            assert_eq!(last == "ROLLBACK", !gone, "call {number}: {last}");
        }
    }
}

#[test]
fn an_error_in_a_batch_ends_all_of_it() {
    let host = server(|call| (call.number == 3).then(|| Err(refused())));
    host.run(async {
        let queue = open(&host, small(), RowLockOptions::default());
        let mut batch = queue.claim(2).await.unwrap().unwrap();
        batch.settle(0, Settlement::Ack).await.unwrap_err();
        assert!(batch.session().is_none());
        let second = batch.settle(1, Settlement::Ack).await;
        assert_eq!(second, Err(ClaimError::RolledBack));
        assert_eq!(batch.commit().await, Err(ClaimError::RolledBack));
    });
}

#[test]
fn a_commit_answered_by_rollback_is_a_failure() {
    for (mutation, expected) in [
        (None, Err(ClaimError::RolledBack)),
        (Some(Mutation::IgnoreCommitTag), Ok(())),
    ] {
        let host = server(|call| (call.sql == "COMMIT").then(|| Ok(Reply::tag("ROLLBACK"))));
        let result = host.run(async {
            let options = RowLockOptions {
                mutation,
                ..RowLockOptions::default()
            };
            let queue = open(&host, small(), options);
            let batch = queue.claim(2).await.unwrap().unwrap();
            batch.settle_all(Settlement::Ack).await
        });
        assert_eq!(result, expected);
    }
}

#[test]
fn a_settlement_without_a_row_is_refused() {
    let host = server(|call| (call.number == 3).then(|| Ok(affected("DELETE", 0))));
    host.run(async {
        let queue = open(&host, small(), RowLockOptions::default());
        let mut batch = queue.claim(1).await.unwrap().unwrap();
        assert_eq!(
            batch.settle(0, Settlement::Ack).await,
            Err(ClaimError::RowGone)
        );
    });
    assert_eq!(words(&host).pop().unwrap(), "ROLLBACK");
}

#[test]
fn what_the_handler_wrote_is_undone_unless_acked() {
    let options = || RowLockOptions {
        undo_unless_acked: true,
        ..RowLockOptions::default()
    };
    let host = server(|call| {
        call.sql.starts_with("SELECT").then(|| {
            Ok(rows(
                &["id", "attempt", "body"],
                &[&[7.into(), 1.into(), "".into()]],
            ))
        })
    });
    host.run(async {
        let queue = open(&host, small(), options());
        let batch = queue.claim(1).await.unwrap().unwrap();
        batch.settle_all(Settlement::Retry).await.unwrap();
        let batch = queue.claim(1).await.unwrap().unwrap();
        batch.settle_all(Settlement::Ack).await.unwrap();
        assert!(matches!(
            queue.claim(2).await,
            Err(ClaimError::Declaration(_))
        ));
    });
    assert_eq!(
        words(&host)[3..],
        [
            "SAVEPOINT claimed",
            "ROLLBACK TO",
            "UPDATE \"job\"",
            "COMMIT",
            "BEGIN ISOLATION",
            "SELECT \"id\",",
            "SAVEPOINT claimed",
            "DELETE FROM",
            "COMMIT"
        ]
    );
}

#[test]
fn the_level_is_chosen_or_left_to_the_database() {
    for (transaction, text) in [
        (Transaction::DatabaseDefault, "1 BEGIN"),
        (
            Transaction::At(Isolation::RepeatableRead),
            "1 BEGIN ISOLATION LEVEL REPEATABLE READ",
        ),
    ] {
        let host = server(|_| None);
        host.run(async {
            let options = RowLockOptions {
                transaction,
                ..RowLockOptions::default()
            };
            let queue = open(&host, small(), options);
            queue.claim(1).await.unwrap().unwrap().give_back().await;
        });
        assert_eq!(host.take_log()[1], text);
    }
    let options = RowLockOptions {
        transaction: Transaction::At(Isolation::ReadUncommitted),
        ..RowLockOptions::default()
    };
    let host = server(|_| None);
    let refused = RowLock::open(Pool::new(host, 1), Dialect::Postgres, small(), options);
    assert!(matches!(refused, Err(ClaimError::Declaration(_))));
}
