//! The schedules that a command is to run: schedule files, and pinned schedules of scenarios.

use rowlock_model::ErrorClass;
use rowlock_reports::{Case as Named, Diagnostic};
use rowlock_scenarios::pinned::Pinned;
use rowlock_scenarios::replay::{ReplayError, Script};
use rowlock_scenarios::{Case, Scenario};

use crate::config::Narrow;
use crate::exit::Failure;
use crate::input::Loaded;

/// One of them.
pub(crate) struct Item<'a> {
    /// What it belongs to.
    pub(crate) case: Named,
    /// The name of the pinned schedule, or `schedule`.
    pub(crate) name: String,
    /// What is run.
    pub(crate) script: Script<'a>,
    /// The scenario, for places in it.
    scenario: Option<(&'a Scenario, &'a Case)>,
}

/// The name that reports use for a case.
pub(crate) fn named(scenario: &Scenario, case: &Case) -> Named {
    Named {
        file: scenario.source.path.to_string(),
        title: scenario.title.to_string(),
        variant: (!case.variant.is_empty()).then(|| case.variant.to_string()),
        database: case.database,
        isolation: case.isolation,
    }
}

/// The schedules that are meant.
pub(crate) fn items<'a>(loaded: &'a [Loaded], narrow: &Narrow, names: &[String]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for file in loaded {
        match file {
            Loaded::Scenario(scenario) => {
                for case in &scenario.cases {
                    if narrow.includes(&case.variant, case.database, case.isolation) {
                        items.extend(pinned(scenario, case, names));
                    }
                }
            }
            Loaded::Schedule(path, file) => {
                if narrow.includes(&file.variant, file.database, file.isolation) {
                    items.push(Item {
                        case: Named {
                            file: path.clone(),
                            title: file.title.to_string(),
                            variant: None,
                            database: file.database,
                            isolation: file.isolation,
                        },
                        name: "schedule".to_owned(),
                        script: Script::File(file),
                        scenario: None,
                    });
                }
            }
        }
    }
    items
}

/// The pinned schedules of a case, those with one of `names` if there are any.
pub(crate) fn pinned<'a>(
    scenario: &'a Scenario,
    case: &'a Case,
    names: &[String],
) -> Vec<Item<'a>> {
    let wanted = |p: &&Pinned| names.is_empty() || names.iter().any(|name| **name == *p.name);
    let pinned = case.pinned.iter().filter(wanted);
    pinned
        .map(|pinned| Item {
            case: named(scenario, case),
            name: pinned.name.to_string(),
            script: Script::Pinned(case, pinned),
            scenario: Some((scenario, case)),
        })
        .collect()
}

/// Why a schedule could not be run.
pub(crate) enum Trouble {
    /// The server cannot be used any more.
    Fatal(Failure),
    /// The simulator does not model something.
    Unsupported(Diagnostic),
    /// The file is wrong.
    Wrong(Diagnostic),
}

impl Item<'_> {
    /// What to say about an error, at its place in the file as far as that is known.
    pub(crate) fn trouble(&self, error: ReplayError) -> Trouble {
        let title = format!("{}: {error}", self.name);
        let mut diagnostic = Diagnostic::file(self.case.file.clone(), title);
        match error {
            ReplayError::Stage(error) => Trouble::Fatal(Failure::Environment(error.message)),
            ReplayError::Refused { error, .. } => {
                if let (Some((scenario, case)), Some(at)) = (self.scenario, error.position)
                    && let Some(setup) = &case.setup
                {
                    diagnostic.source = scenario.source.text.to_string();
                    diagnostic.span = Some(setup.locate(at..at + 1));
                }
                match error.class {
                    ErrorClass::Unsupported => Trouble::Unsupported(diagnostic),
                    _ => Trouble::Wrong(diagnostic),
                }
            }
            ReplayError::Impossible(_) => Trouble::Unsupported(diagnostic),
            ReplayError::Expression(_) | ReplayError::Schedule { .. } => Trouble::Wrong(diagnostic),
        }
    }
}
