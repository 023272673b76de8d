//! Common table expressions that are computed once.
//!
//! The reader pulls: a CTE yields a row when its first reader asks for one, so that what it locks or
//! writes happens in step with what the reader does with it. With more than one reader it is computed
//! to its end when first read. Data-modifying ones run to their end even if nobody reads them.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::Row;

use super::bound::Around;
use super::order::Group;
use super::select::RowSink;
use super::{Exec, Flow, Stop};
use crate::plan::query::{Cte, CteBody, CteId};

/// How far a common table expression is.
#[derive(Clone, Debug, Default)]
pub(super) enum CteState {
    /// The query that holds it is not running.
    #[default]
    Closed,
    /// Not read yet. The number of levels around the query that holds it.
    Unread(usize),
    /// Its rows.
    Rows(Rc<[Row]>),
    /// It went to its only reader; if the reader stopped early, the rest was not computed.
    Gone,
}

impl Exec<'_> {
    /// A query begins: what its `WITH` names is not read yet.
    pub(super) fn open_ctes(&mut self, with: &[Cte], around: Around<'_>) {
        for cte in with {
            let place = cte.id.0 as usize;
            if self.ctes.len() <= place {
                self.ctes.resize(place + 1, CteState::Closed);
            }
            self.ctes[place] = CteState::Unread(around.depth());
        }
    }

    /// Runs the data-modifying expressions of `with` that nobody has read, the last one first.
    pub(super) fn finish_ctes(&mut self, with: &[Cte], around: Around<'_>) -> Result<(), Stop> {
        for cte in with.iter().rev() {
            if matches!(cte.body, CteBody::Write(_))
                && matches!(self.ctes[cte.id.0 as usize], CteState::Unread(_))
            {
                let scope = around.scope();
                self.cte_body(cte, Around::inside(&scope), &mut |_, _| Ok(Flow::More))?;
                self.ctes[cte.id.0 as usize] = CteState::Gone;
            }
        }
        Ok(())
    }

    /// Gives the rows of a common table expression to a reader at `around`.
    pub(super) fn cte_rows(
        &mut self,
        id: CteId,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        let place = id.0 as usize;
        let depth = match &self.ctes[place] {
            CteState::Rows(rows) => {
                let rows = Rc::clone(rows);
                for row in rows.iter() {
                    if sink(self, Row::clone(row))? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                return Ok(Flow::More);
            }
            CteState::Unread(depth) => *depth,
            CteState::Closed | CteState::Gone => {
                unreachable!("a common table expression is read out of place: {id:?}")
            }
        };
        let cte = Arc::clone(&self.info.ctes[place]);
        // The reader may stand deeper than the query that holds the expression.
        let mut holder = around;
        for _ in depth..around.depth() {
            holder.outer = holder.outer.and_then(|scope| scope.outer);
        }
        let scope = holder.scope();
        let inside = Around::inside(&scope);
        if let CteBody::Recursive { first, next, all } = &cte.body {
            let rows = self.recursive_rows(place, first, next, *all, inside)?;
            self.ctes[place] = CteState::Rows(rows);
            return self.cte_rows(id, around, sink);
        }
        if self.info.readers[place] > 1 {
            let mut rows = Vec::new();
            self.cte_body(&cte, inside, &mut |_, row| {
                rows.push(row);
                Ok(Flow::More)
            })?;
            self.ctes[place] = CteState::Rows(rows.into());
            return self.cte_rows(id, around, sink);
        }
        // The only reader may read again (an inner side of a join): its rows are kept.
        let writes = matches!(cte.body, CteBody::Write(_));
        let mut rows = Vec::new();
        let mut refused = false;
        self.cte_body(&cte, inside, &mut |exec, row| {
            rows.push(Row::clone(&row));
            if !refused && sink(exec, row)? == Flow::Enough {
                refused = true;
            }
            Ok(if refused && !writes {
                Flow::Enough
            } else {
                Flow::More
            })
        })?;
        self.ctes[place] = if refused && !writes {
            CteState::Gone
        } else {
            CteState::Rows(rows.into())
        };
        Ok(if refused { Flow::Enough } else { Flow::More })
    }

    fn cte_body(&mut self, cte: &Cte, around: Around<'_>, sink: RowSink<'_>) -> Result<Flow, Stop> {
        match &cte.body {
            CteBody::Query(query) => self.query(query, around, sink),
            CteBody::Write(write) => self.write(write, around, sink).map(|_| Flow::More),
            CteBody::Recursive { .. } => unreachable!("computed by its own rule"),
        }
    }

    fn recursive_rows(
        &mut self,
        place: usize,
        first: &crate::plan::query::Query,
        next: &crate::plan::query::Query,
        all: bool,
        around: Around<'_>,
    ) -> Result<Rc<[Row]>, Stop> {
        let mut seen = std::collections::BTreeSet::new();
        let mut fresh = |rows: Vec<Row>| -> Vec<Row> {
            if all {
                return rows;
            }
            rows.into_iter()
                .filter(|row| seen.insert(Group(row.to_vec())))
                .collect()
        };
        let mut round = fresh(self.all_rows(first, around)?);
        let mut rows = round.clone();
        while !round.is_empty() {
            self.ctes[place] = CteState::Rows(round.into());
            round = fresh(self.all_rows(next, around)?);
            rows.extend(round.iter().cloned());
        }
        Ok(rows.into())
    }
}
