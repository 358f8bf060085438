//! Arguments that commands about polling share: which group, and what its pollers agree through.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tenure_api::PollName;
use tenure_polling::assignment::Hash;
use tenure_polling::store::RedisOptions;

use crate::failure::{Failure, Words};
use crate::secrets::in_file;

/// Under what help lists what is about a Redis.
pub(super) const REDIS: &str = "Redis";

/// Which pollers.
#[derive(Args, Clone)]
pub(super) struct Group {
    /// Use this group of pollers
    #[arg(long, short, value_name = "GROUP", default_value = "default", value_parser = group_name)]
    pub(super) group: String,
    /// Coordinate the pollers through the daemon (`tenure`) or a Redis: redis://, rediss://, unix://, redis-sentinel:// or
    /// redis-cluster:// URL
    #[arg(long, value_name = "tenure|URL", default_value = "tenure")]
    #[arg(env = "TENURE_POLL_STORE", hide_env_values = true)]
    store: StoreChoice,
    /// Read the store URL from this file, to keep a password off the command line
    #[arg(long, value_name = "FILE", value_parser = store_in_file, env = "TENURE_POLL_STORE_FROM")]
    #[arg(hide_env_values = true)]
    store_from: Option<StoreChoice>,
    #[command(flatten)]
    pub(super) redis: RedisFlags,
}

/// How to deal with a Redis.
#[derive(Args, Clone)]
pub(super) struct RedisFlags {
    /// Use this prefix for Redis keys [default: poll: for the group default, else poll:GROUP:]
    #[arg(long, value_name = "PREFIX", help_heading = REDIS)]
    pub(super) prefix: Option<String>,
    /// Choose the hash that assigns targets to pollers
    #[arg(long, value_name = "HASH", default_value = "xxh64", help_heading = REDIS)]
    pub(super) hash: HashChoice,
    /// Trust the CAs in this file (PEM) for the Redis [default: the system's CAs]
    #[arg(long, value_name = "FILE", help_heading = REDIS, hide_short_help = true)]
    redis_ca: Option<PathBuf>,
    /// Present this client certificate (PEM) to the Redis
    #[arg(long, value_name = "FILE", requires = "redis_key", help_heading = REDIS, hide_short_help = true)]
    redis_cert: Option<PathBuf>,
    /// Use this private key (PEM) for the client certificate
    #[arg(long, value_name = "FILE", requires = "redis_cert", help_heading = REDIS, hide_short_help = true)]
    redis_key: Option<PathBuf>,
}

/// What pollers agree through.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum StoreChoice {
    Tenure,
    /// A URL, possibly with a password in it.
    Redis(String),
}

/// What decides which poller a target prefers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HashChoice {
    /// XXH64 with weights and a cap: balanced for all target names
    Xxh64,
    /// FNV-1a without weights and cap, for older programs on the same Redis; sequential target names are unbalanced
    Fnv1a,
}

/// A part of something, as in `10%`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Percent(pub(super) f64);

/// Why a text is not a share.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a percentage from 0% to 100%, as in 10%")]
pub(super) struct ParsePercentError;

impl FromStr for StoreChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tenure" => Ok(Self::Tenure),
            text if text.contains("://") => Ok(Self::Redis(text.to_owned())),
            _ => Err("expected tenure, or the URL of a Redis such as redis://127.0.0.1:6379".to_owned()),
        }
    }
}

impl FromStr for Percent {
    type Err = ParsePercentError;

    fn from_str(text: &str) -> Result<Self, ParsePercentError> {
        let number: f64 =
            text.strip_suffix('%').ok_or(ParsePercentError)?.parse().map_err(|_| ParsePercentError)?;
        if !(0.0..=100.0).contains(&number) {
            return Err(ParsePercentError);
        }
        Ok(Self(number / 100.0))
    }
}

/// What a file says.
fn store_in_file(path: &str) -> Result<StoreChoice, String> {
    in_file(path)?.parse()
}

/// A group that can be one.
fn group_name(text: &str) -> Result<String, String> {
    PollName::check_group(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Where to listen: an address, or a port of this machine alone.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|_| text.parse())
        .map_err(|_| "expected a port, or an address with a port such as 127.0.0.1:9642".to_owned())
}

impl Group {
    /// What its pollers agree through.
    pub(super) fn store(&self) -> &StoreChoice {
        self.store_from.as_ref().unwrap_or(&self.store)
    }

    /// What belongs to Redis is said to Redis only. `has_other`: another one than the store is asked.
    pub(super) fn check(&self, has_other: bool) -> Result<(), Failure> {
        let is_about_other = self.redis.redis_ca.is_some() || self.redis.redis_cert.is_some();
        let is_about_redis = self.redis.prefix.is_some() || (is_about_other && !has_other);
        let is_daemon = *self.store() == StoreChoice::Tenure;
        if is_daemon && is_about_redis {
            let line = "--prefix, --redis-ca and --redis-cert require a Redis, but the store is the daemon";
            return Err(Failure::Usage(Words::new(line).hint("name the Redis: --store redis://HOST:PORT")));
        }
        if is_daemon && self.redis.hash == HashChoice::Fnv1a {
            let line =
                "--hash fnv1a requires a Redis shared with older programs, but the store is the daemon";
            let hint = "omit --hash, or name the Redis: --store redis://HOST:PORT";
            return Err(Failure::Usage(Words::new(line).hint(hint)));
        }
        Ok(())
    }
}

impl HashChoice {
    pub(super) fn hash(self) -> Hash {
        match self {
            Self::Xxh64 => Hash::Xxh64,
            Self::Fnv1a => Hash::Fnv1a,
        }
    }
}

impl RedisFlags {
    /// How to reach the Redis at this URL.
    pub(super) fn options(&self, url: &str, group: &str) -> Result<RedisOptions, Failure> {
        Ok(RedisOptions {
            group: group.to_owned(),
            prefix: self.prefix.clone(),
            hash: self.hash.hash(),
            ca_pem: self.redis_ca.as_deref().map(read_pem).transpose()?,
            client_cert_pem: self.redis_cert.as_deref().map(read_pem).transpose()?,
            client_key_pem: self.redis_key.as_deref().map(read_pem).transpose()?,
            ..RedisOptions::new(url)
        })
    }
}

fn read_pem(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path)
        .map_err(|error| Failure::Usage(Words::new(format_args!("cannot read {}: {error}", path.display()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_percents() {
        assert_eq!("10%".parse(), Ok(Percent(0.1)));
        assert_eq!("0%".parse(), Ok(Percent(0.0)));
        for text in ["", "10", "%", "101%", "-1%", "x%", "NaN%"] {
            assert_eq!(text.parse::<Percent>(), Err(ParsePercentError), "{text:?}");
        }
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, address) in [
            ("9642", "127.0.0.1:9642"),
            (":0", "127.0.0.1:0"),
            ("[::1]:1", "[::1]:1"),
            ("0.0.0.0:2", "0.0.0.0:2"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "host:1", "127.0.0.1", "70000"] {
            assert!(listen_address(text).is_err(), "{text:?}");
        }
    }
}
