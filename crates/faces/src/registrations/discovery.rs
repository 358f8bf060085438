//! What is on the network: browsing, and looking one service up.

use super::network::{Record, Seen, Sightings};
use super::service::{Wanted, parse_instance};
use crate::call::Reply;
use crate::dispatch::Faces;
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tenure_api::{Browsed, Error, ErrorCode, Resolved, ServiceRecord, Sighting, SightingKind};
use tokio::sync::OwnedSemaphorePermit;

/// Who may look at once.
pub(super) const SIGHTSEERS_MAX: usize = 256;
/// How long one service is looked for.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);
/// The type whose instances are types.
const TYPES_TYPE: &str = "_services._dns-sd._udp";

/// What is seen, in wire types. Looking ends when this is dropped.
pub struct Sightseeing {
    sightings: Box<dyn Sightings>,
    _permit: OwnedSemaphorePermit,
}

impl Sightseeing {
    /// The next sighting; `None` once the daemon stops. Nothing is lost when this is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Sighting> {
        Some(match self.sightings.next().await? {
            Seen::Found { name, service_type } => sighting(SightingKind::Found, &name, &service_type),
            Seen::Resolved(record) => Sighting { event: SightingKind::Resolved, service: shown(record) },
            Seen::Removed { name, service_type } => sighting(SightingKind::Removed, &name, &service_type),
            Seen::TypeFound(name) => sighting(SightingKind::Found, &name, TYPES_TYPE),
            Seen::TypeRemoved(name) => sighting(SightingKind::Removed, &name, TYPES_TYPE),
        })
    }

    /// The next thing a browse tells: what is there whole, and what is gone.
    pub async fn next_browsed(&mut self) -> Option<Browsed> {
        loop {
            let sighting = self.next().await?;
            match sighting.event {
                SightingKind::Resolved => return Some(Browsed::Found { found: sighting.service }),
                SightingKind::Found if sighting.service.service_type == TYPES_TYPE => {
                    return Some(Browsed::Found { found: sighting.service });
                }
                // It will be told once it is resolved.
                SightingKind::Found => {}
                SightingKind::Removed => return Some(Browsed::Seen(sighting)),
            }
        }
    }
}

impl Faces {
    /// Begins to look for services of a type; without one, for the types there are.
    ///
    /// # Errors
    /// When it is no type.
    pub fn browse(&self, service_type: Option<&str>) -> Result<Sightseeing, Error> {
        self.look_for(&Wanted::parse(service_type)?)
    }

    fn look_for(&self, wanted: &Wanted) -> Result<Sightseeing, Error> {
        let registrations = self.registrations();
        let permit = Arc::clone(&registrations.sightseers).try_acquire_owned().map_err(|_| {
            let message = format!("at most {SIGHTSEERS_MAX} may look at the network at once");
            Error::new(ErrorCode::Overloaded, message).with("limit", "browses").with("value", SIGHTSEERS_MAX)
        })?;
        Ok(Sightseeing { sightings: registrations.network.browse(wanted), _permit: permit })
    }

    pub(crate) async fn resolve(&self, name: &str) -> Result<Reply, Error> {
        let (instance, service_type) = parse_instance(name)?;
        let wanted = Wanted::Services { service_type, subtype: None };
        let mut sights = self.look_for(&wanted)?;
        self.registrations().network.ask(&wanted);
        let looking = async {
            while let Some(seen) = sights.sightings.next().await {
                match seen {
                    Seen::Resolved(record) if record.name.eq_ignore_ascii_case(&instance) => {
                        return Some(record);
                    }
                    _ => {}
                }
            }
            None
        };
        match tokio::time::timeout(RESOLVE_WITHIN, looking).await {
            Ok(Some(record)) => Ok(Reply::Resolved(Resolved { resolved: shown(record) })),
            Ok(None) => Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping")),
            Err(_) => Err(Error::new(
                ErrorCode::ResolveTimeout,
                format!("nobody answered for {name:?} within {} s", RESOLVE_WITHIN.as_secs()),
            )),
        }
    }
}

fn sighting(event: SightingKind, name: &str, service_type: &str) -> Sighting {
    Sighting { event, service: ServiceRecord::named(name, service_type) }
}

fn shown(record: Record) -> ServiceRecord {
    let mut service = ServiceRecord::named(&record.name, &record.service_type);
    service.host = record.host;
    service.port = record.port;
    service.ip = record.addresses.iter().copied().find(IpAddr::is_ipv4).or(record.addresses.first().copied());
    service.addresses = record.addresses;
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
    fn the_first_ipv4_address_is_the_address() {
        let record = Record {
            name: "a".to_owned(),
            service_type: "_http._tcp".to_owned(),
            host: None,
            port: Some(1),
            addresses: vec!["::1".parse().expect("an address"), "127.0.0.1".parse().expect("an address")],
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
}
