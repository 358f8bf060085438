// Jump to anything: pages, leases, resources, holders, and the history of what is typed.

import { attribute, byId, h, named, outside, replace } from "./dom.js";
import { matcher } from "./view.js";

const FOUND_MAX = 9;
/** @type {[string, string][]} */
const PAGES = [
  ["Overview", "#/"],
  ["Leases", "#/leases"],
  ["Waiting", "#/waiting"],
  ["Why", "#/why"],
  ["Registrations", "#/registrations"],
  ["Slots", "#/slots"],
  ["Polling", "#/polling"],
  ["Events", "#/events"],
  ["Cluster", "#/cluster"],
];

/** @param {import("./app.js").App} app */
export function openPalette(app) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("palette"));
  if (dialog.open) return;
  const input = h("input", {
    class: "field",
    type: "text",
    placeholder: "Page, lease, resource, holder",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-found",
    "aria-label": "Jump to",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("ul", { id: "palette-found", role: "listbox", "aria-label": "Found" });
  /** @type {{element: HTMLElement, go: () => void}[]} */
  let found = [];
  let chosen = 0;

  /** @param {string} kind @param {(HTMLElement | string)[]} words @param {() => void} go */
  const offer = (kind, words, go) => {
    const element = h(
      "li",
      { role: "option", id: `found-${found.length}` },
      h("span", { class: "found-kind" }, kind),
      words,
    );
    element.addEventListener("click", () => {
      dialog.close();
      go();
    });
    found.push({ element, go });
  };
  const choose = (/** @type {number} */ index) => {
    chosen = Math.max(0, Math.min(found.length - 1, index));
    found.forEach(({ element }, at) => attribute(element, "aria-selected", at === chosen ? "true" : "false"));
    attribute(input, "aria-activedescendant", found.length > 0 ? `found-${chosen}` : null);
  };
  const search = () => {
    const text = input.value.trim();
    found = [];
    for (const [name, address] of PAGES) {
      if (name.toLowerCase().startsWith(text.toLowerCase()))
        offer("page", [name], () => (location.hash = address));
    }
    if (text !== "") {
      const matches = matcher({ text, standing: "", mode: "", application: "" });
      for (const lease of app.store.leases.values()) {
        if (found.length >= FOUND_MAX) break;
        if (!matches(lease)) continue;
        const words = [named(lease.resources[0] ?? lease.id, "name"), " ", outside(lease.holder, "quiet")];
        offer("lease", words, () => app.openLease(lease.id));
      }
      offer("history of", [outside(text)], () => (location.hash = `#/why?subject=${encodeURIComponent(text)}`));
    }
    replace(
      list,
      found.map(({ element }) => element),
    );
    choose(0);
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" && found[chosen]) {
      dialog.close();
      found[chosen].go();
    } else return;
    event.preventDefault();
  });
  replace(dialog, input, list);
  search();
  dialog.showModal();
  input.focus();
}
