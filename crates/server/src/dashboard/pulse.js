// The daemon in numbers, every two seconds: its status, and rates and quantiles from what its counters did
// meanwhile. Asks nothing while nobody looks.

import { Refusal, ask, askText } from "./api.js";

const EVERY_MS = 2_000;
/** Samples that a plot shows: three minutes. */
export const SAMPLES = 90;
/** Samples over which a quantile is taken. */
const WINDOW = 5;

/**
 * @typedef {Record<string, number | null>} Sample
 * @typedef {{at: number, counters: Map<string, number>, heard: number}} Reading
 */

/** The text that Prometheus reads, as a map from name and labels to value. @param {string} text */
export function parseMetrics(text) {
  /** @type {Map<string, number>} */
  const values = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line[0] === "#") continue;
    const space = line.lastIndexOf(" ");
    values.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return values;
}

/** What only a node of a cluster counts: 1 where it leads. @param {Map<string, number>} counters */
export function leadership(counters) {
  return counters.get("tenure_cluster_leader") ?? counters.get("tenure_cluster_writer");
}

/** @param {Map<string, number>} counters */
function isNode(counters) {
  return leadership(counters) !== undefined;
}

/** @param {Map<string, number>} values @param {string} name @param {string} [label] */
function sum(values, name, label) {
  let total = 0;
  for (const [key, value] of values) {
    if (key.startsWith(`${name}{`) || key === name) total += !label || key.includes(label) ? value : 0;
  }
  return total;
}

/**
 * Values that shares of what happened between two readings did not exceed, within a bucket by proportion.
 * @param {Map<string, number>} now
 * @param {Map<string, number>} then
 * @param {string} name
 * @param {number[]} shares
 * @returns {(number | null)[]}
 */
export function quantiles(now, then, name, shares) {
  const prefix = `${name}_bucket{le="`;
  /** @type {{bound: number, count: number}[]} */
  const buckets = [];
  for (const [key, value] of now) {
    if (!key.startsWith(prefix)) continue;
    const bound = key.slice(prefix.length, key.indexOf('"', prefix.length));
    buckets.push({ bound: bound === "+Inf" ? Infinity : Number(bound), count: value - (then.get(key) ?? 0) });
  }
  const total = buckets.at(-1)?.count ?? 0;
  return shares.map((share) => {
    if (total <= 0) return null;
    const index = buckets.findIndex(({ count }) => count >= share * total);
    const below = index > 0 ? buckets[index - 1] : { bound: 0, count: 0 };
    const { bound, count } = buckets[index];
    if (bound === Infinity) return below.bound;
    return (
      below.bound + ((bound - below.bound) * (share * total - below.count)) / Math.max(1, count - below.count)
    );
  });
}

export class Pulse {
  /** @param {import("./store.js").Store} store @param {import("./feed.js").Feed} feed */
  constructor(store, feed) {
    this.store = store;
    this.feed = feed;
    /** @type {any} The newest status. */
    this.status = null;
    /** @type {boolean | null} Whether the daemon is a node of a cluster; null: unknown. */
    this.isNode = null;
    /** Targets of pollers, of all groups. */
    this.targets = 0;
    /** @type {Sample[]} */
    this.samples = [];
    /** @type {Reading[]} */
    this.readings = [];
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {() => void} listener @returns {() => void} */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start() {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.beat();
    });
    void this.beat();
  }

  /** Forgets what another run of the daemon counted. */
  reset() {
    this.readings = [];
    void this.beat();
  }

  async beat() {
    clearTimeout(this.timer);
    if (!document.hidden && this.feed.state === "live") {
      try {
        const [status, text] = await Promise.all([ask("/v1/status"), askText("/metrics")]);
        this.status = status;
        const counters = parseMetrics(text);
        this.isNode = isNode(counters);
        this.read(counters);
        await this.countTargets().catch(() => {});
        this.listeners.forEach((listener) => listener());
      } catch (error) {
        if (error instanceof Refusal && error.status === 0) this.feed.doubt();
      }
    }
    clearTimeout(this.timer);
    if (!document.hidden) this.timer = setTimeout(() => void this.beat(), EVERY_MS);
  }

  /** Targets of all groups, polled or not: what the page *Polling* lists. */
  async countTargets() {
    if (!this.store.applications.has("polling") && this.targets === 0) return;
    const { groups } = await ask("/v1/polling");
    const states = ["owned", "uncertain", "draining", "unowned", "abandoned"];
    const inGroup = (/** @type {any} */ group) => states.reduce((sum, state) => sum + (group[state] ?? 0), 0);
    this.targets = groups.reduce((/** @type {number} */ sum, /** @type {any} */ group) => sum + inGroup(group), 0);
  }

  /** Whether the daemon is a node, also while there is no leader and nothing else can be read. */
  async learn() {
    if (this.isNode !== null) return this.isNode;
    try {
      this.isNode = isNode(parseMetrics(await askText("/metrics")));
      this.listeners.forEach((listener) => listener());
    } catch {
      // Asked again by whoever wants to know.
    }
    return this.isNode;
  }

  /** @param {Map<string, number>} counters */
  read(counters) {
    const now = { at: performance.now(), counters, heard: this.store.heard };
    const last = this.readings.at(-1);
    const total = (/** @type {Reading} */ { counters: values }) => sum(values, "tenure_grants_total");
    // Counters that fell are those of another run.
    if (last && total(now) < total(last)) this.readings = [];
    const before = this.readings.at(-1);
    this.readings.push(now);
    if (this.readings.length > WINDOW + 1) this.readings.shift();
    if (!before || now.at - before.at < 100) return;
    const secs = (now.at - before.at) / 1000;
    // After a pause a mean over all of it would hide what it was made of.
    if (secs > 3 * (EVERY_MS / 1000)) this.samples.push({});
    const rate = (/** @type {string} */ name, /** @type {string} */ label = "") =>
      Math.max(0, (sum(now.counters, name, label) - sum(before.counters, name, label)) / secs);
    const then = this.readings[0].counters;
    const [syncP50, syncP99] = quantiles(counters, then, "tenure_sync_seconds", [0.5, 0.99]);
    const [lateP50, lateP99] = quantiles(counters, then, "tenure_expiry_lateness_seconds", [0.5, 0.99]);
    const [marginP1, marginP50] = quantiles(counters, then, "tenure_renewal_margin_seconds", [0.01, 0.5]);
    this.samples.push({
      grants: rate("tenure_grants_total", 'outcome="granted"'),
      refusals: rate("tenure_grants_total", 'outcome="rejected"'),
      heartbeats: rate("tenure_heartbeats_total", 'outcome="renewed"'),
      ends: rate("tenure_ends_total"),
      events: Math.max(0, (now.heard - before.heard) / secs),
      syncP50,
      syncP99,
      lateP50,
      lateP99,
      marginP1,
      marginP50,
    });
    if (this.samples.length > SAMPLES) this.samples.splice(0, this.samples.length - SAMPLES);
  }
}
