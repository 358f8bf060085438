// What is known of every live lease: a map by id, with counts and indexes kept as it changes.
// Invariant: one event costs what it changes, never a look at all leases. Listeners hear of changes once a
// frame.

import { serverNow } from "./api.js";

/**
 * A lease as the page keeps it. Instants that count down are by `performance.now()`.
 * @typedef {object} Lease
 * @property {string} id
 * @property {string} holder
 * @property {string[]} resources
 * @property {string} state
 * @property {Standing} standing
 * @property {string | null} cause Why it drains.
 * @property {string} mode
 * @property {string} application `leases`, `registrations`, `slots` or `polling`.
 * @property {number} epoch
 * @property {number | null} fence
 * @property {number | null} ttl
 * @property {number | null} grace
 * @property {number | null} granted Wall time of the daemon.
 * @property {number | null} seen Wall time of the last proof of life.
 * @property {string | null} session
 * @property {string | null} reason
 * @property {string | null} reasonText
 * @property {unknown} attachment
 * @property {number | null} endsAt When the present phase ends.
 * @property {number | null} phaseMs How long the present phase is in all.
 * @property {boolean} sure The deadline was read, not guessed from an event.
 * @property {number} readAt When it was read last.
 * @property {number} lsn Everything up to here is in it.
 * @property {number} revision Rises with each change.
 * @property {string} [haystack] What a filter looks through.
 *
 * @typedef {"reserved" | "alive" | "draining" | "revoking"} Standing
 * @typedef {object} HappenedEvent An event as the daemon tells it.
 * @property {number} lsn
 * @property {string} at
 * @property {string} kind
 * @property {any} lease
 * @property {string} [session]
 * @property {string} [pool]
 *
 * @typedef {{all: boolean, ids: Set<string>, pools: boolean}} Changes
 */

/** @type {Standing[]} */
export const STANDINGS = ["alive", "draining", "revoking", "reserved"];

const OVER = new Set(["released", "revoked", "expired"]);
const ENDING = new Set(["released", "reclaimed", "expired"]);
/** Leases that ended, remembered so that an answer that was under way does not bring one back. */
const GONE_MAX = 4_000;
const TAIL_MAX = 4_000;
const ENDED_MAX = 40;
const CHANGED_MAX = 5_000;

/** What a lease is used for. Older daemons call it `face`, and slots `streams`. @param {any} told */
export function applicationOf(told) {
  const application = told.application ?? told.face ?? null;
  return application === "streams" ? "slots" : application;
}

/** @param {string} state @param {string | null} liveness @returns {Standing} */
function standingOf(state, liveness) {
  if (state === "reserved" || state === "revoking") return state;
  return liveness === "draining" ? "draining" : "alive";
}

/** @param {Map<string, number>} map @param {string} key @param {number} by */
function add(map, key, by) {
  const now = (map.get(key) ?? 0) + by;
  if (now > 0) map.set(key, now);
  else map.delete(key);
}

/** The group that a target is polled in; null for what is no target. @param {string} name */
function groupOf(name) {
  const [poll, group, ...rest] = name.split("/");
  // What begins with an @ is the pollers' and operators' bookkeeping.
  return poll === "poll" && rest.length > 0 && !rest[0].startsWith("@") ? group : null;
}

export class Store {
  constructor() {
    /** @type {Map<string, Lease>} */
    this.leases = new Map();
    /** @type {Map<string, number>} Leases by standing. */
    this.standings = new Map();
    /** @type {Map<string, number>} */
    this.modes = new Map();
    /** @type {Map<string, number>} */
    this.applications = new Map();
    /** @type {Map<string, number>} Targets of pollers that are held, by group. */
    this.polled = new Map();
    /** @type {Map<string, number>} */
    this.holders = new Map();
    /** @type {Map<string, Set<string>>} */
    this.bySession = new Map();
    /** @type {Map<string, string>} Lease by the resource that it covers. */
    this.byResource = new Map();
    /** @type {{name: string, size: number, free: number, removed: boolean}[]} */
    this.pools = [];
    /** @type {HappenedEvent[]} The newest events, oldest first. */
    this.tail = [];
    /** @type {{lease: Lease, kind: string, reason: string | null, at: number}[]} Newest first. */
    this.ended = [];
    /** Events that were heard, ever. */
    this.heard = 0;
    /** How often history was put before what was heard. */
    this.recalled = 0;
    this.lsn = 0;
    /** @type {Map<string, number>} */
    this.gone = new Map();
    /** @type {Set<(changes: Changes) => void>} */
    this.listeners = new Set();
    /** @type {Set<(event: HappenedEvent) => void>} */
    this.hearers = new Set();
    this.revision = 0;
    /** @type {Changes} */
    this.changes = { all: false, ids: new Set(), pools: false };
    this.scheduled = false;
    /** Asks for leases that an event named and nobody knew. @type {(id: string) => void} */
    this.wanted = () => {};
  }

  /** @param {(changes: Changes) => void} listener @returns {() => void} */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Hears each event as it comes. @param {(event: HappenedEvent) => void} hearer @returns {() => void} */
  hear(hearer) {
    this.hearers.add(hearer);
    return () => this.hearers.delete(hearer);
  }

  /** Everything anew: what is not in the list is gone. @param {any[]} views @param {number} lsn */
  replaceAll(views, lsn) {
    const before = this.leases;
    this.leases = new Map();
    for (const map of [
      this.standings,
      this.modes,
      this.applications,
      this.polled,
      this.holders,
      this.bySession,
      this.byResource,
    ]) {
      map.clear();
    }
    this.gone.clear();
    if (views.length === 0 && lsn === 0) {
      this.tail = [];
      this.ended = [];
    }
    for (const view of views) {
      if (!OVER.has(view.state)) this.insert(this.fromView(view, before.get(view.lease_id)));
    }
    this.lsn = lsn;
    this.changes.all = true;
    this.schedule();
  }

  /** @param {{name: string, size: number, free: number, removed: boolean}[]} pools */
  setPools(pools) {
    this.pools = pools;
    this.changes.pools = true;
    this.schedule();
  }

  /** A lease as the daemon has just shown it. @param {any} view */
  put(view) {
    const before = this.leases.get(view.lease_id);
    if (before ? view.lsn < before.lsn : view.lsn < (this.gone.get(view.lease_id) ?? 0)) return;
    if (OVER.has(view.state)) this.forget(view.lease_id, view.lsn);
    else this.insert(this.fromView(view, before));
  }

  /** What happened, in order. @param {HappenedEvent[]} events */
  apply(events) {
    for (const event of events) {
      // Told again after a break; it is in what is known already.
      if (event.lsn <= this.lsn) continue;
      this.heard += 1;
      this.tail.push(event);
      this.hearers.forEach((hearer) => hearer(event));
      if (event.lease) this.applyToLease(event);
      else if (event.session) this.applyToSession(event);
      if (event.pool !== undefined) this.changes.pools = true;
      this.lsn = event.lsn;
    }
    if (this.tail.length > TAIL_MAX * 1.25) this.tail.splice(0, this.tail.length - TAIL_MAX);
    this.schedule();
  }

  /** What happened before the page was opened. @param {HappenedEvent[]} events Oldest first. */
  remember(events) {
    const first = this.tail[0]?.lsn ?? Infinity;
    const older = events.filter(({ lsn }) => lsn < first);
    this.tail.unshift(...older);
    const ended = older.filter(({ kind, lease }) => lease && ENDING.has(kind)).reverse();
    for (const event of ended.slice(0, ENDED_MAX - this.ended.length)) {
      const { reason } = event.lease;
      this.ended.push({ lease: this.fromEvent(event, undefined), kind: event.kind, reason, at: Date.parse(event.at) });
    }
    this.recalled += 1;
    this.schedule();
  }

  /** @param {HappenedEvent} event */
  applyToLease(event) {
    const id = event.lease.lease_id;
    const before = this.leases.get(id);
    if (ENDING.has(event.kind)) {
      const ended = before ?? this.fromEvent(event, undefined);
      this.ended.unshift({
        lease: ended,
        kind: event.kind,
        reason: event.lease.reason,
        at: Date.parse(event.at),
      });
      this.ended.length = Math.min(this.ended.length, ENDED_MAX);
      this.forget(id, event.lsn);
      return;
    }
    if (before && event.lsn <= before.lsn) return;
    if (!before && event.lsn <= (this.gone.get(id) ?? 0)) return;
    if (!before && event.kind !== "granted") {
      this.wanted(id);
      return;
    }
    this.insert(this.fromEvent(event, before));
  }

  /** A session that falls silent or comes back takes its leases along. @param {HappenedEvent} event */
  applyToSession(event) {
    if (event.kind !== "draining" && event.kind !== "revived") return;
    for (const id of this.bySession.get(event.session ?? "") ?? []) {
      const before = this.leases.get(id);
      // What an operator drained stays so.
      if (!before || before.state !== "active" || before.cause === "operator" || event.lsn <= before.lsn)
        continue;
      const draining = event.kind === "draining";
      const lease = { liveness: draining ? "draining" : "alive", drain_cause: draining ? "silence" : null };
      this.insert(this.fromEvent({ ...event, lease: { ...lease, lease_id: id, state: "active" } }, before));
    }
  }

  /** @param {any} view @param {Lease | undefined} before @returns {Lease} */
  fromView(view, before) {
    const standing = standingOf(view.state, view.liveness);
    const answeredAt = view.answeredAt ?? performance.now();
    const remaining = view.remaining_ms;
    const same =
      before && before.standing === standing && before.epoch === view.epoch ? before.phaseMs : null;
    return {
      id: view.lease_id,
      holder: view.holder,
      resources: view.resources,
      state: view.state,
      standing,
      cause: view.drain_cause,
      mode: view.mode,
      application: applicationOf(view) ?? "leases",
      epoch: view.epoch,
      fence: view.fence,
      ttl: view.ttl_ms,
      grace: view.grace_ms,
      granted: Date.parse(view.granted_at),
      seen: view.last_seen ? Date.parse(view.last_seen) : null,
      session: view.session,
      reason: view.reason,
      reasonText: view.reason_text,
      attachment: view.attachment,
      endsAt: remaining === null ? null : answeredAt + remaining,
      phaseMs: remaining === null ? null : phaseOf(standing, view, remaining, same ?? null),
      sure: true,
      readAt: performance.now(),
      lsn: view.lsn,
      revision: ++this.revision,
    };
  }

  /** @param {HappenedEvent} event @param {Lease | undefined} before @returns {Lease} */
  fromEvent(event, before) {
    const told = event.lease;
    const state = told.state ?? before?.state ?? "active";
    const at = performance.now() - (serverNow() - Date.parse(event.at));
    const standing = standingOf(
      state,
      told.liveness ?? (event.kind === "rebound" ? before?.standing : null) ?? null,
    );
    const ttl = told.ttl_ms ?? before?.ttl ?? null;
    const grace = told.grace_ms ?? before?.grace ?? null;
    const mode = told.mode ?? before?.mode ?? "heartbeat";
    const keeps = before && (event.kind === "amended" || event.kind === "rebound");
    const phase = standing === "alive" && mode === "heartbeat" ? ttl : standing === "draining" ? grace : null;
    return {
      id: told.lease_id,
      holder: told.holder ?? before?.holder ?? "",
      resources: told.resources ?? before?.resources ?? [],
      state,
      standing,
      cause: told.drain_cause ?? null,
      mode,
      application: applicationOf(told) ?? before?.application ?? "leases",
      epoch: told.epoch ?? before?.epoch ?? 1,
      fence: told.fence ?? before?.fence ?? null,
      ttl,
      grace,
      granted: told.granted_at ? Date.parse(told.granted_at) : (before?.granted ?? Date.parse(event.at)),
      seen:
        event.kind === "granted" || event.kind === "activated"
          ? Date.parse(event.at)
          : (before?.seen ?? null),
      session: told.session ?? before?.session ?? null,
      reason: told.reason ?? null,
      reasonText: told.reason_text ?? null,
      attachment: told.attachment ?? before?.attachment ?? null,
      endsAt: keeps ? before.endsAt : phase === null ? null : at + phase,
      phaseMs: keeps ? before.phaseMs : phase,
      sure: mode === "permanent" && standing === "alive",
      readAt: 0,
      lsn: event.lsn,
      revision: ++this.revision,
    };
  }

  /** @param {Lease} lease */
  insert(lease) {
    const before = this.leases.get(lease.id);
    if (before) this.tally(before, -1);
    this.leases.set(lease.id, lease);
    this.tally(lease, 1);
    this.touch(lease.id);
  }

  /** @param {string} id @param {number} lsn */
  forget(id, lsn) {
    const before = this.leases.get(id);
    this.gone.set(id, lsn);
    if (this.gone.size > GONE_MAX) this.gone.delete(this.gone.keys().next().value ?? "");
    if (!before) return;
    this.tally(before, -1);
    this.leases.delete(id);
    this.touch(id);
  }

  /** @param {string} id */
  touch(id) {
    this.changes.ids.add(id);
    // A tab that nobody looks at may hear a lot before it draws.
    if (this.changes.ids.size > CHANGED_MAX) {
      this.changes.all = true;
      this.changes.ids.clear();
    }
    this.schedule();
  }

  /** @param {Lease} lease @param {1 | -1} by */
  tally(lease, by) {
    add(this.standings, lease.standing, by);
    add(this.modes, lease.mode, by);
    add(this.applications, lease.application, by);
    add(this.holders, lease.holder, by);
    for (const name of lease.resources) {
      const group = lease.application === "polling" ? groupOf(name) : null;
      if (group !== null) add(this.polled, group, by);
      if (by > 0) this.byResource.set(name, lease.id);
      else if (this.byResource.get(name) === lease.id) this.byResource.delete(name);
    }
    if (lease.session) {
      const ids = this.bySession.get(lease.session) ?? new Set();
      if (by > 0) this.bySession.set(lease.session, ids.add(lease.id));
      else if (ids.delete(lease.id) && ids.size === 0) this.bySession.delete(lease.session);
    }
  }

  /** Tells the listeners at the next frame; a tab that is hidden has no frames. */
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const tell = () => {
      this.scheduled = false;
      const changes = this.changes;
      this.changes = { all: false, ids: new Set(), pools: false };
      this.listeners.forEach((listener) => listener(changes));
    };
    if (document.hidden) setTimeout(tell, 1000);
    else requestAnimationFrame(tell);
  }
}

/** Where its time counts from. @param {any} view */
function countsFrom(view) {
  return Date.parse(view.last_seen ?? view.unheard_since);
}

/**
 * How long a phase is in all, so that what is left of it is a share.
 * @param {Standing} standing
 * @param {any} view
 * @param {number} remaining
 * @param {number | null} known What was thought before, in the same phase.
 */
function phaseOf(standing, view, remaining, known) {
  switch (standing) {
    case "reserved":
      return Math.max(remaining, Date.parse(view.deadline) - Date.parse(view.granted_at));
    case "alive":
      return Math.max(remaining, view.ttl_ms ?? Date.parse(view.deadline) - countsFrom(view));
    case "draining":
      return Math.max(remaining, known ?? view.grace_ms ?? remaining);
    case "revoking":
      return Math.max(remaining, known ?? remaining);
  }
}
