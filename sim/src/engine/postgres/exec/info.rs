//! What is found out about a statement once, when it is planned.

use std::sync::Arc;

use super::walk::{self, Visitor};
use crate::plan::ddl::Ddl;
use crate::plan::expr::Expr;
use crate::plan::query::{Cte, CteBody, Query, RangeEntry, RangeKind, Strength, SubPlan};
use crate::plan::write::Write;
use crate::plan::{Plan, PlanKind};

/// Facts about a planned statement that every run of it needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    /// Its common table expressions, by number.
    pub(super) ctes: Vec<Arc<Cte>>,
    /// How often each is read; a reader that runs many times counts as many.
    pub(super) readers: Vec<u32>,
    /// How many sub-selects it has.
    pub(super) once: usize,
    /// It reads system columns.
    pub(super) addresses: bool,
    /// The server's views that it reads.
    pub(super) views: Vec<Arc<str>>,
    /// It changes data.
    pub(crate) writes: bool,
    /// The strength of the first `FOR` clause, if there is one.
    pub(crate) locks_rows: Option<Strength>,
    /// See [`crate::plan::is_blind`].
    pub(crate) is_blind: bool,
    /// See [`crate::plan::is_bag`].
    pub(crate) is_bag: bool,
}

impl Info {
    /// About a plan.
    pub(crate) fn of(plan: &Plan) -> Info {
        let mut finder = Finder::default();
        match &plan.kind {
            PlanKind::Query(query) => walk::query(&mut finder, query),
            PlanKind::Write(write) => walk::write(&mut finder, write),
            PlanKind::Do(_) => {}
            PlanKind::Ddl(ddl) => {
                if let Ddl::CreateTable {
                    fill: Some(query), ..
                } = &**ddl
                {
                    walk::query(&mut finder, query);
                }
            }
        }
        finder.info.once = plan.subplans as usize;
        finder.info.is_blind = crate::plan::is_blind(plan);
        finder.info.is_bag = crate::plan::is_bag(plan);
        finder.finish()
    }
}

/// A query with a row-lock clause, as the error for read-only transactions calls it.
pub(crate) fn locking_query(strength: Strength) -> &'static str {
    match strength {
        Strength::KeyShare => "SELECT FOR KEY SHARE",
        Strength::Share => "SELECT FOR SHARE",
        Strength::NoKeyUpdate => "SELECT FOR NO KEY UPDATE",
        Strength::Update => "SELECT FOR UPDATE",
    }
}

#[derive(Default)]
struct Finder {
    info: Info,
}

impl Finder {
    fn reader(&mut self, place: usize, weight: u32) {
        if self.info.readers.len() <= place {
            self.info.readers.resize(place + 1, 0);
        }
        self.info.readers[place] += weight;
    }

    /// Readers inside something that may run many times.
    fn many_times(&mut self, query: &Query) {
        struct Readers(Vec<usize>);
        impl Visitor for Readers {
            fn entry(&mut self, entry: &RangeEntry, _locked: bool) {
                if let RangeKind::Cte(id) = entry.kind {
                    self.0.push(id.0 as usize);
                }
            }
        }
        let mut readers = Readers(Vec::new());
        walk::query(&mut readers, query);
        for place in readers.0 {
            self.reader(place, 1);
        }
    }

    fn sub_plan(&mut self, plan: &SubPlan) {
        if !plan.once {
            self.many_times(&plan.query);
        }
    }

    fn finish(mut self) -> Info {
        let n = self.info.ctes.len();
        self.info.readers.resize(n, 0);
        self.info
    }
}

impl Visitor for Finder {
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::System { .. } => self.info.addresses = true,
            Expr::Subquery(plan)
            | Expr::Exists(plan)
            | Expr::ArraySubquery(plan)
            | Expr::AnyOfRows { plan, .. } => self.sub_plan(plan),
            _ => {}
        }
    }

    fn query(&mut self, query: &Query) {
        if let (None, Some(lock)) = (self.info.locks_rows, query.locks.first()) {
            self.info.locks_rows = Some(lock.strength);
        }
    }

    fn write(&mut self, write: &Write) {
        self.info.writes = true;
        if let Write::Update(update) = write {
            for row in &update.rows {
                self.sub_plan(row);
            }
        }
    }

    fn entry(&mut self, entry: &RangeEntry, _locked: bool) {
        match &entry.kind {
            RangeKind::Cte(id) => self.reader(id.0 as usize, 1),
            RangeKind::Subquery(query) if entry.lateral => self.many_times(query),
            RangeKind::Virtual(view) if !self.info.views.contains(&view.name) => {
                self.info.views.push(Arc::clone(&view.name));
            }
            _ => {}
        }
    }

    fn cte(&mut self, cte: &Cte) {
        let place = cte.id.0 as usize;
        while self.info.ctes.len() <= place {
            self.info.ctes.push(Arc::new(cte.clone()));
        }
        self.info.ctes[place] = Arc::new(cte.clone());
        if let CteBody::Recursive { .. } = cte.body {
            self.reader(place, 1);
        }
    }
}
