//! Whoever a test is about: ours, or Avahi in our place, so that a test that asks too much is noticed.

use tenure_mdns::{Mdns, Service};

use crate::on_a_lan::{start_on, wait_advertised, withdraw};
use crate::peers::Service as Theirs;
use crate::peers::avahi::{Avahi, Publisher};
use crate::peers::feed::{LIMIT, wait_until};
use crate::peers::netns::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Avahi,
}

pub(crate) enum Responder {
    /// The services have keys from 1 on.
    Ours(Mdns, Vec<Service>),
    Avahi(Avahi, Vec<Publisher>),
}

impl Responder {
    pub(crate) fn start(who: Who, host: &Host) -> Self {
        match who {
            Who::Ours => Self::Ours(start_on(host), Vec::new()),
            Who::Avahi => Self::Avahi(Avahi::start(host), Vec::new()),
        }
    }

    /// Begins to announce; only once.
    pub(crate) fn begin(&mut self, services: Vec<Service>) {
        match self {
            Self::Ours(mdns, ours) => {
                for (key, service) in (1..).zip(&services) {
                    mdns.advertise(key, service.clone());
                }
                *ours = services;
            }
            Self::Avahi(avahi, publishers) => {
                let publish = |service: &Service| {
                    let Service { name, service_type, port, .. } = service;
                    let subtypes = service.subtypes.iter();
                    let subtypes: Vec<String> =
                        subtypes.map(|subtype| format!("{subtype}._sub.{service_type}")).collect();
                    let theirs = Theirs { name, service_type, port: *port, txt: &[b"path=/"] };
                    avahi.begin_to_publish(&theirs, &subtypes)
                };
                *publishers = services.iter().map(publish).collect();
            }
        }
    }

    /// Returns when all have been announced.
    #[track_caller]
    pub(crate) fn register(&mut self, services: Vec<Service>) {
        self.begin(services);
        match self {
            Self::Ours(mdns, services) => (1..).zip(services).for_each(|(key, _)| wait_advertised(mdns, key)),
            Self::Avahi(_, publishers) => publishers.iter().for_each(Publisher::wait),
        }
    }

    /// What they are called on the network now; `None` for one that is not on it.
    pub(crate) fn names(&self) -> Vec<Option<String>> {
        match self {
            Self::Ours(mdns, services) => {
                let standings = (1..).zip(services).map(|(key, _)| mdns.standing(key));
                standings.map(|standing| standing.name.filter(|_| standing.advertised)).collect()
            }
            Self::Avahi(_, publishers) => {
                publishers.iter().map(|publisher| publisher.has_a_name().then(|| publisher.name())).collect()
            }
        }
    }

    /// What is told of the first one's troubles.
    pub(crate) fn last_error(&self) -> String {
        let Self::Ours(mdns, _) = self else { return String::new() };
        mdns.standing(1).last_error.unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn withdraw_first(&mut self) {
        match self {
            Self::Ours(mdns, services) => withdraw(mdns, 1, services[0].clone()),
            Self::Avahi(_, publishers) => publishers[0].end(),
        }
    }

    /// What the SRV record of such a service points to.
    pub(crate) fn host_of(&self, service: &Service, host: &Host) -> String {
        match self {
            Self::Ours(..) => service.host.clone(),
            Self::Avahi(..) => host.name().to_owned(),
        }
    }

    /// Returns when it has noticed that its host's link is down.
    #[track_caller]
    pub(crate) fn wait_for_link_down(&mut self) {
        match self {
            Self::Ours(mdns, _) => {
                wait_until("no interface", LIMIT, || mdns.health().interfaces.is_empty());
            }
            Self::Avahi(avahi, _) => {
                let said = avahi.daemon().said();
                said.expect(0, |line| line.contains("no longer relevant for mDNS"), LIMIT);
            }
        }
    }
}
