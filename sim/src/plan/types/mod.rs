//! SQL types, as PostgreSQL knows them.

use std::fmt;

pub mod coerce;
pub mod convert;
pub mod datetime;
pub mod input;
pub mod json;
pub mod number;
pub mod output;

/// A user-defined enumeration, by its position in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnumId(pub u32);

/// A type without its modifier. How values of it are held in a [`rowlock_model::Value`]:
/// every integer, `oid`, `xid` and `xid8` as `Int`; all character types, `uuid`, `json`, `regclass`
/// (the relation's name), enumerations (the label) and `record` (its output text) as `Text`; `void`
/// as an empty `Text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `boolean`.
    Bool,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// `numeric`.
    Numeric,
    /// `text`.
    Text,
    /// `character varying`.
    Varchar,
    /// `character`, blank-padded.
    Char,
    /// `name`.
    Name,
    /// `bytea`.
    Bytea,
    /// `date`.
    Date,
    /// `time without time zone`.
    Time,
    /// `timestamp without time zone`.
    Timestamp,
    /// `timestamp with time zone`.
    TimestampTz,
    /// `interval`.
    Interval,
    /// `uuid`.
    Uuid,
    /// `json`.
    Json,
    /// `jsonb`.
    Jsonb,
    /// `oid`.
    Oid,
    /// `regclass`.
    RegClass,
    /// `xid`.
    Xid,
    /// `xid8`.
    Xid8,
    /// `tid`, the address of a row version.
    Tid,
    /// `void`.
    Void,
    /// The type of a row.
    Record,
    /// A quoted literal or parameter whose type is not resolved yet; never in a finished plan
    /// except as the type of an output column.
    Unknown,
    /// A user-defined enumeration.
    Enum(EnumId),
    /// A one-dimensional array.
    Array(&'static Type),
}

/// What a declaration adds to a type: `varchar(20)`, `numeric(10,2)`, `timestamp(0)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modifier {
    /// The greatest number of characters.
    Length(u32),
    /// Digits in all, and digits after the point.
    Decimal {
        /// Digits in all.
        precision: u32,
        /// Digits after the point.
        scale: u32,
    },
    /// Digits of the fraction of a second.
    Fraction(u32),
}

/// A type as a column declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The type.
    pub ty: Type,
    /// Its modifier, if any.
    pub modifier: Option<Modifier>,
}

impl From<Type> for Declared {
    fn from(ty: Type) -> Declared {
        Declared { ty, modifier: None }
    }
}

impl Type {
    /// The name as `format_type` and error messages print it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "boolean",
            Type::Int2 => "smallint",
            Type::Int4 => "integer",
            Type::Int8 => "bigint",
            Type::Float4 => "real",
            Type::Float8 => "double precision",
            Type::Numeric => "numeric",
            Type::Text => "text",
            Type::Varchar => "character varying",
            Type::Char => "character",
            Type::Name => "name",
            Type::Bytea => "bytea",
            Type::Date => "date",
            Type::Time => "time without time zone",
            Type::Timestamp => "timestamp without time zone",
            Type::TimestampTz => "timestamp with time zone",
            Type::Interval => "interval",
            Type::Uuid => "uuid",
            Type::Json => "json",
            Type::Jsonb => "jsonb",
            Type::Oid => "oid",
            Type::RegClass => "regclass",
            Type::Xid => "xid",
            Type::Xid8 => "xid8",
            Type::Tid => "tid",
            Type::Void => "void",
            Type::Record => "record",
            Type::Unknown => "unknown",
            Type::Enum(_) => "enum",
            Type::Array(element) => match element {
                Type::Bool => "boolean[]",
                Type::Int2 => "smallint[]",
                Type::Int4 => "integer[]",
                Type::Int8 => "bigint[]",
                Type::Float4 => "real[]",
                Type::Float8 => "double precision[]",
                Type::Numeric => "numeric[]",
                Type::Text => "text[]",
                Type::Varchar => "character varying[]",
                Type::Char => "character[]",
                Type::Name => "name[]",
                Type::Bytea => "bytea[]",
                Type::Date => "date[]",
                Type::Time => "time without time zone[]",
                Type::Timestamp => "timestamp without time zone[]",
                Type::TimestampTz => "timestamp with time zone[]",
                Type::Interval => "interval[]",
                Type::Uuid => "uuid[]",
                Type::Json => "json[]",
                Type::Jsonb => "jsonb[]",
                Type::Oid => "oid[]",
                Type::Xid8 => "xid8[]",
                _ => "anyarray",
            },
        }
    }

    /// The catalogue's short name, as drivers and [`rowlock_model::Column::type_name`] give it:
    /// `int4`, `timestamptz`, `_text` for an array.
    pub fn internal_name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Int2 => "int2",
            Type::Int4 => "int4",
            Type::Int8 => "int8",
            Type::Float4 => "float4",
            Type::Float8 => "float8",
            Type::Varchar => "varchar",
            Type::Char => "bpchar",
            Type::Time => "time",
            Type::Timestamp => "timestamp",
            Type::TimestampTz => "timestamptz",
            // A client sees an unresolved literal as text.
            Type::Unknown => "text",
            Type::Array(element) => match element {
                Type::Bool => "_bool",
                Type::Int2 => "_int2",
                Type::Int4 => "_int4",
                Type::Int8 => "_int8",
                Type::Float4 => "_float4",
                Type::Float8 => "_float8",
                Type::Numeric => "_numeric",
                Type::Text => "_text",
                Type::Varchar => "_varchar",
                Type::Char => "_bpchar",
                Type::Name => "_name",
                Type::Bytea => "_bytea",
                Type::Date => "_date",
                Type::Time => "_time",
                Type::Timestamp => "_timestamp",
                Type::TimestampTz => "_timestamptz",
                Type::Interval => "_interval",
                Type::Uuid => "_uuid",
                Type::Json => "_json",
                Type::Jsonb => "_jsonb",
                Type::Oid => "_oid",
                Type::Xid8 => "_xid8",
                _ => "anyarray",
            },
            other => other.name(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
