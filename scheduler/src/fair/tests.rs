use std::cell::Cell;
use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

fn drain(fair: &mut Fair<u32, u32>, n: usize) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| fair.pop().map(|p| (p.tenant, p.item))).take(n).collect()
}

#[test]
fn weights_share_a_saturated_queue_one_to_three() {
    let mut fair = Fair::default();
    for item in 0..400 {
        fair.push(&1, 1, Class::Normal, item);
        fair.push(&3, 3, Class::Normal, item);
    }
    let served = drain(&mut fair, 400);
    let light = served.iter().filter(|(tenant, _)| *tenant == 1).count();
    assert!((99..=101).contains(&light), "{light}");
}

#[test]
fn a_tenant_that_was_idle_neither_catches_up_nor_waits() {
    let mut fair = Fair::default();
    for item in 0..100 {
        fair.push(&1, 1, Class::Normal, item);
    }
    drain(&mut fair, 50);
    for item in 0..100 {
        fair.push(&2, 1, Class::Normal, item);
    }
    let next: Vec<u32> = drain(&mut fair, 20).into_iter().map(|(tenant, _)| tenant).collect();
    let new = next.iter().filter(|t| **t == 2).count();
    assert!((9..=11).contains(&new), "{next:?}");
}

#[test]
fn one_who_comes_back_at_once_has_not_shed_what_it_took() {
    let mut fair = Fair::default();
    fair.push(&1, 1, Class::Normal, 0);
    fair.push(&2, 1, Class::Normal, 0);
    assert_eq!(fair.pop().unwrap().tenant, 1);
    fair.push(&1, 1, Class::Normal, 1);
    assert_eq!(fair.pop().unwrap().tenant, 2);
}

#[test]
fn one_who_is_served_out_of_turn_pays_for_it() {
    let mut fair = Fair::default();
    let tickets: Vec<Ticket> = (0..4).map(|item| fair.push(&1, 1, Class::Normal, item)).collect();
    for item in 0..4 {
        fair.push(&2, 1, Class::Normal, item);
    }
    fair.block(&1);
    let popped = fair.pop_out_of_turn(&1, Class::Normal, tickets[2]).unwrap();
    assert_eq!((popped.item, fair.len()), (2, 7));
    assert!(fair.pop_out_of_turn(&1, Class::Normal, tickets[2]).is_none());
    assert_eq!(fair.pop().unwrap().tenant, 2, "the other one is still blocked");
    fair.unblock(&1);
    assert_eq!(drain(&mut fair, 4), [(1, 0), (2, 1), (1, 1), (2, 2)]);
    // Put back: it waits where it was, and costs nothing.
    fair.unpop(1, popped);
    assert_eq!(drain(&mut fair, 4), [(1, 2), (1, 3), (2, 3)]);
}

#[test]
fn urgent_goes_first_and_nothing_starves() {
    let mut fair = Fair::default();
    for item in 0..100 {
        for class in Class::ALL {
            fair.push(&1, 1, class, item);
        }
    }
    let classes: Vec<Class> = std::iter::from_fn(|| fair.pop().map(|p| p.class)).take(64).collect();
    assert!(classes[..15].iter().all(|c| *c == Class::High));
    for class in Class::ALL {
        let longest = classes.split(|c| *c == class).map(<[Class]>::len).max().unwrap();
        assert!(longest as u32 <= MAX_PASSED_OVER + 2, "{class:?} waited for {longest}");
    }
    assert!(classes.iter().filter(|c| **c == Class::High).count() >= 54);
}

#[test]
fn what_is_put_back_is_next_and_costs_nothing() {
    let mut fair = Fair::default();
    for item in 0..10 {
        fair.push(&1, 1, Class::Normal, item);
        fair.push(&2, 1, Class::Normal, 100 + item);
    }
    let (a, b, c) = (fair.pop().unwrap(), fair.pop().unwrap(), fair.pop().unwrap());
    assert_eq!((a.item, b.item, c.item), (0, 100, 1));
    // In another order than that in which they were taken.
    fair.unpop(1, c);
    fair.unpop(1, a);
    fair.unpop(1, b);
    assert_eq!(drain(&mut fair, 4).into_iter().map(|(_, i)| i).collect::<Vec<_>>(), [0, 100, 1, 101]);
}

#[test]
fn a_blocked_tenant_is_left_out_and_keeps_its_place() {
    let mut fair = Fair::default();
    for item in 0..4 {
        fair.push(&1, 1, Class::Normal, item);
        fair.push(&2, 1, Class::Normal, 100 + item);
    }
    fair.block(&1);
    assert_eq!(drain(&mut fair, 10).len(), 4);
    assert_eq!(fair.len(), 4);
    fair.unblock(&1);
    assert_eq!(drain(&mut fair, 10).into_iter().map(|(_, i)| i).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn removal_is_exact() {
    let mut fair = Fair::default();
    let a = fair.push(&1, 1, Class::Low, 7);
    let b = fair.push(&1, 1, Class::Low, 8);
    assert_eq!(fair.remove(&1, Class::Low, a), Some(7));
    assert_eq!(fair.remove(&1, Class::Low, a), None);
    assert_eq!(fair.clear(&1, Class::Low), [8]);
    assert_eq!(fair.remove(&1, Class::Low, b), None);
    assert_eq!((fair.len(), fair.tenants(), fair.pop()), (0, 0, None));
}

#[test]
fn tenants_that_left_are_forgotten() {
    let mut fair = Fair::default();
    for tenant in 0..1000 {
        fair.push(&tenant, 1 + tenant % 7, Class::Normal, 0);
    }
    drain(&mut fair, 1000);
    for item in 0..10 {
        fair.push(&5000, 1, Class::Normal, item);
    }
    drain(&mut fair, 10);
    assert!(fair.tenants() <= 2, "{}", fair.tenants());
}

thread_local! { static COMPARED: Cell<u64> = const { Cell::new(0) }; }

/// A key that counts how often keys are compared.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Counted(u32);

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Comparisons for one pop and one push. In each round, all tenants have equal tags, so every comparison reaches the
/// key.
fn comparisons(tenants: u32) -> u64 {
    let mut fair = Fair::default();
    for tenant in 0..tenants {
        fair.push(&Counted(tenant), 1, Class::Normal, ());
        fair.push(&Counted(tenant), 1, Class::Normal, ());
    }
    COMPARED.set(0);
    for _ in 0..1000 {
        let popped = fair.pop().unwrap();
        fair.push(&popped.tenant, 1, Class::Normal, ());
    }
    COMPARED.get() / 1000
}

#[test]
fn work_per_job_grows_with_the_logarithm_of_the_tenants() {
    let (few, many) = (comparisons(1 << 10), comparisons(1 << 17));
    assert!(few > 0, "nothing was counted");
    assert!(many <= 4 * few, "{few} comparisons with 2^10 tenants, {many} with 2^17");
}

proptest! {
    #[test]
    fn shares_follow_weights(weights in prop::collection::vec(1u32..50, 2..12), pops in 1usize..2000) {
        let mut fair = Fair::default();
        for (tenant, weight) in weights.iter().enumerate() {
            fair.push(&tenant, *weight, Class::Normal, ());
        }
        let mut served = vec![0f64; weights.len()];
        for _ in 0..pops {
            let popped = fair.pop().unwrap();
            served[popped.tenant] += 1.0;
            fair.push(&popped.tenant, weights[popped.tenant], Class::Normal, ());
        }
        for (a, wa) in weights.iter().enumerate() {
            for (b, wb) in weights.iter().enumerate() {
                let (wa, wb) = (f64::from(*wa), f64::from(*wb));
                let apart = (served[a] / wa - served[b] / wb).abs();
                prop_assert!(apart <= 1.0 / wa + 1.0 / wb + 1e-6, "{a} and {b} are {apart} apart: {served:?}");
            }
        }
    }

    #[test]
    fn nothing_is_lost_doubled_or_reordered(
        steps in prop::collection::vec((0u8..6, 0u32..5, 0usize..3), 1..400),
    ) {
        let mut fair = Fair::default();
        let mut pushed = 0u32;
        let mut out: Vec<(u32, Class, u32)> = Vec::new();
        let mut held = None;
        for (what, tenant, class) in steps {
            // A held item must go back before a later one is taken for good. Otherwise, the test itself would change
            // the order.
            if what != 4 && class != 2 && let Some(p) = held.take() { fair.unpop(1, p); }
            if what == 3 && let Some(p) = held.take() { fair.unpop(1, p); }
            match what {
                0..=2 => { pushed += 1; fair.push(&tenant, tenant + 1, Class::ALL[class], pushed); }
                3 => if let Some(p) = fair.pop() { out.push((p.tenant, p.class, p.item)) },
                4 => { if let Some(p) = held.take() { fair.unpop(1, p); } held = fair.pop(); }
                _ => { fair.block(&tenant); if class == 0 { fair.unblock(&tenant); } }
            }
        }
        if let Some(p) = held.take() { fair.unpop(1, p); }
        (0..5).for_each(|t| fair.unblock(&t));
        while let Some(p) = fair.pop() { out.push((p.tenant, p.class, p.item)); }
        prop_assert_eq!(out.len() as u32, pushed);
        prop_assert!(fair.is_empty());
        for tenant in 0..5 {
            for class in Class::ALL {
                let items: Vec<u32> = out.iter().filter(|o| o.0 == tenant && o.1 == class).map(|o| o.2).collect();
                prop_assert!(items.is_sorted(), "{tenant} {class:?}: {items:?}");
            }
        }
    }
}
