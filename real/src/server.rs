//! Throwaway servers: started from installed binaries, private, and gone afterwards.
//!
//! A server gets a directory of its own below the system's temporary directory and listens on a
//! socket in it and nowhere else. It never runs as root: started by root, it runs as `postgres`,
//! `mysql` or `nobody`. A small shell between us and the server reads from a pipe whose other end
//! we hold: however we end, `kill -9` included, the pipe closes, and the shell stops the server
//! and removes its directory.

mod mysql;
mod pgbouncer;
mod postgres;
mod user;

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rowlock_model::Dialect;

use crate::directory::PrivateDirectory;
use user::User;

pub use mysql::{Flavour, MySqlServer};
pub use pgbouncer::{PgBouncer, pgbouncer_installed};
pub use postgres::PostgresServer;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No binaries; how to get them.
    #[error("{0}")]
    NotInstalled(String),
    /// Something in the file system or with processes.
    #[error("cannot {action}: {cause}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// The server refused to start, or a tool of it failed; with the end of its log.
    #[error("{program} failed: {log}")]
    Failed {
        /// Which program.
        program: String,
        /// The last lines that it wrote.
        log: String,
    },
}

impl ServerError {
    fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServerError {
        let action = action.into();
        |cause| ServerError::System { action, cause }
    }
}

/// A server that could be started here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Which database.
    pub dialect: Dialect,
    /// Its name and version: `PostgreSQL 15.18`.
    pub version: String,
    /// The directory of its binaries; `None` for what is built in.
    pub directory: Option<PathBuf>,
}

/// Every server that a run could use, the preferred one of each database first.
pub fn installed() -> Vec<Installed> {
    let mut found = postgres::installed();
    found.extend(mysql::installed());
    found.push(Installed {
        dialect: Dialect::Sqlite,
        version: "SQLite (built in)".to_owned(),
        directory: None,
    });
    found
}

/// The folders of servers that `./provision` unpacked, in order of their names.
fn provisioned() -> impl Iterator<Item = PathBuf> {
    let variable = std::env::var_os("ROWLOCK_SERVERS").map(PathBuf::from);
    let places = match variable {
        Some(place) => vec![place],
        None => {
            let ours = cache_directory().map(|cache| cache.join("servers"));
            let of_root = PathBuf::from("/var/cache/rowlock/servers");
            ours.into_iter().chain([of_root]).collect()
        }
    };
    let mut found: Vec<PathBuf> = places
        .iter()
        .filter_map(|place| std::fs::read_dir(place).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|server| server.join("complete").exists())
        .collect();
    found.sort();
    found.into_iter()
}

/// The top of a tree of tests (`mysql-tests`, `mariadb-tests`) that `./provision` fetched.
pub fn test_tree(name: &str) -> Option<PathBuf> {
    let tree = provisioned().find(|place| place.file_name() == Some(OsStr::new(name)))?;
    ["usr/lib/mysql-test", "usr/share/mysql/mysql-test"]
        .iter()
        .map(|top| tree.join(top))
        .find(|top| top.is_dir())
}

/// The server's process, under the care of a shell.
#[derive(Debug)]
struct Supervised {
    /// The shell. Dropping its standard input makes it stop the server.
    shell: Child,
    log: PathBuf,
    directory: PrivateDirectory,
}

/// Starts "$@", waits until standard input ends, stops the server with signal $signal, and removes
/// $directory. The shell has a process group of its own, so that Ctrl-C in a terminal reaches us
/// and not the server, which then goes down in order.
const SUPERVISOR: &str = r#"
trap '' INT HUP TERM
"$@" </dev/null >>"$log" 2>&1 &
server=$!
read -r _
kill -s "$signal" "$server" 2>/dev/null
wait "$server"
cd / && rm -rf "$directory"
"#;

impl Supervised {
    /// Starts `program` as `user`, with `directory` as its own.
    fn start(
        program: &Path,
        arguments: &[&OsStr],
        signal: &str,
        user: &User,
        directory: PrivateDirectory,
    ) -> Result<Supervised, ServerError> {
        let log = directory.path().join("log");
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SUPERVISOR, "rowlock-server"])
            .arg(program)
            .args(arguments)
            .env("log", &log)
            .env("signal", signal)
            .env("directory", directory.path())
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        user.apply(&mut command);
        let shell = command
            .spawn()
            .map_err(ServerError::system("start a server"))?;
        Ok(Supervised {
            shell,
            log,
            directory,
        })
    }

    /// The last lines of the server's log.
    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Runs a tool of a server to its end.
fn run_tool(mut command: Command, user: &User, log: &Path) -> Result<(), ServerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = File::create(log).map_err(ServerError::system("write a log file"))?;
    let errors = output
        .try_clone()
        .map_err(ServerError::system("write a log file"))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    user.apply(&mut command);
    let status = command
        .status()
        .map_err(ServerError::system(format!("run {program}")))?;
    if status.success() {
        return Ok(());
    }
    let log = std::fs::read_to_string(log).unwrap_or_default();
    Err(ServerError::Failed { program, log })
}

/// Fills a data directory: with a copy of one that was made earlier, or with `make`.
fn from_template(
    name: &str,
    data: &Path,
    user: &User,
    make: impl FnOnce() -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    let template = cache_directory().map(|cache| cache.join(name));
    if let Some(template) = template.as_ref().filter(|t| t.is_dir()) {
        if copy_tree(template, data, user).is_ok() {
            return Ok(());
        }
        let _ = std::fs::remove_dir_all(data);
    }
    make()?;
    if let Some(template) = template {
        // Without a cache the next start takes a second longer, nothing else.
        let _ = keep_template(data, &template);
    }
    Ok(())
}

/// Copies under a name of its own and renames: others never see half a template.
fn keep_template(data: &Path, template: &Path) -> io::Result<()> {
    let Some(parent) = template.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(parent)?;
    let partial = template.with_extension(std::process::id().to_string());
    let copied = copy_tree(data, &partial, &User::OURSELVES)
        .and_then(|()| std::fs::rename(&partial, template));
    if copied.is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
    copied
}

/// Versions and installations do not share a template; `key` tells them apart.
fn template_name(kind: &str, key: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    format!("{kind}-{:016x}", hasher.finish())
}

/// Copies a directory tree, and gives the copy to `user`.
fn copy_tree(from: &Path, to: &Path, user: &User) -> io::Result<()> {
    std::fs::create_dir(to)?;
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    user.own(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target, user)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
            user.own(&target)?;
        }
    }
    Ok(())
}

/// Where templates of data directories are kept between runs, if there is a place.
fn cache_directory() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) if !cache.is_empty() => PathBuf::from(cache),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    base.is_absolute().then(|| base.join("rowlock"))
}
