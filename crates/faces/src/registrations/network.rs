//! The network as this face sees it: something that services are advertised on and looked for. Who composes the daemon
//! says which one; nothing here knows how packets are made.

use super::service::{ServiceType, Wanted};
use core::future::Future;
use core::pin::Pin;
use std::net::IpAddr;
use tenure_api::Address;
use tokio::sync::mpsc::UnboundedReceiver;

/// A future of a trait object.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A service as it is to be seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its type.
    pub service_type: ServiceType,
    /// `_printer`.
    pub subtypes: Vec<String>,
    /// Instance name.
    pub name: String,
    /// Label of its host, this service's alone.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// Its address; `None`: those of this host.
    pub ip: Option<IpAddr>,
    /// What is said about it.
    pub txt: Vec<(String, Option<Vec<u8>>)>,
}

impl Service {
    /// Some service of these types, to ask whether there can be one.
    pub(super) fn sample(service_type: ServiceType, subtypes: Vec<String>) -> Self {
        let (name, host) = ("any".to_owned(), "any".to_owned());
        Self { service_type, subtypes, name, host, port: 1, ip: None, txt: Vec::new() }
    }
}

/// Why a service can never be advertised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfit {
    /// Which field of a registration is wrong.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

/// How a goodbye went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goodbye {
    /// It has left, and its repetition too.
    Sent,
    /// None was to be sent now; why.
    Unneeded(String),
    /// It could not be sent.
    Unsent(String),
}

/// How an advertised service stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The network has been told.
    pub advertised: bool,
    /// Its name there, where that is another than was asked for.
    pub name: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// A service has another name on the network than it was advertised under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// Which.
    pub key: u128,
    /// Its name from now on.
    pub name: String,
}

/// How the network is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// In words; `None` where there is no network.
    pub words: Option<String>,
    /// Interfaces in use.
    pub interfaces: Vec<String>,
    /// Goodbyes sent since the start.
    pub goodbyes: u64,
}

/// What was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A service is there.
    Found {
        /// Instance name.
        name: String,
        /// Its type.
        service_type: String,
    },
    /// Where it is and what is said about it; told again when that changes.
    Resolved(Record),
    /// A service is gone.
    Removed {
        /// Instance name.
        name: String,
        /// Its type.
        service_type: String,
    },
    /// There are services of a type.
    TypeFound(String),
    /// There are none any more.
    TypeRemoved(String),
}

/// A service that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Instance name.
    pub name: String,
    /// Its type.
    pub service_type: String,
    /// Its host.
    pub host: Option<String>,
    /// Where it listens.
    pub port: Option<u16>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// What is said about it.
    pub txt: Vec<(String, Option<Vec<u8>>)>,
}

/// Something that services are advertised on and looked for.
pub trait Network: Send + Sync {
    /// Whether a service could be advertised at all: the rule of the code that announces.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    fn check(&self, service: &Service) -> Result<(), Unfit>;
    /// Advertises a service, or updates in place what this key stands for. Never waits.
    fn advertise(&self, key: u128, service: Service);
    /// Says goodbye, also for what another process advertised under the same name. Begins at once; the answer may be
    /// waited for.
    fn withdraw(&self, key: u128, service: Service) -> Later<'static, Goodbye>;
    /// How an advertised service stands.
    fn standing(&self, key: u128) -> Standing;
    /// Services that another host's have pushed to another name, as that is noticed; given to the first who asks.
    fn take_renames(&self) -> Option<UnboundedReceiver<Renamed>>;
    /// Asks at once for what is looked for already, where that may be asked rarely by now.
    fn ask(&self, wanted: &Wanted);
    /// Looks for services.
    fn browse(&self, wanted: &Wanted) -> Box<dyn Sightings>;
    /// How it is.
    fn health(&self) -> Health;
    /// Withdraws everything and ends; says how each goodbye went.
    fn close(&self) -> Later<'static, Vec<(u128, Goodbye)>>;
    /// Ends without any goodbye: peers go on believing what was announced, and the daemon that starts next announces it.
    fn leave(&self) -> Later<'static, ()>;
}

/// What is seen, as it is seen. Looking ends when this is dropped.
pub trait Sightings: Send {
    /// The next sighting; `None` once the network is closed. Nothing is lost when this is dropped before it is ready.
    fn next(&mut self) -> Later<'_, Option<Seen>>;
}
