//! Who is told of sessions' ends: a URL or a command. Carries one word once; when it is said again, and what rests on
//! it, is the face's business.

mod command;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use tenure_api::Stream;
use tenure_faces::{EndHook, Later};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use command::CommandLine;
use webhook::Webhook;

/// Who is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HookPlan {
    /// Nobody.
    Nobody,
    /// Whoever listens at a URL.
    Webhook(Webhook),
    /// A program.
    Command(CommandLine),
}

/// Tells whom it was made for, until it is closed.
pub(super) struct Hook {
    plan: Arc<HookPlan>,
    closing: CancellationToken,
    under_way: TaskTracker,
}

/// What an end is called, for those who are told of more than one thing.
const EVENT: &str = "session.ended";
/// What a stopping daemon waits for: commands only have to be killed.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of somebody else's words that are passed on.
const WORDS_BYTES_MAX: usize = 300;

impl HookPlan {
    /// Understands the setting; an error says what is expected.
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            _ if text.is_empty() => Ok(Self::Nobody),
            Some("http") => Webhook::of(text).map(Self::Webhook),
            Some("https") => Err(format!(
                "https is left to a command, such as: curl -fsS -H content-type:application/json --data-binary @- {text}"
            )),
            Some(scheme) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err("expected a URL that begins with http://, or a command line".to_owned())
            }
            Some(_) | None => CommandLine::of(text).map(Self::Command),
        }
    }

    /// What tells it; `None`: nobody is told.
    pub(super) fn start(self) -> Option<Arc<Hook>> {
        (self != Self::Nobody).then(|| {
            Arc::new(Hook {
                plan: Arc::new(self),
                closing: CancellationToken::new(),
                under_way: TaskTracker::new(),
            })
        })
    }

    async fn tell(&self, ended: &Stream) -> Result<(), String> {
        match self {
            Self::Nobody => Ok(()),
            Self::Webhook(webhook) => webhook.tell(ended).await,
            Self::Command(command) => command.tell(ended).await,
        }
    }
}

impl Hook {
    /// Breaks off what is under way: whoever was not told is told after the next start. Commands are killed.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.under_way.close();
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.under_way.wait()).await;
    }
}

impl EndHook for Hook {
    fn tell(&self, ended: Stream) -> Later<'static, Result<(), String>> {
        let (plan, closing) = (Arc::clone(&self.plan), self.closing.clone());
        Box::pin(self.under_way.track_future(async move {
            let told = closing.run_until_cancelled(plan.tell(&ended)).await;
            told.unwrap_or_else(|| Err("the daemon stops".to_owned()))
        }))
    }
}

/// The session as it is told.
fn json_of(ended: &Stream) -> Vec<u8> {
    serde_json::to_vec(ended).expect("invariant: a session is JSON")
}

/// Somebody else's words, fit for the end of one line of a log.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    if line.is_empty() { line } else { format!(": {line}") }
}

#[cfg(test)]
mod tests;
