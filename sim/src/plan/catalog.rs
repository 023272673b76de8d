//! The schema as plain data, and the trait through which names are looked up.
//!
//! Only unqualified names and the schemas `public` and `pg_catalog` are modelled.

use std::sync::Arc;

use crate::plan::expr::Expr;
use crate::plan::partition::{Bound, Partitioning};
use crate::plan::routine::{Routine, RoutineId};
use crate::plan::types::{Declared, EnumId, Type};

/// A relation (table, index or sequence) by its object id, unique in one database and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelationId(pub u32);

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, case-folded as the server does.
    pub name: Arc<str>,
    /// Its declared type.
    pub declared: Declared,
    /// `NOT NULL`, also through a primary key.
    pub not_null: bool,
    /// The default; already of the column's type. No column references. For serial and identity
    /// columns this is a `nextval` of `sequence`.
    pub default: Option<Expr>,
    /// `GENERATED ALWAYS AS (..) STORED`: computed from the new row at range-table index 0, after
    /// defaults and before checks.
    pub generated: Option<Expr>,
    /// The sequence that a serial or identity column owns.
    pub sequence: Option<Arc<str>>,
    /// Identity, and of which kind.
    pub identity: Option<Identity>,
    /// Dropped: the position stays, the name is gone, the value is not visible.
    pub dropped: bool,
}

/// `GENERATED .. AS IDENTITY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// An explicit value needs `OVERRIDING SYSTEM VALUE` (otherwise 428C9).
    Always,
    /// An explicit value wins.
    ByDefault,
}

/// `CHECK (..)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The constraint's name.
    pub name: Arc<str>,
    /// Over the new row at range-table index 0; refused (23514) only if false.
    pub expr: Expr,
}

/// One key column of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexKey {
    /// The value: usually `Expr::Column` at range-table index 0, else an expression over that row.
    pub expr: Expr,
    /// The column, if it is a plain one.
    pub column: Option<usize>,
    /// The type of the key.
    pub ty: Type,
    /// `DESC`.
    pub descending: bool,
    /// `NULLS FIRST`.
    pub nulls_first: bool,
}

/// How an index is organised (manual, 11.2 "Index Types").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexMethod {
    /// Keys in order.
    #[default]
    BTree,
    /// For equality only.
    Hash {
        /// How many buckets it was made with; 0 in a plan.
        buckets: u32,
    },
    /// Elements of arrays.
    Gin {
        /// New rows wait in a list first.
        fast_update: bool,
    },
}

/// An index, unique or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its id.
    pub id: RelationId,
    /// Its name, also the constraint's if it belongs to one.
    pub name: Arc<str>,
    /// How it is organised.
    pub method: IndexMethod,
    /// The keys, leading one first.
    pub keys: Vec<IndexKey>,
    /// `INCLUDE` columns.
    pub include: Vec<usize>,
    /// Refuses equal keys (23505); keys with a NULL are never equal.
    pub unique: bool,
    /// The primary key.
    pub primary: bool,
    /// The index of the partitioned table that this one of a partition is a part of.
    pub parent: Option<RelationId>,
    /// Belongs to a `PRIMARY KEY` or `UNIQUE` constraint of the same name.
    pub constraint: bool,
    /// A deferrable unique constraint.
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub deferred: bool,
    /// The predicate of a partial index, over the row at range-table index 0.
    pub predicate: Option<Expr>,
    /// How many entries it had when it was built, if any: the planner reckons with that density.
    pub built_with: Option<usize>,
    /// The predicate's text, for people.
    pub predicate_text: Option<Arc<str>>,
}

/// What happens to children when their parent's key goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Refuse, checked at the end of the statement or transaction.
    #[default]
    NoAction,
    /// Refuse at once.
    Restrict,
    /// Delete or update the children.
    Cascade,
    /// Set the children's columns to NULL.
    SetNull,
    /// Set the children's columns to their defaults.
    SetDefault,
}

/// A foreign key of the table that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    /// The constraint's name.
    pub name: Arc<str>,
    /// Columns of this table.
    pub columns: Vec<usize>,
    /// The referenced table (may be this one).
    pub parent: RelationId,
    /// Columns of the referenced table, one for each of `columns`.
    pub parent_columns: Vec<usize>,
    /// The unique index of the parent that the key refers to.
    pub parent_index: RelationId,
    /// `ON DELETE`.
    pub on_delete: Action,
    /// `ON UPDATE`.
    pub on_update: Action,
    /// May be deferred.
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub deferred: bool,
    /// `MATCH FULL`.
    pub match_full: bool,
    /// Every row obeys it; `false` after `NOT VALID`, until it is validated.
    pub validated: bool,
    /// It is part of a foreign key of the partitioned table that this one is a partition of.
    pub inherited: bool,
}

/// When a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// `BEFORE`.
    Before,
    /// `AFTER`.
    After,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// Its name, unique for its table.
    pub name: Arc<str>,
    /// The function that it calls.
    pub routine: RoutineId,
    /// When it fires.
    pub timing: Timing,
    /// `FOR EACH ROW`; otherwise once for a statement.
    pub each_row: bool,
    /// Fires for `INSERT`.
    pub insert: bool,
    /// Fires for `UPDATE`.
    pub update: bool,
    /// Fires for `DELETE`.
    pub delete: bool,
    /// Fires for `TRUNCATE`.
    pub truncate: bool,
    /// `UPDATE OF`: fires only if one of these columns is assigned to; empty means any.
    pub columns: Vec<usize>,
    /// `WHEN`: over the old row at entry 0 and the new row at entry 1 of its level.
    pub when: Option<Expr>,
    /// Not `DISABLE`d.
    pub enabled: bool,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its id.
    pub id: RelationId,
    /// Its name.
    pub name: Arc<str>,
    /// The columns, dropped ones included.
    pub columns: Vec<Column>,
    /// Constraints checked on the new row, by name as the server does.
    pub checks: Vec<Check>,
    /// Indexes in the order of creation.
    pub indexes: Vec<Index>,
    /// Foreign keys held by this table.
    pub foreign_keys: Vec<ForeignKey>,
    /// `fillfactor`, if given.
    pub fillfactor: Option<u32>,
    /// What the planner knows of its size: an index was built on it when it had rows.
    pub counted: Option<Counted>,
    /// Its triggers.
    pub triggers: Vec<Trigger>,
    /// The tables that it inherits from, or the partitioned table that it is a partition of.
    pub parents: Vec<RelationId>,
    /// It is a partition: what belongs to it.
    pub partition: Option<Bound>,
    /// It is partitioned: it has no rows of its own.
    pub partitioned: Option<Partitioning>,
}

/// The size of a table when it was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Pages.
    pub pages: usize,
    /// Rows.
    pub rows: f64,
    /// So few rows that reading all of them always costs less than looking one up in an index.
    pub is_small: bool,
}

impl Table {
    /// The planner knows that it is cheaper read from end to end, whatever its indexes.
    pub fn is_known_small(&self) -> bool {
        self.counted.is_some_and(|counted| counted.is_small)
    }

    /// The position of a live column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| !c.dropped && &*c.name == name)
    }

    /// Whether a column is part of the key of a unique, non-partial, non-expression index: changing
    /// such a column locks the row at full strength (PostgreSQL's "key update").
    pub fn is_key_column(&self, column: usize) -> bool {
        self.indexes.iter().any(|index| {
            index.unique
                && index.predicate.is_none()
                && !index.deferrable
                && index.keys.iter().all(|k| k.column.is_some())
                && index.keys.iter().any(|k| k.column == Some(column))
        })
    }
}

/// A view that the engine computes (`pg_locks`): its columns only.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualTable {
    /// Its name.
    pub name: Arc<str>,
    /// Names and types of its columns.
    pub columns: Vec<(Arc<str>, Type)>,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its id.
    pub id: RelationId,
    /// Its name.
    pub name: Arc<str>,
    /// The type that bounds it.
    pub ty: Type,
    /// First value.
    pub start: i64,
    /// Step.
    pub increment: i64,
    /// Least value.
    pub min: i64,
    /// Greatest value.
    pub max: i64,
    /// Starts again after the last value.
    pub cycle: bool,
    /// The column that owns it (serial, identity): it is dropped with it.
    pub owner: Option<(RelationId, usize)>,
}

/// A user-defined enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumType {
    /// Its id.
    pub id: EnumId,
    /// Its name.
    pub name: Arc<str>,
    /// The labels, in the order that comparison uses.
    pub labels: Vec<Arc<str>>,
}

/// What a name in `FROM` means.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A stored table.
    Table(Arc<Table>),
    /// A view computed by the engine.
    Virtual(Arc<VirtualTable>),
    /// A sequence read as a table (`last_value`, `log_cnt`, `is_called`).
    Sequence(Arc<Sequence>),
    /// An index: reading from it is an error of its own (42809).
    Index(RelationId),
}

/// Looks names up. `schema` is what the statement wrote before the dot, if anything.
pub trait Catalog {
    /// A relation that can be meant by a name.
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation>;

    /// A table by its id.
    fn table(&self, id: RelationId) -> Option<Arc<Table>>;

    /// The table that an index belongs to, and the index's position in it.
    fn index(&self, name: &str) -> Option<(Arc<Table>, usize)>;

    /// The tables that inherit from a table, in the order in which they are read: partitions by their
    /// bounds, others in order of creation.
    fn children(&self, id: RelationId) -> Vec<Arc<Table>> {
        let _ = id;
        Vec::new()
    }

    /// The functions of a name that users have defined.
    fn routines(&self, name: &str) -> Vec<Arc<Routine>> {
        let _ = name;
        Vec::new()
    }

    /// A function by its id.
    fn routine(&self, id: RoutineId) -> Option<Arc<Routine>> {
        let _ = id;
        None
    }

    /// Whether an extension of this name is installed in the database.
    fn extension(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// A sequence by name.
    fn sequence(&self, name: &str) -> Option<Arc<Sequence>>;

    /// A user-defined enumeration by name.
    fn enum_type(&self, name: &str) -> Option<Arc<EnumType>>;

    /// A user-defined enumeration by id.
    fn enum_by_id(&self, id: EnumId) -> Option<Arc<EnumType>>;
}
