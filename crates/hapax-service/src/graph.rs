//! Which services there are, and who loads whom.
//!
//! A load is an edge, written down before anybody waits. The edge that would close a circle is refused, so that of
//! services that load each other at the same time one is told, and none waits for ever.

use crate::service::Service;
use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The application itself, which loads what it boots: the first in the graph.
pub(crate) const ROOT: usize = 0;

#[derive(Default)]
pub(crate) struct Graph {
    services: BTreeMap<usize, Arc<Service>>,
    /// How many there have been, for the next one's number.
    count: usize,
    /// The service of a factory: of its last start, when an earlier one failed.
    current: HashMap<TypeId, Arc<Service>>,
    /// From who loads to what is loaded.
    loads: BTreeMap<usize, BTreeSet<usize>>,
    /// Nothing is started any more.
    pub(crate) closed: bool,
}

impl Graph {
    /// A new service. One of the same factory goes: it has failed, or there would be no other.
    pub(crate) fn add(&mut self, key: Option<TypeId>, name: &'static str) -> Arc<Service> {
        let before = key.and_then(|key| self.current.remove(&key));
        if let Some(before) = &before {
            // A service may be tried for days.
            self.services.remove(&before.id);
            self.loads.remove(&before.id);
            for loads in self.loads.values_mut() {
                loads.remove(&before.id);
            }
        }
        let starts = before.map_or(1, |before| before.starts.saturating_add(1));
        let service = Service::new(self.count, name, starts);
        self.count += 1;
        self.services.insert(service.id, Arc::clone(&service));
        if let Some(key) = key {
            self.current.insert(key, Arc::clone(&service));
        }
        service
    }

    pub(crate) fn current(&self, key: TypeId) -> Option<Arc<Service>> {
        self.current.get(&key).cloned()
    }

    /// Writes down that `from` loads `to`, or says on which way `to` loads `from`.
    pub(crate) fn depend(&mut self, from: usize, to: usize) -> Result<(), Vec<&'static str>> {
        if let Some(mut way) = self.way(to, from) {
            way.extend(self.name(to));
            return Err(way);
        }
        self.loads.entry(from).or_default().insert(to);
        Ok(())
    }

    /// The names on the way from one to another, both included.
    fn way(&self, from: usize, to: usize) -> Option<Vec<&'static str>> {
        let mut came_from = BTreeMap::from([(from, None)]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                let ids = std::iter::successors(Some(at), |at| came_from.get(at).copied().flatten());
                let mut names: Vec<_> = ids.filter_map(|id| self.name(id)).collect();
                names.reverse();
                return Some(names);
            }
            for next in self.loads_of(at) {
                if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                    entry.insert(Some(at));
                    open.push(next);
                }
            }
        }
        None
    }

    fn name(&self, id: usize) -> Option<&'static str> {
        self.services.get(&id).map(|service| service.name)
    }

    pub(crate) fn services(&self) -> Vec<Arc<Service>> {
        self.services.values().cloned().collect()
    }

    fn loads_of(&self, id: usize) -> impl Iterator<Item = usize> {
        self.loads.get(&id).into_iter().flatten().copied()
    }

    /// Who loads whom, of those that are there.
    pub(crate) fn edges(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut loads = self.loads.clone();
        // Tasks of a start that failed may still load.
        loads.retain(|from, _| self.services.contains_key(from));
        loads
    }

    /// The names of what a service loads, in the order in which they came.
    pub(crate) fn names_of_loads(&self, id: usize) -> Vec<&'static str> {
        self.loads_of(id).filter_map(|id| self.name(id)).collect()
    }

    /// From what `root` loads to a service that starts and waits for no other: who keeps the rest waiting.
    pub(crate) fn way_to_the_slowest(&self, root: usize) -> Vec<&'static str> {
        let mut way = Vec::new();
        let mut at = root;
        while let Some(next) =
            self.loads_of(at).find_map(|id| self.services.get(&id).filter(|service| service.is_starting()))
        {
            way.push(next.name);
            at = next.id;
        }
        way
    }
}
