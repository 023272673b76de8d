//! The objects of the simulated file and its connections.

use std::rc::Rc;

use rowlock_model::schedule::SessionId;

use super::image::Image;
use super::session::SessionState;
use crate::world::{self, Digest, World};

/// What names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The file.
    File,
    /// The machine's clock.
    Clock,
    /// A connection.
    Session(SessionId),
}

/// The file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// What is committed.
    pub(super) image: Rc<Image>,
    /// The number of the last commit; grows.
    pub(super) version: u64,
    /// `journal_mode = wal`.
    pub(super) wal: bool,
}

/// An object of the world.
#[derive(Clone, Debug)]
pub struct Object(pub(super) Inner);

#[derive(Clone, Debug)]
pub(super) enum Inner {
    File(File),
    /// Microseconds since 1970.
    Clock(i64),
    Session(SessionId, Box<SessionState>),
}

/// Numbers that belong to the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// How many connections there are.
    pub sessions: u8,
    /// Grows with every commit and every move of the clock.
    pub committed: u64,
}

impl world::Object for Object {
    type Key = Key;
    type Counters = Counters;

    fn digest(&self, world: &World<Object>) -> Option<u128> {
        let mut digest = Digest::new(0x5351_4c69);
        match &self.0 {
            Inner::File(file) => {
                digest.word(1);
                digest.wide(file.image.digest());
                digest.word(u64::from(file.wal));
            }
            Inner::Clock(now) => {
                digest.word(2);
                digest.word(*now as u64);
            }
            Inner::Session(id, state) => {
                digest.word(3);
                digest.word(u64::from(id.0));
                let version = world
                    .find(Key::File)
                    .map_or(0, |slot| match &world.read(slot).0 {
                        Inner::File(file) => file.version,
                        _ => 0,
                    });
                state.digest(version, world.is_exact(), &mut digest);
            }
        }
        Some(digest.finish128())
    }
}
