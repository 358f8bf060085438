//! A fenced writer: a store that compares fences refuses a holder of the past, even one that does not know
//! yet that it lost: it was paused, its machine slept, its clock stood still.

use rusqlite::{Connection, params};
use std::error::Error;
use std::time::Duration;
use tenure_client::{Client, Endpoint, api};

/// A store that guards its writes.
pub(crate) struct Store {
    database: Connection,
}

/// A write by somebody who is not the holder any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stale {
    /// The fence that was presented.
    pub(crate) presented: u64,
}

impl Store {
    /// An empty store.
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE ledger (id INTEGER PRIMARY KEY, entry TEXT NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO ledger VALUES (1, '', 0);",
        )?;
        Ok(Self { database })
    }

    /// Writes if no later holder has written. Comparing and writing are one statement: nothing can come
    /// between them.
    pub(crate) fn write(&self, entry: &str, fence: u64) -> rusqlite::Result<Result<(), Stale>> {
        let changed = self.database.execute(
            "UPDATE ledger SET entry = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2",
            params![entry, i64::try_from(fence).unwrap_or(i64::MAX)],
        )?;
        Ok(if changed == 1 { Ok(()) } else { Err(Stale { presented: fence }) })
    }

    /// What was written last.
    pub(crate) fn entry(&self) -> rusqlite::Result<String> {
        self.database.query_row("SELECT entry FROM ledger WHERE id = 1", [], |row| row.get(0))
    }
}

/// Two holders one after the other; the first writes again when it is too late. Gives what the store says to
/// that, and what stands in it in the end.
pub(crate) async fn run(
    client: &Client,
) -> Result<(Result<(), Stale>, String), Box<dyn Error + Send + Sync>> {
    let store = Store::new()?;
    let hold = |name: &str| client.hold(["example/ledger"]).holder(name).wait(Duration::from_secs(60));

    let first = hold("first").acquire().await?;
    store.write("by the first", first.fence())?.map_err(|stale| format!("{stale:?}"))?;
    let old_fence = first.fence();

    // An operator takes the lease away; the first holder is told and stops, so that the second need not wait
    // for the end of its promise.
    client.revoke(first.lease_id(), &api::OperatorCall::default()).await?;
    first.stopped().await?;

    let second = hold("second").acquire().await?;
    store.write("by the second", second.fence())?.map_err(|stale| format!("{stale:?}"))?;

    // A write of the first holder that was on its way all the time.
    let late = store.write("by the first, too late", old_fence)?;
    second.release().await?;
    Ok((late, store.entry()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let (late, entry) = run(&Client::builder(endpoint).build()?).await?;
    assert!(late.is_err());
    assert_eq!(entry, "by the second");
    Ok(())
}
