//! Which peers there are, what each needs to be there, and how it is started.

use super::etcd::{Etcd, Leases};
use super::home::Site;
use super::peer::Peer;
use super::postgres::{self, Postgres};
use super::redis::{Flavour, Redis};
use super::tenure::{Tenure, Transport};
use super::zookeeper::{self, ZooKeeper};
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

/// One of those that are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    Tenure,
    TenureHttp,
    RedisAlways,
    RedisFence,
    RedisMemory,
    Etcd,
    /// With one lease for all names of a holder.
    EtcdShared,
    Postgres,
    Zookeeper,
}

/// What has to be there, and how it comes there.
struct Need {
    program: &'static str,
    is_there: fn() -> bool,
    install: &'static str,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::Tenure,
        Self::TenureHttp,
        Self::RedisAlways,
        Self::RedisFence,
        Self::RedisMemory,
        Self::Etcd,
        Self::EtcdShared,
        Self::Postgres,
        Self::Zookeeper,
    ];

    /// As it is called on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tenure => "tenure",
            Self::TenureHttp => "tenure-http",
            Self::RedisAlways => "redis-always",
            Self::RedisFence => "redis-fence",
            Self::RedisMemory => "redis-memory",
            Self::Etcd => "etcd",
            Self::EtcdShared => "etcd-shared",
            Self::Postgres => "postgres",
            Self::Zookeeper => "zookeeper",
        }
    }

    pub(crate) fn is_redis(self) -> bool {
        matches!(self, Self::RedisAlways | Self::RedisFence | Self::RedisMemory)
    }

    /// Whether it keeps what it granted when it is killed.
    pub(crate) fn is_durable(self) -> bool {
        self != Self::RedisMemory
    }

    /// Whether people measure it with a tool that comes with it.
    pub(crate) fn has_own_tool(self) -> bool {
        matches!(self, Self::RedisAlways | Self::RedisMemory)
    }

    pub(crate) fn start(self, site: &Site) -> Result<Box<dyn Peer>> {
        Ok(match self {
            Self::Tenure => Box::new(Tenure::start(site, Transport::Socket)?),
            Self::TenureHttp => Box::new(Tenure::start(site, Transport::Http)?),
            Self::RedisAlways => Box::new(Redis::start(site, Flavour::Always)?),
            Self::RedisFence => Box::new(Redis::start(site, Flavour::Fence)?),
            Self::RedisMemory => Box::new(Redis::start(site, Flavour::Memory)?),
            Self::Etcd => Box::new(Etcd::start(site, Leases::Each)?),
            Self::EtcdShared => Box::new(Etcd::start(site, Leases::Shared)?),
            Self::Postgres => Box::new(Postgres::start(site)?),
            Self::Zookeeper => Box::new(ZooKeeper::start(site)?),
        })
    }

    /// What it needs, and the command that installs it.
    fn needs(self) -> &'static [Need] {
        const REDIS: &[Need] = &[
            Need {
                program: "redis-server",
                is_there: || succeeds("redis-server --version"),
                install: "apt-get install redis-server",
            },
            Need {
                program: "redis-benchmark",
                is_there: || succeeds("redis-benchmark --version"),
                install: "apt-get install redis-tools",
            },
        ];
        const ETCD: &[Need] = &[Need {
            program: "etcd",
            is_there: || succeeds("etcd --version"),
            install: "apt-get install etcd-server",
        }];
        const POSTGRES: &[Need] = &[Need {
            program: "PostgreSQL",
            is_there: postgres::is_there,
            install: "apt-get install postgresql",
        }];
        const ZOOKEEPER: &[Need] = &[Need {
            program: "ZooKeeper",
            is_there: zookeeper::is_there,
            install: "apt-get install zookeeper",
        }];
        match self {
            Self::Tenure | Self::TenureHttp => &[],
            Self::RedisAlways | Self::RedisFence | Self::RedisMemory => REDIS,
            Self::Etcd | Self::EtcdShared => ETCD,
            Self::Postgres => POSTGRES,
            Self::Zookeeper => ZOOKEEPER,
        }
    }
}

/// Whether there is a Java, without which nobody has a ZooKeeper.
pub(crate) fn has_java() -> bool {
    succeeds("java -version")
}

fn succeeds(check: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", check]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Refuses to go on without a program that is needed: nothing is installed silently, and nobody is left out silently.
pub(crate) fn ensure_there(kinds: &[Kind]) -> Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for missing in kinds.iter().flat_map(|kind| kind.needs()).filter(|need| !(need.is_there)()) {
        let line = format!("  {} is missing: {}", missing.program, missing.install);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    bail!(
        "not every peer is there\n{}\ninstall them by hand, say --install, or leave a peer out with --without",
        lines.join("\n")
    )
}
