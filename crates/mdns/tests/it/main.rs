//! mDNS among peers that are not ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod advertising;
mod answering;
mod browsing;
mod conflicts;
mod dns;
mod hostile;
mod living;
mod loopback;
mod merging;
mod observer;
mod on_a_lan;
#[expect(dead_code, reason = "written for several packages; none of them needs all of it")]
mod peers;
mod peers_agree;
mod responder;
mod station;
mod withdrawing;
