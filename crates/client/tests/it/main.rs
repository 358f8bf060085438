//! The client against tiny servers that frame as told, and against the real daemon.

mod calls;
mod lines;
mod streams;
mod tiny;
