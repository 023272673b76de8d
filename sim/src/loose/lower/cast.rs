//! Casts, and declared types.

use rowlock_model::{DbError, Dialect};

use super::Lowering;
use super::rules::{self, Typed};
use crate::loose::ast::{self, Node, TypeName};
use crate::loose::errors;
use crate::loose::expr::{CastTarget, Expr};
use crate::loose::query::Kind;
use crate::loose::types::{Affinity, Collation, DeclaredType};

impl Lowering<'_> {
    pub(super) fn cast(
        &mut self,
        inner: &Node,
        ty: &TypeName,
        at: usize,
    ) -> Result<Typed, DbError> {
        let inner = self.expr(inner)?;
        let expr = Box::new(inner.expr.clone());
        if self.is_sqlite() {
            let affinity = Affinity::of_name(&ty.name);
            let mut typed = self.plain(
                Expr::Cast {
                    expr,
                    to: CastTarget::Affinity(affinity),
                },
                Kind::Any,
                at,
            );
            typed.ty.affinity = Some(affinity);
            return Ok(typed);
        }
        let dialect = self.dialect;
        let (to, ty) = match ty.name.as_str() {
            "SIGNED" => {
                let ty = match dialect {
                    Dialect::MariaDb => rules::cast_signed(&inner.ty, dialect),
                    _ => rules::plain(Kind::Int, dialect),
                };
                (CastTarget::Signed, ty)
            }
            "UNSIGNED" => (CastTarget::Unsigned, rules::plain(Kind::Unsigned, dialect)),
            "CHAR" | "BINARY" if ty.numbers.is_empty() => {
                // Without a length nothing is cut.
                let (declared, kind) = match ty.name.as_str() {
                    "CHAR" => (DeclaredType::Varchar(u32::MAX), Kind::Text),
                    _ => (DeclaredType::Varbinary(u32::MAX), Kind::Bytes),
                };
                let mut to = rules::plain(kind, dialect);
                to.width.chars = inner.ty.width.chars;
                (CastTarget::Declared(declared), to)
            }
            "CHAR" | "BINARY" => {
                let declared = self.mysql_type(ty)?;
                let mut to = rules::of_column(&declared, Collation::default_of(dialect));
                to.declared = None;
                let declared = match declared {
                    DeclaredType::Char(length) => DeclaredType::Varchar(length),
                    other => other,
                };
                (CastTarget::Declared(declared), to)
            }
            _ => {
                let declared = self.mysql_type(ty)?;
                let mut to = rules::of_column(&declared, Collation::default_of(dialect));
                to.declared = None;
                (CastTarget::Declared(declared), to)
            }
        };
        if matches!(inner.ty.kind, Kind::Time(_))
            && matches!(ty.kind, Kind::Date | Kind::DateTime(_))
        {
            return errors::unsupported("a time of day as a point in time", at);
        }
        let mut ty = ty;
        ty.coercibility = 4;
        Ok(self.typed(Expr::Cast { expr, to }, ty, at))
    }

    pub(super) fn collation_named(&self, name: &ast::Ident) -> Result<Collation, DbError> {
        match Collation::named(&name.name, self.dialect) {
            Some(collation) => Ok(collation),
            None if self.is_sqlite() => Err(errors::sqlite(
                1,
                format!("no such collation sequence: {}", name.name),
            )
            .at(name.at)),
            None => errors::unsupported(format!("the collation {}", name.name), name.at),
        }
    }

    /// A type of MySQL.
    pub(super) fn mysql_type(&self, ty: &TypeName) -> Result<DeclaredType, DbError> {
        let first = ty.numbers.first().copied();
        let second = ty.numbers.get(1).copied();
        let unsigned = ty.unsigned;
        let int = |bytes| DeclaredType::Int { bytes, unsigned };
        let small = |number: Option<u32>, default: u8| {
            number.map_or(default, |n| u8::try_from(n).unwrap_or(u8::MAX))
        };
        Ok(match ty.name.as_str() {
            "TINYINT" | "BOOL" | "BOOLEAN" => int(1),
            "SMALLINT" => int(2),
            "MEDIUMINT" => int(3),
            "INT" | "INTEGER" => int(4),
            "BIGINT" => int(8),
            "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => DeclaredType::Decimal {
                precision: small(first, 10),
                scale: small(second, 0),
                unsigned,
            },
            "FLOAT" => DeclaredType::Float,
            "DOUBLE" | "REAL" => DeclaredType::Double,
            "CHAR" | "CHARACTER" => DeclaredType::Char(first.unwrap_or(1)),
            "VARCHAR" => match first {
                Some(length) => DeclaredType::Varchar(length),
                None => return errors::unsupported("VARCHAR without a length", ty.at),
            },
            "TINYTEXT" => DeclaredType::Text(255),
            "TEXT" => DeclaredType::Text(65_535),
            "MEDIUMTEXT" => DeclaredType::Text(16_777_215),
            "LONGTEXT" => DeclaredType::Text(u32::MAX),
            "BINARY" => DeclaredType::Binary(first.unwrap_or(1)),
            "VARBINARY" => DeclaredType::Varbinary(first.unwrap_or(1)),
            "TINYBLOB" => DeclaredType::Blob(255),
            "BLOB" => DeclaredType::Blob(65_535),
            "MEDIUMBLOB" => DeclaredType::Blob(16_777_215),
            "LONGBLOB" => DeclaredType::Blob(u32::MAX),
            "DATE" => DeclaredType::Date,
            "TIME" => DeclaredType::Time(small(first, 0)),
            "DATETIME" => DeclaredType::DateTime(small(first, 0)),
            "TIMESTAMP" => DeclaredType::Timestamp(small(first, 0)),
            "YEAR" => DeclaredType::Year,
            "JSON" => match self.dialect {
                // An alias of LONGTEXT on MariaDB.
                Dialect::MariaDb => DeclaredType::Text(u32::MAX),
                _ => DeclaredType::Json,
            },
            "ENUM" => {
                let labels = ty.labels.iter().map(|label| label.as_str().into());
                DeclaredType::Enum(labels.collect())
            }
            other => return errors::unsupported(format!("the type {other}"), ty.at),
        })
    }
}
