// The page: log in if needed, then show what the server sends.

import { follow, get, post } from "./api.js";
import { by } from "./dom.js";
import { EventDialog } from "./event_dialog.js";
import { clock, count, duration, rate } from "./format.js";
import * as panels from "./panels.js";
import { Plot } from "./plot.js";
import { Tail } from "./tail.js";
import { startTheme } from "./theme.js";

const DETAILS_MS = 60_000;
const HISTORY = "all";

const dialog = new EventDialog();
const tail = new Tail((event) => dialog.openEvent(event));
const plot = new Plot(by("plot"), showSelection);
let seconds = 900;
let selection = null;
let details = null;
let hasFiles = false;

async function start() {
  startTheme();
  const session = await get("/api/session");
  by("logout").hidden = !(session.hasUsers && session.isLoggedIn);
  if (session.isLoggedIn) show();
  else askForUser("");
}

function askForUser(fault) {
  by("content").hidden = true;
  by("login").hidden = false;
  by("login-fault").textContent = fault;
  setLink("waiting", "not logged in");
  by("login").elements.user.focus();
}

async function logIn(event) {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(by("login")));
  try {
    await post("/api/login", fields);
    await get("/api/state");
    location.reload();
  } catch (error) {
    by("login-fault").textContent = error.message;
  }
}

async function logOut() {
  await post("/api/logout", {});
  location.reload();
}

function show() {
  by("login").hidden = true;
  by("content").hidden = false;
  follow(
    "/api/live",
    {},
    { state: showState, refused: ({ error }) => askForUser(error) },
    {
      opened: () => setLink("live", "live"),
      lost: (isRefused) => {
        setLink("away", "connection lost");
        if (isRefused) get("/api/state").catch((error) => askForUser(error.message));
      },
    },
  );
  tail.live();
  showTimeline();
  setInterval(loadDetails, DETAILS_MS);
}

function setLink(state, text) {
  by("link").dataset.state = state;
  by("link-text").textContent = text;
}

function showState(state) {
  setLink("live", "live");
  panels.showWhat(state);
  panels.showTiles(state);
  panels.showProblems(state);
  panels.showStreams(state, (stream) => dialog.openStream(stream));
  panels.showDeployment(state);
  panels.showPipeline(state);
  panels.showHistory(state);
  if (state.history?.files && !hasFiles) {
    hasFiles = true;
    loadDetails();
  }
  if (seconds !== HISTORY) state.timeline.forEach((row) => plot.add(row, seconds));
}

async function loadDetails() {
  try {
    details = await get("/api/history");
    panels.showHistoryDetails(details);
    if (seconds === HISTORY) plot.show(["events"], details.rates);
  } catch {
    details = null; // the next attempt is in a minute
  }
}

// -- time line ------------------------------------------------------------------------------------

async function showTimeline() {
  if (seconds === HISTORY) {
    plot.show(["events"], details?.rates ?? []);
    return;
  }
  const { series, rows } = await get("/api/timeline", { seconds });
  plot.show(series, rows);
}

function chooseRange(button) {
  for (const other of by("ranges").children) other.setAttribute("aria-pressed", String(other === button));
  seconds = button.dataset.seconds === HISTORY ? HISTORY : Number(button.dataset.seconds);
  plot.clear();
  showTimeline();
}

function showSelection(range) {
  selection = range;
  by("selection").hidden = range === null;
  if (range === null) return;
  const time = (range.to - range.from) / 1000;
  const isLong = time > 86_400;
  const text = `${clock(range.from, isLong)} to ${clock(range.to, isLong)}, ${duration(time)}`;
  by("selection-text").textContent = `${text}: about ${count(range.events)} events, ${rate(range.events / time)}/s`;
}

by("ranges").addEventListener("click", (event) => {
  if (event.target.dataset.seconds) chooseRange(event.target);
});
by("selection-show").addEventListener("click", () => {
  tail.range(selection.from, selection.to);
  by("tail-title").scrollIntoView({ block: "start" });
});
by("selection-clear").addEventListener("click", () => plot.clear());
by("login").addEventListener("submit", logIn);
by("logout").addEventListener("click", logOut);

start();
