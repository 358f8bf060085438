//! What a poller logs while its store does not answer.

use super::lines::Lines;
use super::*;
use tracing::Level;

/// Every retry used to be a warning: several a second for as long as the store was away.
#[tokio::test]
async fn an_outage_of_the_store_is_one_warning_and_one_line_when_it_is_over() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let (store, witness) = (MemoryStore::new("sensors"), Arc::new(Witness::default()));
    let failing = Failing::new(&store);
    let hangs = failing.hangs.clone();
    let poller = start(failing, "a", 3, &witness);
    for outages in 1..=2 {
        wait_until_true("all with it", || owned(&poller) == 3).await;
        let retried = lines.of("renewal failed again").len();
        hangs.store(true, Ordering::Relaxed);
        wait_until_true("retries", || lines.of("renewal failed again").len() >= retried + 2).await;
        hangs.store(false, Ordering::Relaxed);
        wait_until_true("the end", || lines.of("renewals succeed again").len() == outages).await;
        assert_eq!(lines.of("renewal failed"), vec![Level::WARN; outages]);
    }
    assert_eq!(lines.of("renewals succeed again"), [Level::INFO; 2]);
    assert!(lines.of("renewal failed again").iter().all(|level| *level == Level::DEBUG));
    poller.task.abort();
}
