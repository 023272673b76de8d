//! `LISTEN`, `UNLISTEN` and `NOTIFY`: who hears what, and when.
//!
//! What a transaction says goes into one queue when it commits, for everybody who is in the list of
//! listeners then; equal messages of one transaction are one. A listener takes its messages out
//! between two transactions, and is sent those of the channels that it listens to at that time. So
//! one that is in a transaction block hears nothing before its end.
//!
//! Manual: `LISTEN`, `NOTIFY`, 9.26 `pg_notification_queue_usage`.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;

use super::object::name;
use super::session::Block;
use super::{Object, SessionState, Store};
use crate::world::{Digest, World};

/// A message, as it is sent to who listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The channel.
    pub channel: Arc<str>,
    /// The payload; may be empty.
    pub payload: Arc<str>,
    /// Who said it.
    pub from: SessionId,
}

/// A change of what a session listens to, made at its commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// `LISTEN`.
    Listen(Arc<str>),
    /// `UNLISTEN`.
    Unlisten(Arc<str>),
    /// `UNLISTEN *`.
    UnlistenAll,
}

/// What a session has to do with notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notifying {
    /// The channels that it listens to, ascending.
    channels: Vec<Arc<str>>,
    /// It is in the list of listeners.
    listens: bool,
    /// It has been in that list: from then on `UNLISTEN` is something to be done.
    has_listened: bool,
    /// What was said since it took its messages last.
    inbox: Vec<Message>,
    /// How far in the queue it has read.
    position: u64,
    /// Changes to be made at the commit, with the nesting levels that asked for them.
    actions: Vec<(u8, Action)>,
    /// What the open transaction says, with the nesting level that said it.
    said: Vec<(u8, Arc<str>, Arc<str>)>,
}

/// The size of a page of the queue, in bytes.
const PAGE: u64 = 8192;
/// What an entry takes beside its two texts, each of which ends with a zero byte.
const ENTRY_HEADER: u64 = 16;
/// How many pages the queue may have.
const MOST_PAGES: f64 = 1_048_576.0;

/// The end of the queue after one more entry. An entry lies on one page.
fn queue_end(end: u64, channel: &str, payload: &str) -> u64 {
    let size = |texts: u64| (ENTRY_HEADER + texts + 2).div_ceil(4) * 4;
    let next_page = |at: u64| at.div_ceil(PAGE) * PAGE;
    let mine = size((channel.len() + payload.len()) as u64);
    let start = if end % PAGE + mine > PAGE {
        next_page(end)
    } else {
        end
    };
    let end = start + mine;
    // A page without room for the smallest entry is full.
    if end % PAGE + size(0) > PAGE {
        next_page(end)
    } else {
        end
    }
}

impl Notifying {
    /// Whether the open transaction has anything to say or to change.
    pub(super) fn is_pending(&self) -> bool {
        !self.actions.is_empty() || !self.said.is_empty()
    }

    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        if !self.has_listened && !self.is_pending() {
            return;
        }
        (&self.channels, self.listens, self.has_listened).hash(digest);
        (&self.inbox, &self.actions, &self.said).hash(digest);
        if world.is_exact() {
            let end = world.counters().notified;
            digest.write_u64(end / PAGE - self.position / PAGE);
        }
    }
}

impl SessionState {
    /// Whether it is between two transactions, so that messages can be sent to it.
    fn can_hear(&self) -> bool {
        self.block == Block::Idle && self.transaction.is_none() && self.flight.is_none()
    }
}

impl Store {
    fn notifying_mut(&mut self, session: SessionId) -> &mut Notifying {
        Rc::make_mut(&mut self.session_mut(session).notifying)
    }

    fn level(&self, session: SessionId) -> u8 {
        self.xact(session).levels.len().saturating_sub(1) as u8
    }

    /// `LISTEN`, `UNLISTEN` in the open transaction.
    pub(super) fn ask_to_listen(&mut self, session: SessionId, action: Action) {
        let level = self.level(session);
        let mine = &self.session(session).notifying;
        let is_listen = matches!(action, Action::Listen(_));
        // Who cannot be listening has nothing to end.
        if is_listen || !mine.actions.is_empty() || mine.has_listened {
            self.notifying_mut(session).actions.push((level, action));
        }
    }

    /// `NOTIFY` in the open transaction.
    pub(super) fn notify(&mut self, session: SessionId, channel: &str, payload: &str) {
        let level = self.level(session);
        let mine = &self.session(session).notifying;
        let same = |(l, c, p): &(u8, Arc<str>, Arc<str>)| {
            *l == level && &**c == channel && &**p == payload
        };
        if !mine.said.iter().any(same) {
            let said = (level, channel.into(), payload.into());
            self.notifying_mut(session).said.push(said);
        }
    }

    /// A savepoint at `level` is released into its parent.
    pub(super) fn release_notifying(&mut self, session: SessionId, level: u8) {
        if !self.session(session).notifying.is_pending() {
            return;
        }
        let mine = self.notifying_mut(session);
        for (at, _) in &mut mine.actions {
            *at = (*at).min(level - 1);
        }
        let mut kept: Vec<(u8, Arc<str>, Arc<str>)> = Vec::new();
        for (at, channel, payload) in std::mem::take(&mut mine.said) {
            let said = (at.min(level - 1), channel, payload);
            if !kept.contains(&said) {
                kept.push(said);
            }
        }
        mine.said = kept;
    }

    /// What was said and asked for at `level` and deeper is not.
    pub(super) fn forget_notifying(&mut self, session: SessionId, level: u8) {
        if self.session(session).notifying.is_pending() {
            let mine = self.notifying_mut(session);
            mine.actions.retain(|(at, _)| *at < level);
            mine.said.retain(|(at, ..)| *at < level);
        }
    }

    /// At a commit: what the transaction says goes out, and it listens to what it asked for.
    pub(super) fn commit_notifying(&mut self, session: SessionId) {
        if !self.session(session).notifying.is_pending() {
            return;
        }
        self.world.footprint.write(name::NOTIFICATIONS);
        while self.level(session) > 0 && !self.session(session).notifying.said.is_empty() {
            // Equal messages of savepoints and their parents are one.
            let deepest = self.session(session).notifying.said.iter();
            match deepest.map(|(level, ..)| *level).max() {
                Some(level) if level > 0 => self.release_notifying(session, level),
                _ => break,
            }
        }
        let end = self.world.counters().notified;
        let mine = self.notifying_mut(session);
        let actions = std::mem::take(&mut mine.actions);
        let said = std::mem::take(&mut mine.said);
        let joins = actions.iter().any(|(_, a)| matches!(a, Action::Listen(_)));
        if joins && !mine.listens {
            mine.listens = true;
            mine.has_listened = true;
            mine.position = end;
            self.server_mut().listeners.push(session);
        }
        for (_, channel, payload) in said {
            let counters = self.world.counters_mut();
            counters.notified = queue_end(counters.notified, &channel, &payload);
            let message = Message {
                channel,
                payload,
                from: session,
            };
            for listener in self.server().listeners.clone() {
                let inbox = &mut self.notifying_mut(listener).inbox;
                inbox.push(message.clone());
            }
        }
        let mine = self.notifying_mut(session);
        for (_, action) in actions {
            match action {
                Action::Listen(channel) => {
                    if let Err(at) = mine.channels.binary_search(&channel) {
                        mine.channels.insert(at, channel);
                    }
                }
                Action::Unlisten(channel) => mine.channels.retain(|c| *c != channel),
                Action::UnlistenAll => mine.channels.clear(),
            }
        }
        if mine.listens && mine.channels.is_empty() {
            self.stop_listening(session);
        }
    }

    /// The session listens to nothing any more.
    pub(super) fn stop_listening(&mut self, session: SessionId) {
        if !self.session(session).notifying.listens {
            return;
        }
        self.world.footprint.write(name::NOTIFICATIONS);
        let mine = self.notifying_mut(session);
        mine.listens = false;
        mine.channels.clear();
        mine.inbox.clear();
        self.server_mut()
            .listeners
            .retain(|other| *other != session);
    }

    /// The messages that can be sent now, each with the session that hears it.
    pub(super) fn hear(&mut self) -> Vec<(SessionId, Message)> {
        let mut heard = Vec::new();
        if self.server().listeners.is_empty() {
            return heard;
        }
        let end = self.world.counters().notified;
        for listener in self.server().listeners.clone() {
            let state = self.session(listener);
            if state.notifying.inbox.is_empty() || !state.can_hear() {
                continue;
            }
            self.world.footprint.write(name::NOTIFICATIONS);
            let mine = self.notifying_mut(listener);
            mine.position = end;
            for message in std::mem::take(&mut mine.inbox) {
                if mine.channels.binary_search(&message.channel).is_ok() {
                    heard.push((listener, message));
                }
            }
        }
        heard
    }

    /// A step of a session has ended: if it listens, others' messages depend on where it stands.
    pub(super) fn record_listening(&mut self, session: SessionId) {
        if self.session(session).notifying.listens {
            self.world.footprint.write(name::NOTIFICATIONS);
        }
    }

    /// `pg_notification_queue_usage()`: the part of the queue that somebody has not read yet.
    pub(super) fn notification_queue_usage(&mut self) -> f64 {
        self.world.footprint.read(name::NOTIFICATIONS);
        let end = self.world.counters().notified;
        let listeners = self.server().listeners.iter();
        let start = listeners
            .map(|session| self.session(*session).notifying.position)
            .min()
            .unwrap_or(end);
        (end / PAGE - start / PAGE) as f64 / MOST_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::queue_end;

    #[test]
    fn an_entry_lies_on_one_page() {
        assert_eq!(queue_end(0, "c1", ""), 20);
        assert_eq!(queue_end(0, "c1", "a"), 24);
        assert_eq!(queue_end(8172, "c1", ""), 8192);
        assert_eq!(queue_end(8172, "c1", "a"), 8192 + 24);
        // No room for another one.
        assert_eq!(queue_end(8156, "c1", ""), 8192);
        assert_eq!(queue_end(8152, "c1", ""), 8172);
    }
}
