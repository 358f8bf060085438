//! A leader: of many candidates one leads, and when it stops or dies the next takes over.

use std::error::Error;
use std::time::Duration;
use tenure_client::{Client, Endpoint, GuardStatus};
use tokio_util::sync::CancellationToken;

/// One term of office.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    /// Who led.
    pub(crate) leader: String,
    /// Rises with every leader: stores refuse those of the past by it.
    pub(crate) fence: u64,
    /// Authority was lost before the leader stepped down.
    pub(crate) lost: bool,
}

/// Stands for election and leads until told to step down, or until authority is lost.
pub(crate) async fn stand(
    client: &Client,
    name: &str,
    step_down: CancellationToken,
) -> Result<Term, Box<dyn Error + Send + Sync>> {
    let guard = client
        .hold(["example/leader"])
        .holder(name)
        .ttl(Duration::from_secs(3))
        .grace(Duration::ZERO)
        .wait(Duration::from_secs(600))
        .acquire()
        .await?;
    let lost = guard.token();
    // Here a leader leads; what it does ends with whichever comes first.
    tokio::select! {
        () = step_down.cancelled() => {}
        () = lost.cancelled() => {}
    }
    let lost = matches!(guard.state().status, GuardStatus::Lost(_));
    let term = Term { leader: name.to_owned(), fence: guard.fence(), lost };
    guard.stopped().await?;
    Ok(term)
}

/// Who leads now; `None` while nobody does.
pub(crate) async fn leader(client: &Client) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
    Ok(client.resource("example/leader").await?.holder)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let client = Client::builder(endpoint).build()?;
    let name = std::env::args().nth(1).ok_or("usage: leader_election NAME")?;
    stand(&client, &name, CancellationToken::new()).await?;
    leader(&client).await?;
    Ok(())
}
