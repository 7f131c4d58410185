// SPDX-License-Identifier: MIT
// Play, step, zoom, and show the details of a call. The page already has the picture.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const details = document.getElementById("details");
const sections = [...document.querySelectorAll(".server")];
const scroller = document.querySelector(".scroll");
let scale = Number(document.querySelector("svg").getAttribute("width")) / data.length;
let server = 0;
let current = -1; // number of the bar whose details are shown
let cursor = null; // milliseconds; null: all bars are shown
let playing = null;

const PAPER_PX = 840; // width of A4 landscape without the lanes' names
const SIDES_PX = 224; // width of the lanes' names, the text after a lane's end, and the margins
const LABEL_MARGINS_PX = 8; // sum of both margins of a bar's label
const TICK_PX = 48; // width of the longest label of the axis
const LEAST_SCALE = 1.2; // pixels per millisecond
const SHOWN_AROUND = 5; // source lines before and after the line that made the call

function text(name, content, parent) {
  const element = document.createElement(name);
  element.textContent = content;
  parent.append(element);
  return element;
}

function showSource([file, line, name]) {
  const lines = data.sources[file];
  details.querySelector("pre")?.remove();
  if (!lines) return;
  const shown = document.createElement("pre");
  shown.setAttribute("aria-label", `${file}, line ${line}, ${name}`);
  const from = Math.max(0, line - 1 - SHOWN_AROUND);
  lines.slice(from, line + SHOWN_AROUND).forEach((content, offset) => {
    const number = from + offset + 1;
    text(number === line ? "mark" : "span", `${String(number).padStart(4)}  ${content}\n`, shown);
  });
  details.append(shown);
}

function tell(which, number, withSource) {
  const bars = data.servers[which].bars;
  if (!bars[number]) return;
  const [begin, end, call, waitsFor, request, stack] = bars[number];
  document.querySelector(".bar.now")?.classList.remove("now");
  sections.forEach((section, place) => section.classList.toggle("current", place === which));
  sections[which].querySelector(`[data-n="${number}"]`).classList.add("now");
  server = which;
  current = number;
  details.replaceChildren();
  const head = `${data.servers[which].name}, ${begin.toFixed(1)} to ${end.toFixed(1)} ms` +
    (request ? `, for client ${request}` : "") + (waitsFor ? `: it sleeps and waits for ${waitsFor}` : "");
  text("p", head, details);
  text("code", call, text("p", "", details));
  const line = text("p", stack.length ? "Called from " : "", details);
  stack.forEach((place, depth) => {
    if (depth) line.append(" ← ");
    text("button", `${place[2]} (${place[0]}:${place[1]})`, line).onclick = () => showSource(place);
  });
  if (withSource && stack.length) showSource(stack[0]);
}

function layOut() {
  const x = (ms) => (Number(ms) * scale).toFixed(1);
  document.querySelectorAll("svg").forEach((svg) => svg.setAttribute("width", x(data.length)));
  document.querySelectorAll("[data-b]").forEach((rect) => {
    const { b, e } = rect.dataset;
    rect.setAttribute("x", x(b));
    rect.setAttribute("width", Math.max((e - b) * scale, rect.matches(".bar") ? 2.5 : 0).toFixed(1));
  });
  document.querySelectorAll("text[data-x]").forEach((one) => one.setAttribute("x", x(one.dataset.x)));
  const times = [...document.querySelectorAll(".tick text")];
  const apart = times[1].dataset.x;
  const each = Math.ceil(TICK_PX / (apart * scale));
  times.forEach((one) => one.setAttribute("visibility", (one.dataset.x / apart) % each ? "hidden" : "visible"));
  // Hide labels that are wider than their bar: they would overlap the next bar and its label.
  document.querySelectorAll("text.for").forEach((one) => {
    const fits = one.getComputedTextLength() + LABEL_MARGINS_PX < (one.dataset.until - one.dataset.x) * scale;
    one.setAttribute("visibility", fits ? "visible" : "hidden");
  });
  document.querySelectorAll("line[data-x1]").forEach((line) => {
    line.setAttribute("x1", x(line.dataset.x1));
    line.setAttribute("x2", x(line.dataset.x2 ?? line.dataset.x1));
  });
  drawCurtain();
}

// At first show the whole axis, unless the bars become too narrow.
function fit() {
  const wide = (scroller.clientWidth - SIDES_PX) / data.length;
  if (wide < scale) scale = Math.max(wide, LEAST_SCALE);
  layOut();
}

function drawCurtain() {
  document.querySelectorAll(".curtain").forEach((curtain) => {
    curtain.setAttribute("visibility", cursor === null ? "hidden" : "visible");
    curtain.setAttribute("x", ((cursor ?? 0) * scale).toFixed(1));
    curtain.setAttribute("width", (data.length * scale).toFixed(1));
  });
}

function zoom(factor) {
  scale = Math.min(Math.max(scale * factor, 0.5), 60);
  layOut();
}

// Paper does not scroll: make the whole axis as wide as the page.
let onScreen = scale;
window.addEventListener("beforeprint", () => {
  onScreen = scale;
  scale = PAPER_PX / data.length;
  layOut();
});
window.addEventListener("afterprint", () => {
  scale = onScreen;
  layOut();
});

function stop() {
  if (playing !== null) cancelAnimationFrame(playing);
  playing = null;
  const button = document.getElementById("play");
  button.textContent = "Play";
  button.setAttribute("aria-pressed", "false");
}

function play() {
  if (playing !== null) return stop();
  const button = document.getElementById("play");
  button.textContent = "Pause";
  button.setAttribute("aria-pressed", "true");
  if (cursor === null || cursor >= data.length) cursor = 0;
  let before = null;
  const frame = (now) => {
    if (before !== null) cursor += (now - before) / Number(document.getElementById("pace").value);
    before = now;
    const bars = data.servers[server].bars;
    let latest = current;
    while (bars[latest + 1] && bars[latest + 1][0] <= cursor) latest += 1;
    if (latest !== current) tell(server, latest, false);
    drawCurtain();
    follow();
    if (cursor >= data.length) {
      cursor = null;
      drawCurtain();
      return stop();
    }
    playing = requestAnimationFrame(frame);
  };
  current = -1;
  playing = requestAnimationFrame(frame);
  return undefined;
}

function follow() {
  const at = cursor * scale;
  if (at < scroller.scrollLeft || at > scroller.scrollLeft + scroller.clientWidth - 160) scroller.scrollLeft = at - 60;
}

function step(by) {
  stop();
  const bars = data.servers[server].bars;
  const next = Math.min(Math.max(current + by, 0), bars.length - 1);
  tell(server, next, true);
  cursor = bars[next][1];
  drawCurtain();
  follow();
}

function change(by) {
  const which = Math.min(Math.max(server + by, 0), sections.length - 1);
  sections[which].scrollIntoView({ block: "nearest" });
  tell(which, 0, false);
}

document.addEventListener("pointerover", (event) => {
  const bar = event.target.closest?.(".bar");
  if (bar && playing === null) tell(Number(bar.closest(".server").dataset.server), Number(bar.dataset.n), false);
});
document.addEventListener("click", (event) => {
  const bar = event.target.closest?.(".bar");
  if (!bar) return;
  stop();
  tell(Number(bar.closest(".server").dataset.server), Number(bar.dataset.n), true);
});
document.getElementById("play").onclick = play;
document.getElementById("step").onclick = () => step(1);
document.getElementById("back").onclick = () => step(-1);
document.getElementById("wider").onclick = () => zoom(1.5);
document.getElementById("narrower").onclick = () => zoom(1 / 1.5);

const KEYS = {
  " ": play, ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => change(1), ArrowUp: () => change(-1),
  "+": () => zoom(1.5), "-": () => zoom(1 / 1.5), Enter: () => tell(server, Math.max(current, 0), true),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("button, select") && [" ", "Enter", "ArrowUp", "ArrowDown"].includes(event.key);
  if (event.ctrlKey || event.metaKey || event.altKey || typing || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
fit();
