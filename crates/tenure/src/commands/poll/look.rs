//! `tenure poll groups`, `tenure poll pollers` and `tenure poll targets`: which groups there are, and one as it stands,
//! once or for as long as somebody looks.

use clap::Args;
use tenure_api::PollingView;
use tenure_polling::store::TargetName;

use super::arguments::Group;
use super::follow::{After, follow};
use super::place::{Place, groups};
use super::source::{Source, TargetsChoice, TargetsRedis};
use crate::connect::{Reach, block_on};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{group_line, group_table, node_table, target_table};
use crate::table::Table;

/// List the daemon's groups of pollers
///
/// A group without pollers is abandoned; the daemon removes it a day after its last target became free.
#[derive(Args, Default)]
#[command(after_help = "Example:\n  tenure poll groups")]
pub(super) struct Groups {}

impl Groups {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        block_on(async {
            let daemon = reach.daemon(printer).await?;
            let (groups, object) = groups(&daemon).await?;
            if printer.json() {
                return printer.object(&object);
            }
            if groups.groups.is_empty() {
                printer.talk("no groups; tenure poll run starts a poller");
                return Ok(());
            }
            printer.table(&group_table(&groups))
        })
    }
}

/// List the pollers of a group and the number of their targets
#[derive(Args)]
#[command(after_help = POLLERS_EXAMPLES)]
pub(super) struct Pollers {
    #[command(flatten)]
    look: Look,
}

const POLLERS_EXAMPLES: &str = "Examples:
  tenure poll pollers --group web
  tenure poll pollers --group web --watch";

/// List targets and their pollers; targets without a poller first
#[derive(Args)]
#[command(after_help = TARGETS_EXAMPLES)]
pub(super) struct Targets {
    /// Show only targets without a poller (unowned and abandoned)
    #[arg(long)]
    unowned: bool,
    #[command(flatten)]
    look: Look,
}

const TARGETS_EXAMPLES: &str = "Examples:
  tenure poll targets --group web --unowned
  tenure poll targets --group web --targets sites.txt";

/// How to look.
#[derive(Args)]
struct Look {
    #[command(flatten)]
    group: Group,
    /// Compare with this list of targets, as in tenure poll run: show targets that no poller ever had too
    #[arg(long, value_name = "FILE|redis:PATTERN|prefix:PREFIX")]
    targets: Option<TargetsChoice>,
    #[command(flatten)]
    targets_redis: TargetsRedis,
    /// Refresh on every change until interrupted
    #[arg(long, short)]
    watch: bool,
}

impl Pollers {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        block_on(self.look.show(reach, printer, node_table))
    }
}

impl Targets {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        let unowned = self.unowned;
        block_on(self.look.show(reach, printer, |view| target_table(view, unowned)))
    }
}

impl Look {
    async fn show(
        self,
        reach: &Reach,
        printer: &mut Printer,
        table: impl Fn(&PollingView) -> Table,
    ) -> Result<(), Failure> {
        self.group.check(self.targets_redis.is_named())?;
        let place = Place::find(&self.group, reach, printer).await?;
        let expected: Vec<TargetName> = match &self.targets {
            Some(choice) => {
                let redis = &self.targets_redis;
                Source::open(choice, &self.group, redis, None, reach, printer).await?.read().await?
            }
            None => Vec::new(),
        };
        if self.watch {
            return follow(place, &expected, printer, |shown, printer| {
                match printer.json() {
                    true => printer.object(&shown.object).and_then(|()| printer.flush())?,
                    false => printer.redraw(group_line(&shown.view), &table(&shown.view))?,
                }
                Ok(After::GoOn)
            })
            .await;
        }
        // What should be polled can be asked of a group that nobody polls in yet.
        let shown = match &self.targets {
            Some(_) => place.show().await?.expecting(&expected)?,
            None => place.show_existing().await?,
        };
        if printer.json() {
            return printer.object(&shown.object);
        }
        printer.talk(group_line(&shown.view));
        printer.table(&table(&shown.view))
    }
}
