// Slots: every slot session, and below it a form that starts one with the module that any web page can use: pause its
// heartbeat, and watch it warn, expire and free its slot.

import { Refusal, ask, path, presentedToken, serverNow } from "../api.js";
import { confirm, scopeRefusal } from "../confirm.js";
import { attribute, empty, h, keyed, outside, replace, write } from "../dom.js";
import { hold, isOver, makeCard, ours, saying } from "../held.js";
import { Slots, pointedLeases } from "../slots.js";
import { TenureSession } from "../tenure-session.js";
import { ago, count, json, left, moment, reasonWords, shown } from "../text.js";

const READ_EVERY_MS = 2_000;
const LISTED_MAX = 200;

/** What this page does, as any page can. */
const EXAMPLE = `import { TenureSession }
  from "/assets/tenure-session.js";

const session =
  await TenureSession.start({ pool: "tuner" });
session.on("expiring", warn);
session.on("expired", stopPlaying);
session.on("lost", stopPlaying);`;

/** @param {any[]} all @param {boolean} isMore */
function countWords(all, isMore) {
  const live = all.filter((found) => !isOver(found) && found.state !== "new").length;
  const queued = all.filter(({ state }) => state === "new").length;
  const parts = [`${count(live)} live`];
  if (queued > 0) parts.push(`${count(queued)} waiting`);
  if (all.length > live + queued) parts.push(`${count(all.length - live - queued)} ended`);
  return parts.join(", ") + (isMore ? " and more" : "");
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} _params
 * @param {import("../app.js").App} app
 */
export function mount(root, _params, app) {
  const { store } = app;
  const pool = h("select", { class: "field", "aria-label": "Pool", id: "session-pool" });
  const slots = h("input", {
    class: "field narrow",
    id: "session-count",
    type: "number",
    min: "1",
    max: "64",
    ".value": "1",
  });
  const service = h("input", {
    class: "field",
    id: "session-service",
    placeholder: "such as a channel",
    autocomplete: "off",
    maxlength: "200",
  });
  const wait = h("input", {
    class: "field narrow",
    id: "session-wait",
    type: "number",
    min: "0",
    max: "3600",
    placeholder: "0",
  });
  const start = h(
    "button",
    { type: "submit", class: "button primary", data: { action: "start" } },
    "Start a slot session",
  );
  const startWhy = h("span", { class: "why-not" });
  const startError = h("p", { class: "error", role: "alert" });
  const form = h(
    "form",
    { class: "session-form" },
    h("label", { class: "labelled", for: "session-pool" }, "Pool", pool),
    h("label", { class: "labelled", for: "session-count" }, "Slots", slots),
    h("label", { class: "labelled", for: "session-wait" }, "Wait, seconds", wait),
    h("label", { class: "labelled grow", for: "session-service" }, "About", service),
    h("div", { class: "action" }, start, startWhy),
  );
  const cards = h("div", { class: "session-cards" });
  const poolPlace = h("div", { class: "pools" });
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "table", "aria-label": "Slot sessions", data: { part: "sessions" } },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Session", "State", "Client", "Slots", "About", "Time left or ended", ""].map((name) =>
          h("th", { scope: "col" }, name),
        ),
      ),
    ),
    body,
  );
  const listNone = h(
    "div",
    { class: "nothing", hidden: true },
    empty(
      "No slot sessions",
      "A slot session holds slots of a pool for as long as its client sends heartbeats. Start one below, or in a " +
        "terminal:",
      ["tenure pool set tuner 4", "tenure session start --pool tuner --keep"],
    ),
  );
  const listFiltered = h("p", { class: "quiet", hidden: true }, "no slot session in this state");
  const listNote = h("p", { class: "quiet" });
  const listError = h("p", { class: "error", role: "alert" });
  const choice = h(
    "select",
    { class: "field", "aria-label": "State", data: { filter: "state" } },
    h("option", { value: "" }, "any state"),
    ["new", "starting", "running", "draining", "stopped", "failed"].map((word) =>
      h("option", { value: word }, word),
    ),
  );
  const intro = empty(
    "Try it from this page",
    "Start a slot session, pause its heartbeat, and see it warn, expire and free the slot.",
  );
  root.append(
    h("h1", {}, "Slots"),
    h(
      "section",
      { class: "card", "aria-label": "Slot sessions" },
      h("div", { class: "card-head" }, h("h2", {}, "Slot sessions"), choice, listNote),
      listError,
      table,
      listNone,
      listFiltered,
    ),
    h(
      "div",
      { class: "session-top" },
      h(
        "section",
        { class: "card", "aria-label": "Started in this tab" },
        h("h2", {}, "Start one in this tab"),
        form,
        startError,
        cards,
        intro,
      ),
      h(
        "div",
        { class: "stack" },
        h("section", { class: "card", "aria-label": "The pool" }, h("h2", {}, "The pool"), poolPlace),
        h(
          "section",
          { class: "card", "aria-label": "In your own page" },
          h("h2", {}, "In your own page"),
          h("pre", { class: "json", tabindex: "0" }, EXAMPLE),
        ),
      ),
    ),
  );

  /** @type {(() => void)[]} */
  const releases = [];
  const show = (/** @type {import("../held.js").Held} */ held) => {
    const { card, release } = makeCard(held);
    cards.prepend(card);
    releases.push(release);
  };
  ours.forEach(show);

  /** @type {Slots | null} */
  let grid = null;
  function drawPool() {
    const names = store.pools.filter(({ removed }) => !removed).map(({ name }) => name);
    if (names.join("\n") !== [...pool.options].map(({ value }) => value).join("\n")) {
      const before = pool.value;
      replace(
        pool,
        names.map((name) => h("option", { value: name }, shown(name))),
      );
      pool.value = names.includes(before) ? before : names.includes("tuner") ? "tuner" : (names[0] ?? "");
    }
    const chosen = store.pools.find(({ name }) => name === pool.value);
    if (!chosen) {
      replace(poolPlace, empty("No pools", "A slot session takes slots of a pool:", ["tenure pool set tuner 4"]));
      grid = null;
      return;
    }
    if (grid?.pool !== chosen.name) {
      grid = new Slots(chosen.name, app);
      replace(poolPlace, grid.element);
    }
    grid.update(chosen);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (start.getAttribute("aria-disabled") === "true") return;
    write(startError, "");
    start.disabled = true;
    try {
      /** @type {Record<string, unknown>} */
      const asked = { count: Number(slots.value) || 1 };
      if (pool.value) asked.pool = pool.value;
      if (service.value.trim()) asked.service_ref = service.value.trim();
      if (Number(wait.value) > 0) asked.wait = Number(wait.value);
      const token = presentedToken();
      if (token !== null) asked.token = token;
      const held = hold(await TenureSession.start(asked));
      ours.push(held);
      show(held);
      void read();
    } catch (refusal) {
      write(startError, saying(refusal));
    } finally {
      start.disabled = false;
    }
  });
  pool.addEventListener("change", drawPool);
  choice.addEventListener("change", () => void read());

  /** @type {any[]} */
  let listed = [];
  let wasRead = false;
  let underWay = false;
  async function read() {
    if (underWay || app.feed.state !== "live") return;
    const refused = scopeRefusal(app.scope(), "admin");
    if (refused) {
      write(listError, `The list of slot sessions ${refused}.`);
      return;
    }
    underWay = true;
    try {
      const all = [];
      let cursor;
      do {
        const page = await ask(
          path(["api", "v3", "sessions"], { limit: LISTED_MAX, cursor, state: choice.value }),
        );
        all.push(...page.sessions);
        cursor = page.next_cursor;
      } while (cursor && all.length < LISTED_MAX);
      listed = all;
      wasRead = true;
      write(listNote, countWords(all, cursor !== null && cursor !== undefined));
      write(listError, "");
    } catch (refusal) {
      listed = [];
      if (refusal instanceof Refusal && refusal.status !== 0) write(listError, saying(refusal));
    } finally {
      underWay = false;
    }
    drawList();
  }

  function drawList() {
    const order = ["new", "starting", "running", "draining", "failed", "stopped"];
    const sorted = [...listed].sort(
      (a, b) =>
        order.indexOf(a.state) - order.indexOf(b.state) ||
        Date.parse(b.created_at) - Date.parse(a.created_at),
    );
    keyed(
      body,
      sorted.slice(0, LISTED_MAX),
      // A line is made anew only when something in it changed that does not run by itself.
      ({ session_id: id, state, queue_position: place, resources, reason }) =>
        JSON.stringify([id, state, place, resources, reason]),
      line,
      (row, found) => {
        const until = Date.parse(found.lease_expires_at) - serverNow();
        const ended = ago(serverNow() - Date.parse(found.ended_at ?? found.lease_expires_at));
        if (!isOver(found)) write(row.children[5], left(until));
        else write(row.children[5].firstElementChild, ended === "now" ? "ended now" : `ended ${ended}`);
      },
    );
    listNone.hidden = sorted.length > 0 || choice.value !== "" || !wasRead;
    listFiltered.hidden = sorted.length > 0 || choice.value === "";
    table.hidden = sorted.length === 0;
  }

  /** @param {any} found */
  function line(found) {
    const over = isOver(found);
    const standing = over
      ? "over"
      : found.state === "running"
        ? "alive"
        : found.state === "draining"
          ? "draining"
          : "reserved";
    const stop = h(
      "button",
      { type: "button", class: "button small", data: { stop: found.session_id } },
      "Stop",
    );
    const refused = scopeRefusal(app.scope(), "hold");
    attribute(stop, "aria-disabled", refused ? "true" : null);
    attribute(stop, "title", refused);
    stop.addEventListener("click", () => {
      if (!refused) void stopOther(found);
    });
    return h(
      "tr",
      { data: { "session-id": found.session_id, state: found.state } },
      h(
        "td",
        {},
        h(
          "a",
          { href: `#/why?session=${encodeURIComponent(found.session_id)}` },
          h("code", {}, shown(found.session_id.slice(0, 8))),
        ),
      ),
      h(
        "td",
        {},
        h("span", { class: "standing", data: { standing } }, found.state),
        found.queue_position ? ` place ${found.queue_position}` : "",
      ),
      h("td", {}, outside(found.client ?? "")),
      h("td", { class: over ? "quiet" : undefined }, over && "held ", outside(found.resources.join(", "))),
      h(
        "td",
        {},
        outside(found.service_ref ?? ""),
        found.metadata &&
          h("details", {}, h("summary", {}, "metadata"), h("pre", { class: "json" }, json(found.metadata))),
      ),
      h(
        "td",
        { title: moment(over ? (found.ended_at ?? found.lease_expires_at) : found.lease_expires_at) },
        over && [h("span", {}), h("br"), h("span", { class: "quiet" }, outside(reasonWords(found.reason ?? "")))],
      ),
      h("td", {}, !over && stop),
    );
  }

  /** @param {any} found */
  async function stopOther(found) {
    await confirm({
      title: "Stop this slot session?",
      verb: "Stop",
      tone: "danger",
      body: [
        h(
          "p",
          {},
          "A slot session that you started ends now and frees its slots. One that another principal started is " +
            "revoked: its slots are free when its client confirms, at the latest one TTL after the last heartbeat.",
        ),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Session"),
          h("dd", {}, h("code", {}, shown(found.session_id))),
          h("dt", {}, "Client"),
          h("dd", {}, outside(found.client ?? "", "strong")),
          h("dt", {}, "Slots"),
          h("dd", {}, outside(found.resources.join(", "))),
        ),
      ],
      carryOut: async () => {
        await ask(path(["api", "v3", "sessions", found.session_id]), { method: "DELETE" });
      },
    });
    await read();
  }

  let nextRead = 0;
  const tick = () => {
    drawPool();
    drawList();
    intro.hidden = ours.length > 0;
    const refused = scopeRefusal(app.scope(), "hold");
    attribute(start, "aria-disabled", refused ? "true" : null);
    write(startWhy, refused ?? "");
    if (performance.now() < nextRead) return;
    nextRead = performance.now() + READ_EVERY_MS;
    void read();
  };
  drawList();
  tick();
  return {
    focus: service,
    visible: pointedLeases,
    changed(/** @type {import("../store.js").Changes} */ changes) {
      drawPool();
      if (changes.all || changes.ids.size > 0) nextRead = Math.min(nextRead, performance.now() + 300);
    },
    tick,
    unmount() {
      releases.forEach((release) => release());
      for (const held of ours) held.redraw = () => {};
    },
  };
}
