//! The kernel against its contract, in one binary.
//!
//! | module | question |
//! |---|---|
//! | [`script`] | the language of the tests: one line a step, everything checked after each |
//! | [`trace`] | contract §9, word for word |
//! | [`matrix`] | which command is legal in which state |
//! | [`check_order`] | which refusal comes first |
//! | [`lifecycle`] | what each verb does to a lease and its resources |
//! | [`take_over`] | hand-over and alternatives in one command |
//! | [`pools`] | any n of a name |
//! | [`sessions`] | leases of a session, losses, closing |
//! | [`operations`] | retries |
//! | [`retention`] | how long an ended lease is read; notices |
//! | [`limits_reached`] | every bound and its answer |
//! | [`naming`] | names, prefixes, wire words |
//! | [`numbers`] | large numbers, foreign ids, broken stamps |
//! | [`determinism`] | no hash order |
//! | [`model`], [`property`] | random commands against a naive model |
//! | [`samples`], [`codec`] | golden bytes and hostile bytes |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check_order;
mod codec;
mod determinism;
mod lifecycle;
mod limits_reached;
mod matrix;
mod model;
mod naming;
mod numbers;
mod operations;
mod pools;
mod property;
mod retention;
mod samples;
mod script;
mod sessions;
mod take_over;
mod trace;
