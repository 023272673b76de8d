//! Random expressions: the same types, the same values, the same error codes.

use std::collections::BTreeMap;

use libtest_mimic::Failed;

use crate::grammar::{Grammar, Numbers, Tree};
use crate::pair::{Difference, Pair};

/// The smallest part of an expression that is answered differently.
fn smallest(
    pair: &mut Pair,
    tree: &Tree,
    query: &str,
) -> Result<Option<(String, Difference)>, Failed> {
    let sql = query.replace("{e}", &tree.text());
    let Some(difference) = pair.difference(&sql)? else {
        return Ok(None);
    };
    for part in &tree.parts {
        if let Some(found) = smallest(pair, part, query)? {
            return Ok(Some(found));
        }
    }
    Ok(Some((tree.form.to_owned(), difference)))
}

/// Forms whose differences are known and not settled yet. Expressions with one are asked only in the
/// deep profile, which shows them.
const KNOWN: &[&str] = &[
    // Order and comparison of documents.
    "j",
    "({d} BETWEEN {d} AND {d})",
    // MariaDB compares a text with a time or number in a way of its own here.
    "GREATEST({s}, {s})",
    "GREATEST({n}, {n})",
    "LEAST({d}, {d})",
    "({s} > {s})",
    "({d} <= {d})",
    "({s} NOT IN ({s}, {s}))",
    "(({n}, {s}) = ({n}, {s}))",
    "({n} IN (SELECT i FROM t u))",
    // Numbers and texts that are no dates: zero dates, and what MariaDB makes of them.
    "CAST({d} AS DATETIME)",
    "CAST({d} AS TIME)",
    "CAST({d} AS DATE)",
    "TIMESTAMP({d})",
    "SECOND({d})",
    "HOUR({d})",
    "YEAR({d})",
    "MONTH({d})",
    "DAY({d})",
    "DATE({d})",
    "DATEDIFF({d}, {d})",
    "DAYOFWEEK({d})",
    "TO_DAYS({d})",
    "UNIX_TIMESTAMP({d})",
    "DATE_ADD({d}, INTERVAL {n} SECOND)",
    "DATE_ADD({d}, INTERVAL 1 MICROSECOND)",
    "DATE_SUB({d}, INTERVAL 1 DAY)",
    "({d} - INTERVAL 90 MINUTE)",
    "({d} + INTERVAL 1 MONTH)",
    "TIMESTAMPADD(HOUR, 1, {d})",
    "DATE_FORMAT({d}, '%Y-%m-%d %H:%i:%s')",
    "FROM_UNIXTIME({n})",
    // Widths of what is made of a TEXT column or a document.
    "x",
    "CONCAT_WS(',', {s}, {a})",
    "JSON_SET({j}, '$.a', {n})",
    "JSON_SET({j}, '$.z', {s})",
    "JSON_INSERT({j}, '$.a', {n}, '$.q', 1)",
    "JSON_REPLACE({j}, '$.a', {s})",
    "JSON_REMOVE({j}, '$.a')",
    "JSON_ARRAY({n}, {s})",
    "JSON_OBJECT('k', {n}, 'l', {s})",
    "JSON_OBJECT('k', {a}, 'l', {j})",
    // Rounding of times and of fractions, and sums of texts on MariaDB.
    "ROUND({n})",
    "ROUND({n}, 1)",
    "FLOOR({n})",
    "CEIL({n})",
    "TRUNCATE({n}, 1)",
    "CAST({n} AS UNSIGNED)",
    "CAST({a} AS SIGNED)",
    "BIT_COUNT({n})",
    "HEX(i)",
    "HEX({s})",
    "ELT({n}, {s}, {s})",
    "FIELD({s}, {s}, {s})",
    "ANY_VALUE({n})",
    "CASE WHEN {b} THEN {n} ELSE {n} END",
    "CASE WHEN {b} THEN {a} ELSE {a} END",
    "IF({b}, {a}, {a})",
];

/// Whether a part of it is known to differ.
fn is_known(tree: &Tree) -> bool {
    KNOWN.contains(&tree.form) || tree.parts.iter().any(is_known)
}

/// Asks so many, and tells the kinds of differences, the most frequent first.
pub(crate) fn compare(
    mut pair: Pair,
    grammar: &Grammar,
    seed: u64,
    count: u64,
    deep: bool,
) -> Result<(), Failed> {
    let mut numbers = Numbers::new(seed);
    let mut kinds: BTreeMap<String, Vec<Difference>> = BTreeMap::new();
    let mut differences = 0;
    for _ in 0..count {
        let tree = grammar.expression(&mut numbers);
        let query = numbers.pick(grammar.queries);
        if !deep && is_known(&tree) {
            continue;
        }
        // In which order documents are sorted is not said.
        if query != "SELECT {e} FROM t ORDER BY id" && tree.text().contains("JSON_") {
            continue;
        }
        if let Some((form, difference)) = smallest(&mut pair, &tree, query)? {
            differences += 1;
            kinds.entry(form).or_default().push(difference);
        }
    }
    println!("{count} statements, {} refused", pair.refused);
    if differences == 0 {
        return Ok(());
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(form, found)| (usize::MAX - found.len(), form.clone()));
    let mut message = format!("{differences} of {count} differ\n");
    for (form, found) in &kinds {
        message.push_str(&format!("{} x `{form}`\n", found.len()));
        for difference in found.iter().take(3) {
            let Difference {
                sql,
                real,
                simulated,
            } = difference;
            message.push_str(&format!(
                "  {sql}\n    real:      {real}\n    simulated: {simulated}\n"
            ));
        }
    }
    Err(message.into())
}
