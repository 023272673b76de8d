//! Names of PostgreSQL types by object identifier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rowlock_model::Column;

use super::message::Described;

/// Types of the system catalogue (`pg_type.dat`; these numbers never change).
const BUILT_IN: &[(u32, &str)] = &[
    (16, "bool"),
    (17, "bytea"),
    (18, "char"),
    (19, "name"),
    (20, "int8"),
    (21, "int2"),
    (23, "int4"),
    (24, "regproc"),
    (25, "text"),
    (26, "oid"),
    (27, "tid"),
    (28, "xid"),
    (29, "cid"),
    (114, "json"),
    (142, "xml"),
    (194, "pg_node_tree"),
    (650, "cidr"),
    (700, "float4"),
    (701, "float8"),
    (705, "unknown"),
    (790, "money"),
    (829, "macaddr"),
    (869, "inet"),
    (1042, "bpchar"),
    (1043, "varchar"),
    (1082, "date"),
    (1083, "time"),
    (1114, "timestamp"),
    (1184, "timestamptz"),
    (1186, "interval"),
    (1266, "timetz"),
    (1560, "bit"),
    (1562, "varbit"),
    (1700, "numeric"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2249, "record"),
    (2278, "void"),
    (2950, "uuid"),
    (3220, "pg_lsn"),
    (3614, "tsvector"),
    (3615, "tsquery"),
    (3802, "jsonb"),
    (3904, "int4range"),
    (3926, "int8range"),
    (5038, "pg_snapshot"),
    (5069, "xid8"),
    (2970, "txid_snapshot"),
];

/// Array types of the system catalogue with the type of their items.
const ARRAYS: &[(u32, u32)] = &[
    (1000, 16),
    (1001, 17),
    (1002, 18),
    (1003, 19),
    (1005, 21),
    (1007, 23),
    (1009, 25),
    (1010, 27),
    (1011, 28),
    (1014, 1042),
    (1015, 1043),
    (1016, 20),
    (1021, 700),
    (1022, 701),
    (1028, 26),
    (1115, 1114),
    (1182, 1082),
    (1183, 1083),
    (1185, 1184),
    (1187, 1186),
    (1231, 1700),
    (199, 114),
    (271, 5069),
    (2210, 2205),
    (2951, 2950),
    (3807, 3802),
];

/// The type of an array's items, if `oid` is an array of the system catalogue.
pub(super) fn item_of(oid: u32) -> Option<u32> {
    ARRAYS
        .iter()
        .find(|(array, _)| *array == oid)
        .map(|(_, item)| *item)
}

/// The array type that holds items of type `oid`.
pub(super) fn array_of(oid: u32) -> Option<u32> {
    ARRAYS
        .iter()
        .find(|(_, item)| *item == oid)
        .map(|(array, _)| *array)
}

/// A type that a user defined.
#[derive(Clone, Debug)]
pub(super) struct UserType {
    /// `pg_type.typname`.
    pub(super) name: Arc<str>,
    /// An enum: its wire form is its label, in both formats.
    pub(super) is_enum: bool,
    /// The type of the items, for an array.
    pub(super) item: Option<u32>,
}

/// The names of built-in types, and of the user's as they become known. Shared by the sessions of
/// one database.
#[derive(Clone, Debug, Default)]
pub(super) struct TypeNames {
    user: Arc<Mutex<BTreeMap<u32, UserType>>>,
}

impl TypeNames {
    /// The name of a type, if it is known. Arrays are named `int4[]`.
    fn name(&self, oid: u32) -> Option<Arc<str>> {
        if let Some(item) = item_of(oid) {
            return Some(format!("{}[]", self.name(item)?).into());
        }
        if let Some((_, name)) = BUILT_IN.iter().find(|(known, _)| *known == oid) {
            return Some((*name).into());
        }
        let user = self.user(oid)?;
        match user.item {
            Some(item) => Some(format!("{}[]", self.name(item)?).into()),
            None => Some(user.name),
        }
    }

    /// What is known about a type of the user.
    pub(super) fn user(&self, oid: u32) -> Option<UserType> {
        self.user
            .lock()
            .expect("no panic while locked")
            .get(&oid)
            .cloned()
    }

    /// Whether a description names a type that must be asked for first.
    pub(super) fn misses(&self, oid: u32) -> bool {
        self.name(oid).is_none()
    }

    /// Remembers a type of the user.
    pub(super) fn learn(&self, oid: u32, user_type: UserType) {
        self.user
            .lock()
            .expect("no panic while locked")
            .insert(oid, user_type);
    }

    /// A column of a reply.
    pub(super) fn column(&self, described: Described) -> Column {
        Column {
            name: described.name.into(),
            type_name: self
                .name(described.oid)
                .unwrap_or_else(|| format!("oid {}", described.oid).into()),
        }
    }
}
