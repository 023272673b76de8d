//! The order and equality of texts under a collation, and patterns.

use std::cmp::Ordering;

use super::types::Collation;

/// Compares two texts.
pub(super) fn compare(collation: Collation, a: &str, b: &str) -> Ordering {
    match collation {
        Collation::Binary => a.as_bytes().cmp(b.as_bytes()),
        Collation::NoCase => {
            let fold = |s: &str| s.to_ascii_lowercase();
            fold(a).as_bytes().cmp(fold(b).as_bytes())
        }
        Collation::RTrim => {
            let cut = |s: &str| s.trim_end_matches(' ').len();
            a.as_bytes()[..cut(a)].cmp(&b.as_bytes()[..cut(b)])
        }
        Collation::Utf8mb40900AiCi => weights_0900(a).cmp(&weights_0900(b)),
        Collation::Utf8mb4GeneralCi | Collation::Utf8mb3GeneralCi | Collation::Latin1SwedishCi => {
            padded(a, b, general_weight)
        }
        Collation::Utf8mb4Bin => padded(a, b, |c| c as u32),
    }
}

/// Compares as if the shorter text were filled with spaces.
fn padded(a: &str, b: &str, weight: fn(char) -> u32) -> Ordering {
    let space = weight(' ');
    let mut a = a.chars().map(weight);
    let mut b = b.chars().map(weight);
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) => match x.unwrap_or(space).cmp(&y.unwrap_or(space)) {
                Ordering::Equal => {}
                other => return other,
            },
        }
    }
}

/// `utf8mb4_general_ci`: the code point of the capital letter without its accent.
fn general_weight(c: char) -> u32 {
    match base_letter(c) {
        Some(base) => u32::from(base.to_ascii_uppercase()),
        None if c == 'ß' => u32::from(b'S'),
        None => c.to_uppercase().next().map_or(c as u32, |u| u as u32),
    }
}

/// `utf8mb4_0900_ai_ci`: primary weights of the Unicode collation for ASCII and the letters of
/// Latin-1; characters beyond are ordered by their lower-case code point after those.
fn weights_0900(text: &str) -> Vec<u32> {
    let mut weights = Vec::new();
    for c in text.chars() {
        match c {
            'ß' => weights.extend([letter('s'), letter('s')]),
            'æ' | 'Æ' => weights.extend([letter('a'), letter('e')]),
            _ => weights.extend(weight_0900(c)),
        }
    }
    weights
}

fn letter(c: char) -> u32 {
    200 + c as u32
}

fn weight_0900(c: char) -> Option<u32> {
    // White space, punctuation and symbols in the order of the default table (DUCET).
    const ORDER: &str = "\t\n\u{b}\u{c}\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789";
    if let Some(base) = base_letter(c) {
        return Some(letter(base.to_ascii_lowercase()));
    }
    if let Some(place) = ORDER.chars().position(|known| known == c) {
        return Some(place as u32 + 1);
    }
    if c.is_ascii_control() {
        // Ignored.
        return None;
    }
    Some(1_000 + c.to_lowercase().next().map_or(c as u32, |l| l as u32))
}

/// The ASCII letter that a letter of ASCII or Latin-1 is without its accent.
fn base_letter(c: char) -> Option<char> {
    Some(match c {
        'a'..='z' | 'A'..='Z' => c,
        'À'..='Å' | 'à'..='å' => 'a',
        'Ç' | 'ç' => 'c',
        'È'..='Ë' | 'è'..='ë' => 'e',
        'Ì'..='Ï' | 'ì'..='ï' => 'i',
        'Ñ' | 'ñ' => 'n',
        'Ò'..='Ö' | 'ò'..='ö' => 'o',
        'Ù'..='Ü' | 'ù'..='ü' => 'u',
        'Ý' | 'ý' | 'ÿ' => 'y',
        _ => return None,
    })
}

/// Whether two characters are the same in a pattern.
fn same(collation: Collation, a: char, b: char) -> bool {
    match collation {
        Collation::Binary | Collation::Utf8mb4Bin | Collation::RTrim => a == b,
        Collation::NoCase => a.eq_ignore_ascii_case(&b),
        Collation::Utf8mb40900AiCi
        | Collation::Utf8mb4GeneralCi
        | Collation::Utf8mb3GeneralCi
        | Collation::Latin1SwedishCi => general_weight(a) == general_weight(b),
    }
}

/// `LIKE`.
pub(crate) fn like(collation: Collation, text: &str, pattern: &str, escape: Option<char>) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    like_from(collation, &text, &pattern, escape)
}

fn like_from(collation: Collation, text: &[char], pattern: &[char], escape: Option<char>) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    if Some(first) == escape {
        return match (rest.split_first(), text.split_first()) {
            (Some((&wanted, rest)), Some((&c, text))) => {
                same(collation, wanted, c) && like_from(collation, text, rest, escape)
            }
            _ => false,
        };
    }
    match first {
        '%' => (0..=text.len()).any(|i| like_from(collation, &text[i..], rest, escape)),
        '_' => !text.is_empty() && like_from(collation, &text[1..], rest, escape),
        wanted => text.split_first().is_some_and(|(&c, text)| {
            same(collation, wanted, c) && like_from(collation, text, rest, escape)
        }),
    }
}

/// `GLOB` of SQLite: `*`, `?`, `[a-z]`, `[^a-z]`.
pub(super) fn glob(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    glob_from(&text, &pattern)
}

fn glob_from(text: &[char], pattern: &[char]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    match first {
        '*' => (0..=text.len()).any(|i| glob_from(&text[i..], rest)),
        '?' => !text.is_empty() && glob_from(&text[1..], rest),
        '[' => {
            let Some((&c, text)) = text.split_first() else {
                return false;
            };
            let (negated, set) = match rest.first() {
                Some('^') => (true, &rest[1..]),
                _ => (false, rest),
            };
            // A bracket right at the start stands for itself.
            let close = set.iter().skip(1).position(|x| *x == ']').map(|i| i + 1);
            let Some(close) = close else {
                return false;
            };
            let members = &set[..close];
            let mut found = false;
            let mut i = 0;
            while i < members.len() {
                if i + 2 < members.len() && members[i + 1] == '-' {
                    found |= (members[i]..=members[i + 2]).contains(&c);
                    i += 3;
                } else {
                    found |= members[i] == c;
                    i += 1;
                }
            }
            found != negated && glob_from(text, &set[close + 1..])
        }
        wanted => text
            .split_first()
            .is_some_and(|(&c, text)| c == wanted && glob_from(text, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_collations_fold_case_and_accents() {
        let new = Collation::Utf8mb40900AiCi;
        let old = Collation::Utf8mb4GeneralCi;
        for (collation, a, b, order) in [
            (new, "a", "A", Ordering::Equal),
            (new, "é", "E", Ordering::Equal),
            (new, "a", "a ", Ordering::Less),
            (new, "ss", "ß", Ordering::Equal),
            (new, "_", "-", Ordering::Less),
            (new, "9", "a", Ordering::Less),
            (old, "a", "a ", Ordering::Equal),
            (old, "a", "A", Ordering::Equal),
            (old, "_", "a", Ordering::Greater),
            (old, "s", "ß", Ordering::Equal),
        ] {
            assert_eq!(compare(collation, a, b), order, "{a:?} {b:?}");
        }
    }

    #[test]
    fn patterns() {
        let bin = Collation::Binary;
        assert!(like(bin, "abc", "a%", None));
        assert!(like(bin, "abc", "_b_", None));
        assert!(!like(bin, "abc", "A%", None));
        assert!(like(Collation::NoCase, "abc", "A%", None));
        assert!(like(bin, "10%", "10\\%", Some('\\')));
        assert!(glob("abc", "a*"));
        assert!(glob("abc", "a[a-c]?"));
        assert!(!glob("abc", "a[^a-c]?"));
        assert!(!glob("abc", "A*"));
    }
}
