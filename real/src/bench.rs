//! A live PostgreSQL as a [`Bench`] for isolation specs.
//!
//! Requests go out through sqlx; what the server answers is read from the record of its messages
//! ([`crate::tap`]), as text and as it comes, so that notices are told before the reply they precede.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_model::{Isolation, Notice};
use rowlock_scenarios::spec::{Bench, Notification, Refusal, Rest, Results, Seat, Table};
use rowlock_scenarios::stage::StageError;
use tokio::runtime::Runtime;

use crate::postgres::{PostgresLink, RawLink, message};
use crate::server::PostgresServer;
use crate::stage::{DeadlockTimeouts, failed, failure, postgres::PostgresStage, runtime};
use crate::target::Target;

/// How long a query may run that nobody under test blocks.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How often the server is asked who is blocked.
const POLL: Duration = Duration::from_millis(10);

/// What the suite's own driver sets for the database.
const SETTINGS: &str = "SET DateStyle = 'Postgres, MDY'; SET TimeZone = 'America/Los_Angeles'; \
    SET IntervalStyle = 'postgres_verbose'; SET bytea_output = 'hex'; RESET extra_float_digits";

/// A bench on a live server. Everything that it started is gone when dropped.
#[derive(Debug)]
pub struct LiveBench {
    // Before the runtime: sessions and servers go first.
    seats: Vec<Place>,
    watcher: Option<PostgresLink>,
    stage: PostgresStage,
    isolation: Option<Isolation>,
    runtime: Runtime,
}

/// A connection.
#[derive(Debug)]
struct Place {
    link: RawLink,
    busy: bool,
    done: bool,
    results: Results,
    columns: Option<Table>,
    notices: Vec<Notice>,
    notifications: Vec<message::Notified>,
}

impl LiveBench {
    /// A bench on a throwaway server, or on a database that is marked as disposable.
    ///
    /// # Errors
    /// It is not a PostgreSQL, does not start or cannot be reached, or the database is not marked.
    pub fn open(target: &Target, isolation: Option<Isolation>) -> Result<LiveBench, StageError> {
        let runtime = runtime()?;
        let timeouts = DeadlockTimeouts::default();
        let stage = match target {
            Target::Postgres => {
                let server = PostgresServer::start().map_err(|e| failure(e.to_string()))?;
                runtime.block_on(PostgresStage::on_server(Arc::new(server), timeouts))?
            }
            Target::PostgresUrl(target) => {
                runtime.block_on(PostgresStage::on_url(target, timeouts))?
            }
            Target::MySql(..) | Target::MySqlUrl(..) | Target::Sqlite(_) => {
                return Err(failure("isolation specs run on PostgreSQL only"));
            }
        };
        Ok(LiveBench {
            seats: Vec::new(),
            watcher: None,
            stage,
            isolation,
            runtime,
        })
    }

    /// Reads what the server has sent to a connection.
    fn read(&mut self, seat: Seat) -> Result<(), StageError> {
        let place = &mut self.seats[seat];
        // Before the messages: a connection that has ended sends no more of them.
        let ended = place.link.ended();
        for message in place.link.take() {
            place.take(&message);
        }
        if ended && place.busy && !place.done {
            place.done = true;
            if place.results.error.is_none() {
                return Err(failure(format!("connection {seat} was lost")));
            }
        }
        Ok(())
    }

    fn is_blocked(&mut self, seat: Seat) -> Result<bool, StageError> {
        let pids: Vec<String> = self.seats[1..]
            .iter()
            .map(|place| place.link.pid().to_string())
            .collect();
        let sql = format!(
            "SELECT pg_catalog.pg_isolation_test_session_is_blocked({}, '{{{}}}')",
            self.seats[seat].link.pid(),
            pids.join(",")
        );
        let Some(watcher) = &mut self.watcher else {
            return Err(failure("the bench is not open"));
        };
        let reply = self
            .runtime
            .block_on(crate::session::Link::exec(watcher, &sql, &[]))
            .map_err(failed("cannot ask the server who is blocked"))?;
        Ok(reply.scalar().and_then(|v| v.as_bool()).unwrap_or(false))
    }
}

impl Place {
    fn take(&mut self, message: &message::Message) {
        match message.raw() {
            message::Raw::Columns(columns) => {
                self.columns = Some(Table {
                    columns,
                    rows: Vec::new(),
                });
            }
            message::Raw::Row(row) => {
                if let Some(table) = &mut self.columns {
                    table.rows.push(row);
                }
            }
            message::Raw::Complete => self.results.tables.extend(self.columns.take()),
            message::Raw::Error { severity, message } => {
                // Rows that came before the error are not shown.
                self.columns = None;
                self.results.error = Some(Refusal {
                    severity,
                    message,
                    is_unsupported: false,
                });
            }
            message::Raw::Notice(notice) => self.notices.push(notice),
            message::Raw::Notified(notified) => self.notifications.push(notified),
            message::Raw::Ready => self.done = true,
            message::Raw::Other => {}
        }
    }
}

impl Bench for LiveBench {
    fn open(&mut self, names: &[String]) -> Result<(), StageError> {
        self.seats.clear();
        self.watcher = None;
        self.runtime.block_on(self.stage.reset(&[]))?;
        for name in names {
            let mut target = self.stage.target().with_application_name(name);
            if let Some(isolation) = self.isolation {
                target = target.with_isolation(isolation);
            }
            let link = self.runtime.block_on(async {
                let mut link = target.connect().await?;
                let batch = crate::session::Link::batch(&mut link, SETTINGS).await?;
                match batch.error {
                    Some(error) => Err(error),
                    None => Ok(link.into_raw()),
                }
            });
            let link = link.map_err(failed(&format!("`{name}` cannot connect")))?;
            self.seats.push(Place {
                link,
                busy: false,
                done: false,
                results: Results::default(),
                columns: None,
                notices: Vec::new(),
                notifications: Vec::new(),
            });
        }
        let watcher = self.stage.target().with_application_name("rowlock watcher");
        let watcher = self.runtime.block_on(watcher.connect());
        self.watcher = Some(watcher.map_err(failed("cannot connect"))?);
        Ok(())
    }

    fn send(&mut self, seat: Seat, sql: &str) -> Result<(), StageError> {
        self.read(seat)?;
        let place = &mut self.seats[seat];
        if place.busy {
            return Err(failure(format!("connection {seat} is busy")));
        }
        place.busy = true;
        place.done = false;
        place.results = Results::default();
        place.columns = None;
        place.link.send(sql);
        Ok(())
    }

    fn wait(&mut self, seat: Seat, patient: bool) -> Result<Rest, StageError> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.runtime.block_on(self.seats[seat].link.changed(POLL));
            self.read(seat)?;
            if self.seats[seat].done {
                return Ok(Rest::Finished);
            }
            if !patient && self.is_blocked(seat)? {
                // It may have been answered since it was looked at.
                self.read(seat)?;
                return Ok(match self.seats[seat].done {
                    true => Rest::Finished,
                    false => Rest::Blocked,
                });
            }
            if Instant::now() > deadline {
                let seconds = TIMEOUT.as_secs();
                return Ok(Rest::Stuck(format!("was not answered within {seconds} s")));
            }
        }
    }

    fn results(&mut self, seat: Seat) -> Result<Results, StageError> {
        let place = &mut self.seats[seat];
        if !(place.busy && place.done) {
            return Err(failure("there is no answer"));
        }
        place.busy = false;
        Ok(std::mem::take(&mut place.results))
    }

    fn notices(&mut self, seat: Seat) -> Vec<Notice> {
        std::mem::take(&mut self.seats[seat].notices)
    }

    fn notifications(&mut self, seat: Seat) -> Vec<Notification> {
        let taken = std::mem::take(&mut self.seats[seat].notifications);
        let seat_of = |pid: i32| self.seats.iter().position(|place| place.link.pid() == pid);
        let notification = |notified: message::Notified| Notification {
            from: seat_of(notified.pid).ok_or(notified.pid.into()),
            channel: notified.channel,
            payload: notified.payload,
        };
        taken.into_iter().map(notification).collect()
    }
}
