// Slot sessions that this tab holds, on every page, and the card that shows one: its slots, its heartbeat and its log.

import { Countdown } from "./countdown.js";
import { attribute, h, outside, replace, write } from "./dom.js";
import { TenureSession } from "./tenure-session.js";
import { clock, reasonWords, shown } from "./text.js";

const LOG_MAX = 30;

/**
 * A session that this tab holds.
 * @typedef {object} Held
 * @property {TenureSession} session
 * @property {[at: number, word: string, text: string][]} log
 * @property {boolean} isWarned
 * @property {() => void} redraw
 */

/** Held by the tab, whichever page is shown. @type {Held[]} */
export const ours = [];

/** @param {any} found A session as the daemon shows it. */
export function isOver(found) {
  return found.state === "stopped" || found.state === "failed";
}

/** @param {any} error */
export function saying(error) {
  return `${error?.message ?? error}${error?.code ? ` (${error.code})` : ""}`;
}

/** @param {Held} held @param {string} word @param {string} text */
function note(held, word, text) {
  const last = held.log.at(-1);
  // Renewals are many and alike.
  if (word === "renewed" && last?.[1] === "renewed") held.log.pop();
  held.log.push([Date.now(), word, text]);
  if (held.log.length > LOG_MAX) held.log.shift();
  held.redraw();
}

/** Follows what a session says of itself. @param {TenureSession} session @returns {Held} */
export function hold(session) {
  /** @type {Held} */
  const held = { session, log: [], isWarned: false, redraw: () => {} };
  note(held, "started", `holds ${session.resources.join(", ") || "no slot yet"}`);
  session.on("renewed", () => {
    held.isWarned = false;
    note(held, "renewed", "the daemon answered a heartbeat");
  });
  session.on("expiring", () => {
    held.isWarned = true;
    note(held, "expiring", "expiring soon: a third of the TTL is left");
  });
  session.on("expired", () => note(held, "expired", "it expired: no heartbeat came in time; its slot is free"));
  session.on("lost", (/** @type {any} */ told) =>
    note(
      held,
      "lost",
      told?.final ? "the session has ended" : "its validity ended without an answer: the page must stop now",
    ),
  );
  session.on("state", (/** @type {any} */ told) => note(held, "state", `is ${told?.state ?? session.state}`));
  return held;
}

/** @param {Held} held */
export function makeCard(held) {
  const { session } = held;
  const countdown = new Countdown("large");
  const standing = h("span", { class: "standing" });
  const warning = h("p", { class: "warning", role: "alert" });
  const log = h("ol", { class: "session-log", "aria-label": "What happened" });
  const error = h("p", { class: "error", role: "alert" });
  const pause = h(
    "button",
    { type: "button", class: "button warn", data: { action: "pause" } },
    "Pause the heartbeat",
  );
  const stop = h("button", { type: "button", class: "button", data: { action: "stop" } }, "Stop");
  const dismiss = h(
    "button",
    { type: "button", class: "button", data: { action: "dismiss" }, hidden: true },
    "Dismiss",
  );
  const facts = h("p", { class: "session-facts" });
  const card = h(
    "section",
    { class: "card session-card", "aria-label": `Slot session ${session.id}`, data: { "session-id": session.id } },
    h("div", { class: "session-head" }, standing, h("code", {}, shown(session.id))),
    facts,
    countdown.element,
    warning,
    h("div", { class: "actions" }, pause, stop, dismiss),
    error,
    log,
  );
  pause.addEventListener("click", () => {
    if (session.is_paused) session.resume();
    else session.pause();
    note(
      held,
      session.is_paused ? "paused" : "resumed",
      session.is_paused ? "the heartbeat is paused" : "the heartbeat continues",
    );
  });
  stop.addEventListener("click", async () => {
    try {
      await session.stop();
      note(held, "stopped", "stopped; its slot is free");
    } catch (refusal) {
      write(error, saying(refusal));
    }
  });
  dismiss.addEventListener("click", () => {
    ours.splice(ours.indexOf(held), 1);
    countdown.release();
    card.remove();
  });
  const redraw = () => {
    const { state } = session;
    const over = session.is_over || isOver(session);
    const isLow = !over && (held.isWarned || session.is_paused);
    attribute(card, "data-state", state);
    attribute(card, "data-paused", session.is_paused ? "" : null);
    attribute(
      standing,
      "data-standing",
      over ? "over" : state === "running" ? "alive" : state === "new" ? "reserved" : state,
    );
    write(standing, state);
    const valid = session.validFor();
    const place = session.queue_position ? `waiting, place ${session.queue_position}; ` : "";
    const fence = session.fence === null || session.fence === undefined ? "" : `, fencing token ${session.fence}`;
    replace(
      facts,
      place,
      over ? "held " : "holds ",
      session.resources.length > 0 ? outside(session.resources.join(", "), "strong") : "nothing yet",
      fence,
    );
    countdown.set(
      over
        ? {
            endsAt: null,
            phaseMs: null,
            tone: "over",
            endless: session.reason ? reasonWords(String(session.reason)) : state,
          }
        : {
            endsAt: performance.now() + valid,
            phaseMs: session.ttl_ms ?? valid,
            tone: isLow ? "draining" : "alive",
            endless: "",
          },
    );
    write(warning, held.isWarned && !over ? "Expiring soon" : "");
    write(pause, session.is_paused ? "Resume the heartbeat" : "Pause the heartbeat");
    attribute(pause, "aria-pressed", session.is_paused ? "true" : "false");
    pause.hidden = over;
    stop.hidden = over;
    dismiss.hidden = !over;
    replace(
      log,
      [...held.log]
        .reverse()
        .map(([at, word, text]) =>
          h(
            "li",
            { data: { word } },
            h("time", {}, clock(at)),
            h("span", { class: "log-word" }, word),
            h("span", {}, shown(text)),
          ),
        ),
    );
  };
  held.redraw = redraw;
  redraw();
  return { card, release: () => countdown.release() };
}
