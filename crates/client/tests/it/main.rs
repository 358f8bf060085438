//! The client against tiny servers that frame as told, and against the real daemon.

mod calls;
mod connected;
mod daemon;
mod endpoints;
mod examples;
mod holding;
mod lines;
mod mdns;
mod proxy;
mod routes;
mod sessions;
mod slots;
mod streams;
mod tiny;
mod tls;
