// The daemon's public API: asking, being refused, and what time it is over there. Owns the token of this tab,
// which is kept nowhere else and gone with it, and the page value: the half of a sign-in that is kept per origin.
// The other half is a cookie, which browsers send to every port of a host; neither counts alone.

/** A refusal, or no answer at all (`status` 0). */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {Record<string, any>} [body]
   */
  constructor(status, code, message, body = {}) {
    super(message);
    this.name = "Refusal";
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

/** How long an ordinary question may take. */
const ANSWER_WITHIN_MS = 15_000;

/** @type {string | null} */
let token = null;

/** Where the page value is kept: all tabs of this origin share it. `tenure-session.js` reads it too. */
const PAGE_KEY = "tenure-page";

/** The daemon's wall clock less ours, and how sure that is. */
const drift = { ms: 0, within: Infinity, at: 0 };

/** @type {Set<(refusal: Refusal) => void>} */
const signedOut = new Set();

/** Presents this token from now on; null presents none. @param {string | null} value */
export function presentToken(value) {
  token = value;
}

/** The token of this tab, for the module that keeps a session. */
export function presentedToken() {
  return token;
}

/** Keeps the page value of a sign-in; null forgets it. @param {string | null} value */
export function keepPage(value) {
  if (value === null) localStorage.removeItem(PAGE_KEY);
  else localStorage.setItem(PAGE_KEY, value);
}

/** The page value of this origin. @returns {string | null} */
function keptPage() {
  try {
    return localStorage.getItem(PAGE_KEY);
  } catch {
    // Without storage nobody is signed in here.
    return null;
  }
}

/** Calls back when the daemon asks for a credential. @param {(refusal: Refusal) => void} handler */
export function onSignedOut(handler) {
  signedOut.add(handler);
}

/** The daemon's time, as near as answers tell. */
export function serverNow() {
  return Date.now() + drift.ms;
}

/**
 * Learns from an answer what time it is over there; the quickest answer of the last minute knows best.
 * @param {unknown} serverTime
 * @param {number} askedAt
 */
function learnTime(serverTime, askedAt) {
  const theirs = typeof serverTime === "string" ? Date.parse(serverTime) : NaN;
  if (Number.isNaN(theirs)) return;
  const took = performance.now() - askedAt;
  if (took <= drift.within || performance.now() - drift.at > 60_000) {
    drift.ms = theirs + took / 2 - Date.now();
    drift.within = took;
    drift.at = performance.now();
  }
}

/** @param {Record<string, string>} [more] @returns {Record<string, string>} */
export function credentials(more = {}) {
  if (token !== null) return { ...more, authorization: `Bearer ${token}` };
  const page = keptPage();
  return page === null ? more : { ...more, "tenure-page": page };
}

/** @param {Response} response @returns {Promise<Refusal>} */
export async function refusalOf(response) {
  /** @type {any} */
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy in between speaks for itself.
  }
  const code = body.error ?? body.code ?? `http_${response.status}`;
  const message = body.message ?? body.detail ?? body.title ?? `the answer was ${response.status}`;
  const refusal = new Refusal(response.status, String(code), String(message), body);
  if (response.status === 401) signedOut.forEach((handler) => handler(refusal));
  return refusal;
}

/**
 * Asks for JSON. The answer carries `answeredAt`, the time by `performance.now()` that it speaks of.
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal, key?: string}} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, options = {}) {
  const askedAt = performance.now();
  const response = await send(path, options);
  const body = await response.json();
  learnTime(body?.server_time, askedAt);
  if (body && typeof body === "object") {
    Object.defineProperty(body, "answeredAt", {
      value: (askedAt + performance.now()) / 2,
      enumerable: false,
    });
  }
  return body;
}

/** Asks for text. @param {string} path @param {{signal?: AbortSignal}} [options] */
export async function askText(path, options = {}) {
  const response = await send(path, options);
  return response.text();
}

/**
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal, key?: string}} options
 */
async function send(path, { method = "GET", body, signal, key }) {
  const limit = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const headers = credentials();
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key !== undefined) headers["idempotency-key"] = key;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, "unreachable", "the daemon does not answer");
  }
  if (!response.ok) throw await refusalOf(response);
  return response;
}

/**
 * A path of which parts are from outside.
 * @param {string[]} parts
 * @param {Record<string, string | number | undefined | null>} [query]
 */
export function path(parts, query = {}) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return `/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}
