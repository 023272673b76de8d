//! Functions and operators of `json` and `jsonb`.
//!
//! A `json` value keeps its text, so what is taken out of it is a piece of that text; a `jsonb` value
//! is printed anew (manual, 8.14 and 9.16).

use rowlock_model::{DbError, Value};

use super::Function;
use super::function::{int, items, string};
use crate::plan::types::json::{self, Json};
use crate::plan::types::{Type, output};

fn read(value: &Value) -> Result<Json, DbError> {
    json::parse(string(value))
        .ok_or_else(|| DbError::postgres("22P02", "invalid input syntax for type json"))
}

fn refused(message: impl Into<std::sync::Arc<str>>) -> DbError {
    DbError::postgres("22023", message)
}

/// The value of a function of JSON.
///
/// # Errors
/// 22023, 22P02.
pub(super) fn call(function: Function, args: &[&Value]) -> Result<Value, DbError> {
    use Function as F;
    Ok(match function {
        F::JsonField(as_text, ty) => {
            let step = Step::Name(string(args[1]));
            piece(descend(string(args[0]), ty, &step)?, as_text)
        }
        F::JsonElement(as_text, ty) => {
            let step = Step::Position(int(args[1]));
            piece(descend(string(args[0]), ty, &step)?, as_text)
        }
        F::JsonPath(as_text, ty) => along(args[0], args[1], as_text, ty)?,
        F::JsonbConcat => Value::text(concat(read(args[0])?, read(args[1])?).to_string()),
        F::JsonbContains => Value::Bool(contains(&read(args[0])?, &read(args[1])?)),
        F::JsonbHasKey => Value::Bool(has_key(&read(args[0])?, string(args[1]))),
        F::JsonbHasAny | F::JsonbHasAll => {
            let whole = read(args[0])?;
            let mut keys = items(args[1]).iter().filter(|k| !k.is_null());
            Value::Bool(if function == F::JsonbHasAny {
                keys.any(|key| has_key(&whole, string(key)))
            } else {
                keys.all(|key| has_key(&whole, string(key)))
            })
        }
        F::JsonTypeOf => Value::text(match read(args[0])? {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }),
        F::ToJson(ty) => match args[0] {
            Value::Null => Value::Null,
            value => Value::text(to_json(value, ty).to_string()),
        },
        F::JsonOutput(ty) => match args[0] {
            Value::Null => Value::Null,
            value => Value::text(json_output(value, ty)),
        },
        F::JsonbBuildObject => Value::text(json_of_pairs(args)?.to_string()),
        F::JsonBuildObject => {
            let mut text = String::from("{");
            for (i, pair) in args.chunks(2).enumerate() {
                let name = pair_name(pair[0], i)?;
                text.push_str(if i > 0 { ", " } else { "" });
                text.push_str(&format!("{name} : {}", json_text(pair[1])));
            }
            text.push('}');
            Value::text(text)
        }
        F::RowToJson => {
            let fields = args.chunks(2).map(|pair| {
                let name = Json::String(string(pair[0]).to_owned());
                format!("{name}:{}", json_text(pair[1]))
            });
            let fields: Vec<String> = fields.collect();
            Value::text(format!("{{{}}}", fields.join(",")))
        }
        F::JsonBuildArray(ty) => {
            let parts: Vec<String> = args.iter().map(|a| json_text(a).to_owned()).collect();
            let text = format!("[{}]", parts.join(", "));
            match ty {
                Type::Json => Value::text(text),
                _ => Value::text(read(&Value::text(text))?.to_string()),
            }
        }
        F::JsonbArrayLength => match read(args[0])? {
            Json::Array(items) => Value::Int(items.len() as i64),
            Json::Object(_) => return Err(refused("cannot get array length of a non-array")),
            _ => return Err(refused("cannot get array length of a scalar")),
        },
        F::JsonbDeleteKeys => delete_keys(read(args[0])?, args[1])?,
        F::JsonbDeleteElement => delete_element(read(args[0])?, int(args[1]))?,
        F::JsonbDeletePath => {
            let mut whole = read(args[0])?;
            if !matches!(whole, Json::Array(_) | Json::Object(_)) {
                return Err(refused("cannot delete path in scalar"));
            }
            change(&mut whole, items(args[1]), 1, &Change::Delete)?;
            Value::text(whole.to_string())
        }
        F::JsonbSet => {
            let mut whole = read(args[0])?;
            if !matches!(whole, Json::Array(_) | Json::Object(_)) {
                return Err(refused("cannot set path in scalar"));
            }
            let create = args.get(3).is_none_or(|c| c.as_bool() == Some(true));
            let value = read(args[2])?;
            change(
                &mut whole,
                items(args[1]),
                1,
                &Change::Set { value, create },
            )?;
            Value::text(whole.to_string())
        }
        F::JsonStripNulls(ty) => {
            let stripped = stripped(read(args[0])?);
            match ty {
                Type::Json => Value::text(compact(&stripped)),
                _ => Value::text(stripped.to_string()),
            }
        }
        other => panic!("{other:?} is not a JSON function"),
    })
}

/// The elements of an array, for `jsonb_array_elements` and its kin.
///
/// # Errors
/// 22023 for anything but an array.
pub fn elements(value: &Value, text: bool, binary: bool) -> Result<Vec<Value>, DbError> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let whole = read(value)?;
    let suffix = if text { "_text" } else { "" };
    match &whole {
        Json::Array(_) => {}
        Json::Object(_) if binary => return Err(refused("cannot extract elements from an object")),
        _ if binary => return Err(refused("cannot extract elements from a scalar")),
        Json::Object(_) => {
            let message = format!("cannot call json_array_elements{suffix} on a non-array");
            return Err(refused(message));
        }
        _ => {
            let message = format!("cannot call json_array_elements{suffix} on a scalar");
            return Err(refused(message));
        }
    }
    Ok(parts(value, &whole, binary)
        .into_iter()
        .map(|(_, part)| piece(Some(part), text))
        .collect())
}

/// The fields of an object as key and value, for `jsonb_each` and its kin.
///
/// # Errors
/// 22023 for anything but an object.
pub fn each(value: &Value, text: bool, binary: bool) -> Result<Vec<Vec<Value>>, DbError> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let whole = read(value)?;
    if !matches!(whole, Json::Object(_)) {
        let kind = if binary { "jsonb" } else { "json" };
        let suffix = if text { "_text" } else { "" };
        let what = match whole {
            Json::Array(_) if !binary => "an array",
            _ if !binary => "a scalar",
            _ => "a non-object",
        };
        if !binary {
            return Err(DbError::unsupported(
                format!("{kind}_each{suffix} of {what}"),
                None,
            ));
        }
        return Err(refused(format!(
            "cannot call {kind}_each{suffix} on {what}"
        )));
    }
    Ok(parts(value, &whole, binary)
        .into_iter()
        .map(|(key, part)| {
            vec![
                key.map_or(Value::Null, Value::text),
                piece(Some(part), text),
            ]
        })
        .collect())
}

/// The keys of an object, for `jsonb_object_keys` and its kin.
///
/// # Errors
/// 22023 for anything but an object.
pub fn keys(value: &Value, binary: bool) -> Result<Vec<Value>, DbError> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let whole = read(value)?;
    let kind = if binary { "jsonb" } else { "json" };
    let what = match whole {
        Json::Object(_) => {
            let parts = parts(value, &whole, binary);
            let keys = parts.into_iter().filter_map(|(key, _)| key);
            return Ok(keys.map(Value::text).collect());
        }
        Json::Array(_) => "an array",
        _ => "a scalar",
    };
    Err(refused(format!("cannot call {kind}_object_keys on {what}")))
}

/// The members of an array or object in their order: that of the text for `json`.
fn parts(value: &Value, whole: &Json, binary: bool) -> Vec<(Option<String>, String)> {
    match whole {
        _ if !binary => json::members(string(value))
            .unwrap_or_default()
            .into_iter()
            .map(|(key, text)| (key, text.to_owned()))
            .collect(),
        Json::Array(items) => items.iter().map(|i| (None, i.to_string())).collect(),
        Json::Object(fields) => fields
            .iter()
            .map(|(key, value)| (Some(key.clone()), value.to_string()))
            .collect(),
        _ => Vec::new(),
    }
}

/// One step into a JSON value.
enum Step<'a> {
    Name(&'a str),
    Position(i64),
}

/// The text of what a step leads to. `jsonb` is printed anew, `json` cut out.
fn descend(text: &str, ty: Type, step: &Step<'_>) -> Result<Option<String>, DbError> {
    if ty == Type::Json {
        let found = json::members(text).and_then(|members| match step {
            Step::Name(name) => members
                .iter()
                .rev()
                .find(|(key, _)| key.as_deref() == Some(*name))
                .map(|(_, text)| (*text).to_owned()),
            Step::Position(at) => {
                let list: Vec<&str> = members
                    .iter()
                    .filter(|(key, _)| key.is_none())
                    .map(|(_, text)| *text)
                    .collect();
                let at = if *at < 0 { at + list.len() as i64 } else { *at };
                let at = usize::try_from(at).ok()?;
                list.get(at).map(|text| (*text).to_owned())
            }
        });
        return Ok(found);
    }
    let whole = read(&Value::text(text))?;
    let found = match step {
        Step::Name(name) => whole.field(name),
        Step::Position(at) => whole.element(*at),
    };
    Ok(found.map(Json::to_string))
}

/// A piece of JSON as `->` or, unquoted, as `->>` gives it.
fn piece(text: Option<String>, as_text: bool) -> Value {
    let Some(text) = text else {
        return Value::Null;
    };
    if !as_text {
        return Value::text(text);
    }
    match json::parse(&text) {
        Some(Json::Null) => Value::Null,
        Some(Json::String(s)) => Value::text(s),
        _ => Value::text(text),
    }
}

/// `#>` and `#>>`.
fn along(whole: &Value, path: &Value, as_text: bool, ty: Type) -> Result<Value, DbError> {
    let mut text = string(whole).to_owned();
    for name in items(path) {
        if name.is_null() {
            return Ok(Value::Null);
        }
        let name = string(name);
        let is_array = text.trim_start().starts_with('[');
        let step = match name.trim().parse::<i64>() {
            Ok(at) if is_array => Step::Position(at),
            Err(_) if is_array => return Ok(Value::Null),
            _ => Step::Name(name),
        };
        match descend(&text, ty, &step)? {
            Some(inner) => text = inner,
            None => return Ok(Value::Null),
        }
    }
    Ok(piece(Some(text), as_text))
}

fn concat(a: Json, b: Json) -> Json {
    match (a, b) {
        (Json::Object(mut a), Json::Object(b)) => {
            a.extend(b);
            Json::object(a)
        }
        (a, b) => {
            let list = |j: Json| match j {
                Json::Array(items) => items,
                other => vec![other],
            };
            let mut items = list(a);
            items.extend(list(b));
            Json::Array(items)
        }
    }
}

fn has_key(whole: &Json, key: &str) -> bool {
    match whole {
        Json::Object(fields) => fields.iter().any(|(k, _)| k == key),
        Json::Array(items) => items.iter().any(|i| *i == Json::String(key.to_owned())),
        Json::String(s) => s == key,
        _ => false,
    }
}

/// An already converted value as JSON text.
fn json_text(value: &Value) -> &str {
    match value {
        Value::Null => "null",
        value => string(value),
    }
}

/// The name of the pair at this position, as JSON.
fn pair_name(name: &Value, pair: usize) -> Result<Json, DbError> {
    match name {
        Value::Null => {
            let argument = 2 * pair + 1;
            Err(refused(format!("argument {argument} cannot be null")))
        }
        name => Ok(Json::String(string(name).to_owned())),
    }
}

/// The object of names and already converted values.
fn json_of_pairs(args: &[&Value]) -> Result<Json, DbError> {
    let mut fields = Vec::with_capacity(args.len() / 2);
    for (i, pair) in args.chunks(2).enumerate() {
        if pair[0].is_null() {
            let argument = 2 * i + 1;
            let message = format!("argument {argument}: key must not be null");
            return Err(refused(message));
        }
        let value = match pair[1] {
            Value::Null => Json::Null,
            value => read(value)?,
        };
        fields.push((string(pair[0]).to_owned(), value));
    }
    Ok(Json::object(fields))
}

fn delete_keys(whole: Json, keys: &Value) -> Result<Value, DbError> {
    let one;
    let keys: &[Value] = match keys {
        Value::Array(keys) => keys,
        key => {
            one = [key.clone()];
            &one
        }
    };
    let gone = |name: &str| keys.iter().any(|k| k.as_str() == Some(name));
    let left = match whole {
        Json::Object(fields) => {
            Json::Object(fields.into_iter().filter(|(k, _)| !gone(k)).collect())
        }
        Json::Array(items) => Json::Array(
            items
                .into_iter()
                .filter(|i| !matches!(i, Json::String(s) if gone(s)))
                .collect(),
        ),
        _ => return Err(refused("cannot delete from scalar")),
    };
    Ok(Value::text(left.to_string()))
}

fn delete_element(whole: Json, at: i64) -> Result<Value, DbError> {
    match whole {
        Json::Array(mut items) => {
            let at = if at < 0 { at + items.len() as i64 } else { at };
            if let Ok(at) = usize::try_from(at)
                && at < items.len()
            {
                items.remove(at);
            }
            Ok(Value::text(Json::Array(items).to_string()))
        }
        Json::Object(_) => Err(refused("cannot delete from object using integer index")),
        _ => Err(refused("cannot delete from scalar")),
    }
}

/// What happens at the end of a path.
enum Change {
    Delete,
    Set { value: Json, create: bool },
}

/// Changes what a path leads to, if it leads anywhere. `depth` counts its elements from 1.
fn change(
    whole: &mut Json,
    path: &[Value],
    depth: usize,
    change_to: &Change,
) -> Result<(), DbError> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(());
    };
    let Some(name) = first.as_str() else {
        let message = format!("path element at position {depth} is null");
        return Err(DbError::postgres("22004", message));
    };
    match whole {
        Json::Object(fields) => {
            let found = fields.iter().position(|(k, _)| k == name);
            match (found, rest.is_empty(), change_to) {
                (Some(i), true, Change::Delete) => {
                    fields.remove(i);
                }
                (Some(i), true, Change::Set { value, .. }) => fields[i].1 = value.clone(),
                (Some(i), false, _) => change(&mut fields[i].1, rest, depth + 1, change_to)?,
                (
                    None,
                    true,
                    Change::Set {
                        value,
                        create: true,
                    },
                ) => {
                    fields.push((name.to_owned(), value.clone()));
                    let all = std::mem::take(fields);
                    *whole = Json::object(all);
                }
                (None, _, _) => {}
            }
        }
        Json::Array(list) => {
            let Ok(at) = name.trim().parse::<i64>() else {
                let message =
                    format!("path element at position {depth} is not an integer: \"{name}\"");
                return Err(DbError::postgres("22P02", message));
            };
            let count = list.len() as i64;
            let index = if at < 0 { at + count } else { at };
            let inside = usize::try_from(index).ok().filter(|i| *i < list.len());
            match (inside, rest.is_empty(), change_to) {
                (Some(i), true, Change::Delete) => {
                    list.remove(i);
                }
                (Some(i), true, Change::Set { value, .. }) => list[i] = value.clone(),
                (Some(i), false, _) => change(&mut list[i], rest, depth + 1, change_to)?,
                // Beyond the end it is appended, before the start put in front.
                (
                    None,
                    true,
                    Change::Set {
                        value,
                        create: true,
                    },
                ) => {
                    let at = if index < 0 { 0 } else { list.len() };
                    list.insert(at, value.clone());
                }
                (None, _, _) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// Without the fields of objects that are null.
fn stripped(json: Json) -> Json {
    match json {
        Json::Object(fields) => Json::Object(
            fields
                .into_iter()
                .filter(|(_, v)| *v != Json::Null)
                .map(|(k, v)| (k, stripped(v)))
                .collect(),
        ),
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}

/// JSON without blanks.
fn compact(json: &Json) -> String {
    match json {
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(compact).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(k, v)| format!("{}:{}", Json::String(k.clone()), compact(v)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

/// A value as `json` (`to_json` and what is built of it): arrays without blanks, `json` and `jsonb`
/// as they are.
fn json_output(value: &Value, ty: Type) -> String {
    match (value, ty) {
        (Value::Text(text), Type::Json | Type::Jsonb) => text.to_string(),
        (Value::Array(items), Type::Array(element)) => {
            let items: Vec<String> = items.iter().map(|i| json_output(i, *element)).collect();
            format!("[{}]", items.join(","))
        }
        _ => to_json(value, ty).to_string(),
    }
}

/// A value as JSON: numbers and booleans as they are, everything else as a string.
fn to_json(value: &Value, ty: Type) -> Json {
    match (value, ty) {
        (Value::Null, _) => Json::Null,
        (Value::Bool(b), _) => Json::Bool(*b),
        (Value::Int(_) | Value::Decimal(_) | Value::Float(_), _) => {
            Json::Number(output::text(value, ty))
        }
        (Value::Text(s), Type::Json | Type::Jsonb) => {
            json::parse(s).unwrap_or_else(|| Json::String(s.to_string()))
        }
        (Value::Array(items), Type::Array(element)) => {
            Json::Array(items.iter().map(|i| to_json(i, *element)).collect())
        }
        (Value::Timestamp(_) | Value::TimestampTz(_), _) => {
            let text = output::text(value, ty).replacen(' ', "T", 1);
            let zone = if ty == Type::TimestampTz { ":00" } else { "" };
            Json::String(format!("{text}{zone}"))
        }
        _ => Json::String(output::text(value, ty)),
    }
}

/// `jsonb @> jsonb`.
fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(a), Json::Object(b)) => b
            .iter()
            .all(|(k, v)| a.iter().any(|(l, w)| k == l && contains(w, v))),
        (Json::Array(a), Json::Array(b)) => b.iter().all(|v| a.iter().any(|w| contains(w, v))),
        (
            Json::Array(a),
            scalar @ (Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null),
        ) => a.contains(scalar),
        (a, b) => a == b,
    }
}
