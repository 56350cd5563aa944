//! What every long-running process of the fleet has: configuration, logs, traces, a health and metrics endpoint, signals.

