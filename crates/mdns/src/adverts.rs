//! What is to be on the network: one advert per key, and what the engine knows of it. Decides what the engine
//! is told next; talks to nobody.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::board::Standing;
use crate::clock::Instant;
use crate::farewells::Farewells;
use crate::service::{Service, next_name};

/// One service that is wanted on the network.
#[derive(Debug)]
pub(crate) struct Advert {
    pub(crate) wanted: Service,
    /// The name it is given to the engine with: the wanted one until a conflict.
    name: String,
    /// Its name on the network, if the engine changed it by itself.
    renamed: Option<String>,
    /// What this engine was last told.
    told: Option<Service>,
    pub(crate) stage: Stage,
    /// Whether the name has yet to be probed for.
    needs_probe: bool,
    /// Any engine of this process was told.
    was_told: bool,
    /// Any engine of this process announced it.
    was_announced: bool,
    is_queued: bool,
    /// It is to be told again although probing has not ended.
    is_nudged: bool,
    /// Tells this advert from an earlier one of the same key.
    pub(crate) serial: u64,
    /// How often it was told again because nothing was heard of it.
    pub(crate) nudges: u32,
    /// What the engine is told next is only the repeat of an announcement.
    is_second: bool,
    /// On what the engine was last told a further announcement must follow.
    pub(crate) wants_second: bool,
    /// When a question for it was last answered by us.
    answered_at: Option<Instant>,
    last_error: Option<String>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// This engine was not told yet.
    Waiting,
    /// It probes for the name, or has no interface to announce it on.
    Told,
    /// It was announced on at least one interface.
    Announced,
}

/// What the engine is to be told.
pub(crate) struct Announcement {
    pub(crate) key: u128,
    pub(crate) service: Service,
    pub(crate) probe: bool,
}

/// What is to be withdrawn.
pub(crate) struct Leaving {
    /// Under the name the engine has it.
    pub(crate) service: Service,
    /// This engine was told of it.
    pub(crate) is_known: bool,
    /// This engine may still be probing for its name.
    pub(crate) is_probed: bool,
    /// It was announced; otherwise nobody knows of it.
    pub(crate) was_announced: bool,
}

impl Leaving {
    /// What an earlier process or engine may have announced.
    pub(crate) fn unknown(service: Service) -> Self {
        Self { service, is_known: false, is_probed: false, was_announced: true }
    }
}

/// All adverts.
#[derive(Debug, Default)]
pub(crate) struct Adverts {
    by_key: HashMap<u128, Advert>,
    /// Full names the engine has for us, those after a conflict included.
    names: HashMap<String, u128>,
    queue: VecDeque<u128>,
    /// Their name is another's, or being withdrawn.
    blocked: Vec<u128>,
    /// Full names that this engine has changed: it does so again without a word, so they are not given to it.
    renames: HashMap<String, String>,
    ever: u64,
}

impl Adverts {
    /// Puts a service in the place of what the key stood for. Returns what must be withdrawn first.
    pub(crate) fn put(&mut self, key: u128, service: Service) -> Option<Leaving> {
        let Some(advert) = self.by_key.get_mut(&key) else {
            self.insert(key, service);
            return None;
        };
        // Asked for under the name that it has on the network: that is no other name.
        let service = match advert.network_name() {
            Some(name) if *name == service.name => Service { name: advert.wanted.name.clone(), ..service },
            _ => service,
        };
        if !advert.wanted.is_another_name(&service) {
            if advert.wanted != service {
                advert.wanted = service;
                advert.is_second = false;
                self.enqueue(key);
            }
            return None;
        }
        let leaving = self.remove(key).filter(|(_, was_told)| *was_told).map(|(leaving, _)| leaving);
        self.insert(key, service);
        leaving
    }

    fn insert(&mut self, key: u128, service: Service) {
        self.ever += 1;
        let advert = Advert {
            name: service.name.clone(),
            renamed: None,
            told: None,
            stage: Stage::Waiting,
            needs_probe: true,
            was_told: false,
            was_announced: false,
            is_queued: false,
            is_nudged: false,
            serial: self.ever,
            nudges: 0,
            is_second: false,
            wants_second: false,
            answered_at: None,
            last_error: None,
            wanted: service,
        };
        self.by_key.insert(key, advert);
        self.enqueue(key);
    }

    /// Takes one out. Returns how to withdraw it and whether this process ever announced it.
    pub(crate) fn remove(&mut self, key: u128) -> Option<(Leaving, bool)> {
        let advert = self.by_key.remove(&key)?;
        self.free_names(key, &advert);
        if advert.is_queued {
            self.queue.retain(|queued| *queued != key);
            self.blocked.retain(|blocked| *blocked != key);
        }
        let (is_known, is_probed) = (advert.told.is_some(), advert.is_probed());
        let service = advert.told.unwrap_or(Service { name: advert.name, ..advert.wanted });
        let is_probed = is_known && is_probed;
        let was_announced = advert.was_announced;
        Some((Leaving { service, is_known, is_probed, was_announced }, advert.was_told))
    }

    /// What the engine has for this advert is no longer taken.
    fn free_names(&mut self, key: u128, advert: &Advert) {
        let given =
            [Some(&advert.name), advert.renamed.as_ref(), advert.told.as_ref().map(|told| &told.name)];
        for name in given.into_iter().flatten() {
            let service = Service { name: name.clone(), ..advert.wanted.clone() };
            let name_key = service.full_name_key();
            if self.names.get(&name_key) == Some(&key) {
                self.names.remove(&name_key);
            }
        }
    }

    /// The advert of a key.
    pub(crate) fn get(&self, key: u128) -> Option<&Advert> {
        self.by_key.get(&key)
    }

    /// The advert of a key, if it is still this one.
    pub(crate) fn same(&mut self, key: u128, serial: u64) -> Option<&mut Advert> {
        self.by_key.get_mut(&key).filter(|advert| advert.serial == serial)
    }

    /// Whose full name this is, as the engine has it.
    pub(crate) fn holder(&self, full_name_key: &str) -> Option<u128> {
        self.names.get(full_name_key).copied()
    }

    /// What is to be answered to a question for this one, unless the engine answers or it was just answered.
    pub(crate) fn answer_for(&mut self, key: u128, now: Instant, again_after: Duration) -> Option<Service> {
        let advert = self.by_key.get_mut(&key)?;
        let is_recent = advert.answered_at.is_some_and(|at| now.duration_since(at) < again_after);
        if advert.stage != Stage::Announced || !advert.wanted.is_escaped() || is_recent {
            return None;
        }
        advert.answered_at = Some(now);
        advert.told.clone()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<u128> {
        self.by_key.keys().copied().collect()
    }

    /// The engine is to be told of this one (again).
    pub(crate) fn enqueue(&mut self, key: u128) {
        if let Some(advert) = self.by_key.get_mut(&key).filter(|advert| !advert.is_queued) {
            advert.is_queued = true;
            self.queue.push_back(key);
        }
    }

    /// The engine is to announce this one again, unchanged.
    pub(crate) fn repeat(&mut self, key: u128) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.is_second = !advert.is_queued;
            self.enqueue(key);
        }
    }

    /// The engine's queue was full: the same one again.
    pub(crate) fn put_back(&mut self, key: u128) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.is_queued = true;
            self.queue.push_front(key);
        }
    }

    /// What to tell the engine next. An update of what is still being probed for waits until that has ended:
    /// the engine would take its own earlier announcement for another host's.
    pub(crate) fn next(&mut self, farewells: &Farewells) -> Option<Announcement> {
        while let Some(key) = self.queue.pop_front() {
            let Some(advert) = self.by_key.get_mut(&key) else { continue };
            advert.is_queued = false;
            let is_nudged = core::mem::take(&mut advert.is_nudged);
            if advert.stage == Stage::Told && advert.needs_probe && !is_nudged {
                continue;
            }
            if advert.stage == Stage::Waiting {
                let mut service = advert.as_named();
                while let Some(name) = self.renames.get(&service.full_name()) {
                    service.name.clone_from(name);
                }
                advert.name.clone_from(&service.name);
            }
            let service = self.past_the_pushed(key);
            let Some(advert) = self.by_key.get_mut(&key) else { continue };
            advert.name.clone_from(&service.name);
            let name_key = service.full_name_key();
            let is_taken = self.names.get(&name_key).is_some_and(|holder| *holder != key);
            if is_taken || farewells.holds(&service) {
                advert.is_queued = true;
                self.blocked.push(key);
                if is_taken {
                    advert.last_error = Some("its name is another registration's".to_owned());
                }
                continue;
            }
            self.names.insert(name_key, key);
            let probe = advert.needs_probe;
            return Some(Announcement { key, service, probe });
        }
        None
    }

    /// The service of a key under its name, or under the next one that no other of ours was pushed to by a conflict:
    /// that one stays there, and this one would wait for ever.
    fn past_the_pushed(&self, key: u128) -> Service {
        let mut service = self.by_key[&key].as_named();
        let is_pushed =
            |holder: &u128| *holder != key && self.by_key.get(holder).is_some_and(Advert::is_pushed);
        while self.names.get(&service.full_name_key()).is_some_and(is_pushed) {
            service.name = next_name(&service.name);
        }
        service
    }

    /// Nothing was heard of this one for a while: the engine is told again.
    pub(crate) fn nudge(&mut self, key: u128, why: String) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.nudges += 1;
            advert.last_error = Some(why);
            self.tell_again(key);
        }
    }

    /// The engine is told again, even if probing has not ended.
    pub(crate) fn tell_again(&mut self, key: u128) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.is_nudged = true;
            self.enqueue(key);
        }
    }

    /// Those that wait for their name.
    pub(crate) fn blocked(&self) -> Vec<u128> {
        self.blocked.clone()
    }

    /// Names may have come free.
    pub(crate) fn unblock(&mut self) {
        for key in core::mem::take(&mut self.blocked) {
            self.queue.push_back(key);
        }
    }

    /// The engine was told.
    pub(crate) fn told(&mut self, key: u128, service: Service) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.told = Some(service);
            advert.was_told = true;
            let is_second = core::mem::take(&mut advert.is_second);
            advert.wants_second = !is_second && advert.wanted.has_capitals();
            if advert.stage == Stage::Waiting {
                advert.stage = Stage::Told;
                advert.nudges = 0;
            }
        }
    }

    /// The engine announced this full name. Returns whose it is, and whether it was news.
    pub(crate) fn announced(&mut self, full_name: &str) -> Option<(u128, bool)> {
        let key = *self.names.get(&full_name.to_lowercase())?;
        let advert = self.by_key.get_mut(&key)?;
        advert.told.as_ref()?;
        let is_news = advert.stage != Stage::Announced;
        advert.stage = Stage::Announced;
        advert.was_announced = true;
        advert.needs_probe = false;
        advert.last_error = match advert.wanted.subtypes.len() {
            0 | 1 => None,
            _ => Some("only its first subtype is announced".to_owned()),
        };
        let is_outdated = advert.told.as_ref().is_some_and(|told| *told != advert.as_named());
        if is_outdated {
            self.enqueue(key);
        }
        Some((key, is_news))
    }

    /// The engine gave a name of ours up and took another. Returns what to take out of it because it does not
    /// get along with the new name; the service then gets a name from us.
    pub(crate) fn renamed(&mut self, original: &str, new_name: &str) -> Option<(u128, Option<Service>)> {
        let key = *self.names.get(&original.to_lowercase())?;
        let advert = self.by_key.get_mut(&key)?;
        let told = advert.told.clone()?;
        if told.full_name() != original {
            return None;
        }
        let suffix = format!(".{}", told.type_domain());
        let plain = new_name.strip_suffix(&suffix).filter(|name| {
            let taken = Service { name: (*name).to_owned(), ..told.clone() }.full_name_key();
            let is_free = self.names.get(&taken).is_none_or(|holder| *holder == key);
            // Under capitals the engine does not find it by the new name when asked for it.
            is_free && name.len() <= 63 && !told.has_capitals() && !told.is_escaped()
        });
        if let Some(name) = plain {
            advert.renamed = Some(name.to_owned());
            let renamed = Service { name: name.to_owned(), ..told };
            self.renames.insert(original.to_owned(), name.to_owned());
            self.names.insert(renamed.full_name_key(), key);
            return Some((key, None));
        }
        Some((key, self.give_way(key)))
    }

    /// The name of this one is another host's: it gets the next free name, for which the engine will probe.
    /// Returns what the engine must forget.
    pub(crate) fn give_way(&mut self, key: u128) -> Option<Service> {
        let advert = self.by_key.get_mut(&key)?;
        let told = advert.told.take()?;
        let mut next = Service { name: next_name(&told.name), ..told.clone() };
        while self.names.contains_key(&next.full_name_key()) {
            next.name = next_name(&next.name);
        }
        self.renames.insert(told.full_name(), next.name.clone());
        self.names.retain(|_, holder| *holder != key);
        advert.name = next.name;
        advert.stage = Stage::Waiting;
        advert.needs_probe = true;
        self.enqueue(key);
        Some(told)
    }

    /// Something went wrong with one.
    pub(crate) fn failed(&mut self, key: u128, error: String) {
        if let Some(advert) = self.by_key.get_mut(&key) {
            advert.last_error = Some(error);
        }
    }

    /// The engine has ended: the next one knows nothing. Names that were ours a moment ago need no probing.
    pub(crate) fn engine_ended(&mut self) {
        self.names.clear();
        self.renames.clear();
        self.blocked.clear();
        self.queue.clear();
        let mut keys: Vec<(u64, u128)> = Vec::new();
        for (key, advert) in &mut self.by_key {
            if let Some(name) = advert.renamed.take() {
                advert.name = name;
            }
            advert.told = None;
            advert.stage = Stage::Waiting;
            advert.is_queued = false;
            keys.push((advert.serial, *key));
        }
        keys.sort_unstable();
        keys.into_iter().for_each(|(_, key)| self.enqueue(key));
    }

    /// All that this engine was told.
    pub(crate) fn told_services(&self) -> Vec<Service> {
        self.by_key.values().filter_map(|advert| advert.told.clone()).collect()
    }

    /// Whether the engine has been told everything and nothing is being probed for. What was nudged has nowhere to
    /// be announced.
    pub(crate) fn is_settled(&self) -> bool {
        let is_under_way = |advert: &Advert| advert.is_probed() && advert.nudges == 0;
        self.queue.is_empty() && !self.by_key.values().any(is_under_way)
    }

    /// Names may have been taken by others meanwhile.
    pub(crate) fn probe_all(&mut self) {
        self.by_key.values_mut().for_each(|advert| advert.needs_probe = true);
    }

    /// Whether the engine is to be told of something now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Advert {
    /// What is wanted, under the name the engine knows.
    fn as_named(&self) -> Service {
        Service { name: self.name.clone(), ..self.wanted.clone() }
    }

    /// Whether the engine may be probing for its name.
    pub(crate) fn is_probed(&self) -> bool {
        self.stage == Stage::Told && self.needs_probe
    }

    /// What is said of it.
    /// Whether it has another name than it wants, because another host has that one.
    fn is_pushed(&self) -> bool {
        *self.renamed.as_ref().unwrap_or(&self.name) != self.wanted.name
    }

    /// Its name on the network, once it has one.
    pub(crate) fn network_name(&self) -> Option<&String> {
        (self.stage == Stage::Announced).then(|| self.renamed.as_ref().unwrap_or(&self.name))
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing {
            advertised: self.stage == Stage::Announced,
            name: self.network_name().cloned(),
            last_error: self.last_error.clone(),
        }
    }
}
