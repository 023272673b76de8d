//! What is going to be written.

use std::sync::Arc;

use sha2::{Digest, Sha256};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Makes something new.
    Create,
    /// Changes something.
    Update,
    /// Takes something away. Never carried out: skipped, and recorded as such.
    Delete,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Create => "create",
            Kind::Update => "update",
            Kind::Delete => "delete",
        }
    }
}

/// One write to the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Names it in records; unique in its plan.
    pub name: Arc<str>,
    /// What it does.
    pub kind: Kind,
    /// What is written, as the destination takes it.
    pub content: Arc<str>,
}

/// What is going to be written, and against which state it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The configuration that it belongs to.
    pub configuration: Arc<str>,
    /// The fingerprint of the destination's schema that it was made for.
    pub schema: Arc<str>,
    /// In this order.
    pub operations: Vec<Operation>,
}

impl Plan {
    /// The checksum of all of it, in hexadecimal: SHA-256 over every field with its length.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        add(&self.configuration);
        add(&self.schema);
        for operation in &self.operations {
            add(&operation.name);
            add(operation.kind.name());
            add(&operation.content);
        }
        let digest: [u8; 32] = hash.finalize().into();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
