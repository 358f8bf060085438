// The page as a whole: starts what keeps it up to date, shows the page and the lease that the address names, handles
// the keys that work everywhere, and shows the state of the connection.

import { ask, keepPage, onSignedOut, presentToken, presentedToken } from "./api.js";
import { attribute, byId, commandLine, h, replace, write } from "./dom.js";
import { Feed } from "./feed.js";
import { Freshener } from "./fresh.js";
import { showKeys } from "./keys.js";
import { openPalette } from "./palette.js";
import { Panel } from "./panel.js";
import { Pulse } from "./pulse.js";
import { Store } from "./store.js";
import { hideTip } from "./slots.js";
import { count, plural, shown } from "./text.js";
import { mount as cluster } from "./pages/cluster.js";
import { mount as events } from "./pages/events.js";
import { mount as leases } from "./pages/leases.js";
import { mount as overview } from "./pages/overview.js";
import { mount as polling } from "./pages/polling.js";
import { mount as registrations } from "./pages/registrations.js";
import { mount as slots } from "./pages/slots.js";
import { mount as unknown } from "./pages/unknown.js";
import { mount as waiting } from "./pages/waiting.js";
import { mount as why } from "./pages/why.js";

/**
 * What a page gives back when it is mounted.
 * @typedef {object} Mounted
 * @property {HTMLElement | null} focus Where `/` leads.
 * @property {() => Iterable<string>} [visible] Leases that are being looked at.
 * @property {(changes: import("./store.js").Changes) => void} [changed]
 * @property {() => void} [tick] Twice a second.
 * @property {() => void} [feedChanged]
 * @property {(event: KeyboardEvent) => boolean} [key] Whether it took the key.
 * @property {(params: URLSearchParams, lease: string | null) => boolean} [renamed] Whether it took another address of
 * itself.
 * @property {() => void} [unmount]
 */

/**
 * @typedef {(root: HTMLElement, params: URLSearchParams, app: App) => Mounted} Mount
 * @type {Record<string, {title: string, key: string, mount: Mount}>} `key` comes after `g`.
 */
export const PAGES = {
  overview: { title: "Overview", key: "o", mount: overview },
  leases: { title: "Leases", key: "l", mount: leases },
  waiting: { title: "Waiting", key: "q", mount: waiting },
  why: { title: "Why", key: "w", mount: why },
  registrations: { title: "Registrations", key: "r", mount: registrations },
  slots: { title: "Slots", key: "s", mount: slots },
  polling: { title: "Polling", key: "p", mount: polling },
  events: { title: "Events", key: "e", mount: events },
  cluster: { title: "Cluster", key: "c", mount: cluster },
};
const UNKNOWN = { title: "No such page", key: "", mount: unknown };
/** What pages were called before. @type {Record<string, string>} */
const RENAMED = { sessions: "slots" };

const THEMES = ["auto", "light", "dark"];
const THEME_WORDS = { auto: "as the system has them", light: "light", dark: "dark" };
const SAYS_MS = 5_000;
/** A screen reader is not interrupted at every letter that is typed. */
const ANNOUNCED_AFTER_MS = 700;

export class App {
  constructor() {
    this.store = new Store();
    this.feed = new Feed(this.store);
    this.pulse = new Pulse(this.store, this.feed);
    this.freshener = new Freshener(this.store);
    this.panel = new Panel(this);
    this.main = byId("main");
    this.name = "";
    /** @type {Mounted | null} */
    this.page = null;
    this.wasBroken = false;
    /** The address that is shown. */
    this.routed = "";
    /** The address that closing the lease leads back to. */
    this.before = "#/leases";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.announcing = undefined;
    /** Prefix of a jump by two keys. */
    this.going = 0;
  }

  start() {
    this.paint(readTheme());
    byId("theme").addEventListener("click", () => this.turnTheme());
    byId("keys-open").addEventListener("click", () => showKeys());
    byId("palette-open").addEventListener("click", () => openPalette(this));
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.main.focus();
    });
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.routed) this.route();
    });
    window.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("online", () => this.feed.hurry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.feed.hurry();
    });
    this.store.listen((changes) => {
      this.page?.changed?.(changes);
      this.drawBadges();
    });
    this.feed.listen(() => this.drawFeed());
    this.pulse.listen(() => {
      byId("nav-cluster").hidden = !this.pulse.isNode;
      this.drawBadges();
    });
    onSignedOut(() => this.feed.become("signed-out"));
    this.freshener.visible = () => this.visible();
    this.freshener.running = () => this.feed.state === "live";
    setInterval(() => {
      if (!document.hidden) this.page?.tick?.();
    }, 500);
    this.route();
    this.drawFeed();
    void this.feed.run();
    this.pulse.start();
    this.freshener.start();
  }

  /** Leases that somebody looks at. */
  *visible() {
    if (this.panel.id !== null) yield this.panel.id;
    yield* this.page?.visible?.() ?? [];
  }

  /** What the caller may do; undefined: unknown. @returns {string | undefined} */
  scope() {
    return this.feed.caller?.scope;
  }

  /** Shows the page that the address names. */
  route() {
    if (this.feed.state === "signed-out") return;
    const { name, params, lease } = readAddress();
    if (name === "leases" && params.has("lease")) history.replaceState(null, "", leaseAddress(lease ?? ""));
    this.routed = location.hash;
    if (lease === null) this.before = "#/leases";
    hideTip();
    for (const dialog of name === this.name ? ["keys", "palette"] : ["keys", "palette", "confirm"])
      /** @type {HTMLDialogElement} */ (byId(dialog)).close();
    const page = PAGES[name] ?? UNKNOWN;
    if (name !== this.name || !this.page?.renamed?.(params, lease)) this.show(name, page, params);
    if (lease === null) this.panel.close();
    else if (lease !== this.panel.id) this.panel.open(lease);
  }

  /** @param {string} name @param {{title: string, mount: Mount}} page @param {URLSearchParams} params */
  show(name, page, params) {
    this.page?.unmount?.();
    this.main.replaceChildren();
    this.main.className = `page page-${name}`;
    this.main.scrollTop = 0;
    this.name = name;
    attribute(this.main, "aria-label", page.title);
    document.title = `${page.title} · Tenure`;
    for (const link of document.querySelectorAll(".nav a")) {
      const isHere = link.getAttribute("data-page") === name;
      attribute(link, "aria-current", isHere ? "page" : null);
      if (isHere && link instanceof HTMLElement && link.parentElement)
        bringIntoSight(link, link.parentElement);
    }
    this.page = page.mount(this.main, params, this);
    this.announce(page.title);
  }

  /** Shows a lease, at an address of its own. @param {string} id */
  openLease(id) {
    if (readAddress().lease === null) this.before = location.hash || "#/";
    location.hash = leaseAddress(id);
    this.route();
  }

  /** Goes back to where the lease was opened. */
  closeLease() {
    if (this.panel.id === null) return;
    location.hash = this.before;
    this.route();
  }

  focusPage() {
    const grid = this.main.querySelector("[role=grid]");
    (grid instanceof HTMLElement ? grid : this.main).focus();
  }

  /** Shows a sentence for a few seconds. @param {string} text */
  say(text) {
    const said = h("p", { class: "said" }, text);
    byId("says").append(said);
    setTimeout(() => said.remove(), SAYS_MS);
  }

  /** Tells screen readers something. @param {string} text */
  announce(text) {
    clearTimeout(this.announcing);
    this.announcing = setTimeout(() => write(byId("announce"), text), ANNOUNCED_AFTER_MS);
  }

  drawBadges() {
    const { applications } = this.store;
    /** @type {[string, number][]} */
    const badges = [
      ["leases", this.store.leases.size],
      ["waiting", this.pulse.status?.waiters ?? 0],
      ["registrations", applications.get("registrations") ?? 0],
      ["slots", applications.get("slots") ?? 0],
      ["polling", this.pulse.targets],
    ];
    for (const [name, number] of badges) write(byId(`badge-${name}`), number > 0 ? count(number) : "");
  }

  drawFeed() {
    const { state, listed, caller } = this.feed;
    const words = {
      loading: "connecting",
      live: "live",
      reconnecting: "reconnecting",
      "signed-out": "signed out",
    }[state];
    attribute(byId("connection"), "data-state", state);
    attribute(document.documentElement, "data-feed", state);
    write(byId("connection-words"), state === "loading" && listed > 0 ? `reading ${plural(listed, "lease")}` : words);
    const who = byId("caller");
    who.hidden = caller === null;
    if (caller) {
      const isLeaving = caller.signed_in || presentedToken() !== null;
      const leave = h(
        "button",
        { type: "button", class: "text-button", on: { click: () => void this.signOut() } },
        "Sign out",
      );
      replace(who, h("span", {}, `${shown(caller.principal)} · ${caller.scope}`), isLeaving && [" ", leave]);
    }
    const banner = byId("banner");
    banner.hidden = state !== "reconnecting";
    if (state === "reconnecting") {
      write(banner, "The daemon does not answer. Reconnecting. The page shows what was last received.");
      this.wasBroken = true;
    }
    if (state === "live" && this.wasBroken) {
      this.wasBroken = false;
      this.pulse.reset();
      this.say("Connected again");
    }
    if (state === "live") void this.pulse.beat();
    if (state === "signed-out") this.showSignIn();
    else if (this.name === "sign-in") this.route();
    this.page?.feedChanged?.();
  }

  /** Ends the cookie or forgets the token, and lists again what is left to see. */
  async signOut() {
    if (presentedToken() !== null) presentToken(null);
    else {
      await ask("/v1/sign_out", { method: "POST" }).catch(() => this.say("The daemon does not answer"));
      keepPage(null);
    }
    this.feed.become("loading");
    this.feed.again();
  }

  showSignIn() {
    if (this.name === "sign-in") return;
    // What was listed with a credential does not stay on the screen without it.
    this.store.replaceAll([], 0);
    this.store.setPools([]);
    this.page?.unmount?.();
    this.page = null;
    this.name = "sign-in";
    this.panel.close();
    this.main.className = "page page-sign-in";
    attribute(this.main, "aria-label", "Sign in");
    const token = h("input", {
      class: "field",
      id: "token",
      type: "password",
      autocomplete: "off",
      spellcheck: "false",
    });
    const wasTried = presentedToken() !== null;
    presentToken(null);
    const sign = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (token.value.trim() === "") return;
      presentToken(token.value.trim());
      this.feed.become("loading");
      this.feed.again();
    };
    replace(
      this.main,
      h(
        "form",
        { class: "card sign-in", "aria-labelledby": "sign-in-title", on: { submit: sign } },
        h("h1", { id: "sign-in-title" }, "Sign in"),
        h("p", {}, "This daemon requires a sign-in. On its machine, run:"),
        commandLine("tenure open"),
        h("p", {}, "The command opens this page, signed in with a code that works once. Or enter a token:"),
        h("label", { class: "labelled", for: "token" }, "Token", token),
        h("p", { class: "error", role: "alert" }, wasTried && "That token is not accepted."),
        h("p", { class: "quiet" }, "The token is kept in the memory of this tab only."),
        h("button", { type: "submit", class: "button primary" }, "Sign in"),
      ),
    );
    token.focus();
  }

  turnTheme() {
    const next = THEMES[(THEMES.indexOf(readTheme()) + 1) % THEMES.length];
    try {
      localStorage.setItem("tenure-theme", next);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    this.paint(next);
    this.say(`Colours: ${/** @type {any} */ (THEME_WORDS)[next]}`);
  }

  /** @param {string} theme */
  paint(theme) {
    attribute(document.documentElement, "data-theme", theme);
    const said = `Colours: ${/** @type {any} */ (THEME_WORDS)[theme]}`;
    attribute(byId("theme"), "aria-label", said);
    attribute(byId("theme"), "title", said);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      openPalette(this);
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    const isTyping =
      target instanceof HTMLElement && target.matches("input, select, textarea, dialog *, dialog");
    if (isTyping) return;
    if (event.key === "Escape") {
      this.closeLease();
      return;
    }
    const jumps = Object.fromEntries(Object.entries(PAGES).map(([name, { key }]) => [key, name]));
    // Before the page: what comes after `g` is a place, not something to be done to a lease.
    if (performance.now() - this.going < 1200 && event.key in jumps) {
      this.going = 0;
      location.hash = jumps[event.key] === "overview" ? "#/" : `#/${jumps[event.key]}`;
      event.preventDefault();
      return;
    }
    if (this.page?.key?.(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "g") this.going = performance.now();
    else if (event.key === "/") (this.page?.focus ?? this.main).focus();
    else if (event.key === "?") showKeys();
    else if (event.key === "t") this.turnTheme();
    else return;
    event.preventDefault();
  }
}

/** The page that the address names, and the lease that is open beside it. */
function readAddress() {
  const hash = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
  const [path, query = ""] = hash.split("?");
  const [first, ...rest] = path.split("/").map(decoded);
  const params = new URLSearchParams(query);
  let name = first === "" ? "overview" : (RENAMED[first] ?? first);
  if (!Object.hasOwn(PAGES, name) || (rest.length > 0 && name !== "leases")) name = "unknown";
  // Links of before had the lease behind the question mark.
  const lease = name === "leases" ? rest.join("/") || params.get("lease") || null : null;
  return { name, params, lease };
}

/** @param {string} id */
export function leaseAddress(id) {
  return `#/leases/${encodeURIComponent(id)}`;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Scrolls a strip sideways, and nothing else: scrolling to an element would also move where Tab begins.
 * @param {HTMLElement} link
 * @param {HTMLElement} strip
 */
function bringIntoSight(link, strip) {
  const start = link.offsetLeft - strip.offsetLeft;
  if (start < strip.scrollLeft) strip.scrollLeft = start - 12;
  else if (start + link.offsetWidth > strip.scrollLeft + strip.clientWidth) {
    strip.scrollLeft = start + link.offsetWidth - strip.clientWidth + 12;
  }
}

function readTheme() {
  const now = document.documentElement.getAttribute("data-theme");
  try {
    const kept = localStorage.getItem("tenure-theme");
    return kept !== null && THEMES.includes(kept) ? kept : (now ?? "auto");
  } catch {
    return now ?? "auto";
  }
}

new App().start();
