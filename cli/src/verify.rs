//! Explorations inside of tests: a failure shows the schedule and says how to replay it.

use std::fs;
use std::path::{Path, PathBuf};

use rowlock_model::schedule::Schedule;
use rowlock_model::verdict::{Exploration, Verdict, Violation};
use rowlock_reports::{Manner, Palette, terminal};
use rowlock_scenarios::Source;
use rowlock_scenarios::schedule::{ScheduleFile, ScheduleProcess};
use rowlock_sim::database::Database;
use rowlock_sim::explore::Explorer;
use rowlock_sim::numbers_of;

/// Names a schedule file: the test that wrote it follows that schedule instead of exploring.
const REPLAY_VARIABLE: &str = "ROWLOCK_REPLAY";

/// Columns of the lanes in a panic message.
const WIDTH: usize = 100;

/// What a test says about an exploration.
pub trait Verify: Sized {
    /// Explores, and fails the test unless every property holds on every interleaving within the
    /// bounds. Returns what the exploration took.
    ///
    /// With `ROWLOCK_REPLAY=FILE` in the environment, where FILE is the schedule that an earlier
    /// failure of this test wrote, the code under test is run along that schedule only.
    ///
    /// # Panics
    /// A property is violated: the text shows the schedule, one lane a session, and ends with the
    /// lines that replay it. Also if nothing contended or a limit was hit, because then nothing is
    /// known, and if the exploration cannot be carried out.
    #[track_caller]
    fn assert_holds(self) -> Exploration;

    /// Explores, and fails the test unless the property `name` is violated. For code that is known
    /// to be wrong, so that the test tells when it is not any more.
    ///
    /// # Panics
    /// The property holds, another one is violated, or nothing is known.
    #[track_caller]
    fn assert_violated(self, name: &str) -> Violation;
}

impl<D: Database> Verify for Explorer<D> {
    fn assert_holds(self) -> Exploration {
        let test = TestName::current();
        let about = About::of(&self, &test);
        if let Some(file) = replay_file(&test) {
            return replay(self, &file);
        }
        let exploration = match self.run() {
            Ok(exploration) => exploration,
            Err(error) => panic!("the exploration cannot be carried out: {error}"),
        };
        match &exploration.verdict {
            Verdict::Holds => exploration,
            Verdict::Violated(violation) => panic!("{}", about.failure(violation, &test)),
            other => panic!("nothing is known: {other}"),
        }
    }

    fn assert_violated(self, name: &str) -> Violation {
        match self.run() {
            Ok(exploration) => match exploration.verdict {
                Verdict::Violated(violation) if violation.property == name => *violation,
                other => panic!("expected `violated: {name}`, found `{other}`"),
            },
            Err(error) => panic!("the exploration cannot be carried out: {error}"),
        }
    }
}

/// The name of the running test, which the test harness gives to its thread.
struct TestName(String);

impl TestName {
    fn current() -> TestName {
        let thread = std::thread::current();
        TestName(thread.name().unwrap_or("main").to_owned())
    }

    /// As the name of a file.
    fn file_name(&self) -> String {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let name: String = self.0.replace("::", "-").chars().map(safe).collect();
        format!("{name}.schedule")
    }
}

/// What a schedule file needs beyond the schedule; taken before the exploration consumes it.
struct About {
    file: ScheduleFile,
}

impl About {
    fn of<D: Database>(explorer: &Explorer<D>, test: &TestName) -> About {
        let processes = explorer.specs().iter().flat_map(|spec| {
            let label = |i: usize| match spec.count {
                1 => spec.name.clone(),
                _ => format!("{}-{}", spec.name, i + 1),
            };
            (0..spec.count).map(move |i| ScheduleProcess {
                label: label(i).into(),
                sessions: u8::try_from(spec.sessions).unwrap_or(u8::MAX),
                isolation: spec.isolation,
                skew_micros: spec.skew_micros,
                connect: spec.connect.as_deref().map(Into::into),
            })
        });
        let setup = explorer.setup_scripts();
        let database = explorer.database().dialect();
        About {
            file: ScheduleFile {
                title: test.0.as_str().into(),
                variant: "".into(),
                property: "".into(),
                detail: "".into(),
                check: None,
                database,
                isolation: rowlock_scenarios::scenario::default_isolation(database),
                bounds: explorer.fault_bounds().clone(),
                granularity: explorer.present_granularity(),
                pooler: explorer.database().pool_size(),
                processes: processes.collect(),
                setup: (!setup.is_empty()).then(|| setup.join("\n").into()),
                schedule: Schedule::default(),
                matters: Vec::new(),
                numbers: Vec::new(),
            },
        }
    }

    /// The text of the failure. Writes the schedule file that it names.
    fn failure(mut self, violation: &Violation, test: &TestName) -> String {
        self.file.property = violation.property.as_str().into();
        self.file.detail = violation.detail.as_str().into();
        self.file.schedule = violation.schedule.clone();
        self.file.matters.clone_from(&violation.matters);
        self.file.numbers = numbers_of(self.file.database, &self.file.schedule);
        let path = schedule_directory().join(test.file_name());
        let replay = match write(&path, &self.file.to_string()) {
            Ok(()) => format!(
                "{REPLAY_VARIABLE}={path} cargo test {test}\n\
                 on a server: rowlock replay {path} --on postgres",
                path = path.display(),
                test = test.0,
            ),
            Err(error) => format!("the schedule was not written: {}: {error}", path.display()),
        };
        let target = self.file.database.to_string();
        let text = terminal::violation(&test.0, &target, violation, &replay, &manner());
        format!("\n{text}")
    }
}

fn manner() -> Manner {
    Manner {
        width: WIDTH,
        palette: Palette::plain(),
        verbose: false,
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}

/// `target/rowlock`, beside the profile that the test was built in; the temporary directory for
/// programs that are not in a target directory.
fn schedule_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program
        .parent()
        .filter(|deps| deps.ends_with("deps"))
        .and_then(|deps| deps.parent()?.parent());
    match target {
        Some(target) => target.join("rowlock"),
        None => std::env::temp_dir().join("rowlock"),
    }
}

/// The schedule to follow, if the environment names one that is of this test.
fn replay_file(test: &TestName) -> Option<ScheduleFile> {
    let path = std::env::var(REPLAY_VARIABLE).ok()?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => panic!("{REPLAY_VARIABLE}={path}: {error}"),
    };
    match ScheduleFile::parse(Source::new(path, text)) {
        Ok(file) => (*file.title == *test.0).then_some(file),
        Err(error) => panic!("{REPLAY_VARIABLE}: {error}"),
    }
}

/// Runs the code under test along a schedule.
fn replay<D: Database>(explorer: Explorer<D>, file: &ScheduleFile) -> Exploration {
    let bounds = explorer.fault_bounds().clone();
    let replayed = match explorer.replay(&file.schedule) {
        Ok(replayed) => replayed,
        Err(error) => panic!("the code takes another way than the schedule: {error}"),
    };
    let Some((property, detail)) = replayed.violation else {
        let lanes = terminal::lanes(&replayed.schedule, &[], &manner());
        println!("{lanes}\nthe schedule violates no property any more");
        return Exploration {
            verdict: Verdict::Incomplete("only one schedule was run".to_owned()),
            bounds,
            counts: rowlock_model::verdict::Counts::default(),
        };
    };
    let violation = Violation {
        property,
        detail,
        schedule: replayed.schedule,
        matters: replayed.matters,
    };
    let text = terminal::violation(
        &file.title,
        &file.database.to_string(),
        &violation,
        "",
        &manner(),
    );
    panic!("\n{text}");
}
