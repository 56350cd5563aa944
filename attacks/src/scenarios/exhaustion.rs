//! Attacks by a tenant that takes all of something. Another tenant must still be served.

mod backlog;
mod control_floods;
mod deaf_sessions;
mod followers;
mod lanes;
mod outcomes;
mod queues;
mod refused_replies;
mod sessions;
mod slots;

super::on_fleet!("exhaustion":
    backlog, control_floods, deaf_sessions, followers, lanes, outcomes, queues, refused_replies, sessions, slots,
);
