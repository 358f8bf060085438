//! A semaphore: each worker holds any one slot of a pool.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_client::{Client, Endpoint};

/// Starts workers that each take a slot of a pool. Returns the highest number of workers at the same time.
pub(crate) async fn work(
    client: &Client,
    slots: u32,
    workers: u32,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    client.define_pool("example/slots", slots).await?;
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut all = tokio::task::JoinSet::new();
    for number in 0..workers {
        let (client, working, most) = (client.clone(), working.clone(), most.clone());
        all.spawn(async move {
            let guard = client
                .hold_members("example/slots", 1)
                .holder(format!("worker {number}"))
                .wait(Duration::from_secs(60))
                .acquire()
                .await?;
            // `guard.resources()` names the slot, such as `example/slots/2`.
            let now = working.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            working.fetch_sub(1, Ordering::SeqCst);
            guard.release().await?;
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(most.load(Ordering::SeqCst))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let most = work(&Client::builder(endpoint).build()?, 3, 12).await?;
    assert!(most <= 3);
    Ok(())
}
