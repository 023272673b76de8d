//! A plan from its table locks to the end of the statement.

use rowlock_model::{Row, Value};

use super::bound::Around;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::Entry;
use crate::engine::postgres::control::lock_mode;
use crate::plan::query::Query;
use crate::plan::write::Write;
use crate::plan::{Plan, PlanKind};

/// What a statement did.
#[derive(Debug, Default)]
pub(in crate::engine::postgres) struct Done {
    /// The rows that it returns.
    pub(in crate::engine::postgres) rows: Vec<Row>,
    /// How many rows it affected.
    pub(in crate::engine::postgres) affected: u64,
}

impl Exec<'_> {
    /// Runs a plan. Table locks come first: what their holders commit meanwhile is seen in READ
    /// COMMITTED, where the snapshot is taken after them.
    pub(in crate::engine::postgres) fn run_plan(
        &mut self,
        plan: &Plan,
        params: &[Value],
    ) -> Result<Done, Stop> {
        self.lock_views();
        for lock in &plan.locks {
            self.lock_relation(lock.table.id, lock_mode(lock.mode))?;
        }
        for lock in plan.locks.iter().filter(|lock| lock.indexes) {
            self.lock_indexes(lock.table.id, lock_mode(lock.mode));
        }
        if let PlanKind::Ddl(ddl) = &plan.kind {
            for (table, mode) in super::ddl::locks(ddl, &self.schema) {
                self.lock_relation(table, mode)?;
            }
        }
        self.take_snapshot()?;
        let around = Around {
            params,
            outer: None,
        };
        let done = match &plan.kind {
            PlanKind::Query(query) => self.top_query(query, around)?,
            PlanKind::Write(write) => self.top_write(write, around)?,
            PlanKind::Ddl(ddl) => self.ddl(ddl)?,
            PlanKind::Do(routine) => {
                self.run_do(routine)?;
                Done::default()
            }
        };
        self.fire_events()?;
        if self.info.writes || self.nested_ran || matches!(plan.kind, PlanKind::Ddl(_)) {
            // Nothing can wait any more: this happens once.
            self.store.advance_command(self.session);
        }
        Ok(done)
    }

    /// The statement's snapshot: in READ COMMITTED its own, taken now. In REPEATABLE READ it is the
    /// transaction's; but nested statements advance the command number, so it is recorded too.
    fn take_snapshot(&mut self) -> Result<(), Stop> {
        let keeps = self.keeps_snapshot();
        let Exec {
            store,
            run,
            session,
            snapshot,
            ..
        } = self;
        let entry = run.once(|| {
            Ok(Entry::Snapshot(if keeps {
                *snapshot
            } else {
                store.take_snapshot(*session)
            }))
        })?;
        match entry {
            Entry::Snapshot(recorded) => *snapshot = recorded,
            other => panic!("the journal has {other:?} where the statement begins"),
        }
        Ok(())
    }

    fn top_query(&mut self, query: &Query, around: Around<'_>) -> Result<Done, Stop> {
        let mut rows = Vec::new();
        self.query(query, around, &mut |_, row| {
            rows.push(row);
            Ok(Flow::More)
        })?;
        self.finish_ctes(&query.with, around)?;
        Ok(Done {
            affected: rows.len() as u64,
            rows,
        })
    }

    fn top_write(&mut self, write: &Write, around: Around<'_>) -> Result<Done, Stop> {
        let mut rows = Vec::new();
        let affected = self.write(write, around, &mut |_, row| {
            rows.push(row);
            Ok(Flow::More)
        })?;
        self.finish_ctes(Self::write_with(write), around)?;
        Ok(Done { rows, affected })
    }
}
