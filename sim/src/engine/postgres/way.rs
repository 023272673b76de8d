//! What a statement's plan looks like, for comparison with a server's.

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Value};

use super::Postgres;
use super::statement::Parsed;
use crate::plan::PlanKind;
use crate::plan::cost::{Pathway, Wanted};
use crate::plan::expr::Expr;
use crate::plan::query::{Body, From, Query, RangeKind, Select, Source};
use crate::plan::write::Write;

impl Postgres {
    /// The nodes of a statement's plan as `EXPLAIN (COSTS OFF)` names them, top first; without index-only
    /// scans, which count as index scans. `None` if it does not read one stored table alone.
    ///
    /// # Errors
    /// What the statement is refused with.
    pub fn plan_nodes(
        &mut self,
        session: SessionId,
        sql: &str,
    ) -> Result<Option<Vec<String>>, DbError> {
        let statements = self.script(sql)?;
        let [statement] = &statements[..] else {
            return Ok(None);
        };
        let parsed: &Parsed = statement;
        let (planned, _) = self.planned(session, parsed, &[], &[]);
        Ok(match &planned?.plan.kind {
            PlanKind::Query(query) => self.nodes_of_query(query),
            PlanKind::Write(write) => {
                let (verb, table, source) = match &**write {
                    Write::Update(update) => ("Update", &update.table, &update.source),
                    Write::Delete(delete) => ("Delete", &delete.table, &delete.source),
                    Write::Insert(_) | Write::Merge(_) => return Ok(None),
                };
                let scan = self.nodes_of_scan(source, &Wanted::default(), &[]);
                scan.map(|(nodes, _)| {
                    let mut all = vec![format!("{verb} on {}", table.name)];
                    all.extend(nodes);
                    all
                })
            }
            PlanKind::Ddl(_) | PlanKind::Do(_) => None,
        })
    }

    fn nodes_of_query(&self, query: &Query) -> Option<Vec<String>> {
        let Body::Select(select) = &query.body else {
            return None;
        };
        let Select {
            grouping: None,
            distinct: crate::plan::query::Distinct::No,
            source,
            ..
        } = &**select
        else {
            return None;
        };
        let number = |e: &Option<Expr>| match e {
            Some(Expr::Const(Value::Int(n))) => Some(*n as f64),
            _ => None,
        };
        let wanted = Wanted {
            limit: number(&query.limit),
            offset: number(&query.offset).unwrap_or(0.0),
            part: 0.0,
            locks: !query.locks.is_empty(),
        };
        let mut nodes = Vec::new();
        if query.limit.is_some() || query.offset.is_some() {
            nodes.push("Limit".to_owned());
        }
        if wanted.locks {
            nodes.push("LockRows".to_owned());
        }
        let (scan, given) = self.nodes_of_scan(source, &wanted, &query.sort)?;
        if given < query.sort.len() {
            let kind = if given > 0 {
                "Incremental Sort"
            } else {
                "Sort"
            };
            nodes.push(kind.to_owned());
        }
        nodes.extend(scan);
        Some(nodes)
    }

    fn nodes_of_scan(
        &self,
        source: &Source,
        wanted: &Wanted,
        order: &[crate::plan::query::SortKey],
    ) -> Option<(Vec<String>, usize)> {
        let chosen = self.store.way_chosen(source, wanted, order.len())?;
        let ways = source.ways.as_ref()?;
        let Some(From::Entry(entry)) = source.from else {
            return None;
        };
        let RangeKind::Table(table) = &source.range[entry].kind else {
            return None;
        };
        let index = |way: usize| &table.indexes[ways.list[way].index].name;
        let name = &table.name;
        let nodes = match chosen.pathway {
            Pathway::Sequential => vec![format!("Seq Scan on {name}")],
            Pathway::Walk { way, backward } => {
                let how = if backward { " Backward" } else { "" };
                vec![format!("Index Scan{how} using {} on {name}", index(way))]
            }
            Pathway::Bitmap { way } => vec![
                format!("Bitmap Heap Scan on {name}"),
                format!("Bitmap Index Scan on {}", index(way)),
            ],
        };
        Some((nodes, chosen.sorted))
    }
}
