//! Sources of targets. Every poller of a group reads the same source.

mod file;
mod prefix;
mod redis;

pub use file::{FileSource, read_targets};
pub use prefix::PrefixSource;
pub use redis::RedisPatternSource;

use crate::store::TargetName;

/// A list of targets that may change.
pub trait TargetSource: Send + 'static {
    /// Returns the whole list: the first time at once, then after each change. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Vec<TargetName>, SourceError>> + Send;
}

/// Why there is no list of targets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SourceError {
    /// A temporary error; the last list stays in effect.
    #[error("{0}")]
    Temporary(String),
    /// A permanent error, such as a wrong name or a missing permission.
    #[error("{0}")]
    Permanent(String),
}

/// A fixed list of targets.
#[derive(Clone, Debug)]
pub struct FixedSource {
    targets: Option<Vec<TargetName>>,
}

impl FixedSource {
    /// Creates a source with these targets.
    pub fn new(targets: impl IntoIterator<Item = impl Into<TargetName>>) -> Self {
        Self { targets: Some(targets.into_iter().map(Into::into).collect()) }
    }
}

impl TargetSource for FixedSource {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        match self.targets.take() {
            Some(targets) => Ok(targets),
            None => core::future::pending().await,
        }
    }
}
