//! `CREATE TABLE .. SELECT`, and temporary tables: each is seen by one session, without locks.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Reply, Row};

use super::database::InnoDb;
use super::handler::{Facts, Handler};
use super::run::Run;
use super::session::Told;
use super::shape::{IndexId, Shape};
use super::statement::{Halt, halt, notices};
use crate::loose::catalog::{Table, TableId};
use crate::loose::query::{OutputColumn, Query};
use crate::loose::run::Executor;
use crate::loose::storage::{NewRow, Storage};
use crate::loose::store::store;

impl InnoDb {
    /// `CREATE TABLE .. SELECT`. The rows are read as those of `INSERT .. SELECT` are; a table that others
    /// see is there once they are all in it.
    pub(super) fn create_from(
        &mut self,
        session: SessionId,
        table: &Table,
        query: &Query,
        if_not_exists: bool,
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        if self.is_there(session, table) {
            self.create_table(session, table, if_not_exists, &mut run.warnings)?;
            return Ok(Reply::tag("CREATE TABLE"));
        }
        let mut handler = Handler {
            store: &mut self.store,
            run,
            session,
            args: &[],
            facts: Facts {
                writes: true,
                ..Facts::default()
            },
            waiting: None,
        };
        let dialect = handler.store.flavour.dialect();
        let result = Executor::new(&mut handler, dialect).rows_to_store(query);
        let waiting = handler.waiting.take();
        let selected = result.map_err(|stop| halt(stop, waiting))?;
        let mut rows: Vec<Row> = Vec::new();
        for (number, values) in selected.iter().enumerate() {
            let mut row = Vec::new();
            for column in &table.columns {
                let same = |c: &OutputColumn| c.name.eq_ignore_ascii_case(&column.name);
                let value = match query.columns.iter().position(same) {
                    Some(at) => store(column, values[at].clone(), true, number + 1, dialect)?,
                    None => self.default_of(session, column)?,
                };
                row.push(value);
            }
            rows.push(row.into());
        }
        let count = rows.len();
        let mut made = table.clone();
        made.id = self.next_table();
        let made = Arc::new(made);
        if table.temporary {
            self.put_temporary(session, &made)?;
        } else {
            self.put_table(&made, None, Vec::new())?;
        }
        let before = self.store.trx(session).undo.len();
        if let Err(error) = self.fill_new(session, &made, rows) {
            self.store.rollback_to(session, before);
            let shape = self.store.shape(made.id);
            self.remove_table(&shape);
            return Err(error);
        }
        let state = self.store.session_mut(session);
        state.row_count = count as i64;
        state.told = Told::Records {
            records: count as u64,
            warnings: run.warnings.len(),
        };
        Ok(Reply {
            affected: count as u64,
            notices: notices(run),
            ..Reply::tag("CREATE TABLE")
        })
    }

    pub(super) fn is_there(&self, session: SessionId, table: &Table) -> bool {
        match table.temporary {
            true => self
                .store
                .schema()
                .temporary(session, &table.name)
                .is_some(),
            false => self.store.schema().table(&table.name).is_some(),
        }
    }

    /// Stores an empty temporary table.
    pub(super) fn put_temporary(
        &mut self,
        session: SessionId,
        table: &Arc<Table>,
    ) -> Result<(), DbError> {
        if !table.foreign_keys.is_empty() {
            return Err(DbError::unsupported(
                "foreign keys of a temporary table",
                None,
            ));
        }
        let created = self.store.world.counters_mut().commit;
        let ids: Vec<IndexId> = (0..=table.indexes.len())
            .map(|_| self.next_index())
            .collect();
        let mut ids = ids.into_iter();
        let shape = Shape::new(table, None, created, || ids.next().unwrap_or(IndexId(0)));
        for index in &shape.indexes {
            self.store.create_index(table.id, index.id);
        }
        self.store.create_numbers(table.id, 1);
        let stamp = self.next_stamp();
        self.store.schema_mut().put_temporary(session, shape, stamp);
        Ok(())
    }

    /// Puts rows into a table that nobody else sees. They are undone with the transaction.
    fn fill_new(
        &mut self,
        session: SessionId,
        table: &Arc<Table>,
        rows: Vec<Row>,
    ) -> Result<(), Halt> {
        let mut run = Run::new(self.store.now_unrecorded());
        let mut handler = Handler {
            store: &mut self.store,
            run: &mut run,
            session,
            args: &[],
            facts: Facts {
                writes: true,
                ..Facts::default()
            },
            waiting: None,
        };
        for row in rows {
            let new = NewRow {
                values: row.to_vec(),
                rowid: None,
            };
            handler
                .insert(table, new, None, &[])
                .map_err(|stop| halt(stop, None))?;
        }
        Ok(())
    }

    /// The end of a session takes its temporary tables with it.
    pub(super) fn drop_temporaries(&mut self, session: SessionId) {
        let own = self.store.schema().temporaries_of(session);
        let own: Vec<TableId> = own.map(|(_, id)| id).collect();
        for id in own {
            let shape = self.store.shape(id);
            self.remove_table(&shape);
        }
    }

    /// Takes a temporary table away, and what transactions know of it.
    pub(super) fn remove_temporary(&mut self, session: SessionId, shape: &Rc<Shape>) {
        let id = shape.table.id;
        let gone: Vec<usize> = self
            .store
            .trx(session)
            .undo
            .iter()
            .enumerate()
            .filter(|(_, change)| change.place().0 == id)
            .map(|(at, _)| at)
            .collect();
        if !gone.is_empty() {
            let kept = |change: &super::trx::Undo| change.place().0 != id;
            self.store.trx_mut(session).undo.retain(kept);
            for savepoint in &mut self.store.session_mut(session).savepoints {
                let changes = savepoint.changes.iter_mut();
                changes.for_each(|n| *n -= gone.iter().filter(|at| **at < *n).count());
            }
        }
        self.remove_table(shape);
    }
}
