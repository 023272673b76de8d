//! The functions that are modelled, by name and argument types.

use super::operator::{Build, Candidate, candidate};
use crate::plan::expr::function::{Arithmetic, End, Rounding};
use crate::plan::expr::{Function, HostFunction};
use crate::plan::types::Type;

use Type::{
    Bool, Bytea, Date, Float4, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Name, Numeric,
    RegClass, Text, Time, Timestamp, TimestampTz, Uuid, Void, Xid8,
};

/// `text[]`.
const TEXTS: Type = Type::Array(&Type::Text);

/// The candidates for a function name; empty if the name is not known.
pub(super) fn candidates(name: &str) -> Vec<Candidate> {
    let list = text(name);
    if !list.is_empty() {
        return list;
    }
    let list = numbers(name);
    if !list.is_empty() {
        return list;
    }
    let list = times(name);
    if !list.is_empty() {
        return list;
    }
    stateful(name)
}

fn pure(args: &[Type], result: Type, function: Function) -> Candidate {
    candidate(args, result, Build::Pure(function))
}

fn host(args: &[Type], result: Type, function: HostFunction) -> Candidate {
    candidate(args, result, Build::Host(function))
}

fn text(name: &str) -> Vec<Candidate> {
    use Function as F;
    match name {
        "lower" => vec![pure(&[Text], Text, F::Lower)],
        "upper" => vec![pure(&[Text], Text, F::Upper)],
        "initcap" => vec![pure(&[Text], Text, F::InitCap)],
        "length" => vec![
            pure(&[Text], Int4, F::Length),
            pure(&[Bytea], Int4, F::ByteLength),
        ],
        "char_length" | "character_length" => vec![pure(&[Text], Int4, F::Length)],
        "octet_length" => vec![
            pure(&[Text], Int4, F::OctetLength),
            pure(&[Bytea], Int4, F::ByteLength),
        ],
        "substr" | "substring" => vec![
            pure(&[Text, Int4], Text, F::Substring),
            pure(&[Text, Int4, Int4], Text, F::Substring),
        ],
        "left" => vec![pure(&[Text, Int4], Text, F::LeftPart)],
        "right" => vec![pure(&[Text, Int4], Text, F::RightPart)],
        "lpad" | "rpad" => {
            let end = if name == "lpad" { End::Start } else { End::End };
            vec![
                pure(&[Text, Int4], Text, F::Pad(end)),
                pure(&[Text, Int4, Text], Text, F::Pad(end)),
            ]
        }
        "btrim" | "ltrim" | "rtrim" => {
            let end = match name {
                "btrim" => End::Both,
                "ltrim" => End::Start,
                _ => End::End,
            };
            vec![
                pure(&[Text], Text, F::Trim(end)),
                pure(&[Text, Text], Text, F::Trim(end)),
            ]
        }
        "replace" => vec![pure(&[Text, Text, Text], Text, F::Replace)],
        "translate" => vec![pure(&[Text, Text, Text], Text, F::Translate)],
        "strpos" | "position" => vec![pure(&[Text, Text], Int4, F::Position)],
        "split_part" => vec![pure(&[Text, Text, Int4], Text, F::SplitPart)],
        "repeat" => vec![pure(&[Text, Int4], Text, F::Repeat)],
        "reverse" => vec![pure(&[Text], Text, F::Reverse)],
        "starts_with" => vec![pure(&[Text, Text], Bool, F::StartsWith)],
        "ascii" => vec![pure(&[Text], Int4, F::Ascii)],
        "chr" => vec![pure(&[Int4], Text, F::Character)],
        "md5" => vec![
            pure(&[Text], Text, F::Md5),
            pure(&[Bytea], Text, F::Md5Bytes),
        ],
        "to_hex" => vec![pure(&[Int4], Text, F::HexOf), pure(&[Int8], Text, F::HexOf)],
        "quote_literal" => vec![pure(&[Text], Text, F::QuoteLiteral)],
        "quote_ident" => vec![pure(&[Text], Text, F::QuoteIdent)],
        "hashtext" => vec![pure(&[Text], Int4, F::HashText)],
        "hashtextextended" => vec![pure(&[Text, Int8], Int8, F::HashTextExtended)],
        "encode" => vec![pure(&[Bytea, Text], Text, F::Encode)],
        "decode" => vec![pure(&[Text, Text], Bytea, F::Decode)],
        "convert_to" => vec![pure(&[Text, Name], Bytea, F::ConvertTo)],
        "jsonb_typeof" => vec![pure(&[Jsonb], Text, F::JsonTypeOf)],
        "json_typeof" => vec![pure(&[Json], Text, F::JsonTypeOf)],
        "jsonb_set" => vec![
            pure(&[Jsonb, TEXTS, Jsonb], Jsonb, F::JsonbSet),
            pure(&[Jsonb, TEXTS, Jsonb, Bool], Jsonb, F::JsonbSet),
        ],
        "jsonb_strip_nulls" => vec![pure(&[Jsonb], Jsonb, F::JsonStripNulls(Jsonb))],
        "json_strip_nulls" => vec![pure(&[Json], Json, F::JsonStripNulls(Json))],
        "jsonb_array_length" => vec![pure(&[Jsonb], Int4, F::JsonbArrayLength)],
        "json_array_length" => vec![pure(&[Json], Int4, F::JsonbArrayLength)],
        "string_to_array" => vec![pure(
            &[Text, Text],
            Type::Array(&Type::Text),
            F::StringToArray,
        )],
        _ => Vec::new(),
    }
}

fn numbers(name: &str) -> Vec<Candidate> {
    use Function as F;
    let both = |how: Rounding| {
        vec![
            pure(&[Float8], Float8, F::Round(how, Float8)),
            pure(&[Numeric], Numeric, F::Round(how, Numeric)),
        ]
    };
    match name {
        "abs" => [Int2, Int4, Int8, Numeric, Float4, Float8]
            .iter()
            .map(|t| pure(&[*t], *t, F::Abs(*t)))
            .collect(),
        "sign" => vec![
            pure(&[Float8], Float8, F::Sign(Float8)),
            pure(&[Numeric], Numeric, F::Sign(Numeric)),
        ],
        "mod" => [Int2, Int4, Int8, Numeric]
            .iter()
            .map(|t| pure(&[*t, *t], *t, F::Arithmetic(Arithmetic::Modulo, *t)))
            .collect(),
        "div" => vec![pure(&[Numeric, Numeric], Numeric, F::WholeQuotient)],
        "ceil" | "ceiling" => both(Rounding::Up),
        "floor" => both(Rounding::Down),
        "round" => {
            let mut list = both(Rounding::Nearest);
            list.push(pure(
                &[Numeric, Int4],
                Numeric,
                F::RoundTo(Rounding::Nearest),
            ));
            list
        }
        "trunc" => {
            let mut list = both(Rounding::Zero);
            list.push(pure(&[Numeric, Int4], Numeric, F::RoundTo(Rounding::Zero)));
            list
        }
        "power" | "pow" => vec![
            pure(&[Float8, Float8], Float8, F::Power),
            candidate(&[Numeric, Numeric], Numeric, Build::Refused),
        ],
        "sqrt" | "exp" | "ln" => {
            let function = match name {
                "sqrt" => F::SquareRoot,
                "exp" => F::Exp,
                _ => F::Ln,
            };
            vec![
                pure(&[Float8], Float8, function),
                candidate(&[Numeric], Numeric, Build::Refused),
            ]
        }
        _ => Vec::new(),
    }
}

fn times(name: &str) -> Vec<Candidate> {
    use Function as F;
    match name {
        "date_trunc" => [TimestampTz, Timestamp]
            .iter()
            .map(|t| pure(&[Text, *t], *t, F::Truncate(*t)))
            .collect(),
        "date_part" => [TimestampTz, Timestamp, Date, Time, Interval]
            .iter()
            .map(|t| pure(&[Text, *t], Float8, F::DatePart(*t)))
            .collect(),
        "extract" => [TimestampTz, Timestamp, Date, Time, Interval]
            .iter()
            .map(|t| pure(&[Text, *t], Numeric, F::Extract(*t)))
            .collect(),
        "to_timestamp" => vec![pure(&[Float8], TimestampTz, F::ToTimestamp)],
        "to_char" => [TimestampTz, Timestamp]
            .iter()
            .map(|t| pure(&[*t, Text], Text, F::ToChar))
            .chain(
                [Interval, Int4, Int8, Numeric, Float4, Float8]
                    .iter()
                    .map(|t| candidate(&[*t, Text], Text, Build::Refused)),
            )
            .collect(),
        "make_date" => vec![pure(&[Int4, Int4, Int4], Date, F::MakeDate)],
        "timezone" => vec![
            pure(&[Text, TimestampTz], Timestamp, F::AtTimeZone),
            pure(&[Text, Timestamp], TimestampTz, F::AtTimeZone),
        ],
        "isfinite" => [TimestampTz, Timestamp, Date, Interval]
            .iter()
            .map(|t| pure(&[*t], Bool, F::IsFinite))
            .collect(),
        "justify_interval" => vec![pure(&[Interval], Interval, F::JustifyInterval)],
        "make_interval" => {
            let all = [Int4, Int4, Int4, Int4, Int4, Int4, Float8];
            (0..=7)
                .map(|n| pure(&all[..n], Interval, F::MakeInterval))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn stateful(name: &str) -> Vec<Candidate> {
    use HostFunction as H;
    if let Some(list) = advisory(name) {
        return list;
    }
    let int4s = Type::Array(&Type::Int4);
    match name {
        "now" | "transaction_timestamp" => vec![host(&[], TimestampTz, H::TransactionTimestamp)],
        "statement_timestamp" => vec![host(&[], TimestampTz, H::StatementTimestamp)],
        "clock_timestamp" => vec![host(&[], TimestampTz, H::ClockTimestamp)],
        "nextval" => vec![host(&[RegClass], Int8, H::NextVal)],
        "currval" => vec![host(&[RegClass], Int8, H::CurrVal)],
        "setval" => vec![
            host(&[RegClass, Int8], Int8, H::SetVal),
            host(&[RegClass, Int8, Bool], Int8, H::SetVal),
        ],
        "lastval" => vec![host(&[], Int8, H::LastVal)],
        "pg_sleep" => vec![host(&[Float8], Void, H::Sleep)],
        "pg_backend_pid" => vec![host(&[], Int4, H::BackendPid)],
        "pg_terminate_backend" => vec![host(&[Int4], Bool, H::TerminateBackend)],
        "pg_cancel_backend" => vec![host(&[Int4], Bool, H::CancelBackend)],
        "pg_blocking_pids" => vec![host(&[Int4], int4s, H::BlockingPids)],
        "pg_isolation_test_session_is_blocked" => {
            vec![host(&[Int4, int4s], Bool, H::SessionIsBlocked)]
        }
        "pg_current_xact_id" => vec![host(&[], Xid8, H::CurrentXactId)],
        "txid_current" => vec![host(&[], Int8, H::CurrentXactId)],
        "pg_current_xact_id_if_assigned" => vec![host(&[], Xid8, H::CurrentXactIdIfAssigned)],
        "txid_current_if_assigned" => vec![host(&[], Int8, H::CurrentXactIdIfAssigned)],
        "pg_xact_status" => vec![host(&[Xid8], Text, H::XactStatus)],
        "txid_status" => vec![host(&[Int8], Text, H::XactStatus)],
        "current_setting" => vec![
            host(&[Text], Text, H::CurrentSetting),
            host(&[Text, Bool], Text, H::CurrentSetting),
        ],
        "set_config" => vec![host(&[Text, Text, Bool], Text, H::SetConfig)],
        "random" => vec![host(&[], Float8, H::Random)],
        "gen_random_uuid" => vec![host(&[], Uuid, H::RandomUuid)],
        "version" => vec![host(&[], Text, H::Version)],
        "current_database" => vec![host(&[], Name, H::CurrentDatabase)],
        "current_schema" => vec![host(&[], Name, H::CurrentSchema)],
        "pg_is_in_recovery" => vec![host(&[], Bool, H::IsInRecovery)],
        "pg_notify" => vec![host(&[Text, Text], Void, H::Notify)],
        "pg_notification_queue_usage" => vec![host(&[], Float8, H::NotificationQueueUsage)],
        _ => Vec::new(),
    }
}

/// The advisory lock functions: a `bigint`, or two `integer`s.
fn advisory(name: &str) -> Option<Vec<Candidate>> {
    if name == "pg_advisory_unlock_all" {
        return Some(vec![host(&[], Void, HostFunction::AdvisoryUnlockAll)]);
    }
    let (function, result) = match name {
        "pg_advisory_unlock" => (HostFunction::AdvisoryUnlock { shared: false }, Bool),
        "pg_advisory_unlock_shared" => (HostFunction::AdvisoryUnlock { shared: true }, Bool),
        _ => {
            let rest = name.strip_prefix("pg_")?;
            let (attempt, rest) = match rest.strip_prefix("try_") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let rest = rest.strip_prefix("advisory_")?;
            let (transaction, rest) = match rest.strip_prefix("xact_") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let shared = match rest {
                "lock" => false,
                "lock_shared" => true,
                _ => return None,
            };
            let function = HostFunction::AdvisoryLock {
                attempt,
                shared,
                transaction,
            };
            (function, if attempt { Bool } else { Void })
        }
    };
    Some(vec![
        host(&[Int8], result, function),
        host(&[Int4, Int4], result, function),
    ])
}
