//! As whom a server runs: never as root.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user and group of a server, where they differ from our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User(Option<(u32, u32)>);

impl User {
    /// No other than we are.
    pub(super) const OURSELVES: User = User(None);

    /// Ourselves, or, if we are root, the first of `names` that exists, or `nobody`. `ours` is a
    /// file or directory that we created: who owns it is who we are.
    pub(super) fn for_server(ours: &Path, names: &[&str]) -> io::Result<User> {
        if std::fs::metadata(ours)?.uid() != 0 {
            return Ok(User(None));
        }
        let accounts = std::fs::read_to_string("/etc/passwd")?;
        names
            .iter()
            .chain(&["nobody"])
            .find_map(|name| account(&accounts, name))
            .map(|ids| User(Some(ids)))
            .ok_or_else(|| io::Error::other("no unprivileged user to run a server as"))
    }

    /// Makes a command run as this user.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.0 {
            command.uid(uid).gid(gid);
        }
    }

    /// Gives a file or directory to this user.
    pub(super) fn own(&self, path: &Path) -> io::Result<()> {
        match self.0 {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

/// The ids of an account that is not root.
fn account(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok().filter(|uid| *uid != 0)?;
    Some((uid, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_never_chosen() {
        let passwd = "root:x:0:0::/:/bin/sh\npostgres:x:0:0::/:/bin/sh\nnobody:x:65534:65533:::\n";
        assert_eq!(account(passwd, "postgres"), None);
        assert_eq!(account(passwd, "nobody"), Some((65534, 65533)));
    }
}
