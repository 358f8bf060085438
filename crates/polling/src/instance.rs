//! The identity of a poller: its name, which the assignment uses, and its instance, which holds leases. The suffix after
//! `~` distinguishes two runs under one name.

use core::fmt;
use tenure_client::clock::BootInstant;

/// Between a fixed name and what tells its runs apart.
const MARK: char = '~';
/// What a run that went and is expected back leaves its targets to.
const ABSENT: &str = "absent";
/// The longest fixed name.
const NAME_BYTES_MAX: usize = 100;

/// One run of a poller.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Instance(String);

/// An invalid name of a poller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is not a valid name for a poller: expected 1 to 100 visible ASCII characters without '~' and '/'"
)]
pub struct NameError(String);

impl Instance {
    /// Creates a run with a generated name: `hostname-bootnanos-xxxxxxxx`.
    #[must_use]
    pub fn generate() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let fits =
            |character: &char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
        let host: String = host.chars().filter(fits).take(NAME_BYTES_MAX - 32).collect();
        Self(format!("{host}-{}-{:08x}", BootInstant::now().as_ns(), random()))
    }

    /// Creates a run under a fixed name: `name~xxxxxxxx`.
    ///
    /// # Errors
    /// [`NameError`] if the name is invalid.
    pub fn with_name(name: &str) -> Result<Self, NameError> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != MARK as u8 && byte != b'/';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
            return Err(NameError(name.to_owned()));
        }
        Ok(Self(format!("{name}{MARK}{:08x}", random())))
    }

    /// Parses the text form of an instance.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name that the assignment uses.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once(MARK).map_or(&self.0, |(name, _)| name)
    }

    /// Whether the name is fixed.
    #[must_use]
    pub fn has_fixed_name(&self) -> bool {
        self.0.contains(MARK)
    }

    /// The instance that holds the targets of an absent poller during its reconnect window.
    #[must_use]
    pub fn absent(name: &str) -> Self {
        Self(format!("{name}{MARK}{ABSENT}"))
    }

    /// Whether this stands for an absent poller.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.rsplit_once(MARK).is_some_and(|(_, run)| run == ABSENT)
    }

    /// The text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    u32::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_differ_and_share_it() {
        let one = Instance::with_name("kitchen").expect("a name");
        let other = Instance::with_name("kitchen").expect("a name");
        assert_ne!(one, other);
        assert_eq!((one.name(), other.name()), ("kitchen", "kitchen"));
        assert!(one.has_fixed_name() && !one.is_absent());
        assert!(Instance::absent("kitchen").is_absent());
        assert_eq!(Instance::absent("kitchen").name(), "kitchen");
    }

    #[test]
    fn a_generated_instance_is_its_own_name() {
        let drawn = Instance::generate();
        assert_eq!(drawn.name(), drawn.as_str());
        assert!(!drawn.has_fixed_name());
        let parts: Vec<&str> = drawn.as_str().rsplitn(3, '-').collect();
        assert_eq!(parts[0].len(), 8, "{drawn}");
        assert!(parts[1].parse::<u64>().is_ok(), "{drawn}");
    }

    #[test]
    fn names_that_could_be_misread_are_refused() {
        for name in ["", "a~b", "a/b", "a b", "grün", &"x".repeat(101)] {
            assert!(Instance::with_name(name).is_err(), "{name:?}");
        }
    }
}
