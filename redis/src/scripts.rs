//! The scripts: one for each call of the trait. All begin with `common.lua`. If an answer may lead to a message about a
//! job, it also tells who has taken the job's run over: the script is then a function that `with_taker` is applied to.
//!
//! When Redis has reached its `maxmemory`, it refuses a script unless the script has the flag `allow-oom`. New jobs are
//! refused this way. Jobs under way must end, so all other steps go on. A step that ends a job has two scripts for
//! that. The first keeps the outcome and has no flag. If Redis is full and refuses it, the second one runs, which has
//! the flag and keeps only the tombstone. The scripts of all other steps have the flag.

use std::sync::LazyLock;

use redis::Script;

macro_rules! script {
    ($flags:literal, $full:literal, $file:literal) => {
        script!($flags, $full, "", $file, "")
    };
    ($flags:literal, $full:literal, $before:literal, $file:literal, $after:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(
                "#!lua",
                $flags,
                "\nlocal full = ",
                $full,
                "\n",
                include_str!("lua/common.lua"),
                "\n",
                $before,
                include_str!($file),
                $after
            ))
        })
    };
}

macro_rules! telling {
    ($flags:literal, $full:literal, $file:literal) => {
        script!($flags, $full, "local function step()\n", $file, "end\nreturn with_taker(step())\n")
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
            whole: telling!("", "false", $file),
            bare: telling!(" flags=allow-oom", "true", $file),
        };)+
    };
}

scripts! {
    TAKE_OVER = "lua/take_over.lua";
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
    COUNT = "lua/count.lua";
}

endings! {
    FINISH = "lua/finish.lua";
    RESOLVE = "lua/resolve.lua";
    END_UNSTARTED = "lua/end_unstarted.lua";
}

/// Starts jobs.
pub(super) static START: LazyLock<Script> = telling!(" flags=allow-oom", "false", "lua/start.lua");

/// Admits new jobs.
pub(super) static ADMIT: LazyLock<Script> = script!("", "false", "lua/admit.lua");

/// Makes the epoch, which all other scripts need. It does not begin with `common.lua`.
pub(super) static EPOCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!("#!lua flags=allow-oom\n", include_str!("lua/epoch.lua"))));
