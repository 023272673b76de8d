//! Pure functions.

/// A pure function: its value depends on its arguments only. NULL if an argument is, except where
/// said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `ABS(x)`.
    Abs,
    /// `ROUND(x, n)`.
    Round,
    /// `FLOOR(x)`.
    Floor,
    /// `CEIL(x)`.
    Ceil,
    /// `SIGN(x)`.
    Sign,
    /// `COALESCE(..)`, `IFNULL(a, b)`: the first that is not NULL.
    Coalesce,
    /// `NULLIF(a, b)`, compared as binary texts or numbers of one kind.
    NullIf,
    /// `IF(c, a, b)`, `IIF`.
    If,
    /// `GREATEST(..)`, scalar `MAX` of SQLite.
    Greatest,
    /// `LEAST(..)`, scalar `MIN` of SQLite.
    Least,
    /// `CONCAT(..)` of MySQL: NULL if any is.
    Concat,
    /// `CONCAT_WS(sep, ..)`: NULLs are left out.
    ConcatWs,
    /// `LENGTH(x)`: bytes (MySQL), characters (SQLite).
    ByteLength,
    /// `CHAR_LENGTH(x)`; `LENGTH` of SQLite.
    CharLength,
    /// `LOWER(x)`.
    Lower,
    /// `UPPER(x)`.
    Upper,
    /// `SUBSTR(x, from, count)`.
    Substr,
    /// `LEFT(x, n)`.
    Left,
    /// `RIGHT(x, n)`.
    Right,
    /// `TRIM(x)`, `TRIM(x, chars)`.
    Trim,
    /// `LTRIM`.
    TrimLeft,
    /// `RTRIM`.
    TrimRight,
    /// `REPLACE(x, from, to)`.
    Replace,
    /// `INSTR(x, y)`.
    Instr,
    /// `LPAD(x, n, fill)`.
    PadLeft,
    /// `RPAD(x, n, fill)`.
    PadRight,
    /// `REPEAT(x, n)`.
    Repeat,
    /// `REVERSE(x)`.
    Reverse,
    /// `HEX(x)`.
    Hex,
    /// `TYPEOF(x)` (SQLite).
    TypeOf,
    /// `FIELD(x, ..)`: the position of x among the others, 0 if it is not there.
    Field,
    /// `FIND_IN_SET(x, list)`.
    FindInSet,
    /// `ELT(n, ..)`.
    Elt,
    /// `TIMESTAMPDIFF(unit, a, b)`; the unit is the first argument, by its number in
    /// [`super::expr::IntervalUnit`]'s order.
    TimestampDiff,
    /// `UNIX_TIMESTAMP(x)`.
    UnixTimestamp,
    /// `FROM_UNIXTIME(x)`.
    FromUnixtime,
    /// `DATE(x)` of MySQL.
    Date,
    /// `YEAR(x)`.
    Year,
    /// `MONTH(x)`.
    Month,
    /// `DAY(x)`.
    Day,
    /// `HOUR(x)`.
    Hour,
    /// `MINUTE(x)`.
    Minute,
    /// `SECOND(x)`.
    Second,
    /// `DATEDIFF(a, b)`.
    DateDiff,
    /// `datetime(x, modifiers..)` of SQLite.
    SqliteDateTime,
    /// `date(x, modifiers..)` of SQLite.
    SqliteDate,
    /// `time(x, modifiers..)` of SQLite.
    SqliteTime,
    /// `julianday(x, modifiers..)` of SQLite.
    SqliteJulianDay,
    /// `unixepoch(x, modifiers..)` of SQLite.
    SqliteUnixEpoch,
    /// `strftime(format, x, modifiers..)` of SQLite.
    SqliteStrftime,
    /// `JSON_EXTRACT(x, path)`, `->`.
    JsonExtract,
    /// `->>`, `JSON_UNQUOTE(JSON_EXTRACT(x, path))`.
    JsonExtractText,
    /// `JSON_OBJECT(key, value, ..)`.
    JsonObject,
    /// `JSON_ARRAY(value, ..)`.
    JsonArray,
    /// `JSON_VALID(x)`.
    JsonValid,
    /// `JSON_SET(x, path, value)`.
    JsonSet,
    /// `CRC32(x)`.
    Crc32,
    /// `MD5(x)`.
    Md5,
}
