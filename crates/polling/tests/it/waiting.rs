//! Waiting for what comes, never longer than it may take.

use std::time::Duration;
use tenure_client::clock::BootInstant;

/// Nothing here takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Waits until a condition holds; fails the test when that takes too long.
pub(crate) async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = BootInstant::now().after(LONG);
    while !condition().await {
        assert!(BootInstant::now() < deadline, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for something that ends by itself; fails the test when that takes too long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}
