// The confirmation before something ends: names what will end, sends the epoch that was shown, and shows the daemon's
// answer beside the buttons.

import { Refusal, ask, path } from "./api.js";
import { byId, h, outside, replace, write } from "./dom.js";
import { count, span, unescaped, words } from "./text.js";

/** @typedef {import("./store.js").Lease} Lease */

const RESOURCES_SHOWN = 12;

/**
 * What an operator can do to a lease.
 * @typedef {object} Action
 * @property {string} verb
 * @property {string} key The key that asks for it.
 * @property {"danger" | "warn" | "good"} tone
 * @property {(lease: Lease) => string | null} refused Why not; null if it can be done.
 * @property {(lease: Lease) => string} effect
 */

/** @type {Record<string, Action>} */
export const ACTIONS = {
  drain: {
    verb: "Drain",
    key: "d",
    tone: "warn",
    refused: (lease) => {
      if (lease.mode === "permanent") return "a permanent lease has no grace period; revoke it";
      if (lease.standing === "reserved") return "the lease is reserved, not in use";
      if (lease.standing === "revoking") return "the lease is being revoked";
      return lease.standing === "draining" && lease.cause === "operator" ? "the lease is already draining" : null;
    },
    effect: (lease) =>
      `The holder is notified. After the grace period of ${span(lease.grace ?? 0)} the lease ends, also if the ` +
      "holder still sends heartbeats. Revive cancels it.",
  },
  revive: {
    verb: "Revive",
    key: "v",
    tone: "good",
    refused: (lease) => (lease.standing === "draining" ? null : "the lease is not draining"),
    effect: () => "The drain is cancelled: the lease lives as long as its holder renews it.",
  },
  revoke: {
    verb: "Revoke",
    key: "x",
    tone: "danger",
    refused: (lease) => (lease.standing === "revoking" ? "the lease is being revoked" : null),
    effect: () =>
      "The holder may not renew the lease any more. Its resources are free when the validity of its holder " +
      "ends, or when the holder acknowledges.",
  },
  reclaim: {
    verb: "Reclaim",
    key: "c",
    tone: "danger",
    refused: (lease) => (lease.standing === "revoking" ? null : "the lease is not being revoked"),
    effect: () =>
      "Its resources become free. This requires force until the finalizer, the validity of the holder and the " +
      "reclaim delay are over.",
  },
};

/** Why the caller may not; null if it may. @param {string | undefined} scope @param {string} needed */
export function scopeRefusal(scope, needed) {
  const order = ["read", "hold", "admin"];
  if (scope === undefined || order.indexOf(scope) >= order.indexOf(needed)) return null;
  return `needs scope ${needed}`;
}

/**
 * Asks before something is done.
 * @param {object} question
 * @param {string} question.title
 * @param {string} question.verb What the button says.
 * @param {"danger" | "warn" | "good"} question.tone
 * @param {(HTMLElement | string)[]} question.body
 * @param {() => Promise<void>} question.carryOut Rejects with what the daemon said.
 * @returns {Promise<boolean>} Whether it was done.
 */
export function confirm({ title, verb, tone, body, carryOut }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  const cancel = h("button", { type: "button", class: "button", data: { action: "cancel" } }, "Cancel");
  const accept = h("button", { type: "button", class: `button ${tone}`, data: { action: "confirm" } }, verb);
  const error = h("p", { class: "error", role: "alert" });
  replace(
    dialog,
    h("h2", { id: "confirm-title" }, title),
    h("div", { class: "confirm-body" }, body),
    error,
    h("div", { class: "confirm-buttons" }, cancel, accept),
  );
  dialog.showModal();
  // What ends something is never the button that Enter meets first.
  (tone === "good" ? accept : cancel).focus();
  return new Promise((resolve) => {
    let done = false;
    cancel.addEventListener("click", () => dialog.close());
    accept.addEventListener("click", async () => {
      accept.disabled = true;
      write(error, "");
      try {
        await carryOut();
        done = true;
        dialog.close();
      } catch (refusal) {
        write(error, refusal instanceof Refusal ? `${refusal.message} (${refusal.code})` : String(refusal));
        accept.disabled = false;
        accept.focus();
      }
    });
    dialog.addEventListener("close", () => resolve(done), { once: true });
  });
}

/** @param {string} name @param {HTMLElement | string} value */
function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

/**
 * Asks whether to do something to a lease, with what is known of it this moment.
 * @param {string} name Of the action.
 * @param {string} id
 * @param {import("./app.js").App} app
 */
export async function confirmAction(name, id, app) {
  const action = ACTIONS[name];
  const view = await ask(path(["v1", "leases", id]));
  app.store.put(view);
  const reason = h("input", { class: "field", id: "confirm-reason", maxlength: "200", autocomplete: "off" });
  const force = h("input", { type: "checkbox", id: "confirm-force" });
  const more = view.resources.length - RESOURCES_SHOWN;
  const waiters = view.waiters ?? [];
  const lease = app.store.leases.get(id);
  const done = await confirm({
    title: `${action.verb} this lease?`,
    verb: action.verb,
    tone: action.tone,
    body: [
      h("p", {}, lease ? action.effect(lease) : ""),
      h(
        "dl",
        { class: "facts" },
        fact("Lease", h("code", {}, view.lease_id)),
        fact("Holder", outside(view.holder, "strong")),
        fact(
          view.resources.length === 1 ? "Resource" : `${count(view.resources.length)} resources`,
          h(
            "ul",
            { class: "names" },
            view.resources
              .slice(0, RESOURCES_SHOWN)
              .map((/** @type {string} */ r) => h("li", {}, outside(unescaped(r)))),
            more > 0 && h("li", { class: "quiet" }, `and ${count(more)} more`),
          ),
        ),
        fact("Status", words(lease?.standing ?? view.state)),
        fact(
          "Waiting for it",
          waiters.length === 0
            ? h("span", { class: "quiet" }, "no one")
            : h(
                "ul",
                { class: "names" },
                waiters.map((/** @type {string} */ w) => h("li", {}, outside(w))),
              ),
        ),
        fact("Epoch", String(view.epoch)),
      ),
      h(
        "label",
        { class: "labelled", for: "confirm-reason" },
        "Reason, kept in the history (optional)",
        reason,
      ),
      name === "reclaim" &&
        h("label", { class: "check", for: "confirm-force" }, force, "by force (recorded in the history)"),
    ].filter((part) => part !== false),
    carryOut: async () => {
      /** @type {Record<string, unknown>} */
      const body = { epoch: view.epoch };
      if (reason.value.trim() !== "") body.reason = reason.value.trim();
      if (name === "reclaim" && force.checked) body.force = true;
      const after = await ask(path(["v1", "leases", id, name]), { method: "POST", body });
      app.store.put(after);
    },
  });
  if (done) app.say(`${action.verb}: done for lease ${view.lease_id}`);
}
