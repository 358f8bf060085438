//! Pollers that share forty sensors, so that exactly one of them reads each. Start two, stop one with Ctrl-C, kill another
//! with `kill -9`, and watch the targets move.
//!
//! `cargo run -p tenure-polling --example poll_sensors -- http://127.0.0.1:5641`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;
use tenure_client::Client;
use tenure_polling::source::FixedSource;
use tenure_polling::store::TenureStore;
use tenure_polling::{Poll, Poller};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:5641".to_owned());
    let client = Client::builder(endpoint.parse()?).build()?;
    let sensors = (0..40).map(|number| format!("sensor-{number}"));

    let poller = Poller::builder(TenureStore::new(client, "sensors")?)
        .targets(FixedSource::new(sensors))
        .every(Duration::from_secs(2))
        .build()?;

    let handle = poller.handle();
    println!("this is {}", handle.instance());
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            handle.stop();
        }
    });

    poller
        .run(|sensor, poll: Poll| async move {
            // A system that stores the highest fence rejects writes of a poller that was replaced.
            println!("reading {sensor} with fence {}", poll.fence());
        })
        .await?;
    println!("everything is handed over");
    Ok(())
}
