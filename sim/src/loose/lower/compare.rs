//! Comparisons of values and of rows, `IN`, `ANY` and `ALL`.

use rowlock_model::{DbError, Dialect, Value};

use super::rules::{self, Typed};
use super::{Clause, Lowering};
use crate::loose::ast::{self, Node, NodeKind};
use crate::loose::errors;
use crate::loose::expr::{Compare, Comparison, Expr};
use crate::loose::query::{Kind, SubPlan, Wanted};
use crate::loose::temporal;
use crate::loose::types::Affinity;
use crate::loose::walk;

impl Lowering<'_> {
    pub(super) fn comparison(&self, left: &Typed, right: &Typed) -> Comparison {
        rules::comparison(&left.ty, &right.ty, self.dialect)
    }

    /// The fields of a row, or the one expression.
    pub(super) fn fields(&mut self, node: &Node) -> Result<Vec<Typed>, DbError> {
        match &node.kind {
            NodeKind::Row(items) => items.iter().map(|item| self.expr(item)).collect(),
            _ => Ok(vec![self.expr(node)?]),
        }
    }

    fn wrong_degree(&self, wanted: usize, at: usize) -> DbError {
        errors::either(
            self.dialect,
            1241,
            "21000",
            format!("Operand should contain {wanted} column(s)"),
            "row value misused",
        )
        .at(at)
    }

    pub(super) fn compare(
        &mut self,
        op: Compare,
        left: &Node,
        right: &Node,
        at: usize,
    ) -> Result<Typed, DbError> {
        if let (NodeKind::Row(_), NodeKind::Subquery(_)) = (&left.kind, &right.kind) {
            return errors::unsupported("comparing a row with a sub-select", at);
        }
        if matches!(left.kind, NodeKind::Row(_)) || matches!(right.kind, NodeKind::Row(_)) {
            let (left, right) = (self.fields(left)?, self.fields(right)?);
            if left.len() != right.len() {
                return Err(self.wrong_degree(left.len(), at));
            }
            let fields = left
                .into_iter()
                .zip(right)
                .map(|(l, r)| {
                    let by = self.comparison(&l, &r);
                    (l.expr, r.expr, by)
                })
                .collect();
            return Ok(self.truth(Expr::CompareRows { op, fields }, at));
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        self.check_date(&left, &right)?;
        self.check_date(&right, &left)?;
        Ok(self.truth(self.compared(op, left, right), at))
    }

    /// MySQL refuses to compare a date with a text literal that is none.
    fn check_date(&self, date: &Typed, text: &Typed) -> Result<(), DbError> {
        let word = match date.ty.kind {
            Kind::Date => "DATE",
            Kind::DateTime(_) => "DATETIME",
            _ => return Ok(()),
        };
        if let (Dialect::MySql, Expr::Const(Value::Text(literal))) = (self.dialect, &text.expr)
            && temporal::parse_datetime(literal).is_none()
        {
            let message = format!("Incorrect {word} value: '{literal}'");
            return Err(errors::mysql(1525, "HY000", message).at(text.at));
        }
        Ok(())
    }

    pub(super) fn compared(&self, op: Compare, left: Typed, right: Typed) -> Expr {
        let by = self.comparison(&left, &right);
        Expr::Compare {
            op,
            by,
            sides: Box::new((left.expr, right.expr)),
        }
    }

    pub(super) fn in_list(
        &mut self,
        expr: &Node,
        items: &[Node],
        negated: bool,
        at: usize,
    ) -> Result<Typed, DbError> {
        if let NodeKind::Row(_) = &expr.kind {
            if self.is_sqlite() {
                return Err(self.wrong_degree(1, at));
            }
            let left = self.fields(expr)?;
            let mut lists = Vec::new();
            for item in items {
                let fields = self.fields(item)?;
                if fields.len() != left.len() {
                    return Err(self.wrong_degree(left.len(), item.at));
                }
                let pairs = left.iter().zip(fields);
                lists.push(
                    pairs
                        .map(|(l, r)| {
                            let by = self.comparison(l, &r);
                            (r.expr, by)
                        })
                        .collect(),
                );
            }
            let found = Expr::InRowList {
                left: left.into_iter().map(|field| field.expr).collect(),
                items: lists,
                negated,
            };
            return Ok(self.truth(found, at));
        }
        let left = self.expr(expr)?;
        let mut list = Vec::new();
        for item in items {
            let item = self.expr(item)?;
            let by = match self.is_sqlite() {
                // The affinity of the left side is applied to both ("Expressions", section 10).
                true => {
                    let affinity = left.ty.affinity.filter(|a| *a != Affinity::Blob);
                    Comparison::Classes {
                        left: affinity,
                        right: affinity,
                        collation: left.ty.collation,
                    }
                }
                false => self.comparison(&left, &item),
            };
            list.push((item.expr, by));
        }
        let found = Expr::InList {
            expr: Box::new(left.expr),
            items: list,
            negated,
        };
        Ok(self.truth(found, at))
    }

    pub(super) fn any_of_rows(
        &mut self,
        op: Compare,
        all: bool,
        left: &Node,
        query: &ast::Query,
        at: usize,
    ) -> Result<Typed, DbError> {
        let fields = self.fields(left)?;
        let plan = self.subplan(query, Wanted::Rows, fields.len())?;
        let columns = plan.query.columns.clone();
        let left = fields
            .into_iter()
            .zip(&columns)
            .map(|(field, column)| {
                let by = rules::comparison(&field.ty, &column.ty, self.dialect);
                (field.expr, by)
            })
            .collect();
        let any = Expr::AnyOfRows {
            op,
            all,
            left,
            plan: Box::new(plan),
        };
        Ok(self.truth(any, at))
    }

    /// A sub-select of `width` columns (any number if 0).
    pub(super) fn subplan(
        &mut self,
        query: &ast::Query,
        wanted: Wanted,
        width: usize,
    ) -> Result<SubPlan, DbError> {
        let id = self.next_subplan();
        let before = std::mem::replace(&mut self.clause, Clause::Fields);
        let lowered = self.query(query);
        self.clause = before;
        let lowered = lowered?;
        if width > 0 && lowered.columns.len() != width {
            let got = lowered.columns.len();
            return Err(errors::either(
                self.dialect,
                1241,
                "21000",
                format!("Operand should contain {width} column(s)"),
                format!("sub-select returns {got} columns - expected {width}"),
            )
            .at(query.at));
        }
        let once = !walk::depends(&lowered);
        Ok(SubPlan {
            id,
            query: lowered,
            wanted,
            once,
            in_write: self.in_write,
        })
    }
}
