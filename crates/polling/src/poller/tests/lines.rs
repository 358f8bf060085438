//! The log lines of a test's pollers.

use core::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps level and message of every line.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Lines {
    /// The levels of the lines with this message, in order.
    pub(super) fn of(&self, message: &str) -> Vec<Level> {
        let lines = self.0.lock().expect("unpoisoned");
        lines.iter().filter(|(_, said)| said == message).map(|(level, _)| *level).collect()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().expect("unpoisoned").push((*event.metadata().level(), message.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
