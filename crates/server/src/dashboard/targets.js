// A group of pollers as the daemon tells it, turned into rows: what the reader came for stands first. Knows
// nothing of the page.

/** What the reader came for stands first. */
const ORDER = ["unowned", "abandoned", "uncertain", "draining", "owned"];

/**
 * @typedef {object} Target
 * @property {string} target
 * @property {string} state
 * @property {string | null} owner Instance; null: nobody polls it.
 * @property {string | null} preferred Instance; null: nobody can.
 * @property {number | null} fence
 * @property {string | null} since When its poller got it, or when it came free.
 * @property {string | null} renewed
 * @property {string | null} uncertain Since when its poller is not heard of.
 * @property {boolean} pinned
 * @property {boolean} failing Whether its last polls failed.
 * @property {string | null} last Who polled it last.
 * @property {string | null} reason Why it came free.
 *
 * @typedef {object} Group
 * @property {import("./pollers.js").Poller[]} pollers
 * @property {Target[]} targets
 * @property {Map<string, string>} names
 * @property {number} unowned How many targets nobody polls, those included that no poller names.
 * @property {number} failing How many targets have polls that fail, those included that no poller names.
 */

/** @returns {Group} */
export function noGroup() {
  return { pollers: [], targets: [], names: new Map(), unowned: 0, failing: 0 };
}

/** @param {any} told A `PollingView`. @returns {Group} */
export function readGroup(told) {
  /** @type {Target[]} */
  const targets = [];
  for (const node of told.live_nodes) {
    for (const one of node.owned_targets) {
      targets.push({
        target: one.target,
        state: one.state,
        owner: one.owner_id,
        preferred: one.preferred_owner_id,
        fence: one.fence,
        since: one.acquired_at,
        renewed: one.last_renewed_at,
        uncertain: one.uncertain_since,
        pinned: one.pinned,
        failing: one.failing === true,
        last: null,
        reason: null,
      });
    }
  }
  const unowned = told.unowned_targets.map((/** @type {string} */ target) => [target, "unowned"]);
  const abandoned = Object.keys(told.abandoned ?? {}).map((target) => [target, "abandoned"]);
  for (const [target, state] of [...unowned, ...abandoned]) {
    const one = told[state][target] ?? {};
    targets.push({
      target,
      state,
      owner: null,
      preferred: one.preferred_owner_id ?? null,
      fence: null,
      since: one.since ?? null,
      renewed: null,
      uncertain: null,
      pinned: false,
      failing: false,
      last: one.last_owner_id ?? null,
      reason: one.reason ?? null,
    });
  }
  const rank = (/** @type {Target} */ { state, failing }) => 2 * ORDER.indexOf(state) + (failing ? 0 : 1);
  targets.sort((a, b) => rank(a) - rank(b) || (a.target < b.target ? -1 : 1));
  return {
    pollers: told.live_nodes.map((/** @type {any} */ node) => ({
      instance: node.instance_id,
      name: node.name,
      status: node.status,
      weight: node.weight,
      owned: node.owned_targets.length,
      failing: node.failing ?? 0,
    })),
    targets,
    names: new Map(told.live_nodes.map((/** @type {any} */ node) => [node.instance_id, node.name])),
    unowned: Math.max(told.unowned_total ?? 0, told.unowned_targets.length),
    failing: told.failing_total ?? 0,
  };
}

/** The resource that a target is polled under. @param {string} group @param {string} target */
export function resourceOf(group, target) {
  const isPath = target.split("/").every((segment) => !["", ".", ".."].includes(segment));
  const fits = (/** @type {string} */ letter, /** @type {number} */ at) => {
    if (letter === "/" || letter === ".") return isPath;
    if (letter === "@") return at > 0;
    return letter !== "%" && letter >= " " && letter <= "~";
  };
  const hex = (/** @type {number} */ byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  const bytes = (/** @type {string} */ letter) => [...new TextEncoder().encode(letter)].map(hex).join("");
  const written = [...target].map((letter, at) => (fits(letter, at) ? letter : bytes(letter)));
  return `poll/${group}/${written.join("")}`;
}
