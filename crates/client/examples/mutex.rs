//! A mutex across processes: one holder of the resource at a time.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tenure_client::{Client, Endpoint};

/// Adds one to the number in a file, `times` times. Without the lease, two processes would lose counts.
pub(crate) async fn count(
    client: &Client,
    file: &Path,
    times: u32,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    for _ in 0..times {
        let guard = client
            .hold(["example/counter"])
            .ttl(Duration::from_secs(10))
            .wait(Duration::from_secs(60))
            .acquire()
            .await?;
        let number: u64 = fs::read_to_string(file)?.trim().parse()?;
        // Without the lease, another process could write here.
        tokio::task::yield_now().await;
        // Check as late as possible that no other process writes.
        if guard.is_held() {
            fs::write(file, (number + 1).to_string())?;
        }
        guard.release().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let client = Client::builder(endpoint).build()?;
    let file = std::env::args().nth(1).ok_or("usage: mutex FILE")?;
    count(&client, Path::new(&file), 10).await
}
