//! The stores as pollers use them, against a real Redis and a real daemon; and what only one of them has.

mod cluster;
mod contract;
mod daemon;
mod daemon_fixture;
mod loopback;
mod process;
mod redis;
mod redis_fixture;
mod redis_server;
mod waiting;
