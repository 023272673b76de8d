//! A throwaway PgBouncer in front of a throwaway PostgreSQL.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::user::User;
use super::{PostgresServer, ServerError, Supervised, provisioned};
use crate::directory::PrivateDirectory;
use crate::postgres::PostgresTarget;

/// Names the program, before every other place.
const PROGRAM_VARIABLE: &str = "ROWLOCK_PGBOUNCER";

/// How long it may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A PgBouncer in transaction mode. It is stopped and removed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    // The pooler before the server that it is in front of.
    process: Supervised,
    server: Arc<PostgresServer>,
}

impl PgBouncer {
    /// Starts the pooler in front of `server`, with `size` server connections a database, on each of
    /// which `prepare` is run when it is opened (SQL; empty: nothing).
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(
        server: Arc<PostgresServer>,
        size: u8,
        prepare: &str,
    ) -> Result<PgBouncer, ServerError> {
        let program = program().ok_or_else(not_installed)?;
        let directory = PrivateDirectory::create("pgb")
            .map_err(ServerError::system("create a temporary directory"))?;
        // The user of PostgreSQL: its socket is in a directory that nobody else may enter.
        let user = User::for_server(directory.path(), &["postgres"])
            .map_err(ServerError::system("find an unprivileged user"))?;
        user.own(directory.path())
            .map_err(ServerError::system("give a directory away"))?;
        let file = directory.path().join("pgbouncer.ini");
        let text = configuration(directory.path(), server.directory(), size, prepare);
        std::fs::write(&file, text).map_err(ServerError::system("write a configuration"))?;
        user.own(&file)
            .map_err(ServerError::system("give a file away"))?;
        let arguments: [&OsStr; 1] = [file.as_os_str()];
        let process = Supervised::start(&program, &arguments, "INT", &user, directory)?;
        let pooler = PgBouncer { process, server };
        pooler.wait_until_ready()?;
        Ok(pooler)
    }

    fn wait_until_ready(&self) -> Result<(), ServerError> {
        let started = Instant::now();
        let socket = self.process.directory.path().join(".s.PGSQL.5432");
        while UnixStream::connect(&socket).is_err() {
            let log = self.process.log_tail();
            if log.contains("FATAL") || started.elapsed() > START_TIMEOUT {
                return Err(ServerError::Failed {
                    program: "pgbouncer".to_owned(),
                    log,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// A database of the server, by way of the pooler, as superuser.
    pub fn target(&self, database: &str) -> PostgresTarget {
        PostgresTarget::on_socket(self.process.directory.path(), "postgres", database)
    }

    /// The server behind it.
    pub fn server(&self) -> &Arc<PostgresServer> {
        &self.server
    }
}

/// Whether there is one that could be started here.
pub fn pgbouncer_installed() -> bool {
    program().is_some()
}

fn not_installed() -> ServerError {
    ServerError::NotInstalled(format!(
        "PgBouncer 1.21 or newer is not installed: no `pgbouncer` in ${PROGRAM_VARIABLE}, on the PATH, in \
         /usr/sbin, or where ./provision puts it; on Debian: ./provision pgbouncer"
    ))
}

/// The first program that keeps the prepared statements of its clients apart (1.21 and newer):
/// older ones cannot be used with arguments at all.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join("pgbouncer"));
    let fetched = provisioned().map(|tree| tree.join("usr/sbin/pgbouncer"));
    let mut all = named.into_iter().chain(installed).chain(fetched);
    all.find(|program| program.is_file() && is_new_enough(program))
}

fn is_new_enough(program: &Path) -> bool {
    let Ok(output) = Command::new(program).arg("--version").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(1), Some(21))
}

fn configuration(directory: &Path, server: &Path, size: u8, prepare: &str) -> String {
    let connect = match prepare.is_empty() {
        true => String::new(),
        false => format!(" connect_query='{}'", prepare.replace('\'', "''")),
    };
    format!(
        "[databases]\n\
         * = host={server} port=5432 user=postgres{connect}\n\
         [pgbouncer]\n\
         listen_addr =\n\
         listen_port = 5432\n\
         unix_socket_dir = {directory}\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = {size}\n\
         max_client_conn = 200\n\
         max_prepared_statements = 100\n\
         ignore_startup_parameters = extra_float_digits,options\n\
         server_lifetime = 86400\n\
         server_idle_timeout = 0\n\
         server_check_delay = 86400\n\
         query_wait_timeout = 60\n",
        server = server.display(),
        directory = directory.display(),
    )
}
