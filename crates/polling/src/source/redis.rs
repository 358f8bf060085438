//! Targets that other programs keep in Redis: every key of a pattern is one, by the `id` in its value or else by what
//! follows the fixed start of the pattern. Those whose value says `isPaused` are left out. Looked at from time to time.

use super::{SourceError, TargetSource};
use crate::store::redis::{Link, Where, link};
use crate::store::{RedisOptions, StoreError, TargetName};
use core::time::Duration;
use std::collections::BTreeSet;
use tenure_client::clock::{BootInstant, wait_until};

/// Default time between two reads.
const EVERY: Duration = Duration::from_secs(10);
/// How long one look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(30);
/// Values read by one command.
const VALUES_AT_ONCE: usize = 1_000;

/// Redis keys as targets.
pub struct RedisPatternSource {
    link: Link,
    pattern: String,
    start: String,
    every: Duration,
    told: Option<BTreeSet<TargetName>>,
    /// When it is looked at again.
    due: Option<BootInstant>,
}

impl RedisPatternSource {
    /// Creates a source of the keys that match a pattern such as `session:*`. Uses only the connection settings of the
    /// options.
    ///
    /// # Errors
    /// [`SourceError::Permanent`] if options or pattern are invalid.
    pub fn new(options: &RedisOptions, pattern: impl Into<String>) -> Result<Self, SourceError> {
        let pattern = pattern.into();
        if pattern.is_empty() {
            return Err(SourceError::Permanent("the pattern of the targets' keys is empty".to_owned()));
        }
        let link = link(options).map_err(|error| SourceError::Permanent(error.to_string()))?;
        let start = fixed_start(&pattern);
        Ok(Self { link, pattern, start, every: EVERY, told: None, due: None })
    }

    /// Sets how often to read the keys [default: 10 s].
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    async fn look(&self) -> Result<BTreeSet<TargetName>, StoreError> {
        let keys: BTreeSet<String> =
            self.link.scan(&self.pattern, Where::Everywhere).await?.into_iter().collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let mut targets = BTreeSet::new();
        for chunk in keys.chunks(VALUES_AT_ONCE) {
            let answer = self.link.ask(redis::cmd("MGET").arg(chunk)).await?;
            let values: Vec<Option<Vec<u8>>> = self.link.read(answer)?;
            for (key, value) in chunk.iter().zip(values) {
                let value = match value {
                    Some(value) => value,
                    None if self.is_there(key).await? => Vec::new(),
                    None => continue,
                };
                targets.extend(target(key, &self.start, &value));
            }
        }
        Ok(targets)
    }

    /// Whether a key without a value to read is one of another kind, and not gone meanwhile.
    async fn is_there(&self, key: &str) -> Result<bool, StoreError> {
        let answer = self.link.ask(redis::cmd("EXISTS").arg(key)).await?;
        self.link.read::<u64>(answer).map(|count| count > 0)
    }
}

impl TargetSource for RedisPatternSource {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        loop {
            if let Some(due) = self.due {
                wait_until(due).await;
            }
            let begun = BootInstant::now();
            let looked = self.link.within(LOOK_LIMIT, self.look()).await;
            self.due = Some(begun.after(self.every));
            let found = looked.map_err(|error| match error {
                StoreError::Rejected(why) if self.told.is_none() => SourceError::Permanent(why),
                other => SourceError::Temporary(other.to_string()),
            })?;
            if self.told.as_ref() != Some(&found) {
                let list = found.iter().cloned().collect();
                self.told = Some(found);
                return Ok(list);
            }
        }
    }
}

/// What a pattern says before its first wildcard.
fn fixed_start(pattern: &str) -> String {
    let mut start = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' | '?' | '[' => break,
            '\\' => start.extend(characters.next()),
            other => start.push(other),
        }
    }
    start
}

/// The target that a key and its value stand for; `None` if it is paused.
fn target(key: &str, start: &str, value: &[u8]) -> Option<TargetName> {
    let by_key = key.strip_prefix(start).filter(|rest| !rest.is_empty()).unwrap_or(key);
    let Ok(serde_json::Value::Object(session)) = serde_json::from_slice(value) else {
        return Some(by_key.into());
    };
    if session.get("isPaused") == Some(&serde_json::Value::Bool(true)) {
        return None;
    }
    let by_id = match session.get("id") {
        Some(serde_json::Value::String(id)) => id.clone(),
        Some(serde_json::Value::Number(id)) => id.to_string(),
        _ => String::new(),
    };
    Some(if by_id.is_empty() { by_key.into() } else { by_id.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_a_fixed_start() {
        for (pattern, start) in
            [("session:*", "session:"), ("a\\*b?c", "a*b"), ("x[ab]", "x"), ("*", ""), ("plain", "plain")]
        {
            assert_eq!(fixed_start(pattern), start);
        }
    }

    #[test]
    fn a_target_is_its_id_or_the_rest_of_its_key() {
        let of = |value: &str| target("session:7", "session:", value.as_bytes()).map(|name| name.to_string());
        assert_eq!(of(r#"{"id":"s7","isPaused":false}"#).as_deref(), Some("s7"));
        assert_eq!(of(r#"{"id":17}"#).as_deref(), Some("17"));
        assert_eq!(of(r#"{"id":"","name":"x"}"#).as_deref(), Some("7"));
        assert_eq!(of("not JSON").as_deref(), Some("7"));
        assert_eq!(of("[1]").as_deref(), Some("7"));
        assert_eq!(of(r#"{"id":"s7","isPaused":true}"#), None);
        assert_eq!(target("plain", "plain", b"").as_deref(), Some("plain"));
    }
}
