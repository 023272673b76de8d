//! Throwaway PostgreSQL.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rowlock_model::Dialect;

use super::user::User;
use super::{Installed, ServerError, Supervised, from_template, run_tool, template_name};
use crate::directory::PrivateDirectory;
use crate::postgres::PostgresTarget;

/// Names the directory with `postgres` and `initdb`, before every other place.
const DIRECTORY_VARIABLE: &str = "ROWLOCK_POSTGRES_BIN";

/// The superuser of throwaway servers.
const SUPERUSER: &str = "postgres";

/// How long the server may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Where packages put their versions, each with the binaries in `bin` below it.
const VERSIONED: &[&str] = &[
    "/usr/lib/postgresql",
    "/usr/local/lib/postgresql",
    "/opt/homebrew/opt",
    "/usr/local/opt",
    "/usr",
];

/// Settings of every throwaway server: nothing has to survive, and nothing happens by itself.
const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "jit=off",
    "max_connections=100",
    "max_prepared_transactions=10",
    "shared_buffers=32MB",
    "TimeZone=UTC",
    "log_timezone=UTC",
    "logging_collector=off",
];

/// A running PostgreSQL that nobody else uses. It is stopped and removed when dropped.
#[derive(Debug)]
pub struct PostgresServer {
    process: Supervised,
    databases: AtomicU32,
}

impl PostgresServer {
    /// Starts the preferred installed version.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn start() -> Result<PostgresServer, ServerError> {
        let binaries = directories().into_iter().next().ok_or_else(not_installed)?;
        PostgresServer::start_from(&binaries)
    }

    /// Starts the version whose binaries are in `binaries`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_from(binaries: &Path) -> Result<PostgresServer, ServerError> {
        let directory = PrivateDirectory::create("pg")
            .map_err(ServerError::system("create a temporary directory"))?;
        let user = User::for_server(directory.path(), &["postgres"])
            .map_err(ServerError::system("find an unprivileged user"))?;
        user.own(directory.path())
            .map_err(ServerError::system("give a directory away"))?;
        let data = directory.path().join("data");
        let name = template_name("postgres", &(binaries, version(binaries), SUPERUSER));
        from_template(&name, &data, &user, || {
            initdb(binaries, &data, &directory, &user)
        })?;
        let socket_setting = format!("unix_socket_directories={}", directory.path().display());
        let mut arguments = vec![OsStr::new("-D"), data.as_os_str()];
        for setting in SETTINGS.iter().copied().chain([socket_setting.as_str()]) {
            arguments.extend([OsStr::new("-c"), OsStr::new(setting)]);
        }
        let program = binaries.join("postgres");
        // QUIT: stop at once; the data is not needed any more.
        let process = Supervised::start(&program, &arguments, "QUIT", &user, directory)?;
        let server = PostgresServer {
            process,
            databases: AtomicU32::new(0),
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The postmaster writes `ready` into the last line of its pid file when it accepts sessions.
    fn wait_until_ready(&self) -> Result<(), ServerError> {
        let pid_file = self.process.directory.path().join("data/postmaster.pid");
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if text.lines().last().is_some_and(|l| l.trim() == "ready") {
                return Ok(());
            }
            let log = self.process.log_tail();
            if log.contains("FATAL") || started.elapsed() > START_TIMEOUT {
                return Err(ServerError::Failed {
                    program: "postgres".to_owned(),
                    log,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A database of this server, as superuser.
    pub fn target(&self, database: &str) -> PostgresTarget {
        PostgresTarget::on_socket(self.process.directory.path(), SUPERUSER, database)
    }

    /// A name for a database that no other stage on this server uses: `rowlock`, `rowlock_2`, ...
    pub(crate) fn fresh_database_name(&self) -> String {
        match self.databases.fetch_add(1, Ordering::Relaxed) {
            0 => "rowlock".to_owned(),
            n => format!("rowlock_{}", n + 1),
        }
    }

    /// The directory of the server, with its socket and its log. It goes with the server.
    pub fn directory(&self) -> &Path {
        self.process.directory.path()
    }
}

fn not_installed() -> ServerError {
    ServerError::NotInstalled(format!(
        "PostgreSQL is not installed: no `postgres` and `initdb` on the PATH, below \
         /usr/lib/postgresql, or in ${DIRECTORY_VARIABLE}; on Debian: apt-get install postgresql"
    ))
}

/// Makes a data directory.
fn initdb(
    binaries: &Path,
    data: &Path,
    directory: &PrivateDirectory,
    user: &User,
) -> Result<(), ServerError> {
    let mut initdb = Command::new(binaries.join("initdb"));
    initdb
        .arg("-D")
        .arg(data)
        .args(["-A", "trust", "-U", SUPERUSER, "-N", "-E", "UTF8"])
        .arg("--locale=C")
        .current_dir(directory.path());
    run_tool(initdb, user, &directory.path().join("initdb.log"))
}

/// `15.18`, from `postgres (PostgreSQL) 15.18 (Debian ...)`.
fn version(binaries: &Path) -> Option<String> {
    let output = Command::new(binaries.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let number = text.split_whitespace().nth(2)?;
    Some(number.to_owned())
}

/// The directories that hold a server: the variable, the PATH, then packages, newest first.
fn directories() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |directory: PathBuf| {
        let complete = ["postgres", "initdb"]
            .iter()
            .all(|program| directory.join(program).is_file());
        if complete {
            // Links to one installation are one.
            let program = directory.join("postgres");
            let real = program.canonicalize().unwrap_or(program);
            if seen.insert(real) {
                found.push(directory);
            }
        }
    };
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
        add(PathBuf::from(directory));
    }
    if let Some(path) = std::env::var_os("PATH") {
        std::env::split_paths(&path).for_each(&mut add);
    }
    let mut packaged: Vec<(u32, PathBuf)> = VERSIONED
        .iter()
        .filter_map(|parent| std::fs::read_dir(parent).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let number = name
                .trim_start_matches("postgresql@")
                .trim_start_matches("pgsql-");
            Some((number.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    packaged.sort();
    packaged
        .into_iter()
        .rev()
        .map(|(_, directory)| directory)
        .chain([PathBuf::from("/usr/local/pgsql/bin")])
        .for_each(add);
    found
}

/// Every PostgreSQL found, the preferred one first.
pub(super) fn installed() -> Vec<Installed> {
    directories()
        .into_iter()
        .map(|directory| Installed {
            dialect: Dialect::Postgres,
            version: match version(&directory) {
                Some(number) => format!("PostgreSQL {number}"),
                None => "PostgreSQL (version unknown)".to_owned(),
            },
            directory: Some(directory),
        })
        .collect()
}
