// Why: the history of anything that has a name, as a timeline with what would happen next.

import { Refusal, ask, path, serverNow } from "../api.js";
import { attribute, empty, h, named, outside, replace } from "../dom.js";
import { resourceOf } from "../targets.js";
import { ago, clock, count, endWords, left, moment, plural, shown, unescaped, words } from "../text.js";

/** @typedef {"lease" | "resource" | "registration" | "session"} Kind */

/** @type {Kind[]} */
const KINDS = ["lease", "resource", "registration", "session"];
const LEASE_ID = /^[0-9a-hjkmnp-tv-z]{4}-[1-9][0-9]*$/;
const SESSION_ID =
  /^(?:(?:s|pipe|cli):[0-9a-f]{8,16}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;
const REGISTRATION_ID = /^[0-9a-f]{8}$/i;
const SUGGESTED = 8;
const REGISTRATION_BEGINNING = /^[0-9a-f]{2,7}$/i;

/** What a subject can mean, the most likely first, as in `tenure why`. @param {string} subject */
export function readings(subject) {
  /** @type {Kind[]} */
  const kinds = ["resource"];
  if (LEASE_ID.test(subject)) kinds.unshift("lease");
  else if (REGISTRATION_ID.test(subject)) kinds.unshift("registration");
  else if (SESSION_ID.test(subject)) kinds.unshift("session");
  return kinds;
}

/** @param {unknown} error */
function isUnknown(error) {
  return error instanceof Refusal && (error.status === 404 || error.code === "lease_retired");
}

/**
 * The history of the first meaning that the daemon knows.
 * @param {string} subject
 * @param {Kind | null} kind
 */
async function tell(subject, kind) {
  let likely;
  for (const reading of kind ? [kind] : readings(subject)) {
    try {
      return { kind: reading, story: await ask(path(["v1", "why"], { [reading]: subject })) };
    } catch (error) {
      if (!isUnknown(error)) throw error;
      likely ??= error;
    }
  }
  if (REGISTRATION_BEGINNING.test(subject) && (kind === null || kind === "registration")) {
    try {
      const { id } = await ask(path(["v1", "mdns", "admin", "registrations", subject]));
      return {
        kind: /** @type {Kind} */ ("registration"),
        story: await ask(path(["v1", "why"], { registration: id })),
      };
    } catch (error) {
      if (error instanceof Refusal && error.code === "ambiguous_id") throw error;
    }
  }
  // The target of a poller, as people write it.
  const [, group, target] = /^poll\/([^/]+)\/(.+)$/s.exec(subject) ?? [];
  if (target !== undefined && resourceOf(group, target) !== subject) {
    try {
      const resource = resourceOf(group, target);
      return { kind: /** @type {Kind} */ ("resource"), story: await ask(path(["v1", "why"], { resource })) };
    } catch (error) {
      if (!isUnknown(error)) throw error;
    }
  }
  throw likely;
}

/** What the daemon had seen, as words. @param {unknown} evidence */
function evidenceOf(evidence) {
  if (evidence === null || typeof evidence !== "object") return shown(JSON.stringify(evidence));
  const facts = Object.entries(/** @type {object} */ (evidence)).map(([key, value]) => {
    const said = typeof value === "object" ? JSON.stringify(value) : String(value);
    return [h("dt", {}, words(shown(key))), h("dd", {}, outside(said))];
  });
  return h("dl", { class: "evidence" }, facts);
}

/** @param {any} entry @param {number | null} before When the entry before happened. @param {string} about */
function entryLine(entry, before, about) {
  const at = Date.parse(entry.at);
  const gap = before === null ? null : at - before;
  const later = gap !== null && gap >= 1000 ? h("span", { class: "gap" }, `${left(gap)} later`) : null;
  const lease =
    entry.lease_id && entry.lease_id !== about
      ? h(
          "a",
          { href: `#/why?lease=${encodeURIComponent(entry.lease_id)}` },
          h("code", {}, shown(entry.lease_id)),
        )
      : null;
  return h(
    "li",
    { class: "entry", data: { kind: entry.kind, lsn: entry.lsn } },
    h("i", { class: "knot", "aria-hidden": "true" }),
    h(
      "div",
      { class: "entry-head" },
      h("span", { class: "kind", data: { kind: entry.kind } }, words(entry.kind)),
      h("time", { datetime: entry.at, title: moment(entry.at) }, clock(entry.at)),
      later,
      h("span", { class: "lsn" }, `position ${count(entry.lsn)}`),
      lease,
    ),
    h("p", { class: "entry-text" }, outside(entry.text)),
    entry.actor && h("p", { class: "entry-actor" }, "by ", outside(entry.actor, "strong")),
    entry.evidence !== null &&
      entry.evidence !== undefined &&
      h(
        "details",
        { class: "entry-evidence" },
        h("summary", {}, "evidence"),
        evidenceOf(entry.evidence),
      ),
  );
}

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} params
 * @param {import("../app.js").App} app
 */
export function mount(root, params, app) {
  const search = h("input", {
    class: "field search large",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Name of a resource or pool, or id of a lease, registration or session",
    "aria-label": "Name",
    data: { filter: "subject" },
  });
  const button = h("button", { type: "submit", class: "button primary" }, "Show");
  const form = h("form", { class: "why-form", role: "search" }, search, button);
  const story = h("section", { class: "story", "aria-label": "History", data: { part: "story" } });
  root.append(h("h1", {}, "Why"), form, story);

  let asked = 0;
  /** @param {string} subject @param {Kind | null} kind */
  async function show(subject, kind) {
    const turn = ++asked;
    attribute(story, "aria-busy", "true");
    try {
      const told = await tell(subject, kind);
      if (turn !== asked) return;
      draw(told.kind, told.story);
      app.announce(`History of ${told.story.subject}, ${plural(told.story.entries.length, "entry", "entries")}`);
    } catch (error) {
      if (turn !== asked) return;
      const said = error instanceof Refusal ? `${error.message} (${error.code})` : String(error);
      replace(story, h("p", { class: "error", role: "alert" }, shown(said)), hints());
    } finally {
      if (turn === asked) attribute(story, "aria-busy", null);
    }
  }

  /** @param {Kind} kind @param {any} told */
  function draw(kind, told) {
    const { entries } = told;
    const isLive = kind === "lease" && app.store.leases.has(told.subject);
    replace(
      story,
      h(
        "div",
        { class: "story-head" },
        h("h2", {}, h("span", { class: "story-kind" }, `${kind} `), outside(unescaped(told.subject))),
        isLive &&
          h(
            "button",
            { type: "button", class: "button", on: { click: () => app.openLease(told.subject) } },
            "Open the lease",
          ),
      ),
      told.left_out > 0 &&
        h(
          "p",
          { class: "quiet" },
          `${plural(told.left_out, "older record")} not shown. The log begins at position ${count(told.oldest_lsn)}.`,
        ),
      h(
        "ol",
        { class: "timeline" },
        entries.map((/** @type {any} */ entry, /** @type {number} */ index) =>
          entryLine(
            entry,
            index > 0 ? Date.parse(entries[index - 1].at) : null,
            kind === "lease" ? told.subject : "",
          ),
        ),
        told.next !== null
          ? h(
              "li",
              { class: "entry next", data: { part: "next" } },
              h("i", { class: "knot", "aria-hidden": "true" }),
              h("div", { class: "entry-head" }, h("span", { class: "kind" }, "next")),
              h("p", { class: "entry-text" }, outside(told.next)),
            )
          : h(
              "li",
              { class: "entry over", data: { part: "next" } },
              h("i", { class: "knot", "aria-hidden": "true" }),
              h("p", { class: "entry-text quiet" }, "The history ends here."),
            ),
      ),
      h(
        "p",
        { class: "quiet" },
        `At position ${count(told.lsn)} of the log, ${moment(serverNow())}. `,
        h(
          "button",
          { type: "button", class: "text-button", on: { click: () => void show(told.subject, kind) } },
          "Refresh",
        ),
      ),
    );
  }

  /** What can be looked at, what ended lately first. */
  function hints() {
    const chip = (/** @type {Kind} */ kind, /** @type {string} */ id, /** @type {any[]} */ ...text) =>
      h("a", { class: "chip", href: `#/why?${kind}=${encodeURIComponent(id)}` }, text);
    const ended = app.store.ended
      .slice(0, SUGGESTED)
      .map(({ lease, kind, reason, at }) =>
        chip(
          "lease",
          lease.id,
          named(lease.resources[0] ?? lease.id),
          h("span", {}, `${endWords(kind, reason)}, ${ago(serverNow() - at)}`),
        ),
      );
    const live = [];
    for (const lease of app.store.leases.values()) {
      if (live.length >= SUGGESTED) break;
      if (lease.resources[0]) live.push(chip("resource", lease.resources[0], named(lease.resources[0])));
    }
    const group = (/** @type {string} */ title, /** @type {HTMLElement[]} */ chips) =>
      chips.length > 0 && [h("h3", {}, title), h("p", { class: "suggestions" }, chips)];
    return h(
      "div",
      {},
      empty(
        "Why did that happen?",
        "Enter a name to see who held it, when and why each lease ended, and what happens next. In a terminal:",
        ["tenure why printer/1"],
      ),
      group("Ended lately", ended),
      group("Held now", live),
    );
  }

  /** @param {URLSearchParams} now */
  function follow(now) {
    const kind = KINDS.find((word) => now.get(word)) ?? null;
    const subject = now.get(kind ?? "subject") ?? "";
    search.value = subject;
    if (subject === "") replace(story, hints());
    else void show(subject, kind);
    return true;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const subject = search.value.trim();
    const address = subject === "" ? "#/why" : `#/why?subject=${encodeURIComponent(subject)}`;
    if (location.hash === address) follow(new URLSearchParams(subject === "" ? {} : { subject }));
    else location.hash = address;
  });
  follow(params);
  let recalled = app.store.recalled;
  let isLive = app.feed.state === "live";
  return {
    focus: search,
    renamed: follow,
    changed() {
      // Drawn again when the leases are listed, and when history is there.
      if (search.value !== "" || asked > 0) return;
      if (isLive === (app.feed.state === "live") && recalled === app.store.recalled) return;
      isLive = app.feed.state === "live";
      recalled = app.store.recalled;
      replace(story, hints());
    },
  };
}
