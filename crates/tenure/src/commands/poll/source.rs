//! Where a poller's targets come from, as it is told on the command line.

use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tenure_client::Client;
use tenure_polling::source::{
    FileSource, FixedSource, PrefixSource, RedisPatternSource, SourceError, TargetSource, read_targets,
};
use tenure_polling::store::TargetName;

use super::arguments::{Group, REDIS, StoreChoice};
use crate::connect::Reach;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::secrets::in_file;

/// Where targets come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TargetsChoice {
    StandardInput,
    File(PathBuf),
    RedisPattern(String),
    Prefix(String),
}

/// Which Redis has them, if one has.
#[derive(Args, Clone)]
pub(super) struct TargetsRedis {
    /// Read redis:PATTERN from this Redis [default: that of --store]
    #[arg(long, value_name = "URL", help_heading = REDIS)]
    #[arg(env = "TENURE_POLL_TARGETS_STORE", hide_env_values = true)]
    targets_store: Option<String>,
    /// Read that URL from this file, to keep a password off the command line
    #[arg(long, value_name = "FILE", value_parser = in_file, env = "TENURE_POLL_TARGETS_STORE_FROM")]
    #[arg(hide_env_values = true, help_heading = REDIS, hide_short_help = true)]
    targets_store_from: Option<String>,
}

/// Any of them.
pub(super) enum Source {
    Fixed(FixedSource),
    File(Box<FileSource>),
    Prefix(Box<PrefixSource>),
    Redis(Box<RedisPatternSource>),
}

const PATTERN: &str = "redis:";
const PREFIX: &str = "prefix:";
/// More than this on standard input is no list of targets.
const INPUT_BYTES_MAX: u64 = 64 << 20;

impl FromStr for TargetsChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(pattern) = text.strip_prefix(PATTERN) {
            return match pattern {
                "" => Err("expected a key pattern after redis:, as in redis:session:*".to_owned()),
                pattern => Ok(Self::RedisPattern(pattern.to_owned())),
            };
        }
        match (text.strip_prefix(PREFIX), text) {
            (Some(prefix), _) => Ok(Self::Prefix(prefix.to_owned())),
            (None, "") => Err("expected a file, redis:PATTERN, prefix:PREFIX or -".to_owned()),
            (None, "-") => Ok(Self::StandardInput),
            (None, path) => Ok(Self::File(path.into())),
        }
    }
}

impl TargetsRedis {
    /// Whether another Redis than that of the store is named.
    pub(super) fn is_named(&self) -> bool {
        self.url().is_some()
    }

    fn url(&self) -> Option<&String> {
        self.targets_store_from.as_ref().or(self.targets_store.as_ref())
    }
}

impl Source {
    /// Opens it; what cannot be one is told before anything begins. `client` where the daemon was found already.
    pub(super) async fn open(
        choice: &TargetsChoice,
        group: &Group,
        redis: &TargetsRedis,
        client: Option<&Client>,
        reach: &Reach,
        printer: &mut Printer,
    ) -> Result<Self, Failure> {
        let unusable = |error: SourceError| Failure::Usage(Words::new(format_args!("--targets: {error}")));
        match choice {
            TargetsChoice::StandardInput => {
                let mut text = Vec::new();
                std::io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut text)?;
                Ok(Self::Fixed(FixedSource::new(read_targets(&text).map_err(unusable)?)))
            }
            TargetsChoice::File(path) => {
                let opened = FileSource::open(path).map_err(unusable);
                let opened = opened.map_err(|failure| {
                    failure.with_hint(
                        "one target on each line; or redis:PATTERN, prefix:PREFIX, - for standard input",
                    )
                })?;
                Ok(Self::File(Box::new(opened)))
            }
            TargetsChoice::Prefix(prefix) => {
                let client = match client {
                    Some(client) => client.clone(),
                    None => reach.daemon(printer).await?.client().clone(),
                };
                Ok(Self::Prefix(Box::new(PrefixSource::new(client, prefix).map_err(unusable)?)))
            }
            TargetsChoice::RedisPattern(pattern) => {
                let url = match (redis.url(), group.store()) {
                    (Some(url), _) | (None, StoreChoice::Redis(url)) => url,
                    (None, StoreChoice::Tenure) => {
                        let words = Words::new("--targets redis:PATTERN requires a Redis");
                        return Err(Failure::Usage(words.hint(
                            "name it with --targets-store redis://HOST:PORT, or with --store to coordinate through it too",
                        )));
                    }
                };
                let options = group.redis.options(url, &group.group)?;
                let opened = RedisPatternSource::new(&options, pattern).map_err(unusable)?;
                Ok(Self::Redis(Box::new(opened)))
            }
        }
    }

    /// The targets as they are now.
    pub(super) async fn read(&mut self) -> Result<Vec<TargetName>, Failure> {
        self.next().await.map_err(|error| {
            let words = Words::new(format_args!("cannot read the targets: {error}"));
            match error {
                SourceError::Temporary(_) => Failure::Unexpected(words),
                SourceError::Permanent(_) => Failure::Refused(words),
            }
        })
    }
}

impl TargetSource for Source {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        match self {
            Self::Fixed(source) => source.next().await,
            Self::File(source) => source.next().await,
            Self::Prefix(source) => source.next().await,
            Self::Redis(source) => source.next().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_unless_it_says_otherwise() {
        for (text, choice) in [
            ("-", TargetsChoice::StandardInput),
            ("sites.txt", TargetsChoice::File("sites.txt".into())),
            ("./redis:x", TargetsChoice::File("./redis:x".into())),
            ("redis:session:*", TargetsChoice::RedisPattern("session:*".to_owned())),
            ("prefix:mdns/", TargetsChoice::Prefix("mdns/".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(choice), "{text}");
        }
        assert!("".parse::<TargetsChoice>().is_err());
        assert!("redis:".parse::<TargetsChoice>().is_err());
    }
}
