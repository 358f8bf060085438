//! What is known of one kind of service, and who listens to it. One shelf per thing wanted, shared by all its
//! listeners. A listener has no queue of sightings but a list of names that changed since it looked: however
//! slow it is, it is told the difference between what it was told and what is so, and nothing else waits.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::board::unpoisoned;
use crate::engine::{Finding, Resolved};
use crate::mdns::Shared;
use crate::sighting::{Record, Sighting, Wanted};

/// More instances of one type than this are not followed; the network is not ours to bound.
const INSTANCES_MAX: usize = 10_000;

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
    known: BTreeMap<String, Known>,
    listeners: HashMap<u64, Listener>,
    listeners_ever: u64,
    settling: Settling,
    is_closed: bool,
}

/// When what was not seen again is taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Not at all.
    #[default]
    Never,
    /// After the engine has asked this often.
    AfterAsks(u32),
    /// When the engine has told all it has. What is not resolved by then is no news: it was found when it came,
    /// and is removed while its pointer outlives it.
    AllTold,
}

#[derive(Default)]
struct Known {
    record: Option<Record>,
    /// Seen since the last [`Shelf::doubt_all`].
    is_confirmed: bool,
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
    pub(crate) fn all(&self) -> Vec<Arc<Shelf>> {
        unpoisoned(&self.by_wanted).values().cloned().collect()
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
    /// What is wanted.
    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// How many instances are known.
    pub(crate) fn len(&self) -> usize {
        unpoisoned(&self.inside).known.len()
    }

    /// Instances that the engine cannot ask for.
    pub(crate) fn escaped_names(&self) -> Vec<String> {
        if self.wanted == Wanted::Types {
            return Vec::new();
        }
        let inside = unpoisoned(&self.inside);
        inside.known.keys().filter(|name| name.contains(['.', '\\'])).cloned().collect()
    }

    /// Everything known must be seen again until then, or it is gone.
    pub(crate) fn doubt_all(&self, settling: Settling) {
        let mut inside = unpoisoned(&self.inside);
        inside.known.values_mut().for_each(|known| known.is_confirmed = false);
        inside.settling = settling;
    }

    /// Takes in what the engine found.
    pub(crate) fn take_in(&self, finding: Finding) {
        let mut inside = unpoisoned(&self.inside);
        match finding {
            Finding::Asked => inside.asked(),
            Finding::Found(full_name) => {
                if let Some(name) = self.wanted.name_in(&full_name) {
                    let is_news = inside.settling != Settling::AllTold || inside.known.contains_key(name);
                    if is_news {
                        inside.found(name);
                    }
                }
            }
            Finding::AllTold => inside.all_told(),
            Finding::Resolved(resolved) => {
                if let Some(record) = record(&self.wanted, resolved) {
                    inside.resolved(record);
                }
            }
            Finding::Removed(full_name) => {
                if let Some(name) = self.wanted.name_in(&full_name) {
                    inside.removed(name);
                }
            }
        }
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

impl Inside {
    fn found(&mut self, name: &str) {
        if let Some(known) = self.known.get_mut(name) {
            known.is_confirmed = true;
        } else if self.known.len() < INSTANCES_MAX {
            self.known.insert(name.to_owned(), Known { record: None, is_confirmed: true });
        } else {
            return;
        }
        self.mark(name);
    }

    fn resolved(&mut self, record: Record) {
        self.found(&record.name);
        if let Some(known) = self.known.get_mut(&record.name) {
            known.record = Some(record);
        }
    }

    fn removed(&mut self, name: &str) {
        if self.known.remove(name).is_some() {
            self.mark(name);
        }
    }

    fn asked(&mut self) {
        match self.settling {
            Settling::Never | Settling::AllTold => {}
            Settling::AfterAsks(0 | 1) => self.settle(),
            Settling::AfterAsks(left) => self.settling = Settling::AfterAsks(left - 1),
        }
    }

    fn all_told(&mut self) {
        if self.settling == Settling::AllTold {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.settling = Settling::Never;
        let doubted = self.known.iter().filter(|(_, known)| !known.is_confirmed);
        let gone: Vec<String> = doubted.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.removed(name));
    }

    fn mark(&mut self, name: &str) {
        self.listeners.values_mut().for_each(|listener| listener.mark(name.to_owned()));
    }
}

impl Listener {
    fn mark(&mut self, name: String) {
        if self.is_changed.insert(name.clone()) {
            self.changed.push_back(name);
        }
        self.bell.notify_one();
    }

    fn difference(&mut self, wanted: &Wanted, name: &str, known: Option<&Known>) -> Option<Sighting> {
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
            (Some(told), Some(Known { record: Some(record), .. })) if told.as_ref() != Some(record) => {
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

fn record(wanted: &Wanted, resolved: Resolved) -> Option<Record> {
    let name = wanted.name_in(&resolved.full_name)?.to_owned();
    let host = resolved.host.strip_suffix('.').unwrap_or(&resolved.host);
    Some(Record {
        name,
        service_type: wanted.service_type().to_owned(),
        host: (!host.is_empty()).then(|| host.to_owned()),
        port: (resolved.port != 0).then_some(resolved.port),
        addresses: resolved.addresses,
        txt: resolved.txt,
    })
}
