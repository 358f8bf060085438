// Registrations: services that this daemon advertises, and those of the network, which is browsed only while the page
// is open.

import { Refusal, ask, path } from "../api.js";
import { confirm, scopeRefusal } from "../confirm.js";
import { Countdown } from "../countdown.js";
import { attribute, empty, h, outside, replace, serviceLink, setFacts, write } from "../dom.js";
import { Network, isWeb, txtList } from "../network.js";
import { Rows } from "../rows.js";
import { count, moment, plural, shown, span } from "../text.js";

const READ_EVERY_MS = 2_000;

/** @typedef {any} Registration An `AdminRegistration`. */

/** @type {[name: string, className: string][]} */
const COLUMNS = [
  ["Name", "g-name"],
  ["Type", "g-type"],
  ["Port", "g-port"],
  ["State", "g-state"],
  ["Time left", "g-left"],
  ["Network", "g-net"],
  ["Id", "g-id"],
];

function makeRow() {
  const cell = (/** @type {string} */ name) => h("div", { class: `cell ${name}`, role: "gridcell" });
  const [name, type, port, state, leftCell, net, id] = COLUMNS.map(([, className]) => cell(className));
  const countdown = new Countdown();
  leftCell.append(countdown.element);
  const standing = h("span", { class: "standing" });
  state.append(standing);
  const element = h("div", { class: "row registration-row", role: "row" }, [
    name,
    type,
    port,
    state,
    leftCell,
    net,
    id,
  ]);
  return { element, row: { element, name, type, port, standing, countdown, net, id } };
}

/** @param {Registration} found @param {number} readAt */
function phaseOf(found, readAt) {
  const isPermanent = found.mode === "permanent";
  const remaining = found.remaining_secs === null ? null : found.remaining_secs * 1000;
  const length = found.state === "draining" ? found.grace_secs : found.lease_secs;
  return {
    endsAt: remaining === null ? null : readAt + remaining,
    phaseMs: length ? length * 1000 : remaining,
    tone: isPermanent && found.state === "alive" ? "permanent" : found.state,
    endless: isPermanent ? "permanent" : "connected",
    renews: found.state === "alive",
  };
}

/** Where a browser finds the service; null for what is no web page. @param {Registration} found */
function linkTo({ type, ip, port, txt }) {
  if (!isWeb(type)) return null;
  const host = ip ?? location.hostname.replace(/^\[|\]$/g, "");
  return serviceLink({ secure: type.startsWith("_https."), host, port, path: txt?.path ?? "/" });
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} _params
 * @param {import("../app.js").App} app
 */
export function mount(root, _params, app) {
  /** @type {Map<string, Registration>} */
  let ours = new Map();
  /** @type {string[]} */
  let order = [];
  let readAt = performance.now();
  let wasRead = false;
  /** @type {string | null} */
  let selected = null;
  let text = "";

  const search = h("input", {
    class: "field search",
    type: "search",
    placeholder: "Filter by name, type, id",
    "aria-label": "Filter registrations",
    autocomplete: "off",
    spellcheck: "false",
    data: { filter: "text" },
  });
  const shownCount = h("span", { class: "shown-count", data: { part: "count" } });
  const error = h("p", { class: "error", role: "alert" });
  const rows = new Rows(
    {
      make: makeRow,
      bind: (row, id) => {
        const found = ours.get(id);
        if (!found) return;
        attribute(row.element, "data-registration-id", id);
        replace(row.name, outside(found.name, "name"));
        write(row.type, shown(found.type));
        write(row.port, String(found.port));
        attribute(row.standing, "data-standing", found.state);
        write(row.standing, found.state);
        row.countdown.set(phaseOf(found, readAt));
        const renamed = found.advertised_name !== found.name ? ` as ${shown(found.advertised_name)}` : "";
        const untold = app.pulse.status?.mdns === null ? "mDNS is off" : "not yet advertised";
        write(row.net, found.advertised ? `advertised${renamed}` : found.last_error ? "failed" : untold);
        attribute(row.net, "data-tone", found.advertised ? "good" : found.last_error ? "bad" : "plain");
        write(row.id, found.id);
      },
      release: (row) => row.countdown.release(),
    },
    { name: "registration", onOpen: select },
  );
  const grid = h(
    "div",
    {
      class: "grid",
      role: "grid",
      tabindex: "0",
      "aria-label": "Our registrations",
      data: { part: "registrations" },
    },
    h(
      "div",
      { class: "rows-head", role: "rowgroup" },
      h(
        "div",
        { class: "row header registration-row", role: "row", "aria-rowindex": "1" },
        COLUMNS.map(([name, className]) =>
          h("div", { class: `cell head ${className}`, role: "columnheader" }, name),
        ),
      ),
    ),
    rows.viewport,
  );
  rows.attach(grid);
  const nothing = h("div", { class: "nothing", hidden: true });
  const detail = h("section", { class: "card detail", hidden: true, "aria-label": "Registration" });
  const network = new Network(app);
  root.append(
    h("div", { class: "toolbar" }, h("h1", { class: "toolbar-title" }, "Registrations"), search, shownCount),
    error,
    h(
      "div",
      { class: "split" },
      h("div", { class: "split-main" }, grid, nothing),
      h("div", { class: "split-side" }, detail, network.element),
    ),
  );

  function draw() {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (/** @type {Registration} */ found) => {
      const all = `${found.name}\n${found.type}\n${found.id}\n${found.advertised_name}`.toLowerCase();
      return words.every((word) => all.includes(word));
    };
    const passing = order.filter((id) => fits(ours.get(id)));
    rows.setItems(passing.length, (index) => passing[index]);
    attribute(grid, "aria-rowcount", String(passing.length + 1));
    write(
      shownCount,
      passing.length === order.length
        ? plural(order.length, "registration")
        : `${count(passing.length)} of ${count(order.length)}`,
    );
    grid.hidden = passing.length === 0;
    // Before the list is read nothing is known.
    nothing.hidden = passing.length > 0 || !wasRead;
    if (passing.length === 0) {
      replace(
        nothing,
        order.length > 0
          ? empty("No registration matches the filter", "Clear the filter to see all registrations.")
          : empty(
              "No registrations",
              "A registration is an mDNS service that is advertised for as long as its owner renews it. Register one:",
              ['tenure mdns register "My App" _http._tcp 8080'],
            ),
      );
    }
    if (selected !== null) drawDetail();
  }

  let underWay = false;
  async function read() {
    if (underWay || app.feed.state !== "live") return;
    const refused = scopeRefusal(app.scope(), "admin");
    if (refused) {
      write(error, `The list of registrations ${refused}.`);
      return;
    }
    underWay = true;
    try {
      /** @type {Registration[]} */
      const list = await ask("/v1/mdns/admin/registrations");
      readAt = /** @type {any} */ (list).answeredAt ?? performance.now();
      ours = new Map(list.map((found) => [found.id, found]));
      order = list.map(({ id }) => id);
      wasRead = true;
      write(error, "");
      draw();
    } catch (refusal) {
      if (refusal instanceof Refusal && refusal.status !== 0) write(error, refusal.message);
    } finally {
      underWay = false;
    }
  }

  /** @param {string} id */
  function select(id) {
    selected = id;
    detail.hidden = false;
    replace(detail);
    drawDetail();
    detail.scrollIntoView({ block: "nearest" });
  }

  /**
   * @typedef {object} Detail
   * @property {Countdown} countdown
   * @property {HTMLElement} facts
   * @property {Record<string, HTMLButtonElement>} buttons
   * @property {Record<string, HTMLElement>} whys
   */
  /** @type {Detail | null} */
  let parts = null;
  function drawDetail() {
    const found = ours.get(selected ?? "");
    if (!found) {
      parts = null;
      replace(
        detail,
        h("p", { class: "quiet" }, "This registration has ended. "),
        h("a", { href: `#/why?registration=${encodeURIComponent(selected ?? "")}` }, "History →"),
      );
      return;
    }
    if (!parts || detail.getAttribute("data-registration-id") !== found.id) buildDetail(found);
    if (!parts) return;
    parts.countdown.set(phaseOf(found, readAt));
    setFacts(parts.facts, [
      ["Service", linkTo(found) ?? "—"],
      ["Type", outside(found.type)],
      ["Port", String(found.port)],
      ["Mode", found.mode],
      ["State", found.state],
      ["Advertised as", outside(found.advertised_name)],
      ["Network", found.advertised ? "advertised" : outside(found.last_error ?? "not yet advertised")],
      ["TTL", found.lease_secs === null ? "—" : span(found.lease_secs * 1000)],
      ["Grace", span(found.grace_secs * 1000)],
      ["Session", found.session_id === null ? "—" : outside(found.session_id)],
      ["Registered", moment(found.registered_at)],
      ["Last renewal", found.last_seen === null ? "—" : moment(found.last_seen)],
      ["Address", found.ip === null ? "the addresses of the host" : outside(found.ip)],
      ["Epoch", String(found.epoch)],
      [
        "Lease",
        h(
          "a",
          { href: `#/leases/${encodeURIComponent(found.lease_id)}` },
          h("code", {}, shown(found.lease_id)),
        ),
      ],
      ["Text", txtList(found.txt) ?? "—"],
    ]);
    const scope = scopeRefusal(app.scope(), "admin");
    /** @type {Record<string, string | null>} */
    const refused = {
      drain:
        scope ??
        (found.mode === "permanent"
          ? "the registration is permanent"
          : found.state === "draining"
            ? "the registration is already draining"
            : null),
      revive: scope ?? (found.state === "draining" ? null : "the registration is not draining"),
      unregister: scope,
    };
    for (const [name, button] of Object.entries(parts.buttons)) {
      attribute(button, "aria-disabled", refused[name] === null ? null : "true");
      write(parts.whys[name], refused[name] ?? "");
    }
  }

  /** @param {Registration} found */
  function buildDetail(found) {
    const countdown = new Countdown("large");
    /** @type {Record<string, HTMLButtonElement>} */
    const buttons = {};
    /** @type {Record<string, HTMLElement>} */
    const whys = {};
    const facts = h("dl", { class: "facts" });
    const action = (/** @type {string} */ name, /** @type {string} */ verb, /** @type {string} */ tone) => {
      whys[name] = h("span", { class: "why-not", id: `registration-why-${name}` });
      buttons[name] = h(
        "button",
        {
          type: "button",
          class: `button ${tone}`,
          data: { action: name },
          "aria-describedby": whys[name].id,
          on: { click: () => act(name, found.id) },
        },
        verb,
      );
      return h("div", { class: "action" }, buttons[name], whys[name]);
    };
    replace(
      detail,
      h("h2", {}, outside(found.name)),
      h("p", { class: "panel-id" }, h("code", {}, shown(found.id))),
      countdown.element,
      h(
        "div",
        { class: "actions", role: "group", "aria-label": "Actions" },
        action("drain", "Drain", "warn"),
        action("revive", "Revive", "good"),
        action("unregister", "Unregister", "danger"),
      ),
      facts,
      h("p", {}, h("a", { href: `#/why?registration=${encodeURIComponent(found.id)}` }, "History →")),
    );
    attribute(detail, "data-registration-id", found.id);
    attribute(detail, "aria-label", `Registration ${found.id}`);
    parts = { countdown, facts, buttons, whys };
  }

  /** @param {string} name @param {string} id */
  async function act(name, id) {
    const found = ours.get(id);
    if (!found || parts?.buttons[name].getAttribute("aria-disabled") === "true") return;
    const grace = span(found.grace_secs * 1000);
    const effects = {
      drain: `The service stays advertised for ${grace}, then the registration ends. Revive cancels it.`,
      revive: "The drain is cancelled.",
      unregister: "Tenure sends a goodbye packet, and the registration ends now.",
    };
    const tones = { drain: "warn", revive: "good", unregister: "danger" };
    const verb = name[0].toUpperCase() + name.slice(1);
    const one = ["v1", "mdns", "admin", "registrations", id];
    const done = await confirm({
      title: `${verb} this service?`,
      verb,
      tone: /** @type {any} */ (tones)[name],
      body: [
        h("p", {}, /** @type {any} */ (effects)[name]),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Name"),
          h("dd", {}, outside(found.name, "strong")),
          h("dt", {}, "Advertised as"),
          h("dd", {}, outside(found.advertised_name)),
          h("dt", {}, "Type"),
          h("dd", {}, outside(found.type)),
          h("dt", {}, "Port"),
          h("dd", {}, String(found.port)),
          h("dt", {}, "Id"),
          h("dd", {}, h("code", {}, shown(id))),
        ),
      ],
      carryOut: async () => {
        if (name === "unregister") await ask(path(one), { method: "DELETE" });
        else await ask(path([...one, name]), { method: "POST" });
      },
    });
    if (done) app.say(`${verb}: done for ${shown(found.name)}`);
    await read();
  }

  search.addEventListener("input", () => {
    text = search.value;
    draw();
  });
  let nextRead = 0;
  const tick = () => {
    if (performance.now() < nextRead) return;
    nextRead = performance.now() + READ_EVERY_MS;
    void read();
  };
  draw();
  tick();
  void network.look(null);
  return {
    focus: search,
    changed(/** @type {import("../store.js").Changes} */ changes) {
      // What an event may have changed here is read soon, not at once: ends come in crowds.
      const isOurs = (/** @type {string} */ id) => app.store.leases.get(id)?.application !== "leases";
      if (changes.all || changes.ids.size > 50 || [...changes.ids].some(isOurs)) {
        nextRead = Math.min(nextRead, performance.now() + 300);
      }
    },
    tick,
    unmount() {
      network.stop();
      rows.destroy();
      parts?.countdown.release();
    },
  };
}
