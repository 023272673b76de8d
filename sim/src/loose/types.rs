//! Declared types, affinities and collations of MySQL, MariaDB and SQLite.

use std::sync::Arc;

use rowlock_model::Dialect;

/// A declared type of a column, or the target of a cast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeclaredType {
    /// `TINYINT` (1) to `BIGINT` (8); `BOOLEAN` is 1, `INT` is 4.
    Int {
        /// How many bytes.
        bytes: u8,
        /// `UNSIGNED`.
        unsigned: bool,
    },
    /// `DECIMAL(precision, scale)`.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
        /// `UNSIGNED`.
        unsigned: bool,
    },
    /// `FLOAT` (single precision).
    Float,
    /// `DOUBLE`, `REAL`.
    Double,
    /// `CHAR(n)`: at most so many characters; trailing spaces are lost.
    Char(u32),
    /// `VARCHAR(n)`: at most so many characters.
    Varchar(u32),
    /// `TINYTEXT` to `LONGTEXT`: at most so many bytes.
    Text(u32),
    /// `BINARY(n)`: exactly so many bytes, filled with zeros.
    Binary(u32),
    /// `VARBINARY(n)`: at most so many bytes.
    Varbinary(u32),
    /// `TINYBLOB` to `LONGBLOB`: at most so many bytes.
    Blob(u32),
    /// `DATE`.
    Date,
    /// `TIME(fsp)`, digits of the fraction.
    Time(u8),
    /// `DATETIME(fsp)`.
    DateTime(u8),
    /// `TIMESTAMP(fsp)`; the session's time zone is UTC.
    Timestamp(u8),
    /// `YEAR`.
    Year,
    /// `ENUM(..)`, its labels.
    Enum(Arc<[Arc<str>]>),
    /// `JSON`.
    Json,
    /// Any type of SQLite: its name as written decides an affinity and nothing else.
    Sqlite {
        /// As written; empty if no type was written.
        name: Arc<str>,
        /// What values prefer to become ("Datatypes In SQLite", section 3.1).
        affinity: Affinity,
    },
}

impl DeclaredType {
    /// The affinity, for columns of SQLite; `Blob` (none) for others.
    pub fn affinity(&self) -> Affinity {
        match self {
            DeclaredType::Sqlite { affinity, .. } => *affinity,
            _ => Affinity::Blob,
        }
    }

    /// The name of the type as drivers give it, lower case.
    pub fn name(&self) -> String {
        let name = match self {
            DeclaredType::Int { bytes, unsigned } => {
                let base = match bytes {
                    1 => "tinyint",
                    2 => "smallint",
                    3 => "mediumint",
                    4 => "int",
                    _ => "bigint",
                };
                return format!("{base}{}", if *unsigned { " unsigned" } else { "" });
            }
            DeclaredType::Decimal { .. } => "decimal",
            DeclaredType::Float => "float",
            DeclaredType::Double => "double",
            DeclaredType::Char(_) => "char",
            DeclaredType::Varchar(_) => "varchar",
            DeclaredType::Text(bytes) => match bytes {
                0..=255 => "tinytext",
                ..=65_535 => "text",
                ..=16_777_215 => "mediumtext",
                _ => "longtext",
            },
            DeclaredType::Binary(_) => "binary",
            DeclaredType::Varbinary(_) => "varbinary",
            DeclaredType::Blob(bytes) => match bytes {
                0..=255 => "tinyblob",
                ..=65_535 => "blob",
                ..=16_777_215 => "mediumblob",
                _ => "longblob",
            },
            DeclaredType::Date => "date",
            DeclaredType::Time(_) => "time",
            DeclaredType::DateTime(_) => "datetime",
            DeclaredType::Timestamp(_) => "timestamp",
            DeclaredType::Year => "year",
            DeclaredType::Enum(_) => "enum",
            DeclaredType::Json => "json",
            DeclaredType::Sqlite { name, .. } => return name.to_lowercase(),
        };
        name.to_owned()
    }
}

/// The affinities of SQLite ("Datatypes In SQLite", section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Numbers become text.
    Text,
    /// Text that looks like a number becomes one.
    Numeric,
    /// As `Numeric`; casts cut the fraction.
    Integer,
    /// As `Numeric`, and integers become floating point.
    Real,
    /// Nothing is converted.
    Blob,
}

impl Affinity {
    /// The affinity of a declared type name (section 3.1, rules 1 to 5).
    pub fn of_name(name: &str) -> Affinity {
        let name = name.to_ascii_uppercase();
        let has = |part: &str| name.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || name.is_empty() {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// Whether values become numbers.
    pub fn is_numeric(self) -> bool {
        matches!(self, Affinity::Numeric | Affinity::Integer | Affinity::Real)
    }
}

/// How texts are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// Byte by byte (SQLite's default; `_bin` and binary strings of MySQL).
    #[default]
    Binary,
    /// SQLite `NOCASE`: ASCII letters without their case.
    NoCase,
    /// SQLite `RTRIM`: trailing spaces do not count.
    RTrim,
    /// `utf8mb4_0900_ai_ci` (MySQL's default): without case and accents; trailing spaces count.
    Utf8mb40900AiCi,
    /// `utf8mb4_general_ci` (MariaDB's default): without case and accents; trailing spaces do not
    /// count.
    Utf8mb4GeneralCi,
    /// `utf8mb4_bin`: by code point; trailing spaces do not count.
    Utf8mb4Bin,
    /// `utf8mb3_general_ci`: as `utf8mb4_general_ci`, for characters of the basic plane; others are refused
    /// when they are stored.
    Utf8mb3GeneralCi,
    /// `latin1_swedish_ci` (the usual one of `latin1`): without case; trailing spaces do not count. Texts
    /// of such a column are ASCII: others are refused when they are stored.
    Latin1SwedishCi,
}

impl Collation {
    /// The collation of columns that name none.
    pub fn default_of(dialect: Dialect) -> Collation {
        match dialect {
            Dialect::MySql => Collation::Utf8mb40900AiCi,
            Dialect::MariaDb => Collation::Utf8mb4GeneralCi,
            Dialect::Sqlite | Dialect::Postgres => Collation::Binary,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Collation::Binary => "binary",
            Collation::NoCase => "nocase",
            Collation::RTrim => "rtrim",
            Collation::Utf8mb40900AiCi => "utf8mb4_0900_ai_ci",
            Collation::Utf8mb4GeneralCi => "utf8mb4_general_ci",
            Collation::Utf8mb4Bin => "utf8mb4_bin",
            Collation::Utf8mb3GeneralCi => "utf8mb3_general_ci",
            Collation::Latin1SwedishCi => "latin1_swedish_ci",
        }
    }

    /// The usual collation of a character set, if it is modelled.
    pub fn of_charset(charset: &str, dialect: Dialect) -> Option<Collation> {
        match charset.to_ascii_lowercase().as_str() {
            "utf8mb4" => Some(Collation::default_of(dialect)),
            "latin1" => Some(Collation::Latin1SwedishCi),
            "utf8mb3" | "utf8" => Some(Collation::Utf8mb3GeneralCi),
            "binary" => Some(Collation::Binary),
            _ => None,
        }
    }

    /// The collation called `name`, if it is modelled.
    pub fn named(name: &str, dialect: Dialect) -> Option<Collation> {
        let name = name.to_ascii_lowercase();
        match (dialect, name.as_str()) {
            (Dialect::Sqlite, "binary") => Some(Collation::Binary),
            (Dialect::Sqlite, "nocase") => Some(Collation::NoCase),
            (Dialect::Sqlite, "rtrim") => Some(Collation::RTrim),
            (Dialect::MySql | Dialect::MariaDb, "binary") => Some(Collation::Binary),
            (Dialect::MySql, "utf8mb4_0900_ai_ci") => Some(Collation::Utf8mb40900AiCi),
            (Dialect::MySql, "utf8mb4_0900_bin") => Some(Collation::Binary),
            (Dialect::MySql | Dialect::MariaDb, "utf8mb4_general_ci") => {
                Some(Collation::Utf8mb4GeneralCi)
            }
            (Dialect::MySql | Dialect::MariaDb, "utf8mb3_general_ci") => {
                Some(Collation::Utf8mb3GeneralCi)
            }
            (Dialect::MySql | Dialect::MariaDb, "latin1_swedish_ci") => {
                Some(Collation::Latin1SwedishCi)
            }
            (Dialect::MySql | Dialect::MariaDb, "utf8mb4_bin") => Some(Collation::Utf8mb4Bin),
            _ => None,
        }
    }
}
