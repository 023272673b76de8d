//! Waits, for functions and reports.

use rowlock_model::schedule::SessionId;

use super::{AdvisoryKey, Tag, WaitRecord};
use crate::database::Wait;
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::{Object, RelId, Store};

impl Store {
    /// Who waits for whom, ascending by session; prepared transactions are nobody. `relation` gives
    /// the names of relations.
    pub fn waits(&self, relation: impl Fn(RelId) -> String) -> Vec<Wait> {
        let waits = self.sessions().filter_map(|session| {
            let wait = self.xact(session).wait?;
            let mut blockers = self.blockers(session);
            blockers.retain(|blocker| !is_seat(*blocker));
            Some(Wait {
                session,
                blockers,
                object: self.describe(wait.tag, &relation),
                granted: wait.granted,
            })
        });
        waits.collect()
    }

    /// Who blocks a waiting session, as `pg_blocking_pids` gives them, ascending; at the end those who
    /// stand for prepared transactions.
    pub fn blockers(&self, session: SessionId) -> Vec<SessionId> {
        match self.xact(session).wait {
            Some(WaitRecord {
                tag,
                granted: false,
                ..
            }) => match self.world.find(tag.key()).map(|slot| self.queue(slot)) {
                Some(queue) => queue.blockers(session),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Whether the session waits, and was not granted yet.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.xact(session).wait.is_some_and(|wait| !wait.granted)
    }

    /// Whether the session was granted what it waited for, and its statement can be run again.
    pub fn is_granted(&self, session: SessionId) -> bool {
        self.xact(session).wait.is_some_and(|wait| wait.granted)
    }

    /// What the session waits for, or was granted and has not used yet.
    pub fn wait(&self, session: SessionId) -> Option<WaitRecord> {
        self.xact(session).wait
    }

    /// A person's name for what a lock is on, with relation names from `relation`.
    pub fn describe(&self, tag: Tag, relation: impl Fn(RelId) -> String) -> String {
        match tag {
            Tag::Relation(rel) => format!("relation {}", relation(rel)),
            Tag::Indexes(rel) => format!("the indexes of {}", relation(rel)),
            Tag::Tuple(rel, version) => {
                let item = Store::place_in_order(&self.world, version) + 1;
                format!("row {} (0,{item})", relation(rel))
            }
            Tag::Transaction(xid) => match Store::xid_owner_in(&self.world, xid) {
                Some(owner) if is_seat(owner.session) => "prepared transaction".to_owned(),
                Some(owner) => format!("transaction of session {}", owner.session.0),
                None => "transaction that has ended".to_owned(),
            },
            Tag::Virtual(session) => format!("virtual transaction of session {}", session.0),
            Tag::Advisory(AdvisoryKey::Big(key)) => format!("advisory {key}"),
            Tag::Advisory(AdvisoryKey::Pair(a, b)) => format!("advisory ({a}, {b})"),
        }
    }

    /// All sessions that were ever opened, ascending, then those who stand for prepared transactions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        self.server().everybody()
    }

    /// Every lock queue, in no canonical order; for reports.
    pub fn queues(&self) -> impl Iterator<Item = &super::LockQueue> {
        self.world.objects().filter_map(|(_, object)| match object {
            Object::Lock(queue) => Some(queue),
            _ => None,
        })
    }
}
