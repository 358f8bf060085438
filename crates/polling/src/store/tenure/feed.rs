//! Keeps the book current: lists the group's leases, then follows the daemon's events; begins again when it has to.

use super::book::Book;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_api::{EventsQuery, LeaseQuery, PollName};
use tenure_client::{Backoff, CallError, Client};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// Leases read at once.
const PAGE: u64 = 1_000;

/// The book, and the task that writes it.
pub(super) struct Feed {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct Shared {
    client: Client,
    prefix: String,
    book: Mutex<Book>,
    changed: Notify,
    /// Whether the book was ever whole; why not, if the last try failed.
    standing: watch::Sender<Standing>,
}

#[derive(Clone, Debug)]
enum Standing {
    Unread,
    Failed(Arc<CallError>),
    Whole,
}

impl Feed {
    pub(super) fn new(client: Client, group: &str) -> Self {
        let shared = Shared {
            client,
            prefix: PollName::prefix(group),
            book: Mutex::default(),
            changed: Notify::new(),
            standing: watch::Sender::new(Standing::Unread),
        };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// Begins to follow, once.
    pub(super) fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            *task = Some(AbortOnDropHandle::new(tokio::spawn(follow(self.shared.clone()))));
        }
    }

    /// Waits until the book has been read, or tells why it could not be.
    pub(super) async fn ready(&self) -> Result<(), Arc<CallError>> {
        let mut standing = self.shared.standing.subscribe();
        let settled = standing.wait_for(|standing| !matches!(standing, Standing::Unread)).await;
        match settled.as_deref() {
            Ok(Standing::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn with_book<T>(&self, read: impl FnOnce(&Book) -> T) -> T {
        read(&self.shared.book())
    }

    pub(super) fn lsn(&self) -> u64 {
        self.shared.book().lsn()
    }

    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self) -> Result<u64, CallError> {
        let mut query = LeaseQuery {
            resource_prefix: Some(self.prefix.clone()),
            limit: Some(PAGE),
            ..LeaseQuery::default()
        };
        let mut book = Book::default();
        let mut begun = None;
        loop {
            let page = self.client.leases(&query).await?;
            // What happens while the later pages are read is told again from here on.
            let begun_at = *begun.get_or_insert(page.lsn);
            for lease in page.leases {
                book.list(lease);
            }
            let Some(cursor) = page.next_cursor else {
                let mut present = self.book();
                book.listed(begun_at, &present);
                *present = book;
                return Ok(begun_at);
            };
            query.cursor = Some(cursor);
        }
    }

    async fn read_and_follow(&self, backoff: &mut Backoff) -> Result<(), CallError> {
        let from = self.read().await?;
        self.standing.send_replace(Standing::Whole);
        self.changed.notify_one();
        let query = EventsQuery {
            from: Some(from),
            resource_prefix: Some(self.prefix.clone()),
            ..EventsQuery::default()
        };
        let mut events = self.client.events(query).await?.resuming().await?;
        backoff.reset();
        while let Some(event) = events.next().await? {
            if self.book().follow(event) {
                self.changed.notify_one();
            }
        }
        Ok(())
    }
}

async fn follow(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        if let Err(error) = shared.read_and_follow(&mut backoff).await {
            tracing::debug!(%error, "reading the leases of the group again");
            shared.standing.send_if_modified(|standing| match standing {
                Standing::Whole => false,
                Standing::Unread | Standing::Failed(_) => {
                    *standing = Standing::Failed(Arc::new(error));
                    true
                }
            });
        }
        tokio::time::sleep(backoff.next_pause()).await;
    }
}
