//! Where a group's targets come from. Every poller of a group reads the same source; who polls what is none of its
//! business.

mod file;
mod prefix;
mod redis;

pub use file::{FileSource, read_targets};
pub use prefix::PrefixSource;
pub use redis::RedisPatternSource;

use crate::store::TargetName;

/// Tells what is to be polled.
pub trait TargetSource: Send + 'static {
    /// The whole list: at once when asked for the first time, then when it has changed. May be dropped while it
    /// waits and asked again.
    fn next(&mut self) -> impl Future<Output = Result<Vec<TargetName>, SourceError>> + Send;
}

/// Why there is no list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SourceError {
    /// It may come yet; what was told last counts meanwhile.
    #[error("{0}")]
    NotNow(String),
    /// It will not: a wrong name, not allowed.
    #[error("{0}")]
    Never(String),
}

/// The same targets for ever.
#[derive(Clone, Debug)]
pub struct Fixed {
    targets: Option<Vec<TargetName>>,
}

impl Fixed {
    /// These targets.
    pub fn new(targets: impl IntoIterator<Item = impl Into<TargetName>>) -> Self {
        Self { targets: Some(targets.into_iter().map(Into::into).collect()) }
    }
}

impl TargetSource for Fixed {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        match self.targets.take() {
            Some(targets) => Ok(targets),
            None => core::future::pending().await,
        }
    }
}
