//! The names that results get.

use sqlparser::ast::{DataType, Expr, SelectItem, SetExpr};

use super::ident;

/// How sure a name is: a column's or function's is better than a type's.
fn strength(e: &Expr) -> Option<(String, u8)> {
    let sure = |s: &str| Some((s.to_owned(), 2));
    match e {
        Expr::Identifier(name) => Some((ident(name), 2)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|p| (ident(p), 2)),
        Expr::Nested(inner) => strength(inner),
        Expr::Collate { expr, .. } => strength(expr),
        Expr::CompoundFieldAccess { root, .. } => strength(root),
        Expr::Function(f) => {
            let name = f.name.0.last()?.as_ident().map(ident)?;
            Some((name, 2))
        }
        Expr::Cast {
            expr, data_type, ..
        } => match strength(expr) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some((type_name(data_type), 1)),
        },
        Expr::TypedString(t) => Some((type_name(&t.data_type), 1)),
        Expr::Interval(_) => Some(("interval".to_owned(), 1)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(strength) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some(("case".to_owned(), 1)),
        },
        Expr::Exists { negated: false, .. } => sure("exists"),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first()? {
                SelectItem::UnnamedExpr(e) => strength(e).filter(|(_, s)| *s == 2),
                SelectItem::ExprWithAlias { alias, .. } => Some((ident(alias), 2)),
                _ => None,
            },
            _ => None,
        },
        Expr::Array(_) => sure("array"),
        Expr::Extract { .. } => sure("extract"),
        Expr::Ceil { .. } => sure("ceil"),
        Expr::Floor { .. } => sure("floor"),
        Expr::Position { .. } => sure("position"),
        Expr::Substring { shorthand, .. } => sure(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => sure(match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim",
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::AtTimeZone { .. } => sure("timezone"),
        Expr::Tuple(_) => sure("row"),
        _ => None,
    }
}

/// The name of a result column without an alias.
pub(super) fn name_of(e: &Expr) -> String {
    strength(e).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// The catalogue's name of a type, as a cast names its column.
fn type_name(ty: &DataType) -> String {
    let text = ty.to_string().to_ascii_lowercase();
    let base = text.split('(').next().unwrap_or_default();
    let base = base.trim_end_matches("[]").trim();
    match base {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "double precision" | "float" => "float8",
        "real" => "float4",
        "character varying" | "char varying" => "varchar",
        "char" | "character" => "bpchar",
        "decimal" | "dec" => "numeric",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}
