//! One job through random sequences of crashes, redeliveries, delays, duplicates, lost replies, pauses and emptied
//! registries.

mod happenings;
mod world;

use proptest::prelude::*;

use happenings::{Happening, Stamp, happening, stamp};
use world::World;

fn run(max_attempts: u32, stamp: Stamp, happenings: &[Happening]) {
    let empties = happenings.iter().any(|happening| matches!(happening, Happening::Empty));
    let mut world = World::new(max_attempts, empties, stamp);
    for happening in happenings {
        world.step(*happening);
    }
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn one_outcome_whatever_fails(
        max in 1u32..4,
        stamp in stamp(),
        happenings in prop::collection::vec(happening(false), 0..60),
    ) {
        run(max, stamp, &happenings);
    }

    #[test]
    fn code_that_may_start_once_never_starts_twice_even_when_the_registry_is_emptied(
        max in 1u32..4,
        stamp in stamp(),
        happenings in prop::collection::vec(happening(true), 0..60),
    ) {
        run(max, stamp, &happenings);
    }
}
