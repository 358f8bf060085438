//! Leader election: one of several candidates leads; when it stops or dies, the next one takes over.

use std::error::Error;
use std::time::Duration;
use tenure_client::{Client, Endpoint, GuardStatus};
use tokio_util::sync::CancellationToken;

/// The term of one leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    /// The name of the leader.
    pub(crate) leader: String,
    /// The fencing token: rises with every leader, so that a store can reject writes of former leaders.
    pub(crate) fence: u64,
    /// Whether the lease was lost before the leader stepped down.
    pub(crate) lost: bool,
}

/// Waits to be elected, and leads until `step_down` is cancelled or the lease is lost.
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
    // The work of the leader runs here. It must stop at the first of the two.
    tokio::select! {
        () = step_down.cancelled() => {}
        () = lost.cancelled() => {}
    }
    let lost = matches!(guard.state().status, GuardStatus::Lost(_));
    let term = Term { leader: name.to_owned(), fence: guard.fence(), lost };
    guard.stopped().await?;
    Ok(term)
}

/// Returns the name of the leader; `None` if no candidate leads.
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
