//! What earlier permutations of a file were answered, so that what they have in common is done once.
//!
//! Permutations begin alike: with the set-ups, and often with the same steps. If the server is found in
//! a state in which an earlier permutation began (the fingerprint tells), it answers from memory what
//! it is sent as long as that is what it was sent then, and does nothing. At the first difference it
//! goes back to where the two part, and from there on it works.
//!
//! Only calm exchanges are remembered: one message, answered at once, while nobody waits. Programs that
//! can see numbers of transactions or objects see that they grow; then no state is found again.

use rowlock_model::Notice;
use rowlock_scenarios::spec::Seat;

use super::SimBench;
use crate::database::{Answer, Database, Mark};

/// A message and its answer.
#[derive(Clone, Debug)]
struct Exchange {
    seat: Seat,
    sql: Box<str>,
    answer: Answer,
    notices: Vec<Notice>,
    /// Where the server was afterwards.
    after: Mark,
}

/// The beginning of the last permutation that was worked on.
#[derive(Clone, Debug)]
struct Beginning {
    fingerprint: u128,
    at: Mark,
    /// What it began with.
    exchanges: Vec<Exchange>,
}

/// What a bench remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    beginning: Option<Beginning>,
    /// Answering from memory: how many exchanges were repeated so far.
    repeated: Option<usize>,
    /// All that was sent in this permutation is remembered.
    is_calm: bool,
}

impl SimBench {
    /// A permutation begins.
    pub(super) fn begin_permutation(&mut self, more: bool) {
        self.memory.repeated = None;
        self.memory.is_calm = false;
        let known = self.memory.beginning.as_ref();
        if known.is_none() && !more {
            return;
        }
        let fingerprint = self.db.fingerprint();
        if known.is_some_and(|known| known.fingerprint == fingerprint) {
            self.memory.repeated = Some(0);
            return;
        }
        self.memory.beginning = None;
        if more {
            self.memory.is_calm = true;
            self.memory.beginning = Some(Beginning {
                fingerprint,
                at: self.db.mark(),
                exchanges: Vec::new(),
            });
        }
    }

    /// Answers a message from memory, if it can. If it was answering from memory and cannot any more,
    /// the server goes back to where it was after the last exchange that was repeated.
    pub(super) fn recall(&mut self, seat: Seat, sql: &str) -> bool {
        let (Some(repeated), Some(beginning)) = (self.memory.repeated, &mut self.memory.beginning)
        else {
            return false;
        };
        let next = beginning.exchanges.get(repeated);
        if let Some(past) = next.filter(|past| past.seat == seat && *past.sql == *sql) {
            let place = &mut self.places[seat];
            place.answer = Some(past.answer.clone());
            place.notices.extend_from_slice(&past.notices);
            self.memory.repeated = Some(repeated + 1);
            return true;
        }
        beginning.exchanges.truncate(repeated);
        let last = beginning.exchanges.last();
        self.db
            .undo_to(last.map_or(beginning.at, |past| past.after));
        self.waiting.clear();
        self.checked.clear();
        self.memory.repeated = None;
        self.memory.is_calm = true;
        false
    }

    /// Remembers an exchange if it was calm. `before`: how many notices of the connection were there
    /// before it.
    pub(super) fn remember(&mut self, seat: Seat, sql: &str, before: usize) {
        if !self.memory.is_calm {
            return;
        }
        let others = self.places.iter().enumerate().filter(|(at, _)| *at != seat);
        let is_calm = self.waiting.is_empty()
            && !self.db.has_notifications()
            && others.into_iter().all(|(_, place)| !place.running);
        let place = &self.places[seat];
        let (true, Some(answer), Some(beginning)) =
            (is_calm, &place.answer, &mut self.memory.beginning)
        else {
            self.memory.is_calm = false;
            return;
        };
        beginning.exchanges.push(Exchange {
            seat,
            sql: sql.into(),
            answer: answer.clone(),
            notices: place.notices.get(before..).unwrap_or_default().to_vec(),
            after: self.db.mark(),
        });
    }
}
