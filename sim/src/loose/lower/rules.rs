//! What the types of operands decide: how values are compared, and in which numbers is computed.

use rowlock_model::{Dialect, Value};

use crate::loose::expr::{Binary, Comparison, Expr, IntervalUnit, Numbers};
use crate::loose::query::{Kind, Ty, Width};
use crate::loose::types::{Affinity, Collation, DeclaredType};

/// An expression with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Ty,
    /// Byte offset in the text.
    pub(crate) at: usize,
}

impl Typed {
    pub(crate) fn new(expr: Expr, kind: Kind, dialect: Dialect, at: usize) -> Typed {
        Typed {
            expr,
            ty: plain(kind, dialect),
            at,
        }
    }
}

/// The type of a value that is no column.
pub(crate) fn plain(kind: Kind, dialect: Dialect) -> Ty {
    Ty {
        kind,
        affinity: None,
        collation: match kind {
            Kind::Bytes if dialect != Dialect::Sqlite => Collation::Binary,
            _ => Collation::default_of(dialect),
        },
        coercibility: match kind {
            Kind::Null => 6,
            _ => 4,
        },
        declared: None,
        width: usual_width(kind),
    }
}

/// The width of a value that has the widest type of its kind.
fn usual_width(kind: Kind) -> Width {
    let (bytes, digits, chars) = match kind {
        Kind::Int => (8, 20, 21),
        Kind::Unsigned => (8, 21, 21),
        Kind::Double => (8, 17, 23),
        Kind::Decimal(scale) => (0, 28, 28 + u32::from(scale > 0) + 1),
        Kind::Text | Kind::Bytes | Kind::Any => (0, 0, 255),
        Kind::Date => (0, 8, 10),
        Kind::Time(fsp) => (0, 6 + u32::from(fsp), 10 + with_point(fsp)),
        Kind::DateTime(fsp) => (0, 14 + u32::from(fsp), 19 + with_point(fsp)),
        Kind::Json => (0, 0, u32::MAX),
        Kind::Null => (0, 0, 0),
    };
    Width {
        bytes,
        digits,
        chars,
    }
}

fn with_point(fsp: u8) -> u32 {
    match fsp {
        0 => 0,
        fsp => u32::from(fsp) + 1,
    }
}

/// An integer of so many digits, as a function or operator gives it. MySQL's functions give `BIGINT`;
/// MariaDB's `INT` where every value is sure to fit.
pub(crate) fn integer(unsigned: bool, digits: u32, chars: u32, dialect: Dialect) -> Ty {
    let kind = match unsigned {
        true => Kind::Unsigned,
        false => Kind::Int,
    };
    let mut ty = plain(kind, dialect);
    ty.width = Width {
        bytes: match dialect {
            Dialect::MariaDb if chars < 10 => 4,
            _ => 8,
        },
        digits,
        chars,
    };
    ty
}

/// An integer of a width that the function has, whatever its digits: `INT` on MariaDB, `BIGINT` on
/// MySQL.
pub(crate) fn int(chars: u32, dialect: Dialect) -> Ty {
    let mut ty = integer(false, chars.saturating_sub(1).max(1), chars, dialect);
    if dialect == Dialect::MariaDb {
        ty.width.bytes = 4;
    }
    ty
}

/// A truth value.
pub(crate) fn truth(dialect: Dialect) -> Ty {
    if dialect == Dialect::Sqlite {
        return plain(Kind::Any, dialect);
    }
    let mut ty = int(1, dialect);
    ty.width.digits = 0;
    ty
}

/// The type of an integer literal.
pub(crate) fn literal(value: &Value, dialect: Dialect) -> Ty {
    let text = value.to_string();
    let digits = text.trim_start_matches('-').len() as u32;
    let chars = match dialect {
        Dialect::MariaDb => text.len() as u32,
        _ => digits + 1,
    };
    integer(false, digits, chars, dialect)
}

/// What `CAST(x AS SIGNED)` is on MariaDB: as wide as `x`.
pub(crate) fn cast_signed(from: &Ty, dialect: Dialect) -> Ty {
    let digits = match from.kind {
        Kind::Int | Kind::Unsigned | Kind::Decimal(_) => whole_digits(from).max(1),
        Kind::Text | Kind::Bytes => from.width.chars.clamp(1, 20),
        _ => 20,
    };
    let chars = match from.kind {
        Kind::Text | Kind::Bytes => digits,
        _ => digits + 1,
    };
    integer(false, digits, chars, dialect)
}

/// In which numbers `-x` computes, and its type.
pub(crate) fn negation(of: &Ty, dialect: Dialect) -> (Numbers, Ty) {
    if dialect == Dialect::Sqlite {
        return (Numbers::Dynamic, plain(Kind::Any, dialect));
    }
    match number_of(of.kind) {
        Kind::Double => (Numbers::Double, plain(Kind::Double, dialect)),
        Kind::Decimal(scale) => {
            let mut ty = decimal(of.width.digits, scale, dialect);
            ty.width.chars += u32::from(dialect == Dialect::MariaDb);
            (Numbers::Decimal { scale }, ty)
        }
        number => {
            let longer = match (dialect, number) {
                (Dialect::MariaDb, Kind::Int) | (_, Kind::Unsigned) => 1,
                _ => 0,
            };
            let chars = (of.width.chars + longer).max(2);
            (
                Numbers::Int,
                integer(false, of.width.digits, chars, dialect),
            )
        }
    }
}

/// The type of `date + INTERVAL amount unit`.
pub(crate) fn date_add(date: &Ty, amount: &Ty, unit: IntervalUnit, dialect: Dialect) -> Ty {
    let more = match (unit, amount.kind) {
        (IntervalUnit::Microsecond, _) => 6,
        (IntervalUnit::Second, Kind::Decimal(scale)) => scale.min(6),
        (IntervalUnit::Second, Kind::Double | Kind::Text) => 6,
        _ => 0,
    };
    match date.kind {
        Kind::Date if unit.is_whole_days() => plain(Kind::Date, dialect),
        Kind::Date => plain(Kind::DateTime(more), dialect),
        Kind::DateTime(fsp) => plain(Kind::DateTime(fsp.max(more)), dialect),
        Kind::Time(_) if unit.is_whole_days() && dialect == Dialect::MySql => {
            // Of the present day.
            plain(Kind::DateTime(scale_of(date.kind)), dialect)
        }
        Kind::Time(fsp) => plain(Kind::Time(fsp.max(more)), dialect),
        _ => {
            // A text that looks like a date or a time.
            let mut ty = text(29, dialect);
            ty.declared = Some(DeclaredType::Char(29));
            ty
        }
    }
}

/// The type of `MIN(x)` and `MAX(x)`: that of `x`, but integers that are computed are `BIGINT`.
pub(crate) fn extreme(of: &Ty, dialect: Dialect) -> Ty {
    let mut ty = of.clone();
    match (of.kind, dialect) {
        (Kind::Int | Kind::Unsigned, Dialect::MariaDb)
            if of.declared.is_none() && of.width.digits > 0 =>
        {
            ty.width.bytes = 8;
        }
        (Kind::Null, Dialect::MariaDb) => ty.kind = Kind::Bytes,
        (Kind::Text, _) => {
            // MySQL gives the labels of an ENUM as CHAR, MariaDB as VARCHAR.
            if let Some(DeclaredType::Enum(_)) = of.declared {
                ty.declared = match dialect {
                    Dialect::MySql => Some(DeclaredType::Char(of.width.chars)),
                    _ => None,
                };
            }
        }
        _ => {}
    }
    ty
}

/// The type of `LAG(x)` and the like: that of `x` as an expression.
pub(crate) fn of_other_row(of: &Ty, dialect: Dialect) -> Ty {
    let mut ty = of.clone();
    if dialect == Dialect::Sqlite {
        ty.declared = None;
    }
    if matches!(of.kind, Kind::Int | Kind::Unsigned) {
        ty.declared = None;
        if dialect == Dialect::MySql {
            ty.width.bytes = 8;
        }
    }
    ty
}

/// A decimal of so many digits, `scale` of them after the point.
pub(crate) fn decimal(digits: u32, scale: u8, dialect: Dialect) -> Ty {
    let mut ty = plain(Kind::Decimal(scale), dialect);
    ty.width.digits = digits;
    ty.width.chars = digits + u32::from(scale > 0) + 1;
    ty
}

/// A text of at most so many characters.
pub(crate) fn text(chars: u32, dialect: Dialect) -> Ty {
    let mut ty = plain(Kind::Text, dialect);
    ty.width.chars = chars;
    ty
}

/// The digits that an integer or decimal has before its point.
pub(crate) fn whole_digits(ty: &Ty) -> u32 {
    ty.width.digits.saturating_sub(u32::from(scale_of(ty.kind)))
}

fn scale_of(kind: Kind) -> u8 {
    match kind {
        Kind::Decimal(scale) | Kind::Time(scale) | Kind::DateTime(scale) => scale,
        _ => 0,
    }
}

/// The type that a column of a derived table or common table expression has which is computed into a
/// temporary table: MySQL takes the narrower integer there.
pub(crate) fn stored(ty: &Ty, dialect: Dialect) -> Ty {
    let mut ty = ty.clone();
    match ty.kind {
        Kind::Int | Kind::Unsigned
            if dialect == Dialect::MySql && ty.declared.is_none() && ty.width.chars < 10 =>
        {
            ty.width.bytes = ty.width.bytes.min(4);
        }
        Kind::Null => {
            ty.kind = Kind::Bytes;
            if dialect == Dialect::MariaDb {
                ty.declared = Some(DeclaredType::Binary(0));
            }
        }
        _ => {}
    }
    ty
}

/// The type of a column.
pub(crate) fn of_column(declared: &DeclaredType, collation: Collation) -> Ty {
    let kind = match declared {
        DeclaredType::Int { unsigned: true, .. } => Kind::Unsigned,
        DeclaredType::Year => Kind::Unsigned,
        DeclaredType::Int { .. } => Kind::Int,
        DeclaredType::Decimal { scale, .. } => Kind::Decimal(*scale),
        DeclaredType::Float | DeclaredType::Double => Kind::Double,
        DeclaredType::Char(_)
        | DeclaredType::Varchar(_)
        | DeclaredType::Text(_)
        | DeclaredType::Enum(_) => Kind::Text,
        DeclaredType::Binary(_) | DeclaredType::Varbinary(_) | DeclaredType::Blob(_) => Kind::Bytes,
        DeclaredType::Date => Kind::Date,
        DeclaredType::Time(fsp) => Kind::Time(*fsp),
        DeclaredType::DateTime(fsp) | DeclaredType::Timestamp(fsp) => Kind::DateTime(*fsp),
        DeclaredType::Json => Kind::Json,
        DeclaredType::Sqlite { .. } => Kind::Any,
    };
    Ty {
        kind,
        affinity: match declared {
            DeclaredType::Sqlite { affinity, .. } => Some(*affinity),
            _ => None,
        },
        collation,
        coercibility: 2,
        declared: Some(declared.clone()),
        width: width_of_column(declared, kind),
    }
}

fn width_of_column(declared: &DeclaredType, kind: Kind) -> Width {
    let mut width = usual_width(kind);
    match declared {
        DeclaredType::Int { bytes, unsigned } => {
            width.bytes = *bytes;
            width.digits = match bytes {
                1 => 3,
                2 => 5,
                3 => 7 + u32::from(*unsigned),
                4 => 10,
                _ => 19 + u32::from(*unsigned),
            };
            width.chars = width.digits + u32::from(!unsigned);
            if *bytes == 8 {
                width.chars = 20;
            }
        }
        DeclaredType::Year => {
            width.bytes = 2;
            width.digits = 4;
            width.chars = 4;
        }
        DeclaredType::Decimal {
            precision, scale, ..
        } => {
            width.digits = u32::from(*precision);
            width.chars = width.digits + u32::from(*scale > 0) + 1;
        }
        DeclaredType::Float => width.bytes = 4,
        DeclaredType::Char(chars) | DeclaredType::Varchar(chars) => width.chars = *chars,
        DeclaredType::Binary(bytes) | DeclaredType::Varbinary(bytes) => width.chars = *bytes,
        // A client is told of four bytes a character for each byte.
        DeclaredType::Text(bytes) => width.chars = bytes.saturating_mul(4),
        DeclaredType::Blob(bytes) => width.chars = *bytes,
        DeclaredType::Enum(labels) => {
            let longest = labels.iter().map(|label| label.chars().count()).max();
            width.chars = longest.unwrap_or(0) as u32;
        }
        _ => {}
    }
    width
}

/// The collation of a comparison of two texts: the one that insists more strongly; the left one on a
/// tie (SQLite, "Datatypes", section 7.1).
pub(crate) fn collation(left: &Ty, right: &Ty) -> Collation {
    match right.coercibility < left.coercibility {
        true => right.collation,
        false => left.collation,
    }
}

/// How values of the two types are compared.
pub(crate) fn comparison(left: &Ty, right: &Ty, dialect: Dialect) -> Comparison {
    let collation = collation(left, right);
    if dialect == Dialect::Sqlite {
        let applied = sqlite_affinity(left.affinity, right.affinity);
        return Comparison::Classes {
            left: applied,
            right: applied,
            collation,
        };
    }
    use Kind as K;
    match (left.kind, right.kind) {
        (K::Json, _) | (_, K::Json) => Comparison::Json,
        (K::Text | K::Null | K::Any, K::Text | K::Null | K::Any) => Comparison::Text(collation),
        (K::Bytes, K::Text | K::Bytes | K::Null | K::Any)
        | (K::Text | K::Null | K::Any, K::Bytes) => Comparison::Text(Collation::Binary),
        (K::Time(_), K::Time(_) | K::Text | K::Null) | (K::Text | K::Null, K::Time(_)) => {
            Comparison::Time
        }
        (
            K::Date | K::DateTime(_),
            K::Date | K::DateTime(_) | K::Text | K::Null | K::Any | K::Time(_),
        )
        | (K::Text | K::Null | K::Any | K::Time(_), K::Date | K::DateTime(_)) => {
            Comparison::DateTime
        }
        (
            K::Int | K::Unsigned | K::Decimal(_) | K::Null,
            K::Int | K::Unsigned | K::Decimal(_) | K::Null,
        ) => Comparison::Exact,
        _ => Comparison::Double,
    }
}

/// The affinity that SQLite applies to both sides of a comparison ("Datatypes", section 4.2).
fn sqlite_affinity(left: Option<Affinity>, right: Option<Affinity>) -> Option<Affinity> {
    match (left, right) {
        (Some(left), Some(right)) => match left.is_numeric() || right.is_numeric() {
            true => Some(Affinity::Numeric),
            false => None,
        },
        (Some(only), None) | (None, Some(only)) => match only {
            Affinity::Blob => None,
            other => Some(other),
        },
        (None, None) => None,
    }
}

/// How values of one type are compared with each other (grouping, sorting, `DISTINCT`).
pub(crate) fn own_comparison(ty: &Ty, dialect: Dialect) -> Comparison {
    if dialect == Dialect::Sqlite {
        return Comparison::Classes {
            left: None,
            right: None,
            collation: ty.collation,
        };
    }
    comparison(ty, ty, dialect)
}

/// In which numbers a binary operator computes, and the type of its value (MySQL manual, "Arithmetic
/// Operators"; the widths as the servers describe their results).
pub(crate) fn arithmetic(op: Binary, left: &Ty, right: &Ty, dialect: Dialect) -> (Numbers, Ty) {
    if dialect == Dialect::Sqlite {
        return (Numbers::Dynamic, plain(Kind::Any, dialect));
    }
    if matches!(
        op,
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight
    ) {
        return (Numbers::Unsigned, plain(Kind::Unsigned, dialect));
    }
    let (l, r) = (number_of(left.kind), number_of(right.kind));
    let unsigned = match op {
        Binary::Modulo => l == Kind::Unsigned,
        _ => l == Kind::Unsigned || r == Kind::Unsigned,
    };
    let numbers = match unsigned {
        true => Numbers::Unsigned,
        false => Numbers::Int,
    };
    let sign = u32::from(!unsigned);
    if op == Binary::IntDivide {
        let digits = match (l, dialect) {
            (Kind::Double, _) => 21,
            _ => whole_digits(left).max(1),
        };
        let chars = digits + if dialect == Dialect::MySql { sign } else { 0 };
        return (numbers, integer(unsigned, digits, chars, dialect));
    }
    if l == Kind::Double || r == Kind::Double {
        return (Numbers::Double, plain(Kind::Double, dialect));
    }
    let (ls, rs) = (u32::from(scale_of(l)), u32::from(scale_of(r)));
    let (lw, rw) = (
        left.width.digits.saturating_sub(ls),
        right.width.digits.saturating_sub(rs),
    );
    let exact =
        op == Binary::Divide || matches!((l, r), (Kind::Decimal(_), _) | (_, Kind::Decimal(_)));
    if exact {
        let (digits, scale) = match op {
            Binary::Divide => (left.width.digits + rs + 4, ls + 4),
            Binary::Multiply => (left.width.digits + right.width.digits, ls + rs),
            Binary::Modulo => (lw.max(rw) + ls.max(rs), ls.max(rs)),
            _ => (lw.max(rw) + 1 + ls.max(rs), ls.max(rs)),
        };
        let scale = scale.min(28) as u8;
        return (
            Numbers::Decimal { scale },
            decimal(digits.min(65), scale, dialect),
        );
    }
    let digits = match op {
        Binary::Multiply => left.width.digits.max(1) + right.width.digits.max(1),
        Binary::Modulo => left.width.digits.max(right.width.digits),
        _ => left.width.digits.max(right.width.digits).max(1) + 1,
    };
    let digits = digits.max(1);
    let chars = (digits + sign).min(22);
    (numbers, integer(unsigned, digits, chars, dialect))
}

/// What an operand is to arithmetic.
fn number_of(kind: Kind) -> Kind {
    match kind {
        Kind::Text | Kind::Bytes | Kind::Json | Kind::Double | Kind::Any | Kind::Null => {
            Kind::Double
        }
        Kind::Int | Kind::Date => Kind::Int,
        Kind::Time(0) | Kind::DateTime(0) => Kind::Int,
        Kind::Time(fsp) | Kind::DateTime(fsp) => Kind::Decimal(fsp),
        other => other,
    }
}

/// The type of a value that is one of several (`CASE`, `COALESCE`, the arms of `UNION`).
pub(crate) fn unite(left: &Ty, right: &Ty, dialect: Dialect) -> Ty {
    use Kind as K;
    if dialect == Dialect::Sqlite {
        let mut ty = plain(K::Any, dialect);
        ty.collation = left.collation;
        return ty;
    }
    let only = match (left.kind, right.kind) {
        (K::Null, _) => Some(right),
        (_, K::Null) => Some(left),
        _ => None,
    };
    if let Some(only) = only {
        return Ty {
            declared: None,
            ..only.clone()
        };
    }
    let (kind, bytes) = united_kind(left, right, dialect);
    let mut ty = plain(kind, dialect);
    ty.collation = collation(left, right);
    ty.coercibility = left.coercibility.min(right.coercibility);
    ty.width.bytes = bytes;
    let scale = u32::from(scale_of(kind));
    ty.width.digits = whole_digits(left).max(whole_digits(right)) + scale;
    ty.width.chars = match kind {
        K::Text | K::Bytes | K::Int | K::Unsigned => left.width.chars.max(right.width.chars),
        K::Decimal(_) => ty.width.digits + u32::from(scale > 0) + 1,
        _ => ty.width.chars,
    };
    // Types that no kind tells apart.
    ty.declared = match (&left.declared, &right.declared) {
        (Some(DeclaredType::Timestamp(a)), Some(DeclaredType::Timestamp(b))) => {
            Some(DeclaredType::Timestamp(*a.max(b)))
        }
        (Some(DeclaredType::Char(a)), Some(DeclaredType::Char(b))) => {
            Some(DeclaredType::Char(*a.max(b)))
        }
        _ => None,
    };
    ty
}

/// The kind of a value that is of either type, and the bytes of a number.
fn united_kind(left: &Ty, right: &Ty, dialect: Dialect) -> (Kind, u8) {
    use Kind as K;
    let bytes = left.width.bytes.max(right.width.bytes);
    let kind = match (left.kind, right.kind) {
        (K::Any, other) | (other, K::Any) => other,
        (K::Int, K::Int) => K::Int,
        (K::Unsigned, K::Unsigned) => K::Unsigned,
        (K::Int, K::Unsigned) => return mixed_signs(left, right, dialect),
        (K::Unsigned, K::Int) => return mixed_signs(right, left, dialect),
        (K::Decimal(a), K::Decimal(b)) => K::Decimal(a.max(b)),
        (K::Decimal(a), K::Int | K::Unsigned) | (K::Int | K::Unsigned, K::Decimal(a)) => {
            K::Decimal(a)
        }
        (K::Double, K::Double) => return (K::Double, bytes),
        // A `FLOAT` stays one beside integers, except beside `INT`.
        (K::Double, K::Int | K::Unsigned) => {
            let single = left.width.bytes == 4 && right.width.bytes != 4;
            return (K::Double, if single { 4 } else { 8 });
        }
        (K::Int | K::Unsigned, K::Double) => {
            let single = right.width.bytes == 4 && left.width.bytes != 4;
            return (K::Double, if single { 4 } else { 8 });
        }
        (K::Double, K::Decimal(_)) | (K::Decimal(_), K::Double) => return (K::Double, 8),
        (K::Date, K::Date) => K::Date,
        (K::Time(a), K::Time(b)) => K::Time(a.max(b)),
        (K::DateTime(a), K::DateTime(b)) => K::DateTime(a.max(b)),
        (K::DateTime(a), K::Date) | (K::Date, K::DateTime(a)) => K::DateTime(a),
        (K::Time(a), K::DateTime(b)) | (K::DateTime(b), K::Time(a)) => K::DateTime(a.max(b)),
        (K::Time(a), K::Date) | (K::Date, K::Time(a)) => K::DateTime(a),
        (K::Json, K::Json) => K::Json,
        (K::Bytes, _) | (_, K::Bytes) => K::Bytes,
        _ => K::Text,
    };
    (kind, bytes)
}

/// An integer that is signed or unsigned: MySQL takes the next wider type where the unsigned one is not
/// the narrower, MariaDB a decimal.
fn mixed_signs(signed: &Ty, unsigned: &Ty, dialect: Dialect) -> (Kind, u8) {
    if dialect == Dialect::MariaDb {
        return (Kind::Decimal(0), 0);
    }
    let (s, u) = (signed.width.bytes, unsigned.width.bytes);
    let bytes = match u {
        _ if s > u => s,
        1..=3 => u + 1,
        4 => 8,
        _ => return (Kind::Decimal(0), 0),
    };
    (Kind::Int, bytes)
}
