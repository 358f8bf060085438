// How values become words: durations, times, numbers, and strings from outside made safe to look at. Knows
// nothing of the page.

const NUMBER = new Intl.NumberFormat("en");

/** A number with separators: `10,240`. @param {number} value */
export function count(value) {
  return NUMBER.format(value);
}

/**
 * A number and what it counts: `1 lease`, `2 leases`.
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A rate or a measure with as many digits as say something. @param {number} value */
export function measure(value) {
  if (value >= 1000) return count(Math.round(value));
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  if (value === 0) return "0";
  return value < 0.1 ? value.toFixed(3) : value.toFixed(2);
}

/** A size in memory or on disk: `24 KiB`, `1.2 GiB`. @param {number} value */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit > 0 && rest < 10 ? +rest.toFixed(1) : Math.round(rest)} ${units[unit]}`;
}

/** Time left, short and steady in width: `9.4 s`, `58 s`, `4 m 07 s`, `3 h 12 m`. @param {number} ms */
export function left(ms) {
  if (ms <= 0) return "0.0 s";
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const secs = Math.floor(ms / 1000);
  if (secs < 100) return `${secs} s`;
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (secs < 3600) return `${Math.floor(secs / 60)} m ${two(secs % 60)} s`;
  if (secs < 86_400) return `${Math.floor(secs / 3600)} h ${two(Math.floor((secs % 3600) / 60))} m`;
  return `${Math.floor(secs / 86_400)} d ${two(Math.floor((secs % 86_400) / 3600))} h`;
}

/** A length of time as it was asked for: `30 s`, `1 m 30 s`. @param {number} ms */
export function span(ms) {
  if (ms < 1000) return `${ms} ms`;
  const parts = [];
  let rest = ms;
  for (const [unit, size] of /** @type {[string, number][]} */ ([
    ["d", 864e5],
    ["h", 36e5],
    ["m", 6e4],
  ])) {
    if (rest >= size) {
      parts.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    }
  }
  if (rest > 0 && parts.length < 2) parts.push(`${+(rest / 1000).toFixed(1)} s`);
  return parts.slice(0, 2).join(" ");
}

/** How long ago, roughly: `now`, `12 s ago`, `3 h ago`. @param {number} ms */
export function ago(ms) {
  if (ms < 2000) return "now";
  const secs = Math.floor(ms / 1000);
  if (secs < 60) return `${secs} s ago`;
  if (secs < 3600) return `${Math.floor(secs / 60)} m ago`;
  if (secs < 86_400) return `${Math.floor(secs / 3600)} h ago`;
  return `${Math.floor(secs / 86_400)} d ago`;
}

/** Time of day with milliseconds, in the reader's zone. @param {string | number} at */
export function clock(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "—";
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const ms = String(date.getMilliseconds()).padStart(3, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}

/** Day and time, in the reader's zone. @param {string | number} at */
export function moment(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "—";
  const day = date.toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
  return `${day}, ${clock(at)}`;
}

/** Words of the wire as words: `heartbeat_expired` is `heartbeat expired`. @param {string} word */
export function words(word) {
  return word.replaceAll("_", " ");
}

// Controls, and characters that turn or hide the text around them. Joiners make letters and emoji and stay
// where they do so; beside ASCII they only hide.
const HIDDEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]",
  "gu",
);
const JOINERS = /(?<=[\u0020-\u007e])[\u200c\u200d]|[\u200c\u200d](?=[\u0020-\u007e]|$)/gu;

/**
 * A string from outside with nothing hidden in it: controls as their pictures, what turns or hides text by
 * its code point. Whoever shows it isolates its direction (`bdi`).
 * @param {unknown} value
 * @param {boolean} [lines] Keeps line feeds.
 */
export function shown(value, lines = false) {
  const named = (/** @type {string} */ c) =>
    `⟨U+${c.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  return String(value)
    .replace(HIDDEN, (c) => {
      const code = c.codePointAt(0) ?? 0;
      if (code === 10 && lines) return c;
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      return code === 0x7f ? "␡" : named(c);
    })
    .replace(JOINERS, named);
}

/** Names that the daemon makes of other names, with what does not fit into a name as `%XX`. */
const ESCAPED = /^(?:poll|mdns)\//;

/**
 * The name of a resource as people know it: of targets and services, what the daemon escaped is written out.
 * @param {string} name
 */
export function unescaped(name) {
  if (!ESCAPED.test(name) || !name.includes("%")) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * Why a lease ended, in words.
 * @param {string} kind Of the event.
 * @param {string | null} reason `explicit` says no more than that the holder released it.
 */
export function endWords(kind, reason) {
  return words(reason && reason !== "explicit" ? reason : kind);
}

/** A reason of the wire as words: `LEASE_EXPIRED` is `lease expired`. @param {string} reason */
export function reasonWords(reason) {
  const [, code, rest] = /^([A-Z_]+)(?::(.*))?$/s.exec(reason) ?? [];
  if (code === undefined) return reason;
  return words(code.toLowerCase()) + (rest === undefined ? "" : `: ${rest}`);
}

/** JSON from outside, laid out for reading. @param {unknown} value */
export function json(value) {
  return shown(JSON.stringify(value, null, 2) ?? "", true);
}
