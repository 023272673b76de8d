//! Schedules of violations as files.

use std::path::Path;

use rowlock_model::verdict::Violation;
use rowlock_reports::Case as Named;
use rowlock_scenarios::scenario::{Test, When};
use rowlock_scenarios::schedule::{ScheduleFile, ScheduleProcess};
use rowlock_scenarios::{Case, Scenario};
use rowlock_sim::numbers_of;

/// A violation of a case with everything that a replay needs.
pub(crate) fn of(scenario: &Scenario, case: &Case, violation: &Violation) -> ScheduleFile {
    let processes = case.processes.iter().map(|process| ScheduleProcess {
        label: process.label.clone(),
        sessions: process.sessions,
        isolation: (process.isolation != case.isolation).then_some(process.isolation),
        skew_micros: process.skew_micros,
        connect: process.connect.as_ref().map(|script| script.text.clone()),
    });
    ScheduleFile {
        title: scenario.title.clone(),
        variant: case.variant.clone(),
        property: violation.property.as_str().into(),
        detail: violation.detail.as_str().into(),
        check: check(case, &violation.property),
        database: case.database,
        isolation: case.isolation,
        bounds: case.bounds.clone(),
        granularity: case.granularity,
        pooler: case.pooler,
        processes: processes.collect(),
        setup: case.setup.as_ref().map(|script| script.text.clone()),
        schedule: violation.schedule.clone(),
        matters: violation.matters.clone(),
        numbers: numbers_of(case.database, &violation.schedule),
    }
}

/// The query of a property that must return no row.
fn check(case: &Case, property: &str) -> Option<std::sync::Arc<str>> {
    let property = case.properties.iter().find(|p| *p.name == *property)?;
    match (&property.test, property.when) {
        (Test::Sql(sql), When::Always | When::AtEnd) => Some(sql.text.clone()),
        _ => None,
    }
}

/// `job-fixed-postgres-read-committed.schedule`.
pub(crate) fn file_name(case: &Named) -> String {
    let stem = Path::new(&case.file).file_stem().unwrap_or_default();
    let mut parts = vec![stem.to_string_lossy().into_owned()];
    parts.extend(case.variant.clone());
    parts.push(case.database.to_string());
    parts.push(case.isolation.to_string());
    let name = parts.join("-");
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{}.schedule", name.chars().map(safe).collect::<String>())
}
