// Keeps the store true: lists every lease, then watches from the list's position; begins again where that
// broke. One stream of events per tab. Knows nothing of what the page shows.

import { Refusal, ask, path } from "./api.js";
import { readStream } from "./sse.js";

/**
 * @typedef {"loading" | "live" | "reconnecting" | "signed-out"} FeedState
 */

const PAGE = 1000;
const BACKOFF_MS_FIRST = 250;
const BACKOFF_MS_MAX = 5_000;
/** After this long whoever was too slow tries again. */
const BEHIND_MS = 200;
/** Events from before the page was opened that are shown, and positions that are read at most to find them. */
const HISTORY = 100;
const HISTORY_READ_MAX = 4_000;
/** A stream that has caught up sends nothing for this long. */
const QUIET_MS = 700;
/** The time that a daemon runs is told in whole seconds. */
const STARTED_WITHIN_MS = 1_600;

export class Feed {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    /** @type {FeedState} */
    this.state = "loading";
    /** How many leases the list under way has so far. */
    this.listed = 0;
    /** @type {string | null} Of the newest event, to go on from. */
    this.lastId = null;
    /** Position to watch from when there is no event yet. */
    this.from = 0;
    /** @type {{name: string, started: number} | null} Which run of which daemon was listed. */
    this.daemon = null;
    this.failures = 0;
    /** The stream ended because we were too slow for it. */
    this.isBehind = false;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {AbortController} */
    this.attempt = new AbortController();
    /** @type {() => void} */
    this.wake = () => {};
    /** @type {{principal: string, scope: string, signed_in?: boolean} | null} Who we are; null: unknown. */
    this.caller = null;
  }

  /** @param {() => void} listener */
  listen(listener) {
    this.listeners.add(listener);
  }

  /** @param {FeedState} state */
  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.listeners.forEach((listener) => listener());
  }

  tell() {
    this.listeners.forEach((listener) => listener());
  }

  /** Begins anew at once: after signing in, or when the network is back. */
  again() {
    this.failures = 0;
    this.daemon = null;
    this.attempt.abort();
    this.wake();
  }

  /** Somebody else got no answer: the stream may be dead without having said so. */
  doubt() {
    if (this.state !== "live") return;
    this.become("reconnecting");
    this.attempt.abort();
  }

  /** Does not wait for the back-off to end. */
  hurry() {
    if (this.state === "reconnecting") this.wake();
  }

  /** Never returns. */
  async run() {
    for (;;) {
      this.attempt = new AbortController();
      try {
        await this.follow(this.attempt.signal);
      } catch (error) {
        if (!(await this.recover(error))) continue;
      }
      if (this.attempt.signal.aborted) continue;
      this.failures += 1;
      const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** Math.min(this.failures, 8));
      await this.pause(most / 2 + (Math.random() * most) / 2);
    }
  }

  /** @param {unknown} error @returns {Promise<boolean>} Whether to wait before the next try. */
  async recover(error) {
    if (this.attempt.signal.aborted) return false;
    if (!(error instanceof Refusal)) console.error(error);
    if (error instanceof Refusal && error.status === 401) {
      this.caller = null;
      this.become("signed-out");
      await this.pause(null);
      return false;
    }
    // History from there on is not kept, or the log is another one.
    if (error instanceof Refusal && (error.status === 410 || error.status === 400)) this.daemon = null;
    if (this.state !== "loading" || this.failures > 0) this.become("reconnecting");
    return true;
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    const status = await ask("/v1/status", { signal });
    const started = Date.parse(status.server_time) - status.uptime_secs * 1000;
    const name = `${status.instance} ${status.pid} ${status.log_tag}`;
    // A process may have the same number each time; its instance, or when it started, tells its runs apart.
    const known = this.daemon;
    const isSame = known?.name === name && Math.abs(known.started - started) < STARTED_WITHIN_MS;
    if (!isSame) {
      await this.learnCaller(signal);
      await this.list(signal);
      this.daemon = { name, started };
      void this.recall(signal);
    }
    do {
      this.isBehind = false;
      await this.watch(signal);
      // Too slow is not cut off: what was missed is read again from the log, or listed if it is not kept.
      if (this.isBehind) await this.pause(BEHIND_MS);
    } while (this.isBehind && this.daemon !== null && !signal.aborted);
    if (!this.isBehind) this.become("reconnecting");
  }

  /** @param {AbortSignal} signal */
  async learnCaller(signal) {
    try {
      this.caller = await ask("/v1/caller", { signal });
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) throw error;
      this.caller = null;
    }
    this.tell();
  }

  /** @param {AbortSignal} signal */
  async list(signal) {
    /** @type {any[]} */
    const views = [];
    const pools = await ask("/v1/pools", { signal });
    let from = null;
    let cursor;
    do {
      const page = await ask(path(["v1", "leases"], { limit: PAGE, cursor }), { signal });
      for (const view of page.leases) view.answeredAt = page.answeredAt;
      views.push(...page.leases);
      // Later pages may know more; what happened since the first is told again, and does no harm.
      from ??= page.lsn;
      cursor = page.next_cursor;
      this.listed = views.length;
      if (this.state === "loading" && cursor) this.store.replaceAll(views, from);
      this.tell();
    } while (cursor);
    this.store.replaceAll(views, from);
    this.store.setPools(pools.pools);
    this.from = from;
    this.lastId = null;
  }

  /** Reads the newest events from before the list, so that pages do not begin empty. @param {AbortSignal} signal */
  async recall(signal) {
    if (this.store.tail.length > 0) return;
    const { from: edge } = this;
    let before = Math.max(0, edge - 2 * HISTORY);
    for (;;) {
      try {
        const events = await readEvents(before, edge, signal);
        const isAll = before === 0 || edge - before >= HISTORY_READ_MAX;
        if (events.length >= HISTORY || isAll) return this.store.remember(events.slice(-HISTORY));
        before = Math.max(0, edge - 4 * (edge - before));
      } catch (error) {
        const oldest = error instanceof Refusal ? error.body.oldest : undefined;
        // What is older is not kept.
        if (signal.aborted || !(oldest > before)) return this.store.remember([]);
        if (oldest > edge) return this.store.remember([]);
        try {
          return this.store.remember((await readEvents(oldest, edge, signal)).slice(-HISTORY));
        } catch {
          return this.store.remember([]);
        }
      }
    }
  }

  /** @param {AbortSignal} signal */
  async watch(signal) {
    await readStream(path(["v1", "events"], this.lastId ? {} : { from: this.from }), {
      signal,
      lastId: this.lastId,
      onOpen: () => {
        this.failures = 0;
        this.become("live");
      },
      onSaid: (said) => this.take(said),
    });
  }

  /** @param {import("./sse.js").Said[]} said */
  take(said) {
    const events = [];
    let pools = false;
    for (const { id, kind, data } of said) {
      const told = JSON.parse(data);
      if (kind === "lagged") {
        this.lastId = null;
        this.from = told.resume;
        this.isBehind = true;
      } else if (kind === "error") {
        this.daemon = null;
        this.isBehind = true;
      } else if (kind !== "closing") {
        this.lastId = id;
        events.push(told);
        pools ||= told.pool !== undefined;
      }
    }
    if (events.length > 0) this.store.apply(events);
    if (pools) void this.readPools();
  }

  async readPools() {
    try {
      this.store.setPools((await ask("/v1/pools")).pools);
    } catch {
      // The next list brings them.
    }
  }

  /** @param {number | null} ms Null: until woken. */
  pause(ms) {
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        const timer = ms === null ? null : setTimeout(resolve, ms);
        this.wake = () => {
          if (timer !== null) clearTimeout(timer);
          resolve();
        };
      })
    );
  }
}

/**
 * The events after a position, up to and including another.
 * @param {number} after
 * @param {number} until
 * @param {AbortSignal} signal
 * @param {number} [most] So many are enough.
 * @returns {Promise<import("./store.js").HappenedEvent[]>}
 */
export async function readEvents(after, until, signal, most = Infinity) {
  /** @type {import("./store.js").HappenedEvent[]} */
  const events = [];
  if (after >= until) return events;
  const enough = new AbortController();
  // The last positions may have no event: then nothing comes after what there is.
  let quiet = setTimeout(() => enough.abort(), QUIET_MS);
  try {
    await readStream(path(["v1", "events"], { from: after }), {
      signal: AbortSignal.any([signal, enough.signal]),
      onSaid: (said) => {
        clearTimeout(quiet);
        quiet = setTimeout(() => enough.abort(), QUIET_MS);
        for (const { kind, data } of said) {
          if (["lagged", "closing", "error"].includes(kind)) enough.abort();
          else events.push(JSON.parse(data));
        }
        if ((events.at(-1)?.lsn ?? 0) >= until || events.length >= most) enough.abort();
      },
    });
  } catch (error) {
    if (!enough.signal.aborted || signal.aborted) throw error;
  } finally {
    clearTimeout(quiet);
  }
  return events.filter(({ lsn }) => lsn <= until).slice(0, most);
}
