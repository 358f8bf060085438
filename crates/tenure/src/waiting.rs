//! A request that waits tells so, once: what for, and which holder it waits for.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tenure_api::Acquire;
use tenure_client::Client;

use crate::duration::Span;
use crate::printer::{Printer, counted};

/// An answer that comes sooner needs no such line.
const PATIENCE_AT_TERMINAL: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(1);
/// How long looking up the holder may take.
const LOOK_LIMIT: Duration = Duration::from_millis(500);

/// What is waited for.
pub(crate) struct Waiting {
    client: Client,
    resources: Vec<String>,
    pools: Vec<String>,
    wait_ms: u64,
}

impl Waiting {
    pub(crate) fn new(client: &Client, acquire: &Acquire, wait_ms: u64) -> Self {
        let member = |(pool, count): (&String, &u32)| format!("{} of pool {pool}", counted(*count, "member"));
        Self {
            client: client.clone(),
            resources: acquire.resources.clone(),
            pools: acquire.pools.iter().map(member).collect(),
            wait_ms,
        }
    }

    /// Waits for an answer. Says so on standard error if the answer takes long; not where objects are printed.
    pub(crate) async fn show<T>(self, answer: impl Future<Output = T>, printer: &mut Printer) -> T {
        let patience = if io::stderr().is_terminal() { PATIENCE_AT_TERMINAL } else { PATIENCE };
        let mut answer = std::pin::pin!(answer);
        if self.wait_ms == 0 || printer.json() || printer.is_quiet() {
            return answer.await;
        }
        let line = tokio::select! {
            answer = &mut answer => return answer,
            line = async {
                tokio::time::sleep(patience).await;
                self.line().await
            } => line,
        };
        printer.talk(line);
        answer.await
    }

    async fn line(&self) -> String {
        let mut things = self.pools.clone();
        for resource in &self.resources {
            let holder = tokio::time::timeout(LOOK_LIMIT, self.holder(resource)).await.ok().flatten();
            things.push(match holder {
                Some(holder) => format!("{resource}, held by {holder}"),
                None => resource.clone(),
            });
        }
        let limit = Span::of_ms(self.wait_ms);
        format!("note: waiting up to {limit} for {}; interrupt to stop", things.join("; "))
    }

    async fn holder(&self, resource: &str) -> Option<String> {
        self.client.resource(resource).await.ok()?.holder
    }
}
