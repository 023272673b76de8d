//! Which way the planner takes to the rows of one table: random tables, statements as claims have them,
//! and `EXPLAIN` on the server against what the simulator chooses.

use libtest_mimic::Failed;
use rowlock::real::server::PostgresServer;
use rowlock::real::{RealHost, RealSession};
use rowlock::sim::database::{Answer, Database, Progress, Request};
use rowlock::sim::engine::postgres::Postgres;
use rowlock::{Host, Session, Value};

/// Numbers at random, the same ones for the same seed (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
}

const INDEXES: [&str; 16] = [
    "(state)",
    "(state, id)",
    "(state, run_at)",
    "(state, priority DESC, id)",
    "(run_at)",
    "(priority)",
    "(priority DESC, run_at)",
    "(queue, state, run_at)",
    "(queue)",
    "(done, run_at)",
    "(owner)",
    "(run_at) WHERE state = 'ready'",
    "(priority, id) WHERE state = 'ready'",
    "(queue, id) WHERE NOT done",
    "(id) WHERE owner IS NULL",
    "(attempts)",
];

const CONDITIONS: [&str; 18] = [
    "state = 'ready'",
    "state = 'ready'",
    "state = 'done'",
    "state IN ('ready', 'failed')",
    "state <> 'done'",
    "queue = 'a'",
    "run_at <= now()",
    "run_at < '2026-01-01'",
    "run_at > '2025-01-01'",
    "owner IS NULL",
    "owner = 7",
    "NOT done",
    "done",
    "attempts < 5",
    "priority >= 1",
    "id = 3",
    "id > 2",
    "id IN (1, 2, 3)",
];

const ORDERS: [&str; 12] = [
    "id",
    "id",
    "id DESC",
    "priority, id",
    "priority DESC, id",
    "priority DESC, run_at",
    "run_at",
    "run_at, id",
    "run_at DESC",
    "state, id",
    "attempts, priority",
    "queue, run_at",
];

/// A table `name` with some indexes and rows, in the order in which they are made.
fn table(dice: &mut Dice, name: &str) -> Vec<String> {
    let key = dice.pick(&["int", "bigint"]);
    let payload = dice.pick(&["", ", payload text", ", payload jsonb, note varchar(50)"]);
    let mut made = vec![format!(
        "CREATE TABLE {name} (id {key} PRIMARY KEY, queue text NOT NULL, state text NOT NULL, \
         priority int NOT NULL, run_at timestamptz NOT NULL, attempts int NOT NULL, \
         owner bigint{}, done boolean NOT NULL{payload})",
        dice.pick(&["", " UNIQUE"]),
    )];
    let rows = [0, 1, 3, 3, 5, 5, 30][dice.roll(7)];
    let insert = format!(
        "INSERT INTO {name} SELECT g, 'a', 'ready', 0, '2025-06-01', 0, NULL, false \
         FROM generate_series(1, {rows}) g"
    );
    let first = dice.chance(20);
    if first {
        made.push(insert.clone());
    }
    for i in 0..dice.roll(4) {
        let unique = if dice.chance(5) { "UNIQUE " } else { "" };
        let on = dice.pick(&INDEXES);
        let unique = if on.contains("id") { unique } else { "" };
        made.push(format!("CREATE {unique}INDEX {name}_i{i} ON {name} {on}"));
    }
    if !first {
        made.push(insert);
    }
    made
}

/// A statement that reads or writes rows of the table.
fn statement(dice: &mut Dice, table: &str) -> String {
    let mut conditions: Vec<&str> = Vec::new();
    for _ in 0..[0, 1, 1, 1, 2, 2, 3][dice.roll(7)] {
        let condition = dice.pick(&CONDITIONS);
        // Two of one column may contradict each other, which the server sees before it plans.
        let column = |c: &str| {
            c.trim_start_matches("NOT ")
                .split(' ')
                .next()
                .map(str::to_owned)
        };
        let again = conditions.iter().any(|c| column(c) == column(condition));
        if !again || (condition.starts_with("id >") && !conditions.contains(&condition)) {
            conditions.push(condition);
        }
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    match dice.roll(10) {
        0 => format!("UPDATE {table} SET attempts = attempts + 1{filter}"),
        1 => format!("DELETE FROM {table}{filter}"),
        _ => {
            let order = match dice.chance(80) {
                true => format!(" ORDER BY {}", dice.pick(&ORDERS)),
                false => String::new(),
            };
            let limit = dice.pick(&[
                "",
                " LIMIT 1",
                " LIMIT 1",
                " LIMIT 3",
                " LIMIT 10",
                " LIMIT 100",
            ]);
            let offset = match !limit.is_empty() && dice.chance(10) {
                true => " OFFSET 2",
                false => "",
            };
            let lock = dice.pick(&["", " FOR UPDATE SKIP LOCKED", " FOR UPDATE"]);
            format!("SELECT * FROM {table}{filter}{order}{limit}{offset}{lock}")
        }
    }
}

/// The nodes of a plan that the server shows, top first. What an index gives without the table is not
/// told apart.
fn nodes(lines: &[String]) -> Vec<String> {
    let mut nodes = Vec::new();
    for line in lines {
        let text = line.trim_start();
        let node = match text.strip_prefix("->") {
            Some(node) => node.trim_start(),
            None if nodes.is_empty() => text,
            None => continue,
        };
        nodes.push(node.replace("Index Only Scan", "Index Scan"));
    }
    nodes
}

async fn explain(session: &mut RealSession, sql: &str) -> Result<Vec<String>, Failed> {
    let reply = session
        .exec(&format!("EXPLAIN (COSTS OFF) {sql}"), &[])
        .await?;
    let lines = reply.rows.iter().filter_map(|row| match &row[0] {
        Value::Text(line) => Some(line.to_string()),
        _ => None,
    });
    Ok(nodes(&lines.collect::<Vec<_>>()))
}

/// Compares so many tables with so many statements each.
pub(crate) fn compare(tables: usize, statements: usize, seed: u64) -> Result<(), Failed> {
    let server = PostgresServer::start()?;
    let host = RealHost::new("plans", server.target("postgres"));
    let runtime = tokio::runtime::Runtime::new()?;
    let mut live = runtime.block_on(host.connect())?;
    // Nobody counts rows while plans are compared.
    let quiet = "ALTER SYSTEM SET autovacuum = off";
    runtime.block_on(live.exec(quiet, &[]))?;
    runtime.block_on(live.exec("SELECT pg_reload_conf()", &[]))?;
    let mut dice = Dice(seed | 1);
    let (mut compared, mut several) = (0, 0);
    let mut wrong = Vec::new();
    for number in 0..tables {
        let name = format!("job{number}");
        let mut simulated = Postgres::default();
        let session = simulated.connect(None);
        let made = table(&mut dice, &name);
        for sql in &made {
            runtime.block_on(live.exec(sql, &[]))?;
            let id = simulated.prepare(sql);
            match simulated.submit(session, &Request::Exec(id, [].into())) {
                Progress::Done(Answer::Exec(Ok(_))) => {}
                other => return Err(format!("{sql}: {other:?}").into()),
            }
        }
        for _ in 0..statements {
            let sql = statement(&mut dice, &name);
            let theirs = runtime.block_on(explain(&mut live, &sql))?;
            if theirs
                .iter()
                .any(|n| n.starts_with("BitmapAnd") || n.starts_with("BitmapOr"))
            {
                several += 1;
                continue;
            }
            let ours = simulated.plan_nodes(session, &sql)?.unwrap_or_default();
            compared += 1;
            if ours != theirs {
                wrong.push(format!(
                    "{}\n{sql}\nserver    {theirs:?}\nsimulator {ours:?}\n",
                    made.join("\n")
                ));
            }
        }
    }
    println!(
        "{compared} plans compared, {} differ; {several} with several bitmaps left out",
        wrong.len()
    );
    match wrong.first() {
        Some(_) => Err(format!(
            "{} of {compared} plans differ\n{}",
            wrong.len(),
            wrong[..wrong.len().min(12)].join("\n")
        )
        .into()),
        None => Ok(()),
    }
}
