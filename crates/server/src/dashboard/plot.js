// A small plot of one or two lines over the last minutes: drawn by the browser from a path, coloured by the
// sheet.

import { attribute, h, s, write } from "./dom.js";
import { SAMPLES } from "./pulse.js";

const HEIGHT = 40;
/** A plot that has just begun is drawn as if it had this many samples, so that it is soon seen. */
const SAMPLES_MIN = 16;

/**
 * @typedef {object} Line
 * @property {string} key Which value of a sample.
 * @property {string} name What it is called in words.
 */

export class Plot {
  /**
   * @param {object} options
   * @param {string} options.name
   * @param {string} options.unit
   * @param {Line[]} options.lines
   * @param {(value: number) => string} options.show
   * @param {string} options.note
   */
  constructor({ name, unit, lines, show, note }) {
    this.name = name;
    this.lines = lines;
    this.show = show;
    this.unit = unit;
    this.value = h("span", { class: "plot-value" }, "—");
    this.peak = h("span", { class: "plot-peak" });
    this.area = s("path", { class: "plot-area" });
    this.paths = lines.map((_, index) => s("path", { class: `plot-line plot-line-${index}` }));
    this.svg = s(
      "svg",
      { class: "plot-picture", preserveAspectRatio: "none", role: "img" },
      this.area,
      [...this.paths].reverse(),
    );
    this.element = h(
      "figure",
      { class: lines.length > 1 ? "plot latency" : "plot", data: { plot: lines[0].key } },
      h(
        "figcaption",
        { class: "plot-head", title: note },
        h("span", { class: "plot-name" }, name),
        this.peak,
      ),
      h("div", { class: "plot-now" }, this.value, h("span", { class: "plot-unit" }, unit)),
      this.svg,
    );
  }

  /** @param {import("./pulse.js").Sample[]} samples */
  draw(samples) {
    const series = this.lines.map(({ key }) => samples.map((sample) => sample[key] ?? null));
    const all = series.flat().filter((value) => value !== null);
    const peak = Math.max(0, ...all);
    const top = peak > 0 ? peak * 1.15 : 1;
    const places = Math.min(SAMPLES, Math.max(SAMPLES_MIN, samples.length));
    attribute(this.svg, "viewBox", `0 0 ${places - 1} ${HEIGHT}`);
    series.forEach((values, index) => {
      const from = places - values.length;
      attribute(this.paths[index], "d", path(values, from, top));
      if (index === 0) attribute(this.area, "d", area(values, from, top));
    });
    const newest = series.map((values) => values.findLast((value) => value !== null) ?? null);
    const isCurrent = series[0].at(-1) !== null && series[0].length > 0;
    attribute(this.element, "data-quiet", isCurrent ? null : "");
    const said = newest.map((value) => (value === null ? "—" : this.show(value)));
    write(this.value, said.join(" / "));
    write(this.peak, all.length > 0 ? `peak ${this.show(peak)}` : "");
    const now = this.lines.map(({ name }, index) => `${name} ${said[index]}`).join(", ");
    attribute(
      this.svg,
      "aria-label",
      `${this.name}, ${this.unit}: ${now}; at most ${this.show(peak)} in three minutes`,
    );
  }
}

/** @param {(number | null)[]} values @param {number} from @param {number} top */
function path(values, from, top) {
  let drawn = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const y = (HEIGHT - 1.5 - (value / top) * (HEIGHT - 4)).toFixed(2);
    // A value alone is a dot, which needs a line of no length.
    const isAlone = pen === "M" && (values[index + 1] ?? null) === null;
    drawn += `${pen}${from + index} ${y}${isAlone ? "h.01" : ""}`;
    pen = "L";
  });
  return drawn;
}

/** @param {(number | null)[]} values @param {number} from @param {number} top */
function area(values, from, top) {
  let drawn = "";
  let start = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const value = values[index] ?? null;
    if (value !== null && start < 0) start = index;
    if (value === null && start >= 0) {
      const piece = path(values.slice(start, index), from + start, top).replace("M", "L");
      drawn += `M${from + start} ${HEIGHT}${piece}L${from + index - 1} ${HEIGHT}Z`;
      start = -1;
    }
  }
  return drawn;
}
