// Waiting: requests that wait for something that is held, by what they wait for. The daemon lists waiters only in the
// view of one lease or resource, so the leases are read one after the other, those that had waiters first.

import { Refusal, ask, path } from "../api.js";
import { attribute, empty, h, keyed, named, outside, replace, write } from "../dom.js";
import { count, left, plural } from "../text.js";

const ROUND_EVERY_MS = 3_000;
/** Views that are read in one round, and at once. */
const READ_MAX = 400;
const AT_ONCE = 4;
/** Groups of which the daemon is also asked how long each waits. */
const TIMED_MAX = 20;

/**
 * @typedef {{holder: string, waited_ms?: number, passed?: number}} Waiter
 * @typedef {{resource: string, lease: string | null, holder: string, waiters: Waiter[]}} Group
 */

/**
 * @param {HTMLElement} root
 * @param {URLSearchParams} _params
 * @param {import("../app.js").App} app
 */
export function mount(root, _params, app) {
  const { store, pulse } = app;
  /** @type {Map<string, Group>} */
  let groups = new Map();
  let gone = false;
  let wasRead = false;
  const shownCount = h("span", { class: "shown-count", data: { part: "count" } });
  const note = h("p", { class: "quiet" });
  const list = h("div", { class: "waiting", data: { part: "waiting" } });
  const nothing = h("div", { class: "nothing", hidden: true });
  replace(
    nothing,
    empty(
      "No requests are waiting",
      "A request can wait in line for a resource that is held. Hold a lock in one terminal, wait for it in another:",
      ["tenure run --resource deploy -- sleep 60", "tenure lease acquire deploy --holder me --wait 1m"],
    ),
  );
  root.append(
    h("div", { class: "toolbar" }, h("h1", { class: "toolbar-title" }, "Waiting"), shownCount),
    list,
    note,
    nothing,
  );

  /** One member of each pool stands for its queue; of other leases the first resource names the group. */
  function* candidates() {
    yield* groups.keys();
    for (const { name, removed } of store.pools) if (!removed) yield `${name}/1`;
    for (const lease of store.leases.values()) {
      const resource = lease.resources[0];
      if (resource !== undefined && poolOf(resource) === null) yield resource;
    }
  }

  /** @param {string} resource @returns {string | null} */
  function poolOf(resource) {
    const [, name, number] = /^(.*)\/([1-9][0-9]*)$/s.exec(resource) ?? [];
    const pool = store.pools.find((one) => one.name === name);
    return pool && Number(number) <= pool.size ? pool.name : null;
  }

  /** @param {string} resource @returns {Promise<Group | null>} */
  async function readGroup(resource) {
    const id = store.byResource.get(resource) ?? null;
    const pool = poolOf(resource);
    // A lease over several resources is asked for as a whole.
    const parts = id !== null && pool === null ? ["v1", "leases", id] : ["v1", "resources", resource];
    try {
      const view = await ask(path(parts));
      const waiters = (view.waiters ?? []).map((/** @type {string} */ holder) => ({ holder }));
      return waiters.length > 0
        ? { resource: pool ?? resource, lease: pool === null ? id : null, holder: view.holder ?? "", waiters }
        : null;
    } catch (error) {
      if (error instanceof Refusal && (error.status === 404 || error.status === 410)) return null;
      throw error;
    }
  }

  /** How long each waits. @param {string} key @param {Group} group */
  async function time(key, group) {
    try {
      const { waiters } = await ask(path(["v1", "why"], { resource: key }));
      if (waiters?.length > 0) group.waiters = waiters;
    } catch {
      // Their names are known all the same.
    }
  }

  let underWay = false;
  async function round() {
    if (underWay || app.feed.state !== "live") return;
    underWay = true;
    try {
      await pulse.beat();
      const expected = pulse.status?.waiters ?? 0;
      /** @type {Map<string, Group>} */
      const found = new Map();
      const keys = [...new Set(candidates())];
      let read = 0;
      const waiting = () => [...found.values()].reduce((sum, { waiters }) => sum + waiters.length, 0);
      const isDone = () => gone || waiting() >= expected;
      while (read < Math.min(keys.length, READ_MAX) && !isDone()) {
        const some = keys.slice(read, read + AT_ONCE);
        read += some.length;
        const answers = await Promise.all(some.map(readGroup));
        answers.forEach((group, index) => group && found.set(some[index], group));
      }
      for (const [key, group] of [...found].slice(0, TIMED_MAX)) await time(key, group);
      if (gone) return;
      groups = found;
      wasRead = true;
      const rest = keys.length - read;
      const isShort = rest > 0 && !isDone();
      write(note, isShort ? `Waiters of ${plural(rest, "more lease")} are not listed.` : "");
      draw(expected);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    } finally {
      underWay = false;
    }
  }

  /** @param {number} expected */
  function draw(expected) {
    write(shownCount, `${count(expected)} waiting`);
    list.hidden = groups.size === 0;
    nothing.hidden = expected > 0 || !wasRead;
    keyed(
      list,
      [...groups.values()],
      ({ resource }) => resource,
      ({ resource }) =>
        h(
          "section",
          { class: "card", "aria-label": `Waiting for ${resource}`, data: { resource } },
          h("div", { class: "card-head" }, h("h2", {}, named(resource)), h("span", { class: "quiet" })),
          h("ol", { class: "names" }),
        ),
      (card, { lease, holder, waiters }) => {
        const held = card.querySelector(".quiet");
        const words = `${lease ?? ""} ${holder}`;
        if (held.getAttribute("data-holder") !== words) {
          attribute(held, "data-holder", words);
          replace(
            held,
            lease === null
              ? "every slot is taken"
              : [
                  "held by ",
                  h("a", { href: `#/leases/${encodeURIComponent(lease)}` }, outside(holder, "strong")),
                ],
          );
        }
        keyed(
          card.querySelector("ol"),
          waiters.map((waiter, index) => ({ ...waiter, key: `${index} ${waiter.holder}` })),
          ({ key }) => key,
          (waiter) => h("li", {}, outside(waiter.holder, "strong"), h("span", { class: "quiet" })),
          (line, { waited_ms: waited, passed }) => {
            const since = waited === undefined ? "" : ` waits for ${left(waited)}`;
            write(line.children[1], since + (passed ? `, passed ${plural(passed, "time")}` : ""));
          },
        );
      },
    );
  }

  let nextRound = 0;
  const tick = () => {
    if (performance.now() < nextRound || app.feed.state !== "live") return;
    nextRound = performance.now() + ROUND_EVERY_MS;
    void round();
  };
  tick();
  return {
    focus: null,
    tick,
    feedChanged: tick,
    unmount: () => (gone = true),
  };
}
