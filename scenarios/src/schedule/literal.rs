//! Values and texts as schedule files write them: exact, and readable where they can be.

use std::fmt::Write as _;
use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::value::civil;
use rust_decimal::Decimal;

use super::verb;

/// A text in single quotes: quotes doubled, control characters and backslashes escaped.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for c in text.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_odd(c) => {
                let _ = write!(quoted, "\\u{{{:x}}}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Characters that an editor or terminal would not show as they are.
pub(super) fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A name: bare if it is a plain word, else quoted.
pub(super) fn word(name: &str) -> String {
    match is_plain(name) {
        true => name.to_owned(),
        false => quote(name),
    }
}

pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(is_plain_char)
        && !name.starts_with(['+', '-'])
        && !verb::ALL.contains(&name)
}

pub(super) fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./+".contains(c)
}

/// A value, in a form that says its type.
pub(super) fn write(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) if x.is_finite() => format!("float {x:?}"),
        Value::Float(x) => format!("float bits {}", x.to_bits()),
        Value::Decimal(d) => format!("decimal {d}"),
        Value::Text(text) => quote(text),
        Value::Bytes(bytes) => {
            let mut hex = String::from("bytes x");
            for byte in bytes.iter() {
                let _ = write!(hex, "{byte:02x}");
            }
            hex
        }
        Value::Date(days) if is_common(i64::from(*days)) => {
            format!("date {}", civil::date(i64::from(*days)))
        }
        Value::Date(days) => format!("date day {days}"),
        Value::Time(micros) if (0..civil::DAY_MICROS).contains(micros) => {
            format!("time {}", civil::time(*micros))
        }
        Value::Time(micros) => format!("time us {micros}"),
        Value::Timestamp(micros) => format!("timestamp {}", instant(*micros)),
        Value::TimestampTz(micros) => format!("timestamptz {}", instant(*micros)),
        Value::Interval {
            months,
            days,
            micros,
        } => format!("interval {months} mon {days} day {micros} us"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(write).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Whether the year of a day (since 1970-01-01) has four digits.
fn is_common(day: i64) -> bool {
    (1..=9999).contains(&civil::from_days(day).0)
}

fn instant(micros: i64) -> String {
    match is_common(micros.div_euclid(civil::DAY_MICROS)) {
        true => civil::timestamp(micros),
        false => format!("us {micros}"),
    }
}

/// Reads what the functions above write, from one line.
pub(super) struct Cursor<'a> {
    pub(super) line: &'a str,
    pub(super) at: usize,
}

/// What was expected, at the cursor.
pub(super) type Failure = String;

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Cursor<'a> {
        Cursor { line, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at = self.line.len() - self.rest().trim_start_matches(' ').len();
    }

    /// Takes `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes a plain word if it is `word`.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_plain() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// The plain word that comes next; empty if none does.
    pub(super) fn peek_plain(&self) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !is_plain_char(c)).unwrap_or(rest.len());
        &rest[..length]
    }

    pub(super) fn plain(&mut self) -> &'a str {
        let word = self.peek_plain();
        self.at += word.len();
        word
    }

    /// A name, plain or quoted.
    pub(super) fn word(&mut self) -> Result<Arc<str>, Failure> {
        if self.rest().starts_with('\'') {
            return self.quoted().map(Into::into);
        }
        match self.plain() {
            "" => Err("expected a name".into()),
            word => Ok(word.into()),
        }
    }

    pub(super) fn quoted(&mut self) -> Result<String, Failure> {
        if !self.take("'") {
            return Err("expected a text in single quotes".into());
        }
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err("the quote is not closed".into());
            };
            self.at += c.len_utf8();
            match c {
                '\'' if self.take("'") => text.push('\''),
                '\'' => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Failure> {
        let simple = [("\\", '\\'), ("n", '\n'), ("r", '\r'), ("t", '\t')];
        for (code, c) in simple {
            if self.take(code) {
                return Ok(c);
            }
        }
        let wrong = || "expected \\\\, \\n, \\r, \\t or \\u{...}".to_owned();
        if !self.take("u{") {
            return Err(wrong());
        }
        let length = self.rest().find('}').ok_or_else(wrong)?;
        let code = u32::from_str_radix(&self.rest()[..length], 16).ok();
        let c = code.and_then(char::from_u32).ok_or_else(wrong)?;
        self.at += length + 1;
        Ok(c)
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, Failure> {
        let start = self.at;
        self.plain().parse().map_err(|_| {
            self.at = start;
            "expected a number in its range".into()
        })
    }

    /// Values separated by commas, up to `close` (which is taken); or up to the end of the line.
    pub(super) fn values(&mut self, close: Option<&str>) -> Result<Vec<Value>, Failure> {
        let mut values = Vec::new();
        let ended = |cursor: &mut Self| match close {
            Some(close) => cursor.take(close),
            None => cursor.is_at_end(),
        };
        if ended(self) {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if ended(self) {
                return Ok(values);
            }
            if !self.take(", ") {
                return Err("expected `, ` or the end of the values".into());
            }
        }
    }

    pub(super) fn value(&mut self) -> Result<Value, Failure> {
        if self.rest().starts_with('\'') {
            return self.quoted().map(Value::text);
        }
        if self.take("[") {
            return Ok(Value::Array(self.values(Some("]"))?.into()));
        }
        let start = self.at;
        let word = self.plain();
        let value = match word {
            "NULL" => Some(Value::Null),
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "" => None,
            _ => match word.parse() {
                Ok(int) => Some(Value::Int(int)),
                Err(_) => return self.typed(word, start),
            },
        };
        value.ok_or_else(|| "expected a value".into())
    }

    /// A value whose type is said by the word before it.
    fn typed(&mut self, kind: &str, start: usize) -> Result<Value, Failure> {
        if !self.take(" ") {
            self.at = start;
            return Err("expected a value".into());
        }
        Ok(match kind {
            "float" if self.take("bits ") => Value::Float(f64::from_bits(self.number()?)),
            "float" => Value::Float(self.number()?),
            "decimal" => Value::Decimal(self.number::<Decimal>()?),
            "bytes" => Value::Bytes(self.bytes()?.into()),
            "date" if self.take("day ") => Value::Date(self.number()?),
            "date" => Value::Date(self.date()? as i32),
            "time" if self.take("us ") => Value::Time(self.number()?),
            "time" => Value::Time(self.time()?),
            "timestamp" => Value::Timestamp(self.instant()?),
            "timestamptz" => Value::TimestampTz(self.instant()?),
            "interval" => {
                let months = self.number()?;
                let days = self.after(" mon ", Self::number)?;
                let micros = self.after(" day ", Self::number)?;
                self.after(" us", |_| Ok(()))?;
                Value::Interval {
                    months,
                    days,
                    micros,
                }
            }
            _ => {
                self.at = start;
                return Err(format!("`{kind}` is not a type of values"));
            }
        })
    }

    fn after<T>(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.take(text) {
            true => read(self),
            false => Err(format!("expected `{}`", text.trim())),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Failure> {
        let wrong = "expected `x` and pairs of hexadecimal digits";
        let hex = self.peek_plain().strip_prefix('x').ok_or(wrong)?;
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair)
                .ok()
                .filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        self.at += hex.len() + 1;
        bytes.ok_or_else(|| wrong.into())
    }

    /// A number of exactly so many digits.
    fn digits(&mut self, count: usize) -> Result<i64, Failure> {
        let digits = self.rest().get(..count);
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let digits = digits.ok_or_else(|| format!("expected {count} digits"))?;
        self.at += count;
        digits.parse().map_err(|_| "expected digits".into())
    }

    /// Days since 1970-01-01 of a date that exists.
    fn date(&mut self) -> Result<i64, Failure> {
        let start = self.at;
        let year = self.digits(4)?;
        let month = self.after("-", |c| c.digits(2))? as u32;
        let day = self.after("-", |c| c.digits(2))? as u32;
        let days = civil::days(year, month, day);
        if civil::from_days(days) != (year, month, day) {
            self.at = start;
            return Err("there is no such day".into());
        }
        Ok(days)
    }

    /// Microseconds since midnight.
    fn time(&mut self) -> Result<i64, Failure> {
        let start = self.at;
        let hour = self.digits(2)?;
        let minute = self.after(":", |c| c.digits(2))?;
        let second = self.after(":", |c| c.digits(2))?;
        if hour > 23 || minute > 59 || second > 59 {
            self.at = start;
            return Err("there is no such time".into());
        }
        let mut micros = 0;
        if self.take(".") {
            let rest = self.rest();
            let length = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            if !(1..=6).contains(&length) {
                return Err("expected 1 to 6 digits".into());
            }
            micros = self.digits(length)? * 10_i64.pow(6 - length as u32);
        }
        Ok(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
    }

    fn instant(&mut self) -> Result<i64, Failure> {
        if self.take("us ") {
            return self.number();
        }
        let days = self.date()?;
        let time = self.after(" ", Self::time)?;
        Ok(days * civil::DAY_MICROS + time)
    }
}
