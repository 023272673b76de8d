//! Nested loops over the entries of a source.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{Row, Value};

use super::Executor;
use crate::loose::catalog::Table;
use crate::loose::eval::{Frame, Tuple, eval, test};
use crate::loose::expr::Expr;
use crate::loose::query::{Cte, From, Join, RangeKind, SortKey, Source, Wanted};
use crate::loose::storage::{Choice, Purpose, Scan, SourcePlan, Stop, Storage, StoredRow};
use crate::trace::Condition;

/// Arguments that a traced condition keeps; one with more is not evaluated.
const PARAMS_MAX: usize = 64;

/// The current row of every entry.
#[derive(Clone, Debug)]
pub(super) struct Current<R> {
    /// As expressions see them.
    pub(super) tuples: Vec<Option<Tuple>>,
    /// As the engine knows them; only of stored tables.
    pub(super) stored: Vec<Option<StoredRow<R>>>,
    /// Of each outer join: whether the present outer row has a partner.
    found: Vec<bool>,
}

/// What is asked of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'p> {
    pub(super) source: &'p Source,
    pub(super) purposes: &'p [Purpose],
    pub(super) order: &'p [SortKey],
    pub(super) limit: Option<u64>,
    pub(super) with: &'p [Cte],
}

/// One step of the loops.
#[derive(Debug)]
enum Step<'p> {
    /// Conditions without rows, before anything is read.
    Filter(Vec<&'p Expr>),
    /// For each row of the entry that passes.
    Scan(usize, Vec<&'p Expr>),
    /// The inner side of an outer join begins; where it ends, and its entries.
    OuterBegin(usize, usize, u64),
    /// It ends: its number, and conditions of `WHERE` on it.
    OuterEnd(usize, Vec<&'p Expr>),
}

/// What is done with each joined row; `false` stops.
pub(super) type Sink<'s, 'e, S> =
    dyn FnMut(&mut Executor<'e, S>, &mut Current<<S as Storage>::RowId>) -> Result<bool, Stop> + 's;

impl<'e, S: Storage> Executor<'e, S> {
    /// Asks the engine how a source is read.
    pub(super) fn choose(
        &mut self,
        ask: &Ask<'_>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Choice, Stop> {
        let mut constants = Vec::new();
        let frame = Frame::empty(outer);
        for entry in &ask.source.range {
            let mut values = Vec::new();
            for condition in &entry.conditions {
                values.push(match condition.constant {
                    true => Some(self.values(&condition.operands, &frame)?),
                    false => None,
                });
            }
            constants.push(values);
        }
        self.storage.choose(&SourcePlan {
            source: ask.source,
            purposes: ask.purposes,
            constants: &constants,
            order: ask.order,
            limit: ask.limit,
            around: self.around,
        })
    }

    pub(super) fn values(&mut self, exprs: &[Expr], frame: &Frame<'_>) -> Result<Vec<Value>, Stop> {
        exprs.iter().map(|expr| eval(expr, frame, self)).collect()
    }

    /// Calls `sink` with every joined row that passes the conditions, until it says to stop.
    pub(super) fn join(
        &mut self,
        ask: &Ask<'_>,
        choice: &Choice,
        outer: Option<&Frame<'_>>,
        sink: &mut Sink<'_, 'e, S>,
    ) -> Result<(), Stop> {
        if choice.impossible {
            return Ok(());
        }
        let count = ask.source.range.len();
        let mut steps = vec![Step::Filter(Vec::new())];
        let mut nests = 0;
        if let Some(from) = &ask.source.from {
            let mut conjuncts = Vec::new();
            plan_steps(from, choice, &mut steps, &mut conjuncts, &mut nests);
            for (expr, uses) in conjuncts {
                attach(&mut steps, 0, expr, uses);
            }
        }
        for conjunct in &ask.source.filter {
            attach(&mut steps, 0, &conjunct.expr, conjunct.uses);
        }
        let mut current = Current {
            tuples: vec![None; count],
            stored: (0..count).map(|_| None).collect(),
            found: vec![false; nests],
        };
        let loops = Loops {
            ask,
            choice,
            outer,
            steps: &steps,
        };
        self.step(&loops, 0, &mut current, sink).map(|_| ())
    }

    fn step(
        &mut self,
        loops: &Loops<'_>,
        at: usize,
        current: &mut Current<S::RowId>,
        sink: &mut Sink<'_, 'e, S>,
    ) -> Result<bool, Stop> {
        let Some(step) = loops.steps.get(at) else {
            return sink(self, current);
        };
        match step {
            Step::Filter(conditions) => match self.pass(conditions, loops, current)? {
                true => self.step(loops, at + 1, current, sink),
                false => Ok(true),
            },
            Step::Scan(entry, conditions) => {
                self.scan(loops, at, *entry, conditions, current, sink)
            }
            Step::OuterBegin(nest, end, entries) => {
                current.found[*nest] = false;
                if !self.step(loops, at + 1, current, sink)? {
                    return Ok(false);
                }
                if current.found[*nest] {
                    return Ok(true);
                }
                for entry in 0..current.tuples.len() {
                    if entries & (1 << entry) != 0 {
                        current.tuples[entry] = None;
                        current.stored[entry] = None;
                    }
                }
                self.step(loops, *end, current, sink)
            }
            Step::OuterEnd(nest, conditions) => {
                current.found[*nest] = true;
                match self.pass(conditions, loops, current)? {
                    true => self.step(loops, at + 1, current, sink),
                    false => Ok(true),
                }
            }
        }
    }

    fn pass(
        &mut self,
        conditions: &[&Expr],
        loops: &Loops<'_>,
        current: &Current<S::RowId>,
    ) -> Result<bool, Stop> {
        for condition in conditions {
            let frame = loops.frame(current);
            if !test(condition, &frame, self)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn scan(
        &mut self,
        loops: &Loops<'_>,
        at: usize,
        number: usize,
        conditions: &[&Expr],
        current: &mut Current<S::RowId>,
        sink: &mut Sink<'_, 'e, S>,
    ) -> Result<bool, Stop> {
        let entry = &loops.ask.source.range[number];
        let RangeKind::Table(table) = &entry.kind else {
            let rows = self.computed_rows(loops, number, current)?;
            for row in rows.iter() {
                current.tuples[number] = Some(Tuple {
                    values: Arc::clone(row),
                    rowid: 0,
                });
                if self.pass(conditions, loops, current)?
                    && !self.step(loops, at + 1, current, sink)?
                {
                    return Ok(false);
                }
            }
            current.tuples[number] = None;
            return Ok(true);
        };
        let access = &loops.choice.access[number];
        let mut bounds = Vec::new();
        for condition in &access.conditions {
            let condition = &entry.conditions[*condition];
            let frame = loops.frame(current);
            bounds.push(match &condition.subselect {
                Some(plan) => {
                    debug_assert_eq!(plan.wanted, Wanted::Rows);
                    let rows = crate::loose::eval::Env::subquery(self, plan, &frame)?;
                    rows.iter().map(|row| row[0].clone()).collect()
                }
                None => self.values(&condition.operands, &frame)?,
            });
        }
        let mut cursor = self.storage.open(&Scan {
            entry,
            number,
            table,
            access,
            bounds,
            purpose: loops
                .ask
                .purposes
                .get(number)
                .copied()
                .unwrap_or(Purpose::Read),
            lock: entry.lock,
            around: self.around,
        })?;
        let traced = self.storage.is_traced();
        if traced {
            let condition = self.condition(table, number, conditions, loops, current);
            self.storage.trace_scan(&cursor, table, condition);
        }
        while let Some(candidate) = self.storage.next(&mut cursor)? {
            place(current, number, candidate.row);
            if !self.pass(conditions, loops, current)? {
                self.storage.reject(&mut cursor)?;
                continue;
            }
            if candidate.tentative {
                let Some(row) = self.storage.confirm(&mut cursor)? else {
                    continue;
                };
                place(current, number, row);
                if !self.pass(conditions, loops, current)? {
                    self.storage.reject(&mut cursor)?;
                    continue;
                }
            }
            if traced && let Some(row) = &current.tuples[number] {
                self.storage.trace_read(table, &row.values);
            }
            if !self.step(loops, at + 1, current, sink)? {
                return Ok(false);
            }
        }
        current.tuples[number] = None;
        current.stored[number] = None;
        Ok(true)
    }

    /// The conditions on the rows of an entry, with everything else in them bound.
    fn condition(
        &self,
        table: &Arc<Table>,
        number: usize,
        conditions: &[&Expr],
        loops: &Loops<'_>,
        current: &Current<S::RowId>,
    ) -> Rc<Condition> {
        let exprs: Vec<Expr> = conditions.iter().copied().cloned().collect();
        // SQLite has a NULL for every argument that was not given.
        let params = (0..PARAMS_MAX).map_while(|at| self.storage.param(at).ok());
        let params: Vec<Value> = params.collect();
        let tuples = current.tuples.clone();
        // What is bound outside is not kept.
        let inside = loops.outer.is_some();
        let alias = table.rowid_alias;
        let dialect = self.dialect;
        let shown = format!("{:?}", (&exprs, &params, &tuples, inside));
        Condition::new(&shown, move |row| {
            let mut tuples = tuples.clone();
            tuples[number] = Some(Tuple {
                values: Arc::clone(row),
                rowid: alias.and_then(|at| row[at].as_int()).unwrap_or(0),
            });
            let mut still = super::still::Still::new(&params, dialect);
            let frame = Frame::of_rows(&tuples, None);
            for expr in exprs.iter().filter(|_| !inside) {
                if !test(expr, &frame, &mut still).ok()? {
                    return Some(false);
                }
            }
            (!inside).then_some(true)
        })
    }

    /// The rows of an entry that is no stored table.
    fn computed_rows(
        &mut self,
        loops: &Loops<'_>,
        number: usize,
        current: &Current<S::RowId>,
    ) -> Result<Rc<[Row]>, Stop> {
        let frame = loops.frame(current);
        match &loops.ask.source.range[number].kind {
            RangeKind::Cte(id) => self.cte(*id, &frame),
            RangeKind::Virtual(table) => Ok(self.storage.virtual_rows(table)?.into()),
            RangeKind::Subquery(query) => {
                self.around.depth += 1;
                let rows = self.query(query, Some(&frame), None);
                self.around.depth -= 1;
                Ok(rows?.into())
            }
            RangeKind::Table(_) => unreachable!("stored tables are scanned"),
        }
    }
}

/// What the loops are about.
#[derive(Debug)]
struct Loops<'p> {
    ask: &'p Ask<'p>,
    choice: &'p Choice,
    outer: Option<&'p Frame<'p>>,
    steps: &'p [Step<'p>],
}

impl<'p> Loops<'p> {
    fn frame<'f, R>(&'f self, current: &'f Current<R>) -> Frame<'f>
    where
        'p: 'f,
    {
        Frame {
            with: self.ask.with,
            ..Frame::of_rows(&current.tuples, self.outer)
        }
    }
}

/// The tuple of a stored row.
pub(super) fn tuple_of<R>(row: &StoredRow<R>) -> Tuple {
    Tuple {
        values: Arc::clone(&row.values),
        rowid: row.rowid,
    }
}

pub(super) fn place<R>(current: &mut Current<R>, entry: usize, row: StoredRow<R>) {
    current.tuples[entry] = Some(tuple_of(&row));
    current.stored[entry] = Some(row);
}

/// The order of a part of a join: where its first entry stands in the engine's order.
fn rank(from: &From, choice: &Choice) -> usize {
    match from {
        From::Entry(entry) => {
            let place = choice.order.iter().position(|other| other == entry);
            place.unwrap_or(*entry)
        }
        From::Join {
            kind: Join::Left,
            left,
            ..
        } => rank(left, choice),
        From::Join { left, right, .. } => rank(left, choice).min(rank(right, choice)),
    }
}

/// Appends the steps of a join; conditions of inner joins are handed up.
fn plan_steps<'p>(
    from: &'p From,
    choice: &Choice,
    steps: &mut Vec<Step<'p>>,
    conjuncts: &mut Vec<(&'p Expr, u64)>,
    nests: &mut usize,
) {
    match from {
        From::Entry(entry) => steps.push(Step::Scan(*entry, Vec::new())),
        From::Join {
            kind: Join::Left,
            left,
            right,
            on,
        } => {
            plan_steps(left, choice, steps, conjuncts, nests);
            let nest = *nests;
            *nests += 1;
            let begin = steps.len();
            steps.push(Step::OuterBegin(nest, 0, 0));
            let mut inner = Vec::new();
            plan_steps(right, choice, steps, &mut inner, nests);
            inner.extend(on.iter().map(|c| (&c.expr, c.uses)));
            for (expr, uses) in inner {
                attach(steps, begin + 1, expr, uses);
            }
            let end = steps.len();
            steps.push(Step::OuterEnd(nest, Vec::new()));
            let entries = crate::loose::lower::entries_of(right);
            steps[begin] = Step::OuterBegin(nest, end, entries);
        }
        From::Join { .. } => {
            // Flatten inner joins, so that the engine's order holds between all of them.
            let mut parts = Vec::new();
            flatten(from, &mut parts, conjuncts);
            parts.sort_by_key(|part| rank(part, choice));
            for part in parts {
                plan_steps(part, choice, steps, conjuncts, nests);
            }
        }
    }
}

fn flatten<'p>(from: &'p From, parts: &mut Vec<&'p From>, conjuncts: &mut Vec<(&'p Expr, u64)>) {
    match from {
        From::Join {
            kind: Join::Inner | Join::Straight,
            left,
            right,
            on,
        } => {
            flatten(left, parts, conjuncts);
            flatten(right, parts, conjuncts);
            conjuncts.extend(on.iter().map(|c| (&c.expr, c.uses)));
        }
        other => parts.push(other),
    }
}

/// The entries that are bound after a step.
fn bound_by(step: &Step<'_>) -> u64 {
    match step {
        Step::Scan(entry, _) => 1 << entry,
        Step::Filter(_) | Step::OuterBegin(..) | Step::OuterEnd(..) => 0,
    }
}

/// Puts a condition at the first step from `begin` on, outside of outer joins that begin there,
/// where everything that it reads is bound.
fn attach<'p>(steps: &mut [Step<'p>], begin: usize, expr: &'p Expr, uses: u64) {
    let mut bound: u64 = steps[..begin].iter().map(bound_by).fold(0, |a, b| a | b);
    let mut depth = 0;
    for step in &mut steps[begin..] {
        bound |= bound_by(step);
        match step {
            Step::OuterBegin(..) => depth += 1,
            Step::OuterEnd(..) => depth -= 1,
            Step::Filter(_) | Step::Scan(..) => {}
        }
        if depth > 0 || uses & !bound != 0 {
            continue;
        }
        match step {
            Step::Filter(list) | Step::Scan(_, list) | Step::OuterEnd(_, list) => {
                list.push(expr);
                return;
            }
            Step::OuterBegin(..) => {}
        }
    }
    panic!("a condition reads an entry that is not joined");
}
