//! The scripts: one for each call of the trait, each behind the same beginning.
//!
//! When Redis has used its `maxmemory`, it refuses a script unless the script says `allow-oom`. New jobs are refused so, and those
//! under way must end: every step but the admission goes on. A step that ends a job has two forms. The first keeps the outcome
//! and is refused when Redis is full; the second, run in its place then, keeps only the tombstone.

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

/// A step that ends a job.
pub(super) struct Ending {
    /// Keeps the outcome; refused when Redis is full.
    pub(super) whole: LazyLock<Script>,
    /// Keeps the tombstone alone.
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
    LEAD = "lua/lead.lua";
    CREDIT = "lua/credit.lua";
    CHECK = "lua/check.lua";
    SHELVE = "lua/shelve.lua";
    SPENT = "lua/spent.lua";
}

endings! {
    FINISH = "lua/finish.lua";
    RESOLVE = "lua/resolve.lua";
    SETTLE = "lua/settle.lua";
}

/// The one that takes new jobs on.
pub(super) static ADMIT: LazyLock<Script> = script!("", "false", "lua/admit.lua");

/// The one that makes what the others begin with.
pub(super) static EPOCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!("#!lua flags=allow-oom\n", include_str!("lua/epoch.lua"))));
