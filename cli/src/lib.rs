//! The `thermae` program as a library: what its commands, the load tests and the end-to-end tests share.
