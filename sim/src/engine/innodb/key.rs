//! Keys of index records: values turned into something with the index's order.

use std::cmp::Ordering;
use std::rc::Rc;

use rowlock_model::Value;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::loose::types::Collation;

/// One field of a key. Fields of one column are of one kind, `NULL` aside, so their order is the
/// column's; `NULL` comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// `NULL`.
    Null,
    /// A whole number.
    Int(i64),
    /// A number that is no 64-bit integer.
    Decimal(Decimal),
    /// A floating-point number, its bits turned so that they have its order.
    Float(u64),
    /// The sort key of a text.
    Text(Rc<[u8]>),
    /// A point in time, a day, a time of day.
    Time(i64),
}

impl Part {
    /// The key field of a value of a column with this collation.
    pub fn of(value: &Value, collation: Collation) -> Part {
        match value {
            Value::Null | Value::Array(_) => Part::Null,
            Value::Bool(b) => Part::Int(i64::from(*b)),
            Value::Int(i) => Part::Int(*i),
            Value::Float(x) => {
                let bits = (x + 0.0).to_bits();
                let turned = if bits >> 63 == 0 {
                    bits | 1 << 63
                } else {
                    !bits
                };
                Part::Float(turned)
            }
            Value::Decimal(d) => {
                let d = d.normalize();
                match d.to_i64().filter(|i| Decimal::from(*i) == d) {
                    Some(i) => Part::Int(i),
                    None => Part::Decimal(d),
                }
            }
            Value::Text(s) => Part::Text(sort_key(s, collation).into()),
            Value::Bytes(b) => Part::Text(Rc::from(&b[..])),
            Value::Date(d) => Part::Time(i64::from(*d) * 86_400_000_000),
            Value::Time(t) | Value::Timestamp(t) | Value::TimestampTz(t) => Part::Time(*t),
            Value::Interval { micros, .. } => Part::Time(*micros),
        }
    }

    /// Whether it is `NULL`.
    pub fn is_null(&self) -> bool {
        matches!(self, Part::Null)
    }

    fn rank(&self) -> u8 {
        match self {
            Part::Null => 0,
            Part::Int(_) | Part::Decimal(_) | Part::Float(_) => 1,
            Part::Time(_) => 2,
            Part::Text(_) => 3,
        }
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Part) -> Ordering {
        match (self, other) {
            (Part::Int(a), Part::Int(b)) => a.cmp(b),
            (Part::Decimal(a), Part::Decimal(b)) => a.cmp(b),
            (Part::Int(a), Part::Decimal(b)) => Decimal::from(*a).cmp(b),
            (Part::Decimal(a), Part::Int(b)) => a.cmp(&Decimal::from(*b)),
            (Part::Float(a), Part::Float(b)) => a.cmp(b),
            (Part::Text(a), Part::Text(b)) => a.cmp(b),
            (Part::Time(a), Part::Time(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Bytes whose order is the collation's. The `_ci` collations fold case and the accents of Latin
/// letters; `general_ci` and `utf8mb4_bin` pad with spaces.
pub fn sort_key(text: &str, collation: Collation) -> Vec<u8> {
    let fold = |text: &str| -> Vec<u8> {
        let lower = text.chars().flat_map(char::to_lowercase).map(base_letter);
        lower.collect::<String>().into_bytes()
    };
    match collation {
        Collation::Binary => text.as_bytes().to_vec(),
        Collation::NoCase => text.to_ascii_lowercase().into_bytes(),
        Collation::RTrim | Collation::Utf8mb4Bin => text.trim_end_matches(' ').as_bytes().to_vec(),
        Collation::Utf8mb40900AiCi => fold(text),
        Collation::Utf8mb4GeneralCi | Collation::Utf8mb3GeneralCi | Collation::Latin1SwedishCi => {
            fold(text.trim_end_matches(' '))
        }
    }
}

/// The letter without its accent.
fn base_letter(c: char) -> char {
    match c {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        'ý' | 'ÿ' => 'y',
        other => other,
    }
}

/// The key of an index record: all fields that make it unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub Rc<[Part]>);

impl Key {
    /// Whether the key begins with these fields.
    pub fn starts_with(&self, prefix: &[Part]) -> bool {
        self.0.len() >= prefix.len() && self.0[..prefix.len()] == *prefix
    }

    /// Compares the first fields of the key with `prefix`; equal if they agree.
    pub fn cmp_prefix(&self, prefix: &[Part]) -> Ordering {
        self.0[..prefix.len().min(self.0.len())].cmp(prefix)
    }
}

/// A place in an index that can be locked: a record, or the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pos {
    /// A record, whether it is there (still, yet) or not.
    Record(Key),
    /// The supremum pseudo-record: what lies behind the last record.
    Supremum,
}

impl Pos {
    /// Whether it is the end.
    pub fn is_supremum(&self) -> bool {
        matches!(self, Pos::Supremum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: Value) -> Part {
        Part::of(&value, Collation::Utf8mb40900AiCi)
    }

    #[test]
    fn keys_have_the_order_of_their_values() {
        let ordered = [
            Value::Null,
            Value::Int(-3),
            Value::Decimal(Decimal::new(15, 1)),
            Value::Int(2),
        ];
        assert!(ordered.map(part).is_sorted());
        let floats = [-1.5, -0.0, 0.5, 2.0].map(|x| part(Value::Float(x)));
        assert!(floats.is_sorted());
        assert_eq!(part(Value::Float(0.0)), part(Value::Float(-0.0)));
        assert_eq!(part(Value::text("Ab")), part(Value::text("aB")));
        assert_ne!(part(Value::text("a")), part(Value::text("a ")));
        assert_eq!(
            Part::of(&Value::text("a "), Collation::Utf8mb4GeneralCi),
            Part::of(&Value::text("A"), Collation::Utf8mb4GeneralCi),
        );
    }
}
