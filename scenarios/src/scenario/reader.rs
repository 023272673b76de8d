//! Reading TOML tables key by key, with the place of everything and all problems collected.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use rowlock_model::Dialect;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::source::{Problem, Source, Text};

/// The file that is being read, and what was found wrong in it so far.
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problems.push(Problem::new(span, message));
    }

    /// A string value as a text that knows its place.
    fn text(&self, value: &str, span: Range<usize>) -> Text {
        let token = &self.source.text[span.clone()];
        let quotes = ["'''", "\"\"\"", "'", "\""]
            .into_iter()
            .find(|q| token.starts_with(q))
            .map_or(0, str::len);
        let mut start = quotes;
        if quotes == 3 {
            let newline = token[3..].starts_with("\r\n").then_some(2);
            start += newline.unwrap_or(usize::from(token[3..].starts_with('\n')));
        }
        let content = token.get(start..token.len().saturating_sub(quotes));
        Text {
            text: value.into(),
            verbatim: (content == Some(value)).then_some(span.start + start),
            span,
        }
    }
}

/// A table whose keys are taken one by one; what is left is unknown.
#[derive(Clone)]
pub(super) struct Table<'a> {
    entries: Vec<Entry<'a>>,
    taken: Vec<&'static str>,
    /// The place of the header or of the inline table.
    pub(super) span: Range<usize>,
    /// What the table is, for messages.
    what: &'static str,
}

#[derive(Clone)]
struct Entry<'a> {
    key: &'a str,
    key_span: Range<usize>,
    value: &'a Spanned<DeValue<'a>>,
}

/// A key with its value.
pub(super) struct Item<'a> {
    pub(super) key: &'a str,
    pub(super) key_span: Range<usize>,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(what: &'static str, table: &'a DeTable<'a>, span: Range<usize>) -> Table<'a> {
        let mut entries: Vec<Entry<'a>> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.as_ref(),
                key_span: key.span(),
                value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        Table {
            entries,
            taken: Vec::new(),
            span,
            what,
        }
    }

    /// The same table with each of `keys` that `over` has replaced by it, and without those in
    /// `not_inherited` that it does not have.
    pub(super) fn overridden(
        &self,
        over: &Table<'a>,
        keys: &[&'static str],
        not_inherited: &[&'static str],
    ) -> Table<'a> {
        let mut merged = self.clone();
        merged.entries.retain(|entry| {
            !(not_inherited.contains(&entry.key)
                || keys.contains(&entry.key) && over.entries.iter().any(|e| e.key == entry.key))
        });
        let given = over.entries.iter().filter(|e| keys.contains(&e.key));
        merged.entries.extend(given.cloned());
        merged.span = over.span.clone();
        merged
    }

    fn take(&mut self, key: &'static str) -> Option<Item<'a>> {
        self.taken.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let entry = self.entries.remove(index);
        Some(Item {
            key: entry.key,
            key_span: entry.key_span,
            value: entry.value,
        })
    }

    /// Every key that is left, in the order of the file.
    pub(super) fn rest(&mut self) -> Vec<Item<'a>> {
        let items = self.entries.drain(..).map(|entry| Item {
            key: entry.key,
            key_span: entry.key_span,
            value: entry.value,
        });
        items.collect()
    }

    /// Lets these keys stand unread; somebody else reads them.
    pub(super) fn ignore(&mut self, keys: &[&'static str]) {
        self.taken.extend(keys);
        self.entries.retain(|entry| !keys.contains(&entry.key));
    }

    /// Where a key stands; the table if it is not there.
    pub(super) fn key_span(&self, key: &str) -> Range<usize> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(self.span.clone(), |entry| entry.key_span.clone())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether a key is there and holds a table.
    pub(super) fn holds_table(&self, key: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|e| e.key == key && matches!(e.value.get_ref(), DeValue::Table(_)))
    }

    pub(super) fn text(&mut self, reader: &mut Reader, key: &'static str) -> Option<Text> {
        let item = self.take(key)?;
        item.text(reader)
    }

    /// A text that may differ between databases: one for all, or a table of databases (one, or several
    /// separated by commas) with the text of each.
    pub(super) fn text_of(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        database: Dialect,
    ) -> Option<Text> {
        if !self.holds_table(key) {
            return self.text(reader, key);
        }
        let item = self.take(key)?;
        let mut found: Option<Text> = None;
        for text in item.table(reader, "a text for each database")?.rest() {
            for name in text.key.split(',').map(str::trim) {
                match name.parse::<Dialect>() {
                    Ok(named) if named == database && found.is_some() => {
                        let message = format!("a second text for {database}");
                        reader.problem(text.key_span.clone(), message);
                    }
                    Ok(named) if named == database => found = text.text(reader),
                    Ok(_) => {}
                    Err(error) => reader.problem(text.key_span.clone(), error.to_string()),
                }
            }
        }
        if found.is_none() {
            let message = format!("`{key}` has no text for {database}");
            reader.problem(item.value.span(), message);
        }
        found
    }

    pub(super) fn required_text(&mut self, reader: &mut Reader, key: &'static str) -> Option<Text> {
        if !self.has(key) {
            let message = format!("{} has no `{key}`", self.what);
            reader.problem(self.span.clone(), message);
        }
        self.text(reader, key)
    }

    pub(super) fn boolean(&mut self, reader: &mut Reader, key: &'static str) -> Option<bool> {
        let item = self.take(key)?;
        match item.value.get_ref() {
            DeValue::Boolean(b) => Some(*b),
            other => item.mistyped(reader, "true or false", other),
        }
    }

    /// A key that is either absent or `true`.
    pub(super) fn is_true(&mut self, reader: &mut Reader, key: &'static str) -> bool {
        let span = self.key_span(key);
        let value = self.boolean(reader, key);
        if value == Some(false) {
            reader.problem(span, format!("`{key}` is true or not there"));
        }
        value.is_some()
    }

    pub(super) fn integer(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let item = self.take(key)?;
        let value = item.integer(reader)?;
        if !range.contains(&value) {
            let message = format!("`{key}` must be from {} to {}", range.start(), range.end());
            reader.problem(item.value.span(), message);
            return None;
        }
        Some(value)
    }

    /// A text that stands for one of a set of names.
    pub(super) fn named<T: FromStr<Err: ToString>>(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
    ) -> Option<T> {
        let text = self.text(reader, key)?;
        let parsed = text.text.parse().map_err(|e: T::Err| e.to_string());
        parsed.map_err(|e| reader.problem(text.span, e)).ok()
    }

    pub(super) fn duration(&mut self, reader: &mut Reader, key: &'static str) -> Option<Duration> {
        let text = self.text(reader, key)?;
        let parsed = duration(&text.text);
        parsed.map_err(|e| reader.problem(text.span, e)).ok()
    }

    pub(super) fn texts(&mut self, reader: &mut Reader, key: &'static str) -> Option<Vec<Text>> {
        let item = self.take(key)?;
        let items = item.list(reader)?;
        Some(items.iter().filter_map(|i| i.text(reader)).collect())
    }

    pub(super) fn table(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        what: &'static str,
    ) -> Option<Table<'a>> {
        let item = self.take(key)?;
        item.table(reader, what)
    }

    pub(super) fn tables(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        what: &'static str,
    ) -> Vec<Table<'a>> {
        let Some(item) = self.take(key) else {
            return Vec::new();
        };
        let items = item.list(reader).unwrap_or_default();
        items.iter().filter_map(|i| i.table(reader, what)).collect()
    }

    /// Reports every key that nobody took.
    pub(super) fn finish(self, reader: &mut Reader) {
        for entry in &self.entries {
            let message = format!("{} has no key `{}`", self.what, entry.key);
            let mut problem = Problem::new(entry.key_span.clone(), message);
            let mut known: Vec<&str> = self.taken.clone();
            known.sort_unstable();
            known.dedup();
            problem.help = Some(match nearest(entry.key, &known) {
                Some(key) => format!("did you mean `{key}`?"),
                None => format!("its keys: {}", known.join(", ")),
            });
            reader.problems.push(problem);
        }
    }
}

impl<'a> Item<'a> {
    fn mistyped<T>(&self, reader: &mut Reader, wanted: &str, found: &DeValue<'_>) -> Option<T> {
        let name = if self.key.is_empty() {
            "this".to_owned()
        } else {
            format!("`{}`", self.key)
        };
        let found = match found {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("{name} must be {wanted}, not {found}");
        reader.problem(self.value.span(), message);
        None
    }

    pub(super) fn text(&self, reader: &mut Reader) -> Option<Text> {
        match self.value.get_ref() {
            DeValue::String(s) => Some(reader.text(s, self.value.span())),
            other => self.mistyped(reader, "text", other),
        }
    }

    fn integer(&self, reader: &mut Reader) -> Option<i64> {
        let DeValue::Integer(integer) = self.value.get_ref() else {
            return self.mistyped(reader, "an integer", self.value.get_ref());
        };
        let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
        let message = "not an integer of 64 bits";
        parsed
            .map_err(|_| reader.problem(self.value.span(), message))
            .ok()
    }

    pub(super) fn table(&self, reader: &mut Reader, what: &'static str) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Table::new(what, table, self.value.span())),
            other => self.mistyped(reader, "a table", other),
        }
    }

    pub(super) fn list(&self, reader: &mut Reader) -> Option<Vec<Item<'a>>> {
        match self.value.get_ref() {
            DeValue::Array(items) => Some(
                items
                    .iter()
                    .map(|value| Item {
                        key: "",
                        key_span: value.span(),
                        value,
                    })
                    .collect(),
            ),
            other => self.mistyped(reader, "a list", other),
        }
    }

    /// A constant of a scenario: integer, text or boolean.
    pub(super) fn constant(&self, reader: &mut Reader) -> Option<rowlock_model::Value> {
        match self.value.get_ref() {
            DeValue::Boolean(b) => Some((*b).into()),
            DeValue::Integer(_) => self.integer(reader).map(Into::into),
            DeValue::String(s) => Some((&**s).into()),
            other => self.mistyped(reader, "an integer, text or a boolean", other),
        }
    }
}

/// `15s`, `200ms`, `5min`, `1h`: a whole number and a unit.
///
/// # Errors
/// What is wrong with the text, for a person.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit_ms: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => {
            return Err(format!(
                "`{text}` is not a duration; write `15s`, `200ms`, `5min` or `1h`"
            ));
        }
    };
    // A day too long is a typing error, and this keeps microseconds far inside 64 bits.
    let most_ms: u64 = 366 * 24 * 3_600_000;
    text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit_ms))
        .filter(|ms| *ms <= most_ms)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is not a duration of at most a year"))
}

/// The known name that is nearest to a mistyped one, if one is near.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).max(1);
    known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(d, _)| *d <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
