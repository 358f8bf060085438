// A session held by a page: started, renewed by heartbeats, warned about, given back. No dependency, no build
// step, usable from any page whose origin the daemon allows:
//
//   import { TenureSession } from "/assets/tenure-session.js";
//   const session = await TenureSession.start({ pool: "tuner" });
//   session.on("expiring", ({ valid_ms }) => warn(valid_ms));
//   session.on("lost", stopWorking);
//   session.on("expired", stopWorking);
//   await session.stop();
//
// What a page is told:
//   renewed   a heartbeat was answered; after `lost` it means that work may go on
//   expiring  a third of the ttl is left and no heartbeat has been answered; told once per renewal
//   lost      the page can no longer count on the session and must stop. Without `final` the validity ran out
//             before an answer came (daemon or network gone, credential refused, machine asleep): the daemon
//             decides, heartbeats go on, and `renewed` may follow. With `final` the daemon said it is over
//   expired   the daemon ended it for silence; final
//   state     new, starting, running, draining, stopped or failed
//
// 404, 410 and a stale epoch are final. Everything else is tried again, 401 and 403 included: they say nothing of
// the session, and a rotated token or a sign-in in another tab mends them while it is still valid.

/**
 * @typedef {object} StartOptions
 * @property {string} [pool] pool that slots are taken from; the daemon's default one unless told
 * @property {number} [count] how many slots; 1 unless told
 * @property {string[]} [resources] resources by name, besides the slots or instead of them
 * @property {string} [service_ref] what the session is about
 * @property {number} [start_timeout] seconds within which `activate` must be called; else it runs at once
 * @property {Record<string, unknown>} [metadata] kept with the session
 * @property {string} [client] who holds it; the principal unless told
 * @property {number} [wait] seconds to queue for a slot; without it a full pool is a refusal
 * @property {string} [correlation_id] comes back with the session
 * @property {string | URL} [base] where the daemon is; where this module came from unless told
 * @property {string | (() => string | Promise<string>)} [token] bearer token, or what gives the current one
 * @property {string} [idempotency_key] makes a start that is repeated by the page itself harmless
 * @property {number} [patience] seconds to go on trying to start, stop, activate or fail; 20 unless told
 * @property {AbortSignal} [signal] ends the attempt to start
 */

/**
 * A session as the daemon shows it.
 * @typedef {object} Shown
 * @property {string} session_id
 * @property {string} state
 * @property {string} lease_expires_at
 * @property {string} server_time
 * @property {number} heartbeat_interval seconds
 * @property {number} lease_ttl seconds
 * @property {number | null} [valid_ms] how long the page may act; only while the session is in use
 * @property {string[]} resources
 * @property {number | null} [fence]
 * @property {number | null} [epoch]
 * @property {string | null} [reason]
 * @property {number} [queue_position]
 * @property {string} [status] of the answer to an intent
 * @property {string} [client]
 * @property {string} [service_ref]
 * @property {Record<string, unknown>} [metadata]
 * @property {string | null} [lease_id]
 */

/** @typedef {Pick<Shown, "lease_expires_at" | "server_time" | "valid_ms">} Promised */

/** @typedef {"renewed" | "expiring" | "lost" | "expired" | "state"} Word */

/**
 * @typedef {object} Told
 * @property {TenureSession} session
 * @property {number} valid_ms how long the page may still count on the session
 * @property {string} state
 * @property {string | null} reason why it ended, in the daemon's words
 * @property {boolean} final whether nothing will follow
 * @property {TenureError | null} error the last answer that was not one
 */

const WORDS = ["renewed", "expiring", "lost", "expired", "state"];
const INTENT = [
  "pool", "count", "resources", "service_ref", "start_timeout", "metadata", "client", "wait",
  "correlation_id",
];
const PATIENCE_SECS = 20;
/** An answer that takes longer than this is not coming. */
const ANSWER_MS = 10_000;
const ANSWER_MS_MIN = 500;
const BACK_OFF_MS_MIN = 250;
const BACK_OFF_MS_MAX = 30_000;
/** How often a session that queues, or that nobody keeps alive any more, asks what became of it. */
const LOOK_MS = 1_000;
/** Timers stand still while a machine sleeps; none is set further ahead than this. */
const TIMER_MS_MAX = 30_000;
/** After this long in a frozen tab a request under way is given up: its connection is most often gone. */
const FROZEN_ANSWER_MS = 2_000;
/** Taken off every promise: how late a timer of the page may be. */
const MARGIN_MS = 50;
/** Whether the page was told that a failover of the cluster takes longer than its sessions survive. */
let was_told_of_failover = false;

/** Why a request was not carried out. */
export class TenureError extends Error {
  /**
   * @param {string} code of the daemon; `unreachable`, `no_answer` or `bad_answer` where it said nothing
   * @param {string} message
   * @param {{ status?: number, problem?: any, retry_after_ms?: number | null, cause?: unknown }} [more]
   */
  constructor(code, message, more = {}) {
    super(message, { cause: more.cause });
    this.name = "TenureError";
    this.code = code;
    /** HTTP status; 0 where no answer came. */
    this.status = more.status ?? 0;
    /** The problem body as it came. */
    this.problem = more.problem ?? null;
    this.retry_after_ms = more.retry_after_ms ?? null;
  }

  /** Whether the same request may have another outcome soon. A full pool is an answer. */
  get is_passing() {
    if (this.code === "no_capacity") {
      return false;
    }
    return this.status < 300 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** A length of time from an instant. */
class Span {
  /** @param {Instant} from @param {number} ms */
  constructor(from, ms) {
    this.from = from;
    this.ms = ms;
  }

  left() {
    return this.ms - this.from.elapsed();
  }
}

/**
 * A point in time. `performance.now()` stands still while some machines sleep and `Date.now()` can be set, so
 * that whichever says that more time has passed is believed: a session never looks valid for longer than it is.
 */
class Instant {
  constructor() {
    this.steady = performance.now();
    this.wall = Date.now();
  }

  elapsed() {
    return Math.max(performance.now() - this.steady, Date.now() - this.wall);
  }
}

/** What the daemon's own page keeps of a sign-in, if anything. */
function keptPage() {
  try {
    return globalThis.localStorage?.getItem("tenure-page");
  } catch {
    return null;
  }
}

/** Requests to one daemon. */
class Line {
  /** @param {StartOptions} options */
  constructor(options) {
    this.base = new URL(options.base ?? new URL("..", import.meta.url), globalThis.location?.href);
    this.token = options.token;
  }

  /**
   * @param {string} method
   * @param {string} path below `/api/v3/`
   * @param {{ body?: unknown, key?: string, keepalive?: boolean, signal?: AbortSignal,
   *   limit_ms?: number }} [more]
   * @returns {Promise<any>}
   */
  async ask(method, path, more = {}) {
    const controller = new AbortController();
    const giveUp = () => controller.abort();
    more.signal?.addEventListener("abort", giveUp);
    if (more.signal?.aborted) {
      giveUp();
    }
    const timer = setTimeout(giveUp, more.limit_ms ?? ANSWER_MS);
    try {
      const answer = await fetch(new URL(`api/v3/${path}`, this.base), {
        method,
        headers: await this.#headers(more),
        body: more.body === undefined ? undefined : JSON.stringify(more.body),
        keepalive: more.keepalive ?? false,
        cache: "no-store",
        // Whoever redirects is not the daemon.
        redirect: "error",
        signal: controller.signal,
      });
      const text = await answer.text();
      return answer.ok ? parsed(text) : refuse(answer, text);
    } catch (error) {
      if (error instanceof TenureError) {
        throw error;
      }
      if (controller.signal.aborted) {
        throw new TenureError("no_answer", "the daemon did not answer in time", { cause: error });
      }
      throw new TenureError("unreachable", "the daemon cannot be reached", { cause: error });
    } finally {
      clearTimeout(timer);
      more.signal?.removeEventListener("abort", giveUp);
    }
  }

  /**
   * How long a cluster may be without a leader after one was lost; null where the daemon is no node of one, or does not
   * say. It is asked once.
   * @returns {Promise<number | null>}
   */
  async failoverMs() {
    try {
      const status = await fetch(new URL("v1/status", this.base), {
        headers: await this.#headers({}),
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const ttl_ms = status.ok ? (await status.json())?.leader_ttl_ms : null;
      return typeof ttl_ms === "number" ? failoverMs(ttl_ms) : null;
    } catch {
      return null;
    }
  }

  /**
   * Asks until there is an answer that another try would not change.
   * @param {string} method
   * @param {string} path
   * @param {{ body?: unknown, key?: string, signal?: AbortSignal, patience_ms: number }} more
   * @returns {Promise<{ sent: Instant, answer: any }>} with when the try that was answered was made
   */
  async insist(method, path, more) {
    const patience = new Span(new Instant(), more.patience_ms);
    for (let failures = 1; ; failures += 1) {
      const sent = new Instant();
      try {
        const limit_ms = Math.min(ANSWER_MS, Math.max(patience.left(), ANSWER_MS_MIN));
        return { sent, answer: await this.ask(method, path, { ...more, limit_ms }) };
      } catch (thrown) {
        const error = /** @type {TenureError} */ (thrown);
        const pause = Math.max(backOff(failures, BACK_OFF_MS_MAX), error.retry_after_ms ?? 0);
        more.signal?.throwIfAborted();
        if (!error.is_passing || pause > patience.left()) {
          throw error;
        }
        await wait(pause, more.signal);
      }
    }
  }

  /** @param {{ body?: unknown, key?: string }} more */
  async #headers(more) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (more.body !== undefined) {
      headers["content-type"] = "application/json";
    }
    if (more.key !== undefined) {
      headers["idempotency-key"] = more.key;
    }
    // Asked for each time: a page may rotate it under a session.
    const token = typeof this.token === "function" ? await this.token() : this.token;
    if (token) {
      headers.authorization = `Bearer ${token}`;
    } else if (this.base.origin === globalThis.location?.origin) {
      // The daemon's own pages are signed in by a cookie and this value together.
      const page = keptPage();
      if (page) {
        headers["tenure-page"] = page;
      }
    }
    return headers;
  }
}

/** A session that this page holds. */
export class TenureSession {
  #line;
  #patience_ms;
  /** The session as the daemon last showed it. */
  #shown;
  #validity;
  /** When the next heartbeat is due, and the next look at the session, if any. */
  #beat;
  /** @type {Span | null} */
  #look = null;
  /** @type {{ sent: Instant, controller: AbortController } | null} */
  #flight = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #failures = 0;
  /** @type {TenureError | null} */
  #error = null;
  #is_paused = false;
  #is_over = false;
  #was_warned = false;
  #was_lost = false;
  /** @type {Promise<any> | null} */
  #ending = null;
  /** @type {Map<string, Set<(told: Told) => void>>} */
  #listeners = new Map(WORDS.map((word) => [word, new Set()]));
  #deaf = new AbortController();

  /**
   * Starts a session. A try whose answer was lost is repeated under the same key, and takes no second slot.
   * @param {StartOptions} [options]
   * @returns {Promise<TenureSession>}
   * @throws {TenureError}
   */
  static async start(options = {}) {
    const { base, token, idempotency_key, patience, signal, ...intent } = options;
    for (const name of Object.keys(intent)) {
      if (!INTENT.includes(name)) {
        throw new TypeError(`TenureSession.start has no option ${name}`);
      }
    }
    const line = new Line({ base, token });
    const patience_ms = (patience ?? PATIENCE_SECS) * 1_000;
    const { sent, answer } = await line.insist("POST", "intents", {
      body: { type: "stream.start", ...intent },
      key: idempotency_key ?? randomKey(),
      patience_ms,
      signal,
    });
    return new TenureSession(line, patience_ms, sent, answer);
  }

  /**
   * Pages use `start`.
   * @param {Line} line
   * @param {number} patience_ms
   * @param {Instant} sent when it was asked for
   * @param {Shown} shown
   */
  constructor(line, patience_ms, sent, shown) {
    this.#line = line;
    this.#patience_ms = patience_ms;
    this.#shown = shown;
    this.#validity = new Span(sent, promised(shown, shown));
    this.#beat = new Span(sent, shown.heartbeat_interval * 1_000);
    if (isTerminal(shown.state)) {
      // The key had been used before, for a session that is over.
      this.#is_over = true;
      return;
    }
    this.#look = shown.state === "new" ? new Span(sent, LOOK_MS) : null;
    this.#listen();
    this.#schedule();
    void this.#warnOfFailover();
  }

  get id() {
    return this.#shown.session_id;
  }

  /** new, starting, running, draining, stopped or failed. */
  get state() {
    return this.#shown.state;
  }

  /** Why it ended; null while it has not. */
  get reason() {
    return this.#shown.reason ?? null;
  }

  /** What guarded stores compare; null while it is queued. */
  get fence() {
    return this.#shown.fence ?? null;
  }

  get epoch() {
    return this.#shown.epoch ?? null;
  }

  /** Slots and resources it covers. */
  get resources() {
    return this.#shown.resources;
  }

  /** 1 for the next; null unless it is queued. */
  get queue_position() {
    return this.#shown.queue_position ?? null;
  }

  /** The whole session as the daemon last showed it. */
  get shown() {
    return this.#shown;
  }

  /** How long one heartbeat lasts, in milliseconds. */
  get ttl_ms() {
    return this.#shown.lease_ttl * 1_000;
  }

  get is_paused() {
    return this.#is_paused;
  }

  /** Whether it has ended, or was given up. */
  get is_over() {
    return this.#is_over;
  }

  /** Milliseconds for which the page may count on it without another answer; 0 once it may not. */
  validFor() {
    return this.#is_over ? 0 : Math.max(0, this.#validity.left());
  }

  /**
   * @param {Word} word
   * @param {(told: Told) => void} listener
   * @returns {() => void} takes the listener away
   */
  on(word, listener) {
    this.#listenersOf(word).add(listener);
    return () => this.off(word, listener);
  }

  /** @param {Word} word @param {(told: Told) => void} listener */
  off(word, listener) {
    this.#listenersOf(word).delete(listener);
  }

  /** Says once per page that a failover takes longer than this session survives. Nothing is refused for it. */
  async #warnOfFailover() {
    if (was_told_of_failover) {
      return;
    }
    const takes_ms = await this.#line.failoverMs();
    const survives_ms = survivesMs(this.ttl_ms, this.#shown.heartbeat_interval * 1_000);
    if (takes_ms !== null && survives_ms < takes_ms && !was_told_of_failover) {
      was_told_of_failover = true;
      console.warn(
        `tenure: a failover of the cluster takes up to ${takes_ms} ms, and a session with a ttl of ${this.ttl_ms} ms ` +
          `is lost after ${survives_ms} ms without an answer; set a longer ttl for slot sessions`,
      );
    }
  }

  /** Stops the heartbeats and nothing else: the session runs out unless it is resumed in time. */
  pause() {
    if (this.#is_over || this.#ending) {
      return;
    }
    this.#is_paused = true;
    this.#dropFlight();
    this.#schedule();
  }

  /** Goes on with the heartbeats, beginning at once. */
  resume() {
    if (!this.#is_paused || this.#is_over) {
      return;
    }
    this.#is_paused = false;
    this.#look = this.state === "new" ? new Span(new Instant(), LOOK_MS) : null;
    this.#dropFlight();
    this.#beat = new Span(new Instant(), 0);
    this.#tick();
  }

  /** Takes a session that is `starting` into use. @returns {Promise<TenureSession>} */
  async activate() {
    const { sent, answer } = await this.#call("POST", "/activate", {});
    this.#show(answer);
    this.#promise(sent, answer);
    return this;
  }

  /** Gives it back. Asked again, or when it has ended meanwhile, it does nothing. @returns {Promise<void>} */
  stop() {
    return (this.#ending ??= this.#finish("DELETE", ""));
  }

  /** Ends it as failed. @param {string} reason @returns {Promise<void>} */
  fail(reason) {
    return (this.#ending ??= this.#finish("POST", "/fail", { reason }));
  }

  /** @param {string} rest */
  #path(rest) {
    return `sessions/${encodeURIComponent(this.id)}${rest}`;
  }

  /** @param {string} method @param {string} rest @param {unknown} [body] */
  #call(method, rest, body) {
    const key = method === "POST" ? randomKey() : undefined;
    return this.#line.insist(method, this.#path(rest), { body, key, patience_ms: this.#patience_ms });
  }

  /** @param {string} method @param {string} rest @param {unknown} [body] */
  async #finish(method, rest, body) {
    if (this.#is_over) {
      return;
    }
    // A heartbeat must not overtake the end.
    this.#dropFlight();
    clearTimeout(this.#timer);
    try {
      const { answer } = await this.#call(method, rest, body);
      this.#end(null, answer);
    } catch (thrown) {
      const error = /** @type {TenureError} */ (thrown);
      if (isFinal(error)) {
        this.#end(null, { state: "stopped", ...said(error) });
        return;
      }
      if (error.is_passing) {
        // Without heartbeats it ends by itself.
        this.#close();
      } else {
        this.#ending = null;
        this.#schedule();
      }
      throw error;
    }
  }

  #listen() {
    const signal = this.#deaf.signal;
    const wake = () => this.#wake();
    const page = globalThis.document;
    page?.addEventListener("visibilitychange", () => page.hidden || wake(), { signal });
    page?.addEventListener("resume", wake, { signal });
    globalThis.addEventListener("pageshow", wake, { signal });
    globalThis.addEventListener("online", wake, { signal });
    globalThis.addEventListener("pagehide", (event) => event.persisted || this.#leave(), { signal });
  }

  /** The page goes for good. Nobody will hear the answer, and timers no longer run. */
  #leave() {
    if (!this.#ending) {
      this.#line.ask("DELETE", this.#path(""), { keepalive: true }).catch(() => {});
    }
    this.#close();
  }

  /** Timers of a page that was hidden, frozen or kept for the back button may be hours late. */
  #wake() {
    if (this.#is_over || this.#ending) {
      return;
    }
    if (this.#flight && this.#flight.sent.elapsed() > FROZEN_ANSWER_MS) {
      this.#dropFlight();
      this.#failures += 1;
    }
    const half = (this.#shown.heartbeat_interval * 1_000) / 2;
    if (this.#failures > 0 || this.#beat.from.elapsed() > half) {
      this.#beat = new Span(this.#beat.from, 0);
    }
    if (this.#look) {
      this.#look = new Span(this.#look.from, 0);
    }
    this.#tick();
  }

  #dropFlight() {
    const flight = this.#flight;
    this.#flight = null;
    flight?.controller.abort();
  }

  /** The only timer. Set anew from answers rather than from itself: that, browsers slow down in hidden tabs. */
  #schedule() {
    clearTimeout(this.#timer);
    if (this.#is_over || this.#ending) {
      return;
    }
    const left = this.#validity.left();
    const moments = [TIMER_MS_MAX];
    if (!this.#was_warned) {
      moments.push(left - this.ttl_ms / 3);
    }
    if (!this.#was_lost) {
      moments.push(left);
    }
    if (!this.#flight) {
      if (!this.#is_paused) {
        moments.push(this.#beat.left());
      }
      if (this.#look) {
        moments.push(this.#look.left());
      }
    }
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.min(...moments)));
  }

  #tick() {
    if (this.#is_over || this.#ending) {
      return;
    }
    const left = this.#validity.left();
    if (left <= 0 && !this.#was_lost) {
      this.#was_lost = true;
      this.#was_warned = true;
      if (this.#is_paused) {
        // Whoever does not beat has to ask what became of it.
        this.#look = new Span(new Instant(), 0);
      }
      this.#tell("lost");
    } else if (left <= this.ttl_ms / 3 && !this.#was_warned) {
      this.#was_warned = true;
      this.#tell("expiring");
    }
    // A listener may have stopped, paused or resumed it.
    if (!this.#flight && !this.#is_over && !this.#ending) {
      if (!this.#is_paused && this.#beat.left() <= 0) {
        void this.#heartbeat();
      } else if (this.#look && this.#look.left() <= 0) {
        void this.#lookAt();
      }
    }
    this.#schedule();
  }

  /**
   * Sends one request at a time; what comes back for one that was given up is dropped.
   * @param {string} method
   * @param {string} rest
   * @param {unknown} [body]
   */
  async #fly(method, rest, body) {
    const flight = { sent: new Instant(), controller: new AbortController() };
    this.#flight = flight;
    const useful = this.validFor() > 0 ? Math.max(this.validFor() / 3, ANSWER_MS_MIN) : ANSWER_MS;
    const more = { body, signal: flight.controller.signal, limit_ms: Math.min(useful, ANSWER_MS) };
    const outcome = await this.#line.ask(method, this.#path(rest), more).then(
      (answer) => ({ answer, error: null }),
      (/** @type {TenureError} */ error) => ({ answer: null, error }),
    );
    if (this.#flight !== flight) {
      return null;
    }
    this.#flight = null;
    return { sent: flight.sent, ...outcome };
  }

  async #heartbeat() {
    // With the epoch a session that was handed to somebody else is not kept alive from here.
    const outcome = await this.#fly("POST", "/heartbeat", this.epoch === null ? {} : { epoch: this.epoch });
    if (!outcome) {
      return;
    }
    const { sent, answer, error } = outcome;
    if (error) {
      this.#failed(error);
    } else {
      this.#failures = 0;
      this.#error = null;
      this.#beat = new Span(sent, (answer.next_heartbeat_in ?? this.#shown.heartbeat_interval) * 1_000);
      const { lease_expires_at, server_time } = answer;
      this.#shown = { ...this.#shown, lease_expires_at, server_time };
      this.#promise(sent, answer);
      // The answer does not tell the state; a promise shorter than the ttl says that it is not the usual one.
      if (this.state !== "running" || left(answer) < this.ttl_ms - 1_000) {
        this.#look ??= new Span(sent, 0);
      }
      this.#tell("renewed");
    }
    this.#schedule();
  }

  async #lookAt() {
    const outcome = await this.#fly("GET", "");
    if (!outcome) {
      return;
    }
    const { answer, error } = outcome;
    this.#look = null;
    if (error) {
      this.#failed(error);
    } else {
      this.#failures = 0;
      this.#show(answer);
    }
    if (!this.#is_over) {
      if (this.state === "new") {
        this.#look = new Span(new Instant(), LOOK_MS);
      } else if (this.#is_paused && this.#was_lost) {
        // Its state may change before its end does: first its time is over, then its grace.
        const soon = Math.min(Math.max(left(answer ?? this.#shown), BACK_OFF_MS_MIN), LOOK_MS);
        const pause = error ? this.#beat.left() : soon;
        this.#look = new Span(new Instant(), pause);
      }
    }
    this.#schedule();
  }

  /** @param {TenureError} error */
  #failed(error) {
    if (isFinal(error)) {
      const word = error.code === "session_expired" ? "expired" : "lost";
      this.#end(word, { state: "stopped", ...said(error) }, error);
      return;
    }
    this.#failures += 1;
    this.#error = error;
    const left = this.#validity.left();
    // Answers may be all that is lost: what the daemon still hears in time keeps the session.
    const beat_ms = this.#shown.heartbeat_interval * 1_000;
    const most = left > 0 ? this.ttl_ms / 8 : Math.max(this.ttl_ms / 4, beat_ms);
    let pause = backOff(this.#failures, Math.min(most, BACK_OFF_MS_MAX));
    if (error.retry_after_ms !== null) {
      // Obeyed, but for one try in time: the daemon would rather hear it than end the session.
      pause = Math.max(pause, left > 0 ? Math.min(error.retry_after_ms, left / 2) : error.retry_after_ms);
    }
    this.#beat = new Span(new Instant(), pause);
  }

  /**
   * Counts what an answer promises from before it was asked for.
   * @param {Instant} sent
   * @param {Promised} answer
   */
  #promise(sent, answer) {
    this.#validity = new Span(sent, promised(answer, this.#shown));
    const is_short = this.#validity.left() <= this.ttl_ms / 3;
    // A promise that never reached a third of the ttl, as before a start deadline, is warned of once.
    this.#was_warned &&= is_short;
    this.#was_lost &&= this.#validity.left() <= 0;
  }

  /** @param {Shown} shown */
  #show(shown) {
    const before = this.state;
    if (isTerminal(shown.state)) {
      this.#end(shown.reason === "LEASE_EXPIRED" ? "expired" : "lost", shown);
      return;
    }
    this.#shown = shown;
    if (before !== shown.state) {
      this.#tell("state");
    }
  }

  /**
   * @param {Word | null} word null where the page itself ended it
   * @param {Partial<Shown>} shown
   * @param {TenureError | null} [error]
   */
  #end(word, shown, error = null) {
    if (this.#is_over) {
      return;
    }
    const before = this.state;
    this.#shown = { ...this.#shown, ...shown, queue_position: undefined };
    this.#error = error;
    this.#close();
    if (before !== this.state) {
      this.#tell("state");
    }
    if (word) {
      this.#tell(word);
    }
  }

  #close() {
    this.#is_over = true;
    this.#dropFlight();
    clearTimeout(this.#timer);
    this.#deaf.abort();
  }

  /** @param {Word} word */
  #listenersOf(word) {
    const listeners = this.#listeners.get(word);
    if (!listeners) {
      throw new TypeError(`a session has no event ${word}: use ${WORDS.join(", ")}`);
    }
    return listeners;
  }

  /** @param {Word} word */
  #tell(word) {
    const told = {
      session: this,
      valid_ms: this.validFor(),
      state: this.state,
      reason: this.reason,
      final: this.#is_over,
      error: this.#error,
    };
    for (const listener of [...this.#listenersOf(word)]) {
      try {
        listener(told);
      } catch (error) {
        // A page that fails to draw must not lose its session for it.
        reportError(error);
      }
    }
  }
}

/** @param {unknown} state */
const isTerminal = (state) => state === "stopped" || state === "failed";

/** Whether the daemon said that this page holds nothing any more. @param {TenureError} error */
const isFinal = (error) => error.status === 404 || error.status === 410 || error.code === "stale_epoch";

/** State and reason out of a problem body. @param {TenureError} error @returns {Partial<Shown>} */
function said(error) {
  const { state, reason } = error.problem ?? {};
  return { ...(isTerminal(state) ? { state } : {}), reason: reason ?? error.code };
}

/**
 * How long a cluster may be without a leader, where one that was silent for `leader_ttl_ms` is replaced.
 * @param {number} leader_ttl_ms
 */
function failoverMs(leader_ttl_ms) {
  return leader_ttl_ms + Math.floor(leader_ttl_ms / 100) + 900;
}

/**
 * How long a page goes on without an answer, at least: a heartbeat may have been due, a tenth late, when the daemon
 * fell silent. A hundredth of the ttl is more than the slack for clock rates.
 * @param {number} ttl_ms
 * @param {number} interval_ms
 */
function survivesMs(ttl_ms, interval_ms) {
  return Math.max(0, Math.floor(ttl_ms * 0.99 - MARGIN_MS - interval_ms * 1.1));
}

/** What the daemon says is left, on its own clock. @param {Promised} answer */
function left(answer) {
  const ms = Date.parse(answer.lease_expires_at) - Date.parse(answer.server_time);
  return Number.isFinite(ms) ? ms : 0;
}

/**
 * How much of that a page may count on: what the daemon promised, in which the slack for clock rates is, less a margin.
 * A grace is forgiveness, not a promise. A session that is not in use yet has only its deadline.
 * @param {Promised} answer
 * @param {Pick<Shown, "state">} shown
 */
function promised(answer, shown) {
  const waits = shown.state === "new" || shown.state === "starting";
  return (answer.valid_ms ?? (waits ? left(answer) : 0)) - MARGIN_MS;
}

/**
 * Doubles with each failure, and never twice alike, so that pages which lost one daemon do not return as one.
 * @param {number} failures
 * @param {number} most
 */
function backOff(failures, most) {
  const full = Math.min(BACK_OFF_MS_MIN * 2 ** Math.min(failures, 16), Math.max(most, BACK_OFF_MS_MIN));
  return full * (0.5 + Math.random() / 2);
}

/** @param {string} text */
function parsed(text) {
  try {
    const answer = JSON.parse(text);
    if (typeof answer?.session_id === "string") {
      return answer;
    }
  } catch {
    // Said below.
  }
  // Captive portals answer everything with 200 and a page of theirs.
  throw new TenureError("bad_answer", "the answer is not from a Tenure daemon", { status: 200 });
}

/** @param {Response} answer @param {string} text @returns {never} */
function refuse(answer, text) {
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    // Something between here and the daemon answers in its own way.
  }
  const seconds = Number.parseFloat(answer.headers.get("retry-after") ?? "");
  const retry_after_ms = problem?.retry_after_ms ?? (Number.isFinite(seconds) ? seconds * 1_000 : null);
  const code = typeof problem?.code === "string" ? problem.code : `http_${answer.status}`;
  const message = problem?.detail ?? problem?.title ?? `the daemon answered ${answer.status}`;
  throw new TenureError(code, message, { status: answer.status, problem, retry_after_ms });
}

/** `crypto.randomUUID` is missing where a page came over plain HTTP from elsewhere. */
function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
function wait(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
