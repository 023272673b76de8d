//! Parameters, and the rules on made-up events.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::schedule::{Choice, ProcessId, RequestId};

use super::rules::{EveryClaimCounts, OneLiveHolder, OnlyTheHolderSettles, SettledOnce};
use crate::explore::{Inspect, Monitor, Remark, Seen, What};

fn error(actor: &str, params: &[(&str, Value)]) -> String {
    let params: BTreeMap<Arc<str>, Value> = params
        .iter()
        .map(|(name, value)| ((*name).into(), value.clone()))
        .collect();
    match super::process(actor, "worker", &params) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.message,
    }
}

#[test]
fn parameters_are_checked() {
    let lease = |name, value: &str| error("lease-worker", &[(name, value.into())]);
    assert_eq!(lease("lease", "45s"), "ok");
    assert_eq!(
        lease("lease", "45"),
        "`lease` must be a length of time: `45` is not a duration; \
         write `15s`, `200ms`, `5min` or `1h`"
    );
    assert_eq!(
        lease("token", "none"),
        "`token` must be one of: fenced, expiry"
    );
    assert_eq!(lease("settle", "retry after 5s"), "ok");
    assert_eq!(
        lease("settle", "forget"),
        "`settle` must be one of: ack, drop, retry, retry after 5s"
    );
    assert!(lease("mutation", "none").starts_with("`mutation` must be one of: settle-without-"));
    assert!(lease("leese", "45s").starts_with("no parameter `leese`; there are: attempt, clock"));
    assert_eq!(
        error("row-lock-worker", &[("limit", Value::Int(-1))]),
        "`limit` must be a number from 0"
    );
    assert_eq!(
        error("worker", &[]),
        "no actor `worker`; there are: advisory-worker, guarded-writer, lease-worker, row-lock-worker, write-path"
    );
}

/// These rules ask no database.
fn see<M: Monitor>(monitor: &M, state: &mut M::State, seen: &Seen<'_>) -> Remark {
    let mut none = |sql: &str, _: &[Value]| panic!("asked: {sql}");
    monitor.see(state, seen, &mut Inspect { run: &mut none })
}

/// What process `process` tells, as a monitor sees it.
fn tell<M: Monitor>(
    monitor: &M,
    state: &mut M::State,
    process: u8,
    name: &str,
    values: &[i64],
) -> bool {
    let mut values: Vec<Value> = values.iter().map(|n| Value::Int(*n)).collect();
    if name == "settled" {
        values.push("ack".into());
    }
    let seen = Seen {
        choice: Choice::Step(ProcessId(process), RequestId(0)),
        process: Some(ProcessId(process)),
        name: "worker",
        what: What::Note {
            name,
            values: &values,
        },
    };
    matches!(see(monitor, state, &seen), Remark::Violated(_))
}

fn crash<M: Monitor>(monitor: &M, state: &mut M::State, process: u8) {
    let seen = Seen {
        choice: Choice::Crash(ProcessId(process)),
        process: Some(ProcessId(process)),
        name: "worker",
        what: What::Other,
    };
    assert_eq!(see(monitor, state, &seen), Remark::Fine);
}

#[test]
fn a_row_is_held_until_its_lease_ends_or_its_holder_does() {
    // Row 7, attempt, end of the lease, clock of the claimer.
    let claim = |state: &mut _, process, until, now| {
        tell(
            &OneLiveHolder,
            state,
            process,
            "claimed",
            &[7, 1, until, now],
        )
    };
    let mut held = OneLiveHolder.start();
    assert!(!claim(&mut held, 0, 30, 0));
    for end in ["settled", "lost", "left"] {
        let mut state = held.clone();
        assert!(!tell(&OneLiveHolder, &mut state, 0, end, &[7]));
        assert!(!claim(&mut state, 1, 60, 10), "{end}");
    }
    assert!(claim(&mut held.clone(), 1, 60, 29));
    assert!(!claim(&mut held.clone(), 1, 60, 30), "the lease has ended");
    let mut extended = held.clone();
    assert!(!tell(
        &OneLiveHolder,
        &mut extended,
        0,
        "extended",
        &[7, 45]
    ));
    assert!(claim(&mut extended, 1, 60, 30));
    crash(&OneLiveHolder, &mut held, 0);
    assert!(!claim(&mut held, 1, 60, 10), "nobody lives who holds it");
}

#[test]
fn a_settlement_is_the_last_claimers() {
    let (rule, mut state) = (OnlyTheHolderSettles, OnlyTheHolderSettles.start());
    assert!(!tell(&rule, &mut state, 0, "claimed", &[7, 1]));
    assert!(!tell(&rule, &mut state, 1, "claimed", &[7, 2]));
    assert!(tell(&rule, &mut state.clone(), 0, "settled", &[7]));
    assert!(!tell(&rule, &mut state, 1, "settled", &[7]));
}

#[test]
fn finished_and_counted_once() {
    let mut state = SettledOnce.start();
    assert!(!tell(&SettledOnce, &mut state, 0, "settled", &[7]));
    assert!(!tell(&SettledOnce, &mut state, 0, "settled", &[8]));
    assert!(tell(&SettledOnce, &mut state, 1, "settled", &[7]));

    let mut state = EveryClaimCounts.start();
    assert!(!tell(&EveryClaimCounts, &mut state, 0, "claimed", &[7, 1]));
    assert!(!tell(&EveryClaimCounts, &mut state, 1, "claimed", &[7, 2]));
    assert!(tell(&EveryClaimCounts, &mut state, 1, "claimed", &[8, 2]));
}
