// Cluster: the leader, the followers and how far they are behind, the store, and every change of leader, as the node
// sees it that serves this page. It answers also while there is no leader.

import { Refusal, ask, serverNow } from "../api.js";
import { confirm, scopeRefusal } from "../confirm.js";
import { attribute, empty, h, keyed, outside, replace, setFacts, write } from "../dom.js";
import { ago, bytes, count, measure, moment, shown, span } from "../text.js";

const READ_EVERY_MS = 1_000;
const CHANGES_SHOWN = 40;
/** Shares of the quota at which operators are warned, and at which only what frees room is taken. */
const WARN_SHARE = 0.5;
const FULL_SHARE = 0.8;

/**
 * @typedef {any} Cluster A `ClusterStatus`.
 * @typedef {any} ClusterNode
 * @typedef {{epoch: number, node: string, at: string, how: string}} Change
 */

/** What a node is. Older daemons call the leader `writer`. @param {string} role */
function roleWords(role) {
  return role === "writer" ? "leader" : role;
}

/** @param {Change} change */
function isElection({ how }) {
  return how === "claimed" || how === "elected";
}

/** The answer with the names of today. @param {any} answer @returns {Cluster} */
function readAnswer(answer) {
  const { leader = answer.writer, leader_ttl_ms: ttl = answer.writer_ttl_ms } = answer;
  const { log_tag: tag = answer.tag, leadership_lease_ms: lease = answer.authority_ms } = answer;
  return { ...answer, leader: leader ?? null, leader_ttl_ms: ttl, log_tag: tag, leadership_lease_ms: lease };
}

/** @param {string} value @param {string} name @param {string} part */
function tile(value, name, part) {
  return h("div", { class: "tile plain" }, h("b", { data: { part } }, value), h("span", {}, name));
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} _params
 * @param {import("../app.js").App} app
 */
export function mount(root, _params, app) {
  /** @type {Cluster | null} */
  let seen = null;
  const error = h("p", { class: "error", role: "alert" });
  const alone = h("div", { class: "nothing", hidden: true });
  const body = h("div", { class: "cluster", hidden: true });
  const leader = h("strong", { class: "hero-total", data: { part: "leader" } }, "—");
  const since = h("span", { data: { part: "since" } }, "leader");
  const nodeCount = tile("0", "nodes", "node-count");
  const epoch = tile("0", "epoch", "epoch");
  const lagLsn = tile("0", "records behind", "lag-lsn");
  const lagSeconds = tile("0", "seconds behind", "lag-seconds");
  const stepDownWhy = h("span", { class: "why-not", id: "step-down-why" });
  const stepDown = h(
    "button",
    {
      type: "button",
      class: "button warn",
      data: { action: "step-down" },
      "aria-describedby": stepDownWhy.id,
      on: { click: () => void askToStepDown() },
    },
    "Step down (the leader resigns)",
  );
  const nodes = h("ul", { class: "nodes", "aria-label": "Nodes", data: { part: "nodes" } });
  const facts = h("dl", { class: "facts" });
  const warnings = h("div", { class: "warnings", role: "status" });
  const fill = h("i", { data: { part: "size" } });
  const size = h("span", { class: "quiet" });
  const members = h("ul", { class: "nodes", "aria-label": "Members of etcd", data: { part: "members" } });
  const changes = h("ol", { class: "timeline changes", "aria-label": "Changes of leader" });
  const changesNone = h("p", { class: "quiet" }, "none since this node started");

  root.append(
    h("div", { class: "toolbar" }, h("h1", { class: "toolbar-title" }, "Cluster")),
    error,
    alone,
    body,
  );
  body.append(
    h(
      "section",
      { class: "hero card", "aria-label": "Leader" },
      h("div", { class: "hero-lead" }, leader, since),
      h("div", { class: "hero-tiles" }, nodeCount, epoch, lagLsn, lagSeconds),
    ),
    warnings,
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        { class: "stack" },
        h(
          "section",
          { class: "card", "aria-label": "Nodes" },
          h(
            "div",
            { class: "card-head" },
            h("h2", {}, "Nodes"),
            h("div", { class: "action end" }, stepDown, stepDownWhy),
          ),
          nodes,
        ),
        h(
          "section",
          { class: "card", "aria-label": "Changes of leader" },
          h("h2", {}, "Changes of leader"),
          changesNone,
          changes,
        ),
      ),
      h(
        "div",
        { class: "stack" },
        h(
          "section",
          { class: "card", "aria-label": "The store" },
          h("h2", {}, "etcd"),
          h(
            "div",
            { class: "quota" },
            h("div", { class: "poller-bar", "aria-hidden": "true" }, fill),
            size,
          ),
          members,
        ),
        h(
          "section",
          { class: "card", "aria-label": "This node" },
          h("h2", {}, "As this node sees it"),
          facts,
        ),
      ),
    ),
  );

  function draw() {
    if (!seen) return;
    // Only the store knows the leader.
    const now = seen.store.silent ? null : seen.leader;
    write(leader, now ? shown(now.node) : seen.store.silent ? "unknown" : "no leader");
    const held = now ? Math.max(0, serverNow() - Date.parse(now.since)) : 0;
    write(
      since,
      now
        ? `leader for ${span(Math.floor(held / 1000) * 1000 || 1000)}`
        : seen.store.silent
          ? "etcd does not answer"
          : "an election is under way",
    );
    attribute(since, "title", now ? moment(now.since) : null);
    const number = (/** @type {HTMLElement} */ place, /** @type {string} */ value) =>
      write(/** @type {HTMLElement} */ (place.firstElementChild), value);
    number(nodeCount, count(seen.nodes.length));
    number(epoch, now ? count(now.epoch) : "—");
    number(lagLsn, count(seen.lag_lsn));
    number(lagSeconds, measure(seen.lag_seconds));
    drawNodes();
    drawStore();
    drawChanges();
    /** @type {[string, HTMLElement | string][]} */
    const told = [
      ["Node", outside(`${seen.node}, ${roleWords(seen.role)}`)],
      ["Applied", `position ${count(seen.applied_lsn)} of ${count(seen.head_lsn)}`],
    ];
    if (seen.leadership_lease_ms !== null) told.push(["Leadership lease", `${span(seen.leadership_lease_ms)} left`]);
    told.push(
      ["Leader TTL", span(seen.leader_ttl_ms)],
      ["Log id", h("code", {}, shown(seen.log_id))],
      ["Generation", String(seen.generation)],
      ["Log tag", h("code", {}, shown(seen.log_tag))],
    );
    setFacts(facts, told);
    const refused = scopeRefusal(app.scope(), "admin") ?? (now ? null : "there is no leader");
    attribute(stepDown, "aria-disabled", refused === null ? null : "true");
    write(stepDownWhy, refused ?? "");
  }

  /** @param {ClusterNode} node @returns {[standing: string, words: string]} */
  function standingOf(node) {
    const role = roleWords(node.state);
    return [role, role];
  }

  function drawNodes() {
    keyed(
      nodes,
      /** @type {ClusterNode[]} */ (seen.nodes),
      (node) => node.node,
      (node) =>
        h(
          "li",
          { class: "node", data: { node: node.node } },
          h("div", { class: "node-head" }, outside(node.node, "name"), h("span", { class: "standing" })),
          h("p", { class: "node-where quiet" }),
          h("div", { class: "node-foot" }, h("span", { class: "quiet" }), [
            h(
              "button",
              {
                type: "button",
                class: "button small danger",
                data: { action: "forget" },
                "aria-label": `Forget ${shown(node.node)}`,
                on: { click: () => void askToForget(node.node) },
              },
              "Forget",
            ),
          ]),
        ),
      (element, node) => {
        const [standing, said] = standingOf(node);
        const place = (/** @type {string} */ selector) => element.querySelector(selector);
        attribute(place(".standing"), "data-standing", standing);
        write(place(".standing"), node.node === seen.node ? `${said} · serves this page` : said);
        const about = [node.url, `version ${node.version}`, ...node.subnets];
        write(place(".node-where"), about.map((part) => shown(part)).join(" · "));
        const told = `last seen ${ago(Math.max(0, serverNow() - Date.parse(node.seen)))}`;
        const snapshot =
          node.snapshot_lsn > 0 ? `snapshot at position ${count(node.snapshot_lsn)}` : "no snapshot yet";
        write(place(".node-foot .quiet"), `${told} · ${snapshot}`);
        const isOver = standing === "silent" && scopeRefusal(app.scope(), "admin") === null;
        place("[data-action=forget]").hidden = !isOver;
      },
    );
  }

  function drawStore() {
    const { store } = seen;
    const share = store.quota_bytes > 0 ? store.bytes / store.quota_bytes : 0;
    fill.style.width = `${Math.min(100, Math.max(share * 100, 0.5))}%`;
    attribute(fill, "data-tone", share >= FULL_SHARE ? "bad" : share >= WARN_SHARE ? "warn" : "good");
    write(
      size,
      `${bytes(store.bytes)} of ${bytes(store.quota_bytes)}, ${measure(Math.round(share * 1000) / 10)} %`,
    );
    keyed(
      members,
      /** @type {any[]} */ (store.members),
      (member) => member.id,
      (member) =>
        h(
          "li",
          { class: "node", data: { member: member.name } },
          h("div", { class: "node-head" }, outside(member.name, "name"), h("span", { class: "standing" })),
          h("p", { class: "node-where quiet" }),
        ),
      (element, member) => {
        const alarms = member.alarms.map((/** @type {string} */ alarm) => shown(alarm)).join(", ");
        const isSilent = member.version === "";
        const standing = alarms || isSilent ? "silent" : member.is_leader ? "leader" : "follower";
        const said = alarms || (isSilent ? "does not answer" : member.is_leader ? "leader" : "follower");
        attribute(element.querySelector(".standing"), "data-standing", standing);
        write(element.querySelector(".standing"), said);
        const about = isSilent ? "" : `version ${shown(member.version)} · ${bytes(member.db_bytes)}`;
        write(element.querySelector(".node-where"), about);
      },
    );
    const { silent } = store;
    const silence = silent
      ? [`etcd has not answered this node for ${span(Math.floor(silent.for_ms / 1000) * 1000)}: ${silent.why}`]
      : [];
    keyed(
      warnings,
      /** @type {string[]} */ ([...silence, ...store.warnings]),
      (warning) => warning,
      (warning) => h("p", { class: "warning" }, shown(warning)),
    );
  }

  function drawChanges() {
    /** @type {Change[]} */
    const latest = seen.changes.slice(-CHANGES_SHOWN).reverse();
    changesNone.hidden = latest.length > 0;
    keyed(
      changes,
      latest,
      (change) => `${change.epoch} ${change.how}`,
      (change) =>
        h(
          "li",
          { class: "entry", data: { how: isElection(change) ? "elected" : "resigned", epoch: change.epoch } },
          h("i", { class: "knot", "aria-hidden": "true" }),
          h(
            "div",
            { class: "entry-head" },
            h("span", { class: "kind" }, isElection(change) ? "elected" : "resigned"),
            h("time", { datetime: change.at }, moment(change.at)),
          ),
          h(
            "p",
            { class: "entry-text" },
            outside(change.node, "strong"),
            isElection(change)
              ? ` became the leader, with epoch ${count(change.epoch)}`
              : ` resigned (epoch ${count(change.epoch)})`,
          ),
        ),
    );
  }

  async function askToStepDown() {
    if (!seen?.leader || stepDown.getAttribute("aria-disabled") === "true") return;
    const { node, epoch: now } = seen.leader;
    const isFollower = (/** @type {ClusterNode} */ other) => standingOf(other)[0] === "follower";
    const others = seen.nodes.filter(isFollower);
    const done = await confirm({
      title: "Ask the leader to step down?",
      verb: "Step down",
      tone: "warn",
      body: [
        h(
          "p",
          {},
          "The leader resigns and another node is elected, within a fraction of a second. Leases are kept. Requests " +
            "wait for the new leader.",
        ),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Leader"),
          h("dd", {}, outside(node, "strong")),
          h("dt", {}, "Epoch"),
          h("dd", {}, count(now)),
          h("dt", {}, "Candidates"),
          h(
            "dd",
            {},
            others.length > 0
              ? outside(others.map((/** @type {ClusterNode} */ other) => other.node).join(", "))
              : h("span", { class: "quiet" }, "no other node answers; the same node is elected again after a while"),
          ),
        ),
      ],
      carryOut: async () => {
        await ask("/v1/cluster/step-down", { method: "POST" });
      },
    });
    if (done) app.say(`${shown(node)} stepped down`);
    await read();
  }

  /** @param {string} name */
  async function askToForget(name) {
    const found = seen?.nodes.find((/** @type {ClusterNode} */ node) => node.node === name);
    if (!found) return;
    const done = await confirm({
      title: "Forget this node?",
      verb: "Forget",
      tone: "danger",
      body: [
        h(
          "p",
          {},
          "For a node that will not come back. A node that still runs is listed again within 20 s.",
        ),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Node"),
          h("dd", {}, outside(found.node, "strong")),
          h("dt", {}, "Address"),
          h("dd", {}, outside(found.url)),
          h("dt", {}, "Last seen"),
          h("dd", {}, moment(found.seen)),
        ),
      ],
      carryOut: async () => {
        await ask("/v1/cluster/forget", { method: "POST", body: { node: name } });
      },
    });
    if (done) app.say(`Forget: done for node ${shown(name)}`);
    await read();
  }

  function showAlone() {
    body.hidden = true;
    alone.hidden = false;
    replace(
      alone,
      empty(
        "This daemon is not part of a cluster",
        "It keeps its log on its own disk. Several daemons form a cluster when they keep their log in etcd:",
        ["tenure serve --store etcd://HOST:2379/tenure --advertise URL"],
      ),
    );
  }

  let underWay = false;
  let nextRead = 0;
  async function read() {
    if (underWay || app.feed.state === "signed-out") return;
    underWay = true;
    nextRead = performance.now() + READ_EVERY_MS;
    try {
      const isNode = await app.pulse.learn();
      if (isNode === false) showAlone();
      if (!isNode) return;
      seen = readAnswer(await ask("/v1/cluster"));
      write(error, "");
      alone.hidden = true;
      body.hidden = false;
      draw();
    } catch (refusal) {
      if (refusal instanceof Refusal && refusal.status !== 0) write(error, refusal.message);
    } finally {
      underWay = false;
    }
  }

  void read();
  return {
    focus: stepDown,
    tick() {
      if (performance.now() >= nextRead) void read();
      else draw();
    },
  };
}
