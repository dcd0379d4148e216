// The events: live, with a filter and a pause, or those of a range of time.

import { follow, get } from "./api.js";
import { by, element } from "./dom.js";
import { clock } from "./format.js";

// Of live events; those of a range are as many as one answer has.
const MOST = 300;
const SHORT = 160;

export class Tail {
  constructor(openEvent) {
    this.openEvent = openEvent;
    this.list = by("tail");
    this.isPaused = false;
    this.held = [];
    by("tail-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.live();
    });
    by("tail-pause").addEventListener("click", () => this.pause(!this.isPaused));
    by("tail-clear").addEventListener("click", () => this.clear());
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  get query() {
    return { ns: by("tail-ns").value.trim(), filter: by("tail-filter").value.trim() };
  }

  live() {
    this.stop();
    this.clear();
    this.pause(false);
    this.mode("connecting");
    const query = this.query;
    this.source = follow(
      "/api/tail",
      query,
      {
        begin: () => this.mode("live"),
        event: (event) => this.add(event),
        skipped: () => {
          this.note("More events come than can be read: some are left out. A filter shows all of fewer.");
        },
        fault: ({ error }) => {
          this.mode("stopped");
          this.note(error);
        },
      },
      {
        lost: (isRefused) => {
          if (isRefused) get("/api/tail", query).catch((error) => this.note(error.message));
        },
      },
    );
  }

  async range(from, to) {
    this.stop();
    this.clear();
    this.mode("reading");
    try {
      const query = { ...this.query, from: from / 1000, to: to / 1000 };
      const { events, isAll } = await get("/api/events", query);
      events.forEach((event) => this.add(event, true));
      this.mode(`${clock(from)} to ${clock(to)}`);
      this.note(`${rangeText(events.length, isAll)} Apply shows live events again.`);
    } catch (error) {
      this.mode("stopped");
      this.note(error.message);
    }
  }

  stop() {
    this.source?.close();
    this.source = null;
  }

  mode(text) {
    by("tail-mode").textContent = text;
  }

  note(text) {
    by("tail-note").textContent = text;
    by("tail-note").hidden = !text;
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    const button = by("tail-pause");
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? "Continue" : "Pause";
    if (!isPaused) {
      this.held.splice(0).forEach((event) => this.add(event));
    }
  }

  clear() {
    this.list.replaceChildren();
    this.held = [];
    by("tail-none").hidden = false;
    this.note("");
  }

  add(event, isOld = false) {
    if (this.isPaused && !isOld) {
      this.held.push(event);
      if (this.held.length > MOST) this.held.shift();
      by("tail-pause").textContent = `Continue (${this.held.length} new)`;
      return;
    }
    by("tail-none").hidden = true;
    const isAtTop = this.list.scrollTop < 5;
    const before = this.list.scrollHeight;
    this.list.prepend(this.row(event));
    while (!isOld && this.list.children.length > MOST) this.list.lastElementChild.remove();
    // Who has scrolled down reads something: it stays where it is.
    if (!isAtTop) this.list.scrollTop += this.list.scrollHeight - before;
  }

  row(event) {
    const kind = event.operationType;
    const ns = [event.ns?.db, event.ns?.coll].filter(Boolean).join(".");
    const button = element(
      "button",
      { type: "button" },
      element("span", { class: "time", textContent: clock(event.clusterTime.$timestamp.t * 1000, true).slice(5) }),
      element("span", { class: `badge badge-${kind}`, textContent: kind }),
      element("span", { class: "ns mono", textContent: ns, title: ns }),
      element("span", { class: "short mono", textContent: shortText(event) }),
    );
    button.addEventListener("click", () => this.openEvent(event));
    return element("li", { class: "new" }, button);
  }

  key(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const item = document.activeElement?.closest("li");
    if (way === undefined || !item) return;
    const next = way > 0 ? item.nextElementSibling : item.previousElementSibling;
    next?.querySelector("button").focus();
    event.preventDefault();
  }
}

function rangeText(events, isAll) {
  if (isAll) return `The range has ${events || "no"} ${events === 1 ? "event" : "events"}.`;
  return events ? `These are the first ${events} events of the range.` : "Nothing was found in ten seconds.";
}

function shortText(event) {
  const changed = event.updateDescription
    ? { ...event.documentKey, ...event.updateDescription.updatedFields }
    : event.fullDocument || event.documentKey || event.operationDescription || {};
  return JSON.stringify(changed).slice(0, SHORT);
}
