//! A mutex across processes: of all who hold the same resource, one at a time.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tenure_client::{Client, Endpoint};

/// Adds one to the number in a file, as often as told. Without the lease, two of these would lose counts.
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
        // A holder that waits in between lets others in, if nothing keeps them out.
        tokio::task::yield_now().await;
        // The last moment at which it can be known that nobody else writes.
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
