//! What a poller says of members that die one after the other.

use super::*;
use core::fmt::Debug;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::{Event, Metadata, Subscriber};

/// Counts log lines with this message.
struct Lines(&'static str, Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Values<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.1.fetch_add(usize::from(message.0 == self.0), Ordering::Relaxed);
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

#[tokio::test]
async fn three_members_that_die_are_counted_and_logged_once() {
    let lines = Arc::new(AtomicUsize::new(0));
    let _guard = tracing::subscriber::set_default(Lines("pollers of the group keep dying", lines.clone()));
    let (store, witness) = (MemoryStore::new(), Arc::new(Witness::default()));
    let lasts = start(store.clone(), "lasts", 10, &witness);
    wait_until_true("all with it", || owned(&lasts) == 10).await;
    for number in 0..3 {
        let dies = start(store.clone(), &format!("dies-{number}"), 10, &witness);
        wait_until_true("a member", || lasts.handle.view().live_nodes.len() == 2).await;
        dies.task.abort();
        let deaths = number + 1;
        wait_until_true("a death", || lasts.handle.numbers().member_deaths == deaths).await;
    }
    wait_until_true("all with it again", || owned(&lasts) == 10).await;
    assert_eq!((lasts.handle.numbers().member_deaths, lines.load(Ordering::Relaxed)), (3, 1));
    lasts.task.abort();
}
