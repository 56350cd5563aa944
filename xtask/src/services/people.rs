//! `services up|down|status`, for people.
