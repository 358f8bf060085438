// Services on the network, browsed while the page is open: the types, then the services of one type. One stream at a
// time.

import { Refusal, path } from "./api.js";
import { attribute, h, keyed, outside, replace, serviceLink, write } from "./dom.js";
import { readStream } from "./sse.js";
import { plural, shown } from "./text.js";

const LOOK_AGAIN_MS = 3_000;
const FOUND_MAX = 500;

/** What is said about a service. @param {Record<string, string | null>} txt */
export function txtList(txt) {
  const keys = Object.entries(txt ?? {});
  if (keys.length === 0) return null;
  const said = keys.map(([key, value]) => (value === null ? key : `${key}=${value}`));
  return h(
    "ul",
    { class: "txt" },
    said.map((text) => h("li", {}, outside(text))),
  );
}

/** Whether a browser can open services of a type. @param {string} type */
export function isWeb(type) {
  return /^_https?\._tcp(\.|$)/.test(type);
}

/** @param {any} service A `ServiceRecord`. @returns {HTMLElement | null} */
function linkTo({ type, ip, port, txt }) {
  if (!isWeb(type ?? "") || !ip || !port) return null;
  return serviceLink({ secure: type.startsWith("_https."), host: ip, port, path: txt?.path ?? "/" });
}

/** @param {any} service A `ServiceRecord`. */
function serviceLine(service) {
  const where = [service.host ?? "", service.port ?? ""].filter(Boolean).join(":");
  const addresses = service.addresses ?? [];
  return h(
    "li",
    { class: "service", data: { service: service.name } },
    h("strong", {}, outside(service.name)),
    h(
      "span",
      { class: "service-where" },
      outside(where),
      addresses.length > 0 && [" ", outside(addresses.join(", "), "quiet")],
    ),
    linkTo(service),
    txtList(service.txt),
  );
}

export class Network {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {string | null} The type that is looked at; null: the types themselves. */
    this.type = null;
    /** @type {Map<string, any>} */
    this.found = new Map();
    /** @type {Set<string>} */
    this.types = new Set();
    this.looking = new AbortController();
    this.chips = h("div", { class: "chips types", role: "group", "aria-label": "Types on the network" });
    this.list = h("ul", {
      class: "services",
      "aria-label": "Services on the network",
      data: { part: "services" },
    });
    this.note = h("p", { class: "quiet" }, "browsing …");
    this.error = h("p", { class: "error", role: "alert" });
    this.element = h(
      "section",
      { class: "card network", "aria-label": "On the network" },
      h("h2", {}, "On the network"),
      this.chips,
      this.note,
      this.error,
      this.list,
    );
  }

  /** Looks until told otherwise. @param {string | null} type */
  async look(type) {
    this.looking.abort();
    this.looking = new AbortController();
    const { signal } = this.looking;
    this.type = type;
    this.found = new Map();
    this.draw();
    while (!signal.aborted) {
      try {
        await readStream(path(["v1", "mdns", "browse"], { type }), {
          signal,
          onOpen: () => {
            write(this.error, "");
            this.found = new Map();
          },
          onSaid: (said) => {
            for (const { kind, data } of said) if (kind !== "closing") this.see(JSON.parse(data));
            this.draw();
          },
        });
      } catch (refusal) {
        if (signal.aborted) return;
        if (refusal instanceof Refusal && refusal.status !== 0) write(this.error, refusal.message);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }

  stop() {
    this.looking.abort();
  }

  /** @param {any} seen */
  see(seen) {
    const service = seen.found ?? seen.service;
    const key = `${service.name}\n${service.type}`;
    const isRemoved = seen.event === "removed";
    if (this.type === null) {
      if (isRemoved) this.types.delete(service.name);
      else if (this.types.size < FOUND_MAX) this.types.add(service.name);
    } else if (isRemoved) this.found.delete(key);
    else if (this.found.size < FOUND_MAX || this.found.has(key)) this.found.set(key, service);
  }

  draw() {
    const all = [...this.types].sort();
    keyed(
      this.chips,
      all,
      (name) => name,
      (name) => {
        const click = () => void this.look(name === this.type ? null : name);
        return h(
          "button",
          { type: "button", class: "chip", data: { type: name }, on: { click } },
          outside(name),
        );
      },
      (chip, name) => attribute(chip, "aria-pressed", name === this.type ? "true" : "false"),
    );
    const sorted = [...this.found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    replace(this.list, sorted.map(serviceLine));
    const isAlone = this.app.pulse.status?.mdns === null;
    const alone = isAlone ? " mDNS is off: only services of this daemon are listed." : "";
    if (all.length === 0) write(this.note, `No services found yet.${alone}`);
    else if (this.type === null) write(this.note, `Choose a type to see its services.${alone}`);
    else write(this.note, `${plural(sorted.length, "service")} of type ${shown(this.type)}.${alone}`);
  }
}
