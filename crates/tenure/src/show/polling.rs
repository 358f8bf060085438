//! Pollers and their targets. What nobody polls and what is uncertain comes first: it is what the reader came for.

use tenure_api::{Cordoned, Moved, PolledTarget, PollerNode, PollingView, TargetState};

use super::{Now, Page, age, names, relative, word};
use crate::printer::counted;
use crate::table::Table;

/// Names shown before the rest is counted.
const NAMES_MAX: usize = 5;
const NOBODY: &str = "-";

/// Pollers and how much each has.
pub(crate) fn node_table(view: &PollingView) -> Table {
    let mut table = Table::new(&["POLLER", "STATUS", "WEIGHT", "TARGETS", "NOT SETTLED", "INSTANCE"]);
    if !view.unowned_targets.is_empty() {
        let unowned = &view.unowned_targets;
        table.row(vec![
            "(nobody)".to_owned(),
            "unowned".to_owned(),
            NOBODY.to_owned(),
            unowned.len().to_string(),
            names(unowned, NAMES_MAX),
            NOBODY.to_owned(),
        ]);
    }
    let mut nodes: Vec<&PollerNode> = view.live_nodes.iter().collect();
    nodes.sort_by_key(|node| (unsettled(node).is_empty(), &node.name));
    for node in nodes {
        let unsettled = unsettled(node);
        table.row(vec![
            node.name.clone(),
            word(&node.status),
            node.weight.to_string(),
            node.owned_targets.len().to_string(),
            if unsettled.is_empty() { NOBODY.to_owned() } else { names(&unsettled, NAMES_MAX) },
            if node.instance_id == node.name { NOBODY.to_owned() } else { node.instance_id.clone() },
        ]);
    }
    table
}

/// Targets and who polls them; only those that nobody polls where the reader asks for these.
pub(crate) fn target_table(view: &PollingView, only_unowned: bool) -> Table {
    let now = Now::of(&view.timestamp);
    let mut table = Table::new(&["TARGET", "STATE", "POLLER", "PREFERRED", "FENCE", "SINCE", "RENEWED"]);
    let name = |instance: &Option<String>| match instance {
        Some(instance) => name_of(view, instance),
        None => NOBODY.to_owned(),
    };
    for target in &view.unowned_targets {
        let told = view.unowned.get(target).cloned().unwrap_or_default();
        table.row(vec![
            target.clone(),
            match &told.reason {
                Some(reason) => format!("unowned, {reason}"),
                None => "unowned".to_owned(),
            },
            match &told.last_owner_id {
                Some(last) => format!("was {}", name_of(view, last)),
                None => NOBODY.to_owned(),
            },
            name(&told.preferred_owner_id),
            NOBODY.to_owned(),
            told.since.as_ref().and_then(|since| age(now, since)).unwrap_or_else(|| NOBODY.to_owned()),
            NOBODY.to_owned(),
        ]);
    }
    if only_unowned {
        return table;
    }
    let mut polled: Vec<&PolledTarget> =
        view.live_nodes.iter().flat_map(|node| &node.owned_targets).collect();
    polled.sort_by_key(|polled| (urgency(polled.state), &polled.target));
    for polled in polled {
        let mut state = word(&polled.state);
        if let Some(age) = polled.uncertain_since.as_ref().and_then(|since| age(now, since)) {
            state = format!("{state} for {age}");
        }
        if polled.pinned {
            state.push_str(", pinned");
        }
        let prefers_another = polled.preferred_owner_id.as_ref() != Some(&polled.owner_id);
        table.row(vec![
            polled.target.clone(),
            state,
            name_of(view, &polled.owner_id),
            if prefers_another { name(&polled.preferred_owner_id) } else { "same".to_owned() },
            polled.fence.map_or_else(|| NOBODY.to_owned(), |fence| fence.to_string()),
            polled.acquired_at.as_ref().and_then(|at| age(now, at)).unwrap_or_else(|| NOBODY.to_owned()),
            polled
                .last_renewed_at
                .as_ref()
                .and_then(|at| relative(now, at))
                .unwrap_or_else(|| NOBODY.to_owned()),
        ]);
    }
    table
}

/// The group in one line.
pub(crate) fn group_line(view: &PollingView) -> String {
    let polled: usize = view.live_nodes.iter().map(|node| node.owned_targets.len()).sum();
    let unsettled: usize = view.live_nodes.iter().map(|node| unsettled(node).len()).sum();
    let mut line = format!(
        "group {}: {}, {} polled",
        view.group,
        counted(view.live_nodes.len() as u64, "poller"),
        counted(polled as u64, "target"),
    );
    if unsettled > 0 {
        line.push_str(&format!(", {unsettled} of them not settled"));
    }
    if !view.unowned_targets.is_empty() {
        line.push_str(&format!(", {} that nobody polls", view.unowned_targets.len()));
    }
    line
}

/// What was ordered about a target.
pub(crate) fn moved_page(moved: &Moved) -> Page {
    let mut page = Page::default();
    page.row("target", moved.target.clone());
    page.row("group", moved.group.clone());
    page.row("goes to", moved.poller.clone().unwrap_or_else(|| "whoever should by itself".to_owned()));
    page.row("is with", moved.owner_id.clone().unwrap_or_else(|| "nobody".to_owned()));
    page
}

/// What was ordered about a poller.
pub(crate) fn cordoned_page(cordoned: &Cordoned) -> Page {
    let mut page = Page::default();
    page.row("poller", cordoned.poller.clone());
    page.row("group", cordoned.group.clone());
    page.row("cordoned", if cordoned.cordoned { "yes" } else { "no" }.to_owned());
    page.row("still has", counted(cordoned.owned, "target"));
    page
}

fn unsettled(node: &PollerNode) -> Vec<String> {
    node.owned_targets
        .iter()
        .filter(|polled| urgency(polled.state) < urgency(TargetState::Owned))
        .map(|polled| polled.target.clone())
        .collect()
}

/// What is to be read first.
fn urgency(state: TargetState) -> u8 {
    match state {
        TargetState::Unowned => 0,
        TargetState::Uncertain => 1,
        TargetState::Draining => 2,
        TargetState::Owned | TargetState::Other => 3,
    }
}

/// People know pollers by their names.
fn name_of(view: &PollingView, instance: &str) -> String {
    let node = view.live_nodes.iter().find(|node| node.instance_id == instance);
    node.map_or_else(|| instance.to_owned(), |node| node.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    fn view() -> PollingView {
        let target = |name: &str, owner: &str, state: &str| {
            json!({
                "target": name, "owner_id": owner, "preferred_owner_id": "b~2", "state": state, "fence": 7,
                "acquired_at": "2026-02-07T22:14:10.000Z", "last_renewed_at": "2026-02-07T22:15:07.000Z",
                "uncertain_since": if state == "uncertain" { json!("2026-02-07T22:15:06.000Z") } else { json!(null) },
                "pinned": name == "s2",
            })
        };
        let node = |name: &str, status: &str, targets: Vec<serde_json::Value>| {
            json!({
                "instance_id": name, "name": name.split('~').next(), "is_this_instance": false,
                "status": status, "weight": 1, "owned_targets": targets,
            })
        };
        serde_json::from_value(json!({
            "group": "web", "this_instance_id": null,
            "live_nodes": [
                node("a-1", "online", vec![target("s1", "a-1", "owned")]),
                node("b~2", "cordoned", vec![target("s3", "b~2", "uncertain"), target("s2", "b~2", "owned")]),
            ],
            "unowned_targets": ["s9"],
            "unowned": {"s9": {
                "since": "2026-02-07T22:15:00.000Z", "last_owner_id": "c-3", "preferred_owner_id": "a-1",
                "reason": "ttl_expiry",
            }},
            "generation": 12, "timestamp": "2026-02-07T22:15:10.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn what_needs_somebody_comes_first() {
        expect![[r#"
            POLLER    STATUS    WEIGHT  TARGETS  NOT SETTLED  INSTANCE
            (nobody)  unowned   -       1        s9           -
            b         cordoned  1       2        s3           b~2
            a-1       online    1       1        -            -"#]]
        .assert_eq(&node_table(&view()).lines(None).join("\n"));
        expect![[r#"
            TARGET  STATE                POLLER   PREFERRED  FENCE  SINCE  RENEWED
            s9      unowned, ttl_expiry  was c-3  a-1        -      10 s   -
            s3      uncertain for 4 s    b        same       7      60 s   3 s ago
            s1      owned                a-1      b          7      60 s   3 s ago
            s2      owned, pinned        b        same       7      60 s   3 s ago"#]]
        .assert_eq(&target_table(&view(), false).lines(None).join("\n"));
        assert_eq!(target_table(&view(), true).lines(None).len(), 2);
        assert_eq!(
            group_line(&view()),
            "group web: 2 pollers, 3 targets polled, 1 of them not settled, 1 that nobody polls"
        );
    }
}
