//! The engine as its callers meet it. Contents:
//! - `desk`, `words`: drive turns by hand, over a log whose syncs the test completes; the words of scripts
//! - `turns`: what leaves when, what it rests on, frames, ticks and lanes
//! - `outcomes`: a frame that is not committed; authority that ends
//! - `waiting`: fairness, passing, cancelling, retries
//! - `ends`: sessions, pools, gates, notices
//! - `restored`: a log that came back from a backup
//! - `promises`: former holders, connections in a restored log, a session that comes back while its leases end
//! - `behind_gates`: what a face with a gate relies on: giving back, taking over, names coming free
//! - `changing_hands`: what a former holder hears, and when the next one may act
//! - `retrying`: every operation, its answer lost, its state changed, asked again
//! - `following`: changes that the book of pollers is kept from
//! - `bounded`: what comes due together, over several turns
//! - `stopping`: a daemon that was told to stop
//! - `watching`: resume from memory and from disk, lagging
//! - `recovery`: the same bytes give the same state; snapshots, trimming
//! - `control`: facts that nothing may refuse, however much is asked
//! - `counting`: every counter moves
//! - `helm`: which thread runs a turn, and what it may do there
//! - `running`, `killed`: the host with real files and threads; a process killed at random points

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod behind_gates;
mod belonging;
mod bounded;
mod changing_hands;
mod control;
mod counting;
mod desk;
mod ends;
mod following;
mod helm;
mod kept_connections;
mod killed;
mod outcomes;
mod promises;
mod recovery;
mod restored;
mod retrying;
mod running;
mod steering;
mod stopping;
mod timely;
mod turns;
mod upkeep;
mod waiting;
mod waiting_in_order;
mod watching;
mod words;
