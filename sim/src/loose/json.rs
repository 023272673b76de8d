//! The JSON functions of MySQL, MariaDB and SQLite.
//!
//! A document is a text. MySQL prints one with the members of an object sorted (shorter names first)
//! and numbers in their shortest form; MariaDB and SQLite keep the order and the digits, MariaDB with
//! a space after `,` and `:`, SQLite without.

use std::fmt::Write as _;

use rowlock_model::{DbError, Dialect, Value};

use super::errors;
use super::function::Function;
use super::storage::Stop;
use super::temporal;
use super::value::{mysql_float_text, mysql_text, sqlite_text};

/// A JSON value. Numbers are kept as text.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Leg {
    Member(String),
    /// From the start.
    Element(usize),
    /// From the end, 0 is behind the last (SQLite's `[#-n]`).
    FromEnd(usize),
}

/// Calls one of them. Of the functions that take values, the first argument says for each of the
/// others what its text is: `j` a document, `b` a truth value, `v` a value.
///
/// # Errors
/// A text that is no document, a path that is none; `unsupported` for wildcards.
pub(super) fn call(
    function: Function,
    name: &str,
    args: &[Value],
    dialect: Dialect,
) -> Result<Value, Stop> {
    let reader = Documents { name, dialect };
    match function {
        Function::JsonObject | Function::JsonArray => return reader.build(function, args),
        Function::JsonSet | Function::JsonInsert | Function::JsonReplace => {
            return reader.change(function, args);
        }
        Function::JsonQuote => {
            let json = match &args[0] {
                Value::Null if dialect != Dialect::Sqlite => return Ok(Value::Null),
                value => reader.value(value, b'v')?,
            };
            return Ok(reader.shown(&json));
        }
        _ => {}
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let text = reader.text(&args[0]);
    match function {
        Function::JsonValid if is_no_text(&args[0]) && dialect == Dialect::MySql => {
            return Ok(Value::Int(0));
        }
        Function::JsonValid => return Ok(Value::Int(i64::from(parse(&text).is_some()))),
        Function::JsonUnquote => {
            let unquoted = match text.starts_with('"') && text.ends_with('"') && text.len() > 1 {
                true => parse(&text),
                false => None,
            };
            return Ok(match unquoted {
                Some(Json::String(inner)) => Value::text(inner),
                _ => args[0].clone(),
            });
        }
        _ => {}
    }
    let Some(document) = reader.document(&args[0], 1)? else {
        return Ok(Value::Null);
    };
    reader.look(function, document, args)
}

fn is_no_text(value: &Value) -> bool {
    !matches!(value, Value::Text(_))
}

struct Documents<'a> {
    name: &'a str,
    dialect: Dialect,
}

impl Documents<'_> {
    fn text(&self, value: &Value) -> std::sync::Arc<str> {
        match self.dialect {
            Dialect::Sqlite => sqlite_text(value),
            _ => mysql_text(value),
        }
    }

    /// The document that an argument is. What is none is an error, on MariaDB NULL.
    fn document(&self, value: &Value, number: usize) -> Result<Option<Json>, Stop> {
        if self.dialect == Dialect::MySql && !matches!(value, Value::Text(_)) {
            let message = format!(
                "Invalid data type for JSON data in argument {number} to function {}; a JSON string \
                 or JSON type is required.",
                self.name
            );
            return Err(errors::mysql(3146, "22032", message).into());
        }
        let text = self.text(value);
        if let Some(json) = parse(&text) {
            return Ok(Some(match self.dialect {
                Dialect::MySql => normal(json),
                _ => json,
            }));
        }
        match self.dialect {
            Dialect::MariaDb => Ok(None),
            Dialect::Sqlite => Err(errors::sqlite(1, "malformed JSON").into()),
            _ => Err(errors::mysql(
                3141,
                "22032",
                format!(
                    "Invalid JSON text in argument {number} to function {}: \"Invalid value.\" at \
                     position 0.",
                    self.name.to_ascii_lowercase()
                ),
            )
            .into()),
        }
    }

    fn path(&self, value: &Value) -> Result<Option<Vec<Leg>>, Stop> {
        let text = self.text(value);
        if text.contains('*') {
            return Err(DbError::unsupported("a wildcard in a JSON path", None).into());
        }
        if let Some(legs) = path(&text) {
            return Ok(Some(legs));
        }
        match self.dialect {
            Dialect::MariaDb => Ok(None),
            Dialect::Sqlite => Err(errors::sqlite(1, format!("bad JSON path: '{text}'")).into()),
            _ => Err(errors::mysql(
                3143,
                "42000",
                "Invalid JSON path expression. The error is around character position 1.",
            )
            .into()),
        }
    }

    /// `->` of SQLite takes a name or a position as well.
    fn arrow_path(&self, value: &Value) -> Result<Option<Vec<Leg>>, Stop> {
        if self.dialect != Dialect::Sqlite {
            return self.path(value);
        }
        match value {
            Value::Int(i) if *i >= 0 => Ok(Some(vec![Leg::Element(*i as usize)])),
            Value::Int(i) => Ok(Some(vec![Leg::FromEnd(i.unsigned_abs() as usize)])),
            other => {
                let text = self.text(other);
                match text.starts_with('$') {
                    true => self.path(other),
                    false => Ok(Some(vec![Leg::Member(text.to_string())])),
                }
            }
        }
    }

    fn look(&self, function: Function, document: Json, args: &[Value]) -> Result<Value, Stop> {
        let found = match args.get(1) {
            None => Some(document.clone()),
            Some(path) if function != Function::JsonContains => {
                let legs = match function {
                    Function::JsonArrow | Function::JsonExtractText => self.arrow_path(path)?,
                    _ => self.path(path)?,
                };
                legs.and_then(|legs| self.find(&document, &legs).cloned())
            }
            Some(_) => Some(document.clone()),
        };
        Ok(match function {
            Function::Json => self.shown(&document),
            Function::JsonExtract if args.len() > 2 => {
                let mut items = Vec::new();
                for path in &args[1..] {
                    let Some(legs) = self.path(path)? else {
                        return Ok(Value::Null);
                    };
                    match (self.find(&document, &legs), self.dialect) {
                        (Some(json), _) => items.push(json.clone()),
                        (None, Dialect::Sqlite) => items.push(Json::Null),
                        (None, _) => {}
                    }
                }
                match items.is_empty() {
                    true => Value::Null,
                    false if self.dialect == Dialect::MariaDb => {
                        let what = "several paths in JSON_EXTRACT";
                        return Err(DbError::unsupported(what, None).into());
                    }
                    false => self.shown(&Json::Array(items)),
                }
            }
            Function::JsonExtract if self.dialect == Dialect::Sqlite => match &found {
                Some(json) => self.scalar(json),
                None => Value::Null,
            },
            Function::JsonExtract | Function::JsonArrow => match &found {
                Some(json) => self.shown(json),
                None => Value::Null,
            },
            Function::JsonExtractText => match (&found, self.dialect) {
                (Some(json), Dialect::Sqlite) => self.scalar(json),
                (Some(Json::String(text)), _) => Value::text(text.as_str()),
                (Some(json), _) => self.shown(json),
                (None, _) => Value::Null,
            },
            Function::JsonLength => match (&found, self.dialect) {
                (Some(Json::Array(items)), _) => Value::Int(items.len() as i64),
                (Some(_), Dialect::Sqlite) => Value::Int(0),
                (Some(Json::Object(members)), _) => Value::Int(members.len() as i64),
                (Some(_), _) => Value::Int(1),
                (None, _) => Value::Null,
            },
            Function::JsonType => match &found {
                Some(json) => Value::text(self.type_name(json)),
                None => Value::Null,
            },
            Function::JsonContains => {
                if args.len() > 2 {
                    let what = "a path in JSON_CONTAINS";
                    return Err(DbError::unsupported(what, None).into());
                }
                match self.document(&args[1], 2)? {
                    Some(wanted) => Value::Int(i64::from(contains(&document, &wanted))),
                    None => Value::Null,
                }
            }
            _ => {
                let mut document = document;
                for path in &args[1..] {
                    let Some(legs) = self.path(path)? else {
                        return Ok(Value::Null);
                    };
                    remove(&mut document, &legs);
                }
                self.shown(&document)
            }
        })
    }

    fn find<'j>(&self, json: &'j Json, legs: &[Leg]) -> Option<&'j Json> {
        let mut json = json;
        for leg in legs {
            json = match (leg, json) {
                (Leg::Member(name), Json::Object(members)) => {
                    &members.iter().find(|(key, _)| key == name)?.1
                }
                (Leg::Element(i), Json::Array(items)) => items.get(*i)?,
                (Leg::FromEnd(i), Json::Array(items)) => items.get(items.len().checked_sub(*i)?)?,
                // What is no array is an array of itself.
                (Leg::Element(0), _) if self.dialect != Dialect::Sqlite => json,
                _ => return None,
            };
        }
        Some(json)
    }

    /// A value as SQLite gives it to SQL: scalars as themselves.
    fn scalar(&self, json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Int(i64::from(*b)),
            Json::Number(text) => match text.parse() {
                Ok(i) => Value::Int(i),
                Err(_) => Value::Float(text.parse().unwrap_or(0.0)),
            },
            Json::String(text) => Value::text(text.as_str()),
            other => self.shown(other),
        }
    }

    fn shown(&self, json: &Json) -> Value {
        let separators = match self.dialect {
            Dialect::Sqlite => (",", ":"),
            _ => (", ", ": "),
        };
        let mut out = String::new();
        print(json, separators, &mut out);
        Value::text(out)
    }

    fn type_name(&self, json: &Json) -> &'static str {
        let sqlite = self.dialect == Dialect::Sqlite;
        let (upper, lower) = match json {
            Json::Null => ("NULL", "null"),
            Json::Bool(true) => ("BOOLEAN", "true"),
            Json::Bool(false) => ("BOOLEAN", "false"),
            Json::Number(text) if text.contains(['.', 'e', 'E']) => ("DOUBLE", "real"),
            Json::Number(_) => ("INTEGER", "integer"),
            Json::String(_) => ("STRING", "text"),
            Json::Array(_) => ("ARRAY", "array"),
            Json::Object(_) => ("OBJECT", "object"),
        };
        if sqlite { lower } else { upper }
    }

    /// An SQL value as JSON.
    fn value(&self, value: &Value, what: u8) -> Result<Json, Stop> {
        if what == b'j' && !value.is_null() {
            return match self.document(value, 1)? {
                Some(json) => Ok(json),
                None => Ok(Json::String(self.text(value).to_string())),
            };
        }
        Ok(match value {
            Value::Null => Json::Null,
            Value::Int(i) if what == b'b' => Json::Bool(*i != 0),
            Value::Int(i) => Json::Number(i.to_string()),
            Value::Decimal(d) => Json::Number(d.to_string()),
            Value::Float(x) => Json::Number(match self.dialect {
                Dialect::Sqlite => sqlite_text(value).to_string(),
                Dialect::MySql => double_text(*x),
                _ => mysql_float_text(*x),
            }),
            Value::Bytes(_) => {
                return Err(match self.dialect {
                    Dialect::Sqlite => errors::sqlite(1, "JSON cannot hold BLOB values").into(),
                    _ => DbError::unsupported("bytes in JSON", None).into(),
                });
            }
            Value::Timestamp(micros) if self.dialect == Dialect::MySql => {
                Json::String(temporal::datetime_text(*micros, 6))
            }
            Value::Time(micros) if self.dialect == Dialect::MySql => {
                Json::String(temporal::time_text(*micros, 6))
            }
            other => Json::String(self.text(other).to_string()),
        })
    }

    fn build(&self, function: Function, args: &[Value]) -> Result<Value, Stop> {
        let (mask, args) = masked(args);
        let mut values = Vec::new();
        for (value, what) in args.iter().zip(mask) {
            values.push(self.value(value, *what)?);
        }
        if function == Function::JsonArray {
            return Ok(self.shown(&Json::Array(values)));
        }
        let mut members = Vec::new();
        for (pair, json) in args.chunks(2).zip(values.chunks(2)) {
            let [key, _] = pair else { continue };
            let key = match (key, self.dialect) {
                (Value::Null, Dialect::MySql) => {
                    let message = "JSON documents may not contain NULL member names.";
                    return Err(errors::mysql(3158, "22032", message).into());
                }
                (Value::Null, Dialect::MariaDb) => String::new(),
                (Value::Text(text), _) => text.to_string(),
                (_, Dialect::Sqlite) => {
                    let message = "json_object() labels must be TEXT";
                    return Err(errors::sqlite(1, message).into());
                }
                (other, _) => self.text(other).to_string(),
            };
            members.push((key, json[1].clone()));
        }
        let object = Json::Object(members);
        Ok(self.shown(&match self.dialect {
            Dialect::MySql => sorted(object),
            _ => object,
        }))
    }

    fn change(&self, function: Function, args: &[Value]) -> Result<Value, Stop> {
        let (mask, args) = masked(args);
        let paths_null = args[1..].iter().step_by(2).any(Value::is_null);
        if args[0].is_null() || (paths_null && self.dialect != Dialect::Sqlite) {
            return Ok(Value::Null);
        }
        let Some(mut document) = self.document(&args[0], 1)? else {
            return Ok(Value::Null);
        };
        for (i, pair) in args[1..].chunks(2).enumerate() {
            let [at, value] = pair else { continue };
            if at.is_null() {
                continue;
            }
            let Some(legs) = self.path(at)? else {
                return Ok(Value::Null);
            };
            let value = self.value(value, mask[2 + 2 * i])?;
            let may = (
                function != Function::JsonReplace,
                function != Function::JsonInsert,
            );
            put(&mut document, &legs, value, may, self.dialect);
        }
        Ok(self.shown(&match self.dialect {
            Dialect::MySql => sorted(document),
            _ => document,
        }))
    }
}

/// The kinds of the arguments, and they.
fn masked(args: &[Value]) -> (&[u8], &[Value]) {
    match args.split_first() {
        Some((Value::Text(mask), rest)) => (mask.as_bytes(), rest),
        _ => (&[], args),
    }
}

/// Puts a value at a path; `may` says whether it may be new, and whether it may be there already.
fn put(json: &mut Json, legs: &[Leg], value: Json, may: (bool, bool), dialect: Dialect) {
    let Some((leg, rest)) = legs.split_first() else {
        if may.1 {
            *json = value;
        }
        return;
    };
    match (leg, json) {
        (Leg::Member(name), Json::Object(members)) => {
            if let Some((_, found)) = members.iter_mut().find(|(key, _)| key == name) {
                return put(found, rest, value, may, dialect);
            }
            if !may.0 {
                return;
            }
            // SQLite makes what is missing on the way.
            let made = match rest.first() {
                None => value,
                Some(_) if dialect != Dialect::Sqlite => return,
                Some(leg) => {
                    let mut made = match leg {
                        Leg::Member(_) => Json::Object(Vec::new()),
                        _ => Json::Array(Vec::new()),
                    };
                    put(&mut made, rest, value, may, dialect);
                    made
                }
            };
            members.push((name.clone(), made));
        }
        (Leg::Element(_) | Leg::FromEnd(_), Json::Array(items)) => {
            let place = match leg {
                Leg::FromEnd(i) => items.len().checked_sub(*i),
                Leg::Element(i) if dialect == Dialect::Sqlite => {
                    Some(*i).filter(|i| *i <= items.len())
                }
                Leg::Element(i) => Some((*i).min(items.len())),
                Leg::Member(_) => None,
            };
            let Some(place) = place else { return };
            match items.get_mut(place) {
                Some(found) => put(found, rest, value, may, dialect),
                None if may.0 && rest.is_empty() => items.push(value),
                None => {}
            }
        }
        (Leg::Element(0), json) if dialect != Dialect::Sqlite => {
            put(json, rest, value, may, dialect);
        }
        (Leg::Element(_), json) if dialect != Dialect::Sqlite && may.0 && rest.is_empty() => {
            *json = Json::Array(vec![json.clone(), value]);
        }
        _ => {}
    }
}

fn remove(json: &mut Json, legs: &[Leg]) {
    let Some((leg, rest)) = legs.split_first() else {
        return;
    };
    match (leg, json) {
        (Leg::Member(name), Json::Object(members)) => {
            match (members.iter().position(|(key, _)| key == name), rest) {
                (Some(place), []) => drop(members.remove(place)),
                (Some(place), rest) => remove(&mut members[place].1, rest),
                (None, _) => {}
            }
        }
        (Leg::Element(_) | Leg::FromEnd(_), Json::Array(items)) => {
            let place = match leg {
                Leg::Element(i) => Some(*i),
                Leg::FromEnd(i) => items.len().checked_sub(*i),
                Leg::Member(_) => None,
            };
            match (place.filter(|place| *place < items.len()), rest) {
                (Some(place), []) => drop(items.remove(place)),
                (Some(place), rest) => remove(&mut items[place], rest),
                (None, _) => {}
            }
        }
        _ => {}
    }
}

/// Whether a document contains another one (`JSON_CONTAINS`).
fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(members), Json::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let found = members.iter().find(|(k, _)| k == key);
            found.is_some_and(|(_, v)| contains(v, value))
        }),
        (Json::Array(items), Json::Array(wanted)) => wanted
            .iter()
            .all(|value| items.iter().any(|item| contains(item, value))),
        (Json::Array(items), other) => items.iter().any(|item| contains(item, other)),
        (Json::Number(a), Json::Number(b)) => a.parse::<f64>() == b.parse::<f64>(),
        (a, b) => a == b,
    }
}

/// A document as MySQL keeps it.
fn normal(json: Json) -> Json {
    match json {
        Json::Number(text) if text.parse::<i64>().is_err() => match text.parse::<u64>() {
            Ok(_) => Json::Number(text),
            Err(_) => Json::Number(double_text(text.parse().unwrap_or(0.0))),
        },
        Json::Array(items) => Json::Array(items.into_iter().map(normal).collect()),
        Json::Object(members) => sorted(Json::Object(
            members
                .into_iter()
                .map(|(key, value)| (key, normal(value)))
                .collect(),
        )),
        other => other,
    }
}

/// Members in the order of MySQL: shorter names first; the last of equal names stays.
fn sorted(json: Json) -> Json {
    let Json::Object(mut members) = json else {
        return json;
    };
    members.reverse();
    members.sort_by(|(a, _), (b, _)| (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes())));
    members.dedup_by(|(a, _), (b, _)| a == b);
    Json::Object(members)
}

/// A floating-point number in a document of MySQL.
fn double_text(x: f64) -> String {
    let text = mysql_float_text(x);
    match text.contains(['.', 'e']) {
        true => text,
        false => format!("{text}.0"),
    }
}

fn print(json: &Json, separators: (&str, &str), out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => quote(text, out),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(separators.0);
                }
                print(item, separators, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push_str(separators.0);
                }
                quote(key, out);
                out.push_str(separators.1);
                print(value, separators, out);
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The legs of `$.a."b c"[0][#-1]`; `None` if it is no path.
fn path(text: &str) -> Option<Vec<Leg>> {
    let mut rest = text.trim().strip_prefix('$')?;
    let mut legs = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(quoted) = after.strip_prefix('"') {
                let end = quoted.find('"')?;
                legs.push(Leg::Member(quoted[..end].to_owned()));
                rest = &quoted[end + 1..];
                continue;
            }
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            legs.push(Leg::Member(after[..end].to_owned()));
            rest = &after[end..];
            continue;
        }
        let inside = rest.strip_prefix('[')?;
        let end = inside.find(']')?;
        let index = inside[..end].trim();
        legs.push(match index.strip_prefix('#') {
            Some("") => Leg::FromEnd(0),
            Some(back) => Leg::FromEnd(back.strip_prefix('-')?.parse().ok()?),
            None => Leg::Element(index.parse().ok()?),
        });
        rest = &inside[end + 1..];
    }
    Some(legs)
}

/// The value of a JSON text, or nothing if it is none.
fn parse(text: &str) -> Option<Json> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let value = reader.value()?;
    reader.blanks();
    (reader.at == reader.bytes.len()).then_some(value)
}

/// The document in the form in which MySQL stores it.
pub(super) fn stored(text: &str) -> Option<Value> {
    let documents = Documents {
        name: "",
        dialect: Dialect::MySql,
    };
    parse(text).map(|json| documents.shown(&normal(json)))
}

/// A document that is a number or text, as that; for comparisons.
pub(super) fn comparable(value: &Value) -> Value {
    let Value::Text(text) = value else {
        return value.clone();
    };
    match parse(text) {
        Some(Json::Number(number)) => match number.parse() {
            Ok(i) => Value::Int(i),
            Err(_) => Value::Float(number.parse().unwrap_or(0.0)),
        },
        Some(Json::String(inner)) => Value::text(inner),
        _ => value.clone(),
    }
}

/// Whether the function's first argument is the mask that [`call`] describes.
pub(super) fn takes_values(function: Function) -> bool {
    matches!(
        function,
        Function::JsonObject
            | Function::JsonArray
            | Function::JsonSet
            | Function::JsonInsert
            | Function::JsonReplace
    )
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        found.then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self) -> Option<Json> {
        self.blanks();
        match self.peek()? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.string().map(Json::String),
            b'[' => {
                let mut items = Vec::new();
                self.items(b'[', b']', |reader| {
                    items.push(reader.value()?);
                    Some(())
                })?;
                Some(Json::Array(items))
            }
            b'{' => {
                let mut members = Vec::new();
                self.items(b'{', b'}', |reader| {
                    reader.blanks();
                    let key = reader.string()?;
                    reader.eat(b':')?;
                    members.push((key, reader.value()?));
                    Some(())
                })?;
                Some(Json::Object(members))
            }
            _ => self.number(),
        }
    }

    fn items(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.eat(open)?;
        if self.eat(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.eat(b',').is_none() {
                return self.eat(close);
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.eat(b'"')?;
        let mut out = Vec::new();
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    let mut buffer = [0; 4];
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                }
                0..=0x1f => return None,
                _ => out.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4)?;
                self.at += 4;
                let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                return char::from_u32(code);
            }
            _ => return None,
        })
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.peek().is_some_and(|b| b.is_ascii_digit()) {
                reader.at += 1;
            }
            (reader.at > from).then_some(reader.at - from)
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        if digits(self)? > 1 && leading_zero {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            digits(self)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            digits(self)?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        Some(Json::Number(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_print_as_each_product_prints_them() {
        // From MySQL 9.7, MariaDB 10.11 and SQLite 3.51.
        let text = Value::text("{\"b\":1, \"a\":[1,2.50,1e3]}");
        for (dialect, expected) in [
            (Dialect::MySql, "{\"a\": [1, 2.5, 1000.0], \"b\": 1}"),
            (Dialect::MariaDb, "{\"b\": 1, \"a\": [1, 2.50, 1e3]}"),
        ] {
            let args = [text.clone(), Value::text("$")];
            let shown = call(Function::JsonExtract, "json_extract", &args, dialect);
            assert_eq!(shown, Ok(Value::text(expected)));
        }
        let shown = call(Function::Json, "json", &[text], Dialect::Sqlite);
        assert_eq!(shown, Ok(Value::text("{\"b\":1,\"a\":[1,2.50,1e3]}")));
    }

    #[test]
    fn a_path_has_names_and_positions() {
        let legs = path("$.a.\"b c\"[2][#-1]");
        let expected = vec![
            Leg::Member("a".to_owned()),
            Leg::Member("b c".to_owned()),
            Leg::Element(2),
            Leg::FromEnd(1),
        ];
        assert_eq!(legs, Some(expected));
        assert_eq!(path("a"), None);
    }
}
