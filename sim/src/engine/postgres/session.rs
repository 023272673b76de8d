//! What a session is doing. The statement executor owns the content of this object.

use super::Object;
use super::Store;
use crate::world::{Digest, World};

/// The state of one session that the statement executor keeps.
#[derive(Clone, Debug, Default)]
pub struct SessionState {}

impl SessionState {
    /// Adds everything that decides the session's future to `digest`. Versions are named by
    /// [`Store::rank`], so that equal states have equal digests.
    pub fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {
        let _ = Store::rank;
    }
}
