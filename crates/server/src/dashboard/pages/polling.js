// Polling: who polls what, as a grid of pollers and targets, what nobody polls first. Asks the polling routes
// where the daemon has them; else it is read off the leases of that face.

import { Refusal, ask, path, serverNow } from "../api.js";
import { empty, h, outside, replace, write } from "../dom.js";
import { ago, count, shown } from "../text.js";

const READ_EVERY_MS = 2_000;
const TARGETS_SHOWN = 400;
const POLLERS_SHOWN = 24;

/**
 * @typedef {object} Target
 * @property {string} target
 * @property {string | null} poller Null: nobody polls it.
 * @property {string | null} preferred
 * @property {string} state
 * @property {number | null} fence
 * @property {string | null} since
 * @property {string | null} lease
 *
 * @typedef {{pollers: {id: string, status: string}[], targets: Target[]}} Group
 */

/** Groups and what is polled in each, from leases alone. @param {import("../store.js").Store} store */
function groupsOf(store) {
  /** @type {Map<string, Target[]>} */
  const groups = new Map();
  if (!store.faces.get("polling")) return groups;
  for (const lease of store.leases.values()) {
    if (lease.face !== "polling") continue;
    for (const name of lease.resources) {
      const [poll, group, ...rest] = name.split("/");
      if (poll !== "poll" || rest.length === 0) continue;
      const targets = groups.get(group) ?? [];
      const state = lease.standing === "alive" ? "owned" : lease.standing;
      const since = lease.granted === null ? null : new Date(lease.granted).toISOString();
      targets.push({
        target: rest.join("/"),
        poller: lease.holder,
        preferred: null,
        state,
        fence: lease.fence,
        since,
        lease: lease.id,
      });
      groups.set(group, targets);
    }
  }
  return groups;
}

/** @param {any} told The answer of `GET /v1/polling/{group}`. @returns {Group} */
function fromRoute(told) {
  /** @type {Target[]} */
  const targets = [];
  for (const node of told.live_nodes ?? []) {
    for (const one of node.owned_targets ?? []) {
      targets.push({
        target: one.target,
        poller: node.instance_id,
        preferred: one.preferred_owner_id ?? null,
        state: one.state,
        fence: one.fence ?? null,
        since: one.acquired_at ?? null,
        lease: null,
      });
    }
  }
  for (const one of told.unowned_targets ?? []) {
    const target = typeof one === "string" ? one : one.target;
    targets.push({
      target,
      poller: null,
      preferred: one.preferred_owner_id ?? null,
      state: "unowned",
      fence: null,
      since: null,
      lease: null,
    });
  }
  return {
    pollers: (told.live_nodes ?? []).map((/** @type {any} */ node) => ({
      id: node.instance_id,
      status: node.status,
    })),
    targets,
  };
}

/** @param {Target[]} targets @returns {Group} */
function fromLeases(targets) {
  const ids = [...new Set(targets.map(({ poller }) => poller ?? ""))].filter(Boolean).sort();
  return { pollers: ids.map((id) => ({ id, status: "online" })), targets };
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} params
 * @param {import("../app.js").App} app
 */
export function mount(root, params, app) {
  const { store } = app;
  let chosen = params.get("group") ?? "";
  /** @type {Group | null} What the route told; null: there is no such route. */
  let told = null;
  let text = "";
  /** What is drawn. */
  let signed = "";
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
  const place = h("div", { class: "polling-place" });
  root.append(
    h(
      "div",
      { class: "toolbar" },
      h("h1", { class: "toolbar-title" }, "Polling"),
      search,
      groups,
      shownCount,
    ),
    place,
  );

  /** @param {Group} group */
  function matrix(group) {
    const rank = (/** @type {Target} */ { state }) =>
      ["unowned", "uncertain", "revoking", "draining"].indexOf(state);
    const first = (/** @type {Target} */ one) => (rank(one) < 0 ? 9 : rank(one));
    const words = text.toLowerCase();
    const targets = group.targets
      .filter(({ target, poller }) => `${target}\n${poller ?? ""}`.toLowerCase().includes(words))
      .sort((a, b) => first(a) - first(b) || (a.target < b.target ? -1 : 1));
    const pollers = group.pollers.slice(0, POLLERS_SHOWN);
    const held = new Map();
    for (const { poller } of group.targets) held.set(poller, (held.get(poller) ?? 0) + 1);
    const unowned = held.get(null) ?? 0;
    write(
      shownCount,
      `${count(group.targets.length)} targets, ${count(group.pollers.length)} pollers` +
        (unowned > 0 ? `, ${count(unowned)} unowned` : ""),
    );
    return h(
      "div",
      { class: "matrix-scroll", tabindex: "0", role: "region", "aria-label": "Pollers and targets" },
      h(
        "table",
        { class: "matrix", data: { part: "polling" } },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Target"),
            pollers.map(({ id, status }) =>
              h(
                "th",
                { scope: "col", class: "poller", data: { status } },
                outside(id),
                h("small", {}, `${count(held.get(id) ?? 0)} · ${shown(status)}`),
              ),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          targets.slice(0, TARGETS_SHOWN).map((one) => targetRow(one, pollers)),
          targets.length > TARGETS_SHOWN &&
            h(
              "tr",
              {},
              h(
                "td",
                { colspan: String(pollers.length + 1), class: "quiet" },
                `and ${count(targets.length - TARGETS_SHOWN)} more; filter to see them`,
              ),
            ),
        ),
      ),
    );
  }

  /** @param {Target} one @param {{id: string}[]} pollers */
  function targetRow(one, pollers) {
    return h(
      "tr",
      { data: { target: one.target, state: one.state } },
      h(
        "th",
        { scope: "row" },
        outside(one.target),
        one.state === "unowned" &&
          h("span", { class: "standing", data: { standing: "revoking" } }, "unowned"),
      ),
      pollers.map(({ id }) => {
        const isHere = id === one.poller;
        if (!isHere)
          return h("td", {
            class: id === one.preferred ? "preferred" : undefined,
            title: id === one.preferred ? "preferred here" : undefined,
          });
        const since = one.since ? `, since ${ago(serverNow() - Date.parse(one.since))}` : "";
        const fence = one.fence ?? "unknown";
        const label = `${shown(one.target)} polled by ${shown(id)}: ${one.state}, fence ${fence}${since}`;
        const open =
          one.lease === null ? undefined : { click: () => app.openLease(/** @type {string} */ (one.lease)) };
        return h(
          "td",
          {},
          h("button", {
            type: "button",
            class: "polled",
            "aria-label": label,
            title: label,
            data: { state: one.state },
            on: open ?? {},
          }),
        );
      }),
    );
  }

  function draw() {
    const known = groupsOf(store);
    const names = [...new Set([...known.keys(), ...(chosen ? [chosen] : [])])].sort();
    if (chosen === "" && names.length > 0) chosen = names[0];
    if (names.join("\n") !== [...groups.options].map(({ value }) => value).join("\n")) {
      replace(
        groups,
        names.map((name) => h("option", { value: name }, shown(name))),
      );
    }
    groups.value = chosen;
    groups.hidden = names.length < 2;
    const group = told ?? (known.has(chosen) ? fromLeases(known.get(chosen) ?? []) : null);
    if (!group || group.pollers.length + group.targets.length === 0) {
      write(shownCount, "");
      if (!place.querySelector(".empty")) {
        replace(
          place,
          empty(
            "Nobody polls",
            "Several pollers can share many targets: each target is polled by exactly one, and a dead poller's " +
              "targets move by themselves. Start two of these and watch them share:",
            ["tenure poll run --group web --targets targets.txt --every 5s -- curl -fsS {target}"],
          ),
        );
      }
      return;
    }
    const sign = JSON.stringify([group, text]);
    if (sign === signed && place.querySelector(".matrix")) return;
    signed = sign;
    const before = place.querySelector(".matrix-scroll");
    const [x, y] = [before?.scrollLeft ?? 0, before?.scrollTop ?? 0];
    const drawn = matrix(group);
    replace(place, drawn);
    drawn.scrollTo(x, y);
  }

  let hasRoute = true;
  async function read() {
    // While nobody polls there is nothing to ask for.
    if (!hasRoute || app.feed.state !== "live" || !store.faces.get("polling")) return;
    try {
      told = fromRoute(await ask(path(["v1", "polling", chosen || "default"])));
      if (told.pollers.length + told.targets.length === 0) told = null;
    } catch (refusal) {
      told = null;
      // A daemon without that face is not asked again.
      if (refusal instanceof Refusal && refusal.status === 404) hasRoute = false;
    }
    draw();
  }

  groups.addEventListener("change", () => {
    chosen = groups.value;
    told = null;
    draw();
    void read();
  });
  search.addEventListener("input", () => {
    text = search.value;
    draw();
  });
  let nextRead = 0;
  let drawnAt = 0;
  const tick = () => {
    const now = performance.now();
    if (now >= nextRead) {
      nextRead = now + READ_EVERY_MS;
      void read();
    }
  };
  draw();
  tick();
  return {
    focus: search,
    changed() {
      if (
        performance.now() - drawnAt < 500 ||
        root.contains(document.activeElement?.closest(".polled") ?? null)
      )
        return;
      drawnAt = performance.now();
      if (told === null) draw();
    },
    tick,
  };
}
