// The pollers of a group beside its targets: state, number of targets, and what an operator can do.

import { ask, path } from "./api.js";
import { confirm, scopeRefusal } from "./confirm.js";
import { attribute, h, keyed, outside, replace, write } from "./dom.js";
import { count, shown } from "./text.js";

const POLLERS_SHOWN = 100;

/** What a status means. @type {Record<string, string>} */
const STATUS_WORDS = {
  joining: "waits until an earlier run of the same poller has ended",
  online: "polls its targets",
  leaving: "hands its targets over and stops",
  absent: "is away; its targets are kept for it",
  cordoned: "hands its targets over and takes none",
};

/**
 * @typedef {object} Poller
 * @property {string} instance
 * @property {string} name
 * @property {string} status
 * @property {number} weight
 * @property {number} owned How many targets it has.
 * @property {number} failing How many of them have polls that fail.
 */

/** Whether a poller takes targets; else why not. @param {Poller} poller @returns {string | null} */
export function takesNone({ status, weight }) {
  if (status === "online" || status === "joining") return weight > 0 ? null : "not in the group";
  return { cordoned: "cordoned", leaving: "leaving", absent: "away" }[status] ?? status;
}

export class Pollers {
  /**
   * @param {import("./app.js").App} app
   * @param {object} told
   * @param {(poller: string) => void} told.choose Only its targets are to be shown.
   * @param {() => void} told.done Something was asked of the daemon.
   */
  constructor(app, { choose, done }) {
    this.app = app;
    this.choose = choose;
    this.done = done;
    this.group = "";
    /** @type {Poller[]} */
    this.pollers = [];
    this.list = h("ul", { class: "pollers", data: { part: "pollers" } });
    this.more = h("p", { class: "quiet" });
    this.element = h(
      "section",
      { class: "card", "aria-label": "Pollers" },
      h("h2", {}, "Pollers"),
      this.list,
      this.more,
    );
  }

  /** @param {string} group @param {Poller[]} pollers @param {string} chosen Whose targets are shown alone. */
  draw(group, pollers, chosen) {
    this.group = group;
    this.pollers = pollers;
    const most = Math.max(1, ...pollers.map(({ owned }) => owned));
    const refused = scopeRefusal(this.app.scope(), "admin");
    keyed(
      this.list,
      pollers.slice(0, POLLERS_SHOWN),
      ({ instance }) => instance,
      () => this.make(),
      (element, poller) => this.update(element, poller, { most, refused, chosen }),
    );
    const more = pollers.length - POLLERS_SHOWN;
    write(this.more, more > 0 ? `and ${count(more)} more` : "");
  }

  make() {
    return h(
      "li",
      { class: "poller" },
      h(
        "div",
        { class: "poller-head" },
        h("button", { type: "button", class: "line-button", data: { part: "choose" } }),
        h("span", { class: "standing", data: { part: "status" } }),
      ),
      h("div", { class: "poller-bar", "aria-hidden": "true" }, h("i", {})),
      h(
        "div",
        { class: "poller-foot" },
        h("span", { class: "quiet", data: { part: "owned" } }),
        h("button", { type: "button", class: "button small", data: { part: "cordon" } }),
      ),
    );
  }

  /**
   * @param {HTMLElement} element
   * @param {Poller} poller
   * @param {{most: number, refused: string | null, chosen: string}} seen
   */
  update(element, poller, { most, refused, chosen }) {
    const part = (/** @type {string} */ name) =>
      /** @type {HTMLElement} */ (element.querySelector(`[data-part=${name}]`));
    attribute(element, "data-poller", poller.name);
    const head = part("choose");
    if (head.getAttribute("data-instance") !== poller.instance) {
      attribute(head, "data-instance", poller.instance);
      replace(
        head,
        outside(poller.name, "name"),
        poller.name !== poller.instance && outside(poller.instance, "quiet"),
      );
      head.onclick = () => this.choose(poller.name);
    }
    const isChosen = chosen === poller.name;
    attribute(head, "aria-pressed", isChosen ? "true" : "false");
    attribute(head, "title", isChosen ? "Show the targets of all pollers" : "Show only its targets");
    const status = part("status");
    attribute(status, "data-standing", poller.status);
    attribute(status, "title", STATUS_WORDS[poller.status] ?? null);
    write(status, poller.status);
    const bar = /** @type {HTMLElement} */ (element.querySelector("i"));
    bar.style.width = `${(100 * poller.owned) / most}%`;
    attribute(bar, "data-status", poller.status);
    const weight = poller.weight === 1 ? "" : `, weight ${count(poller.weight)}`;
    const failing = poller.failing === 0 ? "" : `, ${count(poller.failing)} failing`;
    const targets = `${count(poller.owned)} ${poller.owned === 1 ? "target" : "targets"}`;
    write(part("owned"), targets + failing + weight);
    const isCordoned = poller.status === "cordoned";
    const button = part("cordon");
    // A poller that is no member cannot be cordoned.
    button.hidden = poller.weight === 0 && !isCordoned;
    attribute(button, "data-action", isCordoned ? "uncordon" : "cordon");
    attribute(button, "aria-disabled", refused ? "true" : null);
    attribute(button, "title", refused);
    const verb = isCordoned ? "Uncordon" : "Cordon";
    attribute(button, "aria-label", `${verb} ${shown(poller.name)}`);
    write(button, verb);
    button.onclick = () => void this.steer(poller.name);
  }

  /** @param {string} name */
  async steer(name) {
    const poller = this.pollers.find((one) => one.name === name);
    const group = this.group;
    if (!poller || scopeRefusal(this.app.scope(), "admin")) return;
    const isCordoned = poller.status === "cordoned";
    const verb = isCordoned ? "Uncordon" : "Cordon";
    const others = this.pollers.filter((one) => one.name !== name && takesNone(one) === null);
    const targets = `${count(poller.owned)} ${poller.owned === 1 ? "target" : "targets"}`;
    const effect = isCordoned
      ? "The poller takes its share of the targets again."
      : others.length > 0
        ? `The poller hands its ${targets} over to the others and takes none until it is uncordoned.`
        : "The poller takes no new targets until it is uncordoned. " +
          `No other poller takes targets, so it keeps its ${targets} meanwhile.`;
    const done = await confirm({
      title: `${verb} this poller?`,
      verb,
      tone: isCordoned ? "good" : "warn",
      body: [
        h("p", {}, effect),
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Poller"),
          h("dd", {}, outside(poller.name, "strong")),
          h("dt", {}, "Instance"),
          h("dd", {}, outside(poller.instance)),
          h("dt", {}, "Group"),
          h("dd", {}, outside(group)),
        ),
      ],
      carryOut: async () => {
        await ask(path(["v1", "polling", group, verb.toLowerCase()]), {
          method: "POST",
          body: { poller: poller.name },
          key: crypto.randomUUID(),
        });
      },
    });
    if (done) this.app.say(`${verb}: done for ${shown(poller.name)}`);
    this.done();
  }
}
