//! What the types of operands decide: how values are compared, and in which numbers is computed.

use rowlock_model::Dialect;

use crate::loose::expr::{Binary, Comparison, Expr, Numbers};
use crate::loose::query::{Kind, Ty};
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
    }
}

/// The type of a column.
pub(crate) fn of_column(declared: &DeclaredType, collation: Collation) -> Ty {
    let kind = match declared {
        DeclaredType::Int { unsigned: true, .. } => Kind::Unsigned,
        DeclaredType::Int { .. } | DeclaredType::Year => Kind::Int,
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
    }
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

/// In which numbers a binary operator computes, and the kind of its value.
pub(crate) fn arithmetic(op: Binary, left: Kind, right: Kind, dialect: Dialect) -> (Numbers, Kind) {
    if dialect == Dialect::Sqlite {
        return (Numbers::Dynamic, Kind::Any);
    }
    let family = |kind: Kind| match kind {
        Kind::Text | Kind::Bytes | Kind::Json | Kind::Double | Kind::Any => Kind::Double,
        Kind::Null | Kind::Int | Kind::Date => Kind::Int,
        Kind::Time(0) | Kind::DateTime(0) => Kind::Int,
        Kind::Time(fsp) | Kind::DateTime(fsp) => Kind::Decimal(fsp),
        other => other,
    };
    let (left, right) = (family(left), family(right));
    let scale = |kind: Kind| match kind {
        Kind::Decimal(scale) => scale,
        _ => 0,
    };
    match op {
        Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::ShiftLeft
        | Binary::ShiftRight => return (Numbers::Unsigned, Kind::Unsigned),
        Binary::IntDivide => {
            return match left == Kind::Unsigned || right == Kind::Unsigned {
                true => (Numbers::Unsigned, Kind::Unsigned),
                false => (Numbers::Int, Kind::Int),
            };
        }
        _ => {}
    }
    if left == Kind::Double || right == Kind::Double {
        return (Numbers::Double, Kind::Double);
    }
    let scale = match op {
        Binary::Divide => Some(scale(left) + 4),
        Binary::Multiply
            if matches!((left, right), (Kind::Decimal(_), _) | (_, Kind::Decimal(_))) =>
        {
            Some(scale(left) + scale(right))
        }
        _ if matches!((left, right), (Kind::Decimal(_), _) | (_, Kind::Decimal(_))) => {
            Some(scale(left).max(scale(right)))
        }
        _ => None,
    };
    match scale {
        Some(scale) => {
            let scale = scale.min(28);
            (Numbers::Decimal { scale }, Kind::Decimal(scale))
        }
        None if left == Kind::Unsigned || right == Kind::Unsigned => {
            (Numbers::Unsigned, Kind::Unsigned)
        }
        None => (Numbers::Int, Kind::Int),
    }
}

/// The kind of a value that is one of several (`CASE`, `COALESCE`, the arms of `UNION`).
pub(crate) fn unite(left: &Ty, right: &Ty, dialect: Dialect) -> Ty {
    use Kind as K;
    if dialect == Dialect::Sqlite {
        let mut ty = plain(K::Any, dialect);
        ty.collation = left.collation;
        return ty;
    }
    if left.kind == K::Null {
        return Ty {
            declared: None,
            ..right.clone()
        };
    }
    if right.kind == K::Null || left.kind == right.kind {
        let collation = collation(left, right);
        return Ty {
            collation,
            coercibility: left.coercibility.min(right.coercibility),
            declared: None,
            ..left.clone()
        };
    }
    let kind = match (left.kind, right.kind) {
        (K::Any, other) | (other, K::Any) => other,
        (K::Int, K::Unsigned) | (K::Unsigned, K::Int) => K::Decimal(0),
        (K::Decimal(a), K::Decimal(b)) => K::Decimal(a.max(b)),
        (K::Decimal(a), K::Int | K::Unsigned) | (K::Int | K::Unsigned, K::Decimal(a)) => {
            K::Decimal(a)
        }
        (K::Double, K::Int | K::Unsigned | K::Decimal(_))
        | (K::Int | K::Unsigned | K::Decimal(_), K::Double) => K::Double,
        (K::DateTime(a), K::DateTime(b)) => K::DateTime(a.max(b)),
        (K::DateTime(a), K::Date) | (K::Date, K::DateTime(a)) => K::DateTime(a),
        _ => K::Text,
    };
    let mut ty = plain(kind, dialect);
    ty.collation = collation(left, right);
    ty.coercibility = left.coercibility.min(right.coercibility);
    ty
}
