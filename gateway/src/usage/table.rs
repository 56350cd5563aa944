//! The hours that are kept, and the outcomes that were counted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use thermae_schemas::{Event, Outcome, TenantName};

use super::{MOST_HOURS, Used};

/// Most figures that are kept: one for each tenant and hour.
const MOST_FIGURES: usize = 50_000;

/// Outcomes that are remembered, so that one that comes again is not counted again.
const REMEMBERED: usize = 100_000;

/// What tenants used, by the hour.
#[derive(Default)]
pub(super) struct Table {
    hours: BTreeMap<u64, HashMap<TenantName, Used>>,
    figures: usize,
    /// The first hour of which nothing was forgotten.
    first_kept: u64,
    hasher: RandomState,
    known: HashSet<u64>,
    /// What is known, the oldest first.
    order: VecDeque<u64>,
}

impl Table {
    /// Notes an outcome. Returns whether it was not noted before: copies of an outcome are the same.
    pub(super) fn is_new(&mut self, tenant: &TenantName, event: &Event, outcome: &Outcome) -> bool {
        let (usage, run) = (&outcome.usage, (tenant, &event.job, event.attempt, outcome.status));
        let key = self.hasher.hash_one((run, usage.wall_ms.to_bits(), usage.cpu_ms.to_bits()));
        if !self.known.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// Adds what a tenant used in this hour.
    pub(super) fn add(&mut self, tenant: &TenantName, used: &Used, hour: u64) {
        let figures = self.hours.entry(hour).or_default();
        if let Some(figure) = figures.get_mut(tenant) {
            figure.add(used);
        } else {
            figures.insert(tenant.clone(), used.clone());
            self.figures += 1;
        }
        let first = (hour + 1).saturating_sub(MOST_HOURS);
        while let Some(oldest) = self.hours.first_entry()
            && (*oldest.key() < first || self.figures > MOST_FIGURES)
        {
            self.first_kept = oldest.key() + 1;
            self.figures -= oldest.remove().len();
        }
    }

    /// The first hour of which nothing was forgotten.
    pub(super) fn first_kept(&self) -> u64 {
        self.first_kept
    }

    /// What a tenant used from this hour on, by the hour.
    pub(super) fn of(&self, tenant: &TenantName, from: u64) -> impl Iterator<Item = (u64, &Used)> {
        self.hours.range(from..).filter_map(move |(hour, figures)| Some((*hour, figures.get(tenant)?)))
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::{EventBody, JobId, Status, Usage};

    use super::*;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    fn used(tool_calls: u64) -> Used {
        Used { tool_calls, ..Used::default() }
    }

    #[test]
    fn an_outcome_counts_once_for_its_tenant() {
        let (mut table, outcome) = (Table::default(), Outcome::new(Status::Succeeded));
        let mut is_new = |who: &str, job: &str, attempt, outcome: &Outcome| {
            let event = Event::new(JobId::new(job).unwrap(), attempt, EventBody::Superseded {});
            table.is_new(&tenant(who), &event, outcome)
        };
        assert!(is_new("acme", "a", 1, &outcome) && !is_new("acme", "a", 1, &outcome));
        assert!(is_new("globex", "a", 1, &outcome) && is_new("acme", "b", 1, &outcome));
        // A run of later that has the same id.
        let later = Outcome { usage: Usage { wall_ms: 1.5, ..Usage::default() }, ..outcome };
        assert!(is_new("acme", "a", 1, &later) && is_new("acme", "a", 2, &later));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut table, outcome) = (Table::default(), Outcome::new(Status::Succeeded));
        for attempt in 0..REMEMBERED as u32 + 10 {
            let event = Event::new(JobId::new("a").unwrap(), attempt, EventBody::Superseded {});
            assert!(table.is_new(&tenant("acme"), &event, &outcome));
        }
        assert_eq!((table.known.len(), table.order.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn hours_are_added_up_and_forgotten_when_they_are_old() {
        let mut table = Table::default();
        for (who, calls, hour) in [("acme", 1, 10), ("globex", 50, 10), ("acme", 2, 10), ("acme", 4, 11)] {
            table.add(&tenant(who), &used(calls), hour);
        }
        let of = |table: &Table, from| -> Vec<_> {
            table.of(&tenant("acme"), from).map(|(hour, used)| (hour, used.tool_calls)).collect()
        };
        assert_eq!((of(&table, 0), of(&table, 11)), (vec![(10, 3), (11, 4)], vec![(11, 4)]));
        table.add(&tenant("acme"), &used(8), 10 + MOST_HOURS);
        assert_eq!((of(&table, 0), table.first_kept(), table.figures), (vec![(11, 4), (10 + MOST_HOURS, 8)], 11, 2));
    }

    #[test]
    fn many_tenants_forget_the_oldest_hours() {
        let mut table = Table::default();
        for n in 0..MOST_FIGURES {
            table.add(&tenant(&format!("t{}", n % 1000)), &used(1), n as u64 / 1000);
        }
        assert_eq!((table.figures, table.first_kept()), (MOST_FIGURES, 0));
        table.add(&tenant("one-more"), &used(1), 50);
        assert_eq!((table.figures, table.first_kept()), (MOST_FIGURES - 999, 1));
    }
}
