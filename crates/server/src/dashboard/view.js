// An order over the leases that pass a filter, kept as they change: a change moves one entry, it sorts
// nothing.

import { unescaped } from "./text.js";

/**
 * @typedef {import("./store.js").Lease} Lease
 * @typedef {{id: string, granted: number, key: number | string | null}} Entry `granted` is a position.
 * @typedef {{text: string, standing: string, mode: string, application: string}} Filter
 */

/** More changes than this at once are cheaper to sort than to place. */
const PLACED_MAX = 300;

/** Position of the grant, which is the number in a lease's id. @param {string} id */
function positionOf(id) {
  return Number(id.slice(id.indexOf("-") + 1));
}

/** What each column sorts by. @type {Record<string, (lease: Lease) => number | string | null>} */
export const KEYS = {
  resources: (lease) => lease.resources[0] ?? "",
  id: (lease) => positionOf(lease.id),
  holder: (lease) => lease.holder,
  standing: (lease) => ["revoking", "draining", "reserved", "alive"].indexOf(lease.standing),
  left: (lease) => lease.endsAt,
  mode: (lease) => lease.mode,
  application: (lease) => lease.application,
  epoch: (lease) => lease.epoch,
  fence: (lease) => lease.fence,
  granted: (lease) => lease.granted,
};

/** @param {Lease} lease */
function haystack(lease) {
  lease.haystack ??= [
    ...[lease.id, lease.holder, lease.session ?? "", lease.reason ?? ""],
    ...lease.resources,
    ...lease.resources.map(unescaped),
  ]
    .join("\n")
    .toLowerCase();
  return lease.haystack;
}

/** @param {Filter} filter @returns {(lease: Lease) => boolean} */
export function matcher(filter) {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return (lease) =>
    (filter.standing === "" || lease.standing === filter.standing) &&
    (filter.mode === "" || lease.mode === filter.mode) &&
    (filter.application === "" || lease.application === filter.application) &&
    words.every((word) => haystack(lease).includes(word));
}

export class View {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {Map<string, Entry>} */
    this.placed = new Map();
    /** @type {Filter} */
    this.filter = { text: "", standing: "", mode: "", application: "" };
    this.matches = matcher(this.filter);
    this.column = "granted";
    this.descending = true;
  }

  /** @param {Partial<Filter>} part */
  setFilter(part) {
    this.filter = { ...this.filter, ...part };
    this.matches = matcher(this.filter);
    this.rebuild();
  }

  /** @param {string} column @param {boolean} descending */
  setOrder(column, descending) {
    this.column = column;
    this.descending = descending;
    this.rebuild();
  }

  /** @param {Entry} a @param {Entry} b */
  compare(a, b) {
    // What has no value stands last whichever way the order runs.
    if (a.key === null || b.key === null) {
      if (a.key !== b.key) return a.key === null ? 1 : -1;
    } else if (a.key !== b.key) {
      return a.key < b.key === this.descending ? 1 : -1;
    }
    if (a.granted === b.granted) return a.id < b.id ? -1 : a.id === b.id ? 0 : 1;
    return a.granted < b.granted === this.descending ? 1 : -1;
  }

  rebuild() {
    const key = KEYS[this.column];
    this.entries = [];
    this.placed.clear();
    for (const lease of this.store.leases.values()) {
      if (!this.matches(lease)) continue;
      const entry = { id: lease.id, granted: positionOf(lease.id), key: key(lease) };
      this.entries.push(entry);
      this.placed.set(lease.id, entry);
    }
    this.entries.sort((a, b) => this.compare(a, b));
  }

  /** @param {import("./store.js").Changes} changes @returns {boolean} Whether the order may have changed. */
  update(changes) {
    if (changes.all || changes.ids.size > PLACED_MAX) {
      this.rebuild();
      return true;
    }
    let moved = false;
    const key = KEYS[this.column];
    for (const id of changes.ids) {
      const lease = this.store.leases.get(id);
      const before = this.placed.get(id);
      const now = lease && this.matches(lease) ? key(lease) : undefined;
      if (before && now === before.key) continue;
      if (before) {
        this.entries.splice(this.place(before), 1);
        this.placed.delete(id);
        moved = true;
      }
      if (now !== undefined) {
        const entry = { id, granted: positionOf(id), key: now };
        this.entries.splice(this.place(entry), 0, entry);
        this.placed.set(id, entry);
        moved = true;
      }
    }
    return moved;
  }

  /** Where an entry is, or belongs. @param {Entry} entry */
  place(entry) {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(this.entries[middle], entry) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
