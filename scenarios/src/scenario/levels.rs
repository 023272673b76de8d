//! `databases` and `isolation`: on what a case is explored.

use std::collections::BTreeMap;
use std::ops::Range;

use rowlock_model::{Dialect, Isolation};

use super::default_isolation;
use super::process::{check_isolation, parsed_items, parsed_list};
use super::reader::{Item, Reader, Table};

/// Each database of a variant with its levels. `is_own` says whether `isolation` stands in the same
/// table as `databases`: an inherited one may name databases that this variant does not have.
pub(super) fn databases(
    table: &mut Table<'_>,
    is_own: bool,
    reader: &mut Reader,
) -> Vec<(Dialect, Vec<Isolation>)> {
    if !table.has("databases") {
        reader.problem(table.span.clone(), "a scenario has no `databases`");
    }
    let databases = parsed_list::<Dialect>(table, "databases", reader).unwrap_or_default();
    let databases: Vec<Dialect> = databases
        .into_iter()
        .map(|(database, _)| database)
        .collect();
    let mut levels: BTreeMap<Dialect, Vec<Isolation>> = BTreeMap::new();
    if table.holds_table("isolation") {
        let items = table.table(reader, "isolation", "isolation");
        for item in items.map(|mut items| items.rest()).unwrap_or_default() {
            for database in named(&item, &databases, is_own, reader) {
                let given = of_list(&item, &[database], reader);
                if levels.insert(database, given).is_some() {
                    let message = format!("the levels of {database} stand here twice");
                    reader.problem(item.key_span.clone(), message);
                }
            }
        }
    } else if let Some(given) = parsed_list::<Isolation>(table, "isolation", reader) {
        let given = checked(given, &databases, reader);
        levels.extend(databases.iter().map(|database| (*database, given.clone())));
    }
    let of_database = |database: Dialect| {
        let given = levels.remove(&database);
        (
            database,
            given.unwrap_or_else(|| vec![default_isolation(database)]),
        )
    };
    databases.into_iter().map(of_database).collect()
}

/// The databases of a key: one, or several separated by commas.
fn named(
    item: &Item<'_>,
    databases: &[Dialect],
    is_own: bool,
    reader: &mut Reader,
) -> Vec<Dialect> {
    let mut found = Vec::new();
    for name in item.key.split(',').map(str::trim) {
        match name.parse::<Dialect>() {
            Ok(database) if is_own && !databases.contains(&database) => {
                let message = format!("`{name}` is not among the `databases`");
                reader.problem(item.key_span.clone(), message);
            }
            Ok(database) => found.push(database),
            Err(error) => reader.problem(item.key_span.clone(), error.to_string()),
        }
    }
    found
}

fn of_list(item: &Item<'_>, databases: &[Dialect], reader: &mut Reader) -> Vec<Isolation> {
    let texts = item.list(reader).unwrap_or_default();
    let texts = texts.iter().filter_map(|item| item.text(reader)).collect();
    let given = parsed_items::<Isolation>(texts, reader);
    if given.is_empty() {
        reader.problem(item.value.span(), "no level");
    }
    checked(given, databases, reader)
}

fn checked(
    given: Vec<(Isolation, Range<usize>)>,
    databases: &[Dialect],
    reader: &mut Reader,
) -> Vec<Isolation> {
    for (level, span) in &given {
        for database in databases {
            check_isolation(*database, *level, span.clone(), reader);
        }
    }
    given.into_iter().map(|(level, _)| level).collect()
}
