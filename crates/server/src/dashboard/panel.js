// One lease in full, beside the table of leases: every field, what an operator can do to it, and its history.

import { Refusal, ask, path, serverNow } from "./api.js";
import { ACTIONS, confirmAction, scopeRefusal } from "./confirm.js";
import { Countdown, phaseOf } from "./countdown.js";
import { attribute, byId, h, keyed, outside, replace, setFacts, write } from "./dom.js";
import { applicationOf } from "./store.js";
import { ago, count, json, moment, shown, span, unescaped, words } from "./text.js";

/** The daemon lists waiters only in the view of one lease. */
const ASK_EVERY_MS = 3_000;

/** @typedef {import("./store.js").Lease} Lease */

export class Panel {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = byId("panel");
    /** @type {string | null} */
    this.id = null;
    /** @type {HTMLElement | null} Where the focus was. */
    this.cameFrom = null;
    this.countdown = new Countdown("large");
    this.drawn = -1;
    app.store.listen((changes) => {
      if (this.id !== null && (changes.all || changes.ids.has(this.id))) this.update();
    });
    setInterval(() => {
      if (this.id !== null && !document.hidden && app.feed.state === "live") void this.read(this.id);
    }, ASK_EVERY_MS);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.app.closeLease();
      }
    });
  }

  /** @param {string} id */
  open(id) {
    if (this.id === null && document.activeElement instanceof HTMLElement)
      this.cameFrom = document.activeElement;
    this.id = id;
    this.drawn = -1;
    this.build(id);
    this.element.hidden = false;
    document.body.classList.add("with-panel");
    this.update();
    this.title?.focus({ preventScroll: true });
    void this.read(id);
  }

  close() {
    if (this.id === null) return;
    this.id = null;
    this.countdown.release();
    this.element.hidden = true;
    document.body.classList.remove("with-panel");
    if (this.cameFrom?.isConnected) this.cameFrom.focus();
    else this.app.focusPage();
    this.cameFrom = null;
  }

  /** @param {string} id */
  build(id) {
    this.badge = h("span", { class: "standing" });
    this.title = h("h2", { id: "panel-title", tabindex: "-1" });
    this.error = h("p", { class: "error", role: "alert" });
    this.facts = h("dl", { class: "facts", data: { part: "facts" } });
    this.resources = h("ul", { class: "names resource-names" });
    this.waiters = h(
      "div",
      { class: "waiters", data: { part: "waiters" } },
      h("span", { class: "quiet" }, "…"),
    );
    this.attachment = h("pre", { class: "json", tabindex: "0", "aria-label": "Attachment" });
    /** @type {Record<string, {button: HTMLButtonElement, why: HTMLElement}>} */
    this.buttons = {};
    const actions = Object.entries(ACTIONS).map(([name, { verb, tone }]) => {
      const why = h("span", { class: "why-not", id: `why-not-${name}` });
      const button = h(
        "button",
        {
          type: "button",
          class: `button ${tone}`,
          data: { action: name },
          "aria-describedby": why.id,
          on: { click: () => this.act(name) },
        },
        verb,
      );
      /** @type {any} */ (this.buttons)[name] = { button, why };
      return h("div", { class: "action" }, button, why);
    });
    replace(
      this.element,
      h(
        "div",
        { class: "panel-head" },
        this.badge,
        h(
          "button",
          {
            class: "icon-button close",
            type: "button",
            "aria-label": "Close",
            data: { action: "close" },
            on: { click: () => this.app.closeLease() },
          },
          "×",
        ),
      ),
      this.title,
      h("p", { class: "panel-id" }, h("code", {}, id)),
      this.countdown.element,
      h("div", { class: "actions", role: "group", "aria-label": "Actions" }, actions),
      this.error,
      h("h3", {}, "Resources"),
      this.resources,
      h("h3", {}, "Waiting for it"),
      this.waiters,
      h("h3", {}, "Fields"),
      this.facts,
      h("h3", {}, "Attachment"),
      this.attachment,
      h(
        "p",
        {},
        h("a", { class: "story-link", href: `#/why?lease=${encodeURIComponent(id)}` }, "History →"),
      ),
    );
    attribute(this.element, "data-lease-id", id);
    attribute(this.element, "aria-label", `Lease ${id}`);
  }

  /** @param {string} name */
  async act(name) {
    if (this.id === null || this.buttons?.[name].button.getAttribute("aria-disabled") === "true") return;
    if (this.error) write(this.error, "");
    try {
      await confirmAction(name, this.id, this.app);
    } catch (refusal) {
      const said = refusal instanceof Refusal ? `${refusal.message} (${refusal.code})` : String(refusal);
      if (this.error) write(this.error, said);
    }
  }

  /** @param {string} id */
  async read(id) {
    try {
      const view = await ask(path(["v1", "leases", id]));
      if (this.id !== id) return;
      this.app.store.put(view);
      this.showWaiters(view.waiters ?? []);
      if (!this.app.store.leases.has(id)) this.showEnded(view);
    } catch (error) {
      if (this.id !== id || !(error instanceof Refusal) || error.status === 0) return;
      if (this.error) write(this.error, `${error.message} (${error.code})`);
    }
  }

  /** @param {string[]} waiters */
  showWaiters(waiters) {
    if (!this.waiters) return;
    if (waiters.length === 0) {
      replace(this.waiters, h("span", { class: "quiet" }, "no one"));
    } else {
      replace(
        this.waiters,
        h(
          "ol",
          { class: "names" },
          waiters.map((waiter) => h("li", {}, outside(waiter))),
        ),
      );
    }
  }

  update() {
    const lease = this.id === null ? undefined : this.app.store.leases.get(this.id);
    if (!lease) {
      if (this.id !== null && this.drawn >= 0) void this.read(this.id);
      return;
    }
    if (lease.revision === this.drawn) return;
    this.drawn = lease.revision;
    this.showHead(lease.standing, lease.mode, lease.resources);
    this.countdown.set(phaseOf(lease));
    for (const [name, { refused }] of Object.entries(ACTIONS)) {
      this.allow(name, scopeRefusal(this.app.scope(), "admin") ?? refused(lease));
    }
    this.showFacts([
      ["Holder", outside(lease.holder)],
      ["State", words(lease.state)],
      ["Liveness", lease.state === "active" ? lease.standing : "—"],
      ["Drains because", causeWords(lease.cause)],
      ["Mode", lease.mode],
      ["Application", lease.application],
      ["Epoch", String(lease.epoch)],
      ["Fencing token", lease.fence === null ? "—" : String(lease.fence)],
      ["TTL", lease.ttl === null ? "—" : span(lease.ttl)],
      ["Grace", lease.grace === null ? "—" : span(lease.grace)],
      ["Granted", since(lease.granted)],
      ["Last renewal", since(lease.seen)],
      ["Session", lease.session === null ? "—" : sessionLink(lease.session)],
      ["Reason", lease.reason === null ? "—" : reason(lease.reason, lease.reasonText)],
      ["As of", `position ${count(lease.lsn)}`],
    ]);
    if (this.attachment) write(this.attachment, lease.attachment === null ? "none" : json(lease.attachment));
  }

  /** @param {any} view A lease that is over. */
  showEnded(view) {
    this.showHead(view.state, view.mode, view.resources);
    this.countdown.set({ endsAt: null, phaseMs: null, tone: "over", endless: `${words(view.state)}` });
    for (const name of Object.keys(ACTIONS)) {
      this.allow(name, scopeRefusal(this.app.scope(), "admin") ?? "the lease has ended");
    }
    this.showFacts([
      ["Holder", outside(view.holder)],
      ["State", words(view.state)],
      ["Reason", view.reason === null ? "—" : reason(view.reason, view.reason_text)],
      ["Ended", view.ended_at ? since(Date.parse(view.ended_at)) : "—"],
      ["Granted", since(Date.parse(view.granted_at))],
      ["Mode", view.mode],
      ["Application", applicationOf(view) ?? "—"],
      ["Epoch", String(view.epoch)],
      ["Fencing token", String(view.fence)],
    ]);
  }

  /** @param {string} standing @param {string} mode @param {string[]} resources */
  showHead(standing, mode, resources) {
    if (!this.badge || !this.title || !this.resources) return;
    attribute(this.badge, "data-standing", standing);
    write(this.badge, mode === "permanent" && standing === "alive" ? "alive, permanent" : words(standing));
    replace(
      this.title,
      outside(resources[0] === undefined ? "no resource" : unescaped(resources[0])),
      resources.length > 1 && ` +${resources.length - 1}`,
    );
    keyed(
      this.resources,
      resources,
      (name) => name,
      (name) => h("li", {}, h("a", { href: `#/why?resource=${encodeURIComponent(name)}` }, outside(unescaped(name)))),
    );
  }

  /** @param {string} name @param {string | null} refused */
  allow(name, refused) {
    const { button, why } = /** @type {any} */ (this.buttons)[name];
    attribute(button, "aria-disabled", refused === null ? null : "true");
    write(why, refused ?? "");
    // The last step is offered only where it is the next one.
    if (name === "reclaim")
      button.parentElement.hidden = this.badge?.getAttribute("data-standing") !== "revoking";
  }

  /** @param {[string, HTMLElement | string][]} facts */
  showFacts(facts) {
    if (this.facts) setFacts(this.facts, facts);
  }
}

/** Why a lease drains. @param {string | null} cause */
export function causeWords(cause) {
  return cause === "operator" ? "an operator drained it" : (cause ?? "—");
}

/** @param {number | null} at Wall time of the daemon. */
function since(at) {
  if (at === null) return "—";
  return h("time", { datetime: new Date(at).toISOString(), title: moment(at) }, `${ago(serverNow() - at)}`);
}

/** @param {string} session */
function sessionLink(session) {
  return h("a", { href: `#/why?session=${encodeURIComponent(session)}` }, shown(session));
}

/** @param {string} code @param {string | null} text */
function reason(code, text) {
  return h("span", {}, words(code), text === null ? null : [": ", outside(text)]);
}
