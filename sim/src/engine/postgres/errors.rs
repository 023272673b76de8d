//! PostgreSQL's errors, word for word: SQLSTATE, message, DETAIL and constraint name as a server of
//! version 15 sends them. One function an error, so that a wording exists in one place.

use std::fmt::Display;

use rowlock_model::DbError;

/// 40001 of an UPDATE, DELETE or row lock that meets a version newer than its snapshot.
pub(crate) fn concurrent_update() -> DbError {
    DbError::postgres(
        "40001",
        "could not serialize access due to concurrent update",
    )
}

/// 40001 of an UPDATE or DELETE whose row was deleted after its snapshot. (A row lock on such a row
/// says "update".)
pub(crate) fn concurrent_delete() -> DbError {
    DbError::postgres(
        "40001",
        "could not serialize access due to concurrent delete",
    )
}

fn dependencies(reason: String) -> DbError {
    DbError::postgres(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
    )
    .with_detail(format!("Reason code: {reason}"))
}

/// 40001 of SERIALIZABLE: the transaction itself is the pivot, found out during `what`.
pub(crate) fn serialization_pivot(what: &str) -> DbError {
    dependencies(format!(
        "Canceled on identification as a pivot, during {what}."
    ))
}

/// 40001 of SERIALIZABLE: the reader has met a pivot that has committed already.
pub(crate) fn serialization_old_pivot(xid: u32) -> DbError {
    dependencies(format!(
        "Canceled on conflict out to pivot {xid}, during read."
    ))
}

/// 40001 of SERIALIZABLE: at a commit, the pivot is prepared already.
pub(crate) fn serialization_prepared_pivot() -> DbError {
    dependencies("Canceled on commit attempt with conflict in from prepared pivot.".to_owned())
}

/// 40P01, with the edges of the cycle as DETAIL.
pub(crate) fn deadlock_detected(detail: String) -> DbError {
    DbError::postgres("40P01", "deadlock detected").with_detail(detail)
}

/// 55P03 of `NOWAIT` on a row.
pub(crate) fn row_lock_not_available(table: &str) -> DbError {
    DbError::postgres(
        "55P03",
        format!("could not obtain lock on row in relation \"{table}\""),
    )
}

/// 55P03 of `LOCK TABLE ... NOWAIT`.
pub(crate) fn table_lock_not_available(table: &str) -> DbError {
    DbError::postgres(
        "55P03",
        format!("could not obtain lock on relation \"{table}\""),
    )
}

/// 55P03 after `lock_timeout`.
pub(crate) fn lock_timeout() -> DbError {
    DbError::postgres("55P03", "canceling statement due to lock timeout")
}

/// 57014 after `statement_timeout`.
pub(crate) fn statement_timeout() -> DbError {
    DbError::postgres("57014", "canceling statement due to statement timeout")
}

/// 57014 after `pg_cancel_backend`.
pub(crate) fn cancelled_by_user() -> DbError {
    DbError::postgres("57014", "canceling statement due to user request")
}

/// 57P01: `pg_terminate_backend`, or a kill from outside.
pub(crate) fn terminated() -> DbError {
    DbError::postgres(
        "57P01",
        "terminating connection due to administrator command",
    )
}

/// 25P03 after `idle_in_transaction_session_timeout`.
pub(crate) fn idle_in_transaction_timeout() -> DbError {
    DbError::postgres(
        "25P03",
        "terminating connection due to idle-in-transaction timeout",
    )
}

/// 57P05 after `idle_session_timeout`.
pub(crate) fn idle_session_timeout() -> DbError {
    DbError::postgres(
        "57P05",
        "terminating connection due to idle-session timeout",
    )
}

/// 25P02: everything but the end of the transaction is refused after an error.
pub(crate) fn transaction_aborted() -> DbError {
    DbError::postgres(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// 25006: `command` (a tag such as `INSERT`) in a read-only transaction.
pub(crate) fn read_only_transaction(command: &str) -> DbError {
    DbError::postgres(
        "25006",
        format!("cannot execute {command} in a read-only transaction"),
    )
}

/// 25P01: `what` (`SAVEPOINT`, `LOCK TABLE`, ...) outside a transaction block.
pub(crate) fn only_in_transaction_block(what: &str) -> DbError {
    DbError::postgres(
        "25P01",
        format!("{what} can only be used in transaction blocks"),
    )
}

/// 25001: `what` inside a transaction block.
pub(crate) fn not_in_transaction_block(what: &str) -> DbError {
    DbError::postgres(
        "25001",
        format!("{what} cannot run inside a transaction block"),
    )
}

/// 25001: the isolation level is changed after the first query.
pub(crate) fn isolation_after_query() -> DbError {
    DbError::postgres(
        "25001",
        "SET TRANSACTION ISOLATION LEVEL must be called before any query",
    )
}

/// 25001: the isolation level is changed in a subtransaction.
pub(crate) fn isolation_in_subtransaction() -> DbError {
    DbError::postgres(
        "25001",
        "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
    )
}

/// 25001: a read-only transaction is made writable after its first snapshot.
pub(crate) fn read_write_after_query() -> DbError {
    DbError::postgres(
        "25001",
        "transaction read-write mode must be set before any query",
    )
}

/// 25001: a read-only transaction is made writable in a subtransaction.
pub(crate) fn read_write_inside_read_only() -> DbError {
    DbError::postgres(
        "25001",
        "cannot set transaction read-write mode inside a read-only transaction",
    )
}

/// 3B001: the savepoint does not exist.
pub(crate) fn no_savepoint(name: &str) -> DbError {
    DbError::postgres("3B001", format!("savepoint \"{name}\" does not exist"))
}

/// 23502: `row` is the failing row as the server prints it, without parentheses.
pub(crate) fn not_null(table: &str, column: &str, row: &str) -> DbError {
    DbError::postgres(
        "23502",
        format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        ),
    )
    .with_detail(format!("Failing row contains ({row})."))
}

/// 23514: `row` is the failing row as the server prints it, without parentheses.
pub(crate) fn check(table: &str, constraint: &str, row: &str) -> DbError {
    DbError::postgres(
        "23514",
        format!("new row for relation \"{table}\" violates check constraint \"{constraint}\""),
    )
    .with_detail(format!("Failing row contains ({row})."))
    .with_constraint(constraint)
}

/// 23505: `columns` and `values` are comma-separated lists.
pub(crate) fn unique(constraint: &str, columns: &str, values: &str) -> DbError {
    DbError::postgres(
        "23505",
        format!("duplicate key value violates unique constraint \"{constraint}\""),
    )
    .with_detail(format!("Key ({columns})=({values}) already exists."))
    .with_constraint(constraint)
}

/// 23505 of `CREATE UNIQUE INDEX` on a table with duplicates.
pub(crate) fn unique_build(index: &str, columns: &str, values: &str) -> DbError {
    DbError::postgres(
        "23505",
        format!("could not create unique index \"{index}\""),
    )
    .with_detail(format!("Key ({columns})=({values}) is duplicated."))
    .with_constraint(index)
}

/// 23503 of the referencing side: the parent does not exist.
pub(crate) fn foreign_key_missing(
    table: &str,
    constraint: &str,
    columns: &str,
    values: &str,
    parent: &str,
) -> DbError {
    DbError::postgres(
        "23503",
        format!(
            "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\""
        ),
    )
    .with_detail(format!(
        "Key ({columns})=({values}) is not present in table \"{parent}\"."
    ))
    .with_constraint(constraint)
}

/// 23503 of the referenced side: a child still points at the row.
pub(crate) fn foreign_key_still_referenced(
    parent: &str,
    constraint: &str,
    columns: &str,
    values: &str,
    child: &str,
) -> DbError {
    DbError::postgres(
        "23503",
        format!(
            "update or delete on table \"{parent}\" violates foreign key constraint \"{constraint}\" on table \"{child}\""
        ),
    )
    .with_detail(format!(
        "Key ({columns})=({values}) is still referenced from table \"{child}\"."
    ))
    .with_constraint(constraint)
}

/// 21000: ON CONFLICT DO UPDATE meets a row that the same command has inserted or updated.
pub(crate) fn upsert_twice() -> DbError {
    DbError::postgres(
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
}

/// 21000: a scalar sub-select returned more than one row.
pub(crate) fn more_than_one_row() -> DbError {
    DbError::postgres(
        "21000",
        "more than one row returned by a subquery used as an expression",
    )
}

/// 27000: the row was changed by a trigger or foreign key action of the current command itself.
pub(crate) fn modified_by_current_command(verb: &str) -> DbError {
    DbError::postgres(
        "27000",
        format!(
            "tuple to be {verb} was already modified by an operation triggered by the current command"
        ),
    )
}

/// 42P01: the table does not exist.
pub(crate) fn undefined_table(name: &str) -> DbError {
    DbError::postgres("42P01", format!("relation \"{name}\" does not exist"))
}

/// 42809: the relation is no sequence.
pub(crate) fn not_a_sequence(name: &str) -> DbError {
    DbError::postgres("42809", format!("\"{name}\" is not a sequence"))
}

/// 42501: the role may not do this with a `kind` of thing.
pub(crate) fn permission_denied(kind: &str, name: &str) -> DbError {
    DbError::postgres("42501", format!("permission denied for {kind} {name}"))
}

/// 42704: no such role.
pub(crate) fn undefined_role(name: &str) -> DbError {
    DbError::postgres("42704", format!("role \"{name}\" does not exist"))
}

/// 42P07: the relation exists already.
pub(crate) fn duplicate_table(name: &str) -> DbError {
    DbError::postgres("42P07", format!("relation \"{name}\" already exists"))
}

/// 42704: no such setting.
pub(crate) fn unknown_setting(name: &str) -> DbError {
    DbError::postgres(
        "42704",
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// 22023: the value does not suit the setting.
pub(crate) fn invalid_setting(name: &str, value: impl Display) -> DbError {
    DbError::postgres(
        "22023",
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// 2200H: the sequence has no next value.
pub(crate) fn sequence_exhausted(name: &str, maximum: i64) -> DbError {
    DbError::postgres(
        "2200H",
        format!("nextval: reached maximum value of sequence \"{name}\" ({maximum})"),
    )
}

/// 55000: `currval` before the first `nextval` of the session.
pub(crate) fn currval_undefined(name: &str) -> DbError {
    DbError::postgres(
        "55000",
        format!("currval of sequence \"{name}\" is not yet defined in this session"),
    )
}

/// 55000: `lastval` before the first `nextval` of the session.
pub(crate) fn lastval_undefined() -> DbError {
    DbError::postgres("55000", "lastval is not yet defined in this session")
}

/// 23503 of `MATCH FULL`.
pub(crate) fn foreign_key_mixed_nulls(table: &str, constraint: &str) -> DbError {
    DbError::postgres(
        "23503",
        format!(
            "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\""
        ),
    )
    .with_detail("MATCH FULL does not allow mixing of null and nonnull key values.")
    .with_constraint(constraint)
}

/// 2201W, 2201X: a negative `LIMIT` or `OFFSET` (`what`).
pub(crate) fn negative_count(what: &str) -> DbError {
    DbError::postgres(
        if what == "LIMIT" { "2201W" } else { "2201X" },
        format!("{what} must not be negative"),
    )
}

/// 2200H: a descending sequence has no next value.
pub(crate) fn sequence_ran_down(name: &str, minimum: i64) -> DbError {
    DbError::postgres(
        "2200H",
        format!("nextval: reached minimum value of sequence \"{name}\" ({minimum})"),
    )
}

/// 25001: deferrability is changed in a subtransaction.
pub(crate) fn deferrable_in_subtransaction() -> DbError {
    DbError::postgres(
        "25001",
        "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
    )
}

/// 25001: deferrability is changed after the first query.
pub(crate) fn deferrable_after_query() -> DbError {
    DbError::postgres(
        "25001",
        "SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
    )
}

/// 42704: no such constraint.
pub(crate) fn undefined_constraint(name: &str) -> DbError {
    DbError::postgres("42704", format!("constraint \"{name}\" does not exist"))
}

/// What `NOTIFY` refuses: no channel, a long name, a long payload.
///
/// # Errors
/// 22023.
pub(crate) fn check_notification(channel: &str, payload: &str) -> Result<(), DbError> {
    let message = match (channel.len(), payload.len()) {
        (0, _) => "channel name cannot be empty",
        (64.., _) => "channel name too long",
        (_, 8000..) => "payload string too long",
        _ => return Ok(()),
    };
    Err(DbError::postgres("22023", message))
}

/// 55000: `ON CONFLICT` without a target on a table with a deferrable unique constraint.
pub(crate) fn deferrable_arbiter() -> DbError {
    DbError::postgres(
        "55000",
        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
    )
}

/// 42809: the constraint cannot be deferred.
pub(crate) fn constraint_not_deferrable(name: &str) -> DbError {
    DbError::postgres("42809", format!("constraint \"{name}\" is not deferrable"))
}

/// 22023: the identifier of a transaction to be prepared.
pub(crate) fn long_identifier(identifier: &str) -> DbError {
    DbError::postgres(
        "22023",
        format!("transaction identifier \"{identifier}\" is too long"),
    )
}

/// 42710: a transaction is prepared under this identifier already.
pub(crate) fn identifier_in_use(identifier: &str) -> DbError {
    DbError::postgres(
        "42710",
        format!("transaction identifier \"{identifier}\" is already in use"),
    )
}

/// 53200: `max_prepared_transactions`.
pub(crate) fn too_many_prepared() -> DbError {
    DbError::postgres("53200", "maximum number of prepared transactions reached")
}

/// 0A000: what a transaction says to others cannot be prepared.
pub(crate) fn prepare_with_notifications() -> DbError {
    DbError::postgres(
        "0A000",
        "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY",
    )
}

/// 0A000: an advisory key is locked at session level and at transaction level.
pub(crate) fn prepare_with_both_locks() -> DbError {
    DbError::postgres(
        "0A000",
        "cannot PREPARE while holding both session-level and transaction-level locks on the same object",
    )
}

/// 42704: no transaction is prepared under this identifier.
pub(crate) fn not_prepared(identifier: &str) -> DbError {
    DbError::postgres(
        "42704",
        format!("prepared transaction with identifier \"{identifier}\" does not exist"),
    )
}

/// 26000: no such prepared statement.
pub(crate) fn undefined_prepared(name: &str) -> DbError {
    DbError::postgres(
        "26000",
        format!("prepared statement \"{name}\" does not exist"),
    )
}

/// 42601: `EXECUTE` with fewer arguments than the statement has parameters.
pub(crate) fn wrong_parameter_count(name: &str) -> DbError {
    DbError::postgres(
        "42601",
        format!("wrong number of parameters for prepared statement \"{name}\""),
    )
}

/// 2F005: a function in PL/pgSQL came to its end.
pub(crate) fn no_return() -> DbError {
    DbError::postgres("2F005", "control reached end of function without RETURN")
}

/// 0A000: what `refused` says about a read-only transaction, about a function that is not volatile.
pub(crate) fn not_in_stable(refused: &DbError) -> DbError {
    let command = refused
        .message
        .strip_prefix("cannot execute ")
        .and_then(|m| m.strip_suffix(" in a read-only transaction"))
        .unwrap_or("this command");
    DbError::postgres(
        "0A000",
        format!("{command} is not allowed in a non-volatile function"),
    )
}

/// 0A000: `ON CONFLICT DO UPDATE` would take the row into another partition.
pub(crate) fn upsert_moves() -> DbError {
    DbError::postgres("0A000", "invalid ON UPDATE specification").with_detail(
        "The result tuple would appear in a different partition than the original tuple.",
    )
}

/// 40001: the row is in another partition now.
pub(crate) fn moved_to_another_partition() -> DbError {
    DbError::postgres(
        "40001",
        "tuple to be locked was already moved to another partition due to concurrent update",
    )
}
