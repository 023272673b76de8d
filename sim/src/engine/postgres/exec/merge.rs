//! `MERGE` (manual, "MERGE"; its README notes on concurrency).
//!
//! Each row of the source is looked up in the target. The first action of its kind whose condition holds
//! is carried out. A row of the target that was changed meanwhile is locked in its newest version; if it
//! still matches, all conditions are checked again for it, otherwise the row of the source counts as
//! not matched. So does one whose row was deleted meanwhile. A key that somebody else inserts meanwhile
//! is a violation: unlike `ON CONFLICT`, nothing is taken back.

use rowlock_model::{DbError, Row};

use super::bound::{Around, Bound};
use super::trigger::{Action, columns_set};
use super::write::Replaced;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{RowLock, VersionId};
use crate::plan::catalog::Timing;
use crate::plan::expr;
use crate::plan::write::{Assignment, Merge, MergeAction, MergeWhen};

/// What came of the actions for a row that matched.
enum Matched {
    /// It is dealt with.
    Done,
    /// It does not match any more.
    NotMatched,
}

impl Exec<'_> {
    pub(super) fn merge(&mut self, merge: &Merge, around: Around<'_>) -> Result<u64, Stop> {
        self.open_ctes(&merge.with, around);
        let updated: Vec<usize> = merge
            .actions
            .iter()
            .filter_map(|when| match &when.action {
                MergeAction::Update { set } => Some(columns_set(set)),
                _ => None,
            })
            .flatten()
            .collect();
        let does =
            |wanted: fn(&MergeAction) -> bool| merge.actions.iter().any(|w| wanted(&w.action));
        let inserts = does(|a| matches!(a, MergeAction::Insert { .. }));
        let updates = does(|a| matches!(a, MergeAction::Update { .. }));
        let deletes = does(|a| matches!(a, MergeAction::Delete));
        if inserts {
            self.before_statement(&merge.table, Action::Insert, &[])?;
        }
        if updates {
            self.before_statement(&merge.table, Action::Update, &updated)?;
        }
        if deletes {
            self.before_statement(&merge.table, Action::Delete, &[])?;
        }
        let mut affected = 0;
        self.source(&merge.source, around, None, &mut |exec, bound| {
            let mut bound = bound.to_vec();
            if bound[0].version.is_some()
                && let Matched::Done =
                    exec.merge_matched(merge, &mut bound, around, &mut affected)?
            {
                return Ok(Flow::More);
            }
            bound[0] = Bound::default();
            exec.merge_not_matched(merge, &bound, around, &mut affected)?;
            Ok(Flow::More)
        })?;
        if deletes {
            self.after_statement(&merge.table, Action::Delete, &[]);
        }
        if updates {
            self.after_statement(&merge.table, Action::Update, &updated);
        }
        if inserts {
            self.after_statement(&merge.table, Action::Insert, &[]);
        }
        Ok(affected)
    }

    /// The first action of a kind whose condition holds.
    fn chosen<'m>(
        &mut self,
        merge: &'m Merge,
        matched: bool,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Option<&'m MergeWhen>, Stop> {
        for when in merge.actions.iter().filter(|w| w.matched == matched) {
            let Some(condition) = &when.condition else {
                return Ok(Some(when));
            };
            self.bind_addresses(bound);
            let holds = around.with(bound, |scope| expr::test(condition, scope, self))?;
            if holds == Some(true) {
                return Ok(Some(when));
            }
        }
        Ok(None)
    }

    fn merge_matched(
        &mut self,
        merge: &Merge,
        bound: &mut Vec<Bound>,
        around: Around<'_>,
        affected: &mut u64,
    ) -> Result<Matched, Stop> {
        loop {
            let Some(version) = bound[0].version else {
                return Ok(Matched::NotMatched);
            };
            let Some(when) = self.chosen(merge, true, bound, around)? else {
                return Ok(Matched::Done);
            };
            let outcome = match &when.action {
                MergeAction::Nothing | MergeAction::Insert { .. } => return Ok(Matched::Done),
                MergeAction::Delete => self.merge_delete(merge, version)?,
                MergeAction::Update { set } => {
                    self.merge_update(merge, set, version, bound, around)?
                }
            };
            match outcome {
                Replaced::Done(_) => {
                    *affected += 1;
                    return Ok(Matched::Done);
                }
                Replaced::Skip => return Ok(Matched::Done),
                Replaced::Gone => return Ok(Matched::NotMatched),
                Replaced::Again => {
                    return Err(DbError::postgres(
                        "21000",
                        "MERGE command cannot affect row a second time",
                    )
                    .into());
                }
                Replaced::Newer(newer) => {
                    bound[0] = self.bind_at(&merge.source.range[0], newer);
                    if !self.passes_again(&merge.source, bound, around)? {
                        return Ok(Matched::NotMatched);
                    }
                }
            }
        }
    }

    fn merge_delete(&mut self, merge: &Merge, version: VersionId) -> Result<Replaced, Stop> {
        let leaf = self.leaf_of(&merge.table, &merge.source.range[0], version);
        if leaf
            .table
            .has_triggers(Timing::Before, true, Action::Delete)
        {
            match self.lock_for_trigger(version, RowLock::Update)? {
                Replaced::Done(_) => {}
                other => return Ok(other),
            }
            let old = Row::clone(self.store.row(version));
            if !self.before_delete(&leaf.table, &old)? {
                return Ok(Replaced::Skip);
            }
        }
        self.remove(&leaf.table, version)
    }

    fn merge_update(
        &mut self,
        merge: &Merge,
        set: &[Assignment],
        version: VersionId,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Replaced, Stop> {
        let leaf = self.leaf_of(&merge.table, &merge.source.range[0], version);
        let old = self.store.row(version).to_vec();
        let row = self.assigned(&leaf.own_set(set), old, bound, around)?;
        self.write_updated(&merge.table, set, &leaf, version, row, around)
    }

    fn merge_not_matched(
        &mut self,
        merge: &Merge,
        bound: &[Bound],
        around: Around<'_>,
        affected: &mut u64,
    ) -> Result<(), Stop> {
        let Some(MergeWhen {
            action: MergeAction::Insert { values },
            ..
        }) = self.chosen(merge, false, bound, around)?
        else {
            return Ok(());
        };
        let row = self.project(values, bound, around)?;
        let (leaf, row) = self.route(&merge.table, row)?;
        let Some(row) = self.before_row(&leaf.table, Action::Insert, &[], None, row)? else {
            return Ok(());
        };
        let row = self.finish_row(&leaf.table, row, around)?;
        self.store_row(&leaf.table, &row, around)?;
        *affected += 1;
        Ok(())
    }
}
