//! Which type may stand for which: the contents of `pg_cast` for the types that are modelled, and
//! the categories by which ambiguous operators and functions are resolved.

use super::Type;

/// In which situations a conversion is applied without being asked for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// In any expression.
    Implicit,
    /// When storing into a column.
    Assignment,
    /// Only when written.
    Explicit,
}

/// The groups in which a preferred type wins (`pg_type.typcategory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Booleans.
    Boolean,
    /// Numbers and object ids.
    Numeric,
    /// Character types.
    String,
    /// Dates and times.
    DateTime,
    /// Intervals.
    Timespan,
    /// Arrays.
    Array,
    /// Enumerations.
    Enum,
    /// Types of no group.
    User,
    /// Rows and `void`.
    Pseudo,
    /// Literals without a type.
    Unknown,
}

/// The category of a type.
pub fn category(ty: Type) -> Category {
    match ty {
        Type::Bool => Category::Boolean,
        Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Float4
        | Type::Float8
        | Type::Numeric
        | Type::Oid
        | Type::RegClass => Category::Numeric,
        Type::Text | Type::Varchar | Type::Char | Type::Name => Category::String,
        Type::Date | Type::Time | Type::Timestamp | Type::TimestampTz => Category::DateTime,
        Type::Interval => Category::Timespan,
        Type::Array(_) => Category::Array,
        Type::Enum(_) => Category::Enum,
        Type::Void | Type::Record => Category::Pseudo,
        Type::Unknown => Category::Unknown,
        Type::Bytea
        | Type::Uuid
        | Type::Json
        | Type::Jsonb
        | Type::Xid
        | Type::Xid8
        | Type::Tid => Category::User,
    }
}

/// Whether a type is the preferred one of its category.
pub fn is_preferred(ty: Type) -> bool {
    matches!(
        ty,
        Type::Bool | Type::Float8 | Type::Oid | Type::Text | Type::TimestampTz | Type::Interval
    )
}

/// Whether values pass from one type to the other unchanged (no function of the source type is
/// hidden by it): `varchar` to `text`.
pub fn is_binary(from: Type, to: Type) -> bool {
    from == to
        || matches!(
            (from, to),
            (Type::Varchar, Type::Text)
                | (Type::Text, Type::Varchar)
                | (Type::Oid, Type::RegClass)
                | (Type::RegClass, Type::Oid)
        )
}

/// The weakest context in which `from` converts to `to`; `None` if never.
pub fn cast_context(from: Type, to: Type) -> Option<Context> {
    use Type::{
        Bool, Char, Date, Float4, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Name, Numeric,
        Oid, RegClass, Text, Time, Timestamp, TimestampTz, Unknown, Varchar, Xid, Xid8,
    };
    if from == to || from == Unknown {
        return Some(Context::Implicit);
    }
    let context = match (from, to) {
        (Int2, Int4 | Int8 | Float4 | Float8 | Numeric | Oid | RegClass)
        | (Int4, Int8 | Float4 | Float8 | Numeric | Oid | RegClass)
        | (Int8, Float4 | Float8 | Numeric | Oid | RegClass)
        | (Numeric, Float4 | Float8)
        | (Float4, Float8)
        | (Oid, RegClass)
        | (RegClass, Oid)
        | (Text, Varchar | Char | Name | RegClass)
        | (Varchar, Text | Char | Name | RegClass)
        | (Char, Text | Varchar | Name)
        | (Name, Text)
        | (Date, Timestamp | TimestampTz)
        | (Timestamp, TimestampTz)
        | (Time, Interval) => Context::Implicit,
        (Int4, Int2)
        | (Int8, Int2 | Int4)
        | (Numeric, Int2 | Int4 | Int8)
        | (Float4 | Float8, Int2 | Int4 | Int8 | Numeric)
        | (Float8, Float4)
        | (Oid, Int4 | Int8)
        | (RegClass, Int4 | Int8)
        | (Name, Varchar | Char)
        | (TimestampTz, Timestamp | Date | Time)
        | (Timestamp, Date | Time)
        | (Interval, Time)
        | (Json, Jsonb)
        | (Jsonb, Json) => Context::Assignment,
        (Int4, Bool) | (Bool, Int4) | (Xid8, Xid) => Context::Explicit,
        (Type::Array(a), Type::Array(b)) => return cast_context(*a, *b),
        (Type::Record | Type::Void, _) if category(to) != Category::String => return None,
        // Everything can be written as text into a column, and read from text when asked to.
        (_, Text | Varchar | Char | Name) if to != Name => Context::Assignment,
        (_, Name) => Context::Explicit,
        (Text | Varchar | Char | Name, _) if !matches!(to, Type::Record | Type::Void) => {
            Context::Explicit
        }
        _ => return None,
    };
    Some(context)
}

/// Whether `from` can stand for `to` in `context`.
pub fn can_coerce(from: Type, to: Type, context: Context) -> bool {
    cast_context(from, to).is_some_and(|needed| needed <= context)
}

/// The common type of `UNION` arms, `CASE` results, `VALUES` columns, `IN` lists: the manual's
/// rules for "UNION, CASE and related constructs". `Err` gives the two types that do not match.
///
/// # Errors
/// The types are of different categories or do not convert.
pub fn common_type(types: &[Type]) -> Result<Type, (Type, Type)> {
    let first = types.first().copied().unwrap_or(Type::Unknown);
    if first != Type::Unknown && types.iter().all(|t| *t == first) {
        return Ok(first);
    }
    let mut chosen = first;
    for &next in types.iter().skip(1) {
        if next == Type::Unknown || next == chosen {
            continue;
        }
        if chosen == Type::Unknown {
            chosen = next;
        } else if category(next) != category(chosen) {
            return Err((chosen, next));
        } else if !is_preferred(chosen)
            && can_coerce(chosen, next, Context::Implicit)
            && !can_coerce(next, chosen, Context::Implicit)
        {
            chosen = next;
        }
    }
    if chosen == Type::Unknown {
        chosen = Type::Text;
    }
    for &ty in types {
        if !can_coerce(ty, chosen, Context::Implicit) {
            return Err((chosen, ty));
        }
    }
    Ok(chosen)
}
