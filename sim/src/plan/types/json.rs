//! JSON as `json` and `jsonb` check and print it.

use std::cmp::Ordering;
use std::fmt;

/// A JSON value. Numbers keep their text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A number as `jsonb` prints it.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; keys in the order of `jsonb` (shorter first, then by bytes), the last of equal
    /// keys kept.
    Object(Vec<(String, Json)>),
}

/// The value of a JSON text, or nothing if it is not JSON.
pub fn parse(text: &str) -> Option<Json> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let value = reader.value()?;
    reader.blanks();
    (reader.at == reader.bytes.len()).then_some(value)
}

/// The members of a JSON array or object as they stand in its text, with their keys if it is an object;
/// nothing for scalars and for what is not JSON.
pub fn members(text: &str) -> Option<Vec<(Option<String>, &str)>> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    reader.blanks();
    let (open, close) = match reader.bytes.get(reader.at)? {
        b'{' => (b'{', b'}'),
        b'[' => (b'[', b']'),
        _ => return None,
    };
    reader.eat(open)?;
    let mut members = Vec::new();
    if reader.eat(close).is_some() {
        return Some(members);
    }
    loop {
        reader.blanks();
        let key = if open == b'{' {
            let key = reader.string()?;
            reader.eat(b':')?;
            reader.blanks();
            Some(key)
        } else {
            None
        };
        let start = reader.at;
        reader.value()?;
        members.push((key, &text[start..reader.at]));
        if reader.eat(b',').is_none() {
            reader.eat(close)?;
            return Some(members);
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self
            .bytes
            .get(self.at)
            .is_some_and(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
        {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
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
        match self.bytes.get(self.at)? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => Some(Json::String(self.string()?)),
            b'[' => self.array(),
            b'{' => self.object(),
            _ => self.number(),
        }
    }

    fn array(&mut self) -> Option<Json> {
        self.eat(b'[')?;
        let mut items = Vec::new();
        if self.eat(b']').is_some() {
            return Some(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.eat(b',').is_none() {
                self.eat(b']')?;
                return Some(Json::Array(items));
            }
        }
    }

    fn object(&mut self) -> Option<Json> {
        self.eat(b'{')?;
        let mut fields: Vec<(String, Json)> = Vec::new();
        if self.eat(b'}').is_none() {
            loop {
                self.blanks();
                let key = self.string()?;
                self.eat(b':')?;
                let value = self.value()?;
                fields.push((key, value));
                if self.eat(b',').is_none() {
                    self.eat(b'}')?;
                    break;
                }
            }
        }
        Some(Json::object(fields))
    }

    fn string(&mut self) -> Option<String> {
        self.eat(b'"')?;
        let mut out = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at)?;
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
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if (0xd800..0xdc00).contains(&first) {
                    let rest = self.bytes.get(self.at..self.at + 2)?;
                    if rest != b"\\u" {
                        return None;
                    }
                    self.at += 2;
                    let second = self.hex()?.checked_sub(0xdc00)?;
                    return char::from_u32(0x10000 + ((first - 0xd800) << 10) + second);
                }
                return char::from_u32(first);
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let digits = |r: &mut Self| {
            let from = r.at;
            while r.bytes.get(r.at).is_some_and(u8::is_ascii_digit) {
                r.at += 1;
            }
            r.at > from
        };
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let whole_start = self.at;
        if !digits(self) || (leading_zero && self.at - whole_start > 1) {
            return None;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !digits(self) {
                return None;
            }
        }
        if self
            .bytes
            .get(self.at)
            .is_some_and(|b| matches!(b, b'e' | b'E'))
        {
            self.at += 1;
            if self
                .bytes
                .get(self.at)
                .is_some_and(|b| matches!(b, b'+' | b'-'))
            {
                self.at += 1;
            }
            if !digits(self) {
                return None;
            }
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        Some(Json::Number(written_out(text)?))
    }
}

/// A number as `numeric` prints it: without an exponent, and zero without a sign. Nothing if it has
/// more digits than anybody writes.
fn written_out(text: &str) -> Option<String> {
    const EXPONENT_MAX: i32 = 1_000;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    if exponent.abs() > EXPONENT_MAX {
        return None;
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    let mut point = whole.len() as i32 + exponent;
    if point < 1 {
        digits.insert_str(0, &"0".repeat((1 - point) as usize));
        point = 1;
    }
    let point = point as usize;
    if digits.len() < point {
        digits.push_str(&"0".repeat(point - digits.len()));
    }
    let (whole, fraction) = digits.split_at(point);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        some => some,
    };
    let is_zero = digits.bytes().all(|b| b == b'0');
    let sign = if is_zero { "" } else { sign };
    Some(match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    })
}

/// The order of two numbers as [`written_out`] has them.
fn order_numbers(a: &str, b: &str) -> Ordering {
    fn parts(text: &str) -> (bool, &str, &str) {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        (negative, whole, fraction.trim_end_matches('0'))
    }
    let ((a_negative, a_whole, a_fraction), (b_negative, b_whole, b_fraction)) =
        (parts(a), parts(b));
    let size = a_whole.len().cmp(&b_whole.len());
    let size = size.then_with(|| (a_whole, a_fraction).cmp(&(b_whole, b_fraction)));
    match (a_negative, b_negative) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

impl Json {
    /// An object of these fields: the last of equal names wins.
    pub fn object(mut fields: Vec<(String, Json)>) -> Json {
        fields.reverse();
        fields.sort_by(|(a, _), (b, _)| (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes())));
        fields.dedup_by(|(a, _), (b, _)| a == b);
        Json::Object(fields)
    }

    /// The order of two values in an index: objects, arrays, booleans, numbers, strings, null, from the
    /// greatest down, except that an empty array at the top is the least of all; more members are
    /// greater than fewer ([`jsonb` indexing](https://www.postgresql.org/docs/15/datatype-json.html)).
    pub fn order(&self, other: &Json) -> Ordering {
        let empty = |json: &Json| matches!(json, Json::Array(items) if items.is_empty());
        match (empty(self), empty(other)) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.order_inside(other),
        }
    }

    fn order_inside(&self, other: &Json) -> Ordering {
        let rank = |json: &Json| match json {
            Json::Null => 0,
            Json::String(_) => 1,
            Json::Number(_) => 2,
            Json::Bool(_) => 3,
            Json::Array(_) => 4,
            Json::Object(_) => 5,
        };
        match (self, other) {
            (Json::String(a), Json::String(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => order_numbers(a, b),
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Array(a), Json::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                let mut orders = pairs.map(|(a, b)| a.order_inside(b));
                orders.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
            }),
            (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                let mut orders =
                    pairs.map(|((k, v), (l, w))| k.cmp(l).then_with(|| v.order_inside(w)));
                orders.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
            }),
            _ => rank(self).cmp(&rank(other)),
        }
    }

    /// Whether a string or a key in it has the character 0, which `jsonb` cannot keep.
    pub fn has_zero(&self) -> bool {
        match self {
            Json::String(s) => s.contains('\0'),
            Json::Array(items) => items.iter().any(Json::has_zero),
            Json::Object(fields) => fields.iter().any(|(k, v)| k.contains('\0') || v.has_zero()),
            _ => false,
        }
    }

    /// The field of an object.
    pub fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(k, _)| k == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The element of an array; negative positions count from the end.
    pub fn element(&self, index: i64) -> Option<&Json> {
        match self {
            Json::Array(items) => {
                let i = if index < 0 {
                    index + items.len() as i64
                } else {
                    index
                };
                items.get(usize::try_from(i).ok()?)
            }
            _ => None,
        }
    }

    /// As `->>` gives it: strings without quotes, nothing for `null`.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::String(s) => Some(s.clone()),
            other => Some(other.to_string()),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(n) => f.write_str(n),
            Json::String(s) => quote(s, f),
            Json::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Json::Object(fields) => {
                f.write_str("{")?;
                for (i, (key, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    quote(key, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quote(s: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\u{8}' => f.write_str("\\b")?,
            '\u{c}' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}
