//! One statement of one session, from its text to its reply: metadata locks, transactions, errors.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Dialect, Isolation, Notice, Reply, Value};

use super::catalog::Names;
use super::database::InnoDb;
use super::errors;
use super::handler::{Facts, Handler};
use super::metadata::MetaMode;
use super::run::Run;
use super::session::{Told, Waiting};
use crate::loose::ast;
use crate::loose::catalog::ConflictAction;
use crate::loose::lower;
use crate::loose::parse::Parsed as Tree;
use crate::loose::plan::{Ddl, InsertSource, Plan, PlanKind, TableUse};
use crate::loose::query::{Body, OnBusy, Query, RangeEntry, RangeKind, Strength};
use crate::loose::run::{Executor, Outcome};
use crate::loose::storage::Stop;

/// A statement that was parsed, with the last plan made of it.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The statement.
    pub(super) tree: Tree,
    /// Its text alone.
    pub(super) text: Arc<str>,
    plan: RefCell<Option<Cached>>,
}

#[derive(Debug)]
struct Cached {
    stamp: u64,
    schema: Arc<str>,
    /// The session, if it has temporary tables.
    owner: Option<SessionId>,
    kinds: Vec<std::mem::Discriminant<Value>>,
    planned: Result<Rc<Planned>, DbError>,
}

/// A plan with what its runs need.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) facts: Facts,
    pub(super) columns: Arc<[Column]>,
    pub(super) locks: Vec<(Arc<str>, MetaMode)>,
    /// A locking clause that does not wait.
    nowait: bool,
    /// `FOR UPDATE` somewhere.
    locks_exclusively: bool,
    /// It is about tables, or about views of the server.
    uses_tables: bool,
}

/// Why a statement did not end with a reply.
#[derive(Debug)]
pub(super) enum Halt {
    /// It waits.
    Wait(Waiting),
    /// It failed.
    Error(Box<DbError>),
}

impl From<DbError> for Halt {
    fn from(error: DbError) -> Halt {
        Halt::Error(Box::new(error))
    }
}

impl Parsed {
    pub(super) fn new(tree: Tree) -> Parsed {
        Parsed {
            text: tree.own_text().into(),
            tree,
            plan: RefCell::new(None),
        }
    }
}

/// Calls `see` for a query and all queries inside its `FROM`.
fn visit_queries(query: &Query, see: &mut impl FnMut(&Query)) {
    see(query);
    let mut bodies = vec![&query.body];
    while let Some(body) = bodies.pop() {
        match body {
            Body::Select(select) => {
                for entry in &select.source.range {
                    if let RangeKind::Subquery(query) = &entry.kind {
                        visit_queries(query, see);
                    }
                }
            }
            Body::Values(_) => {}
            Body::Set { left, right, .. } => {
                visit_queries(left, see);
                visit_queries(right, see);
            }
        }
    }
    for cte in &query.with {
        if let crate::loose::query::CteBody::Query(query) = &cte.body {
            visit_queries(query, see);
        }
    }
}

impl Planned {
    /// The tables that the query of a `CREATE TABLE` locks exclusively.
    pub(super) fn locked_for_update(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        if let PlanKind::Ddl(ddl) = &self.plan.kind
            && let Ddl::CreateTable {
                rows: Some(query), ..
            } = &**ddl
        {
            visit_queries(query, &mut |query: &Query| {
                let Body::Select(select) = &query.body else {
                    return;
                };
                for entry in &select.source.range {
                    if let RangeKind::Table(table) = &entry.kind
                        && entry.lock.is_some_and(|l| l.strength == Strength::Update)
                    {
                        names.push(Arc::clone(&table.name));
                    }
                }
            });
        }
        names
    }

    fn new(plan: Plan, dialect: Dialect) -> Planned {
        let mut facts = Facts::default();
        let mut nowait = false;
        let mut exclusive = false;
        let mut views = false;
        let mut see = |query: &Query| {
            if let Body::Select(select) = &query.body {
                let is_view = |e: &RangeEntry| matches!(e.kind, RangeKind::Virtual(_));
                views |= select.source.range.iter().any(is_view);
                for lock in select.source.range.iter().filter_map(|e| e.lock) {
                    nowait |= lock.busy == OnBusy::Fail;
                    exclusive |= lock.strength == Strength::Update;
                }
            }
        };
        match &plan.kind {
            PlanKind::Query(query) => visit_queries(query, &mut see),
            PlanKind::Insert(insert) => {
                facts.writes = true;
                facts.duplicates =
                    insert.or == Some(ConflictAction::Replace) || !insert.upserts.is_empty();
                facts.ignore = insert.or == Some(ConflictAction::Ignore);
                if let InsertSource::Query(query) = &insert.source {
                    visit_queries(query, &mut see);
                }
            }
            PlanKind::Update(update) => {
                facts.writes = true;
                facts.ignore = update.or == Some(ConflictAction::Ignore);
                facts.locks_what_it_reads = update.source.range.len() > 1;
                facts.reads_itself = update.source.range.iter().any(|entry| {
                    let RangeKind::Table(table) = &entry.kind else {
                        return false;
                    };
                    let mut of = entry
                        .conditions
                        .iter()
                        .filter_map(|c| c.subselect.as_deref());
                    of.any(|plan| super::access::reads_table(&plan.query, table.id))
                });
            }
            PlanKind::Delete(_) => {
                facts.writes = true;
                facts.locks_what_it_reads = true;
            }
            PlanKind::Ddl(_) => {}
        }
        let stored = plan.tables.iter().filter(|(table, _)| !table.temporary);
        let locks = stored.map(|(table, used)| {
            let mode = match used {
                TableUse::Read => MetaMode::SharedRead,
                TableUse::LockingRead | TableUse::Write => MetaMode::SharedWrite,
            };
            (Arc::clone(&table.name), mode)
        });
        let column = |c: &crate::loose::query::OutputColumn| Column {
            name: c.name.clone(),
            type_name: c.ty.name(dialect).into(),
        };
        Planned {
            uses_tables: views || !plan.tables.is_empty() || matches!(plan.kind, PlanKind::Ddl(_)),
            locks: with_views(locks.collect(), &plan.views),
            columns: plan.columns.iter().map(column).collect(),
            facts,
            nowait,
            locks_exclusively: exclusive,
            plan,
        }
    }
}

/// Metadata locks of tables and views, in the order in which a statement mentions them.
fn with_views(
    tables: Vec<(Arc<str>, MetaMode)>,
    views: &[(Arc<str>, usize)],
) -> Vec<(Arc<str>, MetaMode)> {
    if views.is_empty() {
        return tables;
    }
    let mut locks = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let before = views.iter().filter(|(_, place)| *place == at);
        locks.extend(before.map(|(view, _)| (Arc::clone(view), MetaMode::SharedRead)));
        locks.push(table.clone());
    }
    let behind = views.iter().filter(|(_, place)| *place >= tables.len());
    locks.extend(behind.map(|(view, _)| (Arc::clone(view), MetaMode::SharedRead)));
    locks
}

impl InnoDb {
    pub(super) fn planned(
        &mut self,
        session: SessionId,
        parsed: &Parsed,
        args: &[Value],
    ) -> Result<Rc<Planned>, DbError> {
        self.store.reads_schema();
        let stamp = self.store.schema().stamp;
        let schema = &self.store.session(session).schema;
        let owns = self.store.schema().temporaries_of(session).next().is_some();
        let owner = owns.then_some(session);
        let kinds: Vec<_> = args.iter().map(std::mem::discriminant).collect();
        let mut cache = parsed.plan.borrow_mut();
        if let Some(cached) = &*cache
            && cached.stamp == stamp
            && cached.schema == *schema
            && cached.owner == owner
            && cached.kinds == kinds
        {
            return cached.planned.clone();
        }
        let names = Names {
            schema: self.store.schema(),
            flavour: self.store.flavour,
            home: &self.store.database,
            database: schema,
            session,
        };
        let dialect = self.store.flavour.dialect();
        let planned =
            lower(&parsed.tree, &names, args).map(|plan| Rc::new(Planned::new(plan, dialect)));
        *cache = Some(Cached {
            stamp,
            schema: Arc::clone(schema),
            owner,
            kinds,
            planned: planned.clone(),
        });
        planned
    }

    /// Runs a statement, or goes on with it.
    pub(super) fn statement(
        &mut self,
        session: SessionId,
        parsed: &Parsed,
        args: &[Value],
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        if !run.resumed {
            run.text = Arc::clone(&parsed.text);
        }
        if !run.resumed && self.store.session(session).reported_id != 0 {
            self.store.session_mut(session).reported_id = 0;
        }
        if self.store.trx(session).doomed {
            return self.settle(session, run, Err(errors::deadlock().into()));
        }
        if run.timed_out && run.waits_for_lock {
            run.timed_out = false;
            return self.settle(session, run, Err(errors::lock_wait_timeout().into()));
        }
        if let ast::Statement::Control(control) = &parsed.tree.tree {
            return self.control(session, control, parsed, args, run);
        }
        let planned = self.planned(session, parsed, args)?;
        run.uses_tables = planned.uses_tables;
        if !run.resumed && !planned.plan.warnings.is_empty() {
            run.warnings.extend(planned.plan.warnings.iter().cloned());
        }
        if let PlanKind::Ddl(ddl) = &planned.plan.kind {
            let result = self.ddl(session, ddl, &planned, run);
            return self.settle(session, run, result);
        }
        let into = match &parsed.tree.tree {
            ast::Statement::Query(query) => &query.into[..],
            _ => &[],
        };
        let result = self.data(session, &planned, args, into, run);
        self.settle(session, run, result)
    }

    /// Opens a transaction if none is open.
    pub(super) fn open_transaction(&mut self, session: SessionId) {
        let state = self.store.session(session);
        if state.in_transaction || self.store.trx(session).joined {
            return;
        }
        let level = state.next.isolation.unwrap_or(state.settings.isolation);
        let read_only = state.next.read_only.unwrap_or(state.settings.read_only);
        let autocommit = state.settings.autocommit;
        let state = self.store.session_mut(session);
        state.level = level;
        state.read_only = read_only;
        state.in_transaction = !autocommit;
        state.next = super::session::NextModes::default();
    }

    fn data(
        &mut self,
        session: SessionId,
        planned: &Planned,
        args: &[Value],
        into: &[String],
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        if !into.is_empty() && into.len() != planned.columns.len() {
            let message = "The used SELECT statements have a different number of columns";
            return Err(errors::mysql(1222, "21000", message).into());
        }
        if !run.resumed {
            self.open_transaction(session);
        }
        let state = self.store.session(session);
        let writes = planned.facts.writes || planned.locks_exclusively;
        if state.read_only && writes && !planned.locks.is_empty() {
            return Err(errors::read_only(self.store.flavour).into());
        }
        let alone = !state.in_transaction && state.settings.autocommit;
        self.check_locked_tables(session, planned)?;
        self.lock_tables_of(session, planned, run)?;
        if run.changes.is_none() {
            run.changes = Some(self.store.trx(session).undo.len());
        }
        if planned.facts.duplicates {
            self.store.trx_mut(session).duplicates = true;
        }
        let mut facts = planned.facts;
        // MariaDB 10.11 makes it an update of two tables.
        facts.locks_what_it_reads |=
            facts.reads_itself && self.store.flavour.tests_subselects_by_row();
        facts.alone = alone && !facts.writes;
        let mut handler = Handler {
            store: &mut self.store,
            run,
            session,
            args,
            facts,
            waiting: None,
        };
        let dialect = handler.store.flavour.dialect();
        let result = Executor::new(&mut handler, dialect).run(&planned.plan);
        let waiting = handler.waiting.take();
        let outcome = result.map_err(|stop| halt(stop, waiting))?;
        if !into.is_empty() {
            return Ok(self.assign(session, into, &outcome, run)?);
        }
        Ok(self.reply(session, planned, outcome, run))
    }

    /// `SELECT .. INTO @a, @b`: one row, or none and a warning.
    fn assign(
        &mut self,
        session: SessionId,
        into: &[String],
        outcome: &Outcome,
        run: &mut Run,
    ) -> Result<Reply, DbError> {
        if outcome.rows.len() > 1 {
            let message = "Result consisted of more than one row";
            return Err(errors::mysql(1172, "42000", message));
        }
        let state = self.store.session_mut(session);
        let found = outcome.rows.len() as i64;
        (state.row_count, state.found_rows) = (found, found);
        match outcome.rows.first() {
            Some(row) => {
                let variables = Rc::make_mut(&mut state.variables);
                for (name, value) in into.iter().zip(row.iter()) {
                    variables.insert(name.to_lowercase().into(), value.clone());
                }
            }
            None => {
                let message = "No data - zero rows fetched, selected, or processed";
                run.warnings.push((1329, message.to_owned()));
            }
        }
        Ok(Reply {
            affected: found as u64,
            notices: notices(run),
            ..Reply::tag("SELECT")
        })
    }

    /// Metadata locks of the tables that a statement uses, in the order of their first mention.
    fn lock_tables_of(
        &mut self,
        session: SessionId,
        planned: &Planned,
        run: &mut Run,
    ) -> Result<(), Halt> {
        let waits = !(planned.nowait && self.store.flavour.nowait_covers_metadata());
        while run.metadata < planned.locks.len() {
            let (table, mode) = &planned.locks[run.metadata];
            let granted = std::mem::take(&mut run.granted);
            if !granted || !std::mem::take(&mut run.metadata_wait) {
                self.store
                    .lock_metadata(session, table, *mode, false, waits)
                    .map_err(|refused| {
                        run.metadata_wait = true;
                        metadata_halt(refused)
                    })?;
            }
            run.metadata += 1;
        }
        Ok(())
    }

    fn check_locked_tables(&self, session: SessionId, planned: &Planned) -> Result<(), DbError> {
        let locked = &self.store.session(session).locked_tables;
        if locked.is_empty() {
            return Ok(());
        }
        for (table, mode) in &planned.locks {
            match locked.get(table) {
                None => {
                    let message = format!("Table '{table}' was not locked with LOCK TABLES");
                    return Err(errors::mysql(1100, "HY000", message));
                }
                Some(false) if *mode == MetaMode::SharedWrite && planned.facts.writes => {
                    let message =
                        format!("Table '{table}' was locked with a READ lock and can't be updated");
                    return Err(errors::mysql(1099, "HY000", message));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn reply(
        &mut self,
        session: SessionId,
        planned: &Planned,
        outcome: Outcome,
        run: &mut Run,
    ) -> Reply {
        let state = self.store.session_mut(session);
        if let Some(id) = run.insert_id {
            state.last_insert_id = id;
        }
        state.reported_id = run.insert_id.or(run.written_number).unwrap_or(0);
        state.told = match &planned.plan.kind {
            PlanKind::Update(_) => Told::Rows {
                matched: outcome.matched,
                changed: outcome.changed,
                warnings: run.warnings.len(),
            },
            PlanKind::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) if rows.len() == 1 => Told::Nothing,
                _ if insert.or.is_some() || !insert.upserts.is_empty() => Told::NotKept,
                _ => Told::Records {
                    records: outcome.changed,
                    warnings: run.warnings.len(),
                },
            },
            _ => Told::Nothing,
        };
        let is_query = matches!(planned.plan.kind, PlanKind::Query(_));
        let affected = if is_query {
            0
        } else if state.counts_found {
            outcome.matched
        } else {
            outcome.changed
        };
        state.row_count = if planned.columns.is_empty() {
            i64::try_from(affected).unwrap_or(i64::MAX)
        } else {
            -1
        };
        if is_query {
            state.found_rows = i64::try_from(outcome.rows.len()).unwrap_or(i64::MAX);
        }
        Reply {
            columns: Arc::clone(&planned.columns),
            rows: outcome.rows.into(),
            affected,
            tag: planned.plan.tag.into(),
            notices: notices(run),
        }
    }

    /// After a statement: an error undoes what it must, and a transaction of its own ends.
    pub(super) fn settle(
        &mut self,
        session: SessionId,
        run: &mut Run,
        result: Result<Reply, Halt>,
    ) -> Result<Reply, Halt> {
        if let Err(Halt::Wait(_)) = &result {
            return result;
        }
        if let Err(Halt::Error(error)) = &result {
            self.fail(session, run, error);
        }
        let state = self.store.session(session);
        let over = !state.in_transaction;
        let level = state.level;
        if over {
            if result.is_ok() {
                self.store.commit(session);
            } else {
                self.store.rollback(session);
            }
            self.store.release_metadata(session, false);
        } else {
            self.store.trx_mut(session).duplicates = false;
            if level <= Isolation::ReadCommitted {
                self.store.close_view(session);
            }
        }
        result
    }

    fn fail(&mut self, session: SessionId, run: &Run, error: &DbError) {
        self.store.session_mut(session).row_count = -1;
        self.store.withdraw_wait(session);
        self.store.withdraw_metadata(session);
        self.store.cancel_user_wait(session);
        let doomed = std::mem::take(&mut self.store.trx_mut(session).doomed);
        let timed_out = &*error.code == "1205"
            && run.waits_for_row
            && self.store.globals().rolls_back_on_timeout;
        // A deadlock has rolled the transaction back already, one of user locks has not.
        let ends = timed_out
            || doomed
            || &*error.code == "1020"
            || (&*error.code == "1213" && !run.user_deadlock);
        if ends {
            self.store.rollback(session);
            self.store.release_metadata(session, false);
            let state = self.store.session_mut(session);
            state.in_transaction = false;
            state.savepoints.clear();
        } else if let Some(changes) = run.changes {
            self.store.rollback_to(session, changes);
        }
    }
}

/// Warnings as notices.
pub(super) fn notices(run: &Run) -> Arc<[Notice]> {
    let notice = |(code, message): &(u16, String)| Notice {
        severity: "WARNING".into(),
        message: format!("{code}: {message}").into(),
    };
    run.warnings.iter().map(notice).collect()
}

pub(super) fn halt(stop: Stop, waiting: Option<Waiting>) -> Halt {
    match stop {
        Stop::Wait => Halt::Wait(waiting.unwrap_or(Waiting::Row)),
        Stop::Error(error) => Halt::Error(error),
    }
}

pub(super) fn metadata_halt(refused: super::metadata::MetaRefused) -> Halt {
    use super::metadata::MetaRefused;
    match refused {
        MetaRefused::Wait => Halt::Wait(Waiting::Metadata),
        MetaRefused::Busy => errors::lock_wait_timeout().into(),
        MetaRefused::Deadlock => errors::deadlock().into(),
    }
}
