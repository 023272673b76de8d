//! The texts, as the servers get them.

use super::super::settle::Settlement;
use super::super::statements::{
    AdvisoryStatements, LeaseClaim, LeaseStatements, RowLockStatements, Rules, Settlements,
};
use super::*;
use std::time::Duration;

fn lease(table: &Table, rules: Rules) -> LeaseStatements {
    LeaseStatements::new(Dialect::Postgres, table, rules).unwrap()
}

fn locking() -> Rules {
    Rules::of(Form::RowLock)
}

fn fenced() -> Rules {
    Rules::of(Form::Lease)
}

fn expiry() -> Rules {
    Rules {
        token: TokenRule::Expiry,
        ..fenced()
    }
}

/// The claim, of databases that have it in one statement.
fn claim(statements: &LeaseStatements) -> String {
    match &statements.claim {
        LeaseClaim::Single(claim) => claim.sql.to_string(),
        LeaseClaim::Stamped { lock, stamp } => panic!("{} and {}", lock.sql, stamp.sql(1)),
    }
}

/// The texts of a settlement, with `; ` between them.
fn texts(settlements: &Settlements, settlement: Settlement) -> String {
    let statements = settlements.statements(settlement).unwrap();
    let texts: Vec<&str> = statements.iter().map(|s| &*s.sql).collect();
    texts.join("; ")
}

fn settle(statements: &LeaseStatements, settlement: Settlement) -> String {
    texts(&statements.settle, settlement)
}

#[test]
fn a_row_lock_claim_with_every_role() {
    let statements = RowLockStatements::new(Dialect::Postgres, &full(), locking()).unwrap();
    assert_eq!(
        &*statements.claim.sql,
        "SELECT \"id\", \"priority\", \"due\", \"attempt\", \"body\" FROM \"job\" \
         WHERE \"kind\" = $1 AND \"done_at\" IS NULL AND (\"due\" IS NULL OR \"due\" <= $2) \
         ORDER BY \"priority\", \"due\", \"id\" LIMIT $3 FOR UPDATE SKIP LOCKED"
    );
    let sql = |settlement| texts(&statements.settle, settlement);
    assert_eq!(
        sql(Settlement::Ack),
        "UPDATE \"job\" SET \"done_at\" = $1 WHERE \"id\" = $2"
    );
    assert_eq!(
        sql(Settlement::Retry),
        "UPDATE \"job\" SET \"attempt\" = \"attempt\" + 1 WHERE \"id\" = $1"
    );
    assert_eq!(
        sql(Settlement::RetryAfter(Duration::from_secs(5))),
        "UPDATE \"job\" SET \"due\" = $1, \"attempt\" = \"attempt\" + 1 WHERE \"id\" = $2"
    );
}

#[test]
fn a_table_that_cannot_do_something_says_so() {
    let table = Table::new("job", "id");
    let texts = RowLockStatements::new(Dialect::Postgres, &table, locking()).unwrap();
    assert_eq!(texts.settle.statements(Settlement::Retry), Ok(&[][..]));
    let refused = |settlement| texts.settle.statements(settlement).unwrap_err().to_string();
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
        claim(&lease(&table, expiry())),
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
    assert!(claim(&texts).contains(
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
    assert!(claim(&texts).contains("(\"until\" IS NULL OR \"until\" <= statement_timestamp())"));
    assert!(claim(&texts).contains("SET \"until\" = clock_timestamp() + $2"));
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
        claim(&mutated(Mutation::ClaimWithoutLease))
            .contains("FROM \"job\" ORDER BY \"id\" LIMIT $1 FOR UPDATE SKIP LOCKED")
    );
    assert_eq!(
        claim(&mutated(Mutation::LimitInSubquery)),
        "UPDATE \"job\" AS target SET \"until\" = $1, \"attempt\" = target.\"attempt\" + 1 \
         WHERE target.\"id\" IN (SELECT \"id\" FROM \"job\" \
         WHERE (\"until\" IS NULL OR \"until\" <= $2) \
         ORDER BY \"id\" LIMIT $3 FOR UPDATE SKIP LOCKED) \
         RETURNING target.\"id\", target.\"attempt\" - 1 AS \"attempt\", target.\"body\""
    );
    assert!(
        claim(&mutated(Mutation::PredicateOnlyInSubquery))
            .contains("WHERE target.\"id\" = (SELECT \"id\" FROM \"job\"")
    );
}

#[test]
fn mysql_and_mariadb_lock_then_stamp() {
    let table = full().locked_until("until");
    for dialect in [Dialect::MySql, Dialect::MariaDb] {
        let statements = LeaseStatements::new(dialect, &table, fenced()).unwrap();
        let LeaseClaim::Stamped { lock, stamp } = &statements.claim else {
            panic!("one statement cannot do it");
        };
        assert_eq!(
            &*lock.sql,
            "SELECT `id`, `priority`, `due`, `attempt`, `body` FROM `job` \
             WHERE `kind` = ? AND `done_at` IS NULL AND (`due` IS NULL OR `due` <= ?) \
             AND (`until` IS NULL OR `until` <= ?) \
             ORDER BY `priority`, `due`, `id` LIMIT ? FOR UPDATE SKIP LOCKED"
        );
        assert_eq!(
            stamp.sql(1),
            "UPDATE `job` AS target SET `until` = ?, `attempt` = target.`attempt` + 1 \
             WHERE target.`id` = ? AND (`until` IS NULL OR `until` <= ?)"
        );
        assert_eq!(
            stamp.sql(3),
            "UPDATE `job` AS target SET `until` = ?, `attempt` = target.`attempt` + 1 \
             WHERE target.`id` IN (?, ?, ?) AND (`until` IS NULL OR `until` <= ?)"
        );
        assert_eq!(
            &*statements.prove.sql,
            "SELECT `id` FROM `job` WHERE `id` = ? AND `attempt` = ? \
             AND `until` IS NOT NULL FOR UPDATE"
        );
        let moved = small().locked_until("until").dead_letter_table("dead");
        let statements = LeaseStatements::new(dialect, &moved, expiry()).unwrap();
        assert_eq!(
            settle(&statements, Settlement::DeadLetter),
            "INSERT INTO `dead` (`id`, `body`) SELECT `id`, `body` FROM `job` \
             WHERE `id` = ? AND `until` = ?; DELETE FROM `job` WHERE `id` = ? AND `until` = ?"
        );
    }
}

#[test]
fn sqlite_claims_leases_in_one_update_and_has_no_row_locks() {
    let table = small().locked_until("until");
    let statements = LeaseStatements::new(Dialect::Sqlite, &table, fenced()).unwrap();
    assert_eq!(
        claim(&statements),
        "UPDATE \"job\" AS target SET \"until\" = ?, \"attempt\" = target.\"attempt\" + 1 \
         WHERE target.\"id\" IN (SELECT \"id\" FROM \"job\" \
         WHERE (\"until\" IS NULL OR \"until\" <= ?) ORDER BY \"id\" LIMIT ?) \
         RETURNING \"id\", \"attempt\" - 1 AS \"attempt\", \"body\""
    );
    let error = RowLockStatements::new(Dialect::Sqlite, &table, locking()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("sqlite has no statements for the row lock form"));
}

#[test]
fn instants_have_a_type_that_reads_back_as_written() {
    let table = small().locked_until("until");
    let refused = |dialect, instants| {
        let table = table.clone().instants(instants);
        LeaseStatements::new(dialect, &table, fenced()).is_err()
    };
    assert!(refused(Dialect::MySql, InstantType::WithTimeZone));
    assert!(refused(Dialect::MariaDb, InstantType::WithTimeZone));
    assert!(refused(Dialect::Sqlite, InstantType::WithTimeZone));
    assert!(refused(Dialect::Sqlite, InstantType::WithoutTimeZone));
    for dialect in Dialect::ALL {
        assert!(!refused(dialect, InstantType::Microseconds));
        assert!(LeaseStatements::new(dialect, &table, fenced()).is_ok());
    }
}

#[test]
fn a_fifo_queue_locks_its_head_alone_behind_a_guard() {
    let rules = |fifo| Rules {
        fifo: Some(fifo),
        ..locking()
    };
    let new = |dialect, table: &Table, fifo| RowLockStatements::new(dialect, table, rules(fifo));
    let table = Table::new("job", "id").group("kind").schema("work");
    let statements = new(Dialect::Postgres, &table, FifoGuard::Lock).unwrap();
    assert_eq!(
        &*statements.claim.sql,
        "SELECT \"id\" FROM \"work\".\"job\" WHERE \"id\" = (SELECT \"id\" \
         FROM \"work\".\"job\" WHERE \"kind\" = $1 ORDER BY \"id\" LIMIT 1) \
         AND \"kind\" = $1 ORDER BY \"id\" LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    let guard = statements.guard.unwrap();
    assert_eq!(
        &*guard.take.sql,
        "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS free"
    );
    assert_eq!(guard.release, None);
    let guard = new(Dialect::MySql, &table, FifoGuard::Lock)
        .unwrap()
        .guard
        .unwrap();
    assert_eq!(
        &*guard.take.sql,
        "SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.', ?), 256), 0) AS free"
    );
    assert_eq!(
        &*guard.release.unwrap().sql,
        "SELECT RELEASE_LOCK(SHA2(CONCAT(DATABASE(), '.', ?), 256)) AS free"
    );
    let counts = new(Dialect::MariaDb, &table, FifoGuard::Counts).unwrap();
    assert_eq!(
        &*counts.guard.unwrap().take.sql,
        "SELECT (SELECT COUNT(*) FROM `work`.`job` WHERE `kind` = ?) = \
         (SELECT COUNT(*) FROM `work`.`job` WHERE `kind` = ? FOR UPDATE SKIP LOCKED) AS free"
    );
    let refused = |dialect, table: &Table, fifo| new(dialect, table, fifo).unwrap_err().to_string();
    assert!(
        refused(Dialect::Postgres, &table, FifoGuard::Counts)
            .starts_with("the guard by two counts is one of mysql and mariadb")
    );
    let unqualified = Table::new("job", "id");
    assert!(
        refused(Dialect::Postgres, &unqualified, FifoGuard::Lock)
            .starts_with("a FIFO queue on postgres names the schema")
    );
}

#[test]
fn a_fifo_lease_waits_for_the_leases_of_its_queue() {
    let rules = Rules {
        fifo: Some(FifoGuard::Lock),
        ..fenced()
    };
    let table = small().locked_until("until").group("kind");
    let statements = LeaseStatements::new(Dialect::Sqlite, &table, rules).unwrap();
    assert_eq!(statements.guard, None, "one writer at a time");
    assert!(claim(&statements).contains(
        "(SELECT \"id\" FROM \"job\" WHERE \"id\" = (SELECT \"id\" FROM \"job\" \
         WHERE \"kind\" = ? ORDER BY \"id\" LIMIT 1) AND NOT EXISTS (SELECT 1 FROM \"job\" \
         WHERE \"kind\" = ? AND \"until\" > ?) AND \"kind\" = ?"
    ));
}

fn advisory(dialect: Dialect, table: &Table, probe: bool) -> AdvisoryStatements {
    AdvisoryStatements::new(dialect, table, Rules::of(Form::Advisory), probe).unwrap()
}

#[test]
fn an_advisory_claim_chooses_locks_and_takes() {
    let table = small().group("kind").advisory_lock("it's {tenant}-{id}");
    let statements = advisory(Dialect::Postgres, &table, true);
    assert_eq!(
        &*statements.candidates.sql,
        "SELECT row_id, row_key FROM (SELECT \"id\" AS row_id, \
         concat('it''s ', \"tenant\", '-', \"id\") AS row_key FROM \"job\" \
         WHERE \"kind\" = $1 ORDER BY \"id\" OFFSET 0) AS candidate \
         WHERE pg_try_advisory_xact_lock_shared(hashtextextended(row_key, 0)) LIMIT $2"
    );
    assert_eq!(
        &*statements.lock.unwrap().sql,
        "SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS locked"
    );
    assert_eq!(
        &*statements.unlock.unwrap().sql,
        "SELECT pg_advisory_unlock(hashtextextended($1, 0)) AS unlocked"
    );
    assert_eq!(
        &*statements.take.read.sql,
        "UPDATE \"job\" SET \"attempt\" = \"attempt\" + 1 \
         WHERE \"id\" = $1 AND \"kind\" = $2 \
         RETURNING \"id\", \"attempt\" - 1 AS \"attempt\", \"body\""
    );
    // The lock is proof; and a retry writes nothing, since the claim has counted.
    assert_eq!(
        texts(&statements.settle, Settlement::Ack),
        "DELETE FROM \"job\" WHERE \"id\" = $1"
    );
    assert_eq!(texts(&statements.settle, Settlement::Retry), "");
}

#[test]
fn names_of_locks_on_mysql_are_short_and_belong_to_the_database() {
    let table = small().advisory_lock("{tenant}");
    let statements = advisory(Dialect::MySql, &table, true);
    let name = "CAST(CONCAT(LOWER(DATABASE()), '.', CONCAT_WS('', `tenant`)) AS CHAR)";
    let name = format!("IF(CHAR_LENGTH({name}) <= 64, {name}, SHA2({name}, 256))");
    assert_eq!(
        &*statements.candidates.sql,
        format!(
            "SELECT `id` AS row_id, {name} AS row_key FROM `job` \
             WHERE IS_USED_LOCK({name}) IS NULL ORDER BY `id` LIMIT ?"
        )
    );
    assert_eq!(
        &*statements.lock.unwrap().sql,
        "SELECT GET_LOCK(?, 0) AS locked"
    );
    assert_eq!(
        &*statements.take.count.unwrap().sql,
        "UPDATE `job` SET `attempt` = `attempt` + 1 WHERE `id` = ?"
    );
    assert_eq!(
        &*statements.take.read.sql,
        "SELECT `id`, `attempt` - 1 AS `attempt`, `body` FROM `job` WHERE `id` = ?"
    );
}

#[test]
fn keys_on_sqlite_are_locked_in_the_process() {
    let table = small().advisory_lock("t{tenant}");
    let statements = advisory(Dialect::Sqlite, &table, true);
    assert_eq!(
        &*statements.candidates.sql,
        "SELECT \"id\" AS row_id, '' || 't' || coalesce(\"tenant\", '') AS row_key \
         FROM \"job\" ORDER BY \"id\" LIMIT ?"
    );
    assert!(!statements.probes, "no lock of the server to ask about");
    assert_eq!((statements.lock, statements.unlock), (None, None));
}

#[test]
fn advisory_keys_are_checked() {
    let error = |dialect, key: &str| {
        let table = small().advisory_lock(key);
        AdvisoryStatements::new(dialect, &table, Rules::of(Form::Advisory), true)
            .unwrap_err()
            .to_string()
    };
    for (key, why) in [
        ("", "is empty"),
        ("a{b", "opens a brace and does not close it"),
        ("a}b", "closes a brace that is not open"),
    ] {
        let expected = format!("the advisory key `{key}` {why}");
        assert_eq!(error(Dialect::Postgres, key), expected);
    }
    assert!(error(Dialect::Postgres, "{}").starts_with("`` is no identifier"));
    assert!(error(Dialect::MySql, "a\\b").contains("backslash"));
    let both = small().advisory_lock("a").locked_until("until");
    assert!(both.validate(Dialect::Postgres).is_err());
    assert_eq!(small().form(), Form::RowLock);
    assert_eq!(small().locked_until("until").form(), Form::Lease);
    assert_eq!(small().advisory_lock("a").form(), Form::Advisory);
}
