// Virtual rows: of a list of any length only what can be seen is in the document. A row stays with its item
// while the item moves, so that what runs in it goes on.

import { attribute, h } from "./dom.js";

/** After this long without a change the rows stand in order. */
const SETTLED_MS = 300;
/** Rows beyond the edge that are ready before they are scrolled to. */
const AHEAD = 6;

/**
 * @template R
 * @typedef {object} RowKind
 * @property {() => {element: HTMLElement, row: R}} make
 * @property {(row: R, id: string, index: number) => void} bind
 * @property {(row: R) => void} [release]
 */

/** @template R */
export class Rows {
  /**
   * @param {RowKind<R>} kind
   * @param {{name: string, onOpen: (id: string) => void, onActive?: (id: string | null) => void}} options
   */
  constructor(kind, { name, onOpen, onActive }) {
    this.kind = kind;
    this.name = name;
    this.onOpen = onOpen;
    this.onActive = onActive ?? (() => {});
    this.sizer = h("div", { class: "rows-sizer", role: "presentation" });
    this.viewport = h("div", { class: "rows", role: "rowgroup" }, this.sizer);
    /** @type {Map<string, {element: HTMLElement, row: R, top: number, index: number}>} */
    this.shown = new Map();
    /** @type {{element: HTMLElement, row: R, top: number, index: number}[]} */
    this.spare = [];
    this.length = 0;
    /** @type {(index: number) => string} */
    this.idAt = () => "";
    this.height = 0;
    /** @type {string | null} */
    this.active = null;
    this.activeIndex = 0;
    this.made = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.settling = undefined;
    /** The element that has the focus for all rows. @type {HTMLElement | null} */
    this.grid = null;
    this.viewport.addEventListener("scroll", () => this.refresh(), { passive: true });
    this.observer = new ResizeObserver(() => {
      this.height = 0;
      this.refresh();
    });
    this.observer.observe(this.viewport);
    this.sizer.addEventListener("click", (event) => {
      const id = this.idOf(event.target);
      if (id === null) return;
      this.activate(id);
      this.onOpen(id);
    });
  }

  /** @param {EventTarget | null} target @returns {string | null} */
  idOf(target) {
    const element = target instanceof Element ? target.closest("[data-row]") : null;
    return element?.getAttribute("data-row") ?? null;
  }

  /** Takes the keys of the element that holds header and rows. @param {HTMLElement} grid */
  attach(grid) {
    this.grid = grid;
    grid.addEventListener("keydown", (event) => this.key(event));
    grid.addEventListener("focus", () => {
      if (this.active === null && this.length > 0) this.activate(this.idAt(this.firstVisible()));
    });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.viewport.clientHeight / this.rowHeight()) - 1);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.go(this.currentIndex() + steps[event.key]);
    else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(this.length - 1);
    else if (event.key === "Enter" && this.active !== null) this.onOpen(this.active);
    else return;
    event.preventDefault();
  }

  currentIndex() {
    const shown = this.active === null ? undefined : this.shown.get(this.active);
    return shown ? shown.index : this.activeIndex;
  }

  /** Makes a row the active one and brings it into sight. @param {number} index */
  go(index) {
    if (this.length === 0) return;
    const to = Math.max(0, Math.min(this.length - 1, index));
    const height = this.rowHeight();
    const { scrollTop, clientHeight } = this.viewport;
    if (to * height < scrollTop) this.viewport.scrollTop = to * height;
    else if ((to + 1) * height > scrollTop + clientHeight)
      this.viewport.scrollTop = (to + 1) * height - clientHeight;
    this.refresh();
    this.activate(this.idAt(to));
  }

  /** @param {string | null} id */
  activate(id) {
    this.active = id;
    for (const [shownId, { element, index }] of this.shown) {
      const isActive = shownId === id;
      attribute(element, "aria-selected", isActive ? "true" : "false");
      if (isActive) {
        this.activeIndex = index;
        if (this.grid) attribute(this.grid, "aria-activedescendant", element.id);
      }
    }
    if (id === null && this.grid) attribute(this.grid, "aria-activedescendant", null);
    this.onActive(id);
  }

  rowHeight() {
    if (this.height === 0) {
      const height = parseFloat(getComputedStyle(this.viewport).getPropertyValue("--row-height"));
      this.height = height > 0 ? height : 34;
    }
    return this.height;
  }

  firstVisible() {
    return Math.min(Math.max(0, this.length - 1), Math.floor(this.viewport.scrollTop / this.rowHeight()));
  }

  /** @param {number} length @param {(index: number) => string} idAt */
  setItems(length, idAt) {
    this.length = length;
    this.idAt = idAt;
    this.viewport.style.setProperty("--rows", String(length));
    this.refresh();
  }

  /** Ids that can be seen. */
  visible() {
    return this.shown.keys();
  }

  refresh() {
    const height = this.rowHeight();
    const total = `${this.length * height}px`;
    if (this.sizer.style.height !== total) this.sizer.style.height = total;
    const first = Math.max(0, Math.floor(this.viewport.scrollTop / height) - AHEAD);
    const seen = Math.ceil(this.viewport.clientHeight / height) + 2 * AHEAD;
    const end = Math.min(this.length, first + seen);
    const wanted = new Map();
    for (let index = first; index < end; index += 1) wanted.set(this.idAt(index), index);
    for (const [id, entry] of this.shown) {
      if (wanted.has(id)) continue;
      this.shown.delete(id);
      entry.element.hidden = true;
      attribute(entry.element, "aria-selected", "false");
      this.kind.release?.(entry.row);
      this.spare.push(entry);
    }
    for (const [id, index] of wanted) this.show(id, index, height);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLED_MS);
  }

  /** Who hears the page instead of seeing it hears the document's order. */
  settle() {
    const inOrder = [...this.shown.values()].sort((a, b) => a.index - b.index);
    inOrder.forEach(({ element }, at) => {
      if (this.sizer.children[at] !== element) this.sizer.insertBefore(element, this.sizer.children[at]);
    });
  }

  /** @param {string} id @param {number} index @param {number} height */
  show(id, index, height) {
    let entry = this.shown.get(id);
    if (!entry) {
      entry = this.spare.pop() ?? { ...this.kind.make(), top: -1, index: -1 };
      const { element } = entry;
      if (element.id === "") {
        this.made += 1;
        element.id = `${this.name}-row-${this.made}`;
        this.sizer.append(element);
      }
      element.hidden = false;
      attribute(element, "data-row", id);
      const isActive = id === this.active;
      attribute(element, "aria-selected", isActive ? "true" : "false");
      if (isActive && this.grid) attribute(this.grid, "aria-activedescendant", element.id);
      this.shown.set(id, entry);
    }
    if (entry.top !== index * height) {
      entry.top = index * height;
      entry.element.style.transform = `translateY(${entry.top}px)`;
    }
    if (entry.index !== index) {
      entry.index = index;
      // The header is the first row.
      attribute(entry.element, "aria-rowindex", String(index + 2));
      attribute(entry.element, "data-odd", index % 2 === 1 ? "" : null);
    }
    this.kind.bind(entry.row, id, index);
  }

  destroy() {
    clearTimeout(this.settling);
    this.observer.disconnect();
    for (const { row } of this.shown.values()) this.kind.release?.(row);
  }
}
