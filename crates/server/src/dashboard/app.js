// The page as a whole: starts what keeps it true, shows the page that the address names, takes the keys that
// hold everywhere, and says how the connection is.

import { ask, keepPage, onSignedOut, presentToken, presentedToken } from "./api.js";
import { attribute, byId, h, replace, write } from "./dom.js";
import { Feed } from "./feed.js";
import { Freshener } from "./fresh.js";
import { showKeys } from "./keys.js";
import { openPalette } from "./palette.js";
import { Panel } from "./panel.js";
import { Pulse } from "./pulse.js";
import { Store } from "./store.js";
import { count, shown } from "./text.js";
import { mount as cluster } from "./pages/cluster.js";
import { mount as events } from "./pages/events.js";
import { mount as leases } from "./pages/leases.js";
import { mount as overview } from "./pages/overview.js";
import { mount as polling } from "./pages/polling.js";
import { mount as registrations } from "./pages/registrations.js";
import { mount as sessions } from "./pages/sessions.js";
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
 * @property {(params: URLSearchParams) => boolean} [renamed] Whether it took another address of itself.
 * @property {() => void} [unmount]
 */

/**
 * @typedef {(root: HTMLElement, params: URLSearchParams, app: App) => Mounted} Mount
 * @type {Record<string, {title: string, mount: Mount}>}
 */
export const PAGES = {
  overview: { title: "Overview", mount: overview },
  leases: { title: "Leases", mount: leases },
  why: { title: "Why", mount: why },
  registrations: { title: "Registrations", mount: registrations },
  sessions: { title: "Sessions", mount: sessions },
  polling: { title: "Polling", mount: polling },
  events: { title: "Events", mount: events },
  cluster: { title: "Cluster", mount: cluster },
};

const THEMES = ["auto", "light", "dark"];
const THEME_WORDS = { auto: "as the system has them", light: "light", dark: "dark" };
const SAYS_MS = 5_000;
/** Whoever types is not interrupted at every letter. */
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
    window.addEventListener("hashchange", () => this.route());
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
    this.pulse.listen(() => (byId("nav-cluster").hidden = !this.pulse.isNode));
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
    const hash = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
    const [path, query = ""] = hash.split("?");
    const name = path in PAGES ? path : "overview";
    const params = new URLSearchParams(query);
    if (this.feed.state === "signed-out") return;
    if (name === this.name && this.page?.renamed?.(params)) return;
    this.page?.unmount?.();
    this.main.replaceChildren();
    this.main.className = `page page-${name}`;
    this.main.scrollTop = 0;
    this.name = name;
    attribute(this.main, "aria-label", PAGES[name].title);
    document.title = `${PAGES[name].title} · Tenure`;
    for (const link of document.querySelectorAll(".nav a")) {
      const isHere = link.getAttribute("data-page") === name;
      attribute(link, "aria-current", isHere ? "page" : null);
      if (isHere && link instanceof HTMLElement && link.parentElement)
        bringIntoSight(link, link.parentElement);
    }
    this.page = PAGES[name].mount(this.main, params, this);
    this.announce(PAGES[name].title);
  }

  /** @param {string} id */
  openLease(id) {
    this.panel.open(id);
  }

  focusPage() {
    const grid = this.main.querySelector("[role=grid]");
    (grid instanceof HTMLElement ? grid : this.main).focus();
  }

  /** Says something in passing. @param {string} text */
  say(text) {
    const said = h("p", { class: "said" }, text);
    byId("says").append(said);
    setTimeout(() => said.remove(), SAYS_MS);
  }

  /** Says something to those who hear the page: numbers that run do not. @param {string} text */
  announce(text) {
    clearTimeout(this.announcing);
    this.announcing = setTimeout(() => write(byId("announce"), text), ANNOUNCED_AFTER_MS);
  }

  drawBadges() {
    const faces = this.store.faces;
    /** @type {[string, number][]} */
    const badges = [
      ["leases", this.store.leases.size],
      ["registrations", faces.get("registrations") ?? 0],
      ["sessions", faces.get("streams") ?? 0],
      ["polling", [...this.store.polled.values()].reduce((sum, number) => sum + number, 0)],
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
    write(byId("connection-words"), state === "loading" && listed > 0 ? `reading, ${count(listed)}` : words);
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
      write(banner, "The daemon does not answer. Reconnecting; what you see is from before.");
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

  /** Ends the cookie or forgets the token; what the daemon then lets anybody see, is seen. */
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
    // What was seen with a credential is not left for those without.
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
        h("p", {}, "This daemon wants to know who asks. On its machine, type:"),
        h("pre", { class: "command", tabindex: "0" }, h("code", {}, "tenure open")),
        h("p", {}, "It opens this page signed in, by a code that works once. Or present a token:"),
        h("label", { class: "labelled", for: "token" }, "Token", token),
        h("p", { class: "error", role: "alert" }, wasTried && "That token is not accepted."),
        h("p", { class: "quiet" }, "It is kept in the memory of this tab only."),
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
      this.panel.close();
      return;
    }
    const names = Object.keys(PAGES);
    const jumps = Object.fromEntries(names.map((name) => [name[0], name]));
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
