//! The lease form, call by call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::fake::{Answer, Call};

/// A server with one job, whose answers may be replaced by `fail`.
fn server(mut fail: impl FnMut(&Call) -> Option<Answer> + Send + 'static) -> FakeHost {
    FakeHost::new(NOW, move |call: &Call| {
        fail(call).unwrap_or_else(|| {
            let reply = match call.sql.split(' ').next() {
                Some("WITH") => rows(
                    &["id", "attempt", "body"],
                    &[&[7.into(), 1.into(), "mail".into()]],
                ),
                Some(word @ ("UPDATE" | "DELETE")) => affected(word, 1),
                _ => Reply::default(),
            };
            Ok(reply).into()
        })
    })
}

fn open(host: &FakeHost, options: LeaseOptions) -> Lease<FakeHost> {
    let table = small().locked_until("until");
    Lease::open(
        Pool::new(host.clone(), 4),
        Dialect::Postgres,
        table,
        options,
    )
    .unwrap()
}

fn weak() -> LeaseOptions {
    LeaseOptions {
        token: TokenRule::Expiry,
        ..LeaseOptions::default()
    }
}

fn error(error: DbError) -> Option<Answer> {
    Some(Err(error).into())
}

fn is_extension(call: &Call) -> bool {
    call.sql.starts_with("UPDATE") && !call.sql.contains("= NULL")
}

/// The arguments of the last line of a log.
fn args(line: &str) -> &str {
    line.split_once(" [")
        .map_or("", |(_, args)| args.trim_end_matches(']'))
}

#[test]
fn claim_and_ack() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, weak());
        let mut deliveries = queue.claim(1).await.unwrap();
        let delivery = &mut deliveries[0];
        assert_eq!(delivery.job().id(), &Value::Int(7));
        assert_eq!(delivery.job().attempt(), Some(1), "the first delivery");
        assert_eq!(delivery.job().get("body"), Some(&"mail".into()));
        delivery.ack().await.unwrap();
        // Settled once, and for good.
        assert_eq!(delivery.ack().await, Err(ClaimError::LeaseLost));
    });
    let log = host.take_log();
    assert_eq!(log.len(), 3, "connect, claim, settle; nothing at the end");
    assert_eq!(
        args(&log[1]),
        "2026-11-30 12:00:00.25+00, 1, 2026-11-30 12:00:31+00"
    );
    assert_eq!(args(&log[2]), "7, 2026-11-30 12:00:31+00");
}

#[test]
fn a_fenced_token_is_the_count_after_the_claim() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        queue.claim(1).await.unwrap()[0].ack().await.unwrap();
    });
    assert_eq!(args(host.take_log().last().unwrap()), "7, 2");
}

#[test]
fn the_clock_is_read_after_the_connection_is_had() {
    for (mutation, end) in [
        (None, "2026-11-30 12:01:31+00"),
        // Ended before it begins, had the connection taken longer than the lease.
        (
            Some(Mutation::ClockBeforeConnection),
            "2026-11-30 12:00:31+00",
        ),
    ] {
        let host = server(|call| {
            (call.sql == "connect").then(|| Answer {
                result: Ok(Reply::default()),
                after: Duration::from_secs(60),
            })
        });
        host.run(async {
            let options = LeaseOptions { mutation, ..weak() };
            let queue = open(&host, options);
            queue.claim(1).await.unwrap().pop().unwrap().forget();
        });
        let log = host.take_log();
        assert!(args(&log[1]).ends_with(end), "{log:?}");
    }
}

#[test]
fn a_settlement_without_a_row_is_a_lost_lease() {
    let host = server(|call| {
        call.sql
            .starts_with("DELETE")
            .then(|| Ok(affected("DELETE", 0)).into())
    });
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        let first = delivery.ack().await.unwrap_err();
        assert_eq!(
            (first.clone(), first.next()),
            (ClaimError::LeaseLost, Next::Redelivered)
        );
        assert!(delivery.is_lost());
        assert_eq!(delivery.retry().await, Err(ClaimError::LeaseLost));
        drop(delivery);
        host.sleep(Duration::from_secs(1)).await;
    });
    let log = host.take_log();
    assert_eq!(
        log.len(),
        3,
        "known to be lost: no further statement, no release: {log:?}"
    );
}

#[test]
fn every_failure_at_every_call() {
    // Calls: 0 connect, 1 claim, 2 settle.
    for (number, failure, expected, next) in [
        (0, refused(), ClaimError::Connect(refused()), Next::TryAgain),
        (0, lost(), ClaimError::Connect(lost()), Next::TryAgain),
        (
            1,
            refused(),
            ClaimError::Database(refused()),
            Next::TryAgain,
        ),
        (
            1,
            lost(),
            ClaimError::Ambiguous {
                doing: Doing::Claim,
                error: lost(),
            },
            Next::TryAgain,
        ),
        (
            2,
            refused(),
            ClaimError::Database(refused()),
            Next::TryAgain,
        ),
        (
            2,
            lost(),
            ClaimError::Ambiguous {
                doing: Doing::Settle,
                error: lost(),
            },
            Next::PerhapsRedelivered,
        ),
    ] {
        let host = server(move |call| match call.number == number {
            true => error(failure.clone()),
            false => None,
        });
        let lost_connection = matches!(&expected, ClaimError::Ambiguous { .. });
        host.run(async {
            let queue = open(&host, weak());
            let result = match queue.claim(1).await {
                Ok(mut deliveries) => {
                    let delivery = &mut deliveries[0];
                    let result = delivery.ack().await;
                    if matches!(result, Err(ClaimError::Database(_))) {
                        // Held as before: the second try works.
                        delivery.ack().await.unwrap();
                    }
                    result
                }
                Err(error) => Err(error),
            };
            let failure = result.unwrap_err();
            assert_eq!((failure.next(), failure), (next, expected));
            // A lost connection is not used again, any other is.
            let open = usize::from(!lost_connection && number > 0);
            assert_eq!(host.open_sessions(), open);
        });
    }
}

#[test]
fn a_fenced_settlement_is_sent_again_on_a_new_connection() {
    // What the second one hits tells what became of the first one, or does not.
    for (second, expected) in [
        (Ok(affected("DELETE", 1)), Ok(())),
        (Ok(affected("DELETE", 0)), Err(Next::PerhapsRedelivered)),
        (Err(lost()), Err(Next::PerhapsRedelivered)),
    ] {
        let mut answers = vec![second, Err(lost())];
        let host = server(move |call| match call.sql.starts_with("DELETE") {
            true => answers.pop().map(Answer::from),
            false => None,
        });
        let result = host.run(async {
            let queue = open(&host, LeaseOptions::default());
            queue.claim(1).await.unwrap()[0].ack().await
        });
        assert_eq!(result.map_err(|error| error.next()), expected);
        assert_eq!(args(host.take_log().last().unwrap()), "7, 2");
    }
}

#[test]
fn a_dropped_delivery_is_given_back_in_the_background() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        drop(queue.claim(1).await.unwrap());
        host.sleep(Duration::from_secs(1)).await;
    });
    let log = host.take_log();
    assert_eq!(
        log[2],
        "1 UPDATE \"job\" SET \"until\" = NULL \
         WHERE \"id\" = $1 AND \"attempt\" = $2 AND \"until\" IS NOT NULL [7, 2]"
    );
}

#[test]
fn the_keeper_extends_every_half_lease_and_by_token() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, weak());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        host.sleep(Duration::from_secs(35)).await;
        delivery.ack().await.unwrap();
        host.sleep(Duration::from_secs(60)).await;
    });
    let log = host.take_log();
    let sent: Vec<&str> = log[2..].iter().map(|line| args(line)).collect();
    // Ticks at :15.25 and :30.25; the new end, then the id and the end that is held.
    assert_eq!(
        sent,
        [
            "2026-11-30 12:00:46+00, 7, 2026-11-30 12:00:31+00",
            "2026-11-30 12:01:01+00, 7, 2026-11-30 12:00:46+00",
            "7, 2026-11-30 12:01:01+00"
        ],
        "and nothing once it is settled"
    );
}

#[test]
fn an_extension_that_fails_keeps_the_old_token() {
    for failure in [refused(), lost()] {
        let mut once = Some(failure);
        let host = server(move |call| {
            if !is_extension(call) {
                return None;
            }
            once.take().and_then(error)
        });
        host.run(async {
            let queue = open(&host, weak());
            let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
            host.sleep(Duration::from_secs(16)).await;
            delivery.ack().await.unwrap();
        });
        let log = host.take_log();
        assert!(
            args(log.last().unwrap()).ends_with("7, 2026-11-30 12:00:31+00"),
            "{log:?}"
        );
    }
}

#[test]
fn an_extension_that_hits_no_row_loses_the_lease() {
    let host = server(|call| is_extension(call).then(|| Ok(affected("UPDATE", 0)).into()));
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        host.sleep(Duration::from_secs(16)).await;
        assert!(delivery.is_lost());
        assert_eq!(delivery.ack().await, Err(ClaimError::LeaseLost));
        host.take_log();
        host.sleep(Duration::from_secs(60)).await;
        assert!(
            host.take_log().is_empty(),
            "no settlement, no further extension"
        );
    });
}

#[test]
fn a_settlement_waits_for_the_extension_in_flight() {
    let host = server(|call| {
        is_extension(call).then(|| Answer {
            result: Ok(affected("UPDATE", 1)),
            after: Duration::from_secs(3),
        })
    });
    let settled_at = Arc::new(Mutex::new(0));
    host.run(async {
        let queue = open(&host, weak());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        host.sleep(Duration::from_secs(16)).await;
        delivery.ack().await.unwrap();
        *settled_at.lock().unwrap() = host.now_micros() - NOW;
    });
    // The extension began at 15 s and took 3.
    assert_eq!(*settled_at.lock().unwrap(), 18 * SECOND);
    let log = host.take_log();
    assert_eq!(args(log.last().unwrap()), "7, 2026-11-30 12:00:46+00");
}

#[test]
fn settling_in_the_handlers_transaction_does_not_wait() {
    let host = server(|call| {
        is_extension(call).then(|| Answer {
            result: Ok(affected("UPDATE", 1)),
            after: Duration::from_secs(300),
        })
    });
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        host.sleep(Duration::from_secs(16)).await;
        let mut session = host.connect().await.unwrap();
        delivery
            .settle_in(&mut session, Settlement::Ack)
            .await
            .unwrap();
        assert_eq!(host.now_micros() - NOW, 16 * SECOND);
    });
}

#[test]
fn a_slow_round_delays_the_next_tick_and_is_not_made_up_for() {
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let host = server(|call| {
        is_extension(call).then(|| Answer {
            result: Ok(affected("UPDATE", 1)),
            after: Duration::from_secs(20),
        })
    });
    let seen = Arc::clone(&ticks);
    host.run(async {
        let queue = open(&host, weak());
        let delivery = queue.claim(1).await.unwrap().pop().unwrap();
        host.take_log();
        for _ in 0..120 {
            host.sleep(Duration::from_secs(1)).await;
            let extensions = host.take_log().iter().filter(|l| l.contains("SET")).count();
            for _ in 0..extensions {
                let now = host.now_micros() - NOW;
                seen.lock().unwrap().push(now / SECOND);
            }
        }
        delivery.forget();
    });
    // A round begins when the one before is done, at once if the tick was missed.
    assert_eq!(*ticks.lock().unwrap(), [16, 36, 56, 76, 96, 116]);
}

#[test]
fn a_closed_queue_claims_and_extends_no_more_but_settles() {
    let host = server(|_| None);
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        let mut delivery = queue.claim(1).await.unwrap().pop().unwrap();
        queue.close();
        assert_eq!(queue.claim(1).await.unwrap_err(), ClaimError::Closed);
        host.take_log();
        host.sleep(Duration::from_secs(60)).await;
        assert!(host.take_log().is_empty());
        delivery.ack().await.unwrap();
    });
}

#[test]
fn an_answer_that_contradicts_the_description_is_an_error() {
    let host = FakeHost::new(NOW, |call: &Call| {
        Ok(match call.sql.split(' ').next() {
            Some("WITH") => rows(&["id", "attempt"], &[&[7.into(), Value::Null]]),
            _ => Reply::default(),
        })
    });
    host.run(async {
        let queue = open(&host, LeaseOptions::default());
        let error = queue.claim(1).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the table is not as described: column `attempt` has a value that is no integer"
        );
        assert_eq!(error.next(), Next::GiveUp);
    });
}
