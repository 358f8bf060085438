//! The real binary among mDNS peers that are not ours: Avahi and python-zeroconf judge what it says, and it tells what
//! they say. Each test has a network of its own, made of namespaces; it needs root, and what `cargo xtask test` installs.

#[expect(dead_code, reason = "written for several packages; none of them needs all of it")]
#[path = "../../../mdns/tests/it/peers/mod.rs"]
pub(crate) mod peers;

mod announcing;
mod conflicts;
mod crashing;
mod discovering;
mod ending;
mod garbage;
mod interfaces;
mod links;
mod loopback;
mod restarting;
mod silence;
mod stage;
mod stopping;
mod streams;
mod survivors;
