//! A bundle: several resources together, or none of them. A request that waits holds nothing, so holders of overlapping
//! bundles cannot deadlock.

use std::error::Error;
use std::time::Duration;
use tenure_client::{Client, Endpoint};

/// The dining philosophers: each needs the forks to the left and to the right. Returns the number of meals.
pub(crate) async fn dine(
    client: &Client,
    seats: u32,
    meals: u32,
) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let mut table = tokio::task::JoinSet::new();
    for seat in 0..seats {
        let client = client.clone();
        table.spawn(async move {
            let forks = [format!("example/fork/{seat}"), format!("example/fork/{}", (seat + 1) % seats)];
            for _ in 0..meals {
                let guard = client
                    .hold(forks.clone())
                    .holder(format!("philosopher {seat}"))
                    .wait(Duration::from_secs(60))
                    .acquire()
                    .await?;
                guard.release().await?;
            }
            Ok::<u32, Box<dyn Error + Send + Sync>>(meals)
        });
    }
    let mut eaten = 0;
    while let Some(done) = table.join_next().await {
        eaten += done??;
    }
    Ok(eaten)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    dine(&Client::builder(endpoint).build()?, 5, 10).await?;
    Ok(())
}
