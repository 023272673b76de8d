//! What the functions and operators of PostgreSQL 15 take, so that a call which the server accepts and
//! the simulator does not know is refused as such, instead of being answered with 42883.
//!
//! The lists are those of `pg_proc` and `pg_operator`; functions of internal types, and those of any
//! number of arguments, are left out.

/// Functions: name, types of the arguments, and how many of them have a default.
const FUNCTIONS: &str = include_str!("builtin_functions.txt");

/// Operators of two operands: symbol, left type, right type.
const OPERATORS: &str = include_str!("builtin_operators.txt");

/// Whether the server has a function that takes arguments of these types.
pub(super) fn has_function(name: &str, types: &[String]) -> bool {
    lines(FUNCTIONS, name).any(|line| {
        let (wanted, defaults) = line.split_once('\t').unwrap_or((line, "0"));
        let wanted: Vec<&str> = wanted.split(',').filter(|t| !t.is_empty()).collect();
        let least = wanted.len() - defaults.parse::<usize>().unwrap_or(0);
        (least..=wanted.len()).contains(&types.len())
            && types
                .iter()
                .zip(wanted)
                .all(|(have, want)| fits(have, want))
    })
}

/// Whether the server has an operator for operands of these types, an open one standing for any.
pub(super) fn has_operator(symbol: &str, left: &str, right: &str) -> bool {
    let open = |have: &str, want: &str| have == want || have == "unknown";
    lines(OPERATORS, symbol)
        .filter_map(|line| line.split_once('\t'))
        .any(|(l, r)| open(left, l) && open(right, r))
}

/// What follows the name in the lines of a list that begin with it.
fn lines<'a>(list: &'static str, name: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    list.lines()
        .filter_map(move |line| line.strip_prefix(name)?.strip_prefix('\t'))
}

/// Whether a value of one type is taken for another without being asked for: the casts that `pg_cast`
/// calls implicit, and the types that stand for many.
fn fits(have: &str, want: &str) -> bool {
    if have == want || have == "unknown" {
        return true;
    }
    let is_array = have.ends_with("[]");
    match want {
        "any" | "anyelement" | "anycompatible" => return true,
        "anynonarray" | "anycompatiblenonarray" => return !is_array,
        "anyarray" | "anycompatiblearray" => return is_array,
        _ => {}
    }
    let rank = |ty: &str| {
        let numbers = [
            "smallint",
            "integer",
            "bigint",
            "numeric",
            "real",
            "double precision",
        ];
        numbers.iter().position(|t| *t == ty)
    };
    if let (Some(from), Some(to)) = (rank(have), rank(want)) {
        return from < to;
    }
    let is_reg = want.starts_with("reg");
    match have {
        "smallint" | "integer" | "bigint" => want == "oid" || is_reg,
        "text" | "character varying" => {
            matches!(
                want,
                "text" | "character" | "character varying" | "name" | "regclass"
            )
        }
        "character" => matches!(want, "text" | "character varying" | "name"),
        "name" | "\"char\"" => want == "text",
        "oid" => is_reg,
        "date" => want.starts_with("timestamp"),
        "time without time zone" => matches!(want, "interval" | "time with time zone"),
        "timestamp without time zone" => want == "timestamp with time zone",
        _ => have.starts_with("reg") && want == "oid",
    }
}
