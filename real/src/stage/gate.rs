//! Row granularity on a live PostgreSQL: statements are stopped before they lock a row.
//!
//! A server does not stop between two row locks of a statement, so something must stand in its way
//! there. After the set-up each table before whose rows the schedule pauses is moved into a schema of
//! its own, and a view takes its place that lets a row through only by a volatile function, the
//! *gate*. The planner puts the gate behind all other conditions on the table, so it is called for
//! the rows that the statement is about to lock, in their order. It waits for an advisory lock that
//! the replay holds (the *keeper*), and the replay lets one row through at a time.
//!
//! That works where the rows of a table flow from its scan straight into the node that locks them. It
//! does not where they are collected first (a sort, a hash), nor for locks that no scan of a statement
//! leads to (foreign-key checks, `ON CONFLICT`). Then the replay says so and why.

use std::fmt::Write as _;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{Session, Value};
use rowlock_scenarios::stage::{PausePlan, Paused, StageError};

use super::{failed, failure};
use crate::postgres::{PostgresLink, PostgresTarget};
use crate::session::{Link, RealSession};

/// The first half of the advisory key of a gate; the second is twice the number of the session, plus
/// one for every other row.
const GATE: i64 = 1_380_000_000;
/// The first half of the key by which a session tells before which row it stands: this, plus 64 times
/// the number of the session, plus that of the table. The second half is the row's place.
const MARK: i64 = 1_380_010_000;
/// Tables that can be gated.
const MOST_TABLES: usize = 64;

/// Nodes of a plan that take all their rows before they give the first.
const COLLECTORS: [&str; 9] = [
    "Sort",
    "Incremental Sort",
    "Hash",
    "HashAggregate",
    "Aggregate",
    "GroupAggregate",
    "Materialize",
    "Memoize",
    "Unique",
];

/// The gates of a run.
#[derive(Debug)]
pub(super) struct Gates {
    plan: PausePlan,
    keeper: PostgresLink,
    /// How many rows each session has been let through by its present statement.
    passes: Vec<u32>,
}

impl Gates {
    /// Puts gates before the tables of a plan.
    pub(super) async fn install(
        target: &PostgresTarget,
        plan: &PausePlan,
    ) -> Result<Gates, StageError> {
        let mut keeper = target
            .with_application_name("rowlock keeper")
            .connect()
            .await
            .map_err(failed("the gate keeper cannot connect"))?;
        if plan.tables.len() > MOST_TABLES {
            return Err(failure("too many tables for gates"));
        }
        let mut script = format!("CREATE SCHEMA rowlock_gated;\n{}", gate_function());
        for (number, table) in plan.tables.iter().enumerate() {
            let (columns, key) = shape(&mut keeper, table).await?;
            let name = quoted(table);
            let _ = write!(
                script,
                "ALTER TABLE public.{name} SET SCHEMA rowlock_gated;\n\
                 CREATE VIEW public.{name} AS SELECT {columns} FROM rowlock_gated.{name} AS gated \
                 WHERE rowlock_gated.gate({number}, gated.ctid, gated.xmax, ({key})::text);\n"
            );
        }
        let batch = keeper.batch(&script).await;
        match batch.map(|batch| batch.error) {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => {
                return Err(failed("no gates can be put before the tables")(error));
            }
        }
        let mut gates = Gates {
            plan: plan.clone(),
            keeper,
            passes: Vec::new(),
        };
        for statement in &plan.statements {
            gates.check_plan(&statement.sql).await?;
        }
        Ok(gates)
    }

    /// What a session of the run needs; run on it after it connects.
    pub(super) async fn admit(
        &mut self,
        id: SessionId,
        session: &mut RealSession,
    ) -> Result<(), StageError> {
        let number = usize::from(id.0);
        let sql = format!(
            "SET search_path = public, rowlock_gated; SET rowlock.gate = '{number}'; \
             SET rowlock.passed = 'off'"
        );
        let batch = session.batch(&sql).await;
        match batch.map(|batch| batch.error) {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => {
                return Err(failed("a session cannot be told of the gates")(error));
            }
        }
        if self.passes.len() <= number {
            self.passes.resize(number + 1, 0);
        }
        for odd in 0..2 {
            self.keep(number, odd, "pg_advisory_lock").await?;
        }
        Ok(())
    }

    async fn keep(&mut self, number: usize, odd: u32, what: &str) -> Result<(), StageError> {
        let sql = format!("SELECT {what}({GATE}, {})", number as u32 * 2 + odd);
        self.keeper
            .exec(&sql, &[])
            .await
            .map_err(failed("the gate keeper is lost"))?;
        Ok(())
    }

    /// Before a statement is sent: closes the gates before the tables whose rows it locks, opens all
    /// others.
    pub(super) async fn prepare(
        &mut self,
        id: SessionId,
        session: &mut RealSession,
        statement: &Statement,
    ) {
        let planned = self.plan.statements.iter();
        let planned = planned.into_iter().find(|p| *p.sql == *statement.sql);
        let sql = match planned {
            None => "SET rowlock.passed = 'off'".to_owned(),
            Some(planned) => {
                let numbers: Vec<String> = planned
                    .tables
                    .iter()
                    .filter_map(|table| self.plan.tables.iter().position(|t| t == table))
                    .map(|number| number.to_string())
                    .collect();
                format!(
                    "SET rowlock.passed = ''; SET rowlock.tables = ',{},'",
                    numbers.join(",")
                )
            }
        };
        self.passes[usize::from(id.0)] = 0;
        // In a failed transaction it is refused, as the statement will be.
        let _ = session.batch(&sql).await;
    }

    /// Lets a session pass its gate, once.
    pub(super) async fn pass(&mut self, id: SessionId) -> Result<(), StageError> {
        let number = usize::from(id.0);
        let odd = self.passes[number] % 2;
        self.passes[number] += 1;
        // It takes the lock and gives it back at once; then the gate is closed behind it.
        self.keep(number, odd, "pg_advisory_unlock").await?;
        self.keep(number, odd, "pg_advisory_lock").await
    }

    /// Refuses a statement whose rows are collected before they are locked.
    async fn check_plan(&mut self, sql: &str) -> Result<(), StageError> {
        if sql.contains("$1") {
            // Its plan depends on arguments; the run will show.
            return Ok(());
        }
        let explain = format!("EXPLAIN (COSTS OFF) {sql}");
        let Ok(reply) = self.keeper.exec(&explain, &[]).await else {
            // It cannot be planned now, perhaps for want of a setting of its session.
            return Ok(());
        };
        let lines: Vec<&str> = reply
            .rows
            .iter()
            .filter_map(|row| row[0].as_str())
            .collect();
        match collector(&lines) {
            None => Ok(()),
            Some(node) => Err(failure(format!(
                "this cannot be replayed between row locks: the server's plan for `{sql}` collects \
                 the rows ({node}) before it locks them, so nothing can stop it in between"
            ))),
        }
    }
}

/// The node that collects rows between a gate and the node that locks them, in a plan as EXPLAIN
/// prints it.
fn collector<'a>(lines: &[&'a str]) -> Option<&'a str> {
    // The nodes above the present line: how far each is indented, and its name.
    let mut above: Vec<(usize, &str)> = Vec::new();
    for line in lines {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim_start();
        let is_detail = text.contains("Filter:") && text.contains("gate(");
        if is_detail {
            let stops = above.iter().rposition(|(_, node)| locks(node))?;
            let found = above[stops..].iter().find(|(_, node)| {
                let name = node.split(" on ").next().unwrap_or(node).trim();
                COLLECTORS.contains(&name)
            });
            if let Some((_, node)) = found {
                return Some(node);
            }
            continue;
        }
        let is_node = text.starts_with("->") || above.is_empty();
        if is_node {
            above.retain(|(other, _)| *other < indent);
            above.push((indent, text.trim_start_matches("->").trim()));
        }
    }
    None
}

fn locks(node: &str) -> bool {
    ["LockRows", "Update", "Delete"]
        .iter()
        .any(|name| node.starts_with(name))
}

/// The columns of a table, and its key, as lists for SQL.
async fn shape(keeper: &mut PostgresLink, table: &str) -> Result<(String, String), StageError> {
    let sql = "SELECT string_agg('gated.' || quote_ident(a.attname), ', ' ORDER BY a.attnum), \
               (SELECT string_agg('gated.' || quote_ident(k.attname), ', ' ORDER BY k.attnum) \
                FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid \
                AND k.attnum = ANY (i.indkey) WHERE i.indrelid = c.oid AND i.indisprimary) \
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
               WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname = $1 \
               AND a.attnum > 0 AND NOT a.attisdropped GROUP BY c.oid";
    let reply = keeper
        .exec(sql, &[Value::text(table)])
        .await
        .map_err(failed("a table cannot be looked up"))?;
    let Some(row) = reply.rows.first() else {
        return Err(failure(format!(
            "this cannot be replayed between row locks: there is no plain table `{table}`"
        )));
    };
    match (row[0].as_str(), row[1].as_str()) {
        (Some(columns), Some(key)) => Ok((columns.to_owned(), format!("ROW({key})"))),
        _ => Err(failure(format!(
            "this cannot be replayed between row locks: table `{table}` has no primary key by which \
             its rows could be told apart"
        ))),
    }
}

/// The function through which rows go: once for each row and statement, unless the transaction holds
/// the row already.
fn gate_function() -> String {
    format!(
        r"CREATE FUNCTION rowlock_gated.gate(tab int, place tid, locker xid, key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE COST 10 AS $gate$
DECLARE
    passed text := current_setting('rowlock.passed', true);
    mark text := '|' || tab || ':' || key || '|';
    spot point := place::text::point;
    me int;
    odd int;
    at int;
BEGIN
    IF passed IS NULL OR passed = 'off' OR position(mark IN passed) > 0
        OR position(',' || tab || ',' IN current_setting('rowlock.tables')) = 0
        OR locker = pg_current_xact_id_if_assigned()::xid
    THEN
        RETURN true;
    END IF;
    me := current_setting('rowlock.gate')::int;
    odd := (length(passed) - length(replace(passed, '|', ''))) / 2 % 2;
    PERFORM set_config('rowlock.passed', passed || mark, false);
    at := (spot[0]::int << 16) | spot[1]::int;
    PERFORM pg_advisory_lock({MARK} + me * {MOST_TABLES} + tab, at);
    PERFORM pg_advisory_lock({GATE}, me * 2 + odd);
    PERFORM pg_advisory_unlock({GATE}, me * 2 + odd);
    PERFORM pg_advisory_unlock({MARK} + me * {MOST_TABLES} + tab, at);
    RETURN true;
END
$gate$;
"
    )
}

/// A query for the sessions that stand at their gates: process, number of the table, place.
pub(super) fn standing() -> String {
    format!(
        "SELECT g.pid, (m.classid::bigint - {MARK}) % {MOST_TABLES}, \
         m.objid::bigint >> 16, m.objid::bigint & 65535 \
         FROM pg_locks g JOIN pg_locks m ON m.pid = g.pid AND m.granted \
         AND m.locktype = 'advisory' AND m.objsubid = 2 AND m.classid::bigint >= {MARK} \
         AND m.classid::bigint < {MARK} + 256 * {MOST_TABLES} \
         WHERE NOT g.granted AND g.locktype = 'advisory' AND g.objsubid = 2 \
         AND g.classid::bigint = {GATE} \
         AND g.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1"
    )
}

/// A row of [`standing`] as where a session pauses.
pub(super) fn paused(row: &[Value], all: &[(SessionId, i64)], gates: &Gates) -> Option<Paused> {
    let pid = row[0].as_int()?;
    let (session, _) = all.iter().find(|(_, p)| *p == pid)?;
    let table = gates
        .plan
        .tables
        .get(usize::try_from(row[1].as_int()?).ok()?)?;
    Some(Paused {
        session: *session,
        before: format!("{table} ({},{})", row[2], row[3]),
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_between_scan_and_lock_collects_the_rows() {
        let plan = [
            "LockRows",
            "  ->  Sort",
            "        Sort Key: gated.id",
            "        ->  Seq Scan on account gated",
            "              Filter: rowlock_gated.gate(0, ctid, xmax, (ROW(id))::text)",
        ];
        assert_eq!(collector(&plan), Some("Sort"));
    }

    #[test]
    fn a_nested_loop_does_not() {
        let plan = [
            "Update on account gated",
            "  ->  Nested Loop",
            "        ->  Values Scan on \"*VALUES*\"",
            "        ->  Index Scan using account_pkey on account gated",
            "              Index Cond: (id = \"*VALUES*\".column1)",
            "              Filter: rowlock_gated.gate(0, ctid, xmax, (ROW(id))::text)",
        ];
        assert_eq!(collector(&plan), None);
    }
}
