// Bars that run out: the browser moves them by itself, with the exact time that is left; only their words are
// written here, by one timer for all.

import { attribute, h, write } from "./dom.js";
import { left } from "./text.js";

const WORDS_EVERY_MS = 100;
const REFILL_MS = 280;

/** @type {Set<Countdown>} */
const running = new Set();
const calm = matchMedia("(prefers-reduced-motion: reduce)");

setInterval(() => {
  if (document.hidden) return;
  const now = performance.now();
  for (const countdown of running) countdown.tick(now);
}, WORDS_EVERY_MS);

/**
 * @typedef {object} Phase
 * @property {number | null} endsAt By `performance.now()`; null: it has no end, or none is known.
 * @property {number | null} phaseMs
 * @property {string} tone Which colour it has.
 * @property {string} endless What is said when it has no end.
 * @property {boolean} [renews] Past its end it was renewed, not over.
 */

export class Countdown {
  /** @param {string} [className] */
  constructor(className = "") {
    this.fill = h("div", { class: "countdown-fill" });
    this.track = h("div", { class: "countdown-track", "aria-hidden": "true" }, this.fill);
    this.words = h("span", { class: "countdown-words" });
    this.element = h("div", { class: `countdown ${className}` }, this.track, this.words);
    /** @type {Phase} */
    this.phase = { endsAt: null, phaseMs: null, tone: "", endless: "" };
    /** @type {Animation | null} */
    this.animation = null;
  }

  /** @param {Phase} phase */
  set(phase) {
    const before = this.phase;
    this.phase = phase;
    running.add(this);
    attribute(this.element, "data-tone", phase.tone);
    const now = performance.now();
    const sameEnd =
      before.endsAt !== null &&
      phase.endsAt !== null &&
      Math.abs(before.endsAt - phase.endsAt) < 120 &&
      before.phaseMs === phase.phaseMs;
    if (!sameEnd || this.animation === null) this.animate(now, before);
    this.tick(now);
  }

  /** @param {number} endsAt @param {number | null} phaseMs @param {number} now */
  share(endsAt, phaseMs, now) {
    return phaseMs ? Math.max(0, Math.min(1, (endsAt - now) / phaseMs)) : 1;
  }

  /** @param {number} now @param {Phase} before */
  animate(now, before) {
    const { endsAt, phaseMs } = this.phase;
    this.animation?.cancel();
    this.animation = null;
    attribute(this.element, "data-endless", endsAt === null ? "" : null);
    if (endsAt === null) {
      this.fill.style.transform = "scaleX(1)";
      return;
    }
    const remaining = Math.max(0, endsAt - now);
    const share = this.share(endsAt, phaseMs, now);
    this.fill.style.transform = `scaleX(${share})`;
    if (remaining === 0 || calm.matches || !this.fill.animate) return;
    const frames = [
      { transform: `scaleX(${share})`, offset: 0 },
      { transform: "scaleX(0)", offset: 1 },
    ];
    // A renewal is seen as one: the bar fills up, then runs on.
    const was = before.endsAt === null ? share : this.share(before.endsAt, before.phaseMs, now);
    if (share - was > 0.03 && remaining > 2 * REFILL_MS) {
      const after = this.share(endsAt, phaseMs, now + REFILL_MS);
      frames[0] = { transform: `scaleX(${was})`, offset: 0 };
      frames.splice(1, 0, { transform: `scaleX(${after})`, offset: REFILL_MS / remaining });
    }
    this.animation = this.fill.animate(frames, { duration: remaining, fill: "forwards", easing: "linear" });
  }

  /** @param {number} now */
  tick(now) {
    const { endsAt, phaseMs, endless, renews } = this.phase;
    if (endsAt === null) {
      write(this.words, endless);
      attribute(this.element, "data-low", null);
      return;
    }
    const remaining = endsAt - now;
    write(this.words, remaining <= 0 && renews ? "…" : left(remaining));
    attribute(this.element, "data-low", phaseMs && remaining < phaseMs / 3 ? "" : null);
    if (calm.matches) this.fill.style.transform = `scaleX(${this.share(endsAt, phaseMs, now).toFixed(2)})`;
  }

  /** Stops until it is set again. */
  release() {
    running.delete(this);
    this.animation?.cancel();
    this.animation = null;
    this.phase = { endsAt: null, phaseMs: null, tone: "", endless: "" };
  }
}

/** A lease's phase. @param {import("./store.js").Lease} lease @returns {Phase} */
export function phaseOf(lease) {
  let endless = "…";
  if (lease.standing === "alive" && lease.mode === "permanent") endless = "permanent";
  else if (lease.standing === "alive" && lease.mode === "session" && lease.sure) endless = "connected";
  else if (lease.standing === "revoking" && lease.sure) endless = "waits for reclaim";
  return {
    endsAt: lease.endsAt,
    phaseMs: lease.phaseMs,
    tone: lease.standing === "alive" && lease.mode === "permanent" ? "permanent" : lease.standing,
    endless,
    renews: lease.standing === "alive",
  };
}
