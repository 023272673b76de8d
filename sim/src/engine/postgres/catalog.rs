//! The catalogue: the schema that everybody sees, and what open transactions have done to it.
//!
//! DDL holds AccessExclusive locks on what it changes, so two transactions never change one relation
//! at a time, and a transaction's changes can be kept as a list of edits that only it sees: each
//! replaces or removes one whole entry. A commit applies them, a rollback drops them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rowlock_model::schedule::SessionId;

use super::{Object, RelId};
use crate::plan::catalog::{self, EnumType, Relation, RelationId, Sequence, Table};
use crate::plan::routine::{Routine, RoutineId};
use crate::plan::types::{EnumId, Type};
use crate::sql::control::Privilege;
use crate::world::{Digest, World};

/// One state of the schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Schema {
    /// The tables.
    pub(crate) tables: BTreeMap<RelationId, Arc<Table>>,
    /// The sequences.
    pub(crate) sequences: BTreeMap<RelationId, Arc<Sequence>>,
    /// The enumerations.
    pub(crate) enums: BTreeMap<EnumId, Arc<EnumType>>,
    /// The functions that users have defined.
    pub(crate) routines: BTreeMap<RoutineId, Arc<Routine>>,
    /// The names of installed extensions.
    pub(crate) extensions: BTreeSet<Arc<str>>,
    /// The roles beside the first superuser, and whether each is one.
    pub(crate) roles: BTreeMap<Arc<str>, bool>,
    /// What roles may do with tables.
    pub(crate) grants: BTreeSet<(RelationId, Arc<str>, Privilege)>,
}

/// One change of the schema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// Adds a table, or puts it in place of what it was.
    Table(Arc<Table>),
    /// Adds or replaces a sequence.
    Sequence(Arc<Sequence>),
    /// Adds an enumeration.
    Enum(Arc<EnumType>),
    /// Adds or replaces a function.
    Routine(Arc<Routine>),
    /// Removes a function.
    DropRoutine(RoutineId),
    /// Installs an extension.
    Extension(Arc<str>),
    /// Adds a role, a superuser or not, or removes it.
    Role(Arc<str>, Option<bool>),
    /// Gives a privilege on a table to a role, or takes it.
    Grant(RelationId, Arc<str>, Privilege, bool),
    /// Removes a table or a sequence.
    Drop(RelationId),
    /// Removes an enumeration.
    DropEnum(EnumId),
}

/// What a transaction in progress has done to the schema.
#[derive(Clone, Debug)]
struct Overlay {
    /// The edits, with the nesting level of the transaction that made each.
    edits: Vec<(u8, Edit)>,
    /// The schema with the edits made.
    view: Rc<Schema>,
    stamp: u64,
}

/// The schema as all sessions see it, and what transactions in progress have done to it.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    committed: Rc<Schema>,
    /// Names the content of `committed`: equal stamps mean equal content, also across undo.
    stamp: u64,
    overlays: BTreeMap<SessionId, Overlay>,
    /// The number that the next new object gets, relative to [`FIRST_ID`].
    next: u32,
}

/// A stamp that names no content yet. The numbers are compared for equality only, so that they are
/// shared by all servers of the process changes nothing that can be seen.
fn fresh_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Where the server begins to number the objects of users.
const FIRST_ID: u32 = 16_384;

impl Schema {
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Table(table) => {
                self.tables.insert(table.id, Arc::clone(table));
            }
            Edit::Sequence(sequence) => {
                self.sequences.insert(sequence.id, Arc::clone(sequence));
            }
            Edit::Enum(labels) => {
                self.enums.insert(labels.id, Arc::clone(labels));
            }
            Edit::Routine(routine) => {
                self.routines.insert(routine.id, Arc::clone(routine));
            }
            Edit::DropRoutine(id) => {
                self.routines.remove(id);
            }
            Edit::Extension(name) => {
                self.extensions.insert(Arc::clone(name));
            }
            Edit::Role(name, Some(superuser)) => {
                self.roles.insert(Arc::clone(name), *superuser);
            }
            Edit::Role(name, None) => {
                self.roles.remove(name);
            }
            Edit::Grant(table, role, privilege, true) => {
                self.grants.insert((*table, Arc::clone(role), *privilege));
            }
            Edit::Grant(table, role, privilege, false) => {
                self.grants.remove(&(*table, Arc::clone(role), *privilege));
            }
            Edit::Drop(id) => {
                self.grants.retain(|(table, ..)| table != id);
                self.tables.remove(id);
                self.sequences.remove(id);
            }
            Edit::DropEnum(id) => {
                self.enums.remove(id);
            }
        }
    }

    /// The name of a table, index or sequence.
    pub(crate) fn name(&self, id: RelId) -> Option<Arc<str>> {
        if let Some(table) = self.tables.get(&id) {
            return Some(Arc::clone(&table.name));
        }
        if let Some(sequence) = self.sequences.get(&id) {
            return Some(Arc::clone(&sequence.name));
        }
        let mut indexes = self.tables.values().flat_map(|t| &t.indexes);
        indexes
            .find(|index| index.id == id)
            .map(|index| Arc::clone(&index.name))
            .or_else(|| super::exec::view_name(id))
    }

    /// The id of a table, index or sequence.
    pub(crate) fn id(&self, name: &str) -> Option<RelId> {
        if let Some(table) = self.tables.values().find(|t| &*t.name == name) {
            return Some(table.id);
        }
        if let Some(sequence) = self.sequences.values().find(|s| &*s.name == name) {
            return Some(sequence.id);
        }
        let mut indexes = self.tables.values().flat_map(|t| &t.indexes);
        indexes
            .find(|index| &*index.name == name)
            .map(|index| index.id)
    }

    /// The short name of a type, as drivers give it; an array is named after its element: `int4[]`.
    pub(crate) fn type_name(&self, ty: Type) -> Arc<str> {
        match ty {
            Type::Array(element) => format!("{}[]", self.type_name(*element)).into(),
            Type::Enum(id) => self
                .enums
                .get(&id)
                .map_or_else(|| "enum".into(), |e| Arc::clone(&e.name)),
            other => other.internal_name().into(),
        }
    }

    /// The foreign keys that refer to a table (parts of those of partitioned tables left out), with the tables that hold them, in order of creation.
    pub(crate) fn references(
        &self,
        parent: RelId,
    ) -> impl Iterator<Item = (&Arc<Table>, &catalog::ForeignKey)> {
        self.tables.values().flat_map(move |table| {
            table
                .foreign_keys
                .iter()
                .filter(move |key| key.parent == parent && !key.inherited)
                .map(move |key| (table, key))
        })
    }
}

impl catalog::Catalog for Schema {
    fn children(&self, id: RelationId) -> Vec<Arc<Table>> {
        let tables = self.tables.values().filter(|t| t.parents.contains(&id));
        let mut found: Vec<Arc<Table>> = tables.map(Arc::clone).collect();
        found.sort_by(|a, b| match (&a.partition, &b.partition) {
            (Some(a), Some(b)) => a.scan_order(b),
            _ => a.id.cmp(&b.id),
        });
        found
    }

    fn routines(&self, name: &str) -> Vec<Arc<Routine>> {
        let named = self.routines.values().filter(|r| &*r.name == name);
        named.map(Arc::clone).collect()
    }

    fn routine(&self, id: RoutineId) -> Option<Arc<Routine>> {
        self.routines.get(&id).map(Arc::clone)
    }

    fn extension(&self, name: &str) -> bool {
        self.extensions.contains(name)
    }

    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        if schema != Some("public")
            && let Some(view) = super::exec::view(name)
        {
            return Some(Relation::Virtual(view));
        }
        if !matches!(schema, None | Some("public")) {
            return None;
        }
        if let Some(table) = self.tables.values().find(|t| &*t.name == name) {
            return Some(Relation::Table(Arc::clone(table)));
        }
        if let Some(sequence) = self.sequence(name) {
            return Some(Relation::Sequence(sequence));
        }
        let (table, at) = catalog::Catalog::index(self, name)?;
        Some(Relation::Index(table.indexes[at].id))
    }

    fn table(&self, id: RelationId) -> Option<Arc<Table>> {
        self.tables.get(&id).map(Arc::clone)
    }

    fn index(&self, name: &str) -> Option<(Arc<Table>, usize)> {
        self.tables.values().find_map(|table| {
            let at = table.indexes.iter().position(|i| &*i.name == name)?;
            Some((Arc::clone(table), at))
        })
    }

    fn sequence(&self, name: &str) -> Option<Arc<Sequence>> {
        self.sequences
            .values()
            .find(|s| &*s.name == name)
            .map(Arc::clone)
    }

    fn enum_type(&self, name: &str) -> Option<Arc<EnumType>> {
        self.enums
            .values()
            .find(|e| &*e.name == name)
            .map(Arc::clone)
    }

    fn enum_by_id(&self, id: EnumId) -> Option<Arc<EnumType>> {
        self.enums.get(&id).map(Arc::clone)
    }
}

impl Catalog {
    /// The schema that a session sees, and a stamp that names its content.
    pub(crate) fn view(&self, session: Option<SessionId>) -> (&Rc<Schema>, u64) {
        match session.and_then(|s| self.overlays.get(&s)) {
            Some(overlay) => (&overlay.view, overlay.stamp),
            None => (&self.committed, self.stamp),
        }
    }

    /// A number for a new object.
    pub(crate) fn new_id(&mut self) -> RelationId {
        self.next += 1;
        RelationId(FIRST_ID + self.next - 1)
    }

    /// Makes a change that only `session` sees until its transaction commits.
    pub(crate) fn edit(&mut self, session: SessionId, level: u8, edit: Edit) {
        let overlay = self.overlays.entry(session).or_insert_with(|| Overlay {
            edits: Vec::new(),
            view: Rc::clone(&self.committed),
            stamp: 0,
        });
        Rc::make_mut(&mut overlay.view).apply(&edit);
        overlay.edits.push((level, edit));
        overlay.stamp = fresh_stamp();
    }

    /// Another session whose open transaction has made a relation of this name.
    pub(crate) fn maker(&self, name: &str, session: SessionId) -> Option<SessionId> {
        let known = self.committed.id(name);
        let mut others = self.overlays.iter().filter(|(other, overlay)| {
            let made = overlay.view.id(name);
            **other != session && made.is_some() && made != known
        });
        others.next().map(|(other, _)| *other)
    }

    /// Whether the open transaction of a session has changed the schema.
    pub(crate) fn has_edits(&self, session: SessionId) -> bool {
        self.overlays.contains_key(&session)
    }

    /// What the open transaction of one session has done belongs to another from now on.
    pub(crate) fn hand_over(&mut self, from: SessionId, to: SessionId) {
        if let Some(overlay) = self.overlays.remove(&from) {
            self.overlays.insert(to, overlay);
        }
    }

    /// The session's transaction commits.
    pub(crate) fn commit(&mut self, session: SessionId) {
        let Some(overlay) = self.overlays.remove(&session) else {
            return;
        };
        let committed = Rc::make_mut(&mut self.committed);
        for (_, edit) in &overlay.edits {
            committed.apply(edit);
        }
        self.stamp = fresh_stamp();
        let committed = Rc::clone(&self.committed);
        for other in self.overlays.values_mut() {
            other.rebuild(&committed);
        }
    }

    /// The session's transaction rolls back what it did at `level` and deeper.
    pub(crate) fn rollback(&mut self, session: SessionId, level: u8) {
        let Some(overlay) = self.overlays.get_mut(&session) else {
            return;
        };
        overlay.edits.retain(|(at, _)| *at < level);
        if overlay.edits.is_empty() {
            self.overlays.remove(&session);
        } else {
            let committed = Rc::clone(&self.committed);
            overlay.rebuild(&committed);
        }
    }

    /// A savepoint at `level` is released into its parent.
    pub(crate) fn release(&mut self, session: SessionId, level: u8) {
        if let Some(overlay) = self.overlays.get_mut(&session) {
            for (at, _) in &mut overlay.edits {
                *at = (*at).min(level - 1);
            }
        }
    }

    /// Whether some session has changed the schema and not committed it.
    pub(super) fn names_sessions(&self) -> bool {
        !self.overlays.is_empty()
    }

    /// Adds the whole content to `digest`.
    pub fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        // Expressions have no hash of their own; the schema changes rarely enough to be printed.
        format!("{:?}", self.committed).hash(digest);
        for (session, overlay) in &self.overlays {
            session.hash(digest);
            format!("{:?}", overlay.edits).hash(digest);
        }
        // Only who sees numbers of objects can tell how many there were.
        if world.is_exact() {
            self.next.hash(digest);
        }
    }
}

impl Overlay {
    fn rebuild(&mut self, committed: &Rc<Schema>) {
        let mut view = Schema::clone(committed);
        for (_, edit) in &self.edits {
            view.apply(edit);
        }
        self.view = Rc::new(view);
        self.stamp = fresh_stamp();
    }
}
