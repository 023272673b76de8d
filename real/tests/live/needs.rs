//! Which tests can run here.

use libtest_mimic::Trial;
use rowlock_model::Dialect;
use rowlock_real::server::Installed;

/// Ignores a test whose server is not installed, and says so in its line; with
/// `ROWLOCK_REQUIRE_LIVE=1` it runs, and fails, all the same.
pub(crate) fn needs(trial: Trial, dialect: Dialect, found: &[Installed]) -> Trial {
    if found.iter().any(|server| server.dialect == dialect) {
        return trial;
    }
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    trial
        .with_kind(format!("{dialect} is not installed: see ./provision"))
        .with_ignored_flag(!required)
}
