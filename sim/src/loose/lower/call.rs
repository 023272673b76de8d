//! Calls of functions, aggregates and window functions.

use rowlock_model::{DbError, Dialect, Value};

use super::Lowering;
use super::aggregate::aggregate_kind;
use super::rules::{self, Typed};
use crate::loose::ast::{Call, Node};
use crate::loose::errors;
use crate::loose::expr::{AggregateKind, Binary, CastTarget, Expr, HostFunction};
use crate::loose::function::Function;
use crate::loose::query::{Kind, Ty};
use crate::loose::types::DeclaredType;

impl Lowering<'_> {
    pub(super) fn call(&mut self, call: &Call, node: &Node) -> Result<Typed, DbError> {
        let name = call.name.name.to_ascii_uppercase();
        if let Some(over) = &call.over {
            return self.window(call, &name, over, node.at);
        }
        let several = call.args.len() > 1;
        if let Some(kind) = aggregate_kind(&name, self.dialect)
            && !(several && matches!(kind, AggregateKind::Min | AggregateKind::Max))
        {
            return self.aggregate_call(call, kind, node.at);
        }
        if call.star || call.distinct || !call.order.is_empty() || call.separator.is_some() {
            return errors::unsupported("this form of a call", call.name.at);
        }
        if call.filter.is_some() {
            return errors::unsupported("FILTER of a function that is no aggregate", call.name.at);
        }
        if let Some(host) = self.host_call(call, &name, node.at)? {
            return Ok(host);
        }
        let args = call
            .args
            .iter()
            .map(|arg| self.expr(arg))
            .collect::<Result<Vec<_>, _>>()?;
        self.pure_call(&name, args, call)
    }

    pub(super) fn wrong_count(&self, call: &Call) -> DbError {
        let name = &call.name.name;
        errors::either(
            self.dialect,
            1582,
            "42000",
            format!("Incorrect parameter count in the call to native function '{name}'"),
            format!("wrong number of arguments to function {name}()"),
        )
        .at(call.name.at)
    }

    fn host_call(&mut self, call: &Call, name: &str, at: usize) -> Result<Option<Typed>, DbError> {
        use HostFunction as H;
        let fsp = match call.args.first().map(|arg| &arg.kind) {
            Some(crate::loose::ast::NodeKind::Integer(text)) => text.parse().unwrap_or(0),
            _ => 0,
        };
        let count = call.args.len();
        let (function, kind, most) = match (name, self.is_sqlite()) {
            ("NOW" | "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP", false) => {
                (H::Now, Kind::DateTime(fsp), 1)
            }
            ("SYSDATE", false) => (H::Sysdate, Kind::DateTime(fsp), 1),
            ("CURDATE" | "CURRENT_DATE", false) => (H::CurrentDate, Kind::Date, 0),
            ("CURTIME" | "CURRENT_TIME", false) => (H::CurrentTime, Kind::Time(fsp), 1),
            ("UTC_TIMESTAMP", false) => (H::UtcTimestamp, Kind::DateTime(fsp), 1),
            ("UNIX_TIMESTAMP", false) if count == 0 => (H::UnixTimestamp, Kind::Int, 0),
            ("LAST_INSERT_ID", false) => (H::LastInsertId, Kind::Unsigned, 1),
            ("LAST_INSERT_ROWID", true) => (H::LastInsertId, Kind::Any, 0),
            ("ROW_COUNT", false) => (H::RowCount, Kind::Int, 0),
            ("CHANGES", true) => (H::RowCount, Kind::Any, 0),
            ("TOTAL_CHANGES", true) => (H::TotalChanges, Kind::Any, 0),
            ("CONNECTION_ID", false) => (H::ConnectionId, Kind::Unsigned, 0),
            ("DATABASE" | "SCHEMA", false) => (H::Database, Kind::Text, 0),
            ("USER" | "CURRENT_USER" | "SESSION_USER", false) => (H::User, Kind::Text, 0),
            ("VERSION", false) | ("SQLITE_VERSION", true) => (H::Version, Kind::Text, 0),
            ("UUID", false) => (H::Uuid, Kind::Text, 0),
            ("RAND", false) => (H::Random, Kind::Double, 1),
            ("RANDOM", true) => (H::Random, Kind::Any, 0),
            ("GET_LOCK", false) => (H::GetLock, Kind::Int, 2),
            ("RELEASE_LOCK", false) => (H::ReleaseLock, Kind::Int, 1),
            ("RELEASE_ALL_LOCKS", false) => (H::ReleaseAllLocks, Kind::Int, 0),
            ("IS_FREE_LOCK", false) => (H::IsFreeLock, Kind::Int, 1),
            ("IS_USED_LOCK", false) => (H::IsUsedLock, Kind::Int, 1),
            ("SLEEP", false) => (H::Sleep, Kind::Int, 1),
            ("FOUND_ROWS", false) => (H::FoundRows, Kind::Int, 0),
            ("CURRENT_TIMESTAMP" | "CURRENT_DATE" | "CURRENT_TIME", true) => {
                let function = match name {
                    "CURRENT_TIMESTAMP" => Function::SqliteDateTime,
                    "CURRENT_DATE" => Function::SqliteDate,
                    _ => Function::SqliteTime,
                };
                let args = vec![julian_now()];
                return Ok(Some(self.plain(
                    Expr::Call { function, args },
                    Kind::Any,
                    at,
                )));
            }
            _ => return Ok(None),
        };
        let least = match function {
            H::GetLock => 2,
            H::ReleaseLock | H::IsFreeLock | H::IsUsedLock | H::Sleep => 1,
            _ => 0,
        };
        if count > most || count < least {
            return Err(self.wrong_count(call));
        }
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.expr(arg)?.expr);
        }
        let mut typed = self.plain(Expr::Host { function, args }, kind, at);
        // MariaDB says of these how long they can get: 32 bits are enough.
        if self.dialect == Dialect::MariaDb {
            let unsigned = match function {
                H::GetLock | H::ReleaseLock | H::IsFreeLock | H::IsUsedLock => Some(false),
                H::ConnectionId | H::ReleaseAllLocks => Some(true),
                _ => None,
            };
            typed.ty.declared = unsigned.map(|unsigned| DeclaredType::Int { bytes: 4, unsigned });
        }
        Ok(Some(typed))
    }

    fn pure_call(&mut self, name: &str, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        use Function as F;
        let at = call.name.at;
        let sqlite = self.is_sqlite();
        let first = args.first().map(|arg| arg.ty.clone());
        let united = args
            .iter()
            .map(|arg| arg.ty.clone())
            .reduce(|a, b| rules::unite(&a, &b, self.dialect));
        let united = || {
            united
                .clone()
                .unwrap_or_else(|| rules::plain(Kind::Null, self.dialect))
        };
        let number = |ty: &Option<Ty>| match ty.as_ref().map(|ty| ty.kind) {
            Some(kind @ (Kind::Int | Kind::Unsigned | Kind::Decimal(_))) => kind,
            _ => Kind::Double,
        };
        let kind_only = |kind: Kind| rules::plain(kind, self.dialect);
        let many = usize::MAX;
        // name, function, least and most arguments, type of the value
        let (function, least, most, ty) = match (name, sqlite) {
            ("ABS", _) => (F::Abs, 1, 1, kind_only(number(&first))),
            ("ROUND", _) => (F::Round, 1, 2, kind_only(number(&first))),
            ("FLOOR", false) => (F::Floor, 1, 1, kind_only(whole(number(&first)))),
            ("CEIL" | "CEILING", false) => (F::Ceil, 1, 1, kind_only(whole(number(&first)))),
            ("SIGN", _) => (F::Sign, 1, 1, kind_only(Kind::Int)),
            ("COALESCE", _) => (F::Coalesce, usize::from(sqlite) + 1, many, united()),
            ("IFNULL", _) => (F::Coalesce, 2, 2, united()),
            ("NULLIF", _) => return self.null_if(args, call),
            ("IF", false) | ("IIF", true) => return self.if_call(args, call),
            ("GREATEST", false) | ("MAX", true) => (F::Greatest, 2, many, united()),
            ("LEAST", false) | ("MIN", true) => (F::Least, 2, many, united()),
            ("MOD", false) => {
                let [left, right] =
                    <[Typed; 2]>::try_from(args).map_err(|_| self.wrong_count(call))?;
                let (numbers, kind) =
                    rules::arithmetic(Binary::Modulo, left.ty.kind, right.ty.kind, self.dialect);
                let expr = Expr::Binary {
                    op: Binary::Modulo,
                    numbers,
                    sides: Box::new((left.expr, right.expr)),
                };
                return Ok(self.plain(expr, kind, at));
            }
            ("CONCAT", false) => (F::Concat, 1, many, kind_only(Kind::Text)),
            ("CONCAT_WS", false) => (F::ConcatWs, 2, many, kind_only(Kind::Text)),
            ("LENGTH", true) => (F::CharLength, 1, 1, kind_only(Kind::Any)),
            ("LENGTH" | "OCTET_LENGTH", false) => (F::ByteLength, 1, 1, kind_only(Kind::Int)),
            ("CHAR_LENGTH" | "CHARACTER_LENGTH", false) => {
                (F::CharLength, 1, 1, kind_only(Kind::Int))
            }
            ("LOWER", _) | ("LCASE", false) => (F::Lower, 1, 1, kind_only(Kind::Text)),
            ("UPPER", _) | ("UCASE", false) => (F::Upper, 1, 1, kind_only(Kind::Text)),
            ("SUBSTR" | "SUBSTRING", _) | ("MID", false) => {
                (F::Substr, 2, 3, kind_only(Kind::Text))
            }
            ("LEFT", false) => (F::Left, 2, 2, kind_only(Kind::Text)),
            ("RIGHT", false) => (F::Right, 2, 2, kind_only(Kind::Text)),
            ("TRIM", _) => (F::Trim, 1, 1 + usize::from(sqlite), kind_only(Kind::Text)),
            ("LTRIM", _) => (
                F::TrimLeft,
                1,
                1 + usize::from(sqlite),
                kind_only(Kind::Text),
            ),
            ("RTRIM", _) => (
                F::TrimRight,
                1,
                1 + usize::from(sqlite),
                kind_only(Kind::Text),
            ),
            ("REPLACE", _) => (F::Replace, 3, 3, kind_only(Kind::Text)),
            ("LOCATE", false) => (F::Locate, 2, 3, kind_only(Kind::Int)),
            ("INSTR", _) => (F::Instr, 2, 2, kind_only(Kind::Int)),
            ("LPAD", false) => (F::PadLeft, 3, 3, kind_only(Kind::Text)),
            ("RPAD", false) => (F::PadRight, 3, 3, kind_only(Kind::Text)),
            ("REPEAT", false) => (F::Repeat, 2, 2, kind_only(Kind::Text)),
            ("REVERSE", false) => (F::Reverse, 1, 1, kind_only(Kind::Text)),
            ("HEX", _) => (F::Hex, 1, 1, kind_only(Kind::Text)),
            // A length of NULL means different things on MySQL and MariaDB: only literals.
            ("SHA2", false)
                if matches!(
                    args.get(1).map(|arg| &arg.expr),
                    Some(Expr::Const(Value::Int(0 | 256)))
                ) =>
            {
                (F::Sha256, 2, 2, kind_only(Kind::Text))
            }
            ("TYPEOF", true) => (F::TypeOf, 1, 1, kind_only(Kind::Text)),
            ("FIELD", false) => (F::Field, 2, many, kind_only(Kind::Int)),
            ("FIND_IN_SET", false) => (F::FindInSet, 2, 2, kind_only(Kind::Int)),
            ("ELT", false) => (F::Elt, 2, many, kind_only(Kind::Text)),
            ("UNIX_TIMESTAMP", false) => {
                let kind = match first.as_ref().map(|ty| ty.kind) {
                    Some(Kind::DateTime(fsp)) if fsp > 0 => Kind::Decimal(fsp),
                    _ => Kind::Int,
                };
                (F::UnixTimestamp, 1, 1, kind_only(kind))
            }
            ("FROM_UNIXTIME", false) => (F::FromUnixtime, 1, 1, kind_only(Kind::DateTime(0))),
            ("DATE", false) => (F::Date, 1, 1, kind_only(Kind::Date)),
            ("YEAR", false) => (F::Year, 1, 1, kind_only(Kind::Int)),
            ("MONTH", false) => (F::Month, 1, 1, kind_only(Kind::Int)),
            ("DAY" | "DAYOFMONTH", false) => (F::Day, 1, 1, kind_only(Kind::Int)),
            ("HOUR", false) => (F::Hour, 1, 1, kind_only(Kind::Int)),
            ("MINUTE", false) => (F::Minute, 1, 1, kind_only(Kind::Int)),
            ("SECOND", false) => (F::Second, 1, 1, kind_only(Kind::Int)),
            ("DATEDIFF", false) => (F::DateDiff, 2, 2, kind_only(Kind::Int)),
            ("DATETIME", true) => return Ok(self.sqlite_time(F::SqliteDateTime, args, at)),
            ("DATE", true) => return Ok(self.sqlite_time(F::SqliteDate, args, at)),
            ("TIME", true) => return Ok(self.sqlite_time(F::SqliteTime, args, at)),
            ("JULIANDAY", true) => return Ok(self.sqlite_time(F::SqliteJulianDay, args, at)),
            ("UNIXEPOCH", true) => return Ok(self.sqlite_time(F::SqliteUnixEpoch, args, at)),
            ("STRFTIME", true) => return Ok(self.sqlite_time(F::SqliteStrftime, args, at)),
            ("JSON_EXTRACT", _) => (F::JsonExtract, 2, 2, kind_only(json_kind(sqlite))),
            ("->", _) => (F::JsonExtract, 2, 2, kind_only(json_kind(sqlite))),
            ("->>", _) => (F::JsonExtractText, 2, 2, kind_only(Kind::Text)),
            ("JSON_VALID", _) => (F::JsonValid, 1, 1, kind_only(Kind::Int)),
            (
                "JSON_OBJECT" | "JSON_ARRAY" | "JSON_SET" | "MD5" | "CRC32" | "DATE_FORMAT"
                | "STR_TO_DATE" | "FORMAT" | "POW" | "POWER" | "SQRT" | "LOG" | "EXP"
                | "RANDOMBLOB" | "PRINTF" | "QUOTE" | "CHAR" | "UNICODE" | "SHA1" | "SHA2"
                | "UUID_TO_BIN" | "BIN_TO_UUID" | "JSON_UNQUOTE" | "JSON_CONTAINS" | "CEIL"
                | "FLOOR" | "LIKELY" | "UNLIKELY" | "ZEROBLOB" | "LIKE" | "GLOB" | "TRUNCATE"
                | "INSERT" | "BENCHMARK" | "ANY_VALUE" | "TIMEDIFF" | "DATE_TRUNC" | "WEEKDAY"
                | "DAYOFWEEK" | "TO_DAYS" | "CONV" | "ASCII" | "ORD" | "SPACE" | "STRCMP"
                | "INET_ATON" | "MICROSECOND" | "QUARTER" | "WEEK" | "TIME" | "TIMESTAMP" | "CAST",
                _,
            ) => {
                return errors::unsupported(format!("the function {name}"), at);
            }
            _ => {
                let shown = &call.name.name;
                let database = self.catalog.database();
                return Err(errors::either(
                    self.dialect,
                    1305,
                    "42000",
                    format!("FUNCTION {database}.{shown} does not exist"),
                    format!("no such function: {shown}"),
                )
                .at(at));
            }
        };
        if args.len() < least || args.len() > most {
            return Err(self.wrong_count(call));
        }
        let args = match (function, sqlite) {
            // Compared and given in one common type.
            (F::Greatest | F::Least | F::Coalesce, false) => self.converted(args, &ty),
            _ => args.into_iter().map(|arg| arg.expr).collect(),
        };
        let mut ty = ty;
        ty.affinity = None;
        ty.declared = None;
        Ok(Typed {
            expr: Expr::Call { function, args },
            ty,
            at,
        })
    }

    /// Arguments converted to a common type where theirs differs.
    fn converted(&self, args: Vec<Typed>, ty: &Ty) -> Vec<Expr> {
        use crate::loose::types::DeclaredType as D;
        let convert = |arg: Typed| {
            let same = arg.ty.kind == ty.kind || arg.ty.kind == Kind::Null;
            let declared = match ty.kind {
                _ if same => None,
                Kind::Text => Some(D::Varchar(u32::MAX)),
                Kind::Double => Some(D::Double),
                Kind::Decimal(scale) => Some(D::Decimal {
                    precision: 28,
                    scale,
                    unsigned: false,
                }),
                Kind::DateTime(fsp) => Some(D::DateTime(fsp)),
                _ => None,
            };
            match declared {
                Some(declared) => Expr::Cast {
                    expr: Box::new(arg.expr),
                    to: CastTarget::Declared(declared),
                },
                None => arg.expr,
            }
        };
        args.into_iter().map(convert).collect()
    }

    fn null_if(&mut self, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        let [left, right] = <[Typed; 2]>::try_from(args).map_err(|_| self.wrong_count(call))?;
        let equal = self.compared(crate::loose::expr::Compare::Eq, left.clone(), right);
        let mut ty = left.ty;
        ty.affinity = None;
        ty.declared = None;
        Ok(Typed {
            expr: Expr::Case {
                branches: vec![(equal, Expr::Const(Value::Null))],
                otherwise: Box::new(left.expr),
            },
            ty,
            at: call.name.at,
        })
    }

    fn if_call(&mut self, args: Vec<Typed>, call: &Call) -> Result<Typed, DbError> {
        let [when, then, otherwise] =
            <[Typed; 3]>::try_from(args).map_err(|_| self.wrong_count(call))?;
        let ty = rules::unite(&then.ty, &otherwise.ty, self.dialect);
        Ok(Typed {
            expr: Expr::Case {
                branches: vec![(when.expr, then.expr)],
                otherwise: Box::new(otherwise.expr),
            },
            ty,
            at: call.name.at,
        })
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

fn julian_now() -> Expr {
    Expr::Host {
        function: HostFunction::JulianNow,
        args: Vec::new(),
    }
}

fn json_kind(sqlite: bool) -> Kind {
    match sqlite {
        true => Kind::Any,
        false => Kind::Json,
    }
}

fn whole(kind: Kind) -> Kind {
    match kind {
        Kind::Decimal(_) => Kind::Int,
        other => other,
    }
}
