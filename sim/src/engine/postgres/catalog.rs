//! The catalogue. The statement executor owns the content of this object.

use super::Object;
use crate::world::{Digest, World};

/// The schema as all sessions see it, and what transactions in progress have done to it.
#[derive(Clone, Debug, Default)]
pub struct Catalog {}

impl Catalog {
    /// Adds the whole content to `digest`.
    pub fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {}
}
