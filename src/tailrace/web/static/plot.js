// The time line: areas of changes, lines of what streams received, and a range that can be selected.

import { by, element, shape } from "./dom.js";
import { clock, rate } from "./format.js";

const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 6;
const TICKS = 4;

const STACKED = [
  ["insert", "inserts"],
  ["update", "updates"],
  ["delete", "deletes"],
];
const LINES = [
  ["delivered", "received by streams"],
  ["stored", "stored by the pipeline"],
];
const ONE = [["events", "events in the history"]];

export class Plot {
  // `onSelect` gets a range in milliseconds and the number of events in it, or null.
  constructor(box, onSelect) {
    this.box = box;
    this.onSelect = onSelect;
    this.rows = [];
    this.series = [];
    this.range = null;
    this.cursor = null;
    this.svg = shape("svg", { role: "img", "aria-label": "Events a second over time" });
    this.tip = element("div", { class: "tip", hidden: true });
    box.append(this.svg, this.tip);
    new ResizeObserver(() => this.draw()).observe(box);
    box.addEventListener("pointerdown", (event) => this.press(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerup", (event) => this.release(event));
    box.addEventListener("pointerleave", () => this.leave());
    box.addEventListener("keydown", (event) => this.key(event));
  }

  // Rows are [milliseconds, rate of each series...], in the order of time.
  show(series, rows, begin = null) {
    this.series = series;
    this.rows = rows;
    this.begin = begin;
    this.draw();
    this.drawLegend();
  }

  add(row, seconds) {
    if (this.rows.length && row[0] <= this.rows.at(-1)[0]) return;
    const lines = this.lines.length;
    this.rows.push(row);
    this.begin = row[0] - seconds * 1000;
    while (this.rows.length && this.rows[0][0] < this.begin) this.rows.shift();
    this.draw();
    if (this.lines.length !== lines) this.drawLegend();
  }

  shown(kinds) {
    return kinds
      .map(([name, text]) => ({ name, text, at: this.series.indexOf(name) + 1 }))
      .filter(({ at }) => at > 0);
  }

  get areas() {
    return this.series.includes("events") ? this.shown(ONE) : this.shown(STACKED);
  }

  get lines() {
    return this.shown(LINES).filter(({ at }) => this.rows.some((row) => row[at] > 0));
  }

  x(time) {
    const [first, last] = this.extent;
    return LEFT + ((time - first) / Math.max(last - first, 1)) * (this.width - LEFT - RIGHT);
  }

  timeAt(x) {
    const [first, last] = this.extent;
    const share = (x - LEFT) / Math.max(this.width - LEFT - RIGHT, 1);
    return first + Math.min(Math.max(share, 0), 1) * (last - first);
  }

  get extent() {
    if (!this.rows.length) return [0, 1];
    const last = this.rows.at(-1)[0];
    // A time line that has just begun uses the whole width.
    const oldest = this.rows[0][0];
    return [Math.max(this.begin ?? oldest, Math.min(oldest, last - 60_000)), last];
  }

  draw() {
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    const { width, height, rows, svg } = this;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const areas = this.areas;
    const lines = this.lines;
    const most = rows.reduce(
      (top, row) =>
        Math.max(top, areas.reduce((sum, { at }) => sum + row[at], 0), ...lines.map(({ at }) => row[at])),
      0,
    );
    const step = niceStep(most);
    const top = Math.max(step * Math.ceil(most / step), step);
    const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - TOP);
    const parts = [];
    for (let value = 0; value <= top + step / 2; value += step) {
      parts.push(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(shape("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, rate(value)));
    }
    parts.push(...this.timeLabels(width, height));
    if (rows.length > 1) {
      let base = rows.map(() => 0);
      for (const { name, at } of areas) {
        const next = rows.map((row, number) => base[number] + row[at]);
        const upper = rows.map((row, number) => `${this.x(row[0]).toFixed(1)},${y(next[number]).toFixed(1)}`);
        const lower = rows.map((row, number) => `${this.x(row[0]).toFixed(1)},${y(base[number]).toFixed(1)}`);
        parts.push(shape("path", { class: `area-${name}`, d: `M${upper.join("L")}L${lower.reverse().join("L")}Z` }));
        base = next;
      }
      for (const { name, at } of lines) {
        const points = rows.map((row) => `${this.x(row[0]).toFixed(1)},${y(row[at]).toFixed(1)}`);
        parts.push(shape("path", { class: `line line-${name}`, d: `M${points.join("L")}` }));
      }
    }
    if (rows.length < 2) {
      const place = { class: "none-yet", x: (LEFT + width) / 2, y: height / 2, "text-anchor": "middle" };
      parts.push(shape("text", place, "The first rates appear in a few seconds."));
    }
    this.overlay = shape("g");
    svg.replaceChildren(...parts, this.overlay);
    this.drawOverlay();
  }

  timeLabels(width, height) {
    if (this.rows.length < 2) return [];
    const [first, last] = this.extent;
    const number = Math.max(Math.floor(width / 160), 2);
    const isLong = last - first > 86_400_000;
    const labels = [];
    for (let tick = 0; tick <= number; tick += 1) {
      const time = first + ((last - first) * tick) / number;
      const anchor = tick === 0 ? "start" : tick === number ? "end" : "middle";
      const text = isLong ? clock(time, true).slice(5, 16) : clock(time);
      labels.push(shape("text", { x: this.x(time), y: height - 4, "text-anchor": anchor }, text));
    }
    return labels;
  }

  drawOverlay() {
    const parts = [];
    const { height } = this;
    if (this.range !== null) {
      const [from, to] = this.range.map((time) => Math.min(Math.max(this.x(time), LEFT), this.width - RIGHT));
      const box = { class: "range", x: from, y: TOP, width: Math.max(to - from, 1), height: height - TOP - BOTTOM };
      parts.push(shape("rect", box));
    }
    const row = this.cursor === null ? null : this.nearest(this.cursor);
    this.tip.hidden = row === null;
    if (row !== null) {
      const x = this.x(row[0]);
      parts.push(shape("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: height - BOTTOM }));
      const figures = [...this.areas, ...this.lines].map(({ text, at }) => `${rate(row[at])} ${text}`);
      this.tip.replaceChildren(...[clock(row[0], true), ...figures].map((text) => element("div", { textContent: text })));
      const isLeft = x < this.width / 2;
      this.tip.style.left = isLeft ? `${x + 10}px` : "auto";
      this.tip.style.right = isLeft ? "auto" : `${this.width - x + 10}px`;
    }
    this.overlay.replaceChildren(...parts);
  }

  drawLegend() {
    const items = [...this.areas, ...this.lines].map(({ name, text }) =>
      element("li", {}, element("span", { class: `mark mark-${name}` }), text),
    );
    by("legend").replaceChildren(...items);
  }

  nearest(time) {
    if (!this.rows.length) return null;
    return this.rows.reduce((best, row) => (Math.abs(row[0] - time) < Math.abs(best[0] - time) ? row : best));
  }

  // -- pointer and keys ---------------------------------------------------------------------------

  at(event) {
    return this.timeAt(event.clientX - this.box.getBoundingClientRect().left);
  }

  press(event) {
    if (event.button !== 0 || !this.rows.length) return;
    this.box.setPointerCapture(event.pointerId);
    this.anchor = this.at(event);
  }

  move(event) {
    if (!this.rows.length) return;
    this.cursor = this.at(event);
    if (this.anchor !== undefined) this.select(this.anchor, this.cursor, false);
    this.drawOverlay();
  }

  release(event) {
    if (this.anchor === undefined) return;
    const end = this.at(event);
    const isClick = Math.abs(this.x(end) - this.x(this.anchor)) < 4;
    if (isClick) this.clear();
    else this.select(this.anchor, end, true);
    this.anchor = undefined;
  }

  leave() {
    this.cursor = null;
    this.drawOverlay();
  }

  key(event) {
    if (!this.rows.length) return;
    if (event.key === "Escape") {
      this.cursor = null;
      this.clear();
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const row = this.nearest(this.cursor ?? this.rows.at(-1)[0]);
      const way = event.key === "ArrowLeft" ? -1 : 1;
      const next = this.rows[Math.min(Math.max(this.rows.indexOf(row) + way, 0), this.rows.length - 1)];
      if (event.shiftKey) this.keyAnchor ??= row[0];
      else this.keyAnchor = undefined;
      this.cursor = next[0];
      if (this.keyAnchor !== undefined) this.select(this.keyAnchor, this.cursor, true);
      this.drawOverlay();
    } else return;
    event.preventDefault();
  }

  // -- the range ----------------------------------------------------------------------------------

  select(one, other, isDone) {
    this.range = [Math.min(one, other), Math.max(one, other)];
    this.drawOverlay();
    if (isDone) this.onSelect({ from: this.range[0], to: this.range[1], events: this.eventsIn(this.range) });
  }

  clear() {
    this.range = null;
    this.drawOverlay();
    this.onSelect(null);
  }

  eventsIn([from, to]) {
    let sum = 0;
    this.rows.forEach((row, number) => {
      if (row[0] < from || row[0] > to || number === 0) return;
      const seconds = (row[0] - this.rows[number - 1][0]) / 1000;
      sum += seconds * this.areas.reduce((total, { at }) => total + row[at], 0);
    });
    return sum;
  }
}

function niceStep(most) {
  const rough = Math.max(most, 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}
