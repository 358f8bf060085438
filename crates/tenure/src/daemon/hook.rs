//! `on_end`: a URL that sessions' ends are posted to, or a command that is run with them. Sends one end once; when it is
//! sent again, and what rests on it, is decided in `tenure-faces`.

mod command;
mod signature;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure_api::SlotSession;
use tenure_faces::{EndHook, Later};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use command::CommandLine;
use webhook::{Webhook, WebhookPlan};

/// What the settings say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HookPlan {
    /// Nobody is told.
    Nobody,
    /// A URL.
    Webhook(WebhookPlan),
    /// A program.
    Command(CommandLine),
}

/// Tells the receiver of the settings, until it is closed.
pub(crate) struct Hook {
    receiver: Arc<Receiver>,
    closing: CancellationToken,
    under_way: TaskTracker,
}

enum Receiver {
    Webhook(Webhook),
    Command(CommandLine),
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
        match scheme_of(text).as_deref() {
            _ if text.is_empty() => Ok(Self::Nobody),
            Some("http" | "https") => WebhookPlan::of(text).map(Self::Webhook),
            Some(_) => {
                Err("expected a URL that begins with http:// or https://, or a command line".to_owned())
            }
            None => CommandLine::of(text).map(Self::Command),
        }
    }

    /// The setting as it may be shown. A URL may hold a secret in its path; of a command nothing is known.
    pub(crate) fn without_secrets(text: &str) -> String {
        match scheme_of(text.trim()) {
            Some(_) => webhook::without_secrets(text.trim()),
            None => text.to_owned(),
        }
    }

    /// With the files of a webhook: the authorities to trust, and the secret to sign with.
    pub(crate) fn with_files(self, ca: Option<PathBuf>, secret: Option<PathBuf>) -> Self {
        match self {
            Self::Webhook(webhook) => Self::Webhook(webhook.with_files(ca, secret)),
            Self::Nobody | Self::Command(_) => self,
        }
    }

    pub(crate) fn is_webhook(&self) -> bool {
        matches!(self, Self::Webhook(_))
    }

    pub(crate) fn is_https(&self) -> bool {
        matches!(self, Self::Webhook(webhook) if webhook.is_https())
    }

    /// Reads the files; `None`: nobody is told.
    pub(crate) fn start(self) -> Result<Option<Arc<Hook>>, String> {
        let receiver = match self {
            Self::Nobody => return Ok(None),
            Self::Webhook(webhook) => Receiver::Webhook(webhook.start()?),
            Self::Command(command) => Receiver::Command(command),
        };
        Ok(Some(Arc::new(Hook {
            receiver: Arc::new(receiver),
            closing: CancellationToken::new(),
            under_way: TaskTracker::new(),
        })))
    }
}

/// The scheme of a URL, in lower case; a command line has none.
fn scheme_of(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once("://")?;
    scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| scheme.to_ascii_lowercase())
}

impl Receiver {
    async fn tell(&self, ended: &SlotSession) -> Result<(), String> {
        match self {
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
    fn tell(&self, ended: SlotSession) -> Later<'static, Result<(), String>> {
        let (receiver, closing) = (Arc::clone(&self.receiver), self.closing.clone());
        Box::pin(self.under_way.track_future(async move {
            let told = closing.run_until_cancelled(receiver.tell(&ended)).await;
            told.unwrap_or_else(|| Err("the daemon stops".to_owned()))
        }))
    }
}

/// The session as it is told.
fn json_of(ended: &SlotSession) -> Vec<u8> {
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
