//! One contract, two kinds of store: SQLite and Postgres.
//!
//! `suite.rs` is written against the trait and runs on each. `faults.rs` is about stores that are away or damaged. The
//! tests on Postgres need a server, which `cargo xtask test` starts and names in the environment. Without it, they fail
//! and say so.

#![allow(unreachable_pub, reason = "nothing outside a test program can use it")]

mod faults;
mod proxy;
mod suite;
mod support;

macro_rules! suite {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                crate::suite::$name(crate::support::Place::file()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                crate::suite::$name(crate::support::Place::database().await).await;
            })+
        }
    };
}

suite! {
    an_entry_is_found_as_it_was_written
    one_id_has_one_entry
    a_list_goes_on_where_it_ended
    a_key_is_revoked_once_and_only_by_its_tenant
    a_use_is_noted_unless_a_late_one_is
    gateways_share_what_they_know
    many_at_once_lose_nothing
    the_tables_are_made_once
    a_newer_release_leaves_the_store_usable
    a_damaged_entry_is_an_error
    no_secret_is_stored
}
