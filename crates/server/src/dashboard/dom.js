// Elements without markup: everything is built by name, every string becomes text.
// Invariant: no string from outside becomes an element or a handler, and of an address only host, port and path of a
// link to a web service (`serviceLink`).

import { shown, unescaped } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** Addresses that the page itself leads to. */
const OWN_ADDRESS = /^(#\/|\/docs$|\/openapi\.json$|\/metrics$)/;

/**
 * @typedef {Node | string | number | null | undefined | false | any[]} Child
 * @typedef {Record<string, any>} Props `class`, `data`, `on`, `text`, attributes, or properties after a dot.
 */

/**
 * @param {Element} element
 * @param {Props} props
 */
function furnish(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [kind, handler] of Object.entries(value)) element.addEventListener(kind, handler);
    } else if (name === "data") {
      for (const [key, datum] of Object.entries(value)) {
        if (datum !== undefined && datum !== null) element.setAttribute(`data-${key}`, String(datum));
      }
    } else if (name === "href") {
      if (!OWN_ADDRESS.test(value)) throw new Error("an address that is not ours");
      element.setAttribute("href", value);
    } else if (name === "src" || name === "style" || name.startsWith("on")) {
      throw new Error(`${name} is not set here`);
    } else if (name.startsWith(".")) {
      /** @type {any} */ (element)[name.slice(1)] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  furnish(element, props);
  fill(element, children);
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 */
export function s(tag, props = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  furnish(element, props);
  fill(element, children);
  return element;
}

/**
 * A string from outside: nothing in it is hidden, and its direction ends where it ends.
 * @param {unknown} value
 * @param {string} [className]
 */
export function outside(value, className) {
  return h("bdi", { class: className }, shown(value));
}

/** So many characters of a long name stay at its end. */
const TAIL = 10;

/**
 * Writes the name of a resource, target or holder: as people know it, and cut in the middle where it is too long for
 * its place, since names differ at their ends. The whole name is in its title.
 * @param {Element} element
 * @param {string} name
 */
export function writeName(element, name) {
  const text = shown(unescaped(name));
  if (element.getAttribute("title") === text) return;
  attribute(element, "title", text);
  // Other scripts are joined and turned by the browser, which a cut would disturb.
  if (text.length < 2 * TAIL + 4 || !/^[ -~]+$/.test(text)) replace(element, text);
  else {
    const [head, tail] = [text.slice(0, -TAIL), text.slice(-TAIL)];
    replace(element, h("span", { class: "cut-head" }, head), h("span", { class: "cut-tail" }, tail));
  }
}

/** The same as an element. @param {string} name @param {string} [className] */
export function named(name, className = "") {
  const element = h("bdi", { class: `cut ${className}` });
  writeName(element, name);
  return element;
}

/**
 * A link to a web service. Only what an address may have in these places gets into it, whatever they contain.
 * @param {{secure: boolean, host: string, port: number, path: string}} service
 * @returns {HTMLAnchorElement | null} Null where the host is no address.
 */
export function serviceLink({ secure, host, port, path }) {
  const isIpv6 = /^[0-9a-f:.]+$/i.test(host) && host.includes(":");
  if (!isIpv6 && !/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)) return null;
  const address = new URL(location.origin);
  address.protocol = secure ? "https:" : "http:";
  address.hostname = isIpv6 ? `[${host}]` : host;
  address.port = String(port);
  address.pathname = path.startsWith("/") ? path : "/";
  const link = h("a", { class: "service-link", target: "_blank", rel: "noopener noreferrer" }, address.href);
  link.href = address.href;
  return link;
}

/**
 * Writes text only where it differs, so that nothing is laid out for nothing.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.firstChild instanceof Text && element.childNodes.length === 1) {
    if (element.firstChild.data !== text) element.firstChild.data = text;
  } else {
    element.textContent = text;
  }
}

/**
 * Sets an attribute only where it differs.
 * @param {Element} element
 * @param {string} name
 * @param {string | null} value
 */
export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function replace(element, ...children) {
  element.replaceChildren();
  fill(element, children);
}

/** @type {WeakMap<Element, Map<string, Element>>} */
const children = new WeakMap();

/**
 * Children that stay with their item, so that focus and what is opened in one outlive a change of another.
 * @template T
 * @param {Element} parent All its children are made here.
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => Element} make
 * @param {(element: any, item: T) => void} [update]
 */
export function keyed(parent, items, keyOf, make, update) {
  const before = children.get(parent) ?? new Map();
  const now = new Map();
  const keys = items.map(keyOf);
  const wanted = new Set(keys);
  for (const [key, element] of before) if (!wanted.has(key)) element.remove();
  items.forEach((item, index) => {
    const element = before.get(keys[index]) ?? make(item);
    now.set(keys[index], element);
    update?.(element, item);
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
  children.set(parent, now);
}

/**
 * Names and values, written again only where they differ.
 * @param {Element} list A `dl` that holds nothing else.
 * @param {[name: string, value: HTMLElement | string][]} facts
 */
export function setFacts(list, facts) {
  const parts = facts.flatMap(([name, value]) => [
    { key: `${name} name`, name, value: null },
    { key: name, name, value },
  ]);
  keyed(
    list,
    parts,
    ({ key }) => key,
    ({ name, value }) => h(value === null ? "dt" : "dd", {}, value === null ? name : null),
    (element, { value }) => {
      const text = typeof value === "string" ? value : (value?.textContent ?? "");
      if (value !== null && element.textContent !== text) replace(element, value);
    },
  );
}

/** An element of the page by its id. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no ${id}`);
  return element;
}

/**
 * What an empty place shows: what would be here, and the command that puts it there.
 * @param {string} title
 * @param {string} sentence
 * @param {string[]} [commands]
 */
export function empty(title, sentence, commands = []) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    h("p", {}, sentence),
    commands.map(commandLine),
  );
}

/** A command to type, with a button that copies it. @param {string} command */
export function commandLine(command) {
  const code = h("code", {}, command);
  const copy = h(
    "button",
    { type: "button", class: "button small copy", "aria-label": `Copy ${command}`, data: { action: "copy" } },
    "Copy",
  );
  copy.addEventListener("click", async () => {
    write(copy, (await copied(command, code)) ? "Copied" : "Selected");
    setTimeout(() => write(copy, "Copy"), 2_000);
  });
  return h("div", { class: "command-line" }, h("pre", { class: "command", tabindex: "0" }, code), copy);
}

/**
 * Whether a text is in the clipboard now; where a browser does not allow that, it is selected.
 * @param {string} text
 * @param {Element} element Where it stands.
 */
async function copied(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(element);
    return false;
  }
}
