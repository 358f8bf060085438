//! What is on the network: browsing, and looking one service up.

use super::network::{Record, Seen, Service, Sightings};
use super::service::{Wanted, folded, parse_instance};
use crate::call::Reply;
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::tally::{Counted, Full, Tally};
use core::time::Duration;
use std::sync::Arc;
use tenure_api::{
    Address, Browsed, DiscoveryEvent, DiscoveryEventKind, Error, ErrorCode, Resolved, ServiceRecord,
};
use tenure_engine::kernel::Text;
use tokio::time::timeout;

/// Requests that look at the network at once, in all and of one principal.
const SIGHTSEERS_MAX: usize = 256;
const SIGHTSEERS_OF_ONE_MAX: usize = SIGHTSEERS_MAX / 2;
/// How long one service is looked for.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);
/// Addresses of one service come one by one. The answer waits until this much time has passed without another.
const SET_AFTER: Duration = Duration::from_millis(250);
/// The type whose instances are types.
const TYPES_TYPE: &str = "_services._dns-sd._udp";

/// What is seen, in wire types. Looking ends when this is dropped.
pub struct Sightseeing {
    sightings: Box<dyn Sightings>,
    _place: Counted<Text>,
}

impl Sightseeing {
    /// The next sighting; `None` once the daemon stops. Nothing is lost when this is dropped before it is ready.
    pub async fn next(&mut self) -> Option<DiscoveryEvent> {
        Some(match self.sightings.next().await? {
            Seen::Found { name, service_type } => sighting(DiscoveryEventKind::Found, &name, &service_type),
            Seen::Resolved(record) => {
                DiscoveryEvent { event: DiscoveryEventKind::Resolved, service: shown(record) }
            }
            Seen::Removed { name, service_type } => {
                sighting(DiscoveryEventKind::Removed, &name, &service_type)
            }
            Seen::TypeFound(name) => sighting(DiscoveryEventKind::Found, &name, TYPES_TYPE),
            Seen::TypeRemoved(name) => sighting(DiscoveryEventKind::Removed, &name, TYPES_TYPE),
        })
    }

    /// The next thing a browse tells: what is there whole, and what is gone.
    pub async fn next_browsed(&mut self) -> Option<Browsed> {
        loop {
            let sighting = self.next().await?;
            match sighting.event {
                DiscoveryEventKind::Resolved => return Some(Browsed::Found { found: sighting.service }),
                DiscoveryEventKind::Found if sighting.service.service_type == TYPES_TYPE => {
                    return Some(Browsed::Found { found: sighting.service });
                }
                // It will be told once it is resolved.
                DiscoveryEventKind::Found => {}
                DiscoveryEventKind::Removed => return Some(Browsed::Seen(sighting)),
            }
        }
    }
}

impl Faces {
    /// Begins to look for services of a type; without one, for the types there are.
    ///
    /// # Errors
    /// When it is no type.
    pub fn browse(&self, caller: &Caller, service_type: Option<&str>) -> Result<Sightseeing, Error> {
        self.look_for(caller, &Wanted::parse(service_type)?)
    }

    fn look_for(&self, caller: &Caller, wanted: &Wanted) -> Result<Sightseeing, Error> {
        let registrations = self.registrations();
        if let Wanted::Services { service_type, subtype } = wanted {
            let subtypes = subtype.iter().cloned().collect();
            registrations.check(&Service::sample(service_type.clone(), subtypes))?;
        }
        let place = place(&registrations.sightseers, &caller.principal)?;
        Ok(Sightseeing { sightings: registrations.network.browse(wanted), _place: place })
    }

    pub(crate) async fn resolve(&self, caller: &Caller, name: &str) -> Result<Reply, Error> {
        let (instance, service_type) = parse_instance(name)?;
        let wanted = Wanted::Services { service_type, subtype: None };
        let mut sights = self.look_for(caller, &wanted)?;
        self.registrations().network.ask(&wanted);
        match look_up(&mut *sights.sightings, &instance).await {
            LookedUp::Found(record) => Ok(Reply::Resolved(Resolved { resolved: shown(record) })),
            LookedUp::Closed => Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping")),
            LookedUp::Unanswered => Err(Error::new(
                ErrorCode::ResolveTimeout,
                format!("no answer for {name:?} within {} s", RESOLVE_WITHIN.as_secs()),
            )),
        }
    }
}

/// A place to look. One principal leaves half of them to others.
fn place(sightseers: &Arc<Tally<Text>>, principal: &Text) -> Result<Counted<Text>, Error> {
    sightseers.admit(principal.clone(), SIGHTSEERS_MAX, SIGHTSEERS_OF_ONE_MAX).map_err(|full| {
        let (limit, value, of_what) = match full {
            Full::InAll => ("browses", SIGHTSEERS_MAX, "in all"),
            Full::OfKey => ("browses_per_principal", SIGHTSEERS_OF_ONE_MAX, "of one principal"),
        };
        let message = format!("at most {value} requests {of_what} may browse or resolve at once");
        Error::new(ErrorCode::Overloaded, message).with("limit", limit).with("value", value)
    })
}

enum LookedUp {
    Found(Record),
    Unanswered,
    Closed,
}

/// Waits for a service and for the whole of it.
async fn look_up(sightings: &mut dyn Sightings, instance: &str) -> LookedUp {
    let mut found = None;
    let looking = async {
        loop {
            let change = next_of(sightings, instance);
            let change = match &found {
                Some(_) => timeout(SET_AFTER, change).await.unwrap_or(Change::None),
                None => change.await,
            };
            match change {
                Change::To(record) => found = record,
                Change::None => return false,
                Change::Closed => return true,
            }
        }
    };
    let is_closed = timeout(RESOLVE_WITHIN, looking).await.unwrap_or(false);
    match found {
        Some(record) => LookedUp::Found(record),
        None if is_closed => LookedUp::Closed,
        None => LookedUp::Unanswered,
    }
}

/// What became of a service that is looked for.
enum Change {
    To(Option<Record>),
    None,
    Closed,
}

async fn next_of(sightings: &mut dyn Sightings, instance: &str) -> Change {
    let is_it = |name: &str| folded(name) == folded(instance);
    loop {
        match sightings.next().await {
            Some(Seen::Resolved(record)) if is_it(&record.name) => return Change::To(Some(record)),
            Some(Seen::Removed { name, .. }) if is_it(&name) => return Change::To(None),
            Some(_) => {}
            None => return Change::Closed,
        }
    }
}

fn sighting(event: DiscoveryEventKind, name: &str, service_type: &str) -> DiscoveryEvent {
    DiscoveryEvent { event, service: ServiceRecord::named(name, service_type) }
}

fn shown(record: Record) -> ServiceRecord {
    let mut service = ServiceRecord::named(&record.name, &record.service_type);
    service.host = record.host;
    service.port = record.port;
    service.addresses = record.addresses;
    // What can be used from anywhere comes first.
    service.addresses.sort_by_key(Address::is_link_local);
    let is_first = |address: &&Address| address.ip.is_ipv4() && !address.is_link_local();
    service.ip = service.addresses.iter().find(is_first).or(service.addresses.first()).cloned();
    for (key, value) in record.txt {
        match value.map(String::from_utf8) {
            None => _ = service.txt.insert(key, None),
            Some(Ok(text)) => _ = service.txt.insert(key, Some(text)),
            Some(Err(bytes)) => _ = service.txt_base64.insert(key, base64(bytes.as_bytes())),
        }
    }
    service
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_text_are_shown_in_base64() {
        let vectors: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"\xff\xfe\xfd", "//79"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn one_principal_leaves_half_of_the_places_to_others() {
        // One principal once had all 256, and nobody else could browse or resolve.
        let sightseers = Arc::default();
        let (greedy, other) = (Text::from("uid:7"), Text::from("uid:8"));
        let told = |refused: &Error| {
            (refused.details["limit"].as_str().expect("text").to_owned(), refused.details["value"].as_u64())
        };
        let mut held: Vec<_> = (0..256).map_while(|_| place(&sightseers, &greedy).ok()).collect();
        assert_eq!(held.len(), 128);
        let refused = place(&sightseers, &greedy).expect_err("it has its part");
        assert_eq!(
            (refused.code, told(&refused)),
            (ErrorCode::Overloaded, ("browses_per_principal".to_owned(), Some(128)))
        );
        held.extend((0..128).map_while(|_| place(&sightseers, &other).ok()));
        assert_eq!(held.len(), 256);
        let refused = place(&sightseers, &Text::from("uid:9")).expect_err("all are taken");
        assert_eq!(told(&refused), ("browses".to_owned(), Some(256)));
        held.clear();
        assert_eq!(sightseers.keys(), 0, "places come back, and nobody stays listed");
    }

    #[test]
    fn the_first_ipv4_address_is_the_address() {
        let record = Record {
            name: "a".to_owned(),
            service_type: "_http._tcp".to_owned(),
            host: None,
            port: Some(1),
            addresses: addresses(&["::1", "127.0.0.1"]),
            txt: vec![
                ("flag".to_owned(), None),
                ("text".to_owned(), Some(b"x".to_vec())),
                ("raw".to_owned(), Some(vec![0xff])),
            ],
        };
        let service = shown(record);
        assert_eq!(service.ip, Some("127.0.0.1".parse().expect("an address")));
        assert_eq!(service.txt.get("flag"), Some(&None));
        assert_eq!(service.txt.get("text"), Some(&Some("x".to_owned())));
        assert_eq!(service.txt_base64.get("raw").map(String::as_str), Some("/w=="));
    }

    fn addresses(texts: &[&str]) -> Vec<Address> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    fn record(name: &str, texts: &[&str]) -> Record {
        let service_type = "_http._tcp".to_owned();
        let addresses = addresses(texts);
        Record { name: name.to_owned(), service_type, host: None, port: Some(80), addresses, txt: Vec::new() }
    }

    /// What was seen, then nothing more.
    struct Script(std::vec::IntoIter<Seen>);

    impl Sightings for Script {
        fn next(&mut self) -> super::super::network::Later<'_, Option<Seen>> {
            match self.0.next() {
                Some(seen) => Box::pin(core::future::ready(Some(seen))),
                None => Box::pin(core::future::pending()),
            }
        }
    }

    fn looked_up(seen: Vec<Seen>) -> LookedUp {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(look_up(&mut Script(seen.into_iter()), "büro"))
    }

    #[test]
    fn a_service_is_told_with_all_its_addresses() {
        let whole = ["192.0.2.7", "2001:db8::7", "fe80::7%eth0", "fe80::7%wlan0"];
        let gone = Seen::Removed { name: "Büro".to_owned(), service_type: "_http._tcp".to_owned() };
        let found = looked_up(vec![
            Seen::Resolved(record("other", &["192.0.2.1"])),
            Seen::Resolved(record("Büro", &["192.0.2.9"])),
            gone,
            Seen::Resolved(record("BÜRO", &["fe80::7%eth0"])),
            Seen::Resolved(record("other", &["192.0.2.2"])),
            Seen::Resolved(record("BÜRO", &whole)),
        ]);
        let LookedUp::Found(found) = found else { panic!("it was seen") };
        assert_eq!(found.addresses, addresses(&whole));
    }

    #[test]
    fn addresses_that_can_be_used_anywhere_come_first() {
        let shown_as = |texts: &[&str]| {
            let service = shown(record("a", texts));
            let all: Vec<String> = service.addresses.iter().map(ToString::to_string).collect();
            (service.ip.map(|ip| ip.to_string()).unwrap_or_default(), all.join(" "))
        };
        let is = |ip: &str, all: &str| (ip.to_owned(), all.to_owned());
        assert_eq!(
            shown_as(&["169.254.1.1", "192.0.2.7", "fe80::7%eth0", "2001:db8::7"]),
            is("192.0.2.7", "192.0.2.7 2001:db8::7 169.254.1.1 fe80::7%eth0")
        );
        assert_eq!(shown_as(&["169.254.1.1", "2001:db8::7"]), is("2001:db8::7", "2001:db8::7 169.254.1.1"));
        assert_eq!(shown_as(&["fe80::7%eth0"]), is("fe80::7%eth0", "fe80::7%eth0"));
    }
}
