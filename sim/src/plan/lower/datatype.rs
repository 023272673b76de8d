//! Type names.

use rowlock_model::DbError;
use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use super::{Lowering, error, ident, unsupported};
use crate::plan::types::{Declared, Modifier, Type};

/// Array types that are modelled; an array's element type must live as long as the program.
const ELEMENTS: [(&Type, Type); 21] = [
    (&Type::Bool, Type::Array(&Type::Bool)),
    (&Type::Int2, Type::Array(&Type::Int2)),
    (&Type::Int4, Type::Array(&Type::Int4)),
    (&Type::Int8, Type::Array(&Type::Int8)),
    (&Type::Float4, Type::Array(&Type::Float4)),
    (&Type::Float8, Type::Array(&Type::Float8)),
    (&Type::Numeric, Type::Array(&Type::Numeric)),
    (&Type::Text, Type::Array(&Type::Text)),
    (&Type::Varchar, Type::Array(&Type::Varchar)),
    (&Type::Char, Type::Array(&Type::Char)),
    (&Type::Name, Type::Array(&Type::Name)),
    (&Type::Bytea, Type::Array(&Type::Bytea)),
    (&Type::Date, Type::Array(&Type::Date)),
    (&Type::Time, Type::Array(&Type::Time)),
    (&Type::Timestamp, Type::Array(&Type::Timestamp)),
    (&Type::TimestampTz, Type::Array(&Type::TimestampTz)),
    (&Type::Interval, Type::Array(&Type::Interval)),
    (&Type::Uuid, Type::Array(&Type::Uuid)),
    (&Type::Xid8, Type::Array(&Type::Xid8)),
    (&Type::Json, Type::Array(&Type::Json)),
    (&Type::Jsonb, Type::Array(&Type::Jsonb)),
];

/// The array of an element type, if it is modelled.
pub(super) fn array_of(element: Type) -> Option<Type> {
    ELEMENTS
        .iter()
        .find(|(e, _)| **e == element)
        .map(|(_, a)| *a)
}

fn length(length: Option<&CharacterLength>) -> Option<Modifier> {
    match length {
        Some(CharacterLength::IntegerLength { length, unit: None }) => {
            u32::try_from(*length).ok().map(Modifier::Length)
        }
        _ => None,
    }
}

fn fraction(digits: Option<u64>) -> Option<Modifier> {
    digits.map(|d| Modifier::Fraction(d.min(6) as u32))
}

impl Lowering<'_> {
    /// The type that a name means.
    ///
    /// # Errors
    /// 42704 `type "x" does not exist`, or `unsupported`.
    pub(super) fn data_type(&self, ty: &DataType, at: usize) -> Result<Declared, DbError> {
        let plain = |ty: Type| Ok(Declared::from(ty));
        let with = |ty: Type, modifier: Option<Modifier>| Ok(Declared { ty, modifier });
        match ty {
            DataType::Boolean | DataType::Bool => plain(Type::Bool),
            DataType::SmallInt(None) | DataType::Int2(None) => plain(Type::Int2),
            DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => {
                plain(Type::Int4)
            }
            DataType::BigInt(None) | DataType::Int8(None) => plain(Type::Int8),
            DataType::Real | DataType::Float4 => plain(Type::Float4),
            DataType::Float8
            | DataType::DoublePrecision
            | DataType::Float(ExactNumberInfo::None) => plain(Type::Float8),
            DataType::Float(ExactNumberInfo::Precision(p)) => {
                plain(if *p <= 24 { Type::Float4 } else { Type::Float8 })
            }
            DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
                with(Type::Numeric, numeric(info))
            }
            DataType::Text => plain(Type::Text),
            DataType::Varchar(n) | DataType::CharacterVarying(n) | DataType::CharVarying(n) => {
                with(Type::Varchar, length(n.as_ref()))
            }
            DataType::Char(n) | DataType::Character(n) => {
                with(Type::Char, length(n.as_ref()).or(Some(Modifier::Length(1))))
            }
            DataType::Bytea => plain(Type::Bytea),
            DataType::Date => plain(Type::Date),
            DataType::Time(n, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                with(Type::Time, fraction(*n))
            }
            DataType::Timestamp(n, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                with(Type::Timestamp, fraction(*n))
            }
            DataType::Timestamp(n, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
                with(Type::TimestampTz, fraction(*n))
            }
            DataType::Interval {
                fields: None,
                precision,
            } => with(Type::Interval, fraction(*precision)),
            DataType::Uuid => plain(Type::Uuid),
            DataType::JSON => plain(Type::Json),
            DataType::JSONB => plain(Type::Jsonb),
            DataType::Regclass => plain(Type::RegClass),
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                let element = self.data_type(element, at)?;
                match array_of(element.ty) {
                    Some(ty) => with(ty, element.modifier),
                    None => unsupported(format!("arrays of {}", element.ty.name()), at),
                }
            }
            DataType::Custom(name, modifiers) => {
                let parts: Vec<String> = name
                    .0
                    .iter()
                    .filter_map(|p| p.as_ident().map(ident))
                    .collect();
                if !modifiers.is_empty() {
                    return unsupported("a type with modifiers", at);
                }
                self.named_type(&parts, at)
            }
            other => {
                let name = other.to_string().to_ascii_lowercase();
                if matches!(
                    other,
                    DataType::TinyInt(_)
                        | DataType::Datetime(_)
                        | DataType::MediumInt(_)
                        | DataType::Blob(_)
                ) {
                    return error("42704", format!("type \"{name}\" does not exist"), at);
                }
                unsupported(format!("the type {name}"), at)
            }
        }
    }

    fn named_type(&self, parts: &[String], at: usize) -> Result<Declared, DbError> {
        let name = parts.last().map_or("", String::as_str);
        let ty = match name {
            "xid" => Type::Xid,
            "xid8" => Type::Xid8,
            "oid" => Type::Oid,
            "name" => Type::Name,
            "tid" => Type::Tid,
            "bpchar" => Type::Char,
            "varchar" => Type::Varchar,
            "text" => Type::Text,
            "bool" => Type::Bool,
            "int2" => Type::Int2,
            "int4" => Type::Int4,
            "int8" => Type::Int8,
            "float4" => Type::Float4,
            "float8" => Type::Float8,
            "timestamptz" => Type::TimestampTz,
            "timestamp" => Type::Timestamp,
            "regclass" => Type::RegClass,
            "json" => Type::Json,
            "jsonb" => Type::Jsonb,
            "uuid" => Type::Uuid,
            "void" => Type::Void,
            "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" | "serial2" => {
                return error("42704", format!("type \"{name}\" does not exist"), at);
            }
            "money" | "inet" | "cidr" | "macaddr" | "bit" | "varbit" | "timetz" | "xml"
            | "regproc" | "regtype" | "int4range" | "int8range" | "tstzrange" | "tsrange"
            | "daterange" | "numrange" | "tsvector" | "point" => {
                return unsupported(format!("the type {name}"), at);
            }
            _ => match self.catalog.enum_type(name) {
                Some(labels) => Type::Enum(labels.id),
                None => {
                    let shown = parts.join(".");
                    return error("42704", format!("type \"{shown}\" does not exist"), at);
                }
            },
        };
        Ok(Declared::from(ty))
    }
}

fn numeric(info: &ExactNumberInfo) -> Option<Modifier> {
    match info {
        ExactNumberInfo::None => None,
        ExactNumberInfo::Precision(p) => Some(Modifier::Decimal {
            precision: *p as u32,
            scale: 0,
        }),
        ExactNumberInfo::PrecisionAndScale(p, s) => Some(Modifier::Decimal {
            precision: *p as u32,
            scale: (*s).max(0) as u32,
        }),
    }
}
