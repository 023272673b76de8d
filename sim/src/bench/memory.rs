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

#[cfg(test)]
mod tests {
    use rowlock_scenarios::Source;
    use rowlock_scenarios::spec::{Bench, Notification, Rest, Results, Spec, run};
    use rowlock_scenarios::stage::StageError;

    use super::*;

    /// A bench that is never told that a permutation begins, so that it does everything itself.
    struct Forgetful(SimBench);

    impl Bench for Forgetful {
        fn open(&mut self, names: &[String]) -> Result<(), StageError> {
            self.0.open(names)
        }

        fn send(&mut self, seat: Seat, sql: &str) -> Result<(), StageError> {
            self.0.send(seat, sql)
        }

        fn wait(&mut self, seat: Seat, patient: bool) -> Result<Rest, StageError> {
            self.0.wait(seat, patient)
        }

        fn results(&mut self, seat: Seat) -> Result<Results, StageError> {
            self.0.results(seat)
        }

        fn notices(&mut self, seat: Seat) -> Vec<Notice> {
            self.0.notices(seat)
        }

        fn notifications(&mut self, seat: Seat) -> Vec<Notification> {
            self.0.notifications(seat)
        }
    }

    fn outputs(text: &str, bench: &mut dyn Bench) -> Vec<String> {
        let spec = Spec::parse(&Source::new("test.spec", text)).expect("a spec");
        let mut outputs = Vec::new();
        let each = |run: rowlock_scenarios::spec::Run| outputs.push(run.output);
        run(&spec, "test", bench, |_| true, each).expect("it runs");
        outputs
    }

    /// Runs a spec with and without memory; gives how many exchanges are remembered at the end.
    fn same(text: &str) -> usize {
        let mut bench = SimBench::new(None);
        let remembered = outputs(text, &mut bench);
        let worked_out = outputs(text, &mut Forgetful(SimBench::new(None)));
        assert_eq!(remembered, worked_out);
        let beginning = bench.memory.beginning;
        beginning.map_or(0, |beginning| beginning.exchanges.len())
    }

    #[test]
    fn every_order_of_waits_is_as_without_memory() {
        let kept = same(
            "setup { CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0); }
             teardown { DROP TABLE t; }
             session a
             setup { BEGIN; }
             step a1 { UPDATE t SET n = n + 1 WHERE id = 1; }
             step a2 { COMMIT; }
             session b
             setup { BEGIN; }
             step b1 { UPDATE t SET n = n + 1 WHERE id = 1; }
             step b2 { SELECT * FROM t; }
             step b3 { COMMIT; }",
        );
        assert!(kept >= 3, "{kept}");
    }

    #[test]
    fn what_one_permutation_leaves_behind_the_next_one_meets() {
        // The setting of `a` stays, so the second begins in another state than the first; rows of
        // `kept` stay, so that no state is found again.
        let spec = "setup { CREATE TABLE IF NOT EXISTS kept (n int); }
             session a
             step a1 { SHOW lock_timeout; SET lock_timeout = '7s'; }
             session b
             step b1 { INSERT INTO kept VALUES (1); SELECT count(*) FROM kept; }
             permutation a1 b1
             permutation a1 b1
             permutation b1 a1
             permutation a1";
        same(spec);
    }

    #[test]
    fn notices_are_told_again() {
        same(
            "setup { DROP TABLE IF EXISTS nothing; }
             session a
             setup { DROP TABLE IF EXISTS nothing; }
             step a1 { SELECT 1; DROP TABLE IF EXISTS nothing; }
             session b
             step b1 { SELECT 2; }",
        );
    }
}
