// SPDX-License-Identifier: MIT
// Draws each observation of the servers, and posts the actions of the buttons.
"use strict";

const at = (id) => document.getElementById(id);
const SHOWN_SECONDS = 30;
const ROWS = 60; // the newest visitors, one in each row
const SIGNS = { client: "C", redis: "R", response: "…", queue: "Q", unread: "q", accept: "", all: "∀", task: "…", runs: "▶", other: "?", idle: "" };
const STRIP_MOST = 240;
const STATES = {
  SYN_RECV: "the client has sent no data yet", FIN_WAIT1: "being closed", FIN_WAIT2: "closed by the server, not yet by the client",
  TIME_WAIT: "closed; the kernel stores it for a minute", CLOSE_WAIT: "closed by the client, not yet by the server",
  LAST_ACK: "being closed", CLOSING: "being closed",
};
const NO_CONTACT = "no contact: has `make serve` ended?";
const events = []; // the buttons that were pressed: [performance.now(), label]

function element(name, text, parent, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  parent?.append(made);
  return made;
}

function drawn(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const seconds = (time) => (time < 1 ? `${Math.round(time * 1000)} ms` : `${time.toFixed(1)} s`);
const many = (count, one, more) => `${count.toLocaleString("en")} ${count === 1 ? one : more ?? `${one}s`}`;

// ---- What a visitor gets ----

function showVisits(panel, visits) {
  const svg = panel.querySelector(".visits");
  const { width, height } = svg.getBoundingClientRect();
  const bottom = height - 18;
  const x = (age) => width - 8 - (age / SHOWN_SECONDS) * (width - 8);
  const newest = visits.length ? visits.at(-1)[0] : 0;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  for (let age = 0; age <= SHOWN_SECONDS; age += width < 600 ? 10 : 5) {
    const tick = drawn("g", { class: "tick" }, svg);
    drawn("line", { x1: x(age), x2: x(age), y1: 0, y2: bottom }, tick);
    const anchor = age === 0 ? "end" : age === SHOWN_SECONDS ? "start" : "middle";
    drawn("text", { x: x(age), y: height - 4, "text-anchor": anchor }, tick, age === 0 ? "now" : `${age} s ago`);
  }
  const row = bottom / ROWS;
  visits.forEach(([number, path, begun, ended, answer, good]) => {
    const left = x(Math.min(begun, SHOWN_SECONDS));
    const right = x(Math.min(ended ?? 0, SHOWN_SECONDS));
    const y = (ROWS - 1 - (newest - number)) * row;
    if (right <= x(SHOWN_SECONDS) || y < -row) return;
    const kind = path.includes("guestbook") ? "book" : "file";
    const bar = drawn("rect", { class: kind + (ended === null ? " waits" : ""), x: left, y: Math.max(y, 0),
      width: Math.max(right - left, 5), height: Math.max(row - 1, 2), rx: 1 }, svg);
    const how = ended === null ? `still waits, for ${seconds(begun)}` : `${answer} after ${seconds(begun - ended)}`;
    drawn("title", {}, bar, `visitor ${number}, ${path}: ${how}`);
    if (ended !== null && !good) drawn("text", { class: "failed", x: right + 3, y: y + 5 }, svg, "×");
  });
  events.forEach(([when, label], place) => {
    const age = (performance.now() - when) / 1000;
    if (age > SHOWN_SECONDS) return;
    const mark = drawn("g", { class: "event" }, svg);
    drawn("line", { x1: x(age), x2: x(age), y1: 0, y2: bottom }, mark);
    drawn("text", { x: x(age) - 4, y: 12 + 14 * (place % 4), "text-anchor": age > SHOWN_SECONDS - 5 ? "start" : "end" }, mark, label);
  });
  const waiting = visits.filter((visit) => visit[3] === null);
  const longest = Math.max(0, ...waiting.map((visit) => visit[2]));
  number(panel, "longest", seconds(longest), longest >= 1);
  panel.querySelector(".waiting").textContent = waiting.length ? `${many(waiting.length, "visitor waits", "visitors wait")} for an answer` : "no visitor waits";
}

// ---- What connections and tasks wait for ----

function sign(kind, parent) {
  return element("span", SIGNS[kind], parent, `sign ${kind}`);
}

const order = Object.keys(SIGNS);
const sorted = (groups) => [...groups].sort((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind));

// Draws a square for each member of the groups, and a table row for each group; `fill` adds the middle columns.
function showGroups(strip, table, groups, fill) {
  const body = table.querySelector("tbody");
  strip.replaceChildren();
  body.replaceChildren();
  let shown = 0;
  let all = 0;
  sorted(groups).forEach((group) => {
    all += group.count;
    for (let n = 0; n < group.count && shown < STRIP_MOST; n += 1, shown += 1) sign(group.kind, strip);
    const row = element("tr", "", body, group.kind);
    sign(group.kind, element("td", "", row, "sign-cell"));
    fill(group, row);
    element("td", group.seconds >= 1 ? `${group.seconds.toFixed(0)} s` : group.seconds >= 0.1 ? seconds(group.seconds) : "", row);
  });
  if (all > shown) element("span", `and ${all - shown} more`, strip, "sign more");
  table.hidden = all === 0;
  return all;
}

function showClients(panel, seen) {
  const all = showGroups(panel.querySelector(".connections"), panel.querySelector(".clients"), seen.clients, (group, row) => {
    element("td", group.who, row);
    element("td", group.whom, row);
  });
  panel.querySelector(".held").textContent = all ? many(all, "connection") : "no open connection";
}

function whom(group) {
  const numbers = group.numbers.length ? ` ${group.numbers.join(", ")}${group.count > group.numbers.length ? ", …" : ""}` : "";
  if (group.kind === "runs") return "nothing: it runs or is ready to run";
  return group.whom + numbers;
}

function showTasks(panel, seen) {
  showGroups(panel.querySelector(".sleepers"), panel.querySelector(".groups"), seen.groups, (group, row) => {
    const name = element("td", group.who, row);
    if (group.count > 1) element("small", group.names.join(", ") + (group.count > group.names.length ? ", …" : ""), name);
    const call = element("td", "", row);
    if (group.call) element("code", group.call, call);
    element("td", whom(group), row);
  });
  panel.querySelector(".tasks").textContent = `${many(seen.processes, "process", "processes")}, ${many(seen.threads, "thread")}`;
  const verdict = panel.querySelector(".verdict");
  if (verdict.textContent !== seen.verdict) verdict.textContent = seen.verdict;
}

// ---- Numbers ----

function number(panel, name, text, bad) {
  const place = panel.querySelector(`.${name}`);
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

function showNumbers(panel, seen) {
  const { now, total, past } = seen.rate;
  number(panel, "rate", now === null ? "not known" : Math.round(now).toLocaleString("en"), false);
  panel.querySelector(".rate").title = now === null ? "The server has no counters, or this user cannot read them." : `${total} in total`;
  const top = Math.max(10, ...past);
  const points = past.map((rate, place) => `${160 - 2 * (past.length - 1 - place)} ${32 - (rate / top) * 30}`);
  panel.querySelector(".rates path").setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
  number(panel, "queue", seen.queue.waiting.toLocaleString("en"), seen.queue.waiting > 0);
  number(panel, "unread", seen.queue.unread.toLocaleString("en"), seen.queue.unread > 0);
  panel.querySelector(".room").textContent = seen.queue.room ? `not accepted yet; room for ${seen.queue.room.toLocaleString("en")}` : "not accepted yet";
  const { ESTABLISHED: open = 0, ...others } = seen.connections;
  number(panel, "open", open.toLocaleString("en"), false);
  panel.querySelector(".states").replaceChildren(...Object.entries(others).map(([state, count]) => {
    const one = element("span", `${count} ${state} `);
    one.title = STATES[state] ?? "";
    return one;
  }));
}

function doingOf(seen) {
  const doing = [];
  const { silent, burst } = seen;
  if (silent.count) doing.push(`${many(silent.count, "silent client")}, ${silent.count > 1 ? "the first " : ""}for ${silent.seconds.toFixed(0)} s`);
  if (silent.cut_off) doing.push(`${silent.cut_off} disconnected by the server`);
  if (burst) doing.push(`burst: ${burst.good} of ${burst.asked} answered${burst.done === burst.asked ? `, the slowest after ${seconds(burst.longest)}` : ""}`);
  if (seen.slow > 0) doing.push(`Redis is slow for ${seen.slow.toFixed(0)} s more`);
  if (seen.slow_error) doing.push(`Redis: ${seen.slow_error}`);
  if (!seen.can_slow) doing.push("this page can slow down only a Redis that `make serve` started");
  return doing.join("; ");
}

function showDoing(servers) {
  const texts = servers.map((seen) => [seen.name, doingOf(seen)]).filter(([, text]) => text);
  const text = texts.map(([name, doing]) => (servers.length > 1 ? `${name}: ${doing}` : doing)).join(". ");
  if (at("doing").textContent !== text) at("doing").textContent = text;
  document.querySelector('[data-post="slow-redis"]').disabled = !servers.some((seen) => seen.can_slow);
}

// ---- The predictions of the room ----

function showRoom(room) {
  const text = JSON.stringify(room);
  if (!room || at("choices").dataset.shown === text) return;
  at("choices").dataset.shown = text;
  at("question").textContent = room.ask;
  at("choices").tBodies[0].replaceChildren(...room.choices.map((choice, place) => {
    const row = element("tr", "", undefined, choice === room.answer ? "right" : "");
    element("td", choice === room.answer ? `✓ ${choice}` : choice, row);
    const count = room.counts ? room.counts[place] : 0;
    element("span", "", element("td", "", row, "bars")).style.width = `${(100 * count) / Math.max(1, room.predictions)}%`;
    element("td", room.counts ? count : "", row);
    return row;
  }));
  at("predictions").textContent = `${many(room.predictions, "prediction")} from ${many(room.addresses, "machine")}`;
  at("measure").textContent = room.measure;
  at("because").textContent = room.because;
  document.querySelectorAll('[data-post^="room/ask"]').forEach((one) => one.setAttribute("aria-pressed", one.textContent === room.name));
  const button = document.querySelector('[data-post="room/show"]');
  button.replaceChildren(room.counts ? "Show the answer " : "Show the predictions ", element("kbd", "P"));
  button.disabled = room.answer !== null;
}

function state(text, kind) {
  at("state").textContent = text;
  at("state").className = kind;
}

function show({ servers, look, room }) {
  // If another `make serve` now uses this port, the page must be loaded again with its servers.
  if (servers.map((seen) => seen.pid).join(" ") !== document.body.dataset.pids) return location.reload();
  const gone = servers.filter((seen) => seen.gone);
  state(gone.length ? `${gone.map((seen) => seen.name).join(", ")}: ended` : "live", gone.length ? "lost" : "live");
  servers.filter((seen) => !seen.gone).forEach((seen) => {
    const panel = document.querySelector(`[data-server="${CSS.escape(seen.name)}"]`);
    showVisits(panel, seen.visits);
    showClients(panel, seen);
    showTasks(panel, seen);
    showNumbers(panel, seen);
  });
  showDoing(servers);
  showRoom(room);
  at("look").textContent = `The page observes the servers every ${look.every} s; an observation takes ${look.ms} ms of CPU time.`;
  return undefined;
}

// ---- Buttons and keys ----

async function press(button) {
  const answer = await fetch(`/live/${button.dataset.post}`, { method: "POST" }).catch(() => undefined);
  if (!answer?.ok) return state(answer ? `rejected with status ${answer.status}` : NO_CONTACT, "lost");
  if (button.closest(".room")) return undefined;
  events.push([performance.now(), button.querySelector("b").textContent]);
  if (events.length > 30) events.shift();
  return undefined;
}

document.querySelectorAll("[data-post]").forEach((button) => button.addEventListener("click", () => press(button)));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const button = document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (button && !button.disabled) press(button);
});

// A browser reconnects automatically after a lost connection, but not after a rejected request.
function listen() {
  const source = new EventSource("/live/events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED;
    state(refused ? "too many pages like this are open: close one of them" : NO_CONTACT, "lost");
    if (refused) setTimeout(listen, 2000);
  };
}
listen();
