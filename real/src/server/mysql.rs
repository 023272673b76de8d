//! Throwaway MySQL and MariaDB.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rowlock_model::Dialect;

use super::user::User;
use super::{Installed, ServerError, Supervised, from_template, run_tool, template_name};
use crate::directory::PrivateDirectory;
use crate::mysql::MySqlTarget;

/// How long the server may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Where packages put servers, besides the PATH.
const DIRECTORIES: &[&str] = &[
    "/usr/sbin",
    "/usr/libexec",
    "/usr/local/sbin",
    "/usr/local/mysql/bin",
    "/opt/homebrew/bin",
];

/// Which of the two relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Oracle's.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Flavour {
    /// The database, as scenarios name it.
    pub fn dialect(self) -> Dialect {
        match self {
            Flavour::MySql => Dialect::MySql,
            Flavour::MariaDb => Dialect::MariaDb,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Flavour::MySql => "MySQL",
            Flavour::MariaDb => "MariaDB",
        }
    }

    /// The program; MariaDB also answers to the old name.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Flavour::MySql => &["mysqld"],
            Flavour::MariaDb => &["mariadbd", "mysqld"],
        }
    }

    /// Names the directory with the program, before every other place.
    fn directory_variable(self) -> &'static str {
        match self {
            Flavour::MySql => "ROWLOCK_MYSQL_BIN",
            Flavour::MariaDb => "ROWLOCK_MARIADB_BIN",
        }
    }

    fn not_installed(self, version: Option<&str>) -> ServerError {
        let package = match self {
            Flavour::MySql => "mysql-server-core",
            Flavour::MariaDb => "mariadb-server-core",
        };
        let version = version.map_or(String::new(), |v| format!(" {v}"));
        ServerError::NotInstalled(format!(
            "{}{version} is not installed: no such `{}` on the PATH, in /usr/sbin, in ${}, or where \
             ./provision puts it; on Debian: ./provision, or apt-get install {package}",
            self.name(),
            self.programs()[0],
            self.directory_variable()
        ))
    }
}

/// A running MySQL or MariaDB that nobody else uses. It is stopped and removed when dropped.
#[derive(Debug)]
pub struct MySqlServer {
    process: Supervised,
}

impl MySqlServer {
    /// Starts the preferred installed version.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(flavour: Flavour) -> Result<MySqlServer, ServerError> {
        MySqlServer::start_version(flavour, None)
    }

    /// Starts an installed version: `11.8` is any 11.8.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start_version(
        flavour: Flavour,
        version: Option<&str>,
    ) -> Result<MySqlServer, ServerError> {
        MySqlServer::start_with(flavour, version, &[])
    }

    /// The same with more options of the server (`--innodb-lock-wait-timeout=1`).
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start_with(
        flavour: Flavour,
        version: Option<&str>,
        options: &[String],
    ) -> Result<MySqlServer, ServerError> {
        let found = programs(flavour)
            .into_iter()
            .find(|(_, found)| version.is_none_or(|wanted| is_version(found, wanted)));
        let (program, version) = found.ok_or_else(|| flavour.not_installed(version))?;
        let directory = PrivateDirectory::create("my")
            .map_err(ServerError::system("create a temporary directory"))?;
        let user = User::for_server(directory.path(), &["mysql"])
            .map_err(ServerError::system("find an unprivileged user"))?;
        user.own(directory.path())
            .map_err(ServerError::system("give a directory away"))?;
        let data = directory.path().join("data");
        let name = template_name(flavour.dialect().name(), &(&program, version));
        from_template(&name, &data, &user, || {
            initialise(flavour, &program, &data, &directory, &user)
        })?;
        let option = |name: &str, value: &Path| {
            let mut option = OsString::from(format!("--{name}="));
            option.push(value);
            option
        };
        let mut arguments: Vec<OsString> = vec!["--no-defaults".into()];
        arguments.extend([
            option("datadir", &data),
            option("socket", &directory.path().join("s")),
            option("pid-file", &directory.path().join("pid")),
            option("tmpdir", directory.path()),
            option("secure-file-priv", Path::new("")),
        ]);
        for fixed in [
            "--skip-networking",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
            "--default-time-zone=+00:00",
            // Where metadata locks and user locks are seen; MariaDB has it switched off.
            "--performance-schema=ON",
            "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON",
        ] {
            arguments.push(fixed.into());
        }
        if flavour == Flavour::MySql {
            arguments.push("--mysqlx=OFF".into());
        }
        arguments.extend(options.iter().map(OsString::from));
        let arguments: Vec<_> = arguments.iter().map(OsString::as_os_str).collect();
        // KILL: an orderly end takes seconds, and the data is not needed any more.
        let process = Supervised::start(&program, &arguments, "KILL", &user, directory)?;
        let server = MySqlServer { process };
        server.wait_until_ready(flavour)?;
        Ok(server)
    }

    fn wait_until_ready(&self, flavour: Flavour) -> Result<(), ServerError> {
        let started = Instant::now();
        // It listens a little before it is ready, and then writes its process id.
        let pid_file = self.process.directory.path().join("pid");
        while !pid_file.exists() || UnixStream::connect(self.socket()).is_err() {
            let log = self.process.log_tail();
            if log.contains("[ERROR]") || started.elapsed() > START_TIMEOUT {
                return Err(ServerError::Failed {
                    program: flavour.programs()[0].to_owned(),
                    log,
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.process.directory.path().join("s")
    }

    /// This server, as superuser, in no database.
    pub fn target(&self) -> MySqlTarget {
        MySqlTarget::on_socket(self.socket(), "root")
    }

    /// The directory of the server, with its socket and its log. It goes with the server.
    pub fn directory(&self) -> &Path {
        self.process.directory.path()
    }
}

/// Makes a data directory whose superuser is `root` without a password; nobody else reaches it.
fn initialise(
    flavour: Flavour,
    program: &Path,
    data: &Path,
    directory: &PrivateDirectory,
    user: &User,
) -> Result<(), ServerError> {
    let mut command = match flavour {
        Flavour::MySql => {
            let mut command = Command::new(program);
            command.args(["--no-defaults", "--initialize-insecure"]);
            command
        }
        Flavour::MariaDb => {
            let script = install_script(program);
            let mut command = Command::new(&script);
            command.args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]);
            // Beside it is everything else that it needs.
            if let Some(base) = script.parent().and_then(Path::parent)
                && script.is_absolute()
            {
                command.arg(format!("--basedir={}", base.display()));
            }
            command
        }
    };
    command
        .arg(format!("--datadir={}", data.display()))
        .current_dir(directory.path());
    run_tool(command, user, &directory.path().join("init.log"))
}

/// The script that comes with MariaDB: beside the server, or on the PATH.
fn install_script(program: &Path) -> PathBuf {
    let directory = program.parent().unwrap_or(Path::new(""));
    ["", "../bin", "../scripts"]
        .iter()
        .map(|relative| directory.join(relative).join("mariadb-install-db"))
        .find(|script| script.is_file())
        .and_then(|script| script.canonicalize().ok())
        .unwrap_or_else(|| PathBuf::from("mariadb-install-db"))
}

/// The programs found, each with its version.
fn programs(flavour: Flavour) -> Vec<(PathBuf, String)> {
    let mut directories: Vec<PathBuf> = Vec::new();
    directories.extend(std::env::var_os(flavour.directory_variable()).map(PathBuf::from));
    if let Some(path) = std::env::var_os("PATH") {
        directories.extend(std::env::split_paths(&path));
    }
    directories.extend(DIRECTORIES.iter().map(PathBuf::from));
    directories.extend(super::provisioned().map(|server| server.join("usr/sbin")));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for directory in directories {
        for name in flavour.programs() {
            let program = directory.join(name);
            if !program.is_file() {
                continue;
            }
            let real = program.canonicalize().unwrap_or_else(|_| program.clone());
            if !seen.insert(real) {
                continue;
            }
            if let Some(version) = version(&program, flavour) {
                found.push((program, version));
            }
        }
    }
    found
}

/// `10.11.14`, from `mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (...)`;
/// nothing if the program is of the other flavour.
fn version(program: &Path, flavour: Flavour) -> Option<String> {
    let output = Command::new(program)
        .args(["--no-defaults", "--version"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    if text.contains("MariaDB") != (flavour == Flavour::MariaDb) {
        return None;
    }
    let mut words = text.split_whitespace().skip_while(|word| *word != "Ver");
    let number = words.nth(1)?.split('-').next()?;
    Some(number.to_owned())
}

/// Whether a version (`11.8.9`) is the one that was asked for (`11.8`, `11`, `11.8.9`).
fn is_version(found: &str, wanted: &str) -> bool {
    let rest = found.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Every MySQL and MariaDB found.
pub(super) fn installed() -> Vec<Installed> {
    [Flavour::MySql, Flavour::MariaDb]
        .into_iter()
        .flat_map(|flavour| {
            programs(flavour)
                .into_iter()
                .map(move |(program, version)| Installed {
                    dialect: flavour.dialect(),
                    version: format!("{} {version}", flavour.name()),
                    directory: program.parent().map(Path::to_owned),
                })
        })
        .collect()
}
