//! Statements about the session and its transaction.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Reply, Value};

use super::database::InnoDb;
use super::errors;
use super::handler::{Facts, Handler};
use super::host::connection_id;
use super::lock::TableMode;
use super::metadata::MetaMode;
use super::run::Run;
use super::session::{Completion, NextModes, Savepoint};
use super::statement::{Halt, Parsed, halt, metadata_halt, notices};
use crate::loose::ast::{Control, Node, NodeKind, Scope, SetItem, Show, TableLock};
use crate::loose::lower_scalar;
use crate::loose::run::Executor;

impl InnoDb {
    /// Runs a control statement.
    pub(super) fn control(
        &mut self,
        session: SessionId,
        control: &Control,
        parsed: &Parsed,
        args: &[Value],
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        let unsupported =
            |what: &str| -> Halt { DbError::unsupported(what, Some(parsed.tree.offset)).into() };
        match control {
            Control::Begin(_) => {
                self.begin(session, false, None);
                Ok(Reply::tag("BEGIN"))
            }
            Control::StartTransaction {
                snapshot,
                read_only,
            } => {
                self.begin(session, *snapshot, *read_only);
                Ok(Reply::tag("START TRANSACTION"))
            }
            Control::Commit { chain, release } => {
                self.complete(session, true, *chain, *release);
                Ok(Reply::tag("COMMIT"))
            }
            Control::Rollback { chain, release } => {
                self.complete(session, false, *chain, *release);
                Ok(Reply::tag("ROLLBACK"))
            }
            Control::Savepoint(name) => {
                self.savepoint(session, &name.name);
                Ok(Reply::tag("SAVEPOINT"))
            }
            Control::RollbackTo(name) => {
                self.rollback_to_savepoint(session, &name.name)?;
                Ok(Reply::tag("ROLLBACK"))
            }
            Control::Release(name) => {
                let at = self.find_savepoint(session, &name.name)?;
                self.store.session_mut(session).savepoints.truncate(at);
                Ok(Reply::tag("RELEASE"))
            }
            Control::SetTransaction {
                scope,
                isolation,
                read_only,
            } => {
                self.set_transaction(session, *scope, *isolation, *read_only)?;
                Ok(Reply::tag("SET"))
            }
            Control::Set(items) => self.set(session, items, parsed, args, run),
            Control::LockTables(locks) => {
                run.uses_tables = true;
                self.lock_tables(session, locks, run)
            }
            Control::UnlockTables => {
                if !self.store.session(session).locked_tables.is_empty() {
                    self.commit_implicitly(session);
                }
                self.unlock_tables(session);
                Ok(Reply::tag("UNLOCK TABLES"))
            }
            Control::Kill { query_only, id } => {
                let value = self.scalar(session, id, parsed, args, run)?;
                self.kill(session, *query_only, &value)
            }
            Control::Do(nodes) => {
                for node in nodes {
                    self.scalar(session, node, parsed, args, run)?;
                }
                self.after_expressions(session, run);
                Ok(Reply::tag("DO"))
            }
            Control::Use(name) => self.change_database(session, &name.name),
            Control::Analyze(_) => Ok(Reply::tag("ANALYZE")),
            Control::Flush(words, _)
                if words.len() == 1 && matches!(&*words[0], "TABLES" | "TABLE" | "STATUS") =>
            {
                Ok(Reply::tag("FLUSH"))
            }
            Control::Show(show) => {
                run.uses_tables = !matches!(show, Show::Warnings { .. });
                self.show(session, show, parsed)
            }
            Control::Explain(_) => Err(unsupported("EXPLAIN")),
            Control::Flush(..) => Err(unsupported("this FLUSH")),
            Control::Pragma { .. } => Err(unsupported("PRAGMA")),
        }
    }

    /// Begins a transaction; one that is open is committed.
    pub(super) fn begin(&mut self, session: SessionId, snapshot: bool, read_only: Option<bool>) {
        self.commit_implicitly(session);
        self.unlock_tables(session);
        self.open_transaction(session);
        let state = self.store.session_mut(session);
        state.in_transaction = true;
        if let Some(read_only) = read_only {
            state.read_only = read_only;
        }
        if snapshot {
            let level = state.level;
            self.store.join(session, level);
            // Below REPEATABLE READ the server ignores it.
            if level >= Isolation::RepeatableRead {
                self.store.open_view(session, true);
            }
        }
    }

    /// Commits the open transaction, as many statements do before they begin.
    pub(super) fn commit_implicitly(&mut self, session: SessionId) {
        self.end(session, true, false);
    }

    fn end(&mut self, session: SessionId, commits: bool, chain: bool) {
        if commits {
            self.store.commit(session);
        } else {
            self.store.rollback(session);
        }
        self.store.release_metadata(session, false);
        let state = self.store.session_mut(session);
        let (level, read_only) = (state.level, state.read_only);
        state.in_transaction = false;
        state.savepoints.clear();
        state.row_count = 0;
        if chain {
            state.in_transaction = true;
            state.level = level;
            state.read_only = read_only;
        } else if !state.settings.autocommit {
            // The next statement begins one.
            state.read_only = false;
        }
    }

    /// `COMMIT` and `ROLLBACK`: what they do not say, `completion_type` says.
    fn complete(
        &mut self,
        session: SessionId,
        commits: bool,
        chain: Option<bool>,
        release: Option<bool>,
    ) {
        let usual = self.store.session(session).settings.completion;
        let chain = chain.unwrap_or(usual == Completion::Chain && release != Some(true));
        let release = release.unwrap_or(usual == Completion::Release && !chain);
        self.end(session, commits, chain);
        if release {
            self.end_session(session, errors::gone());
        }
    }

    /// `USE`. One database has tables; the others have views of the server.
    fn change_database(&mut self, session: SessionId, name: &str) -> Result<Reply, Halt> {
        let views = ["information_schema", "performance_schema"];
        let known = name == &*self.store.database || views.contains(&name);
        if !known && matches!(name, "mysql" | "sys") {
            return Err(DbError::unsupported(format!("the database {name}"), None).into());
        }
        if !known {
            let message = format!("Unknown database '{name}'");
            return Err(errors::mysql(1049, "42000", message).into());
        }
        self.store.session_mut(session).schema = name.into();
        Ok(Reply::tag("USE"))
    }

    fn savepoint(&mut self, session: SessionId, name: &Arc<str>) {
        let state = self.store.session(session);
        if !state.in_transaction && state.settings.autocommit {
            return;
        }
        self.open_transaction(session);
        let trx = self.store.trx(session);
        let changes = trx.joined.then_some(trx.undo.len());
        let state = self.store.session_mut(session);
        state
            .savepoints
            .retain(|s| !s.name.eq_ignore_ascii_case(name));
        state.savepoints.push(Savepoint {
            name: Arc::clone(name),
            changes,
        });
    }

    fn find_savepoint(&self, session: SessionId, name: &str) -> Result<usize, DbError> {
        let savepoints = &self.store.session(session).savepoints;
        let found = savepoints
            .iter()
            .position(|s| s.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| errors::no_savepoint(name))
    }

    fn rollback_to_savepoint(&mut self, session: SessionId, name: &str) -> Result<(), DbError> {
        let at = self.find_savepoint(session, name)?;
        let changes = self.store.session(session).savepoints[at].changes;
        self.store.session_mut(session).savepoints.truncate(at + 1);
        match changes {
            Some(changes) => self.store.rollback_to(session, changes),
            // InnoDB joined afterwards: its transaction ends, with its locks and its read view.
            None => self.store.rollback(session),
        }
        Ok(())
    }

    fn set_transaction(
        &mut self,
        session: SessionId,
        scope: Scope,
        isolation: Option<Isolation>,
        read_only: Option<bool>,
    ) -> Result<(), DbError> {
        if scope == Scope::Global {
            let globals = self.store.globals_mut();
            globals.isolation = isolation.unwrap_or(globals.isolation);
            globals.read_only = read_only.unwrap_or(globals.read_only);
            return Ok(());
        }
        let state = self.store.session_mut(session);
        match scope {
            Scope::Next => {
                if state.in_transaction {
                    return Err(errors::transaction_characteristics());
                }
                state.next = NextModes {
                    isolation: isolation.or(state.next.isolation),
                    read_only: read_only.or(state.next.read_only),
                };
            }
            Scope::Session | Scope::Global => {
                if let Some(isolation) = isolation {
                    state.settings.isolation = isolation;
                }
                if let Some(read_only) = read_only {
                    state.settings.read_only = read_only;
                }
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        session: SessionId,
        items: &[SetItem],
        parsed: &Parsed,
        args: &[Value],
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        for item in items {
            match item {
                SetItem::User { name, value } => {
                    let value = self.scalar(session, value, parsed, args, run)?;
                    let name: Arc<str> = name.to_lowercase().into();
                    let variables = &mut self.store.session_mut(session).variables;
                    Rc::make_mut(variables).insert(name, value);
                }
                SetItem::System { scope, name, value } => {
                    let value = self.setting(session, value, parsed, args, run)?;
                    let name = name.name.to_ascii_lowercase();
                    self.set_variable(session, *scope, &name, value.as_ref(), run)?;
                }
            }
        }
        self.after_expressions(session, run);
        Ok(Reply {
            notices: notices(run),
            ..Reply::tag("SET")
        })
    }

    fn set_variable(
        &mut self,
        session: SessionId,
        scope: Scope,
        name: &str,
        value: Option<&Value>,
        run: &mut Run,
    ) -> Result<(), DbError> {
        // `@@transaction_isolation = ..` without a scope is for the next transaction.
        let of_next = scope == Scope::Next;
        let characteristic = match name {
            "transaction_isolation" | "tx_isolation" => Some(true),
            "transaction_read_only" | "tx_read_only" => Some(false),
            _ => None,
        };
        let state = self.store.session(session);
        let was = state.settings.autocommit;
        if of_next && characteristic.is_some() && state.in_transaction {
            return Err(errors::transaction_characteristics());
        }
        let before = (of_next && characteristic.is_some()).then(|| state.settings.clone());
        let warnings = super::variables::set(&mut self.store, session, scope, name, value)?;
        run.warnings.extend(warnings);
        if let Some(before) = before {
            let state = self.store.session_mut(session);
            let asked = std::mem::replace(&mut state.settings, before);
            match characteristic {
                Some(true) => state.next.isolation = Some(asked.isolation),
                _ => state.next.read_only = Some(asked.read_only),
            }
        }
        if !was && self.store.session(session).settings.autocommit {
            self.commit_implicitly(session);
        }
        Ok(())
    }

    /// The value of a setting: a bare word is a text, `DEFAULT` is none.
    fn setting(
        &mut self,
        session: SessionId,
        node: &Node,
        parsed: &Parsed,
        args: &[Value],
        run: &mut Run,
    ) -> Result<Option<Value>, Halt> {
        match &node.kind {
            NodeKind::Default(None) => Ok(None),
            NodeKind::Name(names) if names.len() == 1 => {
                Ok(Some(Value::Text(names[0].name.clone())))
            }
            _ => self.scalar(session, node, parsed, args, run).map(Some),
        }
    }

    /// Reads of a control statement end as those of a statement do.
    fn after_expressions(&mut self, session: SessionId, run: &Run) {
        if let Some(id) = run.insert_id {
            self.store.session_mut(session).last_insert_id = id;
        }
        if !self.store.session(session).in_transaction {
            self.store.commit(session);
            self.store.release_metadata(session, false);
        }
    }

    /// The value of an expression.
    fn scalar(
        &mut self,
        session: SessionId,
        node: &Node,
        parsed: &Parsed,
        args: &[Value],
        run: &mut Run,
    ) -> Result<Value, Halt> {
        self.store.reads_schema();
        let names = super::catalog::Names {
            schema: self.store.schema(),
            flavour: self.store.flavour,
            home: &self.store.database,
            database: &self.store.session(session).schema,
            session,
        };
        let (expr, tables) = lower_scalar(node, &parsed.tree, &names, args)?;
        run.uses_tables |= !tables.is_empty();
        if !run.resumed && !tables.is_empty() {
            self.open_transaction(session);
        }
        for (table, _) in tables.iter().filter(|(table, _)| !table.temporary) {
            let mode = MetaMode::SharedRead;
            self.store
                .lock_metadata(session, &table.name, mode, false, true)
                .map_err(metadata_halt)?;
        }
        let mut handler = Handler {
            store: &mut self.store,
            run,
            session,
            args,
            facts: Facts {
                locks_what_it_reads: true,
                ..Facts::default()
            },
            waiting: None,
        };
        let dialect = handler.store.flavour.dialect();
        let result = Executor::new(&mut handler, dialect).in_set().value(&expr);
        let waiting = handler.waiting.take();
        match result {
            Ok(value) => Ok(value),
            Err(stop) => {
                let result = Err(halt(stop, waiting));
                match self.settle(session, run, result) {
                    Err(halt) => Err(halt),
                    Ok(_) => unreachable!("an error stays one"),
                }
            }
        }
    }

    fn lock_tables(
        &mut self,
        session: SessionId,
        locks: &[TableLock],
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        if !run.resumed {
            self.commit_implicitly(session);
            self.unlock_tables(session);
        }
        let mut wanted: BTreeMap<Arc<str>, bool> = BTreeMap::new();
        for lock in locks {
            let name = &lock.name.name.name;
            if self.store.schema().table(name).is_none() {
                return Err(self.no_such_table(name).into());
            }
            *wanted.entry(Arc::clone(name)).or_default() |= lock.write;
        }
        for (name, write) in &wanted {
            let mode = if *write {
                MetaMode::SharedNoReadWrite
            } else {
                MetaMode::SharedReadOnly
            };
            let result = self
                .store
                .lock_metadata(session, name, mode, true, true)
                .map_err(metadata_halt);
            if let Err(halt) = result {
                if !matches!(halt, Halt::Wait(_)) {
                    self.store.release_metadata(session, true);
                }
                return Err(halt);
            }
        }
        let settings = &self.store.session(session).settings;
        if settings.table_locks && !settings.autocommit {
            self.lock_in_engine(session, &wanted);
        }
        self.store.session_mut(session).locked_tables = wanted;
        Ok(Reply::tag("LOCK TABLES"))
    }

    /// Outside of autocommit, InnoDB locks the tables of `LOCK TABLES` itself, until the transaction ends.
    /// Nobody can be in the way: the metadata locks come first.
    fn lock_in_engine(&mut self, session: SessionId, wanted: &BTreeMap<Arc<str>, bool>) {
        self.open_transaction(session);
        let level = self.store.session(session).level;
        self.store.join(session, level);
        for (name, write) in wanted {
            let Some(shape) = self.store.schema().table(name) else {
                continue;
            };
            let mode = match write {
                true => TableMode::Exclusive,
                false => TableMode::Shared,
            };
            let table = shape.table.id;
            self.store.lock_table(session, table, mode);
        }
    }

    fn unlock_tables(&mut self, session: SessionId) {
        if !self.store.session(session).locked_tables.is_empty() {
            self.store.session_mut(session).locked_tables.clear();
            self.store.release_metadata(session, true);
        }
    }

    /// 1146.
    pub(super) fn no_such_table(&self, name: &str) -> DbError {
        let database = &self.store.database;
        errors::mysql(
            1146,
            "42S02",
            format!("Table '{database}.{name}' doesn't exist"),
        )
    }

    fn kill(&mut self, session: SessionId, query_only: bool, id: &Value) -> Result<Reply, Halt> {
        let victim = self
            .store
            .sessions()
            .find(|s| id.as_int() == Some(connection_id(*s)));
        let victim = victim.filter(|s| self.store.session(*s).gone.is_none());
        let Some(victim) = victim else {
            let message = format!("Unknown thread id: {}", errors::shown(id));
            return Err(errors::mysql(1094, "HY000", message).into());
        };
        if victim == session {
            return Err(DbError::unsupported("KILL of the own session", None).into());
        }
        if query_only {
            self.interrupt(victim);
        } else {
            self.end_session(victim, errors::lost());
        }
        Ok(Reply::tag("KILL"))
    }
}
