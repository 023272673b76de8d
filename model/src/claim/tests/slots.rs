//! The slot state machine, one thread.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::super::slot::{Lost, Slots};
use super::*;

fn token(expiry_micros: i64) -> Token {
    Token {
        expiry_micros,
        fence: Some(2),
    }
}

#[test]
fn a_settlement_uses_what_the_extension_left() {
    for (succeeded, left) in [(true, 20), (false, 10)] {
        let slots = Slots::default();
        let key = slots.insert(Value::Int(1), token(10));
        let extension = slots.begin_extend(key, 20).unwrap();
        let mut settle = pin!(slots.begin_settle(key));
        let mut context = Context::from_waker(Waker::noop());
        assert!(settle.as_mut().poll(&mut context).is_pending());
        match succeeded {
            true => extension.succeeded(),
            // A statement that failed: whether it took effect is not known.
            false => drop(extension),
        }
        let Poll::Ready(Ok(settling)) = settle.as_mut().poll(&mut context) else {
            panic!("the extension is over");
        };
        assert_eq!(settling.token, token(left));
    }
}

#[test]
fn a_lost_slot_is_lost_for_every_later_use() {
    let slots = Slots::default();
    let key = slots.insert(Value::Int(1), token(10));
    slots.begin_extend(key, 20).unwrap().lost();
    assert!(slots.is_lost(key));
    assert!(slots.begin_extend(key, 30).is_none());
    assert_eq!(slots.settle_ahead(key).unwrap_err(), Lost);
}

#[test]
fn settling_ahead_takes_the_token_that_is_held() {
    let slots = Slots::default();
    let key = slots.insert(Value::Int(1), token(10));
    let extension = slots.begin_extend(key, 20).unwrap();
    let settling = slots.settle_ahead(key).unwrap();
    assert_eq!(settling.token, token(10));
    extension.succeeded();
    // The extension ended under a settlement and must not take its place.
    assert!(slots.held().is_empty());
    drop(settling);
    assert_eq!(slots.held(), [key]);
}

#[test]
fn slots_are_used_again_and_not_extended_while_settling() {
    let slots = Slots::default();
    let first = slots.insert(Value::Int(1), token(10));
    let second = slots.insert(Value::Int(2), token(10));
    let settling = slots.settle_ahead(first).unwrap();
    assert_eq!(slots.held(), [second]);
    settling.done();
    assert_eq!(slots.insert(Value::Int(3), token(30)), first);
}
