//! The page *Cluster*, and the others, as a node serves them that does not write.

use serde_json::{Value, json};

use super::super::pictures;
use super::super::tab::Tab;
use super::Board;
use crate::cluster::harness::Cluster;

/// A tab at a page of a node.
fn visit(tab: &Tab, cluster: &Cluster, place: usize, page: &str) {
    tab.goto(format!("http://{}/#/{page}", cluster.nodes[place].address));
    tab.wait_until("document.documentElement.dataset.feed === 'live'");
}

fn wait_for_writer(tab: &Tab, name: &str) {
    tab.wait_until_with(
        "document.querySelector('[data-part=leader]')?.textContent === given[0]",
        &[json!(name)],
    );
}

fn standing(tab: &Tab, node: &str, words: &str) {
    tab.wait_until_with(
        "document.querySelector(`[data-node='${given[0]}'] .standing`)?.textContent.startsWith(given[1])",
        &[json!(node), json!(words)],
    );
}

#[test]
fn a_daemon_with_a_log_of_its_own_has_no_page_about_a_cluster() {
    let board = Board::begin();
    board.visit("cluster");
    board.tab.wait_for_text("This daemon is not part of a cluster");
    assert_eq!(board.tab.run("return document.getElementById('nav-cluster').hidden"), true);
    assert!(board.tab.all("link", "Cluster").is_empty());
    board.tab.assert_clean();
}

#[test]
fn the_page_of_a_follower_shows_the_next_writer_without_being_loaded_again() {
    let mut cluster = Cluster::local(&[]);
    let tab = Tab::open();
    let writer = cluster.wait_for_writer();
    let [here, other] = cluster.followers();
    let name = |place: usize| cluster.nodes[place].name;
    let (was, served_by) = (name(writer), name(here));
    visit(&tab, &cluster, here, "");
    tab.click("link", "Cluster");
    wait_for_writer(&tab, was);
    tab.wait_until("document.querySelectorAll('[data-node]').length === 3");
    standing(&tab, was, "leader");
    standing(&tab, served_by, "follower · serves this page");
    standing(&tab, name(other), "follower");
    tab.wait_until("document.querySelectorAll('[data-member]').length === 3");
    tab.wait_until("[...document.querySelectorAll('[data-member] .standing')].filter((s) => s.textContent === 'leader').length === 1");
    tab.wait_until("document.querySelectorAll('[data-how=elected]').length === 1");
    tab.run("window.loadedOnce = true");
    for scheme in ["light", "dark"] {
        tab.colours(scheme);
        pictures::take(&tab, &format!("cluster-{scheme}"));
    }

    cluster.kill_node(writer);
    tab.wait_until_with(
        "!['no leader', '—', given[0]].includes(document.querySelector('[data-part=leader]').textContent)",
        &[json!(was)],
    );
    let now = cluster.wait_for_writer();
    wait_for_writer(&tab, cluster.nodes[now].name);
    standing(&tab, cluster.nodes[now].name, "leader");
    tab.wait_until("document.querySelectorAll('[data-how=elected]').length === 2");
    let epoch = cluster.nodes[now].view().unwrap()["writer"]["epoch"].to_string();
    tab.wait_until_with(
        "document.querySelector('[data-part=epoch]').textContent === given[0]",
        &[json!(epoch)],
    );
    assert_eq!(tab.run("return window.loadedOnce"), true);
    tab.size(390, 780);
    pictures::take(&tab, "phone-cluster");
}

#[test]
fn the_writer_is_asked_to_step_down_and_a_dead_node_is_forgotten() {
    let mut cluster = Cluster::local(&[]);
    let tab = Tab::open();
    let writer = cluster.wait_for_writer();
    let [here, other] = cluster.followers();
    let was = cluster.nodes[writer].name;
    visit(&tab, &cluster, here, "cluster");
    wait_for_writer(&tab, was);
    tab.click("button", "Step down (the leader resigns)");
    let asked = tab.wait_until("document.querySelector('dialog[open]')?.innerText");
    assert!(asked.as_str().unwrap().contains("Ask the leader to step down?"), "{asked}");
    tab.click_on("dialog[open] [data-action='cancel']");
    tab.wait_until("document.querySelector('dialog[open]') === null");
    assert_eq!(cluster.nodes[here].view().unwrap()["writer"]["node"], was);
    tab.click("button", "Step down (the leader resigns)");
    tab.click_on("dialog[open] [data-action='confirm']");
    tab.wait_until_with(
        "!['no leader', given[0]].includes(document.querySelector('[data-part=leader]').textContent)",
        &[json!(was)],
    );
    tab.wait_until("document.querySelectorAll('[data-how=elected]').length === 2");
    standing(&tab, was, "follower");

    // One that told of itself long ago is offered to be forgotten.
    cluster.wait_until_whole();
    let gone = if cluster.wait_for_writer() == other { writer } else { other };
    let gone_name = cluster.nodes[gone].name;
    cluster.kill_node(gone);
    tab.run_with(
        "const real = window.fetch;
         window.fetch = async (path, options) => {
           const answer = await real(path, options);
           if (path !== '/v1/cluster') return answer;
           const body = await answer.json();
           for (const node of body.nodes) if (node.node === given[0]) node.state = 'silent';
           return Response.json(body);
         }",
        &[json!(gone_name)],
    );
    standing(&tab, gone_name, "silent");
    tab.click("button", &format!("Forget {gone_name}"));
    let asked = tab.wait_until("document.querySelector('dialog[open]')?.innerText");
    assert!(asked.as_str().unwrap().contains("Forget this node?"), "{asked}");
    tab.click_on("dialog[open] [data-action='confirm']");
    tab.wait_until_with("!document.querySelector(`[data-node='${given[0]}']`)", &[json!(gone_name)]);
    let nodes = cluster.nodes[here].view().unwrap()["nodes"].clone();
    assert!(nodes.as_array().unwrap().iter().all(|node| node["node"] != gone_name), "{nodes}");
}

#[test]
fn leases_are_listed_watched_and_ended_on_the_page_of_a_follower() {
    let cluster = Cluster::local(&[]);
    let tab = Tab::open();
    let writer = cluster.wait_for_writer();
    let [here, other] = cluster.followers();
    let acquire = |place: usize, resource: &str| -> String {
        let body = json!({"resources": [resource], "holder": "alice", "ttl_ms": 60_000});
        let lease: Value = cluster.nodes[place].post("/v1/leases", &body);
        lease["lease_id"].as_str().unwrap().to_owned()
    };
    let first = acquire(writer, "printer");
    visit(&tab, &cluster, here, "leases");
    let row = |id: &str, is_there: bool| {
        let selector = format!(".lease-row:not([hidden])[data-lease-id='{id}']");
        tab.wait_until_with(
            "(document.querySelector(given[0]) !== null) === given[1]",
            &[json!(selector), json!(is_there)],
        );
    };
    row(&first, true);
    let second = acquire(other, "scanner");
    row(&second, true);
    // What is left of a lease is asked of the writer.
    tab.wait_until("![...document.querySelectorAll('.lease-row:not([hidden]) .countdown-words')].some((w) => w.textContent === '…')");
    cluster.nodes[writer].post(&format!("/v1/leases/{second}/release"), &json!({"epoch": 1}));
    row(&second, false);
    tab.run_with("location.hash = `#/leases?lease=${given[0]}`", &[json!(first)]);
    tab.click("button", "Revoke");
    tab.click_on("dialog[open] [data-action='confirm']");
    tab.wait_until("document.querySelector('dialog[open]') === null");
    assert_eq!(cluster.nodes[writer].get(&format!("/v1/leases/{first}"))["state"], "revoking");
    visit(&tab, &cluster, here, "");
    tab.wait_until("document.querySelector('[data-health=node]')?.textContent.startsWith('follower')");
    visit(&tab, &cluster, here, "events?from=1");
    tab.wait_until("document.querySelectorAll('.event-row').length >= 3");
    visit(&tab, &cluster, here, "why?resource=printer");
    tab.wait_for_text("alice");
    for page in ["registrations", "slots", "polling"] {
        visit(&tab, &cluster, here, page);
    }
    tab.assert_clean();
}
