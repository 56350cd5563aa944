//! Attacks by clients of the HTTP gateway.

mod batches;
mod capability_tokens;
mod changed_uploads;
mod crowds;
mod ended_runs;
mod foreign_connections;
mod foreign_decisions;
mod foreign_runs;
mod foreign_sessions;
mod forged_keys;
mod half_messages;
mod half_upgrades;
mod key_timing;
mod narrowed_keys;
mod odd_frames;
mod odd_paths;
mod origins;
mod pings;
mod replaced_keys;
mod revoked_keys;
mod slow_bodies;
mod slow_frames;
mod smuggled;
mod sockets;
mod tenant_claims;
mod tokens;
mod unread_answers;

super::on_fleet!(
    "gateway": batches, capability_tokens, changed_uploads, crowds, ended_runs, foreign_connections, foreign_decisions, foreign_runs,
    foreign_sessions, forged_keys, half_messages, half_upgrades, key_timing, narrowed_keys, odd_frames,
    odd_paths, origins, pings, replaced_keys, revoked_keys, slow_bodies, slow_frames, smuggled, sockets, tenant_claims, tokens, unread_answers,
);
