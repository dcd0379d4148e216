// One event: its document, its resume token explained, and code that resumes a stream from it.

import { get } from "./api.js";
import { by, element } from "./dom.js";

export class EventDialog {
  constructor() {
    this.dialog = by("event");
    this.language = 0;
    by("event-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    by("event-scope").addEventListener("change", () => this.explain());
    by("event-copy").addEventListener("click", () => this.copy());
    by("event-languages").addEventListener("keydown", (event) => this.key(event));
  }

  openEvent(event) {
    const ns = [event.ns?.db, event.ns?.coll].filter(Boolean).join(".");
    by("event-document").textContent = JSON.stringify(event, null, 2);
    this.open(`${event.operationType} ${ns}`, event._id, [ns, event.ns?.db, ""], event);
  }

  openStream(stream) {
    const ns = stream.scope === "deployment" ? "" : stream.ns;
    this.open(`Position of a stream on ${ns || "everything"}`, { _data: stream.token }, [ns], null);
  }

  open(title, token, scopes, event) {
    this.token = { token: token._data, typeBits: token._typeBits?.$binary.base64 ?? "" };
    by("event-title").textContent = title;
    by("event-token").textContent = token._data;
    by("event-document-part").hidden = event === null;
    const names = [...new Set(scopes.filter((name) => name !== undefined))];
    by("event-scope").replaceChildren(
      ...names.map((name) => element("option", { value: name, textContent: name || "everything" })),
    );
    this.dialog.showModal();
    this.explain();
  }

  async explain() {
    try {
      const found = await get("/api/token", { ...this.token, ns: by("event-scope").value });
      by("event-rows").replaceChildren(
        ...found.rows.flatMap(([name, text]) => [
          element("dt", { textContent: name }),
          element("dd", { textContent: text }),
        ]),
      );
      by("event-meaning").textContent = found.meaning;
      this.code = found.code;
      this.showCode();
      this.hideCode(false);
    } catch (error) {
      by("event-rows").replaceChildren();
      by("event-meaning").textContent = error.message;
      this.hideCode(true); // it is that of another token
    }
  }

  showCode() {
    by("event-languages").replaceChildren(
      ...this.code.map(({ language }, number) => {
        const isChosen = number === this.language;
        const button = element("button", {
          type: "button",
          role: "tab",
          "aria-selected": String(isChosen),
          tabIndex: isChosen ? 0 : -1,
          textContent: language,
        });
        button.addEventListener("click", () => this.choose(number));
        return button;
      }),
    );
    by("event-code").textContent = this.code[this.language].code;
    by("event-copy").textContent = "Copy";
  }

  hideCode(isHidden) {
    for (const id of ["event-languages", "event-copy", "event-code"]) by(id).hidden = isHidden;
  }

  choose(number) {
    this.language = number;
    this.showCode();
    by("event-languages").children[number].focus();
  }

  key(event) {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (way === undefined) return;
    this.choose((this.language + way + this.code.length) % this.code.length);
    event.preventDefault();
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(by("event-code").textContent);
      by("event-copy").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(by("event-code"));
    }
  }
}
