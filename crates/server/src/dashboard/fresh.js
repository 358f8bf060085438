// Heartbeats write no events, so a deadline is only known by asking: reads again what is being looked at, at
// a modest rate, the most doubtful first.

import { Refusal, ask, path } from "./api.js";

const LOOK_EVERY_MS = 250;
const STARTS_PER_LOOK = 3;
const UNDER_WAY_MAX = 4;
const SWEEP_EVERY_MS = 2_000;
const SWEEP_PAGE = 500;

export class Freshener {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    /** @type {() => Iterable<string>} Ids that are being looked at. */
    this.visible = () => [];
    /** @type {Set<string>} */
    this.underWay = new Set();
    /** @type {Set<string>} Asked for by name, whether visible or not. */
    this.wanted = new Set();
    /** @type {Map<string, number>} When one was asked for last. */
    this.asked = new Map();
    this.running = () => true;
    /** An order by deadline needs those of all leases: a page of them every two seconds. */
    this.sweeping = false;
    /** @type {string | null} */
    this.cursor = null;
    store.wanted = (id) => this.wanted.add(id);
  }

  start() {
    setInterval(() => this.look(), LOOK_EVERY_MS);
    setInterval(() => void this.sweep(), SWEEP_EVERY_MS);
  }

  async sweep() {
    if (!this.sweeping || document.hidden || !this.running()) return;
    try {
      const page = await ask(path(["v1", "leases"], { limit: SWEEP_PAGE, cursor: this.cursor }));
      for (const view of page.leases) {
        view.answeredAt = page.answeredAt;
        this.store.put(view);
      }
      this.cursor = page.next_cursor;
    } catch {
      this.cursor = null;
    }
  }

  look() {
    if (document.hidden || !this.running()) return;
    const now = performance.now();
    const due = [];
    for (const id of this.visible()) {
      const lease = this.store.leases.get(id);
      const doubt = lease ? doubtOf(lease, now, this.asked.get(id) ?? 0) : 0;
      if (doubt > 1 && !this.underWay.has(id)) due.push({ id, doubt });
    }
    due.sort((a, b) => b.doubt - a.doubt);
    const next = [...this.wanted, ...due.map(({ id }) => id)];
    for (const id of next.slice(0, Math.min(STARTS_PER_LOOK, UNDER_WAY_MAX - this.underWay.size))) {
      this.wanted.delete(id);
      void this.read(id);
    }
    if (this.asked.size > 2000) this.asked.clear();
  }

  /** @param {string} id */
  async read(id) {
    if (this.underWay.has(id)) return;
    this.underWay.add(id);
    this.asked.set(id, performance.now());
    try {
      const view = await ask(path(["v1", "leases", id]));
      this.store.put(view);
    } catch (error) {
      if (error instanceof Refusal && (error.status === 404 || error.status === 410)) {
        this.store.forget(id, this.store.lsn);
      }
    } finally {
      this.underWay.delete(id);
    }
  }
}

/**
 * How doubtful what is known of a lease is; above 1 it is worth asking.
 * @param {import("./store.js").Lease} lease
 * @param {number} now
 * @param {number} askedAt
 */
function doubtOf(lease, now, askedAt) {
  const age = now - Math.max(askedAt, lease.readAt);
  if (!lease.sure) return askedAt === 0 ? 100 : age / 1000;
  if (lease.endsAt === null) return 0;
  // Past its deadline and nothing happened: it was renewed.
  if (lease.endsAt < now) return age / 500;
  const patience = Math.min(10_000, Math.max(1_000, (lease.phaseMs ?? 10_000) / 6));
  return age / (lease.standing === "alive" ? patience : 5_000);
}
