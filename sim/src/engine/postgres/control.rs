//! Transaction control, settings, `LOCK TABLE`: the statements that are about the session.
//!
//! The transaction block is a small state machine ([`Block`]). What each command does in each state,
//! as the server does it:
//!
//! | | idle | implicit | open | failed |
//! | --- | --- | --- | --- | --- |
//! | `BEGIN` | opens | opens | warns | 25P02 |
//! | `COMMIT` | warns | warns, commits | commits | rolls back, tag `ROLLBACK` |
//! | `ROLLBACK` | warns | warns, rolls back | rolls back | rolls back |
//! | `SAVEPOINT`, `RELEASE` | 25P01 | 25P01 | works | 25P02 |
//! | `ROLLBACK TO` | 25P01 | 25P01 | works | works |
//! | `PREPARE TRANSACTION` | warns, tag `ROLLBACK` | warns, prepares | prepares | rolls back, tag `ROLLBACK` |
//! | `COMMIT PREPARED`, `ROLLBACK PREPARED` | works | 25001 | 25001 | 25P02 |

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Column, DbError, Notice, Reply, Value};

use super::notify::Action;
use super::session::{Block, Modes, PreparedText, Savepoint};
use super::statement::{Attempt, Halt, Parsed};
use super::{LockMode, LockScope, Postgres, Stop, Tag, WaitPolicy, errors};
use crate::plan::catalog::{Catalog as _, Relation};
use crate::plan::descendants;
use crate::sql::control::{
    Constraints, Control, Modes as Asked, RelationName, Setting, TableLockMode,
};

/// A setting that belongs to the transaction, as `SHOW` prints it.
pub(super) fn transaction_setting(modes: Modes, name: &str) -> Option<Arc<str>> {
    let on_off = |b: bool| if b { "on" } else { "off" };
    let value = match name.to_ascii_lowercase().as_str() {
        "transaction_isolation" => modes.isolation.name(),
        "transaction_read_only" => on_off(modes.read_only),
        "transaction_deferrable" => on_off(modes.deferrable),
        _ => return None,
    };
    Some(value.into())
}

/// Whether a statement is accepted in a failed transaction.
pub(super) fn ends_failed(control: &Control) -> bool {
    matches!(
        control,
        Control::Commit { .. }
            | Control::Rollback { .. }
            | Control::RollbackTo(_)
            | Control::PrepareTransaction(_)
    )
}

pub(super) fn lock_mode(mode: TableLockMode) -> LockMode {
    match mode {
        TableLockMode::AccessShare => LockMode::AccessShare,
        TableLockMode::RowShare => LockMode::RowShare,
        TableLockMode::RowExclusive => LockMode::RowExclusive,
        TableLockMode::ShareUpdateExclusive => LockMode::ShareUpdateExclusive,
        TableLockMode::Share => LockMode::Share,
        TableLockMode::ShareRowExclusive => LockMode::ShareRowExclusive,
        TableLockMode::Exclusive => LockMode::Exclusive,
        TableLockMode::AccessExclusive => LockMode::AccessExclusive,
    }
}

fn warn(reply: Reply, message: &str) -> Reply {
    let mut notices = reply.notices.to_vec();
    notices.push(Notice {
        severity: "WARNING".into(),
        message: message.into(),
    });
    Reply {
        notices: notices.into(),
        ..reply
    }
}

const NO_TRANSACTION: &str = "there is no transaction in progress";

impl Postgres {
    /// Runs a control statement.
    pub(super) fn control(
        &mut self,
        session: SessionId,
        control: &Control,
        parsed: &Parsed,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let block = self.store.session(session).block;
        match control {
            Control::Begin { modes, start } => {
                let reply = Reply::tag(if *start { "START TRANSACTION" } else { "BEGIN" });
                let running = block == Block::Open;
                self.open_transaction(session, attempt);
                if !running {
                    self.store.session_mut(session).block = Block::Open;
                }
                self.set_modes(session, *modes)?;
                Ok(if running {
                    warn(reply, "there is already a transaction in progress")
                } else {
                    reply
                })
            }
            Control::Commit { chain } => self.commit_block(session, *chain, attempt),
            Control::Rollback { chain } => self.rollback_block(session, *chain, attempt),
            Control::Savepoint(name) => {
                if block != Block::Open {
                    return Err(errors::only_in_transaction_block("SAVEPOINT").into());
                }
                self.push_savepoint(session, name);
                Ok(Reply::tag("SAVEPOINT"))
            }
            Control::Release(name) => self.release(session, name),
            Control::RollbackTo(name) => self.rollback_to(session, name),
            Control::SetTransaction(modes) => {
                let reply = Reply::tag("SET");
                if block == Block::Idle {
                    return Ok(warn(
                        reply,
                        "SET TRANSACTION can only be used in transaction blocks",
                    ));
                }
                self.open_transaction(session, attempt);
                self.set_modes(session, *modes)?;
                Ok(reply)
            }
            Control::SetCharacteristics(modes) => {
                self.open_transaction(session, attempt);
                let settings = &mut self.store.session_mut(session).settings;
                let on_off = |b: bool| if b { "on" } else { "off" };
                if let Some(isolation) = modes.isolation {
                    settings.set("default_transaction_isolation", isolation.name(), false)?;
                }
                if let Some(read_only) = modes.read_only {
                    settings.set("default_transaction_read_only", on_off(read_only), false)?;
                }
                if let Some(deferrable) = modes.deferrable {
                    settings.set("default_transaction_deferrable", on_off(deferrable), false)?;
                }
                Ok(Reply::tag("SET"))
            }
            Control::Set { local, name, value } => self.set(session, *local, name, value, attempt),
            Control::Reset(name) => {
                self.open_transaction(session, attempt);
                let settings = &mut self.store.session_mut(session).settings;
                match name {
                    Some(name) => settings.reset(name, false)?,
                    None => settings.reset_all(),
                }
                Ok(Reply::tag("RESET"))
            }
            Control::Show(name) => self.show(session, name.as_deref(), parsed),
            Control::SetConstraints {
                constraints,
                deferred,
            } => self.set_constraints(session, constraints, *deferred, attempt),
            Control::LockTable {
                tables,
                mode,
                nowait,
            } => self.lock_table(session, tables, *mode, *nowait, attempt),
            Control::Discard(what) => self.discard(session, what),
            Control::Maintain {
                vacuum,
                full,
                tables,
            } => {
                let tag = if *vacuum { "VACUUM" } else { "ANALYZE" };
                if *vacuum && block != Block::Idle {
                    return Err(errors::not_in_transaction_block("VACUUM").into());
                }
                self.refuse_restricted(session, tag)?;
                let schema = self.schema(session);
                for name in tables {
                    let id = self.named_table(session, name)?;
                    let family = schema.tables.get(&id).is_some_and(|t| {
                        !t.parents.is_empty() || !schema.children(t.id).is_empty()
                    });
                    if family {
                        return Err(refuse(&format!("{tag} of tables that inherit"), parsed));
                    }
                }
                let mode = match full {
                    true => TableLockMode::AccessExclusive,
                    false => TableLockMode::ShareUpdateExclusive,
                };
                self.open_transaction(session, attempt);
                self.lock_tables(session, tables, mode, WaitPolicy::Block, attempt)?;
                Ok(Reply::tag(tag))
            }
            Control::Prepare {
                name,
                types,
                statement,
                ..
            } => self.prepare_named(session, name, types, statement),
            Control::Deallocate(name) => self.deallocate(session, name.as_deref()),
            Control::Execute { .. } => unreachable!("EXECUTE is resolved before"),
            Control::AlterSequence {
                name,
                if_exists,
                changes,
            } => self.alter_sequence(session, name, *if_exists, changes, attempt),
            Control::SetFastUpdate {
                name,
                if_exists,
                on,
            } => self.set_fast_update(session, name, *if_exists, *on, attempt),
            Control::CreateRole { name, superuser } => {
                self.create_role(session, name, *superuser, attempt)
            }
            Control::DropRoles { names, if_exists } => {
                self.drop_roles(session, names, *if_exists, attempt)
            }
            Control::Grant {
                grants,
                privileges,
                tables,
                roles,
            } => self.grant(session, *grants, privileges, tables, roles, attempt),
            Control::PrepareTransaction(identifier) => {
                self.prepare_transaction(session, identifier, attempt)
            }
            Control::CommitPrepared(identifier) => self.finish_prepared(block, identifier, true),
            Control::RollbackPrepared(identifier) => self.finish_prepared(block, identifier, false),
            Control::Listen(channel) => {
                self.open_transaction(session, attempt);
                let action = Action::Listen(Arc::clone(channel));
                self.store.ask_to_listen(session, action);
                Ok(Reply::tag("LISTEN"))
            }
            Control::Unlisten(channel) => {
                self.open_transaction(session, attempt);
                let action = channel
                    .clone()
                    .map_or(Action::UnlistenAll, Action::Unlisten);
                self.store.ask_to_listen(session, action);
                Ok(Reply::tag("UNLISTEN"))
            }
            Control::Notify { channel, payload } => {
                errors::check_notification(channel, payload)?;
                self.open_transaction(session, attempt);
                self.store.notify(session, channel, payload);
                Ok(Reply::tag("NOTIFY"))
            }
        }
    }

    fn commit_block(
        &mut self,
        session: SessionId,
        chain: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let (block, modes) = self.block_and_modes(session);
        match block {
            Block::Idle | Block::Implicit if chain => {
                Err(errors::only_in_transaction_block("COMMIT AND CHAIN").into())
            }
            Block::Idle => Ok(warn(Reply::tag("COMMIT"), NO_TRANSACTION)),
            Block::Implicit | Block::Open => {
                // The first statement of a message may find nothing to commit.
                if self.store.xact(session).is_open() {
                    self.commit(session, attempt)?;
                }
                self.chain(session, chain.then_some(modes), attempt);
                let reply = Reply::tag("COMMIT");
                Ok(if block == Block::Implicit {
                    warn(reply, NO_TRANSACTION)
                } else {
                    reply
                })
            }
            Block::Failed => {
                self.store.abort_block(session);
                self.chain(session, chain.then_some(modes), attempt);
                Ok(Reply::tag("ROLLBACK"))
            }
        }
    }

    fn rollback_block(
        &mut self,
        session: SessionId,
        chain: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let (block, modes) = self.block_and_modes(session);
        let reply = Reply::tag("ROLLBACK");
        match block {
            Block::Idle | Block::Implicit if chain => {
                Err(errors::only_in_transaction_block("ROLLBACK AND CHAIN").into())
            }
            Block::Idle => Ok(warn(reply, NO_TRANSACTION)),
            Block::Implicit => {
                self.store.abort_block(session);
                Ok(warn(reply, NO_TRANSACTION))
            }
            Block::Open | Block::Failed => {
                self.store.abort_block(session);
                self.chain(session, chain.then_some(modes), attempt);
                Ok(reply)
            }
        }
    }

    fn prepare_transaction(
        &mut self,
        session: SessionId,
        identifier: &Arc<str>,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let block = self.store.session(session).block;
        match block {
            Block::Idle => Ok(warn(Reply::tag("ROLLBACK"), NO_TRANSACTION)),
            Block::Failed => {
                self.store.abort_block(session);
                Ok(Reply::tag("ROLLBACK"))
            }
            Block::Implicit | Block::Open => {
                self.open_transaction(session, attempt);
                self.prepare(session, identifier, attempt)?;
                let reply = Reply::tag("PREPARE TRANSACTION");
                Ok(match block {
                    Block::Implicit => warn(reply, NO_TRANSACTION),
                    _ => reply,
                })
            }
        }
    }

    /// `COMMIT PREPARED`, `ROLLBACK PREPARED`.
    fn finish_prepared(
        &mut self,
        block: Block,
        identifier: &str,
        commits: bool,
    ) -> Result<Reply, Halt> {
        let tag = match commits {
            true => "COMMIT PREPARED",
            false => "ROLLBACK PREPARED",
        };
        if block != Block::Idle {
            return Err(errors::not_in_transaction_block(tag).into());
        }
        self.store.finish_prepared(identifier, commits)?;
        Ok(Reply::tag(tag))
    }

    fn block_and_modes(&self, session: SessionId) -> (Block, Modes) {
        let state = self.store.session(session);
        let modes = state
            .transaction
            .map_or_else(|| state.default_modes(), |t| t.modes);
        (state.block, modes)
    }

    /// `AND CHAIN`: a new transaction like the old one.
    fn chain(&mut self, session: SessionId, modes: Option<Modes>, attempt: &mut Attempt) {
        let Some(modes) = modes else { return };
        self.open_transaction(session, attempt);
        let state = self.store.session_mut(session);
        state.block = Block::Open;
        if let Some(transaction) = &mut state.transaction {
            transaction.modes = modes;
        }
    }

    fn push_savepoint(&mut self, session: SessionId, name: &Arc<str>) {
        self.store.push_level(session);
        let state = self.store.session_mut(session);
        let read_only = state.transaction.is_some_and(|t| t.modes.read_only);
        state.settings.push();
        state.savepoints.push(Savepoint {
            name: Arc::clone(name),
            read_only,
        });
    }

    fn savepoint(&self, session: SessionId, name: &str) -> Result<usize, DbError> {
        let savepoints = &self.store.session(session).savepoints;
        savepoints
            .iter()
            .rposition(|s| &*s.name == name)
            .ok_or_else(|| errors::no_savepoint(name))
    }

    fn release(&mut self, session: SessionId, name: &str) -> Result<Reply, Halt> {
        if self.store.session(session).block != Block::Open {
            return Err(errors::only_in_transaction_block("RELEASE SAVEPOINT").into());
        }
        let at = self.savepoint(session, name)?;
        while self.store.session(session).savepoints.len() > at {
            let level = self.store.session(session).savepoints.len() as u8;
            self.store.release_level(session);
            self.store.release_catalog(session, level);
            let state = self.store.session_mut(session);
            state.savepoints.pop();
            state.settings.release();
            for deferred in Rc::make_mut(&mut state.deferred) {
                deferred.level = deferred.level.min(level - 1);
            }
        }
        Ok(Reply::tag("RELEASE"))
    }

    fn rollback_to(&mut self, session: SessionId, name: &str) -> Result<Reply, Halt> {
        let block = self.store.session(session).block;
        if !matches!(block, Block::Open | Block::Failed) {
            return Err(errors::only_in_transaction_block("ROLLBACK TO SAVEPOINT").into());
        }
        let at = self.savepoint(session, name)?;
        let savepoint = self.store.session(session).savepoints[at].clone();
        while self.store.xact(session).levels.len() > at + 1 {
            self.store.rollback_savepoint(session);
        }
        let state = self.store.session_mut(session);
        state.savepoints.truncate(at);
        state.block = Block::Open;
        if let Some(transaction) = &mut state.transaction {
            transaction.modes.read_only = savepoint.read_only;
        }
        self.push_savepoint(session, &savepoint.name);
        Ok(Reply::tag("ROLLBACK"))
    }

    /// Applies the characteristics that a statement names to the open transaction.
    fn set_modes(&mut self, session: SessionId, asked: Asked) -> Result<(), DbError> {
        let state = self.store.session_mut(session);
        let in_savepoint = !state.savepoints.is_empty();
        let Some(transaction) = &mut state.transaction else {
            return Ok(());
        };
        if let Some(isolation) = asked.isolation
            && isolation != transaction.modes.isolation
        {
            if transaction.queried {
                return Err(errors::isolation_after_query());
            }
            if in_savepoint {
                return Err(errors::isolation_in_subtransaction());
            }
            transaction.modes.isolation = isolation;
        }
        if let Some(read_only) = asked.read_only {
            if !read_only && transaction.modes.read_only {
                if in_savepoint {
                    return Err(errors::read_write_inside_read_only());
                }
                if transaction.queried {
                    return Err(errors::read_write_after_query());
                }
            }
            transaction.modes.read_only = read_only;
        }
        if let Some(deferrable) = asked.deferrable {
            if in_savepoint {
                return Err(errors::deferrable_in_subtransaction());
            }
            if transaction.queried {
                return Err(errors::deferrable_after_query());
            }
            transaction.modes.deferrable = deferrable;
        }
        Ok(())
    }

    fn set(
        &mut self,
        session: SessionId,
        local: bool,
        name: &str,
        value: &Setting,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let reply = Reply::tag("SET");
        let idle = self.store.session(session).block == Block::Idle;
        self.open_transaction(session, attempt);
        if let Some(modes) = transaction_modes(name, value)? {
            // Outside a block it concerns the transaction that this statement is, and no other.
            if !idle {
                self.set_modes(session, modes)?;
            }
            return Ok(reply);
        }
        if let ("role", Setting::Values(values)) = (name, value) {
            let schema = self.schema(session);
            let unknown = values
                .iter()
                .find(|r| &***r != "none" && !schema.has_role(r));
            if let Some(role) = unknown {
                let message = format!("role \"{role}\" does not exist");
                return Err(DbError::postgres("22023", message).into());
            }
        }
        let settings = &mut self.store.session_mut(session).settings;
        match value {
            Setting::Default => settings.reset(name, local)?,
            Setting::Values(values) => {
                let value = match &values[..] {
                    [value] => Arc::clone(value),
                    _ if matches!(name, "datestyle" | "search_path") => values.join(", ").into(),
                    _ => {
                        return Err(DbError::postgres(
                            "22023",
                            format!("SET {name} takes only one argument"),
                        )
                        .into());
                    }
                };
                settings.set(name, &value, local)?;
            }
        }
        Ok(if local && idle {
            warn(reply, "SET LOCAL can only be used in transaction blocks")
        } else {
            reply
        })
    }

    fn show(
        &mut self,
        session: SessionId,
        name: Option<&str>,
        parsed: &Parsed,
    ) -> Result<Reply, Halt> {
        let Some(name) = name else {
            return Err(refuse("SHOW ALL", parsed));
        };
        let (_, modes) = self.block_and_modes(session);
        let value = match transaction_setting(modes, name) {
            Some(value) => value,
            None => self.store.session(session).settings.get().show(name)?,
        };
        let name = match name {
            "timezone" => "TimeZone",
            "datestyle" => "DateStyle",
            "intervalstyle" => "IntervalStyle",
            other => other,
        };
        Ok(Reply {
            columns: [Column {
                name: name.into(),
                type_name: "text".into(),
            }]
            .into(),
            rows: [[Value::Text(value)].into()].into(),
            ..Reply::tag("SHOW")
        })
    }

    fn set_constraints(
        &mut self,
        session: SessionId,
        constraints: &Constraints,
        deferred: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let reply = Reply::tag("SET CONSTRAINTS");
        self.open_transaction(session, attempt);
        let schema = self.schema(session);
        let names: Vec<Arc<str>> = match constraints {
            Constraints::All => vec!["".into()],
            Constraints::Named(names) => {
                for name in names {
                    let keys = schema.tables.values().flat_map(|t| &t.foreign_keys);
                    let mut keys = keys.map(|k| (&k.name, k.deferrable));
                    let unique = schema.tables.values().flat_map(|t| &t.indexes);
                    let mut unique = unique
                        .filter(|i| i.constraint)
                        .map(|i| (&i.name, i.deferrable));
                    let found = keys
                        .find(|(n, _)| *n == name)
                        .or_else(|| unique.find(|(n, _)| *n == name));
                    let Some((_, deferrable)) = found else {
                        return Err(errors::undefined_constraint(name).into());
                    };
                    if !deferrable {
                        return Err(errors::constraint_not_deferrable(name).into());
                    }
                }
                names.clone()
            }
        };
        if matches!(
            self.store.session(session).block,
            Block::Idle | Block::Implicit
        ) {
            return Ok(warn(
                reply,
                "SET CONSTRAINTS can only be used in transaction blocks",
            ));
        }
        if !deferred {
            let all = names.iter().any(|n| n.is_empty());
            self.run_deferred(session, attempt, |d| all || names.contains(&d.constraint))?;
        }
        let state = self.store.session_mut(session);
        let deferrals = Rc::make_mut(&mut state.deferrals);
        for name in names {
            if name.is_empty() {
                deferrals.clear();
            }
            deferrals.insert(name, deferred);
        }
        Ok(reply)
    }

    /// A table that a control statement names.
    pub(super) fn named_table(
        &mut self,
        session: SessionId,
        name: &RelationName,
    ) -> Result<super::RelId, DbError> {
        let schema = self.schema(session);
        match schema.relation(name.schema.as_deref(), &name.name) {
            Some(Relation::Table(table)) => Ok(table.id),
            Some(_) => Err(DbError::postgres(
                "42809",
                format!("\"{}\" is not a table", name.name),
            )),
            None => {
                let error = match &name.schema {
                    Some(schema) => errors::undefined_table(&format!("{schema}.{}", name.name)),
                    None => errors::undefined_table(&name.name),
                };
                Err(error)
            }
        }
    }

    /// A statement that changes the catalogue begins: in REPEATABLE READ it takes the snapshot of
    /// its transaction.
    pub(super) fn begin_utility(
        &mut self,
        session: SessionId,
        tag: &str,
        attempt: &mut Attempt,
    ) -> Result<(), Halt> {
        self.open_transaction(session, attempt);
        let (_, modes) = self.block_and_modes(session);
        if modes.read_only {
            return Err(errors::read_only_transaction(tag).into());
        }
        self.first_snapshot(session, modes)?;
        Ok(())
    }

    fn lock_table(
        &mut self,
        session: SessionId,
        tables: &[RelationName],
        mode: TableLockMode,
        nowait: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        if self.store.session(session).block == Block::Idle {
            return Err(errors::only_in_transaction_block("LOCK TABLE").into());
        }
        self.refuse_restricted(session, "LOCK TABLE")?;
        self.open_transaction(session, attempt);
        let policy = if nowait {
            WaitPolicy::Error
        } else {
            WaitPolicy::Block
        };
        self.lock_tables(session, tables, mode, policy, attempt)?;
        Ok(Reply::tag("LOCK TABLE"))
    }

    fn lock_tables(
        &mut self,
        session: SessionId,
        tables: &[RelationName],
        mode: TableLockMode,
        policy: WaitPolicy,
        attempt: &mut Attempt,
    ) -> Result<(), Halt> {
        let schema = self.schema(session);
        for name in tables {
            let table = self.named_table(session, name)?;
            // A table is locked with its descendants.
            let all = match schema.tables.get(&table) {
                Some(table) => descendants(&*schema, table),
                None => Vec::new(),
            };
            let own = (table, Arc::clone(&name.name));
            let others = all.iter().skip(1).map(|t| (t.id, Arc::clone(&t.name)));
            for (table, shown) in std::iter::once(own).chain(others) {
                let granted = self.store.lock(
                    &mut attempt.run,
                    Tag::Relation(table),
                    lock_mode(mode),
                    LockScope::Transaction,
                    policy,
                );
                match granted {
                    Ok(true) => {}
                    Ok(false) => return Err(errors::table_lock_not_available(&shown).into()),
                    Err(Stop::Wait) => return Err(Halt::Wait(super::session::Waiting::Lock)),
                    Err(Stop::Error(error)) => return Err((*error).into()),
                }
            }
        }
        Ok(())
    }

    fn discard(&mut self, session: SessionId, what: &str) -> Result<Reply, Halt> {
        let tag = format!("DISCARD {what}");
        if what == "ALL" {
            if self.store.session(session).block != Block::Idle {
                return Err(errors::not_in_transaction_block("DISCARD ALL").into());
            }
            self.store.unlock_all(session);
            self.store.stop_listening(session);
        }
        let state = self.store.session_mut(session);
        if what == "ALL" {
            state.settings.reset_all();
            state.prepared = Rc::default();
        }
        if matches!(what, "ALL" | "SEQUENCES") {
            state.drawn = Rc::default();
        }
        Ok(Reply::tag(&tag))
    }

    fn prepare_named(
        &mut self,
        session: SessionId,
        name: &Arc<str>,
        types: &[Arc<str>],
        statement: &Arc<str>,
    ) -> Result<Reply, Halt> {
        let state = self.store.session_mut(session);
        let prepared = Rc::make_mut(&mut state.prepared);
        if prepared.contains_key(name) {
            return Err(DbError::postgres(
                "42P05",
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        prepared.insert(
            Arc::clone(name),
            PreparedText {
                statement: Arc::clone(statement),
                types: types.to_vec(),
            },
        );
        Ok(Reply::tag("PREPARE"))
    }

    fn deallocate(&mut self, session: SessionId, name: Option<&str>) -> Result<Reply, Halt> {
        let state = self.store.session_mut(session);
        let Some(name) = name else {
            state.prepared = Rc::default();
            return Ok(Reply::tag("DEALLOCATE ALL"));
        };
        if Rc::make_mut(&mut state.prepared).remove(name).is_none() {
            return Err(errors::undefined_prepared(name).into());
        }
        Ok(Reply::tag("DEALLOCATE"))
    }
}

fn refuse(what: &str, parsed: &Parsed) -> Halt {
    DbError::unsupported(what, Some(parsed.statement.offset)).into()
}

/// `SET transaction_isolation` and its like are another way to write `SET TRANSACTION`.
fn transaction_modes(name: &str, value: &Setting) -> Result<Option<Asked>, DbError> {
    let text = match value {
        Setting::Values(values) => values.first().map_or("", |v| v).to_ascii_lowercase(),
        Setting::Default => String::new(),
    };
    let on = || match text.as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(DbError::postgres(
            "22023",
            format!("parameter \"{name}\" requires a Boolean value"),
        )),
    };
    let mut asked = Asked::default();
    match name {
        "transaction_isolation" => {
            let level = text
                .parse()
                .map_err(|_| errors::invalid_setting(name, &text))?;
            asked.isolation = Some(level);
        }
        "transaction_read_only" => asked.read_only = Some(on()?),
        "transaction_deferrable" => asked.deferrable = Some(on()?),
        _ => return Ok(None),
    }
    Ok(Some(asked))
}
