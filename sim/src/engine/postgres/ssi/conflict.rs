//! Read-write conflicts between transactions, and the structure that is dangerous.
//!
//! `reader -> writer` says that the reader has not seen what the writer wrote, so it comes first in
//! any serial order. If some `Tin -> Tpivot -> Tout` exists and Tout is the first of the three to
//! commit, there may be none.

use rowlock_model::DbError;

use super::SxactId;
use crate::engine::postgres::{Store, errors};

impl Store {
    /// Notes a new conflict that transaction `me`, one of the two, has found. If it completes a
    /// dangerous structure, somebody must fail: `me` at once, or the pivot later.
    pub(super) fn flag_conflict(
        &mut self,
        reader: SxactId,
        writer: SxactId,
        me: SxactId,
    ) -> Result<(), DbError> {
        self.ssi_record_conflicts(true);
        if self.is_dangerous(reader, writer) {
            if me == writer {
                return Err(errors::serialization_pivot("write"));
            }
            let pivot = self.ssi().find(writer);
            if pivot.is_prepared() {
                let xid = pivot.xid.map_or(0, |xid| xid.0);
                return Err(errors::serialization_old_pivot(xid));
            }
            self.ssi_mut().find_mut(writer).doomed = true;
        }
        self.ssi_mut().conflicts.push((reader, writer));
        Ok(())
    }

    /// Whether the new conflict `reader -> writer` completes a dangerous structure.
    fn is_dangerous(&self, reader: SxactId, writer: SxactId) -> bool {
        let ssi = self.ssi();
        let (r, w) = (ssi.find(reader), ssi.find(writer));
        // The writer is a pivot whose Tout is forgotten as a transaction, but committed first.
        if w.is_committed() && w.conflict_out {
            return true;
        }
        // The writer is a pivot.
        let first = ssi.writers_of(writer).any(|out| {
            out.is_prepared()
                && (!r.is_committed() || out.prepared_at <= r.committed_at)
                && (!w.is_committed() || out.prepared_at <= w.committed_at)
                && (!r.read_only || out.prepared_at <= r.snapshot_at)
        });
        if first {
            return true;
        }
        // The reader is a pivot, and the writer is the Tout.
        w.is_prepared()
            && !r.read_only
            && ssi.readers_of(reader).any(|tin| {
                !tin.doomed
                    && (!tin.is_committed() || tin.committed_at >= w.prepared_at)
                    && (!tin.read_only || tin.snapshot_at >= w.prepared_at)
            })
    }
}
