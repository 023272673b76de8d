//! Numbers that a server gives by itself. Their values are nobody's business, so the simulator takes
//! them from ranges that data hardly has by chance: a replay can tell what they are, and compares
//! them by what they stand for.

use std::ops::Range;

use rowlock_model::Dialect;
use rowlock_model::schedule::Schedule;
use rowlock_scenarios::replay::numbers_in;
use rowlock_scenarios::stage::Numbered;

/// Process ids of PostgreSQL: the last ones that Linux gives (`pid_max` is 4,194,304).
pub(crate) const POSTGRES_PROCESS: Range<i64> = 4_190_001..4_190_257;

/// Transaction ids of PostgreSQL.
pub(crate) const POSTGRES_TRANSACTION: Range<i64> = 3_041_000_001..3_042_000_000;

/// Connection ids of MySQL and MariaDB.
pub(crate) const INNODB_PROCESS: Range<i64> = 4_191_001..4_191_257;

/// Threads of MySQL's performance schema, each the server's side of a connection.
pub(crate) const INNODB_THREAD: Range<i64> = 4_192_001..4_192_257;

/// Transaction ids of InnoDB.
pub(crate) const INNODB_TRANSACTION: Range<i64> = 4_193_001..4_193_257;

/// What a number in a reply stands for, if the simulated server gave it by itself.
pub fn numbered(dialect: Dialect, number: i64) -> Option<Numbered> {
    let (processes, transactions): (&[Range<i64>], _) = match dialect {
        Dialect::Postgres => (&[POSTGRES_PROCESS], POSTGRES_TRANSACTION),
        Dialect::MySql | Dialect::MariaDb => (&[INNODB_PROCESS, INNODB_THREAD], INNODB_TRANSACTION),
        Dialect::Sqlite => return None,
    };
    if processes.iter().any(|range| range.contains(&number)) {
        return Some(Numbered::Process);
    }
    transactions
        .contains(&number)
        .then_some(Numbered::Transaction)
}

/// The numbers of a simulated schedule that are others on a server.
pub fn numbers_of(dialect: Dialect, schedule: &Schedule) -> Vec<(Numbered, i64)> {
    numbers_in(&schedule.events, |number| numbered(dialect, number))
}
