//! The pure functions and operators, resolved to their argument types.

use std::sync::Arc;

use rowlock_model::{DbError, Value};

use super::compare::{order, same};
use super::{Comparison, format, hash, json, number, pattern, temporal, text};
use crate::plan::types::{Type, output};

/// The arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `%`.
    Modulo,
}

/// Operators on the bits of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// `&`.
    And,
    /// `|`.
    Or,
    /// `#`.
    Xor,
    /// `<<`.
    Left,
    /// `>>`.
    Right,
}

/// How a fraction is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `ceil`.
    Up,
    /// `floor`.
    Down,
    /// `round`.
    Nearest,
    /// `trunc`.
    Zero,
}

/// Which end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The start.
    Start,
    /// The end.
    End,
    /// Both.
    Both,
}

/// A pure function or operator. Types name the type of the operands (and of the result of
/// arithmetic). All of them give NULL for a NULL argument unless [`Function::is_strict`] says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the variants are named after the SQL functions that they are"
)]
pub enum Function {
    Arithmetic(Arithmetic, Type),
    Negate(Type),
    Abs(Type),
    Sign(Type),
    Bits(Bits, Type),
    BitNot(Type),
    Power,
    SquareRoot,
    Exp,
    Ln,
    /// `ceil`, `floor`, `round`, `trunc` of `numeric` or `float8`.
    Round(Rounding, Type),
    /// `round(numeric, int)`, `trunc(numeric, int)`.
    RoundTo(Rounding),
    /// `div(numeric, numeric)`.
    WholeQuotient,

    Concat,
    /// `concat(..)`: NULLs are left out. Arguments are text.
    ConcatAll,
    /// `concat_ws(sep, ..)`.
    ConcatWith,
    Lower,
    Upper,
    InitCap,
    Length,
    OctetLength,
    /// `octet_length` and `length` of `bytea`.
    ByteLength,
    Substring,
    LeftPart,
    RightPart,
    Pad(End),
    Trim(End),
    Replace,
    Translate,
    Position,
    SplitPart,
    Repeat,
    Reverse,
    StartsWith,
    Ascii,
    Character,
    Md5,
    Md5Bytes,
    HexOf,
    QuoteLiteral,
    QuoteIdent,
    Format,
    /// `LIKE`: text, pattern, and perhaps the escape character; `true` ignores case.
    Like(bool),
    /// The output text of a value, as `concat` and `format` use it.
    Output(Type),
    HashText,
    HashTextExtended,
    Encode,
    Decode,
    BytesConcat,
    ConvertTo,

    TimestampPlusInterval,
    TimestampMinusInterval,
    TimestampMinusTimestamp,
    IntervalArithmetic(Arithmetic),
    IntervalNegate,
    IntervalTimes,
    IntervalDivide,
    DatePlusDays,
    DateMinusDays,
    DateMinusDate,
    DatePlusTime,
    TimePlusInterval,
    TimeMinusInterval,
    TimeMinusTime,
    Truncate(Type),
    /// `extract(field from ..)`: `numeric`.
    Extract(Type),
    /// `date_part`: `float8`.
    DatePart(Type),
    ToTimestamp,
    MakeInterval,
    MakeDate,
    /// `timestamptz AT TIME ZONE` and `timestamp AT TIME ZONE`: zone first.
    AtTimeZone,
    IsFinite,
    JustifyInterval,

    ArrayLength,
    ArrayUpper,
    Cardinality,
    ArrayAppend,
    ArrayPrepend,
    ArrayConcat,
    ArrayPosition,
    ArrayRemove,
    ArrayContains,
    ArrayOverlaps,
    ArrayElement,
    ArrayToString(Type),
    StringToArray,

    /// `->` by field name, and `->>` (`true`).
    JsonField(bool, Type),
    /// `->` by position, and `->>` (`true`).
    JsonElement(bool, Type),
    JsonbConcat,
    JsonbContains,
    JsonbHasKey,
    JsonTypeOf,
    /// `to_jsonb` of a value of this type.
    ToJson(Type),
    /// `to_json` of a value of this type.
    JsonOutput(Type),
    /// `jsonb_build_object`: names and already converted values.
    JsonbBuildObject,
    JsonbArrayLength,
    /// `#>` and `#>>` (`true`): along a path of names and positions.
    JsonPath(bool, Type),
    /// `jsonb - text`, `jsonb - text[]`.
    JsonbDeleteKeys,
    /// `jsonb - integer`.
    JsonbDeleteElement,
    /// `#-`.
    JsonbDeletePath,
    /// `?|`.
    JsonbHasAny,
    /// `?&`.
    JsonbHasAll,
    JsonbSet,
    JsonStripNulls(Type),
    /// `json_build_object`: names and already converted values.
    JsonBuildObject,
    /// `json_build_array`, `jsonb_build_array`: already converted values.
    JsonBuildArray(Type),
    /// A row as `json`: names of its fields, and already converted values.
    RowToJson,
    NumNulls(bool),

    /// `~`; `fold` ignores case (`~*`).
    Matches {
        fold: bool,
    },
    /// `to_char` of a `timestamp` or `timestamptz`.
    ToChar,
}

/// The integer among the arguments, as the compiler has ensured.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(i) => *i,
        other => panic!("an integer function got {other:?}"),
    }
}

/// The text among the arguments.
pub(super) fn string(value: &Value) -> &str {
    match value {
        Value::Text(s) => s,
        other => panic!("a text function got {other:?}"),
    }
}

pub(super) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("a bytea function got {other:?}"),
    }
}

impl Function {
    /// Whether a NULL argument makes the result NULL without further ado.
    pub fn is_strict(self) -> bool {
        !matches!(
            self,
            Function::ConcatAll
                | Function::ConcatWith
                | Function::Format
                | Function::ArrayAppend
                | Function::ArrayPrepend
                | Function::ArrayConcat
                | Function::ArrayPosition
                | Function::ArrayRemove
                | Function::ArrayToString(_)
                | Function::StringToArray
                | Function::JsonbBuildObject
                | Function::JsonBuildObject
                | Function::JsonBuildArray(_)
                | Function::RowToJson
                | Function::ToJson(_)
                | Function::JsonOutput(_)
                | Function::NumNulls(_)
        )
    }

    /// The value for these arguments.
    ///
    /// # Errors
    /// What the function raises: 22003, 22012, ...
    ///
    /// # Panics
    /// If the arguments are not of the function's types: the plan is wrong.
    pub fn call(self, args: &[&Value]) -> Result<Value, DbError> {
        if self.is_strict() && args.iter().any(|a| a.is_null()) {
            return Ok(Value::Null);
        }
        use Function as F;
        match self {
            F::Arithmetic(..)
            | F::Negate(_)
            | F::Abs(_)
            | F::Sign(_)
            | F::Bits(..)
            | F::BitNot(_)
            | F::Power
            | F::SquareRoot
            | F::Exp
            | F::Ln
            | F::Round(..)
            | F::RoundTo(_)
            | F::WholeQuotient => number::call(self, args),
            F::TimestampPlusInterval
            | F::TimestampMinusInterval
            | F::TimestampMinusTimestamp
            | F::IntervalArithmetic(_)
            | F::IntervalNegate
            | F::IntervalTimes
            | F::IntervalDivide
            | F::DatePlusDays
            | F::DateMinusDays
            | F::DateMinusDate
            | F::DatePlusTime
            | F::TimePlusInterval
            | F::TimeMinusInterval
            | F::TimeMinusTime
            | F::Truncate(_)
            | F::Extract(_)
            | F::DatePart(_)
            | F::ToTimestamp
            | F::MakeInterval
            | F::MakeDate
            | F::AtTimeZone
            | F::IsFinite
            | F::JustifyInterval => temporal::call(self, args),
            F::ArrayLength
            | F::ArrayUpper
            | F::Cardinality
            | F::ArrayAppend
            | F::ArrayPrepend
            | F::ArrayConcat
            | F::ArrayPosition
            | F::ArrayRemove
            | F::ArrayContains
            | F::ArrayOverlaps
            | F::ArrayElement
            | F::ArrayToString(_)
            | F::StringToArray => self.array(args),
            F::JsonField(..)
            | F::JsonElement(..)
            | F::JsonbConcat
            | F::JsonbContains
            | F::JsonbHasKey
            | F::JsonTypeOf
            | F::ToJson(_)
            | F::JsonOutput(_)
            | F::JsonbBuildObject
            | F::JsonbArrayLength
            | F::JsonPath(..)
            | F::JsonbDeleteKeys
            | F::JsonbDeleteElement
            | F::JsonbDeletePath
            | F::JsonbHasAny
            | F::JsonbHasAll
            | F::JsonbSet
            | F::JsonStripNulls(_)
            | F::JsonBuildObject
            | F::JsonBuildArray(_)
            | F::RowToJson => json::call(self, args),
            F::Matches { .. } => pattern::call(self, args),
            F::ToChar => format::to_char(args[0], string(args[1])),
            _ => self.text(args),
        }
    }

    fn text(self, args: &[&Value]) -> Result<Value, DbError> {
        use Function as F;
        Ok(match self {
            F::Concat => {
                let (a, b) = (string(args[0]), string(args[1]));
                Value::text([a, b].concat())
            }
            F::ConcatAll => Value::text(joined("", args)),
            F::ConcatWith => match args[0] {
                Value::Null => Value::Null,
                separator => Value::text(joined(string(separator), &args[1..])),
            },
            F::Lower => Value::text(string(args[0]).to_lowercase()),
            F::Upper => Value::text(string(args[0]).to_uppercase()),
            F::InitCap => Value::text(text::init_cap(string(args[0]))),
            F::Length => Value::Int(string(args[0]).chars().count() as i64),
            F::OctetLength => Value::Int(string(args[0]).len() as i64),
            F::ByteLength => Value::Int(bytes(args[0]).len() as i64),
            F::Substring => {
                let count = args.get(2).map(|n| int(n));
                Value::text(text::substring(string(args[0]), int(args[1]), count)?)
            }
            F::LeftPart => Value::text(text::left(string(args[0]), int(args[1]))),
            F::RightPart => Value::text(text::right(string(args[0]), int(args[1]))),
            F::Pad(end) => {
                let fill = args.get(2).map_or(" ", |f| string(f));
                Value::text(text::pad(string(args[0]), int(args[1]), fill, end))
            }
            F::Trim(end) => {
                let set = args.get(1).map_or(" ", |s| string(s));
                Value::text(text::trim(string(args[0]), set, end))
            }
            F::Replace => {
                let (from, to) = (string(args[1]), string(args[2]));
                if from.is_empty() {
                    args[0].clone()
                } else {
                    Value::text(string(args[0]).replace(from, to))
                }
            }
            F::Translate => Value::text(text::translate(
                string(args[0]),
                string(args[1]),
                string(args[2]),
            )),
            F::Position => {
                let (whole, part) = (string(args[0]), string(args[1]));
                let at = whole.find(part);
                Value::Int(at.map_or(0, |i| whole[..i].chars().count() as i64 + 1))
            }
            F::SplitPart => Value::text(text::split_part(
                string(args[0]),
                string(args[1]),
                int(args[2]),
            )?),
            F::Repeat => {
                let times = usize::try_from(int(args[1])).unwrap_or(0);
                Value::text(string(args[0]).repeat(times))
            }
            F::Reverse => Value::text(string(args[0]).chars().rev().collect::<String>()),
            F::StartsWith => Value::Bool(string(args[0]).starts_with(string(args[1]))),
            F::Ascii => Value::Int(
                string(args[0])
                    .chars()
                    .next()
                    .map_or(0, |c| i64::from(c as u32)),
            ),
            F::Character => Value::text(text::character(int(args[0]))?),
            F::Md5 => Value::text(hash::md5(string(args[0]).as_bytes())),
            F::Md5Bytes => Value::text(hash::md5(bytes(args[0]))),
            F::HexOf => Value::text(format!("{:x}", int(args[0]))),
            F::QuoteLiteral => Value::text(text::quote_literal(string(args[0]))),
            F::QuoteIdent => Value::text(text::quote_ident(string(args[0]))),
            F::Format => text::format(args)?,
            F::Like(fold) => {
                let escape = args.get(2).map_or("\\", |e| string(e));
                Value::Bool(text::like(string(args[0]), string(args[1]), escape, fold)?)
            }
            F::Output(ty) => Value::text(output::text(args[0], ty)),
            F::HashText => Value::Int(i64::from(hash::hash_text(string(args[0]).as_bytes()))),
            F::HashTextExtended => Value::Int(hash::hash_text_extended(
                string(args[0]).as_bytes(),
                int(args[1]),
            )),
            F::Encode => Value::text(text::encode(bytes(args[0]), string(args[1]))?),
            F::Decode => Value::Bytes(text::decode(string(args[0]), string(args[1]))?.into()),
            F::BytesConcat => Value::Bytes([bytes(args[0]), bytes(args[1])].concat().into()),
            F::ConvertTo => Value::Bytes(string(args[0]).as_bytes().into()),
            F::NumNulls(nulls) => {
                let count = args.iter().filter(|a| a.is_null() == nulls).count();
                Value::Int(count as i64)
            }
            other => panic!("{other:?} is not a text function"),
        })
    }

    fn array(self, args: &[&Value]) -> Result<Value, DbError> {
        use Function as F;
        let by = Comparison::Plain;
        let of = |list: Vec<Value>| Value::Array(Arc::from(list));
        Ok(match self {
            F::ArrayLength | F::ArrayUpper => {
                let list = items(args[0]);
                if list.is_empty() || int(args[1]) != 1 {
                    Value::Null
                } else {
                    Value::Int(list.len() as i64)
                }
            }
            F::Cardinality => Value::Int(items(args[0]).len() as i64),
            F::ArrayAppend => {
                let mut list = items(args[0]).to_vec();
                list.push(args[1].clone());
                of(list)
            }
            F::ArrayPrepend => {
                let mut list = vec![args[0].clone()];
                list.extend_from_slice(items(args[1]));
                of(list)
            }
            F::ArrayConcat => match (args[0], args[1]) {
                (Value::Null, other) | (other, Value::Null) => other.clone(),
                (a, b) => of([items(a), items(b)].concat()),
            },
            F::ArrayPosition => match args[0] {
                Value::Null => Value::Null,
                list => items(list)
                    .iter()
                    .position(|v| same(v, args[1], &by))
                    .map_or(Value::Null, |i| Value::Int(i as i64 + 1)),
            },
            F::ArrayRemove => match args[0] {
                Value::Null => Value::Null,
                list => of(items(list)
                    .iter()
                    .filter(|v| !same(v, args[1], &by))
                    .cloned()
                    .collect()),
            },
            F::ArrayContains => {
                let list = items(args[0]);
                Value::Bool(items(args[1]).iter().all(|v| {
                    !v.is_null()
                        && list
                            .iter()
                            .any(|w| !w.is_null() && order(v, w, &by).is_eq())
                }))
            }
            F::ArrayOverlaps => {
                let list = items(args[0]);
                Value::Bool(items(args[1]).iter().any(|v| {
                    !v.is_null()
                        && list
                            .iter()
                            .any(|w| !w.is_null() && order(v, w, &by).is_eq())
                }))
            }
            F::ArrayElement => usize::try_from(int(args[1]) - 1)
                .ok()
                .and_then(|i| items(args[0]).get(i))
                .cloned()
                .unwrap_or(Value::Null),
            F::ArrayToString(element) => {
                if args[0].is_null() || args[1].is_null() {
                    return Ok(Value::Null);
                }
                let null = args.get(2).and_then(|n| n.as_str());
                let parts: Vec<String> = items(args[0])
                    .iter()
                    .filter_map(|v| match v {
                        Value::Null => null.map(str::to_owned),
                        v => Some(output::text(v, element)),
                    })
                    .collect();
                Value::text(parts.join(string(args[1])))
            }
            F::StringToArray => match (args[0], args[1]) {
                (Value::Null, _) => Value::Null,
                (s, Value::Null) => of(string(s)
                    .chars()
                    .map(|c| Value::text(c.to_string()))
                    .collect()),
                (s, _) if string(s).is_empty() => of(Vec::new()),
                (s, separator) if string(separator).is_empty() => of(vec![s.clone()]),
                (s, separator) => of(string(s)
                    .split(string(separator))
                    .map(Value::text)
                    .collect()),
            },
            other => panic!("{other:?} is not an array function"),
        })
    }
}

fn joined(separator: &str, args: &[&Value]) -> String {
    let parts: Vec<&str> = args.iter().filter_map(|a| a.as_str()).collect();
    parts.join(separator)
}
