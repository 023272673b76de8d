//! Names of what steps read and write, for the explorer.

use rowlock_model::schedule::SessionId;

use super::Sqlite;
use crate::loose::catalog::TableId;

/// The order of commits: read by whoever takes a snapshot.
const COMMITS: u64 = 1;
/// The right to write.
const WRITER: u64 = 2;
/// That readers are shut out (rollback journal).
const SHUT: u64 = 3;
/// The clock.
const CLOCK: u64 = 4;
/// Whether each connection reads (rollback journal): readers do not conflict with each other, but
/// with who wants to be alone.
const READER: u64 = 1 << 40;
/// The rows of each table.
const TABLE: u64 = 1 << 41;

impl Sqlite {
    /// A connection begins to read.
    pub(super) fn note_shared(&mut self, session: SessionId) {
        self.world.footprint.read(COMMITS);
        if !self.file().wal {
            self.world.footprint.read(SHUT);
            self.world.footprint.write(READER + u64::from(session.0));
        }
    }

    /// A connection ends to read or write.
    pub(super) fn note_release(&mut self, session: SessionId, wrote: bool) {
        if wrote {
            self.world.footprint.write(WRITER);
        }
        if !self.file().wal {
            self.world.footprint.write(READER + u64::from(session.0));
            if wrote {
                self.world.footprint.write(SHUT);
            }
        }
    }

    pub(super) fn note_writer(&mut self) {
        self.world.footprint.write(WRITER);
    }

    /// A connection wants to be alone.
    pub(super) fn note_exclusive(&mut self, session: SessionId) {
        self.world.footprint.write(SHUT);
        let others: Vec<SessionId> = self.sessions().filter(|other| *other != session).collect();
        for other in others {
            self.world.footprint.read(READER + u64::from(other.0));
        }
    }

    pub(super) fn note_commit(&mut self) {
        self.world.footprint.write(COMMITS);
    }

    pub(super) fn note_clock(&mut self, moved: bool) {
        match moved {
            true => self.world.footprint.write(CLOCK),
            false => self.world.footprint.read(CLOCK),
        }
    }

    pub(super) fn note_table(&mut self, table: TableId, written: bool) {
        let name = TABLE + u64::from(table.0);
        match written {
            true => self.world.footprint.write(name),
            false => self.world.footprint.read(name),
        }
    }
}
