//! The slots of a lease queue: one for each delivery that is held, shared between the keeper that
//! extends leases and the tasks that settle deliveries.
//!
//! ```text
//!            insert                 begin_extend
//!   (free) ----------> Held(token) --------------> Extending(held, next)
//!     ^                  |   ^  ^                    |      |       |
//!     |     begin_settle |   |  +---- succeeded: next, -----+       | lost
//!     |                  v   |        unknown: the old one          v
//!     +--- done ---- Settling(token)                              Lost
//!                            | lost                                 ^
//!                            +--------------------------------------+
//! ```
//!
//! A settlement waits while its slot is being extended: the token it then uses is the one that the
//! extension left. The state machine is checked under loom (`RUSTFLAGS="--cfg loom"`).

use super::token::Token;
use crate::Value;
use crate::sync::{Lock, Notify};

/// A slot by its position. Free positions are used again, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotKey(usize);

/// What is going on with a held delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The lease is ours, as far as we know.
    Held(Token),
    /// A statement that extends it is on its way.
    Extending {
        /// What holds if that statement has no effect.
        held: Token,
        /// What holds if it succeeds.
        next: Token,
    },
    /// A statement that settles it is on its way.
    Settling(Token),
    /// A statement with our token hit no row.
    Lost,
}

#[derive(Debug)]
struct Slot {
    id: Value,
    state: State,
}

/// The slots of one queue.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Lock<Vec<Option<Slot>>>,
    /// An extension came to its end.
    extended: Notify,
}

/// The lease is not ours any more; known without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

impl Slots {
    /// A slot for a row just claimed.
    pub(super) fn insert(&self, id: Value, token: Token) -> SlotKey {
        let slot = Some(Slot {
            id,
            state: State::Held(token),
        });
        self.slots
            .with(|slots| match slots.iter().position(Option::is_none) {
                Some(index) => {
                    slots[index] = slot;
                    SlotKey(index)
                }
                None => {
                    slots.push(slot);
                    SlotKey(slots.len() - 1)
                }
            })
    }

    /// The slots that a round of the keeper goes through.
    pub(super) fn held(&self) -> Vec<SlotKey> {
        self.slots.with(|slots| {
            let held = |slot: &Option<Slot>| {
                matches!(slot, Some(slot) if matches!(slot.state, State::Held(_)))
            };
            let keys = slots.iter().enumerate().filter(|(_, slot)| held(slot));
            keys.map(|(index, _)| SlotKey(index)).collect()
        })
    }

    /// Whether the lease of a slot is known to be lost.
    pub(super) fn is_lost(&self, key: SlotKey) -> bool {
        self.slots
            .with(|slots| !matches!(get(slots, key), Some(slot) if slot.state != State::Lost))
    }

    /// Begins to extend a slot; `None` if it is not held (any more).
    pub(super) fn begin_extend(&self, key: SlotKey, expiry_micros: i64) -> Option<Extension<'_>> {
        self.slots.with(|slots| {
            let slot = get(slots, key)?;
            let State::Held(held) = slot.state else {
                return None;
            };
            let next = held.extended(expiry_micros);
            slot.state = State::Extending { held, next };
            Some(Extension {
                slots: self,
                key,
                id: slot.id.clone(),
                held,
                next,
            })
        })
    }

    /// Begins to settle a slot, after the extension that may be on its way.
    pub(super) async fn begin_settle(&self, key: SlotKey) -> Result<Settling<'_>, Lost> {
        loop {
            let extended = self.extended.listen();
            match self.try_settle(key, false) {
                Some(result) => return result,
                None => extended.await,
            }
        }
    }

    /// Begins to settle a slot without waiting for an extension on its way, because that may in
    /// turn wait for the transaction in which this settlement runs.
    ///
    /// Under [`super::TokenRule::Expiry`] the token may then be outdated, and the settlement finds
    /// the lease lost although nobody took it; a fenced token does not change.
    pub(super) fn settle_ahead(&self, key: SlotKey) -> Result<Settling<'_>, Lost> {
        self.try_settle(key, true).unwrap_or(Err(Lost))
    }

    /// `None`: an extension is on its way.
    fn try_settle(&self, key: SlotKey, ahead: bool) -> Option<Result<Settling<'_>, Lost>> {
        self.slots.with(|slots| {
            let Some(slot) = get(slots, key) else {
                return Some(Err(Lost));
            };
            let token = match slot.state {
                State::Held(token) => token,
                State::Extending { held, .. } if ahead => held,
                State::Extending { .. } => return None,
                // Settling twice at once is excluded by `&mut Delivery`.
                State::Settling(_) | State::Lost => return Some(Err(Lost)),
            };
            slot.state = State::Settling(token);
            Some(Ok(Settling {
                slots: self,
                key,
                id: slot.id.clone(),
                token,
            }))
        })
    }

    /// Frees a slot whose delivery is gone.
    pub(super) fn free(&self, key: SlotKey) {
        self.slots.with(|slots| {
            if let Some(slot) = slots.get_mut(key.0) {
                *slot = None;
            }
        });
    }

    /// Changes the state of a slot if it is still `from`.
    fn change(&self, key: SlotKey, from: State, to: State) {
        self.slots.with(|slots| {
            if let Some(slot) = get(slots, key)
                && slot.state == from
            {
                slot.state = to;
            }
        });
    }
}

fn get(slots: &mut [Option<Slot>], key: SlotKey) -> Option<&mut Slot> {
    slots.get_mut(key.0)?.as_mut()
}

/// An extension on its way. Dropped without a word, its outcome is unknown: the old token stays.
#[derive(Debug)]
pub(super) struct Extension<'a> {
    slots: &'a Slots,
    key: SlotKey,
    pub(super) id: Value,
    pub(super) held: Token,
    next: Token,
}

impl Extension<'_> {
    /// The statement hit the row.
    pub(super) fn succeeded(self) {
        self.end(State::Held(self.next));
    }

    /// The statement hit no row.
    pub(super) fn lost(self) {
        self.end(State::Lost);
    }

    fn end(&self, to: State) {
        let (held, next) = (self.held, self.next);
        self.slots
            .change(self.key, State::Extending { held, next }, to);
        self.slots.extended.notify_all();
    }
}

impl Drop for Extension<'_> {
    fn drop(&mut self) {
        // Changes nothing if the end was reported: the state is not `Extending` any more.
        self.end(State::Held(self.held));
    }
}

/// A settlement on its way. Dropped without a word, the delivery is held as before.
#[derive(Debug)]
pub(super) struct Settling<'a> {
    slots: &'a Slots,
    key: SlotKey,
    pub(super) id: Value,
    pub(super) token: Token,
}

impl Settling<'_> {
    /// The delivery is settled, or will never be known to be: the slot becomes free.
    pub(super) fn done(self) {
        self.slots.free(self.key);
    }

    /// The statement hit no row.
    pub(super) fn lost(self) {
        self.slots
            .change(self.key, State::Settling(self.token), State::Lost);
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let token = self.token;
        self.slots
            .change(self.key, State::Settling(token), State::Held(token));
    }
}
