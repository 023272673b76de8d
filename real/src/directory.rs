//! Private directories.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that only this user can enter, removed when dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Creates one with a short path, as socket names must be.
    pub(crate) fn create(kind: &str) -> io::Result<PrivateDirectory> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut parent = std::env::temp_dir();
        // The name of a Unix socket has room for about 100 bytes.
        if parent.as_os_str().len() > 50 {
            parent = PathBuf::from("/tmp");
        }
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("rowlock-{kind}-{}-{number}", std::process::id()));
            let mut builder = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(PrivateDirectory(path)),
                // Left by a process of the same number, or somebody else's: never used.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
