//! mDNS among peers that are not ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod advertising;
mod browsing;
mod conflicts;
mod loopback;
mod observer;
mod on_a_lan;
#[expect(dead_code, reason = "written for several packages; none of them needs all of it")]
mod peers;
mod peers_agree;
mod withdrawing;
