// Leases: the live table, its filter and order, and the keys that act on the selected lease.

import { serverNow } from "../api.js";
import { ACTIONS } from "../confirm.js";
import { Countdown, phaseOf } from "../countdown.js";
import { attribute, empty, h, replace, write, writeName } from "../dom.js";
import { causeWords } from "../panel.js";
import { Rows } from "../rows.js";
import { STANDINGS } from "../store.js";
import { ago, count, moment, plural } from "../text.js";
import { View, matcher } from "../view.js";

/** @typedef {import("../store.js").Lease} Lease */

/** @type {[key: string, name: string, className: string][]} */
const COLUMNS = [
  ["resources", "Resources", "c-resources"],
  ["holder", "Holder", "c-holder"],
  ["standing", "Status", "c-standing"],
  ["left", "Time left", "c-left"],
  ["mode", "Mode", "c-mode"],
  ["application", "Application", "c-application"],
  ["epoch", "Epoch", "c-epoch"],
  ["fence", "Fencing token", "c-fence"],
  ["granted", "Granted", "c-granted"],
  ["id", "Lease", "c-id"],
];

const MODES = ["heartbeat", "session", "permanent"];
const APPLICATIONS = ["leases", "registrations", "slots", "polling"];
/** Ages are written again this often. */
const AGES_EVERY_MS = 5_000;
const COUNT_EVERY_MS = 500;

function makeRow() {
  const cell = (/** @type {string} */ name) => h("div", { class: `cell ${name}`, role: "gridcell" });
  const cells = Object.fromEntries(COLUMNS.map(([key, , className]) => [key, cell(className)]));
  const countdown = new Countdown();
  cells.left.append(countdown.element);
  const standing = h("span", { class: "standing" });
  cells.standing.append(standing);
  const resource = h("bdi", { class: "cut name" });
  const more = h("span", { class: "more" });
  cells.resources.append(resource, more);
  const holder = h("bdi", { class: "cut" });
  cells.holder.append(holder);
  const element = h("div", { class: "row lease-row", role: "row" }, Object.values(cells));
  return { element, row: { element, cells, countdown, standing, resource, more, holder, revision: -1, agedAt: 0 } };
}

/** @param {ReturnType<typeof makeRow>["row"]} row @param {Lease} lease */
function bindRow(row, lease) {
  const now = performance.now();
  if (row.revision === lease.revision && now - row.agedAt < AGES_EVERY_MS) return;
  row.revision = lease.revision;
  row.agedAt = now;
  const { cells } = row;
  attribute(row.element, "data-lease-id", lease.id);
  attribute(row.element, "data-standing", lease.standing);
  writeName(row.resource, lease.resources[0] ?? "");
  write(row.more, lease.resources.length > 1 ? `+${lease.resources.length - 1}` : "");
  write(cells.id, lease.id);
  writeName(row.holder, lease.holder);
  attribute(row.standing, "data-standing", lease.standing);
  write(row.standing, lease.standing);
  attribute(row.standing, "title", lease.cause === null ? null : causeWords(lease.cause));
  row.countdown.set(phaseOf(lease));
  write(cells.mode, lease.mode);
  write(cells.application, lease.application);
  write(cells.epoch, String(lease.epoch));
  write(cells.fence, lease.fence === null ? "—" : String(lease.fence));
  write(cells.granted, lease.granted === null ? "—" : ago(serverNow() - lease.granted));
  attribute(cells.granted, "title", lease.granted === null ? null : moment(lease.granted));
}

/** @param {string} name @param {string} label @param {string[]} words */
function choice(name, label, words) {
  return h(
    "select",
    { class: "field", "aria-label": label, data: { filter: name } },
    h("option", { value: "" }, `any ${name}`),
    words.map((word) => h("option", { value: word }, word)),
  );
}

/** The part of the address that sets the filter. @param {URLSearchParams} params */
function filterOf(params) {
  return `${params.get("standing") ?? ""} ${params.get("text") ?? ""}`;
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} params
 * @param {import("../app.js").App} app
 */
export function mount(root, params, app) {
  const { store } = app;
  const view = new View(store);
  view.filter.standing = STANDINGS.find((word) => word === params.get("standing")) ?? "";
  view.filter.text = params.get("text") ?? "";
  view.setFilter({});

  const search = h("input", {
    class: "field search",
    type: "search",
    placeholder: "Filter by resource, holder, lease, session",
    "aria-label": "Filter leases",
    autocomplete: "off",
    spellcheck: "false",
    data: { filter: "text" },
    ".value": view.filter.text,
  });
  const chips = ["", ...STANDINGS].map((word) => {
    const number = h("b", {});
    const chip = h(
      "button",
      { type: "button", class: "chip", data: { filter: "standing", value: word, standing: word || "any" } },
      h("span", {}, word || "all"),
      number,
    );
    chip.addEventListener("click", () => {
      view.setFilter({ standing: word });
      redraw();
    });
    return { word, chip, number };
  });
  const mode = choice("mode", "Mode", MODES);
  const application = choice("application", "Application", APPLICATIONS);
  const shownCount = h("span", { class: "shown-count", data: { part: "count" } });

  const rows = new Rows(
    {
      make: makeRow,
      bind: (row, id) => {
        const lease = store.leases.get(id);
        if (lease) bindRow(row, lease);
      },
      release: (row) => {
        row.countdown.release();
        row.revision = -1;
      },
    },
    { name: "lease", onOpen: (id) => app.openLease(id), onActive: () => {} },
  );
  const heads = COLUMNS.map(([key, name, className]) => {
    const button = h(
      "button",
      { type: "button", class: "sorter", tabindex: "-1", data: { sort: key } },
      name,
    );
    const head = h("div", { class: `cell head ${className}`, role: "columnheader" }, button);
    button.addEventListener("click", () => {
      view.setOrder(key, view.column === key ? !view.descending : key === "granted");
      redraw();
    });
    return { key, head, button };
  });
  const grid = h(
    "div",
    { class: "grid", role: "grid", tabindex: "0", "aria-label": "Leases", data: { part: "leases" } },
    h(
      "div",
      { class: "rows-head", role: "rowgroup" },
      h(
        "div",
        { class: "row header", role: "row", "aria-rowindex": "1" },
        heads.map(({ head }) => head),
      ),
    ),
    rows.viewport,
  );
  rows.attach(grid);
  heads.forEach(({ button }) => attribute(button, "tabindex", "0"));
  const nothing = h("div", { class: "nothing", hidden: true });
  root.classList.add("fills");
  root.append(
    h(
      "div",
      { class: "toolbar", role: "search" },
      h("h1", { class: "toolbar-title" }, "Leases"),
      search,
      h(
        "div",
        { class: "chips", role: "group", "aria-label": "Standing" },
        chips.map(({ chip }) => chip),
      ),
      mode,
      application,
      shownCount,
    ),
    grid,
    nothing,
  );

  search.addEventListener("input", () => {
    view.setFilter({ text: search.value });
    countedAt = -Infinity;
    rows.viewport.scrollTop = 0;
    redraw();
    app.announce(shownCount.textContent ?? "");
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      grid.focus();
    } else if (event.key === "Escape" && search.value !== "") {
      search.value = "";
      view.setFilter({ text: "" });
      redraw();
      event.stopPropagation();
    }
  });
  mode.addEventListener("change", () => {
    view.setFilter({ mode: mode.value });
    countedAt = -Infinity;
    redraw();
  });
  application.addEventListener("change", () => {
    view.setFilter({ application: application.value });
    countedAt = -Infinity;
    redraw();
  });
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid || event.ctrlKey || event.metaKey || event.altKey || rows.active === null)
      return;
    const wanted = Object.entries(ACTIONS).find(([, { key }]) => key === event.key);
    if (!wanted) return;
    event.preventDefault();
    app.openLease(rows.active);
    void app.panel.act(wanted[0]);
  });

  let countedAt = -Infinity;
  let counted = { all: 0, standings: /** @type {Map<string, number>} */ (new Map()) };
  /** What each chip would show: counted anew where another filter is set, at most twice a second. */
  function countStandings() {
    const { text, mode: chosen, application: used } = view.filter;
    if (`${text}${chosen}${used}` === "") return { all: store.leases.size, standings: store.standings };
    if (performance.now() - countedAt < COUNT_EVERY_MS) return counted;
    countedAt = performance.now();
    const matches = matcher({ ...view.filter, standing: "" });
    counted = { all: 0, standings: new Map() };
    for (const lease of store.leases.values()) {
      if (!matches(lease)) continue;
      counted.all += 1;
      counted.standings.set(lease.standing, (counted.standings.get(lease.standing) ?? 0) + 1);
    }
    return counted;
  }

  function drawCounts() {
    const { all: any, standings } = countStandings();
    for (const { word, chip, number } of chips) {
      const total = word === "" ? any : (standings.get(word) ?? 0);
      write(number, count(total));
      attribute(chip, "aria-pressed", view.filter.standing === word ? "true" : "false");
    }
    const all = store.leases.size;
    const some = view.entries.length;
    write(shownCount, some === all ? plural(all, "lease") : `${count(some)} of ${count(all)}`);
    grid.hidden = some === 0;
    nothing.hidden = some > 0;
    if (some === 0) drawNothing(all);
  }

  /** @param {number} all */
  function drawNothing(all) {
    const which = all > 0 ? "filtered" : app.feed.state === "loading" ? "loading" : "empty";
    if (nothing.getAttribute("data-why") === which) return;
    attribute(nothing, "data-why", which);
    if (which === "filtered")
      replace(nothing, empty("No lease matches the filter", "Clear the filter to see all leases."));
    else if (which === "loading") replace(nothing, h("p", { class: "quiet" }, "loading leases …"));
    else {
      replace(
        nothing,
        empty(
          "No leases",
          "A lease gives one holder the right to use a resource for a limited time. Acquire one:",
          [
            "tenure lease acquire printer/1 --holder me --ttl 30s",
            "tenure run --resource deploy -- make deploy",
          ],
        ),
      );
    }
  }

  function redraw() {
    for (const { key, head, button } of heads) {
      const isSorted = key === view.column;
      const order = view.descending ? "descending" : "ascending";
      attribute(head, "aria-sort", isSorted ? order : "none");
      attribute(button, "data-order", isSorted ? order : null);
    }
    attribute(grid, "aria-rowcount", String(view.entries.length + 1));
    app.freshener.sweeping = view.column === "left" && store.leases.size > 100;
    rows.setItems(view.entries.length, (index) => view.entries[index].id);
    drawCounts();
  }

  redraw();
  const mounted = filterOf(params);
  return {
    focus: search,
    renamed: (now, lease) => lease !== null || filterOf(now) === mounted,
    visible: () => rows.visible(),
    /** @param {import("../store.js").Changes} changes */
    changed(changes) {
      if (view.update(changes)) redraw();
      else {
        rows.refresh();
        drawCounts();
      }
    },
    tick: () => rows.refresh(),
    feedChanged: drawCounts,
    unmount() {
      rows.destroy();
      app.freshener.sweeping = false;
      root.classList.remove("fills");
    },
  };
}
