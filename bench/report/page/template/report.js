// SPDX-License-Identifier: MIT
"use strict";
/* The page's script draws the charts from their specifications and handles the controls.
   `state` has the current choice; most controls change it and call `apply`. */
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const cards = new Map(data.data.cells.map((cell) => [String(cell.id), cell]));
  const state = {
    scenario: data.scenario,
    level: data.reference[data.scenario],
    hidden: data.subjects.filter((s) => s.kind === "baseline").map((s) => s.name),
    then2019: false,
    scaled2019: false,
    scale: { x: "log", y: "linear" },
  };
  const views = new Map();
  // Charts are drawn and changed one after another; new choices wait in a queue.
  let drawing = Promise.resolve();
  const inTurn = (job) => (drawing = drawing.then(job));
  let asked = false;
  const redrawSoon = () => {
    if (!asked) inTurn(() => { asked = false; return redraw(); });
    asked = true;
  };

  // ---- Specifications -------------------------------------------------------------------------

  const substitute = (value, colour) => {
    if (Array.isArray(value)) return value.map((inner) => substitute(inner, colour));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, substitute(v, colour)]));
    return typeof value === "string" && value.startsWith("@") ? colour(value.slice(1)) : value;
  };
  const walk = (value, visit) => {
    if (!value || typeof value !== "object") return;
    visit(value);
    Object.values(value).forEach((inner) => walk(inner, visit));
  };
  const titleOf = (exhibit) => {
    const said = exhibit.titles["*"] ?? exhibit.titles[state.scenario] ?? "";
    return typeof said === "string" ? said : (said[state.level] ?? "");
  };

  /* A chart with its axes is as wide as its container. Vega-Lite's own option for this (width "container")
     causes a warning for charts with a row for each server, so `fitted` sets Vega's autosize. */
  const PICTURE = 820;
  const fitted = (compiled) => ({ ...compiled, autosize: { type: "fit-x", contains: "padding" } });
  const roomOf = (figure) => figure.querySelector(".chart").clientWidth || PICTURE;

  /* Returns a whole specification. On the page, colours are CSS variables, so a new theme needs no redraw.
     The row of buttons is the legend of the servers; a downloaded picture has its own legend. */
  const specification = (key, forPage) => {
    const exhibit = data.exhibits[key];
    const colour = forPage ? (name) => `var(--${name})` : (name) => data.light[name] ?? `@${name}`;
    const spec = substitute(exhibit.spec, colour);
    spec.config = substitute(data.config, colour);
    spec.datasets = {};
    walk(spec, (part) => {
      if (part.data?.name in data.data) spec.datasets[part.data.name] = data.data[part.data.name];
      for (const channel of Object.values(part.encoding ?? {}))
        if (forPage && channel?.field === "subject" && "legend" in channel) channel.legend = null;
      if (key !== "rates") return;
      for (const axis of ["x", "y"]) {
        const scale = part.encoding?.[axis]?.scale;
        if (scale) scale.type = state.scale[axis];
      }
    });
    for (const param of spec.params) param.value = state[param.name] ?? param.value;
    if (!forPage) {
      Object.assign(spec, { title: titleOf(exhibit), width: PICTURE, background: data.light.paper, padding: 18 });
    }
    return spec;
  };
  // Log level 1: errors only, because an empty selection would log a warning.
  const embed = (place, spec, options) =>
    vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false,
      logLevel: 1, ...options });

  const draw = async (figure) => {
    const key = figure.dataset.exhibit;
    views.get(key)?.finalize();
    const container = figure.querySelector(".chart");
    container.replaceChildren();
    const spec = { ...specification(key, true), width: roomOf(figure) };
    const { view } = await embed(container, spec, { tooltip: showTip, patch: fitted });
    container.querySelector("svg").setAttribute("aria-hidden", "true"); // the container has a label
    view.addEventListener("click", (event, item) => showTip(null, event, item, item?.tooltip));
    views.set(key, view);
  };

  const download = async (figure, kind) => {
    const { view } = await embed(document.createElement("div"), specification(figure.dataset.exhibit, false), {});
    const link = document.createElement("a");
    link.download = `${figure.dataset.exhibit}.${kind}`;
    link.href = kind === "png" ? await view.toImageURL("png", 2)
      : URL.createObjectURL(new Blob([await view.toSVG()], { type: "image/svg+xml" }));
    link.click();
    view.finalize();
  };

  // ---- Tooltips -------------------------------------------------------------------------------

  const figureText = (value) => {
    const size = Math.abs(value);
    const digits = size >= 99.95 || Number.isInteger(value) ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 3;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const element = (name, text, ...children) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  };
  const HIDDEN_IF_ZERO = ["overflows", "drops", "retransmits", "forgotten"];
  const cardOf = (cell) => {
    const runs = cell.runs === 1 ? "one run" : `median of ${cell.runs} runs`;
    const head = element("b", `${cell.subject} at ${cell.level.toLocaleString("en")} connections`);
    const said = (m) => cell[m.key] != null && !(HIDDEN_IF_ZERO.includes(m.key) && cell[m.key] === 0)
      && !(cell.hosts && m.unit === "cores"); // the rows of the hosts show this figure instead
    const rows = data.metrics.filter(said).map((m) => {
      const low = cell[`${m.key}_low`], high = cell[`${m.key}_high`];
      const spread = low == null ? "" : `${figureText(low)} – ${figureText(high)}`;
      const value = (m.key === "rate" && cell.bound ? "≥ " : "") + figureText(cell[m.key]);
      const unit = m.unit.startsWith("/") ? m.unit : ` ${m.unit}`;
      return element("tr", "", element("td", m.label), element("td", value + unit), element("td", "", element("small", spread)));
    });
    if (cell.baseline_ratio) rows.push(element("tr", "", element("td", "CPU over baseline"), element("td", `${cell.baseline_ratio} ×`)));
    for (const [name, words] of cell.hosts ?? []) {
      const wide = element("td", words);
      wide.colSpan = 2;
      rows.push(element("tr", "", element("td", `${name}: CPU`), wide));
    }
    const notes = [rows.length ? runs : `${cell.label ?? cell.status}: ${cell.reason ?? ""}`];
    if (cell.outliers) notes.push(`outliers: ${cell.outliers}`);
    if (cell.limit) notes.push(cell.limit);
    return [head, element("table", "", ...rows), element("small", notes.join("; "))];
  };
  let shownAt = [0, 0];
  const whereScrolled = () => [scrollX, scrollY];
  function showTip(handler, event, item, value) {
    const tip = byId("tip");
    tip.hidden = value == null || value === "";
    if (tip.hidden) return;
    shownAt = whereScrolled();
    const cell = cards.get(String(item.datum.id));
    tip.replaceChildren(...(cell ? cardOf(cell) : [element("span", String(value))]));
    const left = event.clientX + 16, wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${Math.max(4, left + wide > innerWidth ? Math.min(event.clientX - wide - 16, innerWidth - wide - 4) : left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 16, innerHeight - high - 4))}px`;
  }

  // ---- Controls -------------------------------------------------------------------------------

  const fillLevels = () => {
    byId("level").replaceChildren(...data.levels[state.scenario].map((level) => {
      const option = element("option", `${level.toLocaleString("en")} connections`);
      option.value = level;
      option.selected = level === state.level;
      return option;
    }));
  };
  const redraw = async () => {
    for (const figure of all("[data-exhibit]")) {
      const view = views.get(figure.dataset.exhibit);
      if (!view) continue;
      for (const { name } of data.exhibits[figure.dataset.exhibit].spec.params) view.signal(name, state[name]);
      await view.width(roomOf(figure)).resize().runAsync();
    }
  };
  const apply = () => {
    for (const figure of all("[data-exhibit]")) {
      const title = titleOf(data.exhibits[figure.dataset.exhibit]);
      figure.querySelector("h3").textContent = title;
      figure.querySelector(".chart").setAttribute("aria-label", title);
      figure.querySelector(".chart").hidden = figure.querySelector(".take").hidden = !title;
      figure.querySelector(".none").hidden = Boolean(title);
    }
    for (const block of all("[data-scenario]")) block.hidden = block.dataset.scenario !== state.scenario;
    for (const block of all(".words [data-subject]")) block.hidden = state.hidden.includes(block.dataset.subject);
    for (const row of all("#figures tbody tr")) row.hidden = state.hidden.includes(row.cells[0].dataset.v);
    for (const chip of all(".chip")) chip.setAttribute("aria-pressed", String(!state.hidden.includes(chip.dataset.subject)));
    const then = data.data.paper.some((row) => row.s === state.scenario);
    for (const label of all(".then")) label.hidden = !then;
    redrawSoon();
  };
  byId("scenario").addEventListener("change", (event) => {
    state.scenario = event.target.value;
    if (!data.levels[state.scenario].includes(state.level)) state.level = data.reference[state.scenario];
    fillLevels();
    apply();
  });
  byId("level").addEventListener("change", (event) => { state.level = Number(event.target.value); apply(); });
  for (const chip of all(".chip")) chip.addEventListener("click", () => {
    const name = chip.dataset.subject;
    state.hidden = state.hidden.includes(name) ? state.hidden.filter((n) => n !== name) : [...state.hidden, name];
    apply();
  });
  for (const name of ["then2019", "scaled2019"]) byId(name)?.addEventListener("change", (event) => {
    state[name] = event.target.checked;
    if (name === "scaled2019" && state[name]) byId("then2019").checked = state.then2019 = true;
    apply();
  });
  for (const axis of ["x", "y"]) byId(`log-${axis}`)?.addEventListener("change", (event) => {
    state.scale[axis] = event.target.checked ? "log" : "linear";
    inTurn(() => draw(event.target.closest("figure")));
  });
  for (const button of all("[data-take]")) button.addEventListener("click", () => download(button.closest("figure"), button.dataset.take));
  for (const head of all("#figures thead th")) head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => row.cells[head.cellIndex].dataset.v;
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    };
    body.append(...all("tr", body).sort(compare));
  });

  // The chosen theme is stored, unless the browser has no storage for local files.
  const storedTheme = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("theme") ?? "";
      localStorage.setItem("theme", value);
    } catch { /* no storage */ }
    return value ?? "";
  };
  const applyTheme = (theme) => { if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme; };
  byId("theme").value = storedTheme();
  applyTheme(byId("theme").value);
  byId("theme").addEventListener("change", (event) => { applyTheme(event.target.value); storedTheme(event.target.value); });
  addEventListener("beforeprint", () => all(".how").forEach((details) => { details.open = true; }));
  addEventListener("afterprint", () => all(".how").forEach((details) => { details.open = false; }));
  // Scrolling hides the tip. The event comes a frame later, so a tip that was shown after the scroll must
  // stay.
  addEventListener("scroll", () => {
    if (String(whereScrolled()) !== String(shownAt)) byId("tip").hidden = true;
  }, { passive: true });
  addEventListener("resize", redrawSoon);

  fillLevels();
  apply();
  for (const figure of all("[data-exhibit]")) inTurn(() => draw(figure));
  await drawing;
  document.documentElement.dataset.ready = "yes";
})();
