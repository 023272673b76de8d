//! Roles and their privileges on tables: manual, chapter 22, and 5.7 "Privileges".
//!
//! Every session begins as the superuser who made the database, and `SET ROLE` makes it act as
//! another role. All tables belong to the superuser. Which columns a statement reads is not looked
//! at, so a role is let through that may do everything with each table of a statement that changes
//! data, and one that may do nothing with some of them is refused; what lies between is not modelled.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Notice, Reply};

use super::catalog::{Edit, Schema};
use super::statement::{Attempt, Halt, Planned};
use super::{Postgres, RelId, errors};
use crate::plan::ddl::Ddl;
use crate::plan::{PlanKind, TableLock};
use crate::sql::control::{Privilege, RelationName};

/// The role as which every session begins.
pub(super) const SUPERUSER: &str = "postgres";

/// Stands for every role.
const EVERYBODY: &str = "public";

impl Schema {
    /// Whether a role may do anything.
    fn is_superuser(&self, role: &str) -> bool {
        role == SUPERUSER || self.roles.get(role) == Some(&true)
    }

    fn has_privilege(&self, role: &str, table: RelId, privilege: Privilege) -> bool {
        let granted = |to: &str| self.grants.contains(&(table, to.into(), privilege));
        granted(role) || granted(EVERYBODY)
    }

    /// Whether a role exists.
    pub(super) fn has_role(&self, role: &str) -> bool {
        role == SUPERUSER || self.roles.contains_key(role)
    }
}

impl Postgres {
    /// The role as which a session acts, unless it is a superuser.
    fn restricted_role(&self, session: SessionId) -> Option<Arc<str>> {
        let role = self.store.session(session).settings.get().role()?;
        let (schema, _) = self.store.catalog_unrecorded().view(Some(session));
        (!schema.is_superuser(&role)).then_some(role)
    }

    /// Whether the session's role may run a statement. Comes before any lock.
    pub(super) fn check_privileges(
        &mut self,
        session: SessionId,
        planned: &Planned,
    ) -> Result<(), DbError> {
        let Some(role) = self.restricted_role(session) else {
            return Ok(());
        };
        let schema = self.schema(session);
        if let PlanKind::Ddl(ddl) = &planned.plan.kind {
            let Ddl::Truncate { tables, .. } = &**ddl else {
                return self.refuse_restricted(session, "changes of the schema");
            };
            let mut tables = tables.iter();
            let denied = tables.find(|t| !schema.has_privilege(&role, t.id, Privilege::Truncate));
            return match denied {
                Some(table) => Err(errors::permission_denied("table", &table.name)),
                None => Ok(()),
            };
        }
        let needed: &[Privilege] = match planned.info.locks_rows {
            _ if planned.info.writes => &[
                Privilege::Select,
                Privilege::Insert,
                Privilege::Update,
                Privilege::Delete,
            ],
            Some(_) => &[Privilege::Select, Privilege::Update],
            None => &[Privilege::Select],
        };
        // A row lock on the only table needs all of it.
        let needs_all = !planned.info.writes && planned.plan.locks.len() == 1;
        let mut denied: Vec<&Arc<str>> = Vec::new();
        let mut partly = false;
        for TableLock { table, .. } in &planned.plan.locks {
            let count = needed.iter();
            let count = count
                .filter(|p| schema.has_privilege(&role, table.id, **p))
                .count();
            let denies = count == 0 || (needs_all && count != needed.len());
            if denies && !denied.contains(&&table.name) {
                denied.push(&table.name);
            }
            partly |= !denies && count != needed.len();
        }
        match (&denied[..], partly) {
            ([], false) => Ok(()),
            ([table], false) => Err(errors::permission_denied("table", table)),
            _ => {
                let what = "a statement for which the role has some of the privileges";
                Err(DbError::unsupported(what, None))
            }
        }
    }

    /// A statement for which it is not modelled what a role that is no superuser may do.
    pub(super) fn refuse_restricted(&self, session: SessionId, what: &str) -> Result<(), DbError> {
        match self.restricted_role(session) {
            Some(_) => {
                let what = format!("{what} as a role that is no superuser");
                Err(DbError::unsupported(what, None))
            }
            None => Ok(()),
        }
    }

    /// `CREATE ROLE`.
    pub(super) fn create_role(
        &mut self,
        session: SessionId,
        name: &Arc<str>,
        superuser: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        self.begin_utility(session, "CREATE ROLE", attempt)?;
        self.only_superuser(session, "permission denied to create role")?;
        let schema = self.schema(session);
        if matches!(&**name, EVERYBODY | "none") || name.starts_with("pg_") {
            let message = format!("role name \"{name}\" is reserved");
            let error = DbError::postgres("42939", message);
            return Err(match name.starts_with("pg_") {
                true => error.with_detail("Role names starting with \"pg_\" are reserved."),
                false => error,
            }
            .into());
        }
        if schema.has_role(name) {
            let message = format!("role \"{name}\" already exists");
            return Err(DbError::postgres("42710", message).into());
        }
        self.edit_roles(session, [Edit::Role(Arc::clone(name), Some(superuser))]);
        Ok(Reply::tag("CREATE ROLE"))
    }

    /// `DROP ROLE`.
    pub(super) fn drop_roles(
        &mut self,
        session: SessionId,
        names: &[Arc<str>],
        if_exists: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        self.begin_utility(session, "DROP ROLE", attempt)?;
        self.only_superuser(session, "permission denied to drop role")?;
        let schema = self.schema(session);
        let mut notices: Vec<Notice> = Vec::new();
        let mut edits = Vec::new();
        for name in names {
            if &**name == SUPERUSER {
                let message = "session user cannot be dropped";
                return Err(DbError::postgres("55006", message).into());
            }
            if !schema.has_role(name) {
                if !if_exists {
                    return Err(errors::undefined_role(name).into());
                }
                notices.push(Notice {
                    severity: "NOTICE".into(),
                    message: format!("role \"{name}\" does not exist, skipping").into(),
                });
                continue;
            }
            if self.store.session(session).settings.get().role().as_ref() == Some(name) {
                let message = "current user cannot be dropped";
                return Err(DbError::postgres("55006", message).into());
            }
            let mut tables: Vec<RelId> = schema
                .grants
                .iter()
                .filter(|(_, role, _)| role == name)
                .map(|(table, ..)| *table)
                .collect();
            tables.dedup();
            if !tables.is_empty() {
                let lines: Vec<String> = tables
                    .iter()
                    .filter_map(|table| schema.tables.get(table))
                    .map(|table| format!("privileges for table {}", table.name))
                    .collect();
                let message =
                    format!("role \"{name}\" cannot be dropped because some objects depend on it");
                let error = DbError::postgres("2BP01", message);
                return Err(error.with_detail(lines.join("\n")).into());
            }
            edits.push(Edit::Role(Arc::clone(name), None));
        }
        self.edit_roles(session, edits);
        Ok(Reply {
            notices: notices.into(),
            ..Reply::tag("DROP ROLE")
        })
    }

    /// `GRANT`, `REVOKE` of privileges on tables.
    pub(super) fn grant(
        &mut self,
        session: SessionId,
        grants: bool,
        privileges: &[Privilege],
        tables: &[RelationName],
        roles: &[Arc<str>],
        attempt: &mut Attempt,
    ) -> Result<Reply, Halt> {
        let tag = if grants { "GRANT" } else { "REVOKE" };
        self.begin_utility(session, tag, attempt)?;
        self.refuse_restricted(session, tag)?;
        let schema = self.schema(session);
        let mut edits = Vec::new();
        for table in tables {
            let table = self.named_table(session, table)?;
            for role in roles {
                let is_known = &**role == EVERYBODY || schema.has_role(role);
                if !is_known {
                    return Err(errors::undefined_role(role).into());
                }
                let edit = |p: &Privilege| Edit::Grant(table, Arc::clone(role), *p, grants);
                edits.extend(privileges.iter().map(edit));
            }
        }
        self.edit_roles(session, edits);
        Ok(Reply::tag(tag))
    }

    fn only_superuser(&self, session: SessionId, message: &str) -> Result<(), DbError> {
        match self.restricted_role(session) {
            Some(_) => Err(DbError::postgres("42501", message)),
            None => Ok(()),
        }
    }

    fn edit_roles(&mut self, session: SessionId, edits: impl IntoIterator<Item = Edit>) {
        let level = (self.store.xact(session).levels.len() - 1) as u8;
        // What writes the catalogue has a transaction id.
        self.store.ensure_xid(session);
        for edit in edits {
            self.store.catalog_mut().edit(session, level, edit);
        }
        self.store.advance_command(session);
    }
}
