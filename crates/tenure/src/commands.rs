//! What the program can do: one file per command, its documentation comment is its help.

mod admin;
mod again;
mod arguments;
mod backup;
mod bench;
mod check;
mod cluster;
mod completions;
mod guardian;
mod install;
mod lease;
mod listing;
mod log;
mod man;
mod mdns;
mod open;
mod poll;
mod pool;
mod reference;
mod resource;
mod restore;
mod run;
mod serve;
mod session;
mod status;
mod stdio;
mod token;
mod uninstall;
mod watch;
mod why;

use clap::Subcommand;

use crate::command_line;
use crate::connect::{Daemon, Found, Reach, block_on};
use crate::failure::Failure;
use crate::printer::Printer;

/// Every command.
#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Status(status::Status),
    Watch(watch::Watch),
    Why(why::Why),
    Open(open::Open),
    Lease(lease::Lease),
    Run(run::Run),
    Pool(pool::Pool),
    Resource(resource::Resource),
    Check(check::Check),
    Session(session::Session),
    Mdns(mdns::Mdns),
    Poll(poll::Poll),
    Cluster(cluster::Cluster),
    Admin(admin::Admin),
    Log(log::Log),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Stdio(stdio::Stdio),
    Bench(bench::Bench),
    Install(install::Install),
    Uninstall(uninstall::Uninstall),
    Token(token::Token),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    Register(mdns::Register),
    #[command(hide = true)]
    Unregister(mdns::Unregister),
    #[command(hide = true)]
    Browse(mdns::Browse),
    #[command(hide = true)]
    Resolve(mdns::Resolve),
    #[command(hide = true)]
    Subscribe(mdns::Subscribe),
    #[command(hide = true)]
    Guardian(guardian::Guardian),
    #[command(hide = true)]
    Reference(reference::Reference),
}

impl Command {
    /// Bare `tenure` where its standard input is not a terminal.
    pub(crate) fn stdio() -> Self {
        Self::Stdio(stdio::Stdio::default())
    }

    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Serve(serve) => serve.run(printer),
            Self::Status(status) => asking(reach, printer, async |daemon, p| status.run(daemon, p).await),
            Self::Watch(watch) => asking(reach, printer, async |daemon, p| watch.run(reach, daemon, p).await),
            Self::Why(why) => asking(reach, printer, async |daemon, p| why.run(daemon, p).await),
            Self::Open(open) => asking(reach, printer, async |daemon, p| open.run(daemon, p).await),
            Self::Lease(lease) => {
                lease.check()?;
                asking(reach, printer, async |daemon, p| lease.run(daemon, p).await)
            }
            Self::Run(run) => run.run(reach, printer),
            Self::Pool(pool) => {
                pool.check()?;
                asking(reach, printer, async |daemon, p| pool.run(daemon, p).await)
            }
            Self::Resource(resource) => {
                asking(reach, printer, async |daemon, p| resource.run(daemon, p).await)
            }
            Self::Check(check) => asking(reach, printer, async |daemon, p| check.run(daemon, p).await),
            Self::Session(session) => {
                asking(reach, printer, async |daemon, p| session.run(reach, daemon, p).await)
            }
            Self::Mdns(mdns) => mdns.run(reach, printer),
            Self::Poll(poll) => poll.run(reach, printer),
            Self::Register(register) => register.run(reach, printer),
            Self::Unregister(unregister) => unregister.run(reach, printer),
            Self::Browse(browse) => browse.run(reach, printer),
            Self::Resolve(resolve) => resolve.run(reach, printer),
            Self::Subscribe(subscribe) => subscribe.run(reach, printer),
            Self::Admin(admin) => {
                admin.check()?;
                asking(reach, printer, async |daemon, p| admin.run(reach, daemon, p).await)
            }
            Self::Cluster(cluster) => cluster.run(reach, printer),
            Self::Log(log) => log.run(printer),
            Self::Backup(backup) => {
                backup.check()?;
                asking(reach, printer, async |daemon, p| backup.run(daemon, p).await)
            }
            Self::Restore(restore) => restore.run(printer),
            Self::Stdio(stdio) => {
                asking_or_alone(reach, printer, async |found, p| stdio.run(&found.daemon, p).await)
            }
            Self::Bench(bench) => bench.run(reach, printer),
            Self::Install(install) => install.run(printer),
            Self::Uninstall(uninstall) => uninstall.run(printer),
            Self::Token(token) => token.run(printer),
            Self::Completions(completions) => completions.run(command_line(), printer),
            Self::Man(man) => man.run(command_line(), printer),
            Self::Guardian(guardian) => guardian.run(),
            Self::Reference(reference) => reference.run(command_line(), printer),
        }
    }
}

/// Finds the daemon and runs a command that asks it.
fn asking(
    reach: &Reach,
    printer: &mut Printer,
    work: impl AsyncFnOnce(&Daemon, &mut Printer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    block_on(async {
        let daemon = reach.daemon(printer).await?;
        work(&daemon, printer).await
    })
}

/// The same for commands that can do without a daemon: what they began ends with them.
fn asking_or_alone(
    reach: &Reach,
    printer: &mut Printer,
    work: impl AsyncFnOnce(&Found, &mut Printer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    block_on(async {
        let found = reach.daemon_or_standalone(printer).await?;
        let outcome = work(&found, printer).await;
        let ended = found.end().await;
        outcome.and(ended)
    })
}
