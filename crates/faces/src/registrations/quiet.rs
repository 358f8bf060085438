//! A network of this daemon alone: what `--no-mdns` asks for. Nothing leaves the process; who browses here sees what is
//! registered here.

use super::network::{
    Goodbye, Health, Later, Network, Record, Renamed, Seen, Service, Sightings, Standing, Unfit,
};
use super::service::{Wanted, folded};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

/// Which services could be advertised if there were a network.
type Rule = fn(&Service) -> Result<(), Unfit>;

/// A network of this daemon alone.
#[derive(Clone)]
pub struct Quiet {
    inner: Arc<Inner>,
    rule: Rule,
}

impl Quiet {
    /// With the rule of the network that is not there, so that what is registered can be advertised later.
    #[must_use]
    pub fn with_rule(rule: Rule) -> Self {
        Self { inner: Arc::default(), rule }
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self::with_rule(|_| Ok(()))
    }
}

#[derive(Default)]
struct Inner {
    services: Mutex<BTreeMap<u128, Service>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

/// Who browses: what it has not been told yet is what differs from what it knows.
struct Listener {
    wanted: Wanted,
    changed: Notify,
    over: Mutex<bool>,
}

struct Listening {
    inner: Arc<Inner>,
    listener: Arc<Listener>,
    known: BTreeMap<String, Record>,
    ready: VecDeque<Seen>,
}

impl Inner {
    fn services(&self) -> MutexGuard<'_, BTreeMap<u128, Service>> {
        self.services.lock().expect("invariant: nobody panics among services")
    }

    fn tell(&self, over: bool) {
        let mut listeners = self.listeners.lock().expect("invariant: nobody panics among listeners");
        listeners.retain(|listener| {
            let Some(listener) = listener.upgrade() else { return false };
            if over {
                *listener.over.lock().expect("invariant: a flag is set") = true;
            }
            listener.changed.notify_one();
            true
        });
    }
}

fn no_network() -> Goodbye {
    Goodbye::Unneeded("mDNS is off".to_owned())
}

impl Network for Quiet {
    fn check(&self, service: &Service) -> Result<(), Unfit> {
        (self.rule)(service)
    }

    fn advertise(&self, key: u128, service: Service) {
        self.inner.services().insert(key, service);
        self.inner.tell(false);
    }

    fn withdraw(&self, key: u128, _: Service) -> Later<'static, Goodbye> {
        self.inner.services().remove(&key);
        self.inner.tell(false);
        Box::pin(core::future::ready(no_network()))
    }

    fn standing(&self, _: u128) -> Standing {
        Standing::default()
    }

    fn take_renames(&self) -> Option<UnboundedReceiver<Renamed>> {
        None
    }

    fn ask(&self, _: &Wanted) {}

    fn browse(&self, wanted: &Wanted) -> Box<dyn Sightings> {
        let listener =
            Arc::new(Listener { wanted: wanted.clone(), changed: Notify::new(), over: Mutex::new(false) });
        let mut listeners = self.inner.listeners.lock().expect("invariant: nobody panics among listeners");
        listeners.push(Arc::downgrade(&listener));
        drop(listeners);
        let inner = Arc::clone(&self.inner);
        Box::new(Listening { inner, listener, known: BTreeMap::new(), ready: VecDeque::new() })
    }

    fn health(&self) -> Health {
        Health::default()
    }

    fn close(&self) -> Later<'static, Vec<(u128, Goodbye)>> {
        let services = core::mem::take(&mut *self.inner.services());
        self.inner.tell(true);
        Box::pin(core::future::ready(services.into_keys().map(|key| (key, no_network())).collect()))
    }

    fn leave(&self) -> Later<'static, ()> {
        // Nothing left the process: there is nothing to keep.
        drop(self.close());
        Box::pin(core::future::ready(()))
    }
}

impl Sightings for Listening {
    fn next(&mut self) -> Later<'_, Option<Seen>> {
        Box::pin(async {
            loop {
                if let Some(seen) = self.ready.pop_front() {
                    return Some(seen);
                }
                self.look();
                if !self.ready.is_empty() {
                    continue;
                }
                if *self.listener.over.lock().expect("invariant: a flag is set") {
                    return None;
                }
                self.listener.changed.notified().await;
            }
        })
    }
}

impl Listening {
    /// Compares what is there with what was told.
    fn look(&mut self) {
        let mut now: BTreeMap<String, Record> = BTreeMap::new();
        for service in self.inner.services().values() {
            match &self.listener.wanted {
                Wanted::Types => {
                    let name = service.service_type.as_str().to_owned();
                    now.insert(name.clone(), record(&name, service));
                }
                Wanted::Services { service_type, subtype } => {
                    let of_type = *service_type == service.service_type;
                    if of_type && subtype.as_ref().is_none_or(|wanted| service.subtypes.contains(wanted)) {
                        now.insert(folded(&service.name), record(&service.name, service));
                    }
                }
            }
        }
        let types = matches!(self.listener.wanted, Wanted::Types);
        for (key, gone) in self.known.iter().filter(|(key, _)| !now.contains_key(*key)) {
            self.ready.push_back(if types {
                Seen::TypeRemoved(key.clone())
            } else {
                Seen::Removed { name: gone.name.clone(), service_type: gone.service_type.clone() }
            });
        }
        for (key, record) in &now {
            let known = self.known.get(key);
            match (types, known) {
                (true, None) => self.ready.push_back(Seen::TypeFound(key.clone())),
                (true, Some(_)) => {}
                (false, Some(known)) if known == record => {}
                (false, known) => {
                    if known.is_none() {
                        let (name, service_type) = (record.name.clone(), record.service_type.clone());
                        self.ready.push_back(Seen::Found { name, service_type });
                    }
                    self.ready.push_back(Seen::Resolved(record.clone()));
                }
            }
        }
        self.known = now;
    }
}

fn record(name: &str, service: &Service) -> Record {
    Record {
        name: name.to_owned(),
        service_type: service.service_type.as_str().to_owned(),
        host: Some(format!("{}.local", service.host)),
        port: Some(service.port),
        addresses: service.ip.into_iter().map(Into::into).collect(),
        txt: service.txt.clone(),
    }
}
