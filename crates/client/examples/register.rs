//! A service that is advertised by mDNS while it runs.

use std::error::Error;
use std::time::Duration;
use tenure_client::api::{Browsed, Register, ServiceRecord};
use tenure_client::{Client, Endpoint, RegistrationEnd};

/// Advertises a service while `serving` runs. Returns the reason if the registration ends before.
pub(crate) async fn advertise_while(
    client: &Client,
    name: &str,
    port: u16,
    serving: impl Future<Output = ()>,
) -> Result<Option<RegistrationEnd>, Box<dyn Error + Send + Sync>> {
    let register = Register {
        name: name.to_owned(),
        service_type: "_http._tcp".to_owned(),
        port,
        txt: [("path".to_owned(), Some("/".to_owned()))].into(),
        ..Register::default()
    };
    let keeper = client.keep_registration(&register).await?;
    let end = tokio::select! {
        () = serving => None,
        // Only a permanent end. The keeper survives outages and restarts of the daemon.
        end = keeper.ended() => Some(end),
    };
    keeper.unregister().await?;
    Ok(end)
}

/// Returns all services of the same type.
pub(crate) async fn others(client: &Client) -> Result<Vec<ServiceRecord>, Box<dyn Error + Send + Sync>> {
    let mut stream = client.browse(Some("_http._tcp"), Duration::from_secs(1)).await?;
    let mut services: Vec<ServiceRecord> = Vec::new();
    while let Some(seen) = stream.next().await? {
        let service = match &seen {
            Browsed::Found { found } => found,
            Browsed::Seen(event) => &event.service,
        };
        services.retain(|known| known.name != service.name);
        if let Browsed::Found { found } = seen {
            services.push(found);
        }
    }
    Ok(services)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let client = Client::builder(endpoint).build()?;
    let serving = async {
        // A server would accept connections here; this one browses once.
        let _ = others(&client).await;
    };
    match advertise_while(&client, "An Example", 8080, serving).await? {
        None => Ok(()),
        Some(end) => Err(end.to_string().into()),
    }
}
