//! What a registration's lease carries: the bytes only this face writes. `docs/internals/formats/registration.md` has them.
//!
//! They begin with the eight characters of the id, so that whoever tells the story of the log can find it without
//! knowing the rest.

use super::home::Home;
use super::service::{Described, ServiceType, stands_for};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use tenure_engine::kernel::Text;

/// Characters of an id.
pub(crate) const ID_BYTES: usize = 8;
/// Of a daemon alone.
const VERSION: u8 = 1;
/// With a home, of a cluster.
const VERSION_WITH_HOME: u8 = 2;

/// Whether ids look so.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A registration as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Eight hexadecimal digits.
    pub(crate) id: String,
    pub(crate) described: Described,
    /// How the name is spelled on the network, where that is not as it was asked for: who takes a registration over
    /// may write it with other capitals, and the network would take that for another service.
    pub(crate) spelled: Option<String>,
    /// The name it has on the network, where another host has the one it was given here.
    pub(crate) renamed: Option<String>,
    /// Made from the operation id it was asked for with; a retry is known by it.
    pub(crate) operation: Option<u64>,
    /// The node that advertises it; `None`: the daemon, or the cluster has not chosen yet.
    pub(crate) home: Option<Home>,
    /// The node that advertised it before and has not said goodbye yet: until then its home waits.
    pub(crate) leaving: Option<Home>,
}

/// What follows the other fields where there is a home.
#[derive(Serialize, Deserialize)]
struct StoredHome {
    home: Home,
    leaving: Option<Home>,
}

/// The bytes behind id and version.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    service_type: String,
    subtypes: Vec<String>,
    port: u16,
    ip: Option<IpAddr>,
    txt: Vec<(String, Option<String>)>,
    spelled: Option<String>,
    renamed: Option<String>,
    operation: Option<u64>,
}

impl Facts {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Described { name, service_type, subtypes, port, ip, txt } = &self.described;
        let stored = Stored {
            name: name.clone(),
            service_type: service_type.as_str().to_owned(),
            subtypes: subtypes.clone(),
            port: *port,
            ip: *ip,
            txt: txt.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            spelled: self.spelled.clone(),
            renamed: self.renamed.clone(),
            operation: self.operation,
        };
        let mut bytes = self.id.clone().into_bytes();
        bytes.push(if self.home.is_some() { VERSION_WITH_HOME } else { VERSION });
        bytes.extend(postcard::to_allocvec(&stored).expect("invariant: plain data can be written"));
        if let Some(home) = self.home.clone() {
            let stored = StoredHome { home, leaving: self.leaving.clone() };
            bytes.extend(postcard::to_allocvec(&stored).expect("invariant: plain data can be written"));
        }
        bytes
    }

    /// Reads them again; `None` where they are of another kind or version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_at_checked(ID_BYTES)?;
        let (version, stored) = rest.split_first()?;
        if *version != VERSION && *version != VERSION_WITH_HOME {
            return None;
        }
        let (stored, rest): (Stored, _) = postcard::take_from_bytes(stored).ok()?;
        let (home, leaving) = if *version == VERSION_WITH_HOME {
            let stored: StoredHome = postcard::from_bytes(rest).ok()?;
            (Some(stored.home), stored.leaving)
        } else {
            (None, None)
        };
        let (service_type, _) = ServiceType::parse(&stored.service_type).ok()?;
        Some(Self {
            id: core::str::from_utf8(id).ok()?.to_owned(),
            described: Described {
                name: stored.name,
                service_type,
                subtypes: stored.subtypes,
                port: stored.port,
                ip: stored.ip,
                txt: stored.txt.into_iter().collect(),
            },
            spelled: stored.spelled,
            renamed: stored.renamed,
            operation: stored.operation,
            home,
            leaving,
        })
    }

    /// The node that is to say goodbye when it ends: who advertises it, or did and still has to.
    pub(crate) fn advertised_by(&self) -> Option<&Home> {
        self.leaving.as_ref().or(self.home.as_ref())
    }

    /// The same registration with another home. Who advertises it has to say goodbye first.
    pub(crate) fn moved_to(self, home: Option<Home>) -> Self {
        let before = self.leaving.or(self.home);
        let leaving = before.filter(|before| home.as_ref().is_some_and(|home| home.node != before.node));
        Self { home, leaving, ..self }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name that was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.described.name
    }

    /// The same registration described anew, under the name that the network knows.
    pub(crate) fn described_anew(&self, described: Described, members: &[Text]) -> Self {
        let advertised = self.advertised_name(members);
        let anew = Self { described, spelled: None, ..self.clone() };
        let spelled = (anew.advertised_name(members) != advertised).then_some(advertised);
        Self { spelled, ..anew }
    }

    /// The name that is asked of the network: what it settled on last, else what was given here.
    pub(crate) fn network_name(&self, members: &[Text]) -> String {
        self.renamed.clone().unwrap_or_else(|| self.advertised_name(members))
    }

    /// The name it got here: the one whose resource the lease covers.
    pub(crate) fn advertised_name(&self, members: &[Text]) -> String {
        let described = &self.described;
        let spelled = self.spelled.iter().cloned();
        spelled
            .chain(described.variants())
            .find(|name| members.iter().any(|member| stands_for(member, &described.service_type, name)))
            .unwrap_or_else(|| described.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::service::resource;
    use super::*;
    use tenure_api::Register;

    fn facts() -> Facts {
        let asked = Register {
            name: "Äpp.1".to_owned(),
            service_type: "_p._sub._http._tcp".to_owned(),
            port: 8080,
            ip: Some(IpAddr::from([127, 0, 0, 1])),
            txt: [("path".to_owned(), Some("/".to_owned())), ("flag".to_owned(), None)].into(),
            ..Register::default()
        };
        let described = Described::check(&asked).expect("a service");
        Facts {
            id: "0a1b2c3d".to_owned(),
            described,
            spelled: None,
            renamed: None,
            operation: Some(7),
            home: None,
            leaving: None,
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_begins_with_the_id() {
        let bytes = facts().encode();
        assert!(bytes.starts_with(b"0a1b2c3d"));
        assert_eq!(Facts::decode(&bytes), Some(facts()));
    }

    #[test]
    fn the_bytes_of_version_1_stay_what_they_are() {
        let shown: String = facts().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        expect_test::expect!["30613162326333640106c38470702e310a5f687474702e5f74637001025f70903f01007f0000010204666c616700047061746801012f00000107"].assert_eq(&shown);
    }

    #[test]
    fn a_home_is_kept_and_one_that_leaves_is_the_one_to_say_goodbye() {
        let home = |node: &str| Home { node: node.to_owned(), host: "h".to_owned() };
        let at_a = Facts { home: Some(home("a")), ..facts() };
        assert_eq!(Facts::decode(&at_a.encode()), Some(at_a.clone()));
        assert_eq!(at_a.clone().moved_to(Some(home("a"))), at_a);
        let at_b = at_a.clone().moved_to(Some(home("b")));
        assert_eq!((at_b.home.clone(), at_b.advertised_by()), (Some(home("b")), Some(&home("a"))));
        assert_eq!(Facts::decode(&at_b.encode()), Some(at_b.clone()));
        let at_c = at_b.clone().moved_to(Some(home("c")));
        assert_eq!(at_c.advertised_by(), Some(&home("a")), "b has advertised nothing yet");
        assert_eq!(at_b.moved_to(Some(home("a"))), at_a);
    }

    #[test]
    fn other_capitals_keep_the_name_that_the_network_knows() {
        let members: [Text; 1] = [resource(&facts().described.service_type, "Äpp.1 (2)").into()];
        assert_eq!(facts().advertised_name(&members), "Äpp.1 (2)");
        let shouted = Described { name: "ÄPP.1".to_owned(), port: 1, ..facts().described };
        let anew = facts().described_anew(shouted.clone(), &members);
        assert_eq!((anew.advertised_name(&members).as_str(), anew.name()), ("Äpp.1 (2)", "ÄPP.1"));
        assert_eq!(Facts::decode(&anew.encode()), Some(anew.clone()));
        let back = anew.described_anew(facts().described, &members);
        assert_eq!((back.advertised_name(&members).as_str(), back.spelled), ("Äpp.1 (2)", None));
    }

    #[test]
    fn bytes_of_another_kind_are_no_facts() {
        assert_eq!(Facts::decode(b""), None);
        assert_eq!(Facts::decode(b"0a1b2c3d"), None);
        assert_eq!(Facts::decode(b"0a1b2c3d\x03xxxx"), None);
        let bytes = facts().encode();
        assert_eq!(Facts::decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn the_largest_registration_fits_its_lease() {
        let asked = Register {
            name: "n".repeat(63),
            service_type: format!("_{}._sub._fifteen-letters._tcp", "s".repeat(62)),
            port: 65_535,
            txt: (0..320).map(|n| (format!("{n:x}"), None)).collect(),
            ..Register::default()
        };
        let described = Described::check(&asked).expect("a service");
        let facts = Facts {
            id: "0a1b2c3d".to_owned(),
            described,
            spelled: None,
            renamed: None,
            operation: Some(u64::MAX),
            home: Some(Home { node: "n".repeat(63), host: "h".repeat(63) }),
            leaving: Some(Home { node: "m".repeat(63), host: "h".repeat(63) }),
        };
        assert!(facts.encode().len() <= tenure_engine::kernel::limits::ATTACHMENT_BYTES_MAX);
    }
}
