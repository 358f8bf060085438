//! `tenure pool`: names with a size.

use clap::{Args, Subcommand};
use tenure_api::{LeaseList, LeaseQuery, Pool as PoolView, PoolList, PoolSize, RemovePool};
use tenure_client::Method;

use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};
use crate::show::{lease_words, pool_table};

/// Leases shown before their pool is removed.
const SHOWN_MAX: u64 = 20;

/// Create, list and remove pools: named sets of interchangeable slots
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure pool set gpu 4\n  tenure pool ls")]
pub(crate) struct Pool {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Subcommand)]
enum PoolCommand {
    Set(Set),
    Ls(List),
    Rm(Remove),
}

/// Create or resize a pool
#[derive(Args)]
#[command(after_help = "Example:\n  tenure pool set gpu 4")]
struct Set {
    /// Pool name; the members are POOL/1, POOL/2 and so on
    #[arg(value_name = "POOL")]
    name: String,
    /// Number of members
    #[arg(value_name = "SIZE")]
    size: u32,
}

/// List pools with their size and free members
#[derive(Args)]
#[command(after_help = "Example:\n  tenure pool ls")]
struct List {}

/// Remove a pool
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure pool rm gpu\n  tenure pool rm gpu --force --yes")]
struct Remove {
    /// Pool name
    #[arg(value_name = "POOL")]
    name: String,
    /// Remove the pool even if leases hold members; end those leases
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Pool {
    /// What can be known to be wrong before any daemon is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.command {
            PoolCommand::Rm(remove) => remove.consent.can_be_had(),
            PoolCommand::Set(_) | PoolCommand::Ls(_) => Ok(()),
        }
    }

    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            PoolCommand::Set(set) => set.run(daemon, printer).await,
            PoolCommand::Ls(List {}) => list(daemon, printer).await,
            PoolCommand::Rm(remove) => remove.run(daemon, printer).await,
        }
    }
}

impl Set {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let body = PoolSize { size: self.size };
        let answer = daemon.call(Method::PUT, route(&["pools", &self.name]), Some(&body)).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let pool: PoolView = read(answer)?;
        printer.table(&pool_table(std::slice::from_ref(&pool)))
    }
}

async fn list(daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
    let answer = daemon.get(route(&["pools"])).await?;
    if printer.json() {
        return printer.object(&answer);
    }
    let list: PoolList = read(answer)?;
    if !list.pools.is_empty() {
        printer.table(&pool_table(&list.pools))?;
    }
    printer.talk(counted(list.pools.len() as u64, "pool"));
    Ok(())
}

impl Remove {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let what = self.shown(daemon).await?;
        self.consent.obtain(printer, &what, "remove this pool?")?;
        let route = route(&["pools", &self.name]).query(&RemovePool { force: self.force });
        let answer = daemon.call(Method::DELETE, route, None::<&()>).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let pool: PoolView = read(answer)?;
        printer.table(&pool_table(std::slice::from_ref(&pool)))
    }

    /// The pool, and every lease that would go with it.
    async fn shown(&self, daemon: &Daemon) -> Result<Vec<String>, Failure> {
        let list: PoolList = read(daemon.get(route(&["pools"])).await?)?;
        let Some(pool) = list.pools.iter().find(|pool| pool.name == self.name) else {
            let words = Words::new(format_args!("there is no pool {}", self.name));
            return Err(Failure::Refused(words.hint("tenure pool ls lists the pools")));
        };
        let held = pool.size.saturating_sub(pool.free);
        let mut lines =
            vec![format!("pool {}: {}, {held} of them held", pool.name, counted(pool.size, "member"),)];
        if held > 0 && self.force {
            let prefix = Some(format!("{}/", pool.name));
            let query =
                LeaseQuery { resource_prefix: prefix, limit: Some(SHOWN_MAX), ..LeaseQuery::default() };
            let leases: LeaseList = read(daemon.get(route(&["leases"]).query(&query)).await?)?;
            lines.extend(leases.leases.iter().map(|lease| format!("ends {}", lease_words(lease))));
            if leases.next_cursor.is_some() {
                lines.push("and more leases".to_owned());
            }
        }
        Ok(lines)
    }
}
