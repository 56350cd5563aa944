//! Attacks by clients of the HTTP gateway.

mod ended_runs;
mod foreign_runs;
mod foreign_sessions;
mod odd_paths;
mod slow_bodies;
mod sockets;
mod tokens;

super::on_fleet!("gateway": ended_runs, foreign_runs, foreign_sessions, odd_paths, slow_bodies, sockets, tokens);
