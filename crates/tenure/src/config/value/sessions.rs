//! Kinds of values that only sessions have: pools with their sizes, the name of one, when slots may be used again, and
//! who is told of ends.

use std::collections::BTreeMap;

use tenure_kernel::limits::POOL_SIZE_MAX;
use tenure_kernel::names::{REGISTRATIONS_PREFIX, check_name, pool_member};

use super::{Shape, Value, one_of, quoted};
use crate::daemon::HookPlan;
use crate::duration::Span;

/// Name of a pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct PoolName(pub(crate) String);

/// Pools and their sizes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct Pools(pub(crate) BTreeMap<String, u32>);

/// When the slots of an ended session may be given to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum SlotReuse {
    AtOnce,
    AfterHook,
}

/// The receiver of a slot session's end, as it was given: a URL or a command line. Empty: no receiver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct OnEnd(pub(crate) String);

/// Asks what the kernel will ask when the pool is made.
fn check_pool(name: &str) -> Result<(), String> {
    let fault = check_name(name).and_then(|()| check_name(&pool_member(name, POOL_SIZE_MAX)));
    fault.map_err(|fault| format!("the name of a pool {}", fault.as_str()))?;
    if pool_member(name, 1).starts_with(REGISTRATIONS_PREFIX) {
        return Err(format!("names under {REGISTRATIONS_PREFIX} belong to registrations"));
    }
    Ok(())
}

impl Value for PoolName {
    const PLACEHOLDER: &'static str = "POOL";

    fn parse(text: &str) -> Result<Self, String> {
        check_pool(text).map(|()| Self(text.to_owned()))
    }

    fn written(&self) -> String {
        quoted(&self.0)
    }
}

impl Value for Pools {
    const SHAPE: Shape = Shape::Table;
    const PLACEHOLDER: &'static str = "POOL=SIZE";

    fn parse(text: &str) -> Result<Self, String> {
        let mut pools = BTreeMap::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let expected = "expected pools and their sizes, like tuner=4,gpu=2";
            let (name, size) = word.rsplit_once('=').ok_or(expected)?;
            let name = name.trim();
            check_pool(name)?;
            let size: u32 = size.trim().parse().map_err(|_| expected)?;
            if size > POOL_SIZE_MAX {
                return Err(format!("a pool has at most {POOL_SIZE_MAX} slots"));
            }
            if pools.insert(name.to_owned(), size).is_some() {
                return Err(format!("{name} is named twice"));
            }
        }
        Ok(Self(pools))
    }

    fn written(&self) -> String {
        let rows: Vec<String> = self.0.iter().map(|(name, size)| format!("{} = {size}", key(name))).collect();
        if rows.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", rows.join(", ")) }
    }
}

/// A key of the file; most need no quotes.
fn key(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_bare { name.to_owned() } else { quoted(name) }
}

impl Value for SlotReuse {
    const PLACEHOLDER: &'static str = "WHEN";
    const CHOICES: &'static [&'static str] = &["at_once", "after_hook"];

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "at_once" => Ok(Self::AtOnce),
            "after_hook" => Ok(Self::AfterHook),
            _ => Err(one_of(Self::CHOICES)),
        }
    }

    fn written(&self) -> String {
        quoted(match self {
            Self::AtOnce => "at_once",
            Self::AfterHook => "after_hook",
        })
    }
}

impl Value for OnEnd {
    const PLACEHOLDER: &'static str = "URL|COMMAND";

    fn parse(text: &str) -> Result<Self, String> {
        HookPlan::of(text).map(|_| Self(text.to_owned()))
    }

    /// Without the path of a URL, which may be a secret.
    fn written(&self) -> String {
        quoted(&HookPlan::without_secrets(&self.0))
    }

    fn repeated(text: &str) -> String {
        HookPlan::without_secrets(text)
    }
}

/// Empty: not given.
impl Value for Option<Span> {
    const PLACEHOLDER: &'static str = "DURATION";

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { Span::parse(text).map(Some) }
    }

    fn written(&self) -> String {
        self.as_ref().map_or_else(|| quoted(""), Value::written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(text: &str) -> Result<Vec<(String, u32)>, String> {
        Pools::parse(text).map(|pools| pools.0.into_iter().collect())
    }

    #[test]
    fn pools_are_names_with_sizes() {
        let two = vec![("gpu/a=b".to_owned(), 2), ("tuner".to_owned(), 4)];
        assert_eq!(pools(" tuner = 4 ,gpu/a=b=2,"), Ok(two));
        assert_eq!(pools(""), Ok(Vec::new()));
        assert_eq!(pools("tuner=0"), Ok(vec![("tuner".to_owned(), 0)]));
        for text in ["tuner", "tuner=", "tuner=x", "tuner=-1", "tuner=4.0"] {
            let expected = "expected pools and their sizes, like tuner=4,gpu=2";
            assert_eq!(pools(text), Err(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn pools_that_could_not_be_made_are_refused() {
        assert_eq!(pools("tuner=65536").map(|pools| pools.len()), Ok(1));
        assert_eq!(pools("tuner=65537"), Err("a pool has at most 65536 slots".to_owned()));
        assert_eq!(pools("a=1,a=2"), Err("a is named twice".to_owned()));
        assert_eq!(pools("=1"), Err("the name of a pool is empty".to_owned()));
        assert_eq!(pools("a//b=1"), Err("the name of a pool has an empty segment".to_owned()));
        assert_eq!(pools("mdns=1"), Err("names under mdns/ belong to registrations".to_owned()));
        assert_eq!(pools("mdns/x=1"), Err("names under mdns/ belong to registrations".to_owned()));
        // Its members must have names too.
        assert!(pools(&format!("{}=1", "x".repeat(250))).is_err());
        assert!(PoolName::parse("").is_err() && PoolName::parse("mdns").is_err());
    }

    #[test]
    fn pools_are_written_as_toml_reads_them() {
        for text in ["", "tuner=4", "tuner=4,gpu/big=2,a b=1,\"quoted\"=1"] {
            let pools = Pools::parse(text).unwrap();
            let table: toml::Table = format!("x = {}", pools.written()).parse().unwrap();
            let read: BTreeMap<String, u32> = table["x"].clone().try_into().unwrap();
            assert_eq!(read, pools.0, "{text:?}");
        }
        assert_eq!(Pools::parse("tuner=4").unwrap().written(), "{ tuner = 4 }");
    }
}
