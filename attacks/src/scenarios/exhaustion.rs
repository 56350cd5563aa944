//! A tenant that takes all there is: another one is still served.

mod backlog;
mod control_floods;
mod followers;
mod lanes;
mod outcomes;
mod queues;
mod refused_replies;
mod sessions;
mod slots;

super::on_fleet!("exhaustion":
    backlog, control_floods, followers, lanes, outcomes, queues, refused_replies, sessions, slots,
);
