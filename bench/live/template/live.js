// SPDX-License-Identifier: MIT
// Draws what the helper tells, twice a second, and posts what the buttons ask for.
"use strict";

const at = (id) => document.getElementById(id);
const SHOWN_SECONDS = 30;
const ROWS = 60; // visitors in that time
const SIGNS = { accept: "", client: "C", redis: "R", all: "∀", task: "…", runs: "▶", other: "?" };
const STRIP_MOST = 240;
const STATES = {
  SYN_RECV: "have sent nothing yet", FIN_WAIT1: "being closed", FIN_WAIT2: "closed by the server, not yet by the client",
  TIME_WAIT: "over, remembered for a minute", CLOSE_WAIT: "left by the client, not yet closed",
  LAST_ACK: "being closed", CLOSING: "being closed",
};
const NO_CONTACT = "no contact: has it been ended?";
const events = []; // what was pressed, and when: [performance.now(), label]

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

function showVisits(visits) {
  const svg = at("visits");
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
  at("longest").textContent = seconds(longest);
  at("longest").classList.toggle("bad", longest >= 1);
  at("waiting").textContent = waiting.length ? `${many(waiting.length, "visitor waits", "visitors wait")} for an answer` : "no visitor waits";
}

// ---- What each task waits for ----

function sign(kind, parent) {
  return element("span", SIGNS[kind], parent, `sign ${kind}`);
}

function whom(group) {
  const numbers = group.numbers.length ? ` ${group.numbers.join(", ")}${group.count > group.numbers.length ? ", …" : ""}` : "";
  if (group.kind === "runs") return "nothing: it runs, or is ready to run";
  return group.whom + numbers;
}

function showTasks(told) {
  const strip = at("strip");
  const body = document.querySelector("#groups tbody");
  const order = Object.keys(SIGNS);
  const groups = [...told.groups].sort((one, other) => (one.kind === "client" ? -1 : 0) - (other.kind === "client" ? -1 : 0)
    || order.indexOf(one.kind) - order.indexOf(other.kind));
  at("tasks").textContent = `${many(told.processes, "process", "processes")}, ${many(told.threads, "thread")}`;
  strip.replaceChildren();
  body.replaceChildren();
  const said = verdict(told);
  if (at("verdict").textContent !== said) at("verdict").textContent = said;
  let shown = 0;
  groups.forEach((group) => {
    for (let n = 0; n < group.count && shown < STRIP_MOST; n += 1, shown += 1) sign(group.kind, strip);
    const row = element("tr", "", body, group.kind);
    sign(group.kind, element("td", "", row, "sign-cell"));
    const name = element("td", group.who, row);
    if (group.count > 1) element("small", group.names.join(", ") + (group.count > group.names.length ? ", …" : ""), name);
    const call = element("td", "", row);
    if (group.call) element("code", group.call, call);
    element("td", whom(group), row);
    element("td", group.seconds >= 0.5 ? `${group.seconds.toFixed(0)} s` : "", row);
  });
  if (told.threads > shown) element("span", `and ${told.threads - shown} more`, strip, "sign more");
}

// One sentence on what is seen, and nothing that is not.
function verdict(told) {
  const held = told.groups.filter((group) => group.silent);
  const count = held.reduce((sum, group) => sum + group.count, 0);
  const stuck = told.visits.some((visit) => visit[3] === null && visit[2] > 1);
  if (count) {
    const who = told.threads === 1 ? "The only process is" : `${count} of ${many(told.threads, "thread")} ${count === 1 ? "is" : "are"}`;
    return `${who} held by ${count === 1 ? "a silent client" : "silent clients"}. ${stuck ? "Visitors wait." : "The others serve the visitors."}`;
  }
  const loop = told.groups.some((group) => group.kind === "all" || group.kind === "runs");
  if (told.silent.count && loop && told.threads === 1) return stuck ? "" : "One loop waits for all of them at once: the silent ones block no other client.";
  return "";
}

// ---- Numbers ----

function showNumbers(told) {
  const { now, total, past } = told.rate;
  at("rate").textContent = now === null ? "not known" : Math.round(now).toLocaleString("en");
  at("rate").title = now === null ? "Its counters may not be read, or it keeps none." : `${total} in all`;
  const top = Math.max(10, ...past);
  const points = past.map((rate, place) => `${160 - 2 * (past.length - 1 - place)} ${32 - (rate / top) * 30}`);
  document.querySelector("#rates path").setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
  at("queue").textContent = told.queue.waiting.toLocaleString("en");
  at("queue").classList.toggle("bad", told.queue.waiting > 0);
  at("room").textContent = told.queue.room ? `not accepted yet; room for ${told.queue.room.toLocaleString("en")}` : "not accepted yet";
  const { ESTABLISHED: open = 0, ...others } = told.connections;
  at("open").textContent = open.toLocaleString("en");
  at("states").replaceChildren(...Object.entries(others).map(([state, count]) => {
    const one = element("span", `${count} ${state} `);
    one.title = STATES[state] ?? "";
    return one;
  }));
}

function showDoing(told) {
  const doing = [];
  const { silent, burst } = told;
  if (silent.count) doing.push(`${many(silent.count, "silent client")}, ${silent.count > 1 ? "the first " : ""}for ${silent.seconds.toFixed(0)} s`);
  if (silent.cut_off) doing.push(`${silent.cut_off} cut off by the server`);
  if (burst) doing.push(`burst: ${burst.good} of ${burst.asked} answered${burst.done === burst.asked ? `, the slowest after ${seconds(burst.seconds)}` : ""}`);
  if (told.slow > 0) doing.push(`Redis is slow for ${told.slow.toFixed(0)} s more`);
  if (told.slow_trouble) doing.push(`Redis: ${told.slow_trouble}`);
  if (!told.can_slow) doing.push("Redis is not ours, so it is not slowed");
  const text = doing.join("; ");
  if (at("doing").textContent !== text) at("doing").textContent = text;
  document.querySelector('[data-post="slow-redis"]').disabled = !told.can_slow;
}

function state(text, kind) {
  at("state").textContent = text;
  at("state").className = kind;
}

function show(told) {
  if (String(told.pid) !== document.body.dataset.pid) return location.reload(); // another server, on the port of ours
  if (told.gone) return state("the server has ended", "lost");
  state("live", "live");
  showVisits(told.visits);
  showTasks(told);
  showNumbers(told);
  showDoing(told);
  at("look").textContent = `A look takes ${told.look.ms} ms; there is one every ${told.look.every} s.`;
  return undefined;
}

// ---- Buttons and keys ----

async function press(button) {
  const answer = await fetch(`/live/${button.dataset.post}`, { method: "POST" }).catch(() => undefined);
  if (!answer?.ok) return state(answer ? `refused: ${answer.status}` : NO_CONTACT, "lost");
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

// Without contact a browser tries again by itself; where it was refused, it does not.
function listen() {
  const source = new EventSource("/live/events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED;
    state(refused ? "too many of these pages are open: close one" : NO_CONTACT, "lost");
    if (refused) setTimeout(listen, 2000);
  };
}
listen();
