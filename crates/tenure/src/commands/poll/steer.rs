//! What an operator says to a group: a target goes to a poller, a poller is to have none.
//!
//! Neither ends anything, so nobody is asked: targets are handed over without a moment at which nobody polls them, and
//! a cordoned poller keeps what nobody else takes.

use clap::Args;
use serde_json::Value;
use tenure_api::{Cordoned, Moved, PollerStatus, PollingView};

use super::arguments::Group;
use super::follow::{After, follow};
use super::place::{Place, node, polled};
use crate::connect::{Reach, block_on, read};
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::{cordoned_page, group_line, moved_page, node_table, target_table};

/// Move a target to a poller and pin it there
///
/// The target is handed over without a gap and stays with the poller while the poller is alive and not cordoned.
#[derive(Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub(super) struct Move {
    /// Target to move
    #[arg(value_name = "TARGET")]
    target: String,
    /// Poller that gets the target, by name or instance
    #[arg(value_name = "POLLER", required_unless_present = "auto")]
    poller: Option<String>,
    /// Remove the pin: assign the target automatically again
    #[arg(long, conflicts_with = "poller")]
    auto: bool,
    /// Show the target until it has moved
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    group: Group,
}

const MOVE_EXAMPLES: &str = "Examples:
  tenure poll move --group web https://example.org/ eu-1
  tenure poll move --group web https://example.org/ --auto";

/// Cordon a poller: it hands over its targets and gets no new ones
///
/// It keeps polling targets that no other poller takes.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure poll cordon --group web eu-1 --watch")]
pub(super) struct Cordon {
    /// The poller, by name or instance
    #[arg(value_name = "POLLER")]
    poller: String,
    /// Show the pollers until it has no targets left
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    group: Group,
}

/// Uncordon a poller: it can take targets again
#[derive(Args)]
#[command(after_help = "Example:\n  tenure poll uncordon --group web eu-1")]
pub(super) struct Uncordon {
    /// The poller, by name or instance
    #[arg(value_name = "POLLER")]
    poller: String,
    #[command(flatten)]
    group: Group,
}

impl Move {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        block_on(async {
            self.group.check(false)?;
            let place = Place::find(&self.group, reach, printer).await?;
            let view = place.show_existing().await?.view;
            if self.poller.as_ref().is_none_or(|poller| node(&view, poller).is_some()) {
                printer.talk(self.words(&view));
            }
            let answer = place.move_target(&self.target, self.poller.as_deref()).await?;
            print(printer, &answer, |answer| Ok(moved_page(&read::<Moved>(answer)?)))?;
            if !self.watch {
                return Ok(());
            }
            printer.flush()?;
            follow(place, &[], printer, |shown, printer| {
                let mut view = shown.view.clone();
                retain(&mut view, &self.target);
                match printer.json() {
                    true => printer.object(&shown.object).and_then(|()| printer.flush())?,
                    false => printer.redraw(group_line(&shown.view), &target_table(&view, false))?,
                }
                let is_there = polled(&shown.view, &self.target).is_some_and(|polled| {
                    let wanted = self.poller.as_deref();
                    let name = node(&shown.view, &polled.owner_id).map(|node| node.name.as_str());
                    wanted.map_or(polled.preferred_owner_id.as_ref() == Some(&polled.owner_id), |wanted| {
                        polled.owner_id == wanted || name == Some(wanted)
                    })
                });
                Ok(if is_there { After::Done } else { After::GoOn })
            })
            .await
        })
    }

    /// What will happen.
    fn words(&self, view: &PollingView) -> String {
        let target = &self.target;
        let name =
            |instance: &str| node(view, instance).map_or(instance.to_owned(), |node| node.name.clone());
        let now = match polled(view, target) {
            Some(polled) => format!("{target} is polled by {}", name(&polled.owner_id)),
            None => format!("{target} has no poller"),
        };
        match &self.poller {
            Some(poller) => format!("{now}; moving it to {}", name(poller)),
            None => format!("{now}; removing its pin"),
        }
    }
}

impl Cordon {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        block_on(async {
            self.group.check(false)?;
            let place = Place::find(&self.group, reach, printer).await?;
            let view = place.show_existing().await?.view;
            if let Some(node) = node(&view, &self.poller) {
                let targets = counted(node.owned_targets.len() as u64, "target");
                if node.owned_targets.is_empty() || others_take(&view, &node.name) {
                    printer.talk(format_args!("{} hands over {targets} and gets no new ones", node.name));
                } else {
                    printer.talk(format_args!(
                        "{} keeps polling its {targets}: no other poller takes targets",
                        node.name
                    ));
                }
            }
            let answer = place.cordon(&self.poller, true).await?;
            print(printer, &answer, |answer| Ok(cordoned_page(&read::<Cordoned>(answer)?)))?;
            if !self.watch {
                return Ok(());
            }
            printer.flush()?;
            follow(place, &[], printer, |shown, printer| {
                match printer.json() {
                    true => printer.object(&shown.object).and_then(|()| printer.flush())?,
                    false => printer.redraw(group_line(&shown.view), &node_table(&shown.view))?,
                }
                let has_some =
                    node(&shown.view, &self.poller).is_some_and(|node| !node.owned_targets.is_empty());
                Ok(if has_some { After::GoOn } else { After::Done })
            })
            .await
        })
    }
}

impl Uncordon {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        block_on(async {
            self.group.check(false)?;
            let place = Place::find(&self.group, reach, printer).await?;
            let answer = place.cordon(&self.poller, false).await?;
            print(printer, &answer, |answer| Ok(cordoned_page(&read::<Cordoned>(answer)?)))
        })
    }
}

fn print(
    printer: &mut Printer,
    answer: &Value,
    page: impl Fn(Value) -> Result<crate::show::Page, Failure>,
) -> Result<(), Failure> {
    match printer.json() {
        true => printer.object(answer),
        false => page(answer.clone())?.print(printer),
    }
}

/// Whether somebody but this poller takes targets.
fn others_take(view: &PollingView, name: &str) -> bool {
    view.live_nodes
        .iter()
        .any(|node| node.name != name && matches!(node.status, PollerStatus::Online | PollerStatus::Joining))
}

/// Leaves one target of the view.
fn retain(view: &mut PollingView, target: &str) {
    for node in &mut view.live_nodes {
        node.owned_targets.retain(|polled| polled.target == target);
    }
    view.unowned_targets.retain(|unowned| unowned == target);
    view.abandoned.retain(|abandoned, _| abandoned == target);
}
