//! Checkpoints of long searches in a file.

use std::fs;
use std::io;
use std::time::Instant;

use rowlock_model::verdict::{Exploration, Verdict};
use rowlock_scenarios::{Case, Scenario};
use rowlock_sim::database::Database;
use rowlock_sim::explore::{Checkpoints, ExploreError, Explorer, OnProgress};

use crate::config::Checkpoint;
use crate::explore::Mode;

/// What a checkpoint is of: another file, case or question has another name.
pub(crate) fn name(scenario: &Scenario, case: &Case, mode: &Mode) -> String {
    let asked: Vec<&str> = mode.guarantees.iter().map(|g| g.name()).collect();
    let version = env!("CARGO_PKG_VERSION");
    let symmetry = mode.reductions.symmetry;
    let text = &scenario.source.text;
    // FNV-1a, 64 bits: enough to notice that the file was changed.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!(
        "rowlock {version}, {hash:016x} of {} bytes, {} {}, {asked:?}, symmetry {symmetry}\n",
        text.len(),
        case.variant,
        case.key()
    )
}

/// Explores with checkpoints, from where the file says if there is one. When the question is answered
/// the file is removed.
///
/// # Errors
/// The file cannot be read or written, or is of something else.
pub(crate) fn explore<D: Database>(
    explorer: Explorer<D>,
    checkpoint: &Checkpoint,
    whose: &str,
    progress: &mut OnProgress<'_>,
) -> Result<Result<Exploration, ExploreError>, String> {
    let Checkpoint { file, every } = checkpoint;
    let known = match fs::read(file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.to_string()),
    };
    let from = match &known {
        None => None,
        Some(bytes) => match bytes.strip_prefix(whose.as_bytes()) {
            Some(rest) => Some(rest),
            None => {
                return Err("this is a checkpoint of another case, question or version".to_owned());
            }
        },
    };
    let mut last = Instant::now();
    let mut due = || {
        let due = last.elapsed() >= *every;
        if due {
            last = Instant::now();
        }
        due
    };
    let mut save = |bytes: &[u8]| -> Result<(), String> {
        // A process that dies while it writes leaves the old checkpoint.
        let new = file.with_extension("new");
        let written = fs::write(&new, [whose.as_bytes(), bytes].concat());
        written
            .and_then(|()| fs::rename(&new, file))
            .map_err(|error| format!("the checkpoint cannot be written: {error}"))
    };
    let mut checkpoints = Checkpoints {
        due: &mut due,
        save: &mut save,
    };
    let result = explorer.long(from, &mut checkpoints, progress);
    let open = |verdict: &Verdict| matches!(verdict, Verdict::Incomplete(_));
    if result.as_ref().is_ok_and(|found| !open(&found.verdict)) {
        let _ = fs::remove_file(file);
    }
    Ok(result)
}
