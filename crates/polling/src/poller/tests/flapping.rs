//! What a poller says of members that die one after the other.

use super::lines::Lines;
use super::*;
use tracing::Level;

#[tokio::test]
async fn three_members_that_die_are_counted_and_logged_once() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let (store, witness) = (MemoryStore::new("sensors"), Arc::new(Witness::default()));
    let lasts = start(store.clone(), "lasts", 10, &witness);
    wait_until_true("all with it", || owned(&lasts) == 10).await;
    for number in 0..3 {
        let dies = start(store.clone(), &format!("dies-{number}"), 10, &witness);
        wait_until_true("a member", || lasts.handle.view().live_nodes.len() == 2).await;
        dies.task.abort();
        let deaths = number + 1;
        wait_until_true("a death", || lasts.handle.metrics().member_deaths == deaths).await;
    }
    wait_until_true("all with it again", || owned(&lasts) == 10).await;
    let logged = lines.of("pollers of the group keep dying");
    assert_eq!((lasts.handle.metrics().member_deaths, logged), (3, vec![Level::WARN]));
    lasts.task.abort();
}
