//! Calls of functions, aggregates and window functions.

use rowlock_model::{DbError, Dialect};

use super::Lowering;
use super::aggregate::aggregate_kind;
use super::rules::{self, Typed};
use crate::loose::ast::{Call, Node};
use crate::loose::errors;
use crate::loose::expr::{AggregateKind, Expr, HostFunction};
use crate::loose::function::Function;
use crate::loose::query::Kind;
use crate::loose::types::DeclaredType;

impl Lowering<'_> {
    pub(super) fn call(&mut self, call: &Call, node: &Node) -> Result<Typed, DbError> {
        let name = call.name.name.to_ascii_uppercase();
        if let Some(over) = &call.over {
            return self.window(call, &name, over, node.at);
        }
        let several = call.args.len() > 1;
        // ANY_VALUE is no aggregate: outside of groups it is the value itself.
        let alone = name == "ANY_VALUE"
            && (self.levels.is_empty() || self.level().no_aggregates || !self.level().grouped);
        if let Some(kind) = aggregate_kind(&name, self.dialect)
            && !alone
            && !(several && matches!(kind, AggregateKind::Min | AggregateKind::Max))
        {
            return self.aggregate_call(call, kind, node.at);
        }
        if call.star || call.distinct || !call.order.is_empty() || call.separator.is_some() {
            return errors::unsupported("this form of a call", call.name.at);
        }
        if call.filter.is_some() {
            return errors::unsupported("FILTER of a function that is no aggregate", call.name.at);
        }
        if let Some(host) = self.host_call(call, &name, node.at)? {
            return Ok(host);
        }
        let args = call
            .args
            .iter()
            .map(|arg| self.expr(arg))
            .collect::<Result<Vec<_>, _>>()?;
        self.pure_call(&name, args, call)
    }

    pub(super) fn wrong_count(&self, call: &Call) -> DbError {
        let name = &call.name.name;
        errors::either(
            self.dialect,
            1582,
            "42000",
            format!("Incorrect parameter count in the call to native function '{name}'"),
            format!("wrong number of arguments to function {name}()"),
        )
        .at(call.name.at)
    }

    fn host_call(&mut self, call: &Call, name: &str, at: usize) -> Result<Option<Typed>, DbError> {
        use HostFunction as H;
        let fsp = match call.args.first().map(|arg| &arg.kind) {
            Some(crate::loose::ast::NodeKind::Integer(text)) => text.parse().unwrap_or(0),
            _ => 0,
        };
        let count = call.args.len();
        let dialect = self.dialect;
        let maria = dialect == Dialect::MariaDb;
        let plain = |kind| rules::plain(kind, dialect);
        let text = |chars| rules::text(chars, dialect);
        let int = |chars| rules::int(chars, dialect);
        let clock = |fsp| {
            let mut ty = rules::plain(Kind::DateTime(fsp), dialect);
            if self.clock_is_timestamp() {
                ty.declared = Some(DeclaredType::Timestamp(fsp));
            }
            ty
        };
        let (function, ty, most) = match (name, self.is_sqlite()) {
            ("NOW" | "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP", false) => {
                (H::Now, clock(fsp), 1)
            }
            ("SYSDATE", false) => (H::Sysdate, clock(fsp), 1),
            ("CURDATE" | "CURRENT_DATE", false) => (H::CurrentDate, plain(Kind::Date), 0),
            ("CURTIME" | "CURRENT_TIME", false) => (H::CurrentTime, plain(Kind::Time(fsp)), 1),
            ("UTC_TIMESTAMP", false) => (H::UtcTimestamp, plain(Kind::DateTime(fsp)), 1),
            ("UNIX_TIMESTAMP", false) if count == 0 => {
                (H::UnixTimestamp, rules::integer(false, 16, 17, dialect), 0)
            }
            ("LAST_INSERT_ID", false) => (H::LastInsertId, plain(Kind::Unsigned), 1),
            ("LAST_INSERT_ROWID", true) => (H::LastInsertId, plain(Kind::Any), 0),
            ("ROW_COUNT", false) => (H::RowCount, plain(Kind::Int), 0),
            ("CHANGES", true) => (H::RowCount, plain(Kind::Any), 0),
            ("TOTAL_CHANGES", true) => (H::TotalChanges, plain(Kind::Any), 0),
            ("CONNECTION_ID", false) => {
                let mut ty = plain(Kind::Unsigned);
                if maria {
                    ty.width.bytes = 4;
                }
                (H::ConnectionId, ty, 0)
            }
            ("DATABASE" | "SCHEMA", false) => (H::Database, text(64), 0),
            ("USER" | "CURRENT_USER" | "SESSION_USER", false) => (H::User, text(288), 0),
            ("VERSION", false) | ("SQLITE_VERSION", true) => (H::Version, text(60), 0),
            ("UUID", false) => {
                let mut ty = text(36);
                if maria {
                    ty.declared = Some(DeclaredType::Char(36));
                }
                (H::Uuid, ty, 0)
            }
            ("RAND", false) => (H::Random, plain(Kind::Double), 1),
            ("RANDOM", true) => (H::Random, plain(Kind::Any), 0),
            ("GET_LOCK", false) => (H::GetLock, int(1), 2),
            ("RELEASE_LOCK", false) => (H::ReleaseLock, int(1), 1),
            ("RELEASE_ALL_LOCKS", false) => {
                let mut ty = plain(Kind::Unsigned);
                if maria {
                    ty.width.bytes = 4;
                }
                (H::ReleaseAllLocks, ty, 0)
            }
            ("IS_FREE_LOCK", false) => (H::IsFreeLock, int(1), 1),
            ("IS_USED_LOCK", false) => {
                let ty = match maria {
                    true => int(10),
                    false => plain(Kind::Unsigned),
                };
                (H::IsUsedLock, ty, 1)
            }
            ("SLEEP", false) => (H::Sleep, int(1), 1),
            ("FOUND_ROWS", false) => (H::FoundRows, plain(Kind::Int), 0),
            ("CURRENT_TIMESTAMP" | "CURRENT_DATE" | "CURRENT_TIME", true) => {
                let function = match name {
                    "CURRENT_TIMESTAMP" => Function::SqliteDateTime,
                    "CURRENT_DATE" => Function::SqliteDate,
                    _ => Function::SqliteTime,
                };
                let args = vec![julian_now()];
                return Ok(Some(self.plain(
                    Expr::Call { function, args },
                    Kind::Any,
                    at,
                )));
            }
            _ => return Ok(None),
        };
        let least = match function {
            H::GetLock => 2,
            H::ReleaseLock | H::IsFreeLock | H::IsUsedLock | H::Sleep => 1,
            _ => 0,
        };
        if count > most || count < least {
            return Err(self.wrong_count(call));
        }
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.expr(arg)?.expr);
        }
        Ok(Some(self.typed(Expr::Host { function, args }, ty, at)))
    }
}

pub(super) fn julian_now() -> Expr {
    Expr::Host {
        function: HostFunction::JulianNow,
        args: Vec::new(),
    }
}
