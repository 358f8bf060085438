// The keys, on one card.

import { byId, h, replace } from "./dom.js";

/** @type {[title: string, keys: [string, string][]][]} */
const KEYS = [
  [
    "Anywhere",
    [
      ["?", "this card"],
      ["/", "filter or search on this page"],
      ["Ctrl K", "jump to anything"],
      ["t", "colours: system, light, dark"],
      ["Esc", "close what is open"],
    ],
  ],
  [
    "Pages",
    [
      ["g o", "Overview"],
      ["g l", "Leases"],
      ["g q", "Waiting"],
      ["g w", "Why"],
      ["g r", "Registrations"],
      ["g s", "Slots"],
      ["g p", "Polling"],
      ["g e", "Events"],
      ["g c", "Cluster"],
    ],
  ],
  [
    "In a table",
    [
      ["↑ ↓", "select (also k j, Page Up, Page Down, Home, End)"],
      ["Enter", "open"],
    ],
  ],
  [
    "The lease that is selected",
    [
      ["d", "drain"],
      ["v", "revive"],
      ["x", "revoke"],
      ["c", "reclaim"],
    ],
  ],
  ["Polling", [["m", "move the target that is selected"]]],
  ["Events", [["Space", "pause and resume"]]],
];

export function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
  const close = h(
    "button",
    { type: "button", class: "button", on: { click: () => dialog.close() } },
    "Close",
  );
  replace(
    dialog,
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "div",
      { class: "keys" },
      KEYS.map(([title, keys]) =>
        h(
          "section",
          {},
          h("h3", {}, title),
          h(
            "dl",
            {},
            keys.flatMap(([key, does]) => [
              h(
                "dt",
                {},
                key.split(" ").map((one) => h("kbd", {}, one)),
              ),
              h("dd", {}, does),
            ]),
          ),
        ),
      ),
    ),
    h("div", { class: "confirm-buttons" }, close),
  );
  if (!dialog.open) dialog.showModal();
  close.focus();
}
