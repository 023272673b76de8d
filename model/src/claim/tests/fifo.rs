//! FIFO queues and other databases, call by call.

use super::*;
use crate::fake::Call;

/// A server that answers as a queue with one row does; `free` says what the guard answers.
fn server(free: bool, mut fail: impl FnMut(&Call) -> bool + Send + 'static) -> FakeHost {
    FakeHost::new(NOW, move |call: &Call| {
        if fail(call) {
            return Err(refused());
        }
        let yes = |yes: bool| rows(&["free"], &[&[Value::Int(i64::from(yes))]]);
        Ok(match call.sql.split(' ').next() {
            Some("SELECT") if call.sql.contains("RELEASE_LOCK") => yes(true),
            Some("SELECT") if call.sql.ends_with("AS free") => yes(free),
            Some("SELECT") if call.sql.contains("VERSION") => {
                rows(&["version"], &[&["8.0.0-log".into()]])
            }
            Some("SELECT" | "WITH") => rows(&["id", "attempt"], &[&[7.into(), 1.into()]]),
            Some(word @ ("UPDATE" | "DELETE" | "INSERT")) => affected(word, 1),
            Some(word) => Reply::tag(word),
            None => Reply::default(),
        })
    })
}

fn table() -> Table {
    Table::new("job", "id").attempt("attempt").schema("work")
}

/// The log as first words, without the connect.
fn words(host: &FakeHost) -> Vec<String> {
    let kinds = [
        ("INSERT", "copy"),
        ("RELEASE_LOCK", "unguard"),
        ("AS free", "guard"),
        ("SELECT", "claim"),
        ("WITH", "claim"),
    ];
    let cut = |line: String| {
        let sql = line.split_once(' ').map_or("", |(_, sql)| sql);
        let kind = kinds.iter().find(|(word, _)| sql.contains(word));
        let first = sql.split([' ', ';']).next().unwrap_or_default();
        kind.map_or(first, |(_, kind)| kind).to_owned()
    };
    host.take_log().into_iter().skip(1).map(cut).collect()
}

fn fifo() -> Option<FifoGuard> {
    Some(FifoGuard::Lock)
}

#[test]
fn a_row_lock_claim_has_its_guard_until_the_end_of_the_transaction() {
    for (dialect, expected) in [
        (
            Dialect::Postgres,
            &["BEGIN", "guard", "claim", "DELETE", "COMMIT"][..],
        ),
        (
            Dialect::MySql,
            &[
                "SET", "START", "guard", "claim", "DELETE", "COMMIT", "unguard",
            ][..],
        ),
    ] {
        let host = server(true, |_| false);
        host.run(async {
            let options = RowLockOptions {
                fifo: fifo(),
                ..RowLockOptions::default()
            };
            let pool = Pool::new(host.clone(), 1);
            let queue = RowLock::open(pool, dialect, table(), options).unwrap();
            let batch = queue.claim(1).await.unwrap().unwrap();
            batch.settle_all(Settlement::Ack).await.unwrap();
            assert_eq!(host.open_sessions(), 1);
        });
        assert_eq!(words(&host), expected);
    }
}

#[test]
fn a_queue_in_work_is_an_empty_claim() {
    let host = server(false, |_| false);
    host.run(async {
        let options = RowLockOptions {
            fifo: fifo(),
            ..RowLockOptions::default()
        };
        let pool = Pool::new(host.clone(), 1);
        let queue = RowLock::open(pool, Dialect::MySql, table(), options).unwrap();
        assert!(queue.claim(1).await.unwrap().is_none());
        assert_eq!(host.open_sessions(), 1);
    });
    // What was not had is not given back.
    assert_eq!(words(&host), ["SET", "START", "guard", "ROLLBACK"]);
}

#[test]
fn a_fifo_queue_is_claimed_at_read_committed() {
    let host = server(true, |_| false);
    for transaction in [
        Transaction::DatabaseDefault,
        Transaction::At(crate::Isolation::RepeatableRead),
        Transaction::At(crate::Isolation::Serializable),
    ] {
        let options = RowLockOptions {
            fifo: fifo(),
            transaction,
            ..RowLockOptions::default()
        };
        let pool = Pool::new(host.clone(), 1);
        let error = RowLock::open(pool, Dialect::MySql, table(), options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a FIFO queue is claimed at READ COMMITTED"
        );
    }
}

fn lease(host: &FakeHost, dialect: Dialect, fifo: Option<FifoGuard>) -> Lease<FakeHost> {
    let options = LeaseOptions {
        fifo,
        without_keeper: true,
        ..LeaseOptions::default()
    };
    let table = table().locked_until("until").dead_letter_table("dead");
    Lease::open(Pool::new(host.clone(), 1), dialect, table, options).unwrap()
}

#[test]
fn a_lease_on_mysql_is_stamped_and_committed() {
    for (fifo, expected) in [
        (None, &["SET", "START", "claim", "UPDATE", "COMMIT"][..]),
        (
            fifo(),
            &[
                "SET", "START", "guard", "claim", "UPDATE", "COMMIT", "unguard",
            ][..],
        ),
    ] {
        let host = server(true, |_| false);
        host.run(async {
            let queue = lease(&host, Dialect::MySql, fifo);
            let delivery = queue.claim(1).await.unwrap().pop().unwrap();
            assert_eq!(delivery.job().attempt(), Some(1));
            assert_eq!(host.open_sessions(), 1);
            delivery.forget();
        });
        assert_eq!(words(&host), expected);
    }
}

#[test]
fn rows_that_the_stamp_misses_are_not_claimed() {
    // Both rows are locked: the stamp hits both, or none. Anything else claims nothing either.
    for hit in 0..=2 {
        let host = two_rows(hit);
        host.run(async {
            let queue = lease(&host, Dialect::MariaDb, None);
            let claimed = queue.claim(2).await;
            let ids = |deliveries: Vec<LeaseDelivery<FakeHost>>| -> Vec<Value> {
                let ids = deliveries.iter().map(|d| d.job().id().clone()).collect();
                deliveries.into_iter().for_each(LeaseDelivery::forget);
                ids
            };
            match hit {
                0 => assert_eq!(ids(claimed.unwrap()), []),
                1 => {
                    let error = claimed.map(ids).unwrap_err();
                    assert!(matches!(error, ClaimError::Contents(_)), "{error}");
                    assert_eq!(host.open_sessions(), 0, "closed, and so rolled back");
                }
                _ => assert_eq!(ids(claimed.unwrap()), [Value::Int(7), Value::Int(8)]),
            }
        });
        let stamps = words(&host).iter().filter(|word| *word == "UPDATE").count();
        assert_eq!(stamps, 1);
    }
}

/// A server with two rows, of which an update hits so many.
fn two_rows(hit: u64) -> FakeHost {
    FakeHost::new(NOW, move |call: &Call| {
        Ok::<Reply, DbError>(match call.sql.split(' ').next() {
            Some("SELECT") => rows(
                &["id", "attempt"],
                &[&[7.into(), 1.into()], &[8.into(), 1.into()]],
            ),
            Some("UPDATE") => affected("UPDATE", hit),
            Some(word) => Reply::tag(word),
            None => Reply::default(),
        })
    })
}

#[test]
fn a_claim_of_several_statements_that_fails_leaves_no_connection_behind() {
    // Calls: 0 connect, 1 and 2 begin, 3 guard, 4 claim, 5 stamp, 6 commit.
    for number in 1..=6 {
        let host = server(true, move |call| call.number == number);
        host.run(async {
            let queue = lease(&host, Dialect::MySql, fifo());
            let error = queue.claim(1).await.unwrap_err();
            assert_eq!(error, ClaimError::Database(refused()), "call {number}");
            assert_eq!(
                host.open_sessions(),
                0,
                "closing ends transaction and guard"
            );
        });
    }
}

#[test]
fn dead_letters_are_copied_and_deleted_in_one_transaction() {
    let host = server(true, |_| false);
    host.run(async {
        let queue = lease(&host, Dialect::MariaDb, None);
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        delivery.settle(Settlement::DeadLetter).await.unwrap();
    });
    assert_eq!(words(&host)[5..], ["BEGIN", "copy", "DELETE", "COMMIT"]);
}

#[test]
fn a_lease_is_proved_in_the_handlers_transaction() {
    let host = server(true, |call| call.number == 100);
    host.run(async {
        let queue = lease(&host, Dialect::Postgres, None);
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        let mut own = host.connect().await.unwrap();
        delivery.prove_in(&mut own).await.unwrap();
        delivery.forget();
    });
}

#[test]
fn an_old_server_is_refused() {
    let host = server(true, |_| false);
    host.run(async {
        let pool = Pool::new(host.clone(), 1);
        let error = check_server(&pool, Dialect::MySql, Form::Lease)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "mysql 8.0.0 is too old for the lease form: it needs 8.0.1 or newer"
        );
        assert_eq!(error.next(), Next::GiveUp);
    });
}

#[test]
fn an_extension_that_counts_no_row_is_looked_into_on_mysql() {
    // A client that counts changed rows is told 0 where the end of the lease is what it was.
    for (dialect, still_there, lost) in [
        (Dialect::MySql, true, false),
        (Dialect::MariaDb, false, true),
        (Dialect::Sqlite, true, true),
    ] {
        let host = FakeHost::new(NOW, move |call: &Call| {
            let claimed = rows(&["id", "attempt"], &[&[7.into(), 1.into()]]);
            let proof = call.sql.starts_with("SELECT `id` FROM");
            Ok::<Reply, DbError>(match call.sql.split(' ').next() {
                Some("SELECT") if proof && !still_there => rows(&["id"], &[]),
                Some("SELECT") => claimed,
                Some("UPDATE") if call.sql.contains("RETURNING") => claimed,
                Some("UPDATE") if call.sql.contains("AS target") => affected("UPDATE", 1),
                Some("UPDATE") => affected("UPDATE", 0),
                Some(word) => Reply::tag(word),
                None => Reply::default(),
            })
        });
        host.run(async {
            let table = table().locked_until("until");
            let pool = Pool::new(host.clone(), 1);
            let queue = Lease::open(pool, dialect, table, LeaseOptions::default()).unwrap();
            let delivery = queue.claim(1).await.unwrap().pop().unwrap();
            host.sleep(std::time::Duration::from_secs(20)).await;
            assert_eq!(delivery.is_lost(), lost, "{dialect}");
            delivery.forget();
        });
    }
}
