//! The schema: tables as stored, by name and by number.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;

use super::flavour::Flavour;
use super::shape::Shape;
use super::views;
use crate::loose::catalog::{Catalog, Relation, TableId, View};
use crate::loose::query::Kind;
use crate::world::Digest;

/// The schema of the one database.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    names: BTreeMap<Arc<str>, TableId>,
    shapes: BTreeMap<TableId, Rc<Shape>>,
    views: BTreeMap<Arc<str>, Arc<View>>,
    /// Temporary tables, by their sessions and names.
    temporaries: BTreeMap<(SessionId, Arc<str>), TableId>,
    /// Names this version of the schema; plans are made for one.
    pub stamp: u64,
}

impl Schema {
    /// The table called `name`.
    pub fn table(&self, name: &str) -> Option<&Rc<Shape>> {
        self.shapes.get(self.names.get(name)?)
    }

    /// The temporary table of a session called `name`.
    pub fn temporary(&self, session: SessionId, name: &str) -> Option<&Rc<Shape>> {
        let own = self
            .temporaries_of(session)
            .find(|(own, _)| &***own == name);
        self.shapes.get(&own?.1)
    }

    /// The temporary tables of a session.
    pub fn temporaries_of(&self, session: SessionId) -> impl Iterator<Item = (&Arc<str>, TableId)> {
        let own = self
            .temporaries
            .iter()
            .filter(move |((owner, _), _)| *owner == session);
        own.map(|((_, name), id)| (name, *id))
    }

    /// Puts a temporary table of a session in.
    pub fn put_temporary(&mut self, session: SessionId, shape: Shape, stamp: u64) {
        let (name, id) = (Arc::clone(&shape.table.name), shape.table.id);
        self.temporaries.insert((session, name), id);
        self.shapes.insert(id, Rc::new(shape));
        self.stamp = stamp;
    }

    /// How a table is stored.
    pub fn shape(&self, table: TableId) -> Option<&Rc<Shape>> {
        self.shapes.get(&table)
    }

    /// All tables, by number.
    pub fn shapes(&self) -> impl Iterator<Item = &Rc<Shape>> {
        self.shapes.values()
    }

    /// All tables, by name.
    pub fn by_name(&self) -> impl Iterator<Item = &Rc<Shape>> {
        self.names.values().filter_map(|id| self.shapes.get(id))
    }

    /// The names of tables and views, in order.
    pub fn relation_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self
            .names
            .keys()
            .chain(self.views.keys())
            .cloned()
            .collect();
        names.sort();
        names
    }

    /// Puts a table in, in place of the one with its number.
    pub fn put(&mut self, shape: Shape, stamp: u64) {
        let id = shape.table.id;
        self.names.retain(|_, other| *other != id);
        self.names.insert(Arc::clone(&shape.table.name), id);
        self.shapes.insert(id, Rc::new(shape));
        self.stamp = stamp;
    }

    /// Takes a table out.
    pub fn remove(&mut self, table: TableId, stamp: u64) {
        self.names.retain(|_, other| *other != table);
        self.temporaries.retain(|_, other| *other != table);
        self.shapes.remove(&table);
        self.stamp = stamp;
    }

    /// The stored view called `name`.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    /// Puts a view in, or takes it out.
    pub fn put_view(&mut self, name: &Arc<str>, query: Option<Arc<View>>, stamp: u64) {
        match query {
            Some(query) => self.views.insert(Arc::clone(name), query),
            None => self.views.remove(name),
        };
        self.stamp = stamp;
    }

    /// Tables with foreign keys to a table, and which of them.
    pub fn children(&self, parent: &str) -> Vec<(Rc<Shape>, usize)> {
        let mut children = Vec::new();
        for shape in self.by_name() {
            for (at, key) in shape.table.foreign_keys.iter().enumerate() {
                if &*key.parent == parent {
                    children.push((Rc::clone(shape), at));
                }
            }
        }
        children
    }

    /// Adds everything to `digest`. `rank` gives for a commit number how many read views do not see it.
    pub fn digest(&self, rank: impl Fn(u64) -> u64, digest: &mut Digest) {
        let owned = self.temporaries.iter().map(|((owner, name), id)| {
            owner.hash(digest);
            (name, id)
        });
        let owned: Vec<_> = owned.collect();
        for (name, id) in self.names.iter().chain(owned) {
            name.hash(digest);
            let Some(shape) = self.shapes.get(id) else {
                continue;
            };
            for column in &shape.table.columns {
                column.name.hash(digest);
                column.ty.hash(digest);
                column.not_null.hash(digest);
            }
            for index in &shape.indexes {
                index.name.hash(digest);
                index.columns.hash(digest);
                index.unique.hash(digest);
                digest.word(rank(index.created));
            }
            digest.word(shape.table.foreign_keys.len() as u64);
        }
        for name in self.views.keys() {
            name.hash(digest);
        }
    }
}

/// Where the names of a statement are looked up.
#[derive(Debug)]
pub struct Names<'s> {
    /// The schema.
    pub schema: &'s Schema,
    /// The server, for its own views.
    pub flavour: Flavour,
    /// The database that has tables.
    pub home: &'s str,
    /// The database in use.
    pub database: &'s str,
    /// Whose temporary tables there are.
    pub session: SessionId,
}

impl Catalog for Names<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        let schema = schema.unwrap_or(self.database);
        if schema != self.home {
            let view = views::find(self.flavour, schema, name)?;
            return Some(Relation::Virtual(view));
        }
        if let Some(shape) = self.schema.temporary(self.session, name) {
            return Some(Relation::Table(Arc::clone(&shape.table)));
        }
        if let Some(shape) = self.schema.table(name) {
            return Some(Relation::Table(Arc::clone(&shape.table)));
        }
        let view = self.schema.view(name)?;
        Some(Relation::View(Arc::clone(view)))
    }

    fn database(&self) -> &str {
        self.database
    }

    fn kind_of_variable(&self, name: &str) -> Kind {
        super::variables::kind(name)
    }

    fn clock_is_timestamp(&self) -> bool {
        self.flavour.clock_is_timestamp()
    }
}
