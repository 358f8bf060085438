//! The engine: mdns-sd in our own words, one incarnation of its thread. The only file that names it. It keeps
//! no state of ours and decides nothing. Callers handle a full queue and a dead thread.

use core::net::Ipv4Addr;
use std::net::{IpAddr, SocketAddr};

use mdns_sd::{
    DaemonEvent, DaemonStatus, Error, IfKind, IfPredicate, RRType, Receiver, ResolvedService, ScopedIp,
    ServiceDaemon, ServiceEvent, ServiceInfo, TxtProperty, UnregisterStatus,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::interface::{Options, is_chosen};
use crate::service::Service;
use crate::sighting::Address;

/// Seconds between two looks at the machine's interfaces: one that returns is announced on within this.
const LOOK_AT_INTERFACES_SECS: u32 = 2;

/// One running engine.
pub(crate) struct Engine {
    daemon: ServiceDaemon,
}

/// Why the engine did not take a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its queue is full: ask again a little later.
    Full,
    /// Its thread has ended.
    Ended,
    /// It does not take this at all.
    Unfit(String),
}

/// What the engine says unasked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It announced a service on an interface. The full name is that in the call, or that after a conflict.
    Announced { full_name: String },
    /// A name was taken: the records that had it have another one on this interface.
    Renamed { original: String, new_name: String, interface: String, is_host: bool },
    /// An address or an interface came.
    AddressCame(IpAddr),
    /// An address or an interface went.
    AddressWent(IpAddr),
    /// Something failed.
    Failed(String),
}

/// What the engine says unasked, in order. It drops what does not fit a hundred.
pub(crate) struct Notes {
    receiver: Receiver<DaemonEvent>,
}

/// What a browse of the engine tells.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A query was sent: at once from the cache only, then after 10–50 ms, 1 s, 3 s, 7 s and so on.
    Asked,
    /// There is an instance of this full name.
    Found(String),
    /// All that is known of an instance.
    Resolved(Resolved),
    /// The instance of this full name is gone.
    Removed(String),
    /// All in the cache was told.
    AllTold,
}

/// Where a browse looks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Tells the cache, then asks the network.
    Network,
    /// Tells the cache and asks nobody. What comes is still told, and what is known kept fresh.
    Cache,
}

/// An instance as it came from the network.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) full_name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) addresses: Vec<Address>,
    pub(crate) txt: Vec<(String, Option<Vec<u8>>)>,
}

/// One browse of the engine. It must be read always: it is closed when a thousand wait.
pub(crate) struct Findings {
    receiver: Receiver<ServiceEvent>,
}

/// Whether the engine knew what it was to withdraw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Withdrawn {
    /// The goodbye has left; its repeat follows 120 ms later.
    Said,
    /// No such service here.
    Unknown,
    /// The thread ended before it answered.
    Ended,
}

/// The answer to a withdrawal.
pub(crate) struct Withdrawal {
    receiver: Receiver<UnregisterStatus>,
}

/// The answer to the question whether the engine still works.
pub(crate) struct Pulse {
    receiver: Receiver<DaemonStatus>,
}

/// Which addresses a service is announced with.
#[derive(Clone, Copy)]
pub(crate) enum Addresses<'a> {
    /// Those the service asks for.
    AsWanted,
    /// These alone. On interfaces of other networks nothing is said; with none, nothing anywhere.
    Only(&'a [IpAddr]),
}

impl Engine {
    /// Starts the thread and tells it which interfaces to use.
    pub(crate) fn start(options: &Options) -> Result<(Self, Notes), String> {
        // The thread goes on without a socket if it cannot have one, and says nothing of it.
        try_port(options.port).map_err(|error| format!("cannot use port {}: {error}", options.port))?;
        let daemon = ServiceDaemon::new_with_port(options.port).map_err(|error| error.to_string())?;
        let receiver = daemon.monitor().map_err(|error| error.to_string())?;
        let chosen = options.interfaces.clone();
        // A predicate, because the engine turns an address into an interface index once, and an interface that
        // is made anew has another one.
        let predicate = IfPredicate::new(move |interface| is_chosen(&chosen, interface));
        let set_up = || -> Result<(), Error> {
            daemon.disable_interface(IfKind::All)?;
            daemon.enable_interface(IfKind::Predicate(predicate))?;
            daemon.set_ip_check_interval(LOOK_AT_INTERFACES_SECS)
        };
        set_up().map_err(|error| error.to_string())?;
        Ok((Self { daemon }, Notes { receiver }))
    }

    /// Announces a service, after probing for its name if asked to. A name the engine has already is updated.
    pub(crate) fn announce(
        &self,
        service: &Service,
        addresses: Addresses<'_>,
        probe: bool,
    ) -> Result<(), Refused> {
        let mut described = describe(service, addresses)?;
        described.set_requires_probe(probe);
        self.daemon.register(described).map_err(refused)
    }

    /// Withdraws the service of this name: goodbye for its records and for the addresses of its host.
    pub(crate) fn withdraw(&self, service: &Service) -> Result<Withdrawal, Refused> {
        let receiver = self.daemon.unregister(&service.full_name()).map_err(refused)?;
        Ok(Withdrawal { receiver })
    }

    /// Looks for services of a type. One browse per domain: another one takes the place of the first.
    pub(crate) fn browse(&self, domain: &str, source: Source) -> Result<Findings, Refused> {
        let begun = match source {
            Source::Network => self.daemon.browse(domain),
            Source::Cache => self.daemon.browse_cache(domain),
        };
        Ok(Findings { receiver: begun.map_err(refused)? })
    }

    /// Ends a browse and forgets what it found.
    pub(crate) fn stop_browse(&self, domain: &str) -> Result<(), Refused> {
        self.daemon.stop_browse(domain).map_err(refused)
    }

    /// Asks for a sign of life.
    pub(crate) fn pulse(&self) -> Result<Pulse, Refused> {
        let receiver = self.daemon.status().map_err(refused)?;
        Ok(Pulse { receiver })
    }

    /// Ends the thread. What is still announced gets one goodbye without repeat; repeats still due are lost.
    pub(crate) fn end(&self) -> Result<Pulse, Refused> {
        let receiver = self.daemon.shutdown().map_err(refused)?;
        Ok(Pulse { receiver })
    }

    /// Makes the thread panic, as a malformed packet might.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        let predicate = IfPredicate::new(|_| panic!("asked to break down"));
        self.daemon.enable_interface(IfKind::Predicate(predicate)).expect("the queue has room");
    }
}

impl Notes {
    /// The next note; `None` once the thread has ended.
    pub(crate) async fn next(&mut self) -> Option<Note> {
        loop {
            let event = self.receiver.recv_async().await.ok()?;
            if let Some(note) = note(event) {
                return Some(note);
            }
        }
    }

    /// A note that is there already.
    pub(crate) fn ready(&mut self) -> Option<Note> {
        loop {
            if let Some(note) = note(self.receiver.try_recv().ok()?) {
                return Some(note);
            }
        }
    }

    /// Whether some may have been dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.receiver.is_full()
    }
}

impl Findings {
    /// The next finding; `None` once the engine has closed the browse.
    pub(crate) async fn next(&mut self) -> Option<Finding> {
        loop {
            let finding = match self.receiver.recv_async().await.ok()? {
                ServiceEvent::SearchStarted(_) => Finding::Asked,
                ServiceEvent::ServiceFound(_, full_name) => Finding::Found(full_name),
                ServiceEvent::ServiceResolved(service) => Finding::Resolved(resolved(*service)),
                ServiceEvent::ServiceRemoved(_, full_name) => Finding::Removed(full_name),
                ServiceEvent::SearchStopped(_) => Finding::AllTold,
                _ => continue,
            };
            return Some(finding);
        }
    }
}

impl Withdrawal {
    /// Whether the goodbye has left.
    pub(crate) async fn answer(self) -> Withdrawn {
        match self.receiver.recv_async().await {
            Ok(UnregisterStatus::OK) => Withdrawn::Said,
            Ok(UnregisterStatus::NotFound) => Withdrawn::Unknown,
            Err(_) => Withdrawn::Ended,
        }
    }
}

impl Pulse {
    /// Whether an answer came; without one the thread has ended.
    pub(crate) async fn answer(self) -> bool {
        self.receiver.recv_async().await.is_ok()
    }
}

fn describe(service: &Service, addresses: Addresses<'_>) -> Result<ServiceInfo, Refused> {
    let type_domain = match service.subtypes.first() {
        Some(subtype) => format!("{subtype}._sub.{}", service.type_domain()),
        None => service.type_domain(),
    };
    let given: &[IpAddr] = match (addresses, &service.ip) {
        (Addresses::Only(these), _) => these,
        (Addresses::AsWanted, Some(ip)) => core::slice::from_ref(ip),
        (Addresses::AsWanted, None) => &[],
    };
    let txt: Vec<TxtProperty> = service
        .txt
        .iter()
        .map(|(key, value)| match value {
            Some(value) => TxtProperty::from((key, value)),
            None => TxtProperty::from(key.as_str()),
        })
        .collect();
    let host = format!("{}.local.", service.host);
    let described = ServiceInfo::new(&type_domain, &service.name, &host, given, service.port, txt)
        .map_err(|error| Refused::Unfit(error.to_string()))?;
    let follows_interfaces = matches!(addresses, Addresses::AsWanted) && service.ip.is_none();
    Ok(if follows_interfaces { described.enable_addr_auto() } else { described })
}

fn refused(error: Error) -> Refused {
    match error {
        Error::Again => Refused::Full,
        Error::DaemonShutdown => Refused::Ended,
        other => Refused::Unfit(other.to_string()),
    }
}

fn note(event: DaemonEvent) -> Option<Note> {
    match event {
        DaemonEvent::Announce(full_name, _) => Some(Note::Announced { full_name }),
        DaemonEvent::NameChange(change) => Some(Note::Renamed {
            is_host: matches!(change.rr_type, RRType::A | RRType::AAAA),
            original: change.original,
            new_name: change.new_name,
            interface: change.intf_name,
        }),
        DaemonEvent::IpAdd(address) => Some(Note::AddressCame(address)),
        DaemonEvent::IpDel(address) => Some(Note::AddressWent(address)),
        DaemonEvent::Error(error) => Some(Note::Failed(error.to_string())),
        _ => None,
    }
}

fn resolved(service: ResolvedService) -> Resolved {
    let mut addresses: Vec<Address> = service.addresses.iter().map(heard).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let txt = service
        .txt_properties
        .iter()
        .map(|property| (property.key().to_owned(), property.val().map(<[u8]>::to_vec)))
        .collect();
    Resolved { full_name: service.fullname, host: service.host, port: service.port, addresses, txt }
}

fn heard(address: &ScopedIp) -> Address {
    let zone = match address {
        ScopedIp::V6(v6) if v6.addr().is_unicast_link_local() => Some(v6.scope_id().name.clone()),
        _ => None,
    };
    Address { ip: address.to_ip_addr(), zone: zone.filter(|zone| !zone.is_empty()) }
}

/// Binds the port as the engine will, and lets it go.
fn try_port(port: u16) -> std::io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::service;

    #[test]
    fn full_names_are_spelled_as_the_engine_spells_them() {
        for name in ["plain", "a.b", "tail\\", "Büro (2)", "\\.", &"x".repeat(63)] {
            let service = service(name);
            let described = describe(&service, Addresses::AsWanted).expect("a fit service");
            assert_eq!(described.get_fullname(), service.full_name());
            assert!(described.is_addr_auto());
        }
    }

    #[test]
    fn a_service_with_an_address_of_its_own_follows_no_interface() {
        let mut service = service("a");
        service.ip = Some([127, 0, 0, 9].into());
        service.subtypes = vec!["_printer".to_owned()];
        let described = describe(&service, Addresses::AsWanted).expect("a fit service");
        assert!(!described.is_addr_auto());
        assert_eq!(described.get_addresses().len(), 1);
        assert_eq!(described.get_subtype().as_deref(), Some("_printer._sub._http._tcp.local."));
        let hidden = describe(&service, Addresses::Only(&[])).expect("a fit service");
        assert!(hidden.get_addresses().is_empty() && !hidden.is_addr_auto());
    }

    #[test]
    fn a_port_that_cannot_be_had_is_an_error_at_once() {
        let taken = std::net::UdpSocket::bind("0.0.0.0:0").expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        let options = Options { interfaces: Vec::new(), port };
        assert!(Engine::start(&options).err().is_some_and(|error| error.contains("cannot use port")));
    }
}
