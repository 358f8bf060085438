//! A fenced writer: a store that compares fencing tokens rejects writes of a former holder, even if the holder does not
//! know yet that it lost the lease, because its process was paused or its machine was suspended.

use rusqlite::{Connection, params};
use std::error::Error;
use std::time::Duration;
use tenure_client::{Client, Endpoint, api};

/// A store that rejects writes with an old fencing token.
pub(crate) struct Store {
    database: Connection,
}

/// The error of a write by a former holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stale {
    /// The fencing token of the write.
    pub(crate) presented: u64,
}

impl Store {
    /// Creates an empty store.
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE ledger (id INTEGER PRIMARY KEY, entry TEXT NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO ledger VALUES (1, '', 0);",
        )?;
        Ok(Self { database })
    }

    /// Writes, unless a later holder has written. One statement compares and writes, so no other write can come between.
    pub(crate) fn write(&self, entry: &str, fence: u64) -> rusqlite::Result<Result<(), Stale>> {
        let changed = self.database.execute(
            "UPDATE ledger SET entry = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2",
            params![entry, i64::try_from(fence).unwrap_or(i64::MAX)],
        )?;
        Ok(if changed == 1 { Ok(()) } else { Err(Stale { presented: fence }) })
    }

    /// Returns the last entry.
    pub(crate) fn entry(&self) -> rusqlite::Result<String> {
        self.database.query_row("SELECT entry FROM ledger WHERE id = 1", [], |row| row.get(0))
    }
}

/// Runs two holders one after the other; the first writes again after it lost the lease. Returns the outcome of that
/// write and the last entry.
pub(crate) async fn run(
    client: &Client,
) -> Result<(Result<(), Stale>, String), Box<dyn Error + Send + Sync>> {
    let store = Store::new()?;
    let hold = |name: &str| client.hold(["example/ledger"]).holder(name).wait(Duration::from_secs(60));

    let first = hold("first").acquire().await?;
    store.write("by the first", first.fence())?.map_err(|stale| format!("{stale:?}"))?;
    let old_fence = first.fence();

    // An operator revokes the lease. The first holder confirms that it has stopped, so the second need not wait for the end
    // of the validity.
    client.revoke(first.lease_id(), &api::OperatorCall::default()).await?;
    first.stopped().await?;

    let second = hold("second").acquire().await?;
    store.write("by the second", second.fence())?.map_err(|stale| format!("{stale:?}"))?;

    // A delayed write of the first holder.
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
