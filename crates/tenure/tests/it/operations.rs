//! Starting, stopping and looking after a daemon, as an operator and a service supervisor meet it.

mod configured;
mod metrics;
mod restarting;
mod speaking;
mod starting;
mod stopping;
