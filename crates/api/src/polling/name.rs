//! Under which names the things of a polling group live in the daemon. All of them begin with `poll/<group>/`, so that
//! one list and one stream of events tell everything about a group.
//!
//! A target keeps its name where that is a good name for a resource; otherwise what is in the way is written as `%` and
//! two digits. What begins with `@` is bookkeeping.

use core::fmt;

/// The longest name of a group.
const GROUP_BYTES_MAX: usize = 64;
/// The longest name of anything in it, as it is written down.
const WRITTEN_BYTES_MAX: usize = 180;

const PREFIX: &str = "poll/";
const POLLER: &str = "@poller/";
const CORDON: &str = "@cordon/";
const PIN: &str = "@pin/";

/// Name of a resource of a polling group.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PollName {
    /// A target; its lease belongs to the poller that polls it.
    Target(String),
    /// The membership of a poller.
    Poller(String),
    /// A cordon: held while the poller of this name gets no targets.
    Cordon(String),
    /// A pin: held while the target of this name belongs to one poller.
    Pin(String),
}

/// What names of a kind begin with, and what is made of the rest.
type Kind = (&'static str, fn(String) -> PollName);

/// Why a name cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PollNameError {
    /// The name of the group is not valid.
    #[error(
        "{0:?} is not a valid name for a group: 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first"
    )]
    Group(String),
    /// The name is empty or too long.
    #[error("{0:?} cannot name a target or poller: it needs 1 to 180 bytes once written as a resource")]
    Length(String),
}

impl PollName {
    /// Checks the name of a group.
    ///
    /// # Errors
    /// [`PollNameError::Group`] if it is not valid.
    pub fn check_group(group: &str) -> Result<(), PollNameError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins_well = group.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if begins_well && group.len() <= GROUP_BYTES_MAX && group.bytes().all(fits) {
            Ok(())
        } else {
            Err(PollNameError::Group(group.to_owned()))
        }
    }

    /// Prefix of all resource names of the group.
    #[must_use]
    pub fn prefix(group: &str) -> String {
        format!("{PREFIX}{group}/")
    }

    /// Name of the resource in the group.
    ///
    /// # Errors
    /// [`PollNameError`] if group or name is not valid.
    pub fn resource(&self, group: &str) -> Result<String, PollNameError> {
        Self::check_group(group)?;
        let (kind, name) = match self {
            Self::Target(name) => ("", name),
            Self::Poller(name) => (POLLER, name),
            Self::Cordon(name) => (CORDON, name),
            Self::Pin(name) => (PIN, name),
        };
        let written = Written(name).to_string();
        if name.is_empty() || written.len() > WRITTEN_BYTES_MAX {
            return Err(PollNameError::Length(name.clone()));
        }
        Ok(format!("{PREFIX}{group}/{kind}{written}"))
    }

    /// Group and name of a resource; `None` if the resource belongs to no group.
    #[must_use]
    pub fn of_resource(resource: &str) -> Option<(&str, Self)> {
        let (group, name) = resource.strip_prefix(PREFIX)?.split_once('/')?;
        if name.is_empty() || Self::check_group(group).is_err() {
            return None;
        }
        let kinds: [Kind; 3] = [(POLLER, Self::Poller), (CORDON, Self::Cordon), (PIN, Self::Pin)];
        for (kind, of) in kinds {
            if let Some(name) = name.strip_prefix(kind) {
                return Some((group, of(read(name))));
            }
        }
        Some((group, Self::Target(read(name))))
    }

    /// Whether only an operator may take the resource: a cordon or a pin.
    #[must_use]
    pub fn is_operators(resource: &str) -> bool {
        matches!(Self::of_resource(resource), Some((_, Self::Cordon(_) | Self::Pin(_))))
    }
}

/// A name as the tail of a resource's.
struct Written<'a>(&'a str);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let is_path = name.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        for (position, character) in name.char_indices() {
            let fits = match character {
                '/' | '.' => is_path,
                '@' => position > 0,
                '%' => false,
                other => other == ' ' || other.is_ascii_graphic(),
            };
            if fits {
                write!(f, "{character}")?;
                continue;
            }
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// The name that was written so; what is not as we write it stays as it is.
fn read(written: &str) -> String {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%').and_then(|two| core::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| written.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> String {
        PollName::Target(name.to_owned()).resource("web").expect("a name")
    }

    #[test]
    fn a_good_name_stays_as_it_is() {
        assert_eq!(target("s17"), "poll/web/s17");
        assert_eq!(target("site/floor 2/s17"), "poll/web/site/floor 2/s17");
        assert_eq!(
            PollName::Poller("a-1".to_owned()).resource("web").expect("a name"),
            "poll/web/@poller/a-1"
        );
    }

    #[test]
    fn what_is_no_name_of_a_resource_is_written_with_digits() {
        assert_eq!(target("http://h/x"), "poll/web/http:%2F%2Fh%2Fx");
        assert_eq!(target("."), "poll/web/%2E");
        assert_eq!(target("@poller/x"), "poll/web/%40poller/x");
        assert_eq!(target("grün"), "poll/web/gr%C3%BCn");
        assert_eq!(target("a%2Fb"), "poll/web/a%252Fb");
    }

    #[test]
    fn every_name_comes_back() {
        let names =
            ["s17", "http://h/x?y=1", "..", "@pin/s", "50%", "日本", "a\tb", "/", "a//b", "%zz", " x "];
        for name in names {
            for of in [PollName::Target, PollName::Poller, PollName::Cordon, PollName::Pin] {
                let name = of(name.to_owned());
                let resource = name.resource("g.1").expect("a name");
                assert_eq!(PollName::of_resource(&resource), Some(("g.1", name)), "{resource}");
            }
        }
    }

    #[test]
    fn what_is_too_long_or_no_group_is_refused() {
        assert!(PollName::Target(String::new()).resource("web").is_err());
        assert!(PollName::Target("x".repeat(181)).resource("web").is_err());
        for group in ["", "a/b", "@x", ".hidden", &"g".repeat(65)] {
            assert!(PollName::check_group(group).is_err(), "{group:?}");
        }
        assert_eq!(PollName::of_resource("poll/@x/y"), None);
        assert_eq!(PollName::of_resource("poll/web"), None);
        assert_eq!(PollName::of_resource("db/primary"), None);
    }

    #[test]
    fn only_cordons_and_pins_are_an_operators() {
        assert!(PollName::is_operators("poll/web/@cordon/a"));
        assert!(PollName::is_operators("poll/web/@pin/a"));
        assert!(!PollName::is_operators("poll/web/@poller/a"));
        assert!(!PollName::is_operators("poll/web/a"));
    }
}
