// Events: the live tail, or what happened from any position on; paused at will, filtered by kind.

import { Refusal, path } from "../api.js";
import { attribute, empty, h, outside, replace, write } from "../dom.js";
import { Rows } from "../rows.js";
import { readStream } from "../sse.js";
import { clock, count, moment, shown, words } from "../text.js";

/** @typedef {import("../store.js").HappenedEvent} HappenedEvent */

const KINDS = [
  "granted",
  "activated",
  "rebound",
  "amended",
  "draining",
  "revived",
  "released",
  "revoked",
  "reclaimed",
  "expired",
  "session_opened",
  "session_closed",
  "pool_defined",
  "pool_removed",
];
/** Events that are kept on the page. */
const KEPT_MAX = 5_000;

function makeRow() {
  const cell = (/** @type {string} */ name) => h("div", { class: `cell ${name}`, role: "gridcell" });
  const lsn = cell("e-lsn");
  const at = cell("e-at");
  const kind = h("span", { class: "kind" });
  const what = cell("e-what");
  const who = cell("e-who");
  const id = cell("e-id");
  const cells = [lsn, at, h("div", { class: "cell e-kind", role: "gridcell" }, kind), what, who, id];
  const element = h("div", { class: "row event-row", role: "row" }, cells);
  return { element, row: { element, lsn, at, kind, what, who, id, bound: "" } };
}

/** @param {ReturnType<typeof makeRow>["row"]} row @param {HappenedEvent} event @param {string} key */
function bindRow(row, event, key) {
  if (row.bound === key) return;
  row.bound = key;
  const { lease } = event;
  attribute(row.element, "data-kind", event.kind);
  attribute(row.element, "data-lsn", String(event.lsn));
  write(row.lsn, String(event.lsn));
  write(row.at, clock(event.at));
  attribute(row.at, "title", moment(event.at));
  attribute(row.kind, "data-kind", event.kind);
  write(row.kind, words(event.kind));
  const names = lease?.resources ?? [];
  const reason = lease?.reason
    ? `${words(lease.reason)}${lease.reason_text ? `: ${lease.reason_text}` : ""}`
    : "";
  const subject = names[0] ?? event.pool ?? event.session ?? "";
  replace(
    row.what,
    outside(subject, "name"),
    names.length > 1 && h("span", { class: "more" }, `+${names.length - 1}`),
    reason !== "" && h("span", { class: "event-reason" }, outside(reason)),
  );
  replace(row.who, outside(lease?.holder ?? ""));
  write(row.id, shown(lease?.lease_id ?? event.session ?? ""));
}

/** Where an event's story is. @param {HappenedEvent} event */
function storyOf(event) {
  if (event.lease) return `#/why?lease=${encodeURIComponent(event.lease.lease_id)}`;
  if (event.pool !== undefined) return `#/why?resource=${encodeURIComponent(event.pool)}`;
  return event.session ? `#/why?session=${encodeURIComponent(event.session)}` : "#/events";
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} params
 * @param {import("../app.js").App} app
 */
export function mount(root, params, app) {
  const { store } = app;
  /** Newest last; the page shows the newest first unless it began at a position. @type {HappenedEvent[]} */
  let kept = store.tail.slice(-KEPT_MAX);
  /** @type {HappenedEvent[]} */
  let passing = [];
  /** @type {Set<string>} */
  const kinds = new Set();
  let isPaused = false;
  /** Heard while paused. @type {HappenedEvent[]} */
  let held = [];
  /** Null: the live tail. @type {number | null} */
  let from = null;
  /** What is between here and the live edge is being read, or stopped at the limit. */
  let behind = false;
  let isReading = false;
  let reading = new AbortController();
  let isDirty = true;

  const pause = h(
    "button",
    { type: "button", class: "button", "aria-pressed": "false", data: { action: "pause" } },
    "Pause",
  );
  const position = h("input", {
    class: "field narrow",
    inputmode: "numeric",
    pattern: "[0-9]*",
    placeholder: "from lsn",
    "aria-label": "From position",
    autocomplete: "off",
    data: { filter: "from" },
  });
  const go = h("button", { type: "submit", class: "button" }, "Go");
  const live = h(
    "button",
    { type: "button", class: "button", hidden: true, data: { action: "live" } },
    "Back to live",
  );
  const error = h("p", { class: "error", role: "alert" });
  const shownCount = h("span", { class: "shown-count", data: { part: "count" } });
  const chips = KINDS.map((kind) => {
    const chip = h(
      "button",
      {
        type: "button",
        class: "chip kind-chip",
        "aria-pressed": "false",
        data: { filter: "kind", value: kind, kind },
      },
      words(kind),
    );
    chip.addEventListener("click", () => {
      if (!kinds.delete(kind)) kinds.add(kind);
      attribute(chip, "aria-pressed", kinds.has(kind) ? "true" : "false");
      refilter();
    });
    return chip;
  });
  const form = h("form", { class: "from-form" }, position, go);
  const keyAt = (/** @type {number} */ index) => {
    const event = from === null ? passing[passing.length - 1 - index] : passing[index];
    return `${event.lsn}`;
  };
  const rows = new Rows(
    {
      make: makeRow,
      bind: (row, key, index) => {
        const event = from === null ? passing[passing.length - 1 - index] : passing[index];
        if (event) bindRow(row, event, key);
      },
      release: (row) => (row.bound = ""),
    },
    {
      name: "event",
      onOpen: (key) => {
        const event = passing.find(({ lsn }) => `${lsn}` === key);
        if (event) location.hash = storyOf(event);
      },
    },
  );
  const heads = ["LSN", "At", "Kind", "What", "Holder", "Lease"];
  const classes = ["e-lsn", "e-at", "e-kind", "e-what", "e-who", "e-id"];
  const grid = h(
    "div",
    { class: "grid", role: "grid", tabindex: "0", "aria-label": "Events", data: { part: "events" } },
    h(
      "div",
      { class: "rows-head", role: "rowgroup" },
      h(
        "div",
        { class: "row header event-row", role: "row", "aria-rowindex": "1" },
        heads.map((name, index) =>
          h("div", { class: `cell head ${classes[index]}`, role: "columnheader" }, name),
        ),
      ),
    ),
    rows.viewport,
  );
  rows.attach(grid);
  const nothing = h(
    "div",
    { class: "nothing" },
    empty(
      "Quiet",
      "Every grant, drain, revoke and end appears here as it happens. Make something happen, or look back:",
      ["tenure lease acquire printer/1 --holder me --ttl 30s", "tenure watch"],
    ),
  );
  root.classList.add("fills");
  root.append(
    h(
      "div",
      { class: "toolbar" },
      h("h1", { class: "toolbar-title" }, "Events"),
      pause,
      form,
      live,
      shownCount,
    ),
    h("div", { class: "chips kinds", role: "group", "aria-label": "Kinds" }, chips),
    error,
    grid,
    nothing,
  );

  const passes = (/** @type {HappenedEvent} */ event) => kinds.size === 0 || kinds.has(event.kind);

  function refilter() {
    passing = kept.filter(passes);
    isDirty = true;
    draw();
  }

  function draw() {
    if (!isDirty) return;
    isDirty = false;
    // Whoever reads further down is not pushed on by what comes in above.
    const anchored = from === null && rows.viewport.scrollTop > 4;
    const before = rows.length;
    rows.setItems(passing.length, keyAt);
    if (anchored && passing.length > before) {
      rows.viewport.scrollTop += (passing.length - before) * rows.rowHeight();
    }
    attribute(grid, "aria-rowcount", String(passing.length + 1));
    grid.hidden = passing.length === 0;
    nothing.hidden = passing.length > 0 || kept.length > 0;
    drawCount();
  }

  function drawCount() {
    const parts = [
      passing.length === kept.length
        ? `${count(kept.length)} events`
        : `${count(passing.length)} of ${count(kept.length)}`,
    ];
    if (isPaused && held.length > 0) parts.push(`${count(held.length)} new`);
    if (isReading) parts.push("reading …");
    write(shownCount, parts.join(", "));
  }

  /** @param {HappenedEvent[]} events */
  function keep(events) {
    kept.push(...events);
    for (const event of events) if (passes(event)) passing.push(event);
    if (kept.length > KEPT_MAX * 1.2) {
      kept = kept.slice(-KEPT_MAX);
      passing = kept.filter(passes);
    }
    isDirty = true;
  }

  /** @param {boolean} now */
  function setPaused(now) {
    isPaused = now;
    attribute(pause, "aria-pressed", now ? "true" : "false");
    write(pause, now ? "Go on" : "Pause");
    if (!now && held.length > 0) {
      keep(held);
      held = [];
    }
    draw();
    drawCount();
  }

  /** Reads from a position until it meets the live tail, or the page is full. @param {number} lsn */
  async function lookBack(lsn) {
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    from = lsn;
    behind = true;
    kept = [];
    held = [];
    write(error, "");
    live.hidden = false;
    position.value = String(lsn);
    setPaused(false);
    refilter();
    const edge = store.lsn;
    // The position itself is wanted too; the daemon tells what comes after.
    const after = Math.max(0, lsn - 1);
    if (after >= edge) {
      behind = false;
      drawCount();
      write(error, after > edge ? `The log ends at lsn ${count(edge)}; what happens next appears here.` : "");
      return;
    }
    isReading = true;
    const enough = new AbortController();
    try {
      await readStream(path(["v1", "events"], { from: after }), {
        signal: AbortSignal.any([signal, enough.signal]),
        onSaid: (said) => {
          const events = said.filter(({ kind }) => !["lagged", "closing", "error"].includes(kind));
          keep(events.slice(0, KEPT_MAX - kept.length).map(({ data }) => JSON.parse(data)));
          const last = kept.at(-1)?.lsn ?? 0;
          if (last >= edge || kept.length >= KEPT_MAX || events.length < said.length) enough.abort();
          if (last >= edge) meet(last);
          draw();
        },
      });
    } catch (refusal) {
      if (signal.aborted) return;
      if (!enough.signal.aborted)
        write(error, refusal instanceof Refusal ? `${refusal.message} (${refusal.code})` : String(refusal));
      if (refusal instanceof Refusal && refusal.body.oldest) position.value = String(refusal.body.oldest);
    }
    isReading = false;
    if (behind && kept.length >= KEPT_MAX) {
      const next = (kept.at(-1)?.lsn ?? 0) + 1;
      write(error, `The page holds ${count(KEPT_MAX)} events. Go on from lsn ${next}.`);
      position.value = String(next);
    }
    isDirty = true;
    draw();
  }

  /** From here on the live tail continues what was read. @param {number} last */
  function meet(last) {
    behind = false;
    keep(store.tail.filter(({ lsn }) => lsn > last));
  }

  function goLive() {
    reading.abort();
    isReading = false;
    from = null;
    behind = false;
    live.hidden = true;
    position.value = "";
    write(error, "");
    kept = store.tail.slice(-KEPT_MAX);
    held = [];
    setPaused(false);
    refilter();
  }

  const unhear = store.hear((event) => {
    if (behind) return;
    if (isPaused) held.push(event);
    else keep([event]);
    if (held.length > KEPT_MAX) held.splice(0, held.length - KEPT_MAX);
  });
  pause.addEventListener("click", () => setPaused(!isPaused));
  live.addEventListener("click", () => {
    if (location.hash !== "#/events") location.hash = "#/events";
    else goLive();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const lsn = Number(position.value.trim());
    if (position.value.trim() === "") goLive();
    else if (!Number.isSafeInteger(lsn) || lsn < 0) write(error, "A position is a whole number.");
    else if (location.hash === `#/events?from=${lsn}`) void lookBack(lsn);
    else location.hash = `#/events?from=${lsn}`;
  });

  /** @param {URLSearchParams} now */
  function follow(now) {
    const lsn = Number(now.get("from") ?? NaN);
    if (Number.isSafeInteger(lsn) && lsn >= 0) void lookBack(lsn);
    else goLive();
    return true;
  }
  follow(params);
  return {
    focus: position,
    renamed: follow,
    changed() {
      draw();
      if (isPaused) drawCount();
    },
    key(/** @type {KeyboardEvent} */ event) {
      if (event.key !== " " || event.target instanceof HTMLButtonElement) return false;
      setPaused(!isPaused);
      return true;
    },
    unmount() {
      unhear();
      reading.abort();
      rows.destroy();
      root.classList.remove("fills");
    },
  };
}
