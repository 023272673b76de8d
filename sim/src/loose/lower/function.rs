//! Pure functions: which there are, how many arguments they take, and the types of their values.

use rowlock_model::{DbError, Dialect, Value};

use super::Lowering;
use super::call::julian_now;
use super::rules::{self, Typed};
use crate::loose::ast::Call;
use crate::loose::errors;
use crate::loose::expr::{Binary, CastTarget, Compare, Expr};
use crate::loose::function::Function;
use crate::loose::json;
use crate::loose::query::{Kind, Ty};
use crate::loose::temporal;
use crate::loose::types::DeclaredType;

/// A function, its least and most arguments, and the type of its value.
type Found = (Function, usize, usize, Ty);

/// As many arguments as one likes.
const MANY: usize = usize::MAX;

/// Functions that MySQL has no more: they are in a component that is not installed by itself.
const GONE: [&str; 3] = ["MD5", "SHA", "SHA1"];

/// Functions that exist and are not modelled.
const REFUSED: [&str; 60] = [
    "STR_TO_DATE",
    "FORMAT",
    "LOG",
    "RANDOMBLOB",
    "PRINTF",
    "CHAR",
    "SHA1",
    "SHA",
    "SHA2",
    "UUID_TO_BIN",
    "BIN_TO_UUID",
    "ZEROBLOB",
    "INSERT",
    "BENCHMARK",
    "DATE_TRUNC",
    "CONV",
    "INET_ATON",
    "INET_NTOA",
    "WEEK",
    "CAST",
    "JSON_KEYS",
    "JSON_MERGE_PATCH",
    "JSON_MERGE",
    "JSON_MERGE_PRESERVE",
    "JSON_SEARCH",
    "JSON_TABLE",
    "JSON_OVERLAPS",
    "JSON_DEPTH",
    "JSON_PRETTY",
    "JSON_ARRAY_APPEND",
    "JSON_ARRAY_INSERT",
    "JSON_CONTAINS_PATH",
    "JSON_VALUE",
    "JSON_COMPACT",
    "JSON_DETAILED",
    "JSON_PATCH",
    "JSON_TREE",
    "JSON_EACH",
    "REGEXP_REPLACE",
    "REGEXP_SUBSTR",
    "REGEXP_INSTR",
    "REGEXP_LIKE",
    "SOUNDEX",
    "EXPORT_SET",
    "MAKE_SET",
    "OCT",
    "COMPRESS",
    "UNCOMPRESS",
    "TO_BASE64",
    "FROM_BASE64",
    "UNHEX",
    "TIME_FORMAT",
    "GET_FORMAT",
    "PERIOD_ADD",
    "PERIOD_DIFF",
    "SEC_TO_TIME",
    "TIME_TO_SEC",
    "ADDTIME",
    "SUBTIME",
    "TIMEDIFF",
];

impl Lowering<'_> {
    pub(super) fn pure_call(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        call: &Call,
    ) -> Result<Typed, DbError> {
        use Function as F;
        let at = call.name.at;
        match (name, self.is_sqlite()) {
            ("NULLIF", _) => return self.null_if(args, call),
            ("IF", false) | ("IIF", true) => return self.if_call(args, call),
            ("MOD", false) => return self.modulo(args, call),
            ("ISNULL", false) => {
                let [arg] = <[Typed; 1]>::try_from(args).map_err(|_| self.wrong_count(call))?;
                let expr = Expr::IsNull {
                    expr: Box::new(arg.expr),
                    negated: false,
                };
                return Ok(self.truth(expr, at));
            }
            ("LIKELY" | "UNLIKELY", true) => {
                let [mut arg] = <[Typed; 1]>::try_from(args).map_err(|_| self.wrong_count(call))?;
                arg.ty.affinity = None;
                return Ok(arg);
            }
            ("SUBDATE" | "ADDDATE", false) => return Err(self.wrong_count(call)),
            _ => {}
        }
        let found = match self.is_sqlite() {
            true => self.sqlite_function(name),
            false => self.mysql_function(name, &args),
        };
        let Some((function, least, most, ty)) = found else {
            return Err(self.no_such_function(name, call));
        };
        if args.len() < least || args.len() > most {
            return Err(self.wrong_count(call));
        }
        if matches!(
            function,
            F::SqliteDateTime
                | F::SqliteDate
                | F::SqliteTime
                | F::SqliteJulianDay
                | F::SqliteUnixEpoch
                | F::SqliteStrftime
        ) {
            return Ok(self.sqlite_time(function, args, at));
        }
        let of_today = |arg: &Typed| matches!(arg.ty.kind, Kind::Time(_));
        let needs_day = matches!(
            function,
            F::Timestamp
                | F::DateDiff
                | F::LastDay
                | F::ToDays
                | F::Date
                | F::DateFormat
                | F::UnixTimestamp
                | F::FromUnixtime
                | F::Year
                | F::Month
                | F::Day
                | F::Quarter
                | F::DayOfYear
                | F::DayOfWeek
                | F::Weekday
        );
        let united = matches!(function, F::Greatest | F::Least | F::Coalesce)
            && matches!(ty.kind, Kind::Date | Kind::DateTime(_));
        if (needs_day || united) && !self.is_sqlite() && args.iter().any(of_today) {
            return errors::unsupported("a time of day as a point in time", at);
        }
        if json::takes_values(function) {
            return self.json_of_values(function, args, ty, call);
        }
        let mut args = args;
        if function == F::FromUnixtime && self.clock_is_timestamp() {
            args.push(self.plain(Expr::Const(Value::Int(1)), Kind::Int, at));
        }
        let scaled = function == F::UnixTimestamp && matches!(ty.kind, Kind::Decimal(_));
        let args = match (function, self.is_sqlite()) {
            // Compared and given in one common type.
            (F::Greatest | F::Least | F::Coalesce | F::Elt, false) => self.converted(args, &ty),
            (_, false) if matches!(ty.kind, Kind::Text) => {
                args.into_iter().map(with_all_digits).collect()
            }
            _ => args.into_iter().map(|arg| arg.expr).collect(),
        };
        let call = Expr::Call { function, args };
        let Kind::Decimal(scale) = ty.kind else {
            return Ok(self.typed(call, ty, at));
        };
        if !scaled {
            return Ok(self.typed(call, ty, at));
        }
        let to = CastTarget::Declared(DeclaredType::Decimal {
            precision: 28,
            scale,
            unsigned: false,
        });
        let expr = Expr::Cast {
            expr: Box::new(call),
            to,
        };
        Ok(self.typed(expr, ty, at))
    }

    /// A function that takes values into a document: the first argument says what each of the others
    /// is.
    fn json_of_values(
        &self,
        function: Function,
        args: Vec<Typed>,
        ty: Ty,
        call: &Call,
    ) -> Result<Typed, DbError> {
        let pairs = match function {
            Function::JsonObject => args.len().is_multiple_of(2),
            Function::JsonArray => true,
            _ => args.len() % 2 == 1,
        };
        if !pairs {
            return Err(match (self.dialect, function) {
                (Dialect::Sqlite, Function::JsonObject) => {
                    let message = "json_object() requires an even number of arguments";
                    errors::sqlite(1, message).at(call.name.at)
                }
                (Dialect::Sqlite, _) => {
                    let name = call.name.name.to_ascii_lowercase();
                    let message = format!("{name}() needs an odd number of arguments");
                    errors::sqlite(1, message).at(call.name.at)
                }
                _ => self.wrong_count(call),
            });
        }
        let mask: String = args
            .iter()
            .map(|arg| what_for_json(&arg.expr, &arg.ty))
            .collect();
        let mut all = vec![Expr::Const(Value::text(mask))];
        all.extend(args.into_iter().map(|arg| arg.expr));
        let expr = Expr::Call {
            function,
            args: all,
        };
        Ok(self.typed(expr, ty, call.name.at))
    }

    fn no_such_function(&self, name: &str, call: &Call) -> DbError {
        let at = call.name.at;
        let is_gone = self.dialect == Dialect::MySql && GONE.contains(&name);
        if REFUSED.contains(&name) && !is_gone {
            return DbError::unsupported(format!("the function {name}"), Some(at));
        }
        let shown = &call.name.name;
        let database = self.catalog.database();
        errors::either(
            self.dialect,
            1305,
            "42000",
            format!("FUNCTION {database}.{shown} does not exist"),
            format!("no such function: {shown}"),
        )
        .at(at)
    }

    fn sqlite_function(&self, name: &str) -> Option<Found> {
        use Function as F;
        let any = rules::plain(Kind::Any, self.dialect);
        let (function, least, most) = match name {
            "ABS" => (F::Abs, 1, 1),
            "ROUND" => (F::Round, 1, 2),
            "SIGN" => (F::Sign, 1, 1),
            "COALESCE" => (F::Coalesce, 2, MANY),
            "IFNULL" => (F::Coalesce, 2, 2),
            "MAX" => (F::Greatest, 2, MANY),
            "MIN" => (F::Least, 2, MANY),
            "LENGTH" => (F::CharLength, 1, 1),
            "OCTET_LENGTH" => (F::ByteLength, 1, 1),
            "LOWER" => (F::Lower, 1, 1),
            "UPPER" => (F::Upper, 1, 1),
            "SUBSTR" | "SUBSTRING" => (F::Substr, 2, 3),
            "TRIM" => (F::Trim, 1, 2),
            "LTRIM" => (F::TrimLeft, 1, 2),
            "RTRIM" => (F::TrimRight, 1, 2),
            "REPLACE" => (F::Replace, 3, 3),
            "INSTR" => (F::Instr, 2, 2),
            "HEX" => (F::Hex, 1, 1),
            "TYPEOF" => (F::TypeOf, 1, 1),
            "QUOTE" => (F::Quote, 1, 1),
            "UNICODE" => (F::Unicode, 1, 1),
            "CONCAT" => (F::Concat, 1, MANY),
            "CONCAT_WS" => (F::ConcatWs, 2, MANY),
            "DATETIME" => (F::SqliteDateTime, 0, MANY),
            "DATE" => (F::SqliteDate, 0, MANY),
            "TIME" => (F::SqliteTime, 0, MANY),
            "JULIANDAY" => (F::SqliteJulianDay, 0, MANY),
            "UNIXEPOCH" => (F::SqliteUnixEpoch, 0, MANY),
            "STRFTIME" => (F::SqliteStrftime, 1, MANY),
            "JSON" => (F::Json, 1, 1),
            "JSON_EXTRACT" => (F::JsonExtract, 2, MANY),
            "->" => (F::JsonArrow, 2, 2),
            "->>" => (F::JsonExtractText, 2, 2),
            "JSON_VALID" => (F::JsonValid, 1, 1),
            "JSON_OBJECT" => (F::JsonObject, 0, MANY),
            "JSON_ARRAY" => (F::JsonArray, 0, MANY),
            "JSON_SET" => (F::JsonSet, 1, MANY),
            "JSON_INSERT" => (F::JsonInsert, 1, MANY),
            "JSON_REPLACE" => (F::JsonReplace, 1, MANY),
            "JSON_REMOVE" => (F::JsonRemove, 1, MANY),
            "JSON_ARRAY_LENGTH" => (F::JsonLength, 1, 2),
            "JSON_TYPE" => (F::JsonType, 1, 2),
            "JSON_QUOTE" => (F::JsonQuote, 1, 1),
            _ => return None,
        };
        Some((function, least, most, any))
    }

    fn mysql_function(&self, name: &str, args: &[Typed]) -> Option<Found> {
        let types: Vec<Ty> = args.iter().map(|arg| arg.ty.clone()).collect();
        let literal = match args.first().map(|arg| &arg.expr) {
            Some(Expr::Const(Value::Text(text))) => Some(&**text),
            _ => None,
        };
        mysql_number(name, &types, self.dialect)
            .or_else(|| mysql_text(name, &types, args, self.dialect))
            .or_else(|| {
                mysql_time(
                    name,
                    &types,
                    self.dialect,
                    self.clock_is_timestamp(),
                    literal,
                )
            })
            .or_else(|| mysql_json(name, &types, self.dialect))
    }

    /// Whether `NOW()` is described as a `TIMESTAMP` (MariaDB since 11.7).
    pub(super) fn clock_is_timestamp(&self) -> bool {
        self.catalog.clock_is_timestamp()
    }

    /// Values of several types as ones of their common type.
    pub(super) fn united(&self, values: Vec<Typed>) -> (Vec<Expr>, Ty) {
        let mut ty = values
            .iter()
            .map(|value| value.ty.clone())
            .reduce(|a, b| rules::unite(&a, &b, self.dialect))
            .unwrap_or_else(|| rules::plain(Kind::Null, self.dialect));
        ty.affinity = None;
        if self.is_sqlite() {
            ty.declared = None;
            return (values.into_iter().map(|value| value.expr).collect(), ty);
        }
        (self.converted(values, &ty), ty)
    }

    /// Values as ones of `ty`.
    fn converted(&self, values: Vec<Typed>, ty: &Ty) -> Vec<Expr> {
        let convert = |value: Typed| match conversion(&value.ty, ty) {
            Some(declared) => Expr::Cast {
                expr: Box::new(with_all_digits(value)),
                to: CastTarget::Declared(declared),
            },
            None => value.expr,
        };
        values.into_iter().map(convert).collect()
    }

    fn modulo(&mut self, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        let [left, right] = <[Typed; 2]>::try_from(args).map_err(|_| self.wrong_count(call))?;
        let (numbers, ty) = rules::arithmetic(Binary::Modulo, &left.ty, &right.ty, self.dialect);
        let expr = Expr::Binary {
            op: Binary::Modulo,
            numbers,
            sides: Box::new((left.expr, right.expr)),
        };
        Ok(self.typed(expr, ty, call.name.at))
    }

    fn null_if(&mut self, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        let [left, right] = <[Typed; 2]>::try_from(args).map_err(|_| self.wrong_count(call))?;
        let equal = self.compared(Compare::Eq, left.clone(), right);
        let mut ty = left.ty;
        ty.affinity = None;
        if self.is_sqlite() {
            ty.declared = None;
        }
        let expr = Expr::Case {
            branches: vec![(equal, Expr::Const(Value::Null))],
            otherwise: Box::new(left.expr),
        };
        Ok(self.typed(expr, ty, call.name.at))
    }

    fn if_call(&mut self, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        let [when, then, otherwise] =
            <[Typed; 3]>::try_from(args).map_err(|_| self.wrong_count(call))?;
        let (mut values, ty) = self.united(vec![then, otherwise]);
        let otherwise = values.pop().unwrap_or(Expr::Const(Value::Null));
        let then = values.pop().unwrap_or(Expr::Const(Value::Null));
        let expr = Expr::Case {
            branches: vec![(when.expr, then)],
            otherwise: Box::new(otherwise),
        };
        Ok(self.typed(expr, ty, call.name.at))
    }

    /// `datetime(x, modifiers..)`: without argument, and for `'now'`, the clock comes first.
    fn sqlite_time(&self, function: Function, args: Vec<Typed>, at: usize) -> Typed {
        let mut args: Vec<Expr> = args.into_iter().map(|arg| arg.expr).collect();
        let place = usize::from(function == Function::SqliteStrftime);
        if args.len() == place {
            args.push(julian_now());
        }
        if let Some(Expr::Const(Value::Text(text))) = args.get(place)
            && text.eq_ignore_ascii_case("now")
        {
            args[place] = julian_now();
        }
        self.plain(Expr::Call { function, args }, Kind::Any, at)
    }
}

/// What a value is to a JSON function: a document (`j`), a truth value (`b`), another value (`v`).
fn what_for_json(expr: &Expr, ty: &Ty) -> char {
    use Function as F;
    match expr {
        _ if ty.kind == Kind::Json => 'j',
        Expr::Call {
            function:
                F::Json
                | F::JsonArrow
                | F::JsonObject
                | F::JsonArray
                | F::JsonSet
                | F::JsonInsert
                | F::JsonReplace
                | F::JsonRemove
                | F::JsonQuote,
            ..
        } => 'j',
        Expr::Call {
            function: F::JsonExtract,
            ..
        } if ty.kind != Kind::Any => 'j',
        Expr::Compare { .. }
        | Expr::CompareRows { .. }
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::IsNull { .. }
        | Expr::IsTruth { .. }
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::Match { .. }
        | Expr::Exists(_)
            if ty.kind == Kind::Int =>
        {
            'b'
        }
        Expr::Const(Value::Int(_)) if ty.kind == Kind::Int && ty.width.digits == 0 => 'b',
        _ => 'v',
    }
}

/// A time whose type has digits of the second, as the text that it becomes: with all of them.
pub(super) fn with_all_digits(value: Typed) -> Expr {
    match value.ty.kind {
        Kind::DateTime(fsp) | Kind::Time(fsp) if fsp > 0 => Expr::Call {
            function: Function::TimeText,
            args: vec![value.expr, Expr::Const(Value::Int(i64::from(fsp)))],
        },
        _ => value.expr,
    }
}

/// What makes a value of type `from` one of type `to`; `None` if it is one.
pub(super) fn conversion(from: &Ty, to: &Ty) -> Option<DeclaredType> {
    if from.kind == to.kind || from.kind == Kind::Null {
        return None;
    }
    match to.kind {
        // The text of a point in time has the digits of its type.
        Kind::Text => Some(DeclaredType::Varchar(u32::MAX)),
        Kind::Bytes => Some(DeclaredType::Varbinary(u32::MAX)),
        Kind::Double => Some(DeclaredType::Double),
        Kind::Decimal(scale) => Some(DeclaredType::Decimal {
            precision: 28,
            scale,
            unsigned: false,
        }),
        Kind::DateTime(fsp) => Some(DeclaredType::DateTime(fsp)),
        Kind::Date => Some(DeclaredType::Date),
        Kind::Time(fsp) => Some(DeclaredType::Time(fsp)),
        _ => None,
    }
}

fn mysql_number(name: &str, args: &[Ty], dialect: Dialect) -> Option<Found> {
    use Function as F;
    let maria = dialect == Dialect::MariaDb;
    let plain = |kind| rules::plain(kind, dialect);
    let int = |chars| rules::int(chars, dialect);
    let first = args.first().cloned().unwrap_or_else(|| plain(Kind::Null));
    let big = || plain(Kind::Int);
    Some(match name {
        "ABS" => (F::Abs, 1, 1, absolute(&first, dialect)),
        "ROUND" => (F::Round, 1, 2, rounded(&first, args.get(1), dialect)),
        "TRUNCATE" => (F::Truncate, 2, 2, rounded(&first, args.get(1), dialect)),
        "FLOOR" => (F::Floor, 1, 1, whole(&first, dialect)),
        "CEIL" | "CEILING" => (F::Ceil, 1, 1, whole(&first, dialect)),
        "SIGN" => (F::Sign, 1, 1, int(2)),
        "POW" | "POWER" => (F::Power, 2, 2, plain(Kind::Double)),
        "SQRT" => (F::SquareRoot, 1, 1, plain(Kind::Double)),
        "EXP" => (F::Exponential, 1, 1, plain(Kind::Double)),
        "LN" => (F::Logarithm, 1, 1, plain(Kind::Double)),
        "BIT_COUNT" => (F::BitCount, 1, 1, int(2)),
        "COALESCE" => (F::Coalesce, 1, MANY, united(args, dialect)),
        "IFNULL" => (F::Coalesce, 2, 2, united(args, dialect)),
        "NVL" if maria => (F::Coalesce, 2, 2, united(args, dialect)),
        "GREATEST" => (F::Greatest, 2, MANY, extremes(args, dialect)),
        "LEAST" => (F::Least, 2, MANY, extremes(args, dialect)),
        "LENGTH" | "OCTET_LENGTH" => (F::ByteLength, 1, 1, int(10)),
        "CHAR_LENGTH" | "CHARACTER_LENGTH" => (F::CharLength, 1, 1, int(10)),
        "INSTR" => (F::Instr, 2, 2, int(11)),
        "LOCATE" => (F::Locate, 2, 3, int(11)),
        "ASCII" => (F::Ascii, 1, 1, int(3)),
        "STRCMP" => (F::StrCmp, 2, 2, int(2)),
        "FIELD" => (F::Field, 2, MANY, int(3)),
        "FIND_IN_SET" => (F::FindInSet, 2, 2, int(3)),
        "ANY_VALUE" if !maria => (
            F::Coalesce,
            1,
            1,
            Ty {
                declared: None,
                ..first
            },
        ),
        "BENCHMARK" => return None,
        "JSON_VALID" if maria => (F::JsonValid, 1, 1, int(1)),
        "JSON_VALID" => (F::JsonValid, 1, 1, big()),
        "JSON_LENGTH" if maria => (F::JsonLength, 1, 2, int(10)),
        "JSON_LENGTH" => (F::JsonLength, 1, 2, big()),
        "JSON_CONTAINS" if maria => (F::JsonContains, 2, 3, int(1)),
        "JSON_CONTAINS" => (F::JsonContains, 2, 3, big()),
        _ => return None,
    })
}

fn mysql_text(name: &str, args: &[Ty], exprs: &[Typed], dialect: Dialect) -> Option<Found> {
    use Function as F;
    let chars = |i: usize| args.get(i).map_or(0, |ty| ty.width.chars);
    let all: u32 = args
        .iter()
        .fold(0, |sum, ty| sum.saturating_add(ty.width.chars));
    let text = |chars: u32| text_like(args, chars, dialect);
    let constant = |i: usize| match exprs.get(i).map(|arg| &arg.expr) {
        Some(Expr::Const(Value::Int(n))) => u32::try_from(*n).ok(),
        _ => None,
    };
    let first = |i: usize| constant(i).map_or(chars(0), |n| n.min(chars(0)));
    let elt = || united(args.get(1..).unwrap_or_default(), dialect);
    Some(match name {
        "CONCAT" => (F::Concat, 1, MANY, text(all)),
        "CONCAT_WS" => {
            let separators = chars(0).saturating_mul(args.len().saturating_sub(2) as u32);
            (F::ConcatWs, 2, MANY, text(all - chars(0) + separators))
        }
        "LOWER" | "LCASE" => (F::Lower, 1, 1, text(chars(0))),
        "UPPER" | "UCASE" => (F::Upper, 1, 1, text(chars(0))),
        "SUBSTR" | "SUBSTRING" | "MID" => (F::Substr, 2, 3, text(chars(0))),
        "LEFT" => (F::Left, 2, 2, text(first(1))),
        "RIGHT" => (F::Right, 2, 2, text(first(1))),
        "TRIM" => (F::Trim, 1, 1, text(chars(0))),
        "LTRIM" => (F::TrimLeft, 1, 1, text(chars(0))),
        "RTRIM" => (F::TrimRight, 1, 1, text(chars(0))),
        "REPLACE" => (
            F::Replace,
            3,
            3,
            text(chars(0).saturating_mul(chars(2).max(1))),
        ),
        "LPAD" | "RPAD" => {
            let function = if name == "LPAD" {
                F::PadLeft
            } else {
                F::PadRight
            };
            (function, 3, 3, text(constant(1).unwrap_or(u32::MAX / 4)))
        }
        "REPEAT" => {
            let times = constant(1).unwrap_or(u32::MAX / 4);
            (F::Repeat, 2, 2, text(chars(0).saturating_mul(times)))
        }
        "SPACE" => (F::Space, 1, 1, text(constant(0).unwrap_or(u32::MAX / 4))),
        "REVERSE" => (F::Reverse, 1, 1, text(chars(0))),
        "HEX" => (
            F::Hex,
            1,
            1,
            rules::text(chars(0).saturating_mul(8), dialect),
        ),
        "BIN" => (F::Binary, 1, 1, rules::text(65, dialect)),
        "QUOTE" => (
            F::Quote,
            1,
            1,
            text(chars(0).saturating_mul(2).saturating_add(2)),
        ),
        "ELT" => (F::Elt, 2, MANY, {
            let mut ty = elt();
            if ty.kind != Kind::Bytes {
                ty = rules::text(ty.width.chars, dialect);
            }
            ty
        }),
        // MySQL has no such function any more, see `GONE`.
        "MD5" if dialect == Dialect::MariaDb => (F::Md5, 1, 1, rules::text(32, dialect)),
        "CRC32" => {
            let mut ty = rules::integer(true, 10, 10, dialect);
            if dialect == Dialect::MariaDb {
                ty.width.bytes = 4;
            }
            (F::Crc32, 1, 1, ty)
        }
        // A length of NULL means different things on MySQL and MariaDB: only literals.
        "SHA2"
            if matches!(
                exprs.get(1).map(|arg| &arg.expr),
                Some(Expr::Const(Value::Int(0 | 256)))
            ) =>
        {
            (F::Sha256, 2, 2, rules::text(64, dialect))
        }
        _ => return None,
    })
}

fn mysql_time(
    name: &str,
    args: &[Ty],
    dialect: Dialect,
    timestamps: bool,
    texts: Option<&str>,
) -> Option<Found> {
    use Function as F;
    let plain = |kind| rules::plain(kind, dialect);
    let int = |chars| rules::int(chars, dialect);
    let fsp = match args.first().map(|ty| ty.kind) {
        Some(Kind::DateTime(fsp) | Kind::Time(fsp)) => fsp,
        _ => 0,
    };
    let year = || {
        let mut ty = int(4);
        if dialect == Dialect::MySql {
            ty.kind = Kind::Unsigned;
            ty.width.bytes = 2;
            ty.width.digits = 4;
            ty.declared = Some(DeclaredType::Year);
        }
        ty
    };
    Some(match name {
        "UNIX_TIMESTAMP" => {
            let scale = match (args.first().map(|ty| ty.kind), texts) {
                (Some(Kind::Decimal(scale)), _) => scale.min(6),
                (Some(Kind::Text), Some(text)) => {
                    temporal::parse_datetime(text).map_or(6, |_| temporal::digits_of_fraction(text))
                }
                (Some(Kind::Text | Kind::Double | Kind::Bytes | Kind::Json), _) => 6,
                _ => fsp,
            };
            let ty = match scale {
                0 => rules::integer(false, 16, 17, dialect),
                _ => rules::decimal(11 + u32::from(scale), scale, dialect),
            };
            (F::UnixTimestamp, 1, 1, ty)
        }
        "FROM_UNIXTIME" => {
            let scale = match args.first().map(|ty| ty.kind) {
                Some(Kind::Decimal(scale)) => scale.min(6),
                Some(Kind::Int | Kind::Unsigned | Kind::Null | Kind::Date) => 0,
                Some(Kind::DateTime(_) | Kind::Time(_)) => fsp,
                _ => 6,
            };
            let mut ty = plain(Kind::DateTime(scale));
            if timestamps {
                ty.declared = Some(DeclaredType::Timestamp(scale));
            }
            (F::FromUnixtime, 1, 1, ty)
        }
        "DATE" => (F::Date, 1, 1, plain(Kind::Date)),
        "TIME" => (F::Time, 1, 1, plain(Kind::Time(temporal_scale(args)))),
        "TIMESTAMP" => (
            F::Timestamp,
            1,
            1,
            plain(Kind::DateTime(temporal_scale(args))),
        ),
        "LAST_DAY" => (F::LastDay, 1, 1, plain(Kind::Date)),
        "YEAR" => (F::Year, 1, 1, year()),
        "QUARTER" => (F::Quarter, 1, 1, int(1)),
        "MONTH" => (F::Month, 1, 1, int(2)),
        "DAY" | "DAYOFMONTH" => (F::Day, 1, 1, int(2)),
        "DAYOFYEAR" => (F::DayOfYear, 1, 1, int(3)),
        "DAYOFWEEK" => (F::DayOfWeek, 1, 1, int(1)),
        "WEEKDAY" => (F::Weekday, 1, 1, int(1)),
        "TO_DAYS" => (F::ToDays, 1, 1, int(6)),
        "HOUR" => (F::Hour, 1, 1, int(2)),
        "MINUTE" => (F::Minute, 1, 1, int(2)),
        "SECOND" => (F::Second, 1, 1, int(2)),
        "MICROSECOND" => (F::Microsecond, 1, 1, int(6)),
        "DATEDIFF" => (F::DateDiff, 2, 2, int(8)),
        "DATE_FORMAT" => {
            let chars = args.get(1).map_or(0, |ty| ty.width.chars);
            let ty = rules::text(chars.saturating_mul(10), dialect);
            (F::DateFormat, 2, 2, ty)
        }
        _ => return None,
    })
}

/// The digits after the point of the second that a value has as a time.
fn temporal_scale(args: &[Ty]) -> u8 {
    match args.first().map(|ty| ty.kind) {
        Some(Kind::DateTime(fsp) | Kind::Time(fsp)) => fsp,
        Some(Kind::Decimal(scale)) => scale.min(6),
        Some(Kind::Text | Kind::Double | Kind::Bytes) => 6,
        _ => 0,
    }
}

fn mysql_json(name: &str, args: &[Ty], dialect: Dialect) -> Option<Found> {
    use Function as F;
    let maria = dialect == Dialect::MariaDb;
    let json = || match maria {
        false => rules::plain(Kind::Json, dialect),
        true if args.first().is_some_and(|ty| ty.kind == Kind::Null) => {
            let mut ty = rules::plain(Kind::Bytes, dialect);
            ty.width.chars = 0;
            ty
        }
        true => {
            // The document may grow by what is put into it, and be printed with more spaces.
            let longer = |sum: u32, ty: &Ty| sum.saturating_add(ty.width.chars).saturating_add(8);
            let first = args
                .first()
                .map_or(0, |ty| ty.width.chars.saturating_mul(2));
            let chars = args.iter().skip(1).fold(first, longer);
            rules::text(at_most(chars, dialect), dialect)
        }
    };
    let built = || match maria {
        false => rules::plain(Kind::Json, dialect),
        true => {
            let chars = args.iter().fold(2_u32, |sum, ty| {
                sum.saturating_add(ty.width.chars).saturating_add(8)
            });
            rules::text(chars, dialect)
        }
    };
    let long = || rules::text(u32::MAX / 4 + 1, dialect);
    Some(match name {
        "JSON_EXTRACT" => (F::JsonExtract, 2, MANY, json()),
        "->" if !maria => (F::JsonExtract, 2, 2, json()),
        "->>" if !maria => (F::JsonExtractText, 2, 2, long()),
        "JSON_UNQUOTE" => (F::JsonUnquote, 1, 1, if maria { json() } else { long() }),
        "JSON_OBJECT" => (F::JsonObject, 0, MANY, built()),
        "JSON_ARRAY" => (F::JsonArray, 0, MANY, built()),
        "JSON_SET" => (F::JsonSet, 3, MANY, json()),
        "JSON_INSERT" => (F::JsonInsert, 3, MANY, json()),
        "JSON_REPLACE" => (F::JsonReplace, 3, MANY, json()),
        "JSON_REMOVE" => (F::JsonRemove, 2, MANY, json()),
        "JSON_TYPE" => (F::JsonType, 1, 1, rules::text(17, dialect)),
        "JSON_QUOTE" => (F::JsonQuote, 1, 1, long()),
        _ => return None,
    })
}

/// MariaDB's functions on texts promise no more than it takes in a packet.
fn at_most(chars: u32, dialect: Dialect) -> u32 {
    match dialect {
        Dialect::MariaDb => chars.min(0x100_0000),
        _ => chars,
    }
}

/// A text, or bytes if an argument is.
fn text_like(args: &[Ty], chars: u32, dialect: Dialect) -> Ty {
    let bytes = args.iter().any(|ty| ty.kind == Kind::Bytes);
    let mut ty = rules::plain(if bytes { Kind::Bytes } else { Kind::Text }, dialect);
    ty.width.chars = at_most(chars, dialect);
    if let Some(strongest) = args
        .iter()
        .filter(|ty| ty.kind == Kind::Text)
        .min_by_key(|ty| ty.coercibility)
        && !bytes
    {
        ty.collation = strongest.collation;
        ty.coercibility = strongest.coercibility;
    }
    ty
}

fn united(args: &[Ty], dialect: Dialect) -> Ty {
    args.iter()
        .cloned()
        .reduce(|a, b| rules::unite(&a, &b, dialect))
        .map_or_else(
            || rules::plain(Kind::Null, dialect),
            |ty| Ty {
                affinity: None,
                ..ty
            },
        )
}

/// The type of `GREATEST` and `LEAST`: MariaDB compares a number and a text as numbers, a time and a
/// text as times.
fn extremes(args: &[Ty], dialect: Dialect) -> Ty {
    let ty = united(args, dialect);
    if dialect != Dialect::MariaDb || ty.kind != Kind::Text {
        return ty;
    }
    let numeric = |ty: &Ty| {
        matches!(
            ty.kind,
            Kind::Int | Kind::Unsigned | Kind::Decimal(_) | Kind::Double
        )
    };
    let temporal = |ty: &&Ty| matches!(ty.kind, Kind::Date | Kind::DateTime(_) | Kind::Time(_));
    if args.iter().any(numeric) && !args.iter().any(|ty| temporal(&ty)) {
        return rules::plain(Kind::Double, dialect);
    }
    let times: Vec<Ty> = args.iter().filter(temporal).cloned().collect();
    match times.is_empty() {
        true => ty,
        false => united(&times, dialect),
    }
}

/// The type of `ABS(x)`.
fn absolute(of: &Ty, dialect: Dialect) -> Ty {
    match of.kind {
        Kind::Int | Kind::Unsigned => rules::integer(
            of.kind == Kind::Unsigned,
            of.width.digits,
            of.width.chars.max(2),
            dialect,
        ),
        Kind::Decimal(scale) => rules::decimal(of.width.digits, scale, dialect),
        Kind::Null | Kind::Text | Kind::Bytes | Kind::Json | Kind::Any | Kind::Double => {
            rules::plain(Kind::Double, dialect)
        }
        Kind::Date | Kind::Time(_) | Kind::DateTime(_) => time_number(of, dialect),
    }
}

/// The number that a time is.
fn time_number(of: &Ty, dialect: Dialect) -> Ty {
    match of.kind {
        Kind::Time(fsp) | Kind::DateTime(fsp) if fsp > 0 => {
            rules::decimal(of.width.digits, fsp, dialect)
        }
        _ => rules::integer(false, of.width.digits, of.width.digits + 1, dialect),
    }
}

/// The type of `ROUND(x, n)` and `TRUNCATE(x, n)`.
fn rounded(of: &Ty, digits: Option<&Ty>, dialect: Dialect) -> Ty {
    match of.kind {
        Kind::Int | Kind::Unsigned => {
            let mut ty = of.clone();
            ty.declared = None;
            if dialect == Dialect::MySql {
                ty.width.bytes = 8;
            }
            ty
        }
        Kind::Decimal(scale) => {
            let scale = match digits {
                Some(_) => scale,
                None => 0,
            };
            rules::decimal(
                rules::whole_digits(of) + 1 + u32::from(scale),
                scale,
                dialect,
            )
        }
        Kind::Date | Kind::Time(_) | Kind::DateTime(_) => time_number(of, dialect),
        _ => rules::plain(Kind::Double, dialect),
    }
}

/// The type of `FLOOR(x)` and `CEIL(x)`.
fn whole(of: &Ty, dialect: Dialect) -> Ty {
    match of.kind {
        Kind::Int | Kind::Unsigned | Kind::Decimal(_) if dialect == Dialect::MySql => {
            match of.kind {
                Kind::Unsigned => rules::plain(Kind::Unsigned, dialect),
                _ => rules::plain(Kind::Int, dialect),
            }
        }
        Kind::Int | Kind::Unsigned => Ty {
            declared: None,
            ..of.clone()
        },
        Kind::Decimal(_) => {
            let digits = rules::whole_digits(of) + 1;
            rules::integer(false, digits, digits + 1, dialect)
        }
        Kind::Date | Kind::Time(_) | Kind::DateTime(_) => time_number(of, dialect),
        _ => rules::plain(Kind::Double, dialect),
    }
}
