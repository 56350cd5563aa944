//! Attacks by clients of the HTTP gateway.

mod capability_tokens;
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
mod revoked_keys;
mod slow_bodies;
mod slow_frames;
mod smuggled;
mod sockets;
mod tenant_claims;
mod tokens;

super::on_fleet!(
    "gateway": capability_tokens, crowds, ended_runs, foreign_connections, foreign_decisions, foreign_runs,
    foreign_sessions, forged_keys, half_messages, half_upgrades, key_timing, narrowed_keys, odd_frames,
    odd_paths, origins, pings, revoked_keys, slow_bodies, slow_frames, smuggled, sockets, tenant_claims, tokens,
);
