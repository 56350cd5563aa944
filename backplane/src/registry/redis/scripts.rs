//! The scripts: one for each call of the trait, each behind the same beginning.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!(include_str!("lua/common.lua"), "\n", include_str!($file))));)+
    };
}

scripts! {
    ADMIT = "lua/admit.lua";
    START = "lua/start.lua";
    FINISH = "lua/finish.lua";
    RESOLVE = "lua/resolve.lua";
    SETTLE = "lua/settle.lua";
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
}

/// The one that makes what the others begin with.
pub(super) static EPOCH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/epoch.lua")));
