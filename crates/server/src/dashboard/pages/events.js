// Events: the newest ones and what happens now, or from a time or a position of the log on; filtered by kind.

import { Refusal, path } from "../api.js";
import { attribute, empty, h, named, outside, replace, write } from "../dom.js";
import { readEvents } from "../feed.js";
import { Rows } from "../rows.js";
import { readStream } from "../sse.js";
import { clock, count, moment, plural, shown, words } from "../text.js";

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
  const isTold = lease?.reason && (lease.reason !== "explicit" || lease.reason_text);
  const reason = isTold
    ? `${words(lease.reason)}${lease.reason_text ? `: ${lease.reason_text}` : ""}`
    : "";
  const subject = names[0] ?? event.pool ?? event.session ?? "";
  replace(
    row.what,
    named(subject, "name"),
    names.length > 1 && h("span", { class: "more" }, `+${names.length - 1}`),
    reason !== "" && h("span", { class: "event-reason" }, outside(reason)),
  );
  replace(row.who, named(lease?.holder ?? ""));
  write(row.id, shown(lease?.lease_id ?? event.session ?? ""));
}

/** Where an event's history is. @param {HappenedEvent} event */
function storyOf(event) {
  if (event.lease) return `#/why?lease=${encodeURIComponent(event.lease.lease_id)}`;
  if (event.pool !== undefined) return `#/why?resource=${encodeURIComponent(event.pool)}`;
  return event.session ? `#/why?session=${encodeURIComponent(event.session)}` : "#/events";
}

/**
 * The first event after a position, or the oldest position that is kept.
 * @param {number} after
 * @param {number} edge
 * @param {AbortSignal} signal
 * @returns {Promise<{event?: HappenedEvent, oldest?: number}>}
 */
async function firstAfter(after, edge, signal) {
  try {
    const [event] = await readEvents(after, edge, signal, 1);
    return { event };
  } catch (error) {
    if (error instanceof Refusal && error.body.oldest !== undefined) return { oldest: error.body.oldest };
    throw error;
  }
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
    placeholder: "or a position",
    "aria-label": "From position",
    autocomplete: "off",
    data: { filter: "from" },
  });
  const time = h("input", {
    class: "field",
    type: "datetime-local",
    step: "1",
    "aria-label": "From time",
    data: { filter: "time" },
  });
  const go = h("button", { type: "submit", class: "button" }, "Show from there");
  const live = h(
    "button",
    { type: "button", class: "button", hidden: true, data: { action: "live" } },
    "Back to the newest",
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
  const form = h("form", { class: "from-form" }, time, position, go);
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
  const heads = ["Position", "Time", "Event", "Resource", "Holder", "Lease"];
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
      "No events yet",
      "Every grant, drain, revocation and end appears here. Acquire a lease, or follow the events in a terminal:",
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
        ? plural(kept.length, "event")
        : `${count(passing.length)} of ${count(kept.length)}`,
    ];
    if (isPaused && held.length > 0) parts.push(`${count(held.length)} new`);
    if (isReading) parts.push("loading …");
    write(shownCount, parts.join(", "));
  }

  let recalled = store.recalled;
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
    write(pause, now ? "Resume" : "Pause");
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
      write(error, after > edge ? `The log ends at position ${count(edge)}. New events appear here.` : "");
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
      write(error, `The page shows at most ${count(KEPT_MAX)} events. The next position is ${next}.`);
      position.value = String(next);
    }
    isDirty = true;
    draw();
  }

  /** Finds the first position at or after a time: positions rise with time. @param {number} at */
  async function lookBackTo(at) {
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    const edge = store.lsn;
    let [low, high] = [0, edge];
    isReading = true;
    drawCount();
    write(error, "");
    try {
      while (low < high) {
        const middle = Math.floor((low + high) / 2);
        const first = await firstAfter(middle, edge, signal);
        if (first.oldest !== undefined) low = Math.min(high, first.oldest);
        else if (first.event !== undefined && Date.parse(first.event.at) < at) low = first.event.lsn;
        else high = middle;
      }
    } catch (refusal) {
      if (signal.aborted) return;
      write(error, refusal instanceof Refusal ? `${refusal.message} (${refusal.code})` : String(refusal));
      return;
    } finally {
      isReading = false;
    }
    time.value = "";
    location.hash = `#/events?from=${low + 1}`;
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
    if (position.value.trim() === "" && time.value !== "") {
      void lookBackTo(Date.parse(time.value));
      return;
    }
    const lsn = Number(position.value.trim());
    if (position.value.trim() === "") goLive();
    else if (!Number.isSafeInteger(lsn) || lsn < 0) write(error, "A position is a whole number, such as 1200.");
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
      // History has come in before what was heard.
      if (recalled !== store.recalled && from === null && !isPaused) goLive();
      recalled = store.recalled;
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
