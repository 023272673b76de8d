//! Which tables keep their rows in an order that some program has seen.
//!
//! A statement of which [`crate::plan::is_blind`] says that it does the same whatever that order may be
//! leaves it unseen. Everything else that reads a table from end to end, goes through an index that may
//! hold equal keys, or appends rows, has seen it.

use super::{RelId, Store, Tag};
use crate::database::RowOrder;

impl Store {
    /// Sets what the order of rows counts for.
    pub(super) fn set_row_order(&mut self, order: RowOrder) {
        self.row_order = order;
        let hides = matches!(order, RowOrder::Hidden | RowOrder::Ignored);
        self.world.hide_order(hides);
    }

    /// The step depends on the order of the rows of a table, or adds to it.
    #[inline]
    pub(super) fn note_order(&mut self, rel: RelId) {
        let watches = matches!(self.row_order, RowOrder::Watched | RowOrder::Hidden);
        if !self.is_blind && watches {
            self.world.show_order_of(rel.0);
        }
    }

    /// A message names what somebody waits for: rows by their places.
    pub(super) fn note_order_of(&mut self, tag: Tag) {
        if let Tag::Tuple(rel, _) = tag {
            self.note_order(rel);
        }
    }

    /// SERIALIZABLE notes reads by page.
    pub(super) fn note_every_order(&mut self) {
        if self.row_order != RowOrder::Counts {
            let (schema, _) = self.catalog_unrecorded().view(None);
            let tables: Vec<RelId> = schema.tables.keys().copied().collect();
            for table in tables {
                self.world.show_order_of(table.0);
            }
        }
    }

    /// Runs something inside a statement that may see the order of rows, whatever the statement says.
    pub(super) fn may_see_order(&mut self) -> bool {
        std::mem::replace(&mut self.is_blind, false)
    }
}
