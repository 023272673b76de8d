//! The texts, as the servers get them.

use super::super::settle::Settlement;
use super::super::statements::{LeaseStatements, RowLockStatements, Rules};
use super::*;
use std::time::Duration;

fn lease(table: &Table, rules: Rules) -> LeaseStatements {
    LeaseStatements::new(Dialect::Postgres, table, rules).unwrap()
}

fn fenced() -> Rules {
    Rules {
        token: Some(TokenRule::Fenced),
        ..Rules::default()
    }
}

fn expiry() -> Rules {
    Rules {
        token: Some(TokenRule::Expiry),
        ..Rules::default()
    }
}

fn settle(statements: &LeaseStatements, settlement: Settlement) -> String {
    let statement = statements.settle.statement(settlement).unwrap();
    statement.unwrap().sql.to_string()
}

#[test]
fn a_row_lock_claim_with_every_role() {
    let texts = RowLockStatements::new(Dialect::Postgres, &full(), Rules::default()).unwrap();
    assert_eq!(
        &*texts.claim.sql,
        "SELECT \"id\", \"priority\", \"due\", \"attempt\", \"body\" FROM \"job\" \
         WHERE \"kind\" = $1 AND \"done_at\" IS NULL AND (\"due\" IS NULL OR \"due\" <= $2) \
         ORDER BY \"priority\", \"due\", \"id\" LIMIT $3 FOR UPDATE SKIP LOCKED"
    );
    let sql = |settlement| {
        let statement = texts.settle.statement(settlement).unwrap();
        statement.map(|statement| statement.sql.to_string())
    };
    assert_eq!(
        sql(Settlement::Ack).unwrap(),
        "UPDATE \"job\" SET \"done_at\" = $1 WHERE \"id\" = $2"
    );
    assert_eq!(
        sql(Settlement::Retry).unwrap(),
        "UPDATE \"job\" SET \"attempt\" = \"attempt\" + 1 WHERE \"id\" = $1"
    );
    assert_eq!(
        sql(Settlement::RetryAfter(Duration::from_secs(5))).unwrap(),
        "UPDATE \"job\" SET \"due\" = $1, \"attempt\" = \"attempt\" + 1 WHERE \"id\" = $2"
    );
}

#[test]
fn a_table_that_cannot_do_something_says_so() {
    let table = Table::new("job", "id");
    let texts = RowLockStatements::new(Dialect::Postgres, &table, Rules::default()).unwrap();
    assert_eq!(texts.settle.statement(Settlement::Retry), Ok(None));
    let refused = |settlement| texts.settle.statement(settlement).unwrap_err().to_string();
    assert_eq!(
        refused(Settlement::RetryAfter(Duration::ZERO)),
        "a retry after some time needs a column `retry_after`"
    );
    assert_eq!(
        refused(Settlement::DeadLetter),
        "the table names no place for dead letters"
    );
    let error = |table: &Table, rules| {
        let texts = LeaseStatements::new(Dialect::Postgres, table, rules);
        texts.unwrap_err().to_string()
    };
    assert_eq!(
        error(&table, expiry()),
        "the lease form needs a column `locked_until`"
    );
    let leased = table.locked_until("until");
    assert!(error(&leased, fenced()).starts_with("a fenced token"));
    let on_server = Rules {
        clock: Clock::Database,
        ..expiry()
    };
    assert!(error(&leased, on_server).starts_with("a lease on the database's clock"));
}

#[test]
fn a_lease_claim_locks_stamps_and_answers_in_one_statement() {
    let table = full().locked_until("until");
    assert_eq!(
        &*lease(&table, expiry()).claim.sql,
        "WITH candidate AS (SELECT \"id\", \"priority\", \"due\", \"attempt\", \"body\" \
         FROM \"job\" WHERE \"kind\" = $1 AND \"done_at\" IS NULL \
         AND (\"due\" IS NULL OR \"due\" <= $2) AND (\"until\" IS NULL OR \"until\" <= $2) \
         ORDER BY \"priority\", \"due\", \"id\" LIMIT $3 FOR UPDATE SKIP LOCKED), \
         claimed AS (UPDATE \"job\" AS target SET \"until\" = $4, \
         \"attempt\" = target.\"attempt\" + 1 FROM candidate \
         WHERE target.\"id\" = candidate.\"id\" RETURNING target.\"id\") \
         SELECT candidate.\"id\", candidate.\"priority\", candidate.\"due\", \
         candidate.\"attempt\", candidate.\"body\" \
         FROM candidate JOIN claimed ON claimed.\"id\" = candidate.\"id\" \
         ORDER BY candidate.\"priority\", candidate.\"due\", candidate.\"id\""
    );
}

#[test]
fn a_settlement_names_the_token() {
    let table = small().locked_until("until");
    let weak = lease(&table, expiry());
    assert_eq!(
        settle(&weak, Settlement::Ack),
        "DELETE FROM \"job\" WHERE \"id\" = $1 AND \"until\" = $2"
    );
    assert_eq!(
        &*weak.extend.sql,
        "UPDATE \"job\" SET \"until\" = $1 WHERE \"id\" = $2 AND \"until\" = $3"
    );
    let safe = lease(&table, fenced());
    assert_eq!(
        settle(&safe, Settlement::Ack),
        "DELETE FROM \"job\" WHERE \"id\" = $1 AND \"attempt\" = $2 AND \"until\" IS NOT NULL"
    );
    assert_eq!(
        settle(&safe, Settlement::Retry),
        "UPDATE \"job\" SET \"until\" = NULL \
         WHERE \"id\" = $1 AND \"attempt\" = $2 AND \"until\" IS NOT NULL"
    );
    assert_eq!(
        &*safe.extend.sql,
        "UPDATE \"job\" SET \"until\" = greatest(\"until\", $1) \
         WHERE \"id\" = $2 AND \"attempt\" = $3 AND \"until\" IS NOT NULL"
    );
}

#[test]
fn a_finished_row_loses_its_lease_and_keeps_its_attempts() {
    let table = full().locked_until("until");
    let texts = lease(&table, fenced());
    assert_eq!(
        settle(&texts, Settlement::Drop),
        "UPDATE \"job\" SET \"done_at\" = $1, \"until\" = NULL \
         WHERE \"id\" = $2 AND \"attempt\" = $3 AND \"until\" IS NOT NULL"
    );
    assert_eq!(
        settle(&texts, Settlement::RetryAfter(Duration::ZERO)),
        "UPDATE \"job\" SET \"due\" = $1, \"until\" = NULL \
         WHERE \"id\" = $2 AND \"attempt\" = $3 AND \"until\" IS NOT NULL"
    );
}

#[test]
fn dead_letters_move_in_one_statement_or_change_their_group() {
    let moved = small()
        .locked_until("until")
        .dead_letter_table("dead \"job\"");
    assert_eq!(
        settle(&lease(&moved, fenced()), Settlement::DeadLetter),
        "WITH gone AS (DELETE FROM \"job\" \
         WHERE \"id\" = $1 AND \"attempt\" = $2 AND \"until\" IS NOT NULL \
         RETURNING \"id\", \"body\") \
         INSERT INTO \"dead \"\"job\"\"\" (\"id\", \"body\") SELECT \"id\", \"body\" FROM gone"
    );
    let group = full().locked_until("until").dead_letter_group("dead");
    assert_eq!(
        settle(&lease(&group, fenced()), Settlement::DeadLetter),
        "UPDATE \"job\" SET \"kind\" = $1, \"until\" = NULL \
         WHERE \"id\" = $2 AND \"attempt\" = $3 AND \"until\" IS NOT NULL"
    );
}

#[test]
fn a_separate_fence_counts_beside_the_attempts() {
    let table = small().locked_until("until").fence("claims").schema("work");
    let texts = lease(&table, fenced());
    assert!(texts.claim.sql.contains(
        "UPDATE \"work\".\"job\" AS target SET \"until\" = $3, \
         \"attempt\" = target.\"attempt\" + 1, \"claims\" = target.\"claims\" + 1"
    ));
    assert_eq!(
        settle(&texts, Settlement::Ack),
        "DELETE FROM \"work\".\"job\" \
         WHERE \"id\" = $1 AND \"claims\" = $2 AND \"until\" IS NOT NULL"
    );
}

#[test]
fn the_database_clock_is_one_for_all() {
    let table = small().locked_until("until");
    let rules = Rules {
        clock: Clock::Database,
        ..fenced()
    };
    let texts = lease(&table, rules);
    assert!(
        texts
            .claim
            .sql
            .contains("(\"until\" IS NULL OR \"until\" <= statement_timestamp())")
    );
    assert!(
        texts
            .claim
            .sql
            .contains("SET \"until\" = clock_timestamp() + $2")
    );
}

#[test]
fn mutations_make_the_mistake_that_they_name() {
    let table = small().locked_until("until");
    let mutated = |mutation| {
        lease(
            &table,
            Rules {
                mutation: Some(mutation),
                ..fenced()
            },
        )
    };
    assert_eq!(
        settle(&mutated(Mutation::SettleWithoutToken), Settlement::Ack),
        "DELETE FROM \"job\" WHERE \"id\" = $1"
    );
    assert_eq!(
        &*mutated(Mutation::ExtendWithoutToken).extend.sql,
        "UPDATE \"job\" SET \"until\" = greatest(\"until\", $1) WHERE \"id\" = $2"
    );
    assert!(
        mutated(Mutation::ClaimWithoutLease)
            .claim
            .sql
            .contains("FROM \"job\" ORDER BY \"id\" LIMIT $1 FOR UPDATE SKIP LOCKED")
    );
    assert_eq!(
        &*mutated(Mutation::LimitInSubquery).claim.sql,
        "UPDATE \"job\" AS target SET \"until\" = $1, \"attempt\" = target.\"attempt\" + 1 \
         WHERE target.\"id\" IN (SELECT \"id\" FROM \"job\" \
         WHERE (\"until\" IS NULL OR \"until\" <= $2) \
         ORDER BY \"id\" LIMIT $3 FOR UPDATE SKIP LOCKED) \
         RETURNING target.\"id\", target.\"attempt\" - 1 AS \"attempt\", target.\"body\""
    );
    assert!(
        mutated(Mutation::PredicateOnlyInSubquery)
            .claim
            .sql
            .contains("WHERE target.\"id\" = (SELECT \"id\" FROM \"job\"")
    );
}

#[test]
fn other_databases_are_refused_clearly() {
    for dialect in [Dialect::MySql, Dialect::MariaDb, Dialect::Sqlite] {
        let error = RowLockStatements::new(dialect, &small(), Rules::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the claim forms have no statements for {dialect} yet")
        );
    }
}
