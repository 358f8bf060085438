// Overview: leases by status, pools as slots, what ends next and what ended, the daemon's health, live rates and
// latencies.

import { Refusal, ask, serverNow } from "../api.js";
import { scopeRefusal } from "../confirm.js";
import { Countdown, phaseOf } from "../countdown.js";
import { attribute, empty, h, keyed, named, outside, write } from "../dom.js";
import { Plot } from "../plot.js";
import { leadership } from "../pulse.js";
import { Slots, pointedLeases } from "../slots.js";
import { STANDINGS } from "../store.js";
import { ago, count, endWords, measure, moment, plural, shown, span } from "../text.js";

const HOLDERS_SHOWN = 8;
const ENDING_SHOWN = 8;
const ENDED_SHOWN = 6;
const POOLS_SHOWN = 40;
/** What looks at more than what changed is drawn this often. */
const SLOW_EVERY_MS = 1_000;
const SLOTS_EVERY_MS = 200;

const ms = (/** @type {number} */ secs) => measure(secs * 1000);

/** @returns {Plot[]} */
function plots() {
  const rate = (/** @type {string} */ name, /** @type {string} */ key, /** @type {string} */ note) =>
    new Plot({ name, unit: "per second", lines: [{ key, name: "now" }], show: measure, note });
  return [
    rate("Grants", "grants", "Leases granted, in all applications"),
    rate("Heartbeats", "heartbeats", "Heartbeats that renewed a lease"),
    rate("Ends", "ends", "Leases that ended, for any reason"),
    rate("Events", "events", "Events that this page received"),
    new Plot({
      name: "Sync",
      unit: "ms, p50 / p99",
      show: ms,
      note: "Time until a write to the log is durable",
      lines: [
        { key: "syncP50", name: "p50" },
        { key: "syncP99", name: "p99" },
      ],
    }),
    new Plot({
      name: "Expiry lateness",
      unit: "ms, p50 / p99",
      show: ms,
      note: "Time from a lease's deadline until the daemon ended it",
      lines: [
        { key: "lateP50", name: "p50" },
        { key: "lateP99", name: "p99" },
      ],
    }),
    new Plot({
      name: "Renewal margin",
      unit: "s, p50 / p1",
      show: measure,
      note: "Validity left when a heartbeat renewed the lease",
      lines: [
        { key: "marginP50", name: "p50" },
        { key: "marginP1", name: "p1" },
      ],
    }),
  ];
}

/** @param {HTMLElement} list @param {string} name @param {string} tone @param {HTMLElement | string} value */
function healthRow(list, name, tone, value) {
  list.append(
    h("dt", {}, h("i", { class: "dot", data: { tone }, "aria-hidden": "true" }), name),
    h("dd", { data: { health: name.toLowerCase(), tone } }, value),
  );
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} _params
 * @param {import("../app.js").App} app
 */
export function mount(root, _params, app) {
  const { store, pulse } = app;
  const total = h("strong", { class: "hero-total", data: { count: "total" } }, "—");
  const shares = STANDINGS.map((standing) => ({
    standing,
    share: h("i", { class: "share", data: { standing } }),
    number: h("b", { data: { count: standing } }, "0"),
  }));
  const waiters = h("b", { data: { count: "waiters" } }, "0");
  const holders = h("b", { data: { count: "holders" } }, "0");
  const slotSessions = h("b", { data: { count: "slots" } }, "0");
  const heroWord = h("span", {}, "live leases");
  const hero = h(
    "section",
    { class: "hero card", "aria-label": "Leases by status" },
    h("div", { class: "hero-lead" }, total, heroWord),
    h(
      "div",
      { class: "hero-tiles" },
      shares.map(({ standing, number }) =>
        h(
          "a",
          { class: "tile", href: `#/leases?standing=${standing}`, data: { standing } },
          number,
          h("span", {}, standing),
        ),
      ),
      h("a", { class: "tile plain", href: "#/waiting" }, waiters, h("span", {}, "waiting")),
      h("a", { class: "tile plain", href: "#/slots" }, slotSessions, h("span", {}, "slot sessions")),
      h("div", { class: "tile plain" }, holders, h("span", {}, "holders")),
    ),
    h(
      "div",
      { class: "shares", "aria-hidden": "true" },
      shares.map(({ share }) => share),
    ),
  );
  const drawn = plots();
  const pools = h("div", { class: "pools" });
  const poolsMore = h("p", { class: "quiet", hidden: true });
  const holderList = h("ol", { class: "holders" });
  const endingList = h("ul", { class: "ending" });
  const endedList = h("ul", { class: "ended" });
  const endedNone = h("p", { class: "quiet" }, "nothing has ended yet");
  const holdersNone = h("p", { class: "quiet" }, "no holders");
  const health = h("dl", { class: "health" });
  const reset = h(
    "button",
    { type: "button", class: "button", hidden: true, data: { action: "reset-breaker" } },
    "Resume expiry",
  );
  const resetError = h("p", { class: "error", role: "alert" });
  const welcome = h("section", { class: "card welcome", hidden: true });

  root.append(
    h("h1", { class: "visually-hidden" }, "Overview"),
    hero,
    welcome,
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        { class: "stack" },
        h("section", { class: "card", "aria-label": "Pools" }, h("h2", {}, "Pools"), pools, poolsMore),
        h(
          "div",
          { class: "pair" },
          h("section", { class: "card", "aria-label": "Ending" }, h("h2", {}, "Ending soonest"), endingList),
          h(
            "section",
            { class: "card", "aria-label": "Ended lately" },
            h("h2", {}, "Ended lately"),
            endedList,
            endedNone,
          ),
        ),
      ),
      h(
        "div",
        { class: "stack" },
        h(
          "section",
          { class: "card", "aria-label": "Health" },
          h("h2", {}, "Health"),
          health,
          reset,
          resetError,
        ),
        h(
          "section",
          { class: "card", "aria-label": "Holders" },
          h("h2", {}, "Holders with the most leases"),
          holderList,
          holdersNone,
        ),
      ),
    ),
    h(
      "section",
      { class: "plots", "aria-label": "Live rates and latencies" },
      drawn.map(({ element }) => element),
    ),
  );

  reset.addEventListener("click", async () => {
    try {
      await ask("/v1/breaker/reset", { method: "POST" });
      app.say("Expiry resumed");
      void pulse.beat();
    } catch (refusal) {
      write(resetError, refusal instanceof Refusal ? refusal.message : String(refusal));
    }
  });

  function drawCounts() {
    const all = store.leases.size;
    write(total, count(all));
    for (const { standing, share, number } of shares) {
      const some = store.standings.get(standing) ?? 0;
      write(number, count(some));
      share.style.setProperty("flex-grow", String(some));
      share.hidden = some === 0;
    }
    write(heroWord, all === 1 ? "live lease" : "live leases");
    write(holders, count(store.holders.size));
    write(slotSessions, count(store.applications.get("slots") ?? 0));
    const isEmpty = all === 0 && app.feed.state === "live";
    welcome.hidden = !isEmpty;
    if (isEmpty && welcome.childElementCount === 0) {
      welcome.append(
        empty(
          "No leases yet",
          "A lease gives one holder the right to use a resource for a limited time. Take a lock from a terminal:",
          ["tenure run --resource deploy -- sleep 60", "tenure lease acquire printer/1 --holder me --ttl 30s"],
        ),
      );
    }
  }

  /** @type {Map<string, Slots>} */
  const grids = new Map();
  function drawPools() {
    const shownPools = store.pools.slice(0, POOLS_SHOWN);
    const names = new Set(shownPools.map(({ name }) => name));
    for (const [name, slots] of grids) {
      if (names.has(name)) continue;
      slots.element.remove();
      grids.delete(name);
    }
    for (const pool of shownPools) {
      let slots = grids.get(pool.name);
      if (!slots) {
        slots = new Slots(pool.name, app);
        grids.set(pool.name, slots);
        pools.append(slots.element);
      }
      slots.update(pool);
    }
    poolsMore.hidden = store.pools.length <= POOLS_SHOWN;
    write(poolsMore, `and ${plural(store.pools.length - POOLS_SHOWN, "more pool")}`);
    if (store.pools.length === 0 && !pools.querySelector(".empty")) {
      pools.append(
        empty("No pools", "A pool is a number of slots that holders share, such as four tuners:", [
          "tenure pool set tuner 4",
        ]),
      );
    } else if (store.pools.length > 0) {
      pools.querySelector(".empty")?.remove();
    }
  }

  function drawHolders() {
    /** @type {[string, number][]} */
    const top = [];
    for (const entry of store.holders) {
      if (top.length < HOLDERS_SHOWN || entry[1] > top[top.length - 1][1]) {
        top.push(entry);
        top.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
        if (top.length > HOLDERS_SHOWN) top.pop();
      }
    }
    const most = top[0]?.[1] ?? 1;
    keyed(
      holderList,
      top,
      ([holder]) => holder,
      ([holder]) => {
        const address = `#/leases?text=${encodeURIComponent(holder)}`;
        const bar = h("i", { class: "holder-bar", "aria-hidden": "true" });
        return h("li", {}, h("a", { href: address, class: "holder-name" }, named(holder)), h("b", {}), bar);
      },
      (line, [, held]) => {
        write(line.children[1], count(held));
        line.children[2].style.setProperty("width", `${(held / most) * 100}%`);
      },
    );
    holdersNone.hidden = top.length > 0;
  }

  /**
   * @typedef {{element: HTMLElement, countdown: Countdown, standing: HTMLElement, revision: number}} Line
   * @type {Map<string, Line>}
   */
  const ending = new Map();
  const endingNone = h("li", { class: "quiet" }, "no lease is ending");
  function drawEnding() {
    const busy = store.leases.size - (store.standings.get("alive") ?? 0);
    const soon = [];
    if (busy > 0) {
      for (const lease of store.leases.values()) if (lease.standing !== "alive") soon.push(lease);
      soon.sort((a, b) => (a.endsAt ?? Infinity) - (b.endsAt ?? Infinity) || (a.id < b.id ? -1 : 1));
      soon.length = Math.min(soon.length, ENDING_SHOWN);
    }
    const ids = new Set(soon.map(({ id }) => id));
    for (const [id, { element, countdown }] of ending) {
      if (ids.has(id)) continue;
      countdown.release();
      element.remove();
      ending.delete(id);
    }
    for (const lease of soon) {
      let line = ending.get(lease.id);
      if (!line) {
        const countdown = new Countdown();
        const standing = h("span", { class: "standing" });
        const element = h(
          "li",
          { data: { "lease-id": lease.id } },
          h(
            "button",
            { type: "button", class: "line-button", on: { click: () => app.openLease(lease.id) } },
            named(lease.resources[0] ?? "", "name"),
            named(lease.holder, "quiet"),
          ),
          standing,
          countdown.element,
        );
        line = { element, countdown, standing, revision: -1 };
        ending.set(lease.id, line);
      }
      if (line.revision !== lease.revision) {
        line.revision = lease.revision;
        attribute(line.standing, "data-standing", lease.standing);
        write(line.standing, lease.standing);
        line.countdown.set(phaseOf(lease));
      }
    }
    const lines = soon.map(({ id }) => /** @type {any} */ (ending.get(id)).element);
    const now = [...endingList.children];
    if (lines.length === 0) lines.push(endingNone);
    if (lines.some((line, index) => line !== now[index]) || now.length !== lines.length)
      endingList.replaceChildren(...lines);
  }

  function drawEnded() {
    const newest = store.ended.slice(0, ENDED_SHOWN);
    keyed(
      endedList,
      newest,
      ({ lease }) => lease.id,
      ({ lease, kind, reason, at }) =>
        h(
          "li",
          { data: { "lease-id": lease.id } },
          h(
            "a",
            { href: `#/why?lease=${encodeURIComponent(lease.id)}`, class: "line-button" },
            named(lease.resources[0] ?? lease.id, "name"),
            named(lease.holder, "quiet"),
          ),
          h("span", { class: "end-reason", data: { kind } }, endWords(kind, reason)),
          h("time", { class: "quiet", title: moment(at) }),
        ),
      (line, { at }) => write(line.children[2], ago(serverNow() - at)),
    );
    endedNone.hidden = newest.length > 0;
  }

  function drawHealth() {
    const { status } = pulse;
    if (!status) return;
    write(waiters, count(status.waiters));
    health.replaceChildren();
    const uptime = span(Math.max(1, status.uptime_secs) * 1000);
    const up = `${shown(status.version)}, up ${uptime}, pid ${status.pid}`;
    healthRow(health, "Daemon", "good", up);
    if (pulse.isNode) {
      const counters = pulse.readings.at(-1)?.counters;
      const leads = counters !== undefined && leadership(counters) === 1;
      const follows = "follower: leases are those of the cluster, rates and latencies those of this node";
      const link = h("a", { href: "#/cluster" }, leads ? "leader" : follows);
      healthRow(health, "Node", "good", link);
    }
    const behind = status.lsn - status.synced_lsn;
    healthRow(
      health,
      "Log",
      "good",
      `position ${count(status.synced_lsn)}${behind > 0 ? `, ${count(behind)} in flight` : ""}`,
    );
    const taken = status.last_snapshot;
    healthRow(
      health,
      "Snapshot",
      "plain",
      taken ? `position ${count(taken.lsn)}, ${ago(taken.age_secs * 1000)}` : "none yet",
    );
    const { open, remaining_ms: remaining, opened } = status.breaker;
    const rest = span(Math.round((remaining ?? 0) / 1000) * 1000);
    const postponed = `open: no lease expires for another ${rest}`;
    healthRow(
      health,
      "Breaker",
      open ? "bad" : "good",
      open ? postponed : `closed${opened > 0 ? `, opened ${opened}×` : ""}`,
    );
    const mdns = status.mdns === null ? "off" : shown(status.mdns);
    healthRow(health, "mDNS", mdns === "off" ? "plain" : /down|error/.test(mdns) ? "bad" : "good", mdns);
    healthRow(
      health,
      "Stalls",
      status.stalls > 0 ? "warn" : "good",
      status.stalls === 0 ? "none" : count(status.stalls),
    );
    if (status.disk === "low") {
      healthRow(health, "Disk", "bad", "nearly full: new leases are rejected");
    }
    for (const failing of status.failing || []) {
      healthRow(health, "Failing", "warn", `${failing.task}: ${failing.error}`);
    }
    if (status.restored_for_ms) {
      healthRow(health, "Restored", "warn", `new leases are rejected for another ${span(status.restored_for_ms)}`);
    }
    healthRow(health, "Watching", "plain", plural(status.watches, "event stream"));
    healthRow(health, "Data", "plain", outside(status.data_dir));
    reset.hidden = !open;
    const refused = scopeRefusal(app.scope(), "admin");
    attribute(reset, "aria-disabled", refused ? "true" : null);
    attribute(reset, "title", refused);
  }

  let slowAt = 0;
  let slotsAt = 0;
  function tick() {
    const now = performance.now();
    if (now - slotsAt >= SLOTS_EVERY_MS) {
      slotsAt = now;
      drawPools();
    }
    if (now - slowAt >= SLOW_EVERY_MS) {
      slowAt = now;
      drawHolders();
      drawEnding();
      drawEnded();
    }
  }
  function drawPulse() {
    drawn.forEach((plot) => plot.draw(pulse.samples));
    drawHealth();
  }
  const unlisten = pulse.listen(drawPulse);
  drawCounts();
  drawPulse();
  tick();
  return {
    focus: null,
    visible: () => [...ending.keys(), ...pointedLeases()],
    changed() {
      drawCounts();
      tick();
    },
    tick,
    feedChanged: drawCounts,
    unmount() {
      unlisten();
      ending.forEach(({ countdown }) => countdown.release());
    },
  };
}
