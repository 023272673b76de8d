//! Which tests of a pooler can run here.

use libtest_mimic::Trial;
use rowlock_real::server::pgbouncer_installed;

/// Ignores a test that needs a pooler, if it does and there is none, as [`needs`](crate::needs::needs) does.
pub(crate) fn needs_pooler(trial: Trial, is_needed: bool) -> Trial {
    if !is_needed || pgbouncer_installed() {
        return trial;
    }
    let required = std::env::var_os("ROWLOCK_REQUIRE_LIVE").is_some_and(|v| v != "0");
    trial
        .with_kind("PgBouncer is not installed: see ./provision")
        .with_ignored_flag(!required)
}
