//! How the guard fails. The texts are fixed; what the server or the network said comes as a cause,
//! in which secrets are masked.

use std::fmt;
use std::sync::Arc;

use super::redact::Secrets;
use crate::DbError;

/// Why the guard refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The deadline is out of range. No connection was opened.
    #[error("the deadline of the write guard must be from 0.001 to 300 seconds")]
    Deadline,
    /// Another writer held the configuration until the deadline.
    #[error("another writer holds the configuration")]
    Contention(#[source] Cause),
    /// The guard could not be had, for another reason than another writer.
    #[error("the write guard is not available")]
    Unavailable(#[source] Cause),
    /// The guard is not held any more, or that it is could not be proved.
    #[error("the write guard is not held")]
    Ownership(#[source] Cause),
    /// The guard was not given back in good order: whether it was held until the end is not known.
    #[error("the release of the write guard is not confirmed")]
    Release(#[source] Cause),
}

/// What lay behind an error, outermost first, with secrets masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    text: Arc<str>,
    next: Option<Arc<Cause>>,
}

impl Cause {
    /// A cause in our own words.
    pub(super) fn fixed(text: &'static str) -> Cause {
        Cause {
            text: text.into(),
            next: None,
        }
    }

    /// What the database said. Its DETAIL is a cause of its own.
    pub(super) fn of(error: &DbError, secrets: &Secrets) -> Cause {
        let detail = error.detail.as_ref().map(|detail| {
            Arc::new(Cause {
                text: secrets.mask(detail).into(),
                next: None,
            })
        });
        Cause {
            text: secrets.mask(&error.to_string()).into(),
            next: detail,
        }
    }

    /// Rebuilds the chain of any error, with nothing of the original left but masked texts.
    pub fn rebuilt(error: &(dyn std::error::Error + 'static), secrets: &Secrets) -> Cause {
        Cause {
            text: secrets.mask(&error.to_string()).into(),
            next: error
                .source()
                .map(|source| Arc::new(Cause::rebuilt(source, secrets))),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.next
            .as_deref()
            .map(|next| next as &(dyn std::error::Error + 'static))
    }
}
