//! Running planned statements over the rows of an engine.
//!
//! Joins are nested loops in the order that the engine chose (`join`); groups, windows, sorts and set
//! operations are computed on what the loops give (`select`); writes change row by row
//! (`write`).

mod filesort;
mod group;
mod insert;
mod join;
mod select;
mod semijoin;
mod still;
mod window;
mod write;

use std::rc::Rc;

use rowlock_model::{DbError, Dialect, Row, Value};
use rustc_hash::FxHashMap;

use super::eval::{Env, Frame, eval};
use super::expr::{Expr, HostFunction};
use super::plan::{Plan, PlanKind};
use super::query::{Cte, CteBody, CteId, Query, SubPlan, SubPlanId, Wanted};
use super::storage::{Around, Host, Stop, Storage};

/// What a statement answered, before it is put into a reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The rows of a query or of `RETURNING`.
    pub rows: Vec<Row>,
    /// Rows found by an `UPDATE` (what `CLIENT_FOUND_ROWS` counts); equal to `changed` elsewhere.
    pub matched: u64,
    /// Rows inserted, changed or deleted, as the product counts them.
    pub changed: u64,
}

/// Runs the statements of one session on one engine.
#[derive(Debug)]
pub struct Executor<'e, S: Storage> {
    /// The engine.
    pub storage: &'e mut S,
    dialect: Dialect,
    /// Sub-selects that do not depend on rows around them.
    subplans: FxHashMap<SubPlanId, Rc<[Row]>>,
    /// Common table expressions and derived tables of the queries that run.
    ctes: FxHashMap<CteId, Rc<[Row]>>,
    around: Around,
}

/// How many rounds a recursive common table expression may have (`cte_max_recursion_depth`).
const ROUNDS_MAX: usize = 1_000;

impl<'e, S: Storage> Executor<'e, S> {
    /// An executor for one run of one statement.
    pub fn new(storage: &'e mut S, dialect: Dialect) -> Executor<'e, S> {
        Executor {
            storage,
            dialect,
            subplans: FxHashMap::default(),
            ctes: FxHashMap::default(),
            around: Around::default(),
        }
    }

    /// The same inside a `SET` or `DO`.
    #[must_use]
    pub fn in_set(mut self) -> Self {
        self.around.in_set = true;
        self
    }

    /// Runs a query or a write.
    ///
    /// # Errors
    /// What the server says; waits.
    ///
    /// # Panics
    /// If the plan changes the schema: that is the engine's.
    pub fn run(&mut self, plan: &Plan) -> Result<Outcome, Stop> {
        match &plan.kind {
            PlanKind::Query(query) => {
                let rows = self.query(query, None, None)?;
                Ok(Outcome {
                    rows,
                    ..Outcome::default()
                })
            }
            PlanKind::Insert(insert) => self.insert(insert),
            PlanKind::Update(update) => self.update(update),
            PlanKind::Delete(delete) => self.delete(delete),
            PlanKind::Ddl(_) => panic!("the engine changes the schema"),
        }
    }

    /// The rows of a query that stands alone.
    ///
    /// # Errors
    /// What the server says; waits.
    pub fn rows(&mut self, query: &Query) -> Result<Vec<Row>, Stop> {
        self.query(query, None, None)
    }

    /// The rows of a query whose rows go into a table.
    ///
    /// # Errors
    /// What the server says; waits.
    pub fn rows_to_store(&mut self, query: &Query) -> Result<Vec<Row>, Stop> {
        self.around.in_write = true;
        let rows = self.query(query, None, None);
        self.around.in_write = false;
        rows
    }

    /// The value of an expression without columns.
    ///
    /// # Errors
    /// What the server says; waits.
    pub fn value(&mut self, expr: &Expr) -> Result<Value, Stop> {
        eval(expr, &Frame::empty(None), self)
    }

    /// The value of an expression over the columns of one row (entry 0).
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn value_of_row(&mut self, expr: &Expr, row: super::eval::Tuple) -> Result<Value, Stop> {
        let rows = [Some(row)];
        eval(expr, &Frame::of_rows(&rows, None), self)
    }

    /// The rows of a common table expression or derived table that is visible in `frame`.
    fn cte(&mut self, id: CteId, frame: &Frame<'_>) -> Result<Rc<[Row]>, Stop> {
        if let Some(rows) = self.ctes.get(&id) {
            return Ok(Rc::clone(rows));
        }
        let mut home = frame;
        let cte = loop {
            if let Some(cte) = home.with.iter().find(|cte| cte.id == id) {
                break cte;
            }
            match home.outer {
                Some(outer) => home = outer,
                None => panic!("{id:?} is read outside of its query"),
            }
        };
        self.around.depth += 1;
        let rows = self.cte_rows(cte, home);
        self.around.depth -= 1;
        let rows: Rc<[Row]> = rows?.into();
        self.ctes.insert(id, Rc::clone(&rows));
        Ok(rows)
    }

    fn cte_rows(&mut self, cte: &Cte, home: &Frame<'_>) -> Result<Vec<Row>, Stop> {
        let (first, next, all, by) = match &cte.body {
            CteBody::Query(query) => return self.query(query, Some(home), None),
            CteBody::Recursive {
                first,
                next,
                all,
                by,
            } => (first, next, *all, by),
        };
        let mut rows = self.query(first, Some(home), None)?;
        if !all {
            rows = select::distinct_rows(rows, by);
        }
        let mut last = rows.clone();
        let mut round = 0;
        while !last.is_empty() {
            round += 1;
            if round > ROUNDS_MAX && self.dialect != Dialect::Sqlite {
                let message = "Recursive query aborted after 1001 iterations. Try increasing \
                               @@cte_max_recursion_depth to a larger value.";
                return Err(super::errors::mysql(3636, "HY000", message).into());
            }
            if round > ROUNDS_MAX {
                return Err(DbError::unsupported("this many rounds of recursion", None).into());
            }
            self.ctes.insert(cte.id, last.into());
            let new = self.query(next, Some(home), None);
            self.ctes.remove(&cte.id);
            last = new?;
            if !all {
                let known = rows.len();
                let mut together = rows.clone();
                together.extend(last);
                let together = select::distinct_rows(together, by);
                last = together[known..].to_vec();
            }
            rows.extend(last.iter().cloned());
        }
        Ok(rows)
    }
}

impl<S: Storage> Host for Executor<'_, S> {
    fn param(&self, index: usize) -> Result<Value, Stop> {
        self.storage.param(index)
    }

    fn call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Stop> {
        self.storage.call(function, args)
    }

    fn user_variable(&mut self, name: &str) -> Value {
        self.storage.user_variable(name)
    }

    fn set_user_variable(&mut self, name: &str, value: Value) {
        self.storage.set_user_variable(name, value);
    }

    fn system_variable(&mut self, name: &str, global: bool) -> Result<Value, Stop> {
        self.storage.system_variable(name, global)
    }

    fn warn(&mut self, code: u16, message: String) {
        self.storage.warn(code, message);
    }

    fn is_strict(&self) -> bool {
        self.storage.is_strict()
    }
}

impl<S: Storage> Env for Executor<'_, S> {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn subquery(&mut self, plan: &SubPlan, frame: &Frame<'_>) -> Result<Rc<[Row]>, Stop> {
        if plan.once
            && let Some(rows) = self.subplans.get(&plan.id)
        {
            return Ok(Rc::clone(rows));
        }
        let most = match plan.wanted {
            Wanted::Exists => Some(1),
            // A second row is an error on MySQL, not looked for by SQLite.
            Wanted::Scalar if self.dialect == Dialect::Sqlite => Some(1),
            Wanted::Scalar => Some(2),
            Wanted::Rows => None,
        };
        let before = self.around;
        self.around.depth += 1;
        self.around.in_write |= plan.in_write;
        let rows = self.query(&plan.query, Some(frame), most);
        self.around = before;
        let rows: Rc<[Row]> = rows?.into();
        if plan.once {
            self.subplans.insert(plan.id, Rc::clone(&rows));
        }
        Ok(rows)
    }
}
