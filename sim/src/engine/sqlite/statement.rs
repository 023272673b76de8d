//! Running one statement: locks, the work, what an error undoes, the commit.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Reply, Value};

use super::Sqlite;
use super::exec::Exec;
use super::foreign_key::{self, Which};
use super::session::{Lock, Need};
use super::tracing::Tracing;
use crate::loose::ast::{Control, Statement};
use crate::loose::catalog::ConflictAction;
use crate::loose::parse::Parsed;
use crate::loose::plan::{Plan, PlanKind};
use crate::loose::run::{Executor, Outcome};
use crate::loose::storage::Stop;
use crate::loose::types::DeclaredType;
use crate::trace::Trace;

/// Why a statement did not give its reply.
#[derive(Debug)]
pub(super) enum Halt {
    /// It polls for a lock.
    Wait(Need),
    /// It has done its work and polls for the lock that its commit needs.
    WaitCommit(Box<Reply>),
    /// It failed.
    Error(Box<DbError>),
}

impl Halt {
    pub(super) fn error(error: DbError) -> Halt {
        Halt::Error(Box::new(error))
    }
}

/// What came of the work of a statement.
enum Worked {
    Done(Reply),
    Failed(DbError, ConflictAction),
}

impl Sqlite {
    pub(super) fn statement(
        &mut self,
        session: SessionId,
        parsed: &Rc<Parsed>,
        args: &[Value],
    ) -> Result<Reply, Halt> {
        if let Statement::Control(control) = &parsed.tree {
            return self.control(session, control, parsed);
        }
        let plan = self.plan(session, parsed).map_err(Halt::error)?;
        let writes = !matches!(plan.kind, PlanKind::Query(_));
        let had = self.session(session).lock;
        let handler = had == Lock::None;
        if writes {
            self.lock_reserved(session)
                .map_err(|refused| self.refused(session, refused, handler, Need::Write))?;
        } else if reads_file(&plan) {
            self.lock_shared(session)
                .map_err(|refused| self.refused(session, refused, handler, Need::Read))?;
        }
        let worked = self.work(session, &plan, args);
        let autocommit = !self.session(session).in_transaction;
        match worked {
            Worked::Done(reply) => {
                if autocommit {
                    self.commit_alone(session, reply.clone())?;
                }
                Ok(reply)
            }
            Worked::Failed(error, action) => {
                if action == ConflictAction::Fail && autocommit {
                    // What was done before is kept, and so committed.
                    match self.commit(session) {
                        Ok(()) => {}
                        Err(Halt::Wait(_)) => {
                            self.rollback(session);
                            let what = "OR FAIL in a statement whose commit polls";
                            return Err(Halt::error(DbError::unsupported(what, None)));
                        }
                        Err(busy) => {
                            self.rollback(session);
                            return Err(busy);
                        }
                    }
                } else if action == ConflictAction::Rollback || autocommit {
                    self.rollback(session);
                }
                Err(Halt::error(error))
            }
        }
    }

    /// Commits a statement that is a transaction of its own. Busy without waiting, it is undone.
    pub(super) fn commit_alone(&mut self, session: SessionId, reply: Reply) -> Result<(), Halt> {
        match self.commit(session) {
            Ok(()) => Ok(()),
            Err(Halt::Wait(_)) => Err(Halt::WaitCommit(Box::new(reply))),
            Err(other) => {
                self.rollback(session);
                Err(other)
            }
        }
    }

    /// The plan of a statement for the schema that the connection sees.
    fn plan(&mut self, session: SessionId, parsed: &Rc<Parsed>) -> Result<Rc<Plan>, DbError> {
        let committed = Rc::clone(&self.file().image);
        let image = self.session(session).image(&committed);
        let key = Rc::as_ptr(parsed) as usize;
        if let Some((schema, plan)) = self.plans.get(&key)
            && Rc::ptr_eq(schema, &image.schema)
        {
            return Ok(Rc::clone(plan));
        }
        let schema = Rc::clone(&image.schema);
        let plan = Rc::new(crate::loose::lower(parsed, image, &[])?);
        self.plans.insert(key, (schema, Rc::clone(&plan)));
        Ok(plan)
    }

    /// Runs a planned statement on the connection's image. An error undoes the statement, unless its
    /// action keeps what was done before.
    fn work(&mut self, session: SessionId, plan: &Plan, args: &[Value]) -> Worked {
        let committed = Rc::clone(&self.file().image);
        let state = self.session(session);
        let image = state.image(&committed).clone();
        let settings = state.settings;
        let counts = state.counts;
        let now = self.now();
        let mut exec = Exec::new(image.clone(), args, now, settings, counts);
        if self.world.trace.is_on() {
            exec.tracing = Some(Tracing {
                session,
                snapshot: self.snapshot_number(session),
                list: Vec::new(),
            });
        }
        let (result, rows_changed) = run(&mut exec, plan);
        let result = result.and_then(|reply| {
            let refused = settings.foreign_keys
                && !exec.writes.is_empty()
                && foreign_key::violations(&exec.image, Which::Immediate, settings)
                    > foreign_key::violations(&image, Which::Immediate, settings);
            match refused {
                true => Err(foreign_key::failed()),
                false => Ok(reply),
            }
        });
        let (reads, writes) = (exec.reads, exec.writes);
        for table in &reads {
            self.note_table(*table, false);
        }
        for table in &writes {
            self.note_table(*table, true);
        }
        if exec.read_clock {
            self.note_clock(false);
        }
        let mut counts = exec.counts;
        let tracing = exec.tracing.take();
        let (keep, worked) = match result {
            Ok(reply) => {
                if let Some(changed) = rows_changed {
                    counts.changes = changed;
                    counts.total_changes += changed;
                }
                (true, Worked::Done(reply))
            }
            Err(error) => {
                let action = exec.action.unwrap_or_default();
                if !matches!(plan.kind, PlanKind::Query(_) | PlanKind::Ddl(_)) {
                    counts.changes = 0;
                }
                if action == ConflictAction::Fail {
                    counts.changes = exec.done;
                    counts.total_changes += exec.done;
                }
                (
                    action == ConflictAction::Fail,
                    Worked::Failed(error, action),
                )
            }
        };
        for trace in tracing.into_iter().flat_map(|tracing| tracing.list) {
            let writes = matches!(trace, Trace::Write { .. });
            if keep || !writes {
                self.world.trace.push(trace);
            }
        }
        let schema_changed = !Rc::ptr_eq(&exec.image.schema, &image.schema);
        let state = self.session_mut(session);
        state.counts = counts;
        if schema_changed || !writes.is_empty() {
            state.dirty = true;
            if keep {
                state.work = Some(exec.image);
            }
        }
        worked
    }

    fn control(
        &mut self,
        session: SessionId,
        control: &Control,
        parsed: &Parsed,
    ) -> Result<Reply, Halt> {
        let tag = match control {
            Control::Begin(kind) => {
                self.begin(session, *kind)?;
                "BEGIN"
            }
            Control::Commit { .. } => {
                self.commit_statement(session)?;
                "COMMIT"
            }
            Control::Rollback { .. } => {
                self.rollback_statement(session)?;
                "ROLLBACK"
            }
            Control::Savepoint(name) => {
                self.savepoint(session, &name.name);
                "SAVEPOINT"
            }
            Control::RollbackTo(name) => {
                self.rollback_to(session, &name.name)?;
                "ROLLBACK"
            }
            Control::Release(name) => {
                self.release_savepoint(session, &name.name)?;
                "RELEASE"
            }
            Control::Pragma {
                schema,
                name,
                value,
            } => return self.pragma(session, schema.as_ref(), name, value.as_deref()),
            _ => {
                let error = DbError::unsupported("this statement", Some(parsed.offset));
                return Err(Halt::error(error));
            }
        };
        Ok(Reply::tag(tag))
    }
}

/// Runs a plan: its reply, and how many rows it changed if it counts any.
fn run(exec: &mut Exec<'_>, plan: &Plan) -> (Result<Reply, DbError>, Option<i64>) {
    let outcome = match &plan.kind {
        PlanKind::Ddl(ddl) => exec.ddl(ddl).map(|()| Outcome::default()),
        _ => Executor::new(exec, rowlock_model::Dialect::Sqlite).run(plan),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Stop::Error(error)) => return (Err(*error), None),
        Err(Stop::Wait) => panic!("a statement of SQLite waits before it begins or after it ends"),
    };
    let counts = matches!(
        plan.kind,
        PlanKind::Insert(_) | PlanKind::Update(_) | PlanKind::Delete(_)
    );
    let columns = plan.columns.iter().map(|column| Column {
        name: column.name.clone(),
        type_name: type_name(column.ty.declared.as_ref()),
    });
    let reply = Reply {
        columns: columns.collect(),
        rows: outcome.rows.into(),
        affected: if counts { outcome.changed } else { 0 },
        ..Reply::tag(plan.tag)
    };
    let changed = i64::try_from(outcome.changed).unwrap_or(i64::MAX);
    (Ok(reply), counts.then_some(changed))
}

/// The declared type as the driver of the live sessions groups them; `null` for an expression and for
/// a type that it does not know.
fn type_name(declared: Option<&DeclaredType>) -> Arc<str> {
    let Some(DeclaredType::Sqlite { name, .. }) = declared else {
        return "null".into();
    };
    let name = name.to_ascii_lowercase();
    let has = |part: &str| name.contains(part);
    match name.as_str() {
        "boolean" | "bool" => "boolean",
        "date" => "date",
        "time" => "time",
        "datetime" | "timestamp" => "datetime",
        _ if has("int") => "integer",
        _ if has("char") || has("clob") || has("text") => "text",
        _ if has("blob") => "blob",
        _ if has("real") || has("floa") || has("doub") => "real",
        _ => "null",
    }
    .into()
}

/// Whether a query reads anything of the file.
fn reads_file(plan: &Plan) -> bool {
    !plan.tables.is_empty() || matches!(&plan.kind, PlanKind::Query(query) if reads_schema(query))
}

fn reads_schema(query: &crate::loose::query::Query) -> bool {
    use crate::loose::query::{Body, CteBody, RangeKind};
    let with = query.with.iter().any(|cte| match &cte.body {
        CteBody::Query(query) => reads_schema(query),
        CteBody::Recursive { first, next, .. } => reads_schema(first) || reads_schema(next),
    });
    with || match &query.body {
        Body::Select(select) => select
            .source
            .range
            .iter()
            .any(|entry| matches!(entry.kind, RangeKind::Virtual(_))),
        Body::Values(_) => false,
        Body::Set { left, right, .. } => reads_schema(left) || reads_schema(right),
    }
}
