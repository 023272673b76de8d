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

/// Asks so many, and tells the kinds of differences, the most frequent first.
pub(crate) fn compare(
    mut pair: Pair,
    grammar: &Grammar,
    seed: u64,
    count: u64,
) -> Result<(), Failed> {
    let mut numbers = Numbers::new(seed);
    let mut kinds: BTreeMap<String, Vec<Difference>> = BTreeMap::new();
    let mut differences = 0;
    for _ in 0..count {
        let tree = grammar.expression(&mut numbers);
        let query = numbers.pick(grammar.queries);
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
