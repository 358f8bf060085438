// A pool as a grid of slots: one cell each, coloured by standing. A cell that is pointed at or focused shows its
// holder. One cell of a grid is in the tab order; arrows move among the rest.

import { attribute, h, write } from "./dom.js";
import { count, left, shown } from "./text.js";

/** More cells than this are counted, not drawn. */
const CELLS_MAX = 480;

const tip = h("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
document.body.append(tip);

/** @param {HTMLElement} cell @param {string} text */
function showTip(cell, text) {
  write(tip, text);
  tip.hidden = false;
  attribute(cell, "aria-describedby", null);
  const box = cell.getBoundingClientRect();
  const x = Math.max(
    8,
    Math.min(window.innerWidth - tip.offsetWidth - 8, box.left + box.width / 2 - tip.offsetWidth / 2),
  );
  const y = box.top - tip.offsetHeight - 6;
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y < 8 ? box.bottom + 6 : y)}px)`;
}

/** The cell that the tip describes. @type {{slots: Slots, index: number} | null} */
let pointed = null;

export function hideTip() {
  tip.hidden = true;
  pointed = null;
}

/** The lease that the tip describes, so that its time left is read again. @returns {string[]} */
export function pointedLeases() {
  const id = pointed?.slots.leaseAt(pointed.index);
  return id ? [id] : [];
}

export class Slots {
  /** @param {string} pool @param {import("./app.js").App} app */
  constructor(pool, app) {
    this.pool = pool;
    this.app = app;
    this.size = -1;
    /** @type {HTMLButtonElement[]} */
    this.cells = [];
    this.current = 0;
    this.use = h("span", { class: "pool-use" });
    this.grid = h("div", { class: "slots", role: "group", "aria-label": `Slots of ${shown(pool)}` });
    this.more = h("p", { class: "quiet pool-more", hidden: true });
    this.element = h(
      "section",
      { class: "pool", data: { pool } },
      h("h3", { class: "pool-name" }, h("bdi", {}, shown(pool)), this.use),
      this.grid,
      this.more,
    );
    this.grid.addEventListener("click", (event) => this.open(event.target));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.grid.addEventListener("focusin", (event) => this.point(event.target));
    this.grid.addEventListener("focusout", hideTip);
    this.grid.addEventListener("pointerover", (event) => this.point(event.target));
    this.grid.addEventListener("pointerleave", hideTip);
  }

  /** @param {EventTarget | null} target */
  indexOf(target) {
    return target instanceof HTMLElement && target.dataset.slot ? Number(target.dataset.slot) - 1 : -1;
  }

  /** @param {number} index */
  leaseAt(index) {
    return this.app.store.byResource.get(`${this.pool}/${index + 1}`);
  }

  /** @param {EventTarget | null} target */
  open(target) {
    const index = this.indexOf(target);
    const id = index < 0 ? undefined : this.leaseAt(index);
    if (id) this.app.openLease(id);
  }

  /** @param {EventTarget | null} target */
  point(target) {
    const index = this.indexOf(target);
    if (index < 0) return hideTip();
    pointed = { slots: this, index };
    this.describe(index);
  }

  /** @param {number} index */
  describe(index) {
    const id = this.leaseAt(index);
    const lease = id ? this.app.store.leases.get(id) : undefined;
    const remaining = lease?.endsAt ? lease.endsAt - performance.now() : 0;
    // Past its deadline and still alive, it was renewed; the new deadline is read soon.
    const rest = remaining > 0 ? `, ${left(remaining)} left` : "";
    const words = lease ? `${shown(lease.holder)} — ${lease.standing}${rest}` : "free";
    showTip(this.cells[index], `${shown(this.pool)}/${index + 1}: ${words}`);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const across = Math.max(1, Math.round(this.grid.clientWidth / (this.cells[0]?.offsetWidth + 4 || 20)));
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(this.cells.length - 1, this.current + steps[event.key]));
    attribute(this.cells[this.current], "tabindex", "-1");
    attribute(this.cells[to], "tabindex", "0");
    this.current = to;
    this.cells[to].focus();
  }

  /** @param {{size: number, free: number, removed: boolean}} pool */
  update({ size, removed }) {
    if (size !== this.size) this.build(size);
    const { store } = this.app;
    let used = 0;
    this.cells.forEach((cell, index) => {
      const id = store.byResource.get(`${this.pool}/${index + 1}`);
      const lease = id ? store.leases.get(id) : undefined;
      if (lease) used += 1;
      const standing = lease
        ? lease.mode === "permanent" && lease.standing === "alive"
          ? "permanent"
          : lease.standing
        : "free";
      if (cell.dataset.standing === standing && cell.dataset.leaseId === (id ?? "")) return;
      cell.dataset.standing = standing;
      cell.dataset.leaseId = id ?? "";
      const who = lease ? `, held by ${shown(lease.holder)}` : "";
      attribute(cell, "aria-label", `${shown(this.pool)}/${index + 1}: ${standing}${who}`);
    });
    for (let number = this.cells.length + 1; number <= size; number += 1) {
      if (store.byResource.has(`${this.pool}/${number}`)) used += 1;
    }
    write(this.use, `${count(used)} of ${count(size)}${removed ? ", removed" : ""}`);
    if (pointed?.slots === this && this.cells[pointed.index]) this.describe(pointed.index);
  }

  /** @param {number} size */
  build(size) {
    this.size = size;
    const drawn = Math.min(size, CELLS_MAX);
    this.cells = Array.from({ length: drawn }, (_, index) =>
      h("button", {
        type: "button",
        class: "slot",
        tabindex: index === 0 ? "0" : "-1",
        data: { slot: index + 1 },
      }),
    );
    this.current = 0;
    if (pointed?.slots === this) hideTip();
    this.grid.replaceChildren(...this.cells);
    attribute(this.grid, "data-dense", size > 64 ? "" : null);
    this.more.hidden = size <= drawn;
    write(this.more, `and ${count(size - drawn)} more`);
  }
}
