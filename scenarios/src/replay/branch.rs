//! Whether the simulator allows what a server did.
//!
//! Where a server leaves the order open (which of several waiters goes on first, whose deadlock check
//! fires first), a schedule has several outcomes. A run on a simulated stage follows a list of
//! decisions; all lists are tried, until one run shows what the server showed.

use super::mirror::{Difference, difference};
use super::{Replay, ReplayError, Script, run};
use crate::stage::{Decision, Stage};

/// How many runs of the simulator one run of a server is compared with at most.
const MOST_BRANCHES: u32 = 2_000;

/// What the simulator says to a run of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The simulated run that is the same; if there is none, the one that is the same for longest.
    pub simulated: Replay,
    /// Where it differs.
    pub difference: Option<Difference>,
    /// Whether it takes another branch than the simulator does by itself.
    pub other_branch: bool,
    /// How many branches were tried.
    pub branches: u32,
    /// Not all were tried, because there are too many.
    pub cut_off: bool,
}

/// Looks for a branch of the simulator that shows what a run of a server shows. A run that was ended
/// at a difference is compared as far as it goes.
///
/// # Errors
/// The simulated stage failed, or the schedule cannot be run there.
pub fn allowed(
    simulated: &mut dyn Stage,
    script: Script<'_>,
    live: &Replay,
    whole: bool,
) -> Result<Allowed, ReplayError> {
    let mut ways: Vec<u16> = Vec::new();
    let mut best: Option<Allowed> = None;
    for branches in 1.. {
        simulated.decide(&ways);
        let found = run(simulated, script, false);
        let decisions = simulated.decisions();
        simulated.decide(&[]);
        let next = next_ways(&decisions);
        let mut found = match (found, &next) {
            (Ok(found), _) => found,
            // The schedule cannot be run to its end in this branch; another may do.
            (Err(_), Some(next)) => {
                ways.clone_from(next);
                continue;
            }
            (Err(error), None) if best.is_none() => return Err(error),
            (Err(_), None) => break,
        };
        if !whole && found.steps.len() > live.steps.len() {
            found.steps.truncate(live.steps.len());
            found.finals.clear();
            found.ended = None;
        }
        let difference = difference(&found, live);
        let is_same = difference.is_none();
        let reaches = |difference: &Option<Difference>| match difference {
            None => usize::MAX,
            Some(difference) => difference.step.unwrap_or(usize::MAX - 1),
        };
        if best
            .as_ref()
            .is_none_or(|b| reaches(&difference) > reaches(&b.difference))
        {
            best = Some(Allowed {
                simulated: found,
                difference,
                other_branch: branches > 1,
                branches,
                cut_off: false,
            });
        }
        if let Some(best) = &mut best {
            best.branches = branches;
            best.cut_off = branches >= MOST_BRANCHES && next.is_some();
        }
        match next.filter(|_| !is_same && branches < MOST_BRANCHES) {
            Some(next) => ways = next,
            None => break,
        }
    }
    // The loop runs at least once.
    best.ok_or_else(|| unreachable!("no branch was tried"))
}

/// The decisions of the next run: the last one that has a way left takes it.
fn next_ways(decisions: &[Decision]) -> Option<Vec<u16>> {
    let at = decisions.iter().rposition(|d| d.taken + 1 < d.of)?;
    let mut ways: Vec<u16> = decisions[..=at].iter().map(|d| d.taken).collect();
    ways[at] += 1;
    Some(ways)
}
