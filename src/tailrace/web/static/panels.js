// Deployment, streams, pipeline, history, and what is wrong with them.

import { by, element, keyed, rows, setText, shape } from "./dom.js";
import { ago, bytes, clock, count, counted, duration, rate } from "./format.js";

const LAG_WARN = 10;
const LAG_BAD = 60;
const LEFT_WARN = 6 * 3_600;
const LEFT_BAD = 3_600;
const DISK_WARN = 0.1;

export function showWhat(state) {
  const { kind, name, version } = state.deployment;
  const role = state.command === "pipeline" ? "pipeline of " : "";
  setText(by("what"), `${role}${kind}${name ? ` ${name}` : ""}${version ? ` · ${version}` : ""}`);
  document.title = `${name || kind} · Tailrace`;
}

// -- summary ----------------------------------------------------------------------------------------

export function showTiles(state) {
  const point = state.timeline[0] || [];
  const { streams, pipeline, history } = state;
  const oplogs = state.deployment.nodes.map((node) => node.oplog).filter(Boolean);
  const tiles = [
    ["Changes/s", point.length ? rate(point[1] + point[2] + point[3]) : "–"],
    ...(streams.areCounted ? [["Received/s", point.length ? rate(point[4]) : "–"]] : []),
    ["Open streams", count(streams.open)],
    ["Largest lag", duration(streams.maxLag), level(streams.maxLag, LAG_WARN, LAG_BAD)],
  ];
  if (oplogs.length) tiles.push(["Oplog holds", duration(Math.min(...oplogs.map((oplog) => oplog.seconds)))]);
  if (history?.exists) tiles.push(["In the history", `${count(history.events)}`]);
  const lag = pipeline?.lagSeconds ?? history?.lagSeconds;
  if (lag !== undefined) tiles.push(["Pipeline lag", duration(lag), level(lag, LAG_BAD, 10 * LAG_BAD)]);
  keyed(
    by("tiles"),
    tiles,
    ([name]) => name,
    ([name]) => element("dl", { class: "tile" }, element("dt", { textContent: name }), element("dd")),
    (tile, [, text, mark]) => {
      setText(tile.lastElementChild, text);
      tile.dataset.level = mark || "";
    },
  );
}

function level(value, warn, bad) {
  if (value === null || value === undefined) return "";
  return value >= bad ? "bad" : value >= warn ? "warn" : "";
}

export function showProblems(state) {
  const found = [];
  const { deployment, streams, pipeline, history } = state;
  if (deployment.error) found.push(["bad", `The deployment does not answer: ${deployment.error}`]);
  for (const node of deployment.nodes) {
    if (node.error) found.push(["warn", `${node.address}: ${node.error}`]);
  }
  const endangered = streams.shown.filter(
    (stream) => stream.oplog_left !== null && stream.oplog_left < LEFT_BAD && !stream.is_in_history,
  );
  if (endangered.length) {
    const first = endangered.reduce((one, other) => (one.oplog_left < other.oplog_left ? one : other));
    const text = `The position of a stream on ${first.ns} leaves the oplog in ${duration(first.oplog_left)}`;
    found.push(["bad", `${text}: read it faster, enlarge the oplog, or build a history.`]);
  }
  if (streams.maxLag >= LAG_BAD) {
    found.push(["warn", `A stream lags by ${duration(streams.maxLag)}: its client is slower than the changes.`]);
  }
  if (pipeline?.state === "failed") {
    found.push(["bad", `The pipeline cannot run: ${pipeline.lastFailure || "see the log"}`]);
  } else if (pipeline?.retrySeconds > 0) {
    found.push(["warn", `The pipeline failed and is tried again: ${pipeline.lastFailure}`]);
  }
  if (history?.error) found.push(["warn", `The history cannot be read: ${history.error}`]);
  for (const disk of state.disks) {
    if (disk.free / disk.total < DISK_WARN) {
      found.push(["warn", `The disk of the ${disk.of} has ${bytes(disk.free)} of ${bytes(disk.total)} left.`]);
    }
  }
  keyed(
    by("problems"),
    found,
    ([, text]) => text,
    ([, text]) => element("li", { textContent: text }),
    (item, [mark]) => {
      item.dataset.level = mark;
    },
  );
}

// -- streams ----------------------------------------------------------------------------------------

const COLUMNS = ["Watches", "Client", "Position", "Events", "Events/s", "Lag", "Leaves the oplog", "Leaves the history"];

export function showStreams(state, openToken) {
  const { open, shown } = state.streams;
  setText(by("streams-count"), open > shown.length ? `${count(open)}, those with the largest lag` : count(open));
  by("streams-none").hidden = open > 0;
  by("streams").closest(".scroll").hidden = open === 0;
  keyed(
    by("streams"),
    shown,
    (stream) => stream.id,
    () => streamRow(openToken),
    (row, stream) => fillStream(row, stream, state.time),
  );
}

function streamRow(openToken) {
  const row = element("tr");
  COLUMNS.forEach((name, number) => {
    const cell = element("td", { class: number > 2 ? "number" : "", "data-label": name });
    if (name === "Position") {
      const button = element("button", { type: "button", class: "position" });
      button.addEventListener("click", () => openToken(row.stream));
      cell.append(button);
    }
    row.append(cell);
  });
  return row;
}

function fillStream(row, stream, now) {
  row.stream = stream;
  const [watches, client, position, events, speed, lag, oplog, history] = row.children;
  setText(watches, stream.scope === "deployment" ? "everything" : stream.ns);
  watches.title = `${stream.scope}, on ${stream.node}`;
  setText(client, [stream.app, stream.user, stream.client].filter(Boolean).join(" · ") || "–");
  const button = position.firstElementChild;
  setText(button, stream.position === null ? "–" : clock(stream.position * 1000));
  button.disabled = stream.position === null;
  button.title = stream.position === null ? "" : ago(stream.position, now);
  setText(events, count(stream.events));
  setText(speed, rate(stream.rate));
  setText(lag, duration(stream.lag));
  lag.className = `number ${level(stream.lag, LAG_WARN, LAG_BAD)}`;
  const isKnown = stream.position !== null;
  setText(oplog, isKnown ? left(stream.oplog_left) : "–");
  oplog.className = `number ${stream.oplog_left === null ? "soft" : below(stream.oplog_left)}`;
  setText(history, stream.is_in_history ? left(stream.history_left) : "no history");
  history.className = `number ${stream.is_in_history && stream.history_left !== null ? below(stream.history_left) : "soft"}`;
}

function left(seconds) {
  if (seconds === null) return "never";
  return seconds <= 0 ? "gone" : `in ${duration(seconds)}`;
}

function below(seconds) {
  return seconds < LEFT_BAD ? "bad" : seconds < LEFT_WARN ? "warn" : "";
}

// -- deployment -------------------------------------------------------------------------------------

export function showDeployment(state) {
  const { deployment } = state;
  const box = by("deployment");
  if (!box.children.length) box.append(element("dl", { class: "rows" }), element("ul", { class: "nodes" }));
  const [figures, list] = box.children;
  rows(figures, [
    ["Kind", `${deployment.kind}${deployment.name ? ` ${deployment.name}` : ""}`],
    ["Address", element("code", { textContent: state.uri })],
    ["Version", deployment.version || null],
    ["Running for", deployment.uptime ? duration(deployment.uptime) : null],
    ...state.disks.map((disk) => [`Disk, ${disk.of}`, `${bytes(disk.free)} of ${bytes(disk.total)} free`]),
  ]);
  const items = deployment.nodes.flatMap((node, number) => {
    const isFirst = node.shard && deployment.nodes[number - 1]?.shard !== node.shard;
    return isFirst ? [{ head: node.shard }, node] : [node];
  });
  keyed(
    list,
    items,
    (item) => (item.head ? `shard ${item.head}` : item.address),
    (item) => (item.head ? element("li", { class: "head", textContent: `Shard ${item.head}` }) : nodeItem()),
    (child, item) => {
      if (!item.head) fillNode(child, item);
    },
  );
}

function nodeItem() {
  const chip = element("span", { class: "chip" });
  const address = element("span", { class: "mono" });
  return element("li", {}, element("span", { class: "state" }), address, chip, element("span", { class: "why" }));
}

function fillNode(item, node) {
  const [, address, chip, why] = item.children;
  item.toggleAttribute("data-away", Boolean(node.error));
  setText(address, node.address);
  setText(chip, node.role);
  chip.dataset.state = node.role;
  const oplog = node.oplog && `oplog ${bytes(node.oplog.bytes)} of ${bytes(node.oplog.limit)}, ${duration(node.oplog.seconds)}`;
  const connections = node.connections === null ? null : `${node.connections} connections`;
  setText(why, node.error || [connections, oplog].filter(Boolean).join(" · "));
  why.classList.toggle("soft", !node.error);
}

// -- pipeline ---------------------------------------------------------------------------------------

export function showPipeline(state) {
  const { pipeline } = state;
  const box = by("pipeline");
  if (pipeline === null) {
    box.replaceChildren(element("p", { class: "none", textContent: "No pipeline runs in this process." }));
    return;
  }
  if (box.firstElementChild?.tagName !== "DL") box.replaceChildren(element("dl", { class: "rows" }));
  const chip = element("span", { class: "chip", textContent: pipeline.state || "running" });
  chip.dataset.state = pipeline.state || "running";
  const through = pipeline.through?.[0];
  rows(box.firstElementChild, [
    ["State", chip],
    ["Rate", pipeline.rowsPerSecond === undefined ? null : `${rate(pipeline.rowsPerSecond)} events/s`],
    ["Lag", duration(pipeline.lagSeconds)],
    ["Backlog", pipeline.backlog ? `about ${count(pipeline.backlog)} changes` : "none"],
    ["Stored", pipeline.rows === undefined ? null : `${counted(pipeline.rows, "event")} in ${counted(pipeline.batches, "batch", "batches")}`],
    ["Last batch through", through ? `${clock(through * 1000, true)} (${ago(through, state.time)})` : null],
    ["Starts", pipeline.starts],
    ["Failures", pipeline.failures],
    ["Last failure", pipeline.lastFailure],
    ["Next attempt", pipeline.retrySeconds > 0 ? `in ${duration(pipeline.retrySeconds)}` : null],
  ]);
}

// -- history ----------------------------------------------------------------------------------------

export function showHistory(state) {
  const { history } = state;
  const box = by("history");
  by("range-all").hidden = !history?.exists;
  if (history === null) {
    const text = "No history: streams can be resumed as far back as the oplog goes.";
    box.replaceChildren(element("p", { class: "none", textContent: text }));
    return;
  }
  if (box.firstElementChild?.tagName !== "DL") box.replaceChildren(element("dl", { class: "rows" }));
  rows(box.firstElementChild, [
    ["Place", element("code", { textContent: history.place })],
    ["Events", history.exists ? count(history.events) : "none yet"],
    ["Size", history.exists ? `${bytes(history.bytes)} in ${counted(history.files, "file")}` : null],
    ["Oldest", history.exists ? clock(history.oldest * 1000, true) : null],
    ["Newest", history.exists ? `${clock(history.through * 1000, true)} (${ago(history.through, state.time)})` : null],
    ["Kept for", history.keepSeconds ? duration(history.keepSeconds) : null],
    ["Kept up to", history.keepBytes ? bytes(history.keepBytes) : null],
  ]);
}

export function showHistoryDetails(details) {
  const parts = [];
  if (details.days.length) {
    parts.push(element("h3", { textContent: "Growth by day" }), dayBars(details.days));
  }
  if (details.collections.length) {
    const most = details.collections[0].events;
    const title = `By collection, of the newest ${count(details.countedRows)} events`;
    const items = details.collections.slice(0, 10).map(({ ns, events }) =>
      element(
        "li",
        {},
        element("span", { class: "name mono", textContent: ns, title: ns }),
        element("span", { class: "number", textContent: count(events) }),
        element("progress", { max: most, value: events, "aria-label": `events of ${ns}` }),
      ),
    );
    parts.push(element("h3", { textContent: title }), element("ul", { class: "shares" }, ...items));
  }
  by("history-details").replaceChildren(...parts);
}

function dayBars(days) {
  const width = 400;
  const height = 90;
  const most = Math.max(...days.map((day) => day.events), 1);
  const step = Math.min(width / days.length, 40);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Events by day" });
  days.forEach((day, number) => {
    const tall = Math.max((day.events / most) * (height - 18), 1);
    const bar = shape("rect", { x: number * step + 1, y: height - 14 - tall, width: step - 2, height: tall, rx: 2 });
    bar.append(shape("title", {}, `${day.day}: ${count(day.events)} events, ${bytes(day.bytes)}`));
    svg.append(bar);
  });
  const last = days.at(-1);
  svg.append(shape("text", { x: 0, y: height - 2 }, days[0].day));
  if (days.length > 4) {
    svg.append(shape("text", { x: days.length * step, y: height - 2, "text-anchor": "end" }, last.day));
  }
  return element("div", { class: "days" }, svg);
}
