// Polling: the targets of a group with their pollers, unowned ones first. Read as a whole from the daemon, after each
// event of a poller's lease and every few seconds, since silence causes no event.

import { Refusal, ask, path, serverNow } from "../api.js";
import { confirm, scopeRefusal } from "../confirm.js";
import { attribute, empty, h, outside, replace, setFacts, write, writeName } from "../dom.js";
import { Pollers, takesNone } from "../pollers.js";
import { Rows } from "../rows.js";
import { noGroup, readGroup, resourceOf } from "../targets.js";
import { ago, count, moment, plural, shown, words } from "../text.js";

const READ_EVERY_MS = 2_000;
/** Ends come in crowds: twice a second is enough. */
const READ_GAP_MS = 500;
/** A large group is read less often: at most a tenth of the time goes into reading it. */
const READ_SHARE = 10;
/** Which groups there are is asked less often. */
const LIST_EVERY_MS = 10_000;

/** What a group can be called. */
const GROUP = /^[a-z0-9][a-z0-9._-]{0,63}$/i;

/**
 * @typedef {import("../targets.js").Target} Target
 * @typedef {import("../targets.js").Group} Group
 */

/** @type {[name: string, className: string][]} */
const COLUMNS = [
  ["Target", "p-target"],
  ["State", "p-state"],
  ["Poller", "p-poller"],
  ["Moves to", "p-should"],
  ["Since", "p-since"],
];

function makeRow() {
  const cells = COLUMNS.map(([, className]) => h("div", { class: `cell ${className}`, role: "gridcell" }));
  const [target, state, poller, should, since] = cells;
  const name = h("bdi", { class: "cut name" });
  const pin = h("span", { class: "more" });
  target.append(name, pin);
  const standing = h("span", { class: "standing" });
  state.append(standing);
  const element = h("div", { class: "row target-row", role: "row" }, cells);
  return { element, row: { element, name, pin, standing, poller, should, since } };
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} params
 * @param {import("../app.js").App} app
 */
export function mount(root, params, app) {
  const { store } = app;
  let chosen = GROUP.test(params.get("group") ?? "") ? (params.get("group") ?? "") : "";
  /** @type {Group} */
  let group = noGroup();
  /** Groups that the daemon knows: how each stands. @type {Map<string, string>} */
  let listed = new Map();
  /** @type {Map<string, Target>} */
  let byName = new Map();
  let wasRead = false;
  let text = "";
  /** Name of the poller whose targets are shown alone. */
  let poller = "";
  /** @type {string | null} */
  let selected = null;

  const search = h("input", {
    class: "field search",
    type: "search",
    placeholder: "Filter by target or poller",
    "aria-label": "Filter targets",
    autocomplete: "off",
    spellcheck: "false",
    data: { filter: "text" },
  });
  const groups = h("select", { class: "field", "aria-label": "Group", data: { filter: "group" } });
  const shownCount = h("span", { class: "shown-count", data: { part: "count" } });
  const error = h("p", { class: "error", role: "alert" });
  const rows = new Rows(
    {
      make: makeRow,
      bind: (row, id) => {
        const one = byName.get(id);
        if (!one) return;
        attribute(row.element, "data-target", id);
        attribute(row.element, "data-state", one.state);
        writeName(row.name, one.target);
        write(row.pin, [one.failing && "failing", one.pinned && "pinned"].filter(Boolean).join(", "));
        attribute(row.standing, "data-standing", one.state);
        write(row.standing, one.state);
        write(row.poller, one.owner === null ? "none" : nameOf(one.owner));
        attribute(row.poller, "data-nobody", one.owner === null ? "" : null);
        const isElsewhere = one.preferred !== one.owner;
        write(row.should, isElsewhere ? (one.preferred === null ? "none" : nameOf(one.preferred)) : "");
        const at = one.uncertain ?? one.since;
        write(row.since, at === null ? "" : ago(serverNow() - Date.parse(at)));
      },
    },
    { name: "target", onOpen: select },
  );
  const grid = h(
    "div",
    {
      class: "grid",
      role: "grid",
      tabindex: "0",
      "aria-label": "Targets",
      data: { part: "polling" },
    },
    h(
      "div",
      { class: "rows-head", role: "rowgroup" },
      h(
        "div",
        { class: "row header target-row", role: "row", "aria-rowindex": "1" },
        COLUMNS.map(([name, className]) =>
          h("div", { class: `cell head ${className}`, role: "columnheader" }, name),
        ),
      ),
    ),
    rows.viewport,
  );
  rows.attach(grid);
  const nothing = h("div", { class: "nothing", hidden: true });
  const detail = h("section", { class: "card detail", hidden: true, "aria-label": "Target" });
  const pollers = new Pollers(app, {
    choose: (name) => {
      poller = poller === name ? "" : name;
      draw();
    },
    done: () => void look(),
  });
  const split = h(
    "div",
    { class: "split" },
    h("div", { class: "split-main" }, grid, nothing),
    h("div", { class: "split-side" }, detail, pollers.element),
  );
  const teaching = h("div", { hidden: true });
  root.append(
    h(
      "div",
      { class: "toolbar" },
      h("h1", { class: "toolbar-title" }, "Polling"),
      search,
      groups,
      shownCount,
    ),
    error,
    teaching,
    split,
  );

  /** @param {string} instance */
  function nameOf(instance) {
    return shown(group.names.get(instance) ?? instance);
  }

  function drawGroups() {
    const polled = [...store.polled.keys()].sort();
    const names = [...new Set([...polled, ...listed.keys(), ...(chosen ? [chosen] : [])])].sort();
    if (chosen === "" && names.length > 0)
      chosen = names.includes("default") ? "default" : (polled[0] ?? names[0]);
    const label = (/** @type {string} */ name) =>
      listed.get(name) === "abandoned" ? `${shown(name)} (abandoned)` : shown(name);
    const labels = names.map(label);
    if (labels.join("\n") !== [...groups.options].map(({ textContent }) => textContent).join("\n")) {
      replace(
        groups,
        names.map((name) => h("option", { value: name }, label(name))),
      );
    }
    groups.value = chosen;
    groups.hidden = names.length < 2;
  }

  function draw() {
    drawGroups();
    const isEmpty = group.pollers.length + group.targets.length === 0;
    split.hidden = isEmpty;
    teaching.hidden = !isEmpty || !wasRead;
    if (isEmpty) {
      write(shownCount, "");
      if (wasRead && !teaching.hasChildNodes()) teach();
      return;
    }
    const asked = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (/** @type {Target} */ one) => {
      if (poller !== "" && (one.owner === null || (group.names.get(one.owner) ?? one.owner) !== poller))
        return false;
      if (asked.length === 0) return true;
      const all = `${one.target}\n${one.owner ?? one.last ?? ""}\n${one.state}`.toLowerCase();
      return asked.every((word) => all.includes(word));
    };
    const passing = group.targets.filter(fits);
    rows.setItems(passing.length, (index) => passing[index].target);
    attribute(grid, "aria-rowcount", String(passing.length + 1));
    drawCount(passing.length);
    grid.hidden = passing.length === 0;
    nothing.hidden = passing.length > 0;
    if (passing.length === 0) {
      replace(
        nothing,
        group.targets.length === 0
          ? empty("No targets yet", "The pollers are running. None has taken a target.")
          : empty("No target matches the filter", "Clear the filter to see all targets."),
      );
    }
    pollers.draw(chosen, group.pollers, poller);
    if (selected !== null) drawDetail();
  }

  /** @param {number} passing */
  function drawCount(passing) {
    const all = group.targets.length;
    const of = (/** @type {string} */ state) => group.targets.filter((one) => one.state === state).length;
    const parts = [passing === all ? plural(all, "target") : `${count(passing)} of ${plural(all, "target")}`];
    parts.push(plural(group.pollers.length, "poller"));
    for (const [state, number] of /** @type {[string, number][]} */ ([
      ["unowned", group.unowned],
      ["abandoned", of("abandoned")],
      ["uncertain", of("uncertain")],
      ["failing", group.failing],
    ]))
      if (number > 0) parts.push(`${count(number)} ${state}`);
    const elsewhere = app.pulse.targets - all;
    if (groups.options.length > 1 && elsewhere > 0) parts.push(`${count(elsewhere)} in other groups`);
    write(shownCount, parts.join(", "));
  }

  function teach() {
    replace(
      teaching,
      empty(
        "No pollers",
        "Several pollers share a list of targets: one poller polls each target, and the targets of a dead poller " +
          "move to the others. Run the second command in two terminals:",
        [
          "echo one two three | tr ' ' '\\n' > targets.txt",
          "tenure poll run --group demo --targets targets.txt --every 5s -- echo polled {target}",
        ],
      ),
    );
  }

  /** @param {string} target */
  function select(target) {
    selected = target;
    detail.hidden = false;
    replace(detail);
    parts = null;
    drawDetail();
    detail.scrollIntoView({ block: "nearest" });
  }

  /** @type {ReturnType<typeof buildDetail> | null} */
  let parts = null;
  function drawDetail() {
    if (selected === null) return;
    const one = byName.get(selected);
    if (!parts) parts = buildDetail(selected);
    const scope = scopeRefusal(app.scope(), "admin");
    const refused = scope ?? (one ? null : "the target was removed");
    attribute(parts.move, "aria-disabled", refused ? "true" : null);
    write(parts.why, refused ?? "");
    parts.lease.hidden = !store.byResource.has(resourceOf(chosen, selected));
    if (!one) {
      setFacts(parts.facts, [["State", "removed"]]);
      return;
    }
    const time = (/** @type {string | null} */ at) => (at === null ? "—" : moment(at));
    const who = (/** @type {string | null} */ instance) => (instance === null ? "none" : outside(instance));
    /** @type {[string, HTMLElement | string][]} */
    const facts = [["State", one.state]];
    if (one.owner === null) {
      facts.push(["Since", time(one.since)], ["Freed because", words(one.reason ?? "—")]);
      facts.push(["Last polled by", who(one.last)], ["Next poller", who(one.preferred)]);
    } else {
      facts.push(["Polled by", who(one.owner)], ["Preferred poller", who(one.preferred)]);
      facts.push(["Since", time(one.since)], ["Last renewed", time(one.renewed)]);
      if (one.uncertain !== null) facts.push(["Silent since", time(one.uncertain)]);
      facts.push(["Fencing token", one.fence === null ? "—" : String(one.fence)]);
      facts.push(["Pinned", one.pinned ? "by an operator" : "no"]);
      if (one.failing) facts.push(["Polls", "the last polls failed"]);
    }
    setFacts(parts.facts, facts);
  }

  /** @param {string} target */
  function buildDetail(target) {
    const why = h("span", { class: "why-not", id: "polling-why-move" });
    const move = h(
      "button",
      {
        type: "button",
        class: "button",
        data: { action: "move" },
        "aria-describedby": why.id,
        on: { click: () => void askToMove(target) },
      },
      "Move…",
    );
    const lease = h(
      "button",
      {
        type: "button",
        class: "button",
        data: { action: "lease" },
        on: {
          click: () => {
            const id = store.byResource.get(resourceOf(chosen, target));
            if (id !== undefined) app.openLease(id);
          },
        },
      },
      "Open the lease",
    );
    const facts = h("dl", { class: "facts" });
    const story = `#/why?resource=${encodeURIComponent(resourceOf(chosen, target))}`;
    replace(
      detail,
      h("h2", {}, outside(target)),
      h(
        "div",
        { class: "actions", role: "group", "aria-label": "Actions" },
        h("div", { class: "action" }, move, why),
        h("div", { class: "action" }, lease),
      ),
      facts,
      h("p", {}, h("a", { class: "story-link", href: story }, "History →")),
    );
    attribute(detail, "data-target", target);
    attribute(detail, "aria-label", `Target ${shown(target)}`);
    return { facts, move, why, lease };
  }

  /** @param {string} target */
  async function askToMove(target) {
    const one = byName.get(target);
    if (!one || scopeRefusal(app.scope(), "admin")) return;
    const to = h(
      "select",
      { class: "field", id: "move-to" },
      h("option", { value: "" }, "the preferred poller (not pinned)"),
      group.pollers.map((candidate) => {
        const why = takesNone(candidate);
        const label = why === null ? shown(candidate.name) : `${shown(candidate.name)} (${why})`;
        return h("option", { value: candidate.name, disabled: why !== null }, label);
      }),
    );
    const free = group.pollers.find(
      (candidate) => candidate.instance !== one.owner && takesNone(candidate) === null,
    );
    if (free) to.value = free.name;
    const from = chosen;
    const done = await confirm({
      title: "Move this target?",
      verb: "Move",
      tone: "warn",
      body: [
        h(
          "p",
          {},
          "The present poller finishes its poll and hands the target over in one step. The target is pinned to the " +
            "new poller for as long as that one takes targets.",
        ),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Target"),
          h("dd", {}, outside(target, "strong")),
          h("dt", {}, "Polled by"),
          h("dd", {}, one.owner === null ? "none" : outside(one.owner)),
        ),
        h("label", { class: "labelled", for: "move-to" }, "To", to),
      ],
      carryOut: async () => {
        const body = { target, poller: to.value === "" ? null : to.value };
        await ask(path(["v1", "polling", from, "move"]), { method: "POST", body, key: crypto.randomUUID() });
      },
    });
    if (done) app.say(`Move: requested for ${shown(target)}`);
    void look();
  }

  let nextList = 0;
  /** @param {number} now */
  async function list(now) {
    if (now < nextList) return;
    nextList = now + LIST_EVERY_MS;
    const told = await ask(path(["v1", "polling"]));
    listed = new Map(told.groups.map((/** @type {any} */ one) => [one.group, one.state]));
  }

  let underWay = false;
  let nextRead = 0;
  let lastRead = -Infinity;
  async function look() {
    if (underWay || app.feed.state !== "live") return;
    underWay = true;
    const began = performance.now();
    lastRead = began;
    try {
      await list(began);
      drawGroups();
      const asked = chosen || "default";
      const told = await ask(path(["v1", "polling", asked]));
      // Another group was chosen meanwhile.
      if (asked !== (chosen || "default")) return;
      group = readGroup(told);
      byName = new Map(group.targets.map((one) => [one.target, one]));
      wasRead = true;
      write(error, "");
      draw();
    } catch (refusal) {
      if (refusal instanceof Refusal && refusal.status !== 0) write(error, refusal.message);
    } finally {
      underWay = false;
      const took = performance.now() - began;
      nextRead = began + Math.max(READ_EVERY_MS, took * READ_SHARE);
    }
  }

  groups.addEventListener("change", () => {
    chosen = groups.value;
    group = noGroup();
    byName = new Map();
    wasRead = false;
    poller = "";
    selected = null;
    parts = null;
    detail.hidden = true;
    history.replaceState(null, "", `#/polling?group=${encodeURIComponent(chosen)}`);
    draw();
    underWay = false;
    void look();
  });
  search.addEventListener("input", () => {
    text = search.value;
    rows.viewport.scrollTop = 0;
    draw();
    app.announce(shownCount.textContent ?? "");
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    grid.focus();
  });
  const tick = () => {
    if (performance.now() >= nextRead) void look();
  };
  draw();
  tick();
  return {
    focus: search,
    changed(/** @type {import("../store.js").Changes} */ changes) {
      // A lease that has ended is not known any more; it may have been a poller's.
      const concerns = (/** @type {string} */ id) => (store.leases.get(id)?.application ?? "polling") === "polling";
      if (changes.all || [...changes.ids].some(concerns)) {
        nextRead = Math.min(nextRead, Math.max(performance.now() + 50, lastRead + READ_GAP_MS));
      }
    },
    feedChanged: tick,
    tick,
    key(/** @type {KeyboardEvent} */ event) {
      if (event.key !== "m" || document.activeElement !== grid || rows.active === null) return false;
      select(rows.active);
      void askToMove(rows.active);
      return true;
    },
    unmount: () => rows.destroy(),
  };
}
