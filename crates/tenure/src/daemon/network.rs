//! The network of a daemon: mDNS, or none. Translates between the face's words and the mDNS crate's.

use std::sync::Arc;

use tenure_api::Address;
use tenure_faces::{
    Goodbye, Health, Later, Network, Quiet, Record, Renamed, Seen, Service, Sightings, Standing, Unfit,
    Wanted,
};
use tenure_history::rfc3339;
use tenure_mdns::{Condition, Mdns, Options, StartError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What services are advertised on.
#[derive(Clone, Debug)]
pub(crate) enum NetworkPlan {
    /// Nothing leaves the process.
    Quiet,
    /// mDNS.
    Mdns(Options),
}

impl NetworkPlan {
    /// Starts it.
    pub(crate) fn start(&self) -> Result<Arc<dyn Network>, StartError> {
        Ok(match self {
            Self::Quiet => Arc::new(Quiet::with_rule(check)),
            Self::Mdns(options) => Arc::new(Multicast { mdns: Mdns::start(options.clone())? }),
        })
    }
}

struct Multicast {
    mdns: Mdns,
}

struct Browsing {
    browse: tenure_mdns::Browse,
}

impl Network for Multicast {
    fn check(&self, service: &Service) -> Result<(), Unfit> {
        check(service)
    }

    fn advertise(&self, key: u128, service: Service) {
        self.mdns.advertise(key, sent(service));
    }

    fn withdraw(&self, key: u128, service: Service) -> Later<'static, Goodbye> {
        let goodbye = self.mdns.withdraw(key, sent(service));
        Box::pin(async { said(goodbye.await) })
    }

    fn standing(&self, key: u128) -> Standing {
        let tenure_mdns::Standing { advertised, name, last_error } = self.mdns.standing(key);
        Standing { advertised, name, last_error }
    }

    fn take_renames(&self) -> Option<UnboundedReceiver<Renamed>> {
        let mut renames = self.mdns.take_renames()?;
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(tenure_mdns::Renamed { key, name }) = renames.recv().await {
                let _ = sender.send(Renamed { key, name });
            }
        });
        Some(receiver)
    }

    fn ask(&self, wanted: &Wanted) {
        self.mdns.ask(&looked_for(wanted));
    }

    fn browse(&self, wanted: &Wanted) -> Box<dyn Sightings> {
        Box::new(Browsing { browse: self.mdns.browse(looked_for(wanted)) })
    }

    fn health(&self) -> Health {
        let health = self.mdns.health();
        let restarts = match health.restarts {
            0 => String::new(),
            1 => ", restarted once".to_owned(),
            times => format!(", restarted {times} times"),
        };
        let words = match health.condition {
            Condition::Up => format!("up on {}{restarts}", interfaces(&health.interfaces)),
            Condition::Down { since_unix_ms, error } => {
                format!("down since {}: {error}{restarts}", rfc3339(since_unix_ms))
            }
        };
        Health { words: Some(words), interfaces: health.interfaces, goodbyes: health.goodbyes_sent }
    }

    fn close(&self) -> Later<'static, Vec<(u128, Goodbye)>> {
        let mdns = self.mdns.clone();
        Box::pin(async move {
            mdns.close().await.into_iter().map(|(key, goodbye)| (key, said(goodbye))).collect()
        })
    }

    fn leave(&self) -> Later<'static, ()> {
        let mdns = self.mdns.clone();
        Box::pin(async move { mdns.leave().await })
    }
}

impl Sightings for Browsing {
    fn next(&mut self) -> Later<'_, Option<Seen>> {
        Box::pin(async { self.browse.next().await.map(seen) })
    }
}

fn looked_for(wanted: &Wanted) -> tenure_mdns::Wanted {
    match wanted {
        Wanted::Types => tenure_mdns::Wanted::Types,
        Wanted::Services { service_type, subtype: None } => {
            tenure_mdns::Wanted::Type(service_type.as_str().to_owned())
        }
        Wanted::Services { service_type, subtype: Some(subtype) } => tenure_mdns::Wanted::Subtype {
            subtype: subtype.clone(),
            service_type: service_type.as_str().to_owned(),
        },
    }
}

fn interfaces(interfaces: &[String]) -> String {
    if interfaces.is_empty() { "no interface".to_owned() } else { interfaces.join(", ") }
}

fn sent(service: Service) -> tenure_mdns::Service {
    let Service { service_type, subtypes, name, host, port, ip, txt } = service;
    let service_type = service_type.as_str().to_owned();
    tenure_mdns::Service { service_type, subtypes, name, host, port, ip, txt }
}

/// The mDNS crate refuses by the same rule what it is to announce.
fn check(service: &Service) -> Result<(), Unfit> {
    use tenure_mdns::Unfit as Mdns;
    sent(service.clone()).check().map_err(|unfit| {
        let field = match unfit {
            Mdns::Type(_) | Mdns::Subtype(_) => "type",
            Mdns::Name(_) => "name",
            Mdns::Host(_) => "host",
            Mdns::Port => "port",
            Mdns::Address(_) => "ip",
            Mdns::TxtKey(_) | Mdns::TxtLength(_) => "txt",
        };
        Unfit { field, message: unfit.to_string() }
    })
}

fn said(goodbye: tenure_mdns::Goodbye) -> Goodbye {
    match goodbye {
        tenure_mdns::Goodbye::Sent => Goodbye::Sent,
        tenure_mdns::Goodbye::Unneeded(why) => Goodbye::Unneeded(why),
        tenure_mdns::Goodbye::Unsent(error) => Goodbye::Unsent(error),
    }
}

fn seen(sighting: tenure_mdns::Sighting) -> Seen {
    use tenure_mdns::Sighting;
    match sighting {
        Sighting::Found { name, service_type } => Seen::Found { name, service_type },
        Sighting::Resolved(record) => {
            let tenure_mdns::Record { name, service_type, host, port, addresses, txt } = record;
            let addresses =
                addresses.into_iter().map(|tenure_mdns::Address { ip, zone }| Address { ip, zone });
            Seen::Resolved(Record { name, service_type, host, port, addresses: addresses.collect(), txt })
        }
        Sighting::Removed { name, service_type } => Seen::Removed { name, service_type },
        Sighting::TypeFound(name) => Seen::TypeFound(name),
        Sighting::TypeRemoved(name) => Seen::TypeRemoved(name),
    }
}
