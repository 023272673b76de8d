//! Which way to the rows of one table is taken, and how an index is walked in its order.

use std::cmp::Ordering;
use std::sync::Arc;

use rowlock_model::Value;

use super::bound::{Around, Bound};
use super::order::position;
use super::source::Sink;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{RelId, Searched, Store, VersionId, compare_values};
use crate::plan::catalog::{Catalog as _, EnumType, Index, IndexMethod, Table};
use crate::plan::cost::{Chosen, Pathway, Sizes, Wanted, Ways};
use crate::plan::expr::compare::compare;
use crate::plan::expr::{Compare, Expr};
use crate::plan::query::{From, KeyCondition, KeyOp, RangeKind, Source};
use crate::plan::types::Type;

/// What it costs to leave each value of a sub-select in once.
const UNIQUE: f64 = 0.02;

/// What is done with a sub-select that locks rows.
pub(super) enum Membership {
    /// It is run for each row that is found in this way.
    RunAgain(Chosen),
    /// It is run once, and its values are looked up.
    LookedUp,
    /// It is run once, and its values are joined.
    Other,
}

/// The table that is read alone, with its place in the range table.
fn only_table(source: &Source) -> Option<(&Table, usize)> {
    let Some(From::Entry(entry)) = source.from else {
        return None;
    };
    match &source.range[entry].kind {
        RangeKind::Table(table) => Some((table, entry)),
        _ => None,
    }
}

impl Store {
    /// How many pages a table has.
    pub(super) fn pages_of(&self, rel: RelId) -> usize {
        let filled = &self.heap(rel).filled;
        match filled.items {
            0 => 0,
            _ => filled.page as usize + 1,
        }
    }

    /// The way to the rows of a table that is read alone, in an order of so many keys if that is wanted.
    pub(in crate::engine::postgres) fn way_chosen(
        &self,
        source: &Source,
        wanted: &Wanted,
        order: usize,
    ) -> Option<Chosen> {
        let ways = source.ways.as_ref()?;
        let sizes = self.sizes(only_table(source)?.0, ways);
        Some(ways.choose(&sizes, wanted, order))
    }

    fn sizes(&self, table: &Table, ways: &Ways) -> Sizes {
        let index_pages = |at: usize| self.index_pages_of(table.indexes[at].id);
        ways.sizes(table, self.pages_of(table.id), index_pages)
    }

    /// What is done with a sub-select that locks rows and whose values a column must be among.
    ///
    /// It is run again for each row where one row is expected to pass the other conditions, and finding it
    /// costs no more than looking the values up. In a unique column a lookup counts twice: the planner
    /// reckons with values that are not there.
    pub(super) fn membership(&self, source: &Source) -> Membership {
        let (Some(rerun), Some((table, _))) = (&source.rerun, only_table(source)) else {
            return Membership::Other;
        };
        let wanted = Wanted::default();
        let outer = rerun
            .outer
            .reckon(&self.sizes(table, &rerun.outer), &wanted, 0);
        let lookup = &rerun.lookup;
        let found = lookup.reckon(&self.sizes(table, lookup), &wanted, 0);
        let looked_up = match rerun.unique {
            true => 2.0 * found.total - found.startup,
            false => found.total,
        } + UNIQUE;
        let is_looked_up = found.chosen.pathway != Pathway::Sequential;
        if outer.rows <= 1.0 && (!is_looked_up || outer.total <= looked_up) {
            return Membership::RunAgain(outer.chosen);
        }
        match is_looked_up && looked_up < outer.total {
            true => Membership::LookedUp,
            false => Membership::Other,
        }
    }

    /// How many pages an index has: the first one, leaves, and what is above several leaves.
    fn index_pages_of(&self, rel: RelId) -> usize {
        let index = self.index(rel);
        if !index.rooted {
            return 1;
        }
        match self.leaf_of(rel, index.entries.len()) as usize + 1 {
            1 => 2,
            leaves => leaves + 2,
        }
    }
}

impl Exec<'_> {
    /// Binds `entry` to every visible row of a table by a way that was chosen.
    pub(super) fn way_rows(
        &mut self,
        table: &Table,
        (ways, pathway): (&Ways, Pathway),
        around: Around<'_>,
        bound: &mut [Bound],
        entry: usize,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let keys = match pathway {
            Pathway::Sequential => None,
            Pathway::Bitmap { way } => Some((ways.list[way].index, &ways.list[way].keys[..])),
            Pathway::Walk { way, backward } => {
                let way = &ways.list[way];
                let index = &table.indexes[way.index];
                if index.method == IndexMethod::BTree {
                    let keys = &way.keys;
                    return self.walk(index, keys, backward, around, bound, entry, sink);
                }
                Some((way.index, &way.keys[..]))
            }
        };
        self.table_rows(table, None, keys, around, bound, entry, sink)
    }

    /// Gives the rows of a table that passes a sub-select which is run again for each of them; `None` if
    /// it is not.
    pub(super) fn rerun_rows(
        &mut self,
        source: &Source,
        around: Around<'_>,
        sink: Sink<'_>,
    ) -> Result<Option<Flow>, Stop> {
        let (Membership::RunAgain(chosen), Some(rerun)) =
            (self.store.membership(source), &source.rerun)
        else {
            return Ok(None);
        };
        let Some((table, entry)) = only_table(source) else {
            return Ok(None);
        };
        let way = (&rerun.outer, chosen.pathway);
        let mut bound = vec![Bound::default(); source.range.len()];
        let flow = self.way_rows(table, way, around, &mut bound, entry, &mut |exec, bound| {
            for (at, conjunct) in source.filter.iter().enumerate() {
                if at != rerun.conjunct && !exec.holds(conjunct, bound, around)? {
                    return Ok(Flow::More);
                }
            }
            let conjunct = &source.filter[rerun.conjunct].expr;
            if !exec.is_among_rerun(conjunct, bound, around)? {
                return Ok(Flow::More);
            }
            sink(exec, bound)
        })?;
        Ok(Some(flow))
    }

    /// Runs the sub-select of `value IN (SELECT ..)` until it gives the value.
    fn is_among_rerun(
        &mut self,
        condition: &Expr,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<bool, Stop> {
        let Expr::AnyOfRows { left, plan, .. } = condition else {
            unreachable!("a rerun has a sub-select")
        };
        let (value, by) = &left[0];
        let value = self.evaluate(value, bound, around)?;
        let mut found = false;
        around.with(bound, |scope| {
            self.query(&plan.query, Around::inside(scope), &mut |_, row| {
                found = compare(Compare::Eq, &value, &row[0], by) == Some(true);
                Ok(if found { Flow::Enough } else { Flow::More })
            })
        })?;
        Ok(found)
    }

    /// Walks through an index: each row is fetched when the one before was done with. SERIALIZABLE:
    /// pages of the index and rows are noted as they are come to.
    #[allow(clippy::too_many_arguments)]
    fn walk(
        &mut self,
        index: &Index,
        keys: &[KeyCondition],
        backward: bool,
        around: Around<'_>,
        bound: &mut [Bound],
        entry: usize,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        let mut operands = Vec::with_capacity(keys.len());
        for condition in keys {
            let operand = match condition.op {
                KeyOp::IsNull => Value::Null,
                _ => self.evaluate(&condition.operand, bound, around)?,
            };
            if operand.is_null() && condition.op != KeyOp::IsNull {
                // Nothing can match: the server does not even look.
                return Ok(Flow::More);
            }
            operands.push(operand);
        }
        let found = self.entries_walked(index, keys, &operands, backward);
        let serializable = self.is_serializable() && !self.unnoted;
        if !serializable {
            let versions: Vec<VersionId> = found.iter().map(|(_, version)| *version).collect();
            return self.visible_rows(&versions, None, bound, entry, sink);
        }
        let start = found.first().map_or_else(
            || self.rank_searched(index, keys, &operands),
            |(rank, _)| *rank,
        );
        let mut leaf = self.store.leaf_of(index.id, start);
        self.note_leaf(index.id, start)?;
        // Rows that are not seen are noted with the next one that is: there are as many notes as rows,
        // whoever adds entries meanwhile.
        let mut passed = Vec::new();
        for (rank, version) in found {
            let here = self.store.leaf_of(index.id, rank);
            if here != leaf {
                leaf = here;
                self.note_leaf(index.id, rank)?;
            }
            passed.push(version);
            if !self.store.visible(self.session, &self.snapshot, version) {
                continue;
            }
            let noted = std::mem::take(&mut passed);
            self.store
                .ssi_fetch(&mut self.run, &self.snapshot, &noted)?;
            bound[entry] = self.bind(version);
            if sink(self, bound)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        self.store
            .ssi_fetch(&mut self.run, &self.snapshot, &passed)?;
        Ok(Flow::More)
    }

    fn note_leaf(&mut self, index: RelId, rank: usize) -> Result<(), Stop> {
        let searched = Searched::Ranks(rank..rank);
        Ok(self.store.ssi_search(&mut self.run, index, &searched)?)
    }

    /// The entries of an index that fulfil the conditions, with their ranks, in the order of the walk:
    /// that of the keys, and of equal keys that of the places in the table.
    fn entries_walked(
        &mut self,
        index: &Index,
        keys: &[KeyCondition],
        operands: &[Value],
        backward: bool,
    ) -> Vec<(usize, VersionId)> {
        let labels: Vec<Option<Arc<EnumType>>> = index
            .keys
            .iter()
            .map(|key| match key.ty {
                Type::Enum(id) => self.schema().enum_by_id(id),
                _ => None,
            })
            .collect();
        let whole = index.unique
            && keys.len() == index.keys.len()
            && keys
                .iter()
                .enumerate()
                .all(|(i, k)| k.key == i && k.op == KeyOp::Eq);
        let mut found: Vec<(usize, VersionId)> = if whole {
            let from = self.store.span(index.id, operands).start;
            let versions = self.store.index_lookup(index.id, operands, false);
            versions
                .into_iter()
                .enumerate()
                .map(|(i, v)| (from + i, v))
                .collect()
        } else {
            let entries = self.store.index_scan(index.id, false);
            let entries = entries.iter().enumerate();
            let matching = entries.filter(|(_, entry)| {
                let mut conditions = keys.iter().zip(operands);
                conditions.all(|(condition, operand)| {
                    let key = &entry.key[condition.key];
                    let labels = labels[condition.key].as_deref();
                    key_matches(key, condition.op, operand, labels)
                })
            });
            matching
                .map(|(rank, entry)| (rank, entry.version))
                .collect()
        };
        let store = &*self.store;
        let walked = store.index(index.id);
        if labels.iter().any(Option::is_some) {
            // Keys are stored by their labels; their order is that of the enumeration.
            let rank = |at: usize| {
                let keys = walked.entries[at].key.iter().zip(&labels).zip(&index.keys);
                keys.map(|((key, labels), of)| {
                    let place = match labels {
                        Some(labels) => position(labels, key),
                        None => None,
                    };
                    (place, key.clone(), of.descending, of.nulls_first)
                })
                .collect::<Vec<_>>()
            };
            found.sort_by(|a, b| compare_ranked(&rank(a.0), &rank(b.0)));
        }
        let mut from = 0;
        while from < found.len() {
            let key = |at: usize| &walked.entries[found[at].0].key;
            let equal =
                (from..found.len()).take_while(|at| walked.compare(key(*at), key(from)).is_eq());
            let to = from + equal.count();
            found[from..to].sort_by_key(|(_, v)| {
                let version = store.version(*v);
                (version.root, version.position)
            });
            from = to;
        }
        if backward {
            found.reverse();
        }
        found
    }

    /// Where a search that finds nothing ends up.
    fn rank_searched(&self, index: &Index, keys: &[KeyCondition], operands: &[Value]) -> usize {
        let leading = keys.iter().zip(operands).enumerate();
        let prefix: Vec<Value> = leading
            .take_while(|(i, (k, _))| k.key == *i && k.op == KeyOp::Eq)
            .map(|(_, (_, operand))| operand.clone())
            .collect();
        self.store.span(index.id, &prefix).start
    }
}

/// A key with its place in its enumeration, and how the index orders it.
type Ranked = (Option<usize>, Value, bool, bool);

fn compare_ranked(a: &[Ranked], b: &[Ranked]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let nulls = match a.3 {
            true => b.1.is_null().cmp(&a.1.is_null()),
            false => a.1.is_null().cmp(&b.1.is_null()),
        };
        let values = match (a.0, b.0) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare_values(&a.1, &b.1),
        };
        let values = if a.2 { values.reverse() } else { values };
        let either_null = a.1.is_null() || b.1.is_null();
        let ordering = if either_null { nulls } else { values };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Whether a key fulfils a condition. `labels`: of an enumeration.
fn key_matches(key: &Value, op: KeyOp, operand: &Value, labels: Option<&EnumType>) -> bool {
    let compare = || match labels {
        Some(labels) => position(labels, key).cmp(&position(labels, operand)),
        None => compare_values(key, operand),
    };
    let holds = |wanted: fn(Ordering) -> bool| !key.is_null() && wanted(compare());
    match op {
        KeyOp::Eq => holds(Ordering::is_eq),
        KeyOp::Lt => holds(Ordering::is_lt),
        KeyOp::Le => holds(Ordering::is_le),
        KeyOp::Gt => holds(Ordering::is_gt),
        KeyOp::Ge => holds(Ordering::is_ge),
        KeyOp::IsNull => key.is_null(),
        KeyOp::Any => match operand {
            Value::Array(items) => items
                .iter()
                .any(|item| !item.is_null() && !key.is_null() && compare_values(key, item).is_eq()),
            _ => false,
        },
        KeyOp::Contains => false,
    }
}
