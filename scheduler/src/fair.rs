//! Weighted fair queueing over tenants (start-time fair queueing), with strict classes inside a tenant. Pure: no clock,
//! no I/O.
//!
//! Each tenant has a tag on a virtual clock. The tenant with the smallest tag is served, and its tag advances by `1 /
//! weight`. The clock is the tag that was served last. A tenant that was idle starts at the clock, so that idleness is
//! neither saved up nor punished. Among tenants that always have something waiting, the numbers of items served are
//! proportional to the weights, to within one item each. All operations are O(log n) in the number of tenants.
//!
//! Inside a tenant, the most urgent class is served first. A class that was passed over [`MAX_PASSED_OVER`] times is
//! served next, so nothing starves.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use thermae_schemas::Class;

/// How often a waiting class is passed over before it is served.
pub const MAX_PASSED_OVER: u32 = 15;

/// Cost of one job on the virtual clock, at weight 1.
const COST: u128 = 1 << 40;

/// Position of an item among those of the same tenant and class. An item with a smaller ticket was pushed earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An item that was taken out.
#[derive(Debug, PartialEq, Eq)]
pub struct Popped<K, T> {
    /// Its tenant.
    pub tenant: K,
    /// Its class.
    pub class: Class,
    /// Its position, to put it back.
    pub ticket: Ticket,
    /// The item.
    pub item: T,
}

impl<K, T> Popped<K, T> {
    /// The same place, without the item, and the item.
    pub fn apart(self) -> (Popped<K, ()>, T) {
        let Self { tenant, class, ticket, item } = self;
        (Popped { tenant, class, ticket, item: () }, item)
    }

    /// The same place with another item.
    pub fn with<U>(self, item: U) -> Popped<K, U> {
        Popped { tenant: self.tenant, class: self.class, ticket: self.ticket, item }
    }
}

struct Tenant<T> {
    weight: u32,
    tag: u128,
    classes: [VecDeque<(Ticket, T)>; 3],
    passed: [u32; 3],
    blocked: bool,
}

impl<T> Tenant<T> {
    fn is_empty(&self) -> bool {
        self.classes.iter().all(VecDeque::is_empty)
    }

    fn cost(&self) -> u128 {
        COST / u128::from(self.weight.max(1))
    }

    /// The class to serve: the one that was passed over most often, if that is too often, else the most urgent one.
    fn choose(&mut self) -> Option<usize> {
        let waiting = |c: &usize| !self.classes[*c].is_empty();
        let urgent = (0..3).find(waiting)?;
        let overdue =
            (0..3).filter(waiting).filter(|c| self.passed[*c] >= MAX_PASSED_OVER).max_by_key(|c| self.passed[*c]);
        let chosen = overdue.unwrap_or(urgent);
        for c in 0..3 {
            if c == chosen || self.classes[c].is_empty() {
                self.passed[c] = 0;
            } else if c > urgent {
                self.passed[c] += 1;
            }
        }
        Some(chosen)
    }
}

/// The queue. `K` names a tenant, `T` is what waits.
pub struct Fair<K, T> {
    tenants: HashMap<K, Tenant<T>>,
    /// Tenants with something waiting that are not blocked, by tag.
    ready: BTreeSet<(u128, K)>,
    /// Tenants with nothing waiting whose tag is ahead of the clock. They are forgotten once the clock has reached it.
    idle: BTreeSet<(u128, K)>,
    clock: u128,
    tickets: u64,
    len: usize,
}

impl<K, T> Default for Fair<K, T> {
    fn default() -> Self {
        Self { tenants: HashMap::new(), ready: BTreeSet::new(), idle: BTreeSet::new(), clock: 0, tickets: 0, len: 0 }
    }
}

impl<K: Clone + Eq + Hash + Ord, T> Fair<K, T> {
    /// How many items wait, including those of blocked tenants.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tenants have something waiting, or are remembered for what they took.
    pub fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// The largest weight of a tenant that has something waiting. Only tenants for which `counts` is true are
    /// considered.
    pub fn heaviest(&self, counts: impl Fn(&K) -> bool) -> Option<u32> {
        let waiting = self.tenants.iter().filter(|(tenant, state)| !state.is_empty() && counts(tenant));
        waiting.map(|(_, state)| state.weight).max()
    }

    /// Adds an item behind the others of its tenant and class. From now on, this is the tenant's weight.
    pub fn push(&mut self, tenant: &K, weight: u32, class: Class, item: T) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.edit(tenant, weight, 0, |t| t.classes[class as usize].push_back((ticket, item)));
        self.len += 1;
        ticket
    }

    /// Puts an item back where it was, and refunds its cost, because it was popped in vain.
    pub fn unpop(&mut self, weight: u32, popped: Popped<K, T>) {
        let Popped { tenant, class, ticket, item } = popped;
        self.edit(&tenant, weight, 1, |t| {
            let queue = &mut t.classes[class as usize];
            let at = queue.iter().take_while(|(other, _)| *other < ticket).count();
            queue.insert(at, (ticket, item));
        });
        self.len += 1;
    }

    /// Changes a tenant's queue, and files the tenant again. Refunds the cost of `refund` items.
    fn edit(&mut self, tenant: &K, weight: u32, refund: u32, change: impl FnOnce(&mut Tenant<T>)) {
        let clock = self.clock;
        let t = self.tenants.entry(tenant.clone()).or_insert_with(|| Tenant {
            weight,
            tag: clock,
            classes: Default::default(),
            passed: [0; 3],
            blocked: false,
        });
        let before = (t.tag, tenant.clone());
        self.ready.remove(&before);
        self.idle.remove(&before);
        if t.is_empty() {
            t.tag = t.tag.max(clock);
        }
        t.weight = weight.max(1);
        t.tag = t.tag.saturating_sub(u128::from(refund) * t.cost());
        change(t);
        let (tag, blocked, empty) = (t.tag, t.blocked, t.is_empty());
        self.place(tenant, tag, blocked, empty);
    }

    /// Files a tenant under `ready`, under `idle`, or forgets it.
    fn place(&mut self, tenant: &K, tag: u128, blocked: bool, empty: bool) {
        if !empty {
            if !blocked {
                self.ready.insert((tag, tenant.clone()));
            }
        } else if blocked || tag > self.clock {
            self.idle.insert((tag, tenant.clone()));
        } else {
            self.tenants.remove(tenant);
        }
    }

    /// Takes the next item. `None` if nothing waits, or if all tenants are blocked.
    pub fn pop(&mut self) -> Option<Popped<K, T>> {
        loop {
            let (tag, tenant) = self.ready.pop_first()?;
            let Some(t) = self.tenants.get_mut(&tenant) else { continue };
            let Some(chosen) = t.choose() else { continue };
            let Some((ticket, item)) = t.classes[chosen].pop_front() else { continue };
            self.len -= 1;
            self.clock = self.clock.max(tag);
            t.tag = tag + t.cost();
            let (tag, blocked, empty) = (t.tag, t.blocked, t.is_empty());
            self.place(&tenant, tag, blocked, empty);
            self.forget_idle();
            return Some(Popped { tenant, class: Class::ALL[chosen], ticket, item });
        }
    }

    /// Forgets idle tenants whose tag the clock has reached. Each pop adds at most one of them, so the cost is
    /// amortized.
    fn forget_idle(&mut self) {
        while let Some((tag, tenant)) = self.idle.first() {
            if *tag > self.clock {
                break;
            }
            if self.tenants.get(tenant).is_some_and(|t| !t.blocked) {
                self.tenants.remove(tenant);
            }
            self.idle.pop_first();
        }
    }

    /// Leaves a tenant out until it is unblocked.
    pub fn block(&mut self, tenant: &K) {
        self.set_blocked(tenant, true);
    }

    /// Serves a tenant again.
    pub fn unblock(&mut self, tenant: &K) {
        self.set_blocked(tenant, false);
    }

    fn set_blocked(&mut self, tenant: &K, blocked: bool) {
        let Some(t) = self.tenants.get_mut(tenant) else { return };
        t.blocked = blocked;
        let here = (t.tag, tenant.clone());
        self.ready.remove(&here);
        self.idle.remove(&here);
        let (tag, empty) = (t.tag, t.is_empty());
        self.place(tenant, tag, blocked, empty);
    }

    /// Takes an item out of turn, at the cost of a pop. `None` if it doesn't wait.
    pub fn pop_out_of_turn(&mut self, tenant: &K, class: Class, ticket: Ticket) -> Option<Popped<K, T>> {
        let t = self.tenants.get(tenant)?;
        let weight = t.weight;
        let at = t.classes[class as usize].iter().position(|(other, _)| *other == ticket)?;
        let mut taken = None;
        self.edit(tenant, weight, 0, |t| {
            taken = t.classes[class as usize].remove(at);
            t.tag += t.cost();
        });
        self.len -= 1;
        taken.map(|(ticket, item)| Popped { tenant: tenant.clone(), class, ticket, item })
    }

    /// Takes an item out of turn, without a cost. `None` if it doesn't wait.
    pub fn remove(&mut self, tenant: &K, class: Class, ticket: Ticket) -> Option<T> {
        let t = self.tenants.get_mut(tenant)?;
        let queue = &mut t.classes[class as usize];
        let at = queue.iter().position(|(other, _)| *other == ticket)?;
        let (_, item) = queue.remove(at)?;
        self.len -= 1;
        self.emptied(tenant);
        Some(item)
    }

    /// Takes out all items of one tenant and class.
    pub fn clear(&mut self, tenant: &K, class: Class) -> Vec<T> {
        let Some(t) = self.tenants.get_mut(tenant) else { return Vec::new() };
        let items: Vec<T> = std::mem::take(&mut t.classes[class as usize]).into_iter().map(|(_, item)| item).collect();
        self.len -= items.len();
        self.emptied(tenant);
        items
    }

    fn emptied(&mut self, tenant: &K) {
        let Some(t) = self.tenants.get(tenant) else { return };
        let (tag, blocked, empty) = (t.tag, t.blocked, t.is_empty());
        if empty {
            self.ready.remove(&(tag, tenant.clone()));
            self.place(tenant, tag, blocked, empty);
        }
    }

    /// The first waiting item of one tenant and class for which `fits` is true, and its position.
    pub fn find_mut(&mut self, tenant: &K, class: Class, fits: impl Fn(&T) -> bool) -> Option<(Ticket, &mut T)> {
        let queue = &mut self.tenants.get_mut(tenant)?.classes[class as usize];
        queue.iter_mut().map(|(ticket, item)| (*ticket, item)).find(|(_, item)| fits(item))
    }

    /// The items of one tenant and class, in order.
    pub fn iter(&self, tenant: &K, class: Class) -> impl Iterator<Item = &T> {
        self.tenants.get(tenant).into_iter().flat_map(move |t| t.classes[class as usize].iter().map(|(_, item)| item))
    }
}

#[cfg(test)]
mod tests;
