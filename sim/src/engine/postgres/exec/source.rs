//! `FROM` and `WHERE`: nested loops over a range table.
//!
//! Rows are pushed: a source calls its sink for every row that passes and stops when the sink says
//! so. That keeps the server's order of effects: a row is locked, updated or handed on before the
//! next one is fetched.
//!
//! Inner joins are flattened and ordered as far as index access and `LATERAL` need it, otherwise
//! they stay in the order written. Outer joins keep their structure.
//!
//! RECHECK. EvalPlanQual runs a whole block again for one combination of rows, in which some were
//! replaced by newer versions. That is the same source with every entry *fixed* to its row.

use std::rc::Rc;

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::way::Membership;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{VersionId, compare_values};
use crate::plan::catalog::Table;
use crate::plan::cost::{Chosen, Wanted};
use crate::plan::expr::{self, Compare, Expr, Host as _, Scope, SetFunction};
use crate::plan::query::{
    Access, Body, Conjunct, CteBody, From, Join, KeyCondition, KeyOp, Query, RangeEntry, RangeKind,
    Source,
};

/// What takes the rows of a source.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&mut Exec<'_>, &mut [Bound]) -> Result<Flow, Stop>;

/// A source with what stays the same while it runs.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: &'a Source,
    around: Around<'a>,
    /// For a recheck: the row of each entry.
    fixed: Option<&'a [Bound]>,
    /// Of a table that is read alone: the way to its rows.
    chosen: Option<Chosen>,
}

/// Rows of inner entries that need computing only once.
type Kept = Vec<Option<Rc<[Row]>>>;

/// One stage of the nested loops.
struct Stage<'a> {
    node: &'a From,
    /// Conjuncts that can be checked once this stage is bound.
    checks: Vec<&'a Conjunct>,
}

impl Exec<'_> {
    /// Gives every row of `source` that passes its filter to `sink`.
    pub(super) fn source(
        &mut self,
        source: &Source,
        around: Around<'_>,
        fixed: Option<&[Bound]>,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        if fixed.is_none()
            && source.rerun.is_some()
            && let Some(flow) = self.rerun_rows(source, around, sink)?
        {
            return Ok(flow);
        }
        let chosen = match fixed {
            None => self.store.way_chosen(source, &Wanted::default(), 0),
            Some(_) => None,
        };
        self.source_by(source, around, fixed, chosen, sink)
    }

    /// As [`source`](Self::source), by a way that was chosen.
    pub(super) fn source_by(
        &mut self,
        source: &Source,
        around: Around<'_>,
        fixed: Option<&[Bound]>,
        chosen: Option<Chosen>,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let input = Input {
            source,
            around,
            fixed,
            chosen,
        };
        let traced = fixed.is_none() && self.store.is_traced();
        let sink: Sink<'_> = &mut |exec, bound| {
            if traced {
                let unread = exec.unread;
                exec.trace_reads(source, bound, |entry| unread & (1 << entry) == 0);
            }
            sink(exec, bound)
        };
        let mut bound = vec![Bound::default(); source.range.len()];
        // Conditions without any row are checked before anything is read.
        for conjunct in &source.filter {
            if conjunct.uses == 0 && !conjunct.volatile && !self.holds(conjunct, &bound, around)? {
                return Ok(Flow::More);
            }
        }
        let mut kept: Kept = vec![None; source.range.len()];
        match &source.from {
            None => {
                for conjunct in &source.filter {
                    if conjunct.volatile && !self.holds(conjunct, &bound, around)? {
                        return Ok(Flow::More);
                    }
                }
                sink(self, &mut bound)
            }
            // One table, the usual case, needs no order of stages.
            Some(From::Entry(entry)) => self.entry(
                input,
                *entry,
                0,
                &mut kept,
                &mut bound,
                &mut |exec, bound| {
                    for conjunct in &source.filter {
                        if (conjunct.uses != 0 || conjunct.volatile)
                            && !exec.holds(conjunct, bound, around)?
                        {
                            return Ok(Flow::More);
                        }
                    }
                    sink(exec, bound)
                },
            ),
            Some(from) => {
                let stages = self.stages(source, from);
                self.stage(input, &stages, 0, &mut kept, &mut bound, sink)
            }
        }
    }

    fn stage(
        &mut self,
        input: Input<'_>,
        stages: &[Stage<'_>],
        have: u64,
        kept: &mut Kept,
        bound: &mut [Bound],
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let Some((stage, rest)) = stages.split_first() else {
            return sink(self, bound);
        };
        let have_then = have | entries(stage.node);
        // The inner stages share `kept`, which the node below must not borrow meanwhile.
        let mut inner: Kept = std::mem::take(kept);
        let mut own: Kept = vec![None; input.source.range.len()];
        std::mem::swap(&mut own, &mut inner);
        let (own, inner) = (&mut own, &mut inner);
        let result = self.node(input, stage.node, have, own, bound, &mut |exec, bound| {
            for conjunct in &stage.checks {
                if !exec.holds(conjunct, bound, input.around)? {
                    return Ok(Flow::More);
                }
            }
            exec.stage(input, rest, have_then, inner, bound, sink)
        });
        *kept = std::mem::take(own);
        result
    }

    /// The rows of one part of the join tree. `have` is the set of entries bound before.
    fn node(
        &mut self,
        input: Input<'_>,
        node: &From,
        have: u64,
        kept: &mut Kept,
        bound: &mut [Bound],
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        match node {
            From::Entry(entry) => self.entry(input, *entry, have, kept, bound, sink),
            From::Join {
                kind: Join::Cross | Join::Inner,
                left,
                right,
                on,
            } => self.nest(input, left, right, on, have, kept, bound, sink),
            From::Join {
                kind: Join::Left,
                left,
                right,
                on,
            } => self.outer(input, left, right, on, false, have, kept, bound, sink),
            From::Join {
                kind: Join::Right,
                left,
                right,
                on,
            } => self.outer(input, right, left, on, false, have, kept, bound, sink),
            From::Join {
                kind: Join::Full,
                left,
                right,
                on,
            } => self.outer(input, left, right, on, true, have, kept, bound, sink),
        }
    }

    /// An inner join.
    #[allow(clippy::too_many_arguments)]
    fn nest(
        &mut self,
        input: Input<'_>,
        left: &From,
        right: &From,
        on: &[Conjunct],
        have: u64,
        kept: &mut Kept,
        bound: &mut [Bound],
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let have_left = have | entries(left);
        let mut inner: Kept = vec![None; kept.len()];
        self.node(input, left, have, kept, bound, &mut |exec, bound| {
            exec.node(
                input,
                right,
                have_left,
                &mut inner,
                bound,
                &mut |exec, bound| {
                    if exec.all_hold(on, bound, input.around)? {
                        sink(exec, bound)
                    } else {
                        Ok(Flow::More)
                    }
                },
            )
        })
    }

    /// A left join, and the left half of a full one.
    #[allow(clippy::too_many_arguments)]
    fn outer(
        &mut self,
        input: Input<'_>,
        left: &From,
        right: &From,
        on: &[Conjunct],
        full: bool,
        have: u64,
        kept: &mut Kept,
        bound: &mut [Bound],
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let have_left = have | entries(left);
        let mut inner: Kept = vec![None; kept.len()];
        // Which rows of the right side found a partner, in the order of its scan.
        let mut partnered: Vec<bool> = Vec::new();
        let flow = self.node(input, left, have, kept, bound, &mut |exec, bound| {
            let mut matched = false;
            let mut nth = 0;
            let flow = exec.node(
                input,
                right,
                have_left,
                &mut inner,
                bound,
                &mut |exec, bound| {
                    if full && partnered.len() <= nth {
                        partnered.push(false);
                    }
                    nth += 1;
                    if !exec.all_hold(on, bound, input.around)? {
                        return Ok(Flow::More);
                    }
                    matched = true;
                    if full {
                        partnered[nth - 1] = true;
                    }
                    sink(exec, bound)
                },
            )?;
            if flow == Flow::Enough || matched {
                return Ok(flow);
            }
            clear(right, bound);
            sink(exec, bound)
        })?;
        if flow == Flow::Enough || !full {
            return Ok(flow);
        }
        clear(left, bound);
        let mut nth = 0;
        self.node(input, right, have, &mut inner, bound, &mut |exec, bound| {
            nth += 1;
            if partnered.get(nth - 1).copied().unwrap_or(false) {
                return Ok(Flow::More);
            }
            sink(exec, bound)
        })
    }

    /// The rows of one entry of the range table.
    fn entry(
        &mut self,
        input: Input<'_>,
        index: usize,
        have: u64,
        kept: &mut Kept,
        bound: &mut [Bound],
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let entry = &input.source.range[index];
        let flow = if let Some(fixed) = input.fixed {
            if fixed[index].row.is_none() {
                return Ok(Flow::More);
            }
            bound[index] = fixed[index].clone();
            sink(self, bound)?
        } else if let RangeKind::Table(table) = &entry.kind {
            if self.store.is_traced() {
                self.trace_scan(input.source, index, have, bound, input.around);
            }
            if let Some(members) = &entry.members {
                let mut flow = Flow::More;
                for member in members.iter().filter(|m| m.stored) {
                    let keys = usable_keys(&member.access, &member.paths, have)
                        .filter(|_| !member.table.is_known_small());
                    let map = member.columns.as_deref();
                    flow = self.table_rows(
                        &member.table,
                        map,
                        keys,
                        input.around,
                        bound,
                        index,
                        sink,
                    )?;
                    if flow == Flow::Enough {
                        break;
                    }
                }
                bound[index] = Bound::default();
                return Ok(flow);
            }
            if let (Some(chosen), Some(ways)) = (input.chosen, &input.source.ways) {
                let way = (&**ways, chosen.pathway);
                let flow = self.way_rows(table, way, input.around, bound, index, sink)?;
                bound[index] = Bound::default();
                return Ok(flow);
            }
            let keys =
                usable_keys(&entry.access, &entry.paths, have).filter(|_| !table.is_known_small());
            let looked_up = input.source.rerun.is_some()
                && matches!(self.store.membership(input.source), Membership::LookedUp);
            if ((keys.is_none() && !table.is_known_small()) || looked_up)
                && let Some(versions) = self.small_list(input, index, table)?
            {
                self.visible_rows(&versions, None, bound, index, sink)?
            } else {
                self.table_rows(table, None, keys, input.around, bound, index, sink)?
            }
        } else if have != 0 && !entry.lateral && !matches!(entry.kind, RangeKind::Cte(_)) {
            // The inner side of a join: computed once.
            let rows = match &kept[index] {
                Some(rows) => Rc::clone(rows),
                None => {
                    let mut rows = Vec::new();
                    self.computed_rows(entry, input.around, &[], &mut |_, row| {
                        rows.push(row);
                        Ok(Flow::More)
                    })?;
                    let rows: Rc<[Row]> = rows.into();
                    kept[index] = Some(Rc::clone(&rows));
                    rows
                }
            };
            let mut flow = Flow::More;
            for row in rows.iter() {
                bound[index] = Bound::computed(Row::clone(row));
                flow = sink(self, bound)?;
                if flow == Flow::Enough {
                    break;
                }
            }
            flow
        } else {
            let before = if entry.lateral || matches!(entry.kind, RangeKind::Subquery(_)) {
                bound.to_vec()
            } else {
                Vec::new()
            };
            self.computed_rows(entry, input.around, &before, &mut |exec, row| {
                bound[index] = Bound::computed(row);
                sink(exec, bound)
            })?
        };
        bound[index] = Bound::default();
        Ok(flow)
    }

    /// The rows of an entry that is not a stored table. `before` are the entries bound so far.
    fn computed_rows(
        &mut self,
        entry: &RangeEntry,
        around: Around<'_>,
        before: &[Bound],
        sink: &mut dyn FnMut(&mut Exec<'_>, Row) -> Result<Flow, Stop>,
    ) -> Result<Flow, Stop> {
        match &entry.kind {
            RangeKind::Table(_) => unreachable!("stored tables are scanned elsewhere"),
            RangeKind::Virtual(view) => {
                for row in self.view_rows(view)? {
                    if sink(self, row)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                Ok(Flow::More)
            }
            RangeKind::Sequence(sequence) => {
                let row = self.sequence_row(sequence)?;
                sink(self, row)
            }
            RangeKind::Subquery(query) => around.with(before, |scope| {
                self.query(query, Around::inside(scope), sink)
            }),
            RangeKind::Function {
                function,
                args,
                ordinality,
            } => {
                let rows = around.with(before, |scope| {
                    self.function_rows(*function, args, *ordinality, scope)
                })?;
                for row in rows {
                    if sink(self, row)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                Ok(Flow::More)
            }
            RangeKind::Routine {
                routine,
                types,
                args,
                ordinality,
            } => {
                let rows = around.with(before, |scope| {
                    self.routine_rows(routine, types, args, *ordinality, scope)
                })?;
                for row in rows {
                    if sink(self, row)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                Ok(Flow::More)
            }
            RangeKind::Cte(id) => self.cte_rows(*id, around, sink),
        }
    }

    /// Whether every condition is true.
    pub(super) fn all_hold(
        &mut self,
        conjuncts: &[Conjunct],
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<bool, Stop> {
        for conjunct in conjuncts {
            if !self.holds(conjunct, bound, around)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    pub(super) fn holds(
        &mut self,
        conjunct: &Conjunct,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<bool, Stop> {
        self.bind_addresses(bound);
        around.with(bound, |scope: &Scope<'_>| {
            Ok(expr::test(&conjunct.expr, scope, self)? == Some(true))
        })
    }
}

/// The entries below a node, as a bit set.
fn entries(node: &From) -> u64 {
    match node {
        From::Entry(entry) => 1 << entry,
        From::Join { left, right, .. } => entries(left) | entries(right),
    }
}

/// Unbinds the entries below a node: an outer join leaves them out.
fn clear(node: &From, bound: &mut [Bound]) {
    match node {
        From::Entry(entry) => bound[*entry] = Bound::default(),
        From::Join { left, right, .. } => {
            clear(left, bound);
            clear(right, bound);
        }
    }
}

/// The index conditions of an entry that can be computed when the entries in `have` are bound.
fn usable_keys<'a>(
    access: &'a Access,
    paths: &'a [Access],
    have: u64,
) -> Option<(usize, &'a [KeyCondition])> {
    let paths = std::iter::once(access).chain(paths);
    paths.into_iter().find_map(|path| {
        let Access::Index { index, keys } = path else {
            return None;
        };
        let usable = keys
            .iter()
            .position(|k| k.uses & !have != 0)
            .unwrap_or(keys.len());
        (usable > 0).then_some((*index, &keys[..usable]))
    })
}

/// The entries that `LATERAL` needs before a node.
fn needs(source: &Source, node: &From) -> u64 {
    match node {
        From::Entry(index) if source.range[*index].lateral => (1u64 << index) - 1,
        _ => 0,
    }
}

/// Up to how many rows a nested loop with index lookups beats a hash join, on tables that were never
/// analysed.
const FEW: usize = 5;

fn flatten<'a>(node: &'a From, nodes: &mut Vec<&'a From>, pool: &mut Vec<&'a Conjunct>) {
    match node {
        From::Join {
            kind: Join::Cross | Join::Inner,
            left,
            right,
            on,
        } => {
            flatten(left, nodes, pool);
            flatten(right, nodes, pool);
            pool.extend(on);
        }
        other => nodes.push(other),
    }
}

impl Exec<'_> {
    /// Orders the inner joins of a source, and gives every condition to the first stage that binds
    /// all that it reads.
    ///
    /// The order is the one written, except that a table which can be looked up through an index for
    /// each of a few rows comes after what yields those rows.
    fn stages<'a>(&self, source: &'a Source, from: &'a From) -> Vec<Stage<'a>> {
        let mut nodes = Vec::new();
        let mut pool = Vec::new();
        flatten(from, &mut nodes, &mut pool);
        pool.extend(source.filter.iter().filter(|c| c.uses != 0 || c.volatile));
        let few = (0..source.range.len())
            .filter(|i| self.yields_few(&source.range[*i]))
            .fold(0u64, |set, i| set | 1 << i);
        let mut have = 0;
        let mut stages: Vec<Stage<'a>> = Vec::with_capacity(nodes.len());
        while !nodes.is_empty() {
            let ready = |node: &&From| needs(source, node) & !have == 0;
            let next = nodes
                .iter()
                .position(|node| ready(node) && !is_looked_up(source, node, few & !have))
                .or_else(|| nodes.iter().position(ready))
                .unwrap_or(0);
            let node = nodes.remove(next);
            have |= entries(node);
            let last = nodes.is_empty();
            // A volatile condition without rows belongs to the complete row.
            let (checks, rest) = pool.into_iter().partition(|c| {
                if c.uses == 0 {
                    last
                } else {
                    c.uses & !have == 0
                }
            });
            pool = rest;
            stages.push(Stage { node, checks });
        }
        stages
    }

    /// Whether an entry yields a few rows at most, by what can be said without statistics.
    fn yields_few(&self, entry: &RangeEntry) -> bool {
        match &entry.kind {
            // Known to be small.
            RangeKind::Table(table) if table.is_known_small() => true,
            RangeKind::Table(table) => match &entry.access {
                Access::Index { index, keys } => {
                    let index = &table.indexes[*index];
                    index.unique && is_whole(index.keys.len(), keys)
                }
                Access::Sequential => false,
            },
            RangeKind::Subquery(query) => is_few(query),
            RangeKind::Cte(id) => match self.info.ctes.get(id.0 as usize).map(|c| &c.body) {
                Some(CteBody::Query(query)) => is_few(query),
                _ => false,
            },
            RangeKind::Function { function, .. } => *function == SetFunction::Scalar,
            RangeKind::Virtual(_) | RangeKind::Sequence(_) | RangeKind::Routine { .. } => false,
        }
    }

    /// `column IN (SELECT .. LIMIT n)` with a small n and an index on the column: the rows in the
    /// order of the index, each value looked up once. The sub-select runs before any row is read.
    fn small_list(
        &mut self,
        input: Input<'_>,
        entry: usize,
        table: &Table,
    ) -> Result<Option<Vec<VersionId>>, Stop> {
        for conjunct in &input.source.filter {
            let Expr::AnyOfRows {
                op: Compare::Eq,
                all: false,
                left,
                plan,
            } = &conjunct.expr
            else {
                continue;
            };
            let [
                (
                    Expr::Column {
                        level: 0,
                        entry: e,
                        column,
                    },
                    _,
                ),
            ] = &left[..]
            else {
                continue;
            };
            if *e as usize != entry || !plan.once || !is_few(&plan.query) {
                continue;
            }
            let column = *column as usize;
            let index = table.indexes.iter().find(|i| {
                i.predicate.is_none()
                    && i.unique
                    && i.keys.len() == 1
                    && i.keys[0].column == Some(column)
            });
            let Some(index) = index else { continue };
            let scope = input.around.scope();
            let rows = self.rows(plan, &scope)?;
            let mut values: Vec<Value> = rows
                .iter()
                .map(|row| row[0].clone())
                .filter(|v| !v.is_null())
                .collect();
            values.sort_by(compare_values);
            values.dedup_by(|a, b| compare_values(a, b).is_eq());
            let mut versions = Vec::new();
            for value in values {
                let found = self
                    .store
                    .index_lookup(index.id, std::slice::from_ref(&value), false);
                self.note_lookup(index.id, &[value], &found)?;
                versions.extend(found);
            }
            return Ok(Some(versions));
        }
        Ok(None)
    }
}

/// Whether a table without other access is looked up for the rows of entries that yield few.
fn is_looked_up(source: &Source, node: &From, few: u64) -> bool {
    let From::Entry(index) = node else {
        return false;
    };
    let entry = &source.range[*index];
    let is_counted = matches!(&entry.kind, RangeKind::Table(table) if table.is_known_small());
    (entry.access == Access::Sequential || is_counted)
        && entry.paths.iter().any(|path| match path {
            Access::Index { keys, .. } => {
                let needed = keys.first().map_or(0, |k| k.uses);
                needed != 0 && needed & !few == 0
            }
            Access::Sequential => false,
        })
}

/// Whether every key of an index has an equality.
pub(super) fn is_whole(keys: usize, conditions: &[KeyCondition]) -> bool {
    (0..keys).all(|i| conditions.iter().any(|c| c.key == i && c.op == KeyOp::Eq))
}

/// Whether a query yields a few rows at most by its text.
fn is_few(query: &Query) -> bool {
    if let Body::Values(rows) = &query.body
        && rows.len() <= FEW
    {
        return true;
    }
    matches!(&query.limit, Some(Expr::Const(Value::Int(n))) if *n <= FEW as i64)
}
