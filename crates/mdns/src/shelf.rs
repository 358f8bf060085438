//! What is known of one kind of service, and who listens to it. One shelf per thing wanted, shared by all its
//! listeners. A listener has no queue of sightings but a list of names that changed since it looked: however
//! slow it is, it is told the difference between what it was told and what is so, and nothing else waits.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::board::unpoisoned;
use crate::mdns::Shared;
use crate::querier::Seen;
use crate::sighting::{Record, Sighting, Wanted};

/// All shelves with at least one listener.
#[derive(Default)]
pub(crate) struct Shelves {
    by_wanted: Mutex<HashMap<Wanted, Arc<Shelf>>>,
}

/// What is known of one thing wanted.
pub(crate) struct Shelf {
    wanted: Wanted,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    known: BTreeMap<String, Seen>,
    listeners: HashMap<u64, Listener>,
    listeners_ever: u64,
    is_closed: bool,
}

#[derive(Default)]
struct Listener {
    /// What it was told and has not been told the end of.
    told: HashMap<String, Option<Record>>,
    changed: VecDeque<String>,
    is_changed: HashSet<String>,
    bell: Arc<Notify>,
}

/// A look at the network that goes on until it is dropped.
pub struct Browse {
    shelf: Arc<Shelf>,
    listener: u64,
    bell: Arc<Notify>,
    shared: Arc<Shared>,
}

impl Shelves {
    /// Adds a listener. The caller notifies the supervisor.
    pub(crate) fn listen(&self, wanted: &Wanted, shared: Arc<Shared>) -> Browse {
        let mut shelves = unpoisoned(&self.by_wanted);
        let shelf = shelves.entry(wanted.clone()).or_insert_with(|| {
            let inside = Inside { is_closed: wanted.domain().is_none(), ..Inside::default() };
            Arc::new(Shelf { wanted: wanted.clone(), inside: Mutex::new(inside) })
        });
        let mut inside = unpoisoned(&shelf.inside);
        inside.listeners_ever += 1;
        let listener = inside.listeners_ever;
        let known: Vec<String> = inside.known.keys().cloned().collect();
        let entry = inside.listeners.entry(listener).or_default();
        known.into_iter().for_each(|name| entry.mark(name));
        let bell = entry.bell.clone();
        drop(inside);
        Browse { shelf: shelf.clone(), listener, bell, shared }
    }

    /// The shelf for this, if anyone listens.
    pub(crate) fn get(&self, wanted: &Wanted) -> Option<Arc<Shelf>> {
        unpoisoned(&self.by_wanted).get(wanted).cloned()
    }

    /// All that is listened to.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        unpoisoned(&self.by_wanted).keys().cloned().collect()
    }

    /// Nothing that was found is there any more.
    pub(crate) fn forget_all(&self) {
        for shelf in unpoisoned(&self.by_wanted).values() {
            let known: Vec<String> = unpoisoned(&shelf.inside).known.keys().cloned().collect();
            known.into_iter().for_each(|name| shelf.take_in(name, None));
        }
    }

    /// Tells all listeners that nothing more comes.
    pub(crate) fn close(&self) {
        unpoisoned(&self.by_wanted).values().for_each(|shelf| shelf.close());
    }

    /// Removes a listener, and the shelf with the last one.
    fn leave(&self, shelf: &Shelf, listener: u64) {
        let mut shelves = unpoisoned(&self.by_wanted);
        let mut inside = unpoisoned(&shelf.inside);
        inside.listeners.remove(&listener);
        let is_last = inside.listeners.is_empty();
        drop(inside);
        if is_last {
            shelves.remove(&shelf.wanted);
        }
    }
}

impl Shelf {
    /// Takes in what was found, or that it is gone.
    pub(crate) fn take_in(&self, name: String, seen: Option<Seen>) {
        let mut inside = unpoisoned(&self.inside);
        match seen {
            Some(seen) => inside.known.insert(name.clone(), seen),
            None => inside.known.remove(&name),
        };
        inside.listeners.values_mut().for_each(|listener| listener.mark(name.clone()));
    }

    /// Tells all listeners that nothing more comes.
    pub(crate) fn close(&self) {
        let mut inside = unpoisoned(&self.inside);
        inside.is_closed = true;
        inside.listeners.values().for_each(|listener| listener.bell.notify_one());
    }

    /// The next difference between what a listener was told and what is so.
    fn next_for(&self, listener: u64) -> Next {
        let mut inside = unpoisoned(&self.inside);
        let Inside { known, listeners, is_closed, .. } = &mut *inside;
        let Some(listener) = listeners.get_mut(&listener) else { return Next::Closed };
        while let Some(name) = listener.changed.pop_front() {
            listener.is_changed.remove(&name);
            if let Some(sighting) = listener.difference(&self.wanted, &name, known.get(&name)) {
                return Next::Sighting(sighting);
            }
        }
        if *is_closed { Next::Closed } else { Next::Wait }
    }
}

enum Next {
    Sighting(Sighting),
    Wait,
    Closed,
}

impl Listener {
    fn mark(&mut self, name: String) {
        if self.is_changed.insert(name.clone()) {
            self.changed.push_back(name);
        }
        self.bell.notify_one();
    }

    fn difference(&mut self, wanted: &Wanted, name: &str, known: Option<&Seen>) -> Option<Sighting> {
        let service_type = || wanted.service_type().to_owned();
        match (self.told.get(name), known) {
            (None, None) => None,
            (Some(_), None) => {
                self.told.remove(name);
                Some(match wanted {
                    Wanted::Types => Sighting::TypeRemoved(name.to_owned()),
                    Wanted::Type(_) | Wanted::Subtype { .. } => {
                        Sighting::Removed { name: name.to_owned(), service_type: service_type() }
                    }
                })
            }
            (None, Some(known)) => {
                self.told.insert(name.to_owned(), None);
                if known.record.is_some() && self.is_changed.insert(name.to_owned()) {
                    self.changed.push_front(name.to_owned());
                }
                Some(match wanted {
                    Wanted::Types => Sighting::TypeFound(name.to_owned()),
                    Wanted::Type(_) | Wanted::Subtype { .. } => {
                        Sighting::Found { name: name.to_owned(), service_type: service_type() }
                    }
                })
            }
            (Some(told), Some(Seen { record: Some(record) })) if told.as_ref() != Some(record) => {
                self.told.insert(name.to_owned(), Some(record.clone()));
                Some(Sighting::Resolved(record.clone()))
            }
            (Some(_), Some(_)) => None,
        }
    }
}

impl Browse {
    /// The next sighting: first what is known already, then what changes. `None` only once the engine was closed
    /// or what is wanted cannot exist. May be dropped while it waits; nothing is lost.
    pub async fn next(&mut self) -> Option<Sighting> {
        loop {
            match self.shelf.next_for(self.listener) {
                Next::Sighting(sighting) => return Some(sighting),
                Next::Closed => return None,
                Next::Wait => self.bell.notified().await,
            }
        }
    }
}

impl Drop for Browse {
    fn drop(&mut self) {
        self.shared.shelves.leave(&self.shelf, self.listener);
        self.shared.tell_listeners_changed(&self.shelf.wanted);
    }
}
