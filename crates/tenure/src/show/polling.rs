//! Pollers and their targets. What nobody polls and what is uncertain comes first: it is what the reader came for.

use tenure_api::{
    Cordoned, GroupState, Moved, PolledTarget, Poller, PollingGroups, PollingView, TargetState, UnownedTarget,
};

use super::{Now, Page, age, names, relative, word};
use crate::printer::counted;
use crate::table::Table;

/// Names shown before the rest is counted.
const NAMES_MAX: usize = 5;
const NOBODY: &str = "-";

/// Pollers and how much each has.
pub(crate) fn node_table(view: &PollingView) -> Table {
    let mut table = Table::new(&["POLLER", "STATUS", "WEIGHT", "TARGETS", "NOT SETTLED", "INSTANCE"]);
    let abandoned: Vec<String> = view.abandoned.keys().cloned().collect();
    for (status, targets, total) in [
        ("unowned", &view.unowned_targets, unowned_total(view)),
        ("abandoned", &abandoned, abandoned.len() as u64),
    ] {
        if total == 0 {
            continue;
        }
        table.row(vec![
            "(none)".to_owned(),
            status.to_owned(),
            NOBODY.to_owned(),
            total.to_string(),
            if targets.is_empty() { NOBODY.to_owned() } else { names(targets, NAMES_MAX) },
            NOBODY.to_owned(),
        ]);
    }
    let mut nodes: Vec<&Poller> = view.live_nodes.iter().collect();
    nodes.sort_by_key(|node| (unsettled(node).is_empty(), node.failing == 0, &node.name));
    for node in nodes {
        let unsettled = unsettled(node);
        table.row(vec![
            node.name.clone(),
            word(&node.status),
            node.weight.to_string(),
            match (node.owned_targets.len(), node.failing) {
                (owned, 0) => owned.to_string(),
                (owned, failing) => format!("{owned}, {failing} failing"),
            },
            if unsettled.is_empty() { NOBODY.to_owned() } else { names(&unsettled, NAMES_MAX) },
            if node.instance_id == node.name { NOBODY.to_owned() } else { node.instance_id.clone() },
        ]);
    }
    table
}

/// Every group.
pub(crate) fn group_table(groups: &PollingGroups) -> Table {
    let mut table = Table::new(&["GROUP", "STATE", "POLLERS", "TARGETS", "UNOWNED", "FAILING"]);
    let some = |count: u64| if count == 0 { NOBODY.to_owned() } else { count.to_string() };
    for group in &groups.groups {
        let held = group.owned.saturating_add(group.uncertain).saturating_add(group.draining);
        table.row(vec![
            group.group.clone(),
            word(&group.state),
            group.pollers.to_string(),
            held.saturating_add(group.unowned).saturating_add(group.abandoned).to_string(),
            some(group.unowned),
            some(group.failing),
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
    let unknown = UnownedTarget::default();
    let unowned = view
        .unowned_targets
        .iter()
        .map(|target| ("unowned", target, view.unowned.get(target).unwrap_or(&unknown)));
    let abandoned = view.abandoned.iter().map(|(target, told)| ("abandoned", target, told));
    for (state, target, told) in unowned.chain(abandoned) {
        table.row(vec![
            target.clone(),
            match &told.reason {
                Some(reason) => format!("{state}, {reason}"),
                None => state.to_owned(),
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
    polled.sort_by_key(|polled| (urgency(polled.state), !polled.failing, &polled.target));
    for polled in polled {
        let mut state = word(&polled.state);
        if let Some(age) = polled.uncertain_since.as_ref().and_then(|since| age(now, since)) {
            state = format!("{state} for {age}");
        }
        for (is_so, mark) in [(polled.failing, ", failing"), (polled.pinned, ", pinned")] {
            if is_so {
                state.push_str(mark);
            }
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
    match view.state {
        GroupState::Abandoned if polled == 0 => {
            let last = counted(view.abandoned.len() as u64, "target");
            return format!("group {}: abandoned: no pollers, {last} polled last", view.group);
        }
        GroupState::Unknown if view.unowned_targets.is_empty() => {
            return format!("group {} does not exist: no pollers, no targets", view.group);
        }
        GroupState::Active | GroupState::Abandoned | GroupState::Unknown => {}
    }
    let mut line = format!(
        "group {}: {}, {} polled",
        view.group,
        counted(view.live_nodes.len() as u64, "poller"),
        counted(polled as u64, "target"),
    );
    if unsettled > 0 {
        line.push_str(&format!(", {unsettled} of them not settled"));
    }
    if view.failing_total > 0 {
        line.push_str(&format!(", {} failing", view.failing_total));
    }
    if unowned_total(view) > 0 {
        line.push_str(&format!(", {} without a poller", unowned_total(view)));
    }
    line
}

/// What was ordered about a target.
pub(crate) fn moved_page(moved: &Moved) -> Page {
    let mut page = Page::default();
    page.row("target", moved.target.clone());
    page.row("group", moved.group.clone());
    page.row("pinned to", moved.poller.clone().unwrap_or_else(|| "none: assigned automatically".to_owned()));
    page.row("polled by", moved.owner_id.clone().unwrap_or_else(|| "none".to_owned()));
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

/// Older daemons tell only names.
fn unowned_total(view: &PollingView) -> u64 {
    view.unowned_total.max(view.unowned_targets.len() as u64)
}

fn unsettled(node: &Poller) -> Vec<String> {
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
                "pinned": name == "s2", "failing": name == "s2",
            })
        };
        let node = |name: &str, status: &str, targets: Vec<serde_json::Value>| {
            json!({
                "instance_id": name, "name": name.split('~').next(), "is_this_instance": false,
                "status": status, "weight": 1, "owned_targets": targets,
                "failing": if name == "b~2" { 1 } else { 0 },
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
            "failing_total": 1, "generation": 12, "timestamp": "2026-02-07T22:15:10.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn what_needs_somebody_comes_first() {
        expect![[r#"
            POLLER  STATUS    WEIGHT  TARGETS       NOT SETTLED  INSTANCE
            (none)  unowned   -       1             s9           -
            b       cordoned  1       2, 1 failing  s3           b~2
            a-1     online    1       1             -            -"#]]
        .assert_eq(&node_table(&view()).lines(None).join("\n"));
        expect![[r#"
            TARGET  STATE                   POLLER   PREFERRED  FENCE  SINCE  RENEWED
            s9      unowned, ttl_expiry     was c-3  a-1        -      10 s   -
            s3      uncertain for 4 s       b        same       7      60 s   3 s ago
            s2      owned, failing, pinned  b        same       7      60 s   3 s ago
            s1      owned                   a-1      b          7      60 s   3 s ago"#]]
        .assert_eq(&target_table(&view(), false).lines(None).join("\n"));
        assert_eq!(target_table(&view(), true).lines(None).len(), 2);
        assert_eq!(
            group_line(&view()),
            "group web: 2 pollers, 3 targets polled, 1 of them not settled, 1 failing, 1 without a poller"
        );
    }

    #[test]
    fn a_group_without_pollers_is_abandoned() {
        let mut view = view();
        view.live_nodes.clear();
        view.unowned_targets.clear();
        view.abandoned = core::mem::take(&mut view.unowned);
        view.state = GroupState::Abandoned;
        expect![[r#"
            POLLER  STATUS     WEIGHT  TARGETS  NOT SETTLED  INSTANCE
            (none)  abandoned  -       1        s9           -"#]]
        .assert_eq(&node_table(&view).lines(None).join("\n"));
        expect![[r#"
            TARGET  STATE                  POLLER   PREFERRED  FENCE  SINCE  RENEWED
            s9      abandoned, ttl_expiry  was c-3  a-1        -      10 s   -"#]]
        .assert_eq(&target_table(&view, true).lines(None).join("\n"));
        assert_eq!(group_line(&view), "group web: abandoned: no pollers, 1 target polled last");
    }

    #[test]
    fn groups_are_listed_in_numbers() {
        let groups = serde_json::from_value(json!({"groups": [
            {"group": "demo", "state": "abandoned", "pollers": 0, "owned": 0, "uncertain": 0, "draining": 0,
             "unowned": 0, "abandoned": 12, "failing": 0},
            {"group": "web", "state": "active", "pollers": 2, "owned": 5, "uncertain": 1, "draining": 1,
             "unowned": 2, "abandoned": 0, "failing": 3},
        ]}));
        expect![[r#"
            GROUP  STATE      POLLERS  TARGETS  UNOWNED  FAILING
            demo   abandoned  0        12       -        -
            web    active     2        9        2        3"#]]
        .assert_eq(&group_table(&groups.unwrap()).lines(None).join("\n"));
    }
}
