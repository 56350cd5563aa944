//! The scripts: one for each call of the trait. All begin with `common.lua`.
//!
//! When Redis has reached its `maxmemory`, it refuses a script unless the script has the flag `allow-oom`. New jobs are
//! refused this way. Jobs under way must end, so all other steps go on. A step that ends a job has two scripts for
//! that. The first keeps the outcome and has no flag. If Redis is full and refuses it, the second one runs, which has
//! the flag and keeps only the tombstone. The scripts of all other steps have the flag.

use std::sync::LazyLock;

use redis::Script;

macro_rules! script {
    ($flags:literal, $full:literal, $file:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(
                "#!lua",
                $flags,
                "\nlocal full = ",
                $full,
                "\n",
                include_str!("lua/common.lua"),
                "\n",
                include_str!($file)
            ))
        })
    };
}

/// The two forms of a step that ends a job.
pub(super) struct Ending {
    /// Keeps the outcome. Refused when Redis is full.
    pub(super) whole: LazyLock<Script>,
    /// Keeps only the tombstone.
    pub(super) bare: LazyLock<Script>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {
        $(pub(super) static $name: LazyLock<Script> = script!(" flags=allow-oom", "false", $file);)+
    };
}

macro_rules! endings {
    ($($name:ident = $file:literal;)+) => {
        $(pub(super) static $name: Ending = Ending {
            whole: script!("", "false", $file),
            bare: script!(" flags=allow-oom", "true", $file),
        };)+
    };
}

scripts! {
    START = "lua/start.lua";
    ABANDON = "lua/abandon.lua";
    LOOKUP = "lua/lookup.lua";
    HEARTBEAT = "lua/heartbeat.lua";
    LEAVE = "lua/leave.lua";
    WORKERS = "lua/workers.lua";
    BURY = "lua/bury.lua";
    END_SESSION = "lua/end_session.lua";
    SESSION_HOLDER = "lua/session_holder.lua";
    LEAD = "lua/lead.lua";
    CREDIT = "lua/credit.lua";
    CHECK = "lua/check.lua";
    SHELVE = "lua/shelve.lua";
    SPENT = "lua/spent.lua";
}

endings! {
    FINISH = "lua/finish.lua";
    RESOLVE = "lua/resolve.lua";
    END_UNSTARTED = "lua/end_unstarted.lua";
}

/// Admits new jobs.
pub(super) static ADMIT: LazyLock<Script> = script!("", "false", "lua/admit.lua");

/// Makes the epoch, which all other scripts need. It does not begin with `common.lua`.
pub(super) static EPOCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!("#!lua flags=allow-oom\n", include_str!("lua/epoch.lua"))));
