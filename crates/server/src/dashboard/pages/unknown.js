// The page of an address that names none.

import { empty, h } from "../dom.js";

/** @param {HTMLElement} root */
export function mount(root) {
  root.append(
    h("h1", {}, "No such page"),
    empty("The dashboard has no page at this address", "Choose a page on the left, or go to the overview."),
    h("p", {}, h("a", { class: "button primary", href: "#/" }, "Overview")),
  );
  return { focus: null };
}
