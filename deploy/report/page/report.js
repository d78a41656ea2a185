// Lays out the report. Text enters the page through textContent only; every figure and sentence comes from the data.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const runs = report.runs;

  // Distinct to the colour-blind (after Okabe and Ito) and dark enough on white; the dash tells runs apart in grey.
  const COLOURS = ["#0067a5", "#c24a00", "#00795a", "#8e3a8b", "#5b5b5b", "#8a6a00", "#2b2f77", "#a3195b"];
  const DASHES = [[], [9, 3], [4, 3], [12, 3, 3, 3]];
  runs.forEach((run, i) => {
    run.colour = COLOURS[i % COLOURS.length];
    run.dash = DASHES[(i + Math.floor(i / COLOURS.length)) % DASHES.length];
  });

  const byId = (id) => document.getElementById(id);
  const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  const percent = (auc) => Math.round(100 * Math.max(auc, 1 - auc));
  const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const short = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  };

  // ---- Elements -----------------------------------------------------------------------------------------------------
  const SVG = "http://www.w3.org/2000/svg";  // A name space: nothing is loaded from it.

  function add(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    for (const child of children) node.append(child);  // Strings become text nodes.
    return node;
  }
  const element = (tag, attributes = {}, ...children) => add(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => add(document.createElementNS(SVG, tag), attributes, children);

  function table(columns, rows, stacked = true) {
    const head = columns.map((column) => element("th", { scope: "col", class: column.class || "" }, column.head));
    const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => {
      const attributes = { class: columns[i].class || "" };
      if (i === 0) attributes.scope = "row";
      else attributes["data-name"] = columns[i].name || "";
      return element(i === 0 ? "th" : "td", attributes, cell);
    })));
    return element("table", stacked ? { class: "stack" } : {},
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  }

  function key(run, text = run.label) {
    const line = svg("svg", { width: 30, height: 10, "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke: run.colour, "stroke-width": 3, "stroke-dasharray": run.dash.join(" ") }));
    return element("span", { class: "key" }, line, text);
  }

  const panel = (run, ...children) => element("div", { class: "panel" }, element("h3", {}, key(run)), ...children);
  const removeSection = (id) => byId(id).remove();

  // ---- In plain words -----------------------------------------------------------------------------------------------
  function card(run) {
    const figure = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
    const node = element("article", { class: "card" },
      element("h3", {}, key(run)),
      element("p", { class: "run-id" }, "run " + run.id + " · " + run.status),
      element("p", { class: "verdict " + run.exposure }, run.verdict),
      element("dl", { class: "figures" },
        figure("of 100 pairs, strongest attack (p95)", run.strongest_p95 === null ? "–" : String(percent(run.strongest_p95))),
        figure("test AUC", fixed(run.test_auc)),
        figure("test log-loss", fixed(run.test_log_loss))),
      element("p", {}, run.protection_words),
      element("ul", {}, ...run.attack_words.map((words) => element("li", {}, words))),
      ...[run.bound_words, run.model_words].filter(Boolean).map((words) => element("p", {}, words)));
    node.style.setProperty("--run", run.colour);
    return node;
  }

  // ---- Table of leaks -----------------------------------------------------------------------------------------------
  // A scale from guessing (left end) to fully exposed: interval and mean as a bar and a dot, p95 as a tick.
  function scale(leak, colour) {
    const at = (auc) => (100 * Math.min(1, Math.max(0, (auc - 0.5) / 0.5))).toFixed(2) + "%";
    const strength = Math.max(leak.mean, 1 - leak.mean);
    return svg("svg", { class: "scale", role: "img",
      "aria-label": "mean " + percent(leak.mean) + ", 95 percent quantile " + percent(leak.p95) + " of 100 pairs" },
      svg("line", { x1: "0%", x2: "100%", y1: "50%", y2: "50%", stroke: "#dde3e9", "stroke-width": 6, "stroke-linecap": "round" }),
      svg("line", { x1: "0%", x2: at(leak.p95), y1: "50%", y2: "50%", stroke: colour, "stroke-width": 6, opacity: 0.25, "stroke-linecap": "round" }),
      svg("line", { x1: at(strength - leak.ci95), x2: at(strength + leak.ci95), y1: "50%", y2: "50%", stroke: colour, "stroke-width": 6 }),
      svg("circle", { cx: at(strength), cy: "50%", r: 5, fill: colour, stroke: "#fff", "stroke-width": 1.5 }),
      svg("line", { x1: at(leak.p95), x2: at(leak.p95), y1: "12%", y2: "88%", stroke: colour, "stroke-width": 2.5 }));
  }

  function leakTable(run) {
    const ends = element("span", { class: "scale-ends" }, element("span", {}, "50 guessing"), element("span", {}, "100 exposed"));
    const columns = [
      { head: "Layer and attack" }, { head: "Measured by", name: "Measured by" },
      { head: "Mean ± 95% CI", name: "Mean ± 95% CI", class: "number" }, { head: "p95", name: "p95", class: "number" },
      { head: "Batches", name: "Batches", class: "number" }, { head: ends, class: "scale-column wide" }];
    const rows = run.leaks.map((leak) => {
      const mean = element("span", {}, fixed(leak.mean));
      if (leak.ci95 !== null) mean.append(element("span", { class: "plus-minus" }, " ± " + fixed(leak.ci95)));
      return [capital(leak.layer_name.replace(/^the /, "")) + " · " + leak.attack, leak.observer_name, mean,
        element("b", { class: leak.exposure }, fixed(leak.p95)), String(leak.steps),
        leak.mean === null ? "" : scale(leak, run.colour)];
    });
    return panel(run, table(columns, rows));
  }

  // ---- Charts -------------------------------------------------------------------------------------------------------
  const css = getComputedStyle(document.documentElement);
  const INK = css.getPropertyValue("--ink").trim(), QUIET = css.getPropertyValue("--quiet").trim();
  Object.assign(Chart.defaults, { animation: false, responsive: true, maintainAspectRatio: false, color: QUIET,
    devicePixelRatio: Math.max(2, window.devicePixelRatio || 1) });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  const charts = [];

  // A dashed line at 0.5 with its name in the margin, where no curve can cover it.
  const guessingLine = {
    id: "guessingLine",
    beforeDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales } = chart;
      const y = scales.y.getPixelForValue(0.5);
      ctx.save();
      ctx.strokeStyle = INK;
      ctx.lineWidth = 1;
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(area.left, y);
      ctx.lineTo(area.right, y);
      ctx.stroke();
      ctx.fillStyle = QUIET;
      ctx.font = "12px " + Chart.defaults.font.family;
      ctx.textBaseline = "middle";
      ctx.fillText("guessing", area.right + 6, y);
      ctx.restore();
    },
  };

  const toPoints = (pairs) => pairs.map(([x, y]) => ({ x, y }));
  const positive = (pairs) => pairs.filter(([, y]) => y > 0);

  // The line of a curve, and under it its raw points. `keep` filters what the axis cannot show.
  function curveDatasets(curve, label, style, keep = (pairs) => pairs) {
    const line = { label, data: toPoints(keep(curve.line)), borderColor: style.colour, backgroundColor: style.colour,
      borderWidth: 2.25, borderDash: style.dash, pointRadius: curve.line.length === 1 ? 4 : 0, pointHitRadius: 6, order: 1 };
    const points = { label: "", data: toPoints(keep(curve.points)), showLine: false, pointRadius: 1.3, pointHitRadius: 0,
      borderWidth: 0, backgroundColor: style.colour + "38", order: 2, raw: true };
    return points.data.length ? [line, points] : [line];
  }

  const superscript = (exponent) => String(exponent).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

  function yScale(options) {
    const scaleOptions = { title: { display: true, text: options.y }, grid: { color: "#eceff2" }, min: options.min, max: options.max };
    if (options.logarithmic) {
      scaleOptions.type = "logarithmic";
      // Powers of ten; on an axis of less than two of them also twice and five times each.
      scaleOptions.ticks = { callback(value) {
        const exponent = Math.floor(Math.log10(value) + 1e-9);
        const leading = Math.round(value / 10 ** exponent);
        if (leading === 1) return "10" + superscript(exponent);
        return this.max / this.min < 100 && (leading === 2 || leading === 5) ? leading + "·10" + superscript(exponent) : null;
      } };
    } else {
      scaleOptions.ticks = { maxTicksLimit: 8 };
    }
    return scaleOptions;
  }

  // options: title, note, x, y (axis titles with units), min, max, logarithmic, guessing, wholeX.
  function drawChart(section, options, datasets) {
    if (!datasets.some((dataset) => dataset.data.length)) return;
    const canvas = element("canvas", { role: "img", "aria-label": options.title + ". " + options.y + " against " + options.x + "." });
    const caption = element("figcaption", {}, options.title);
    if (options.note) caption.append(element("span", {}, options.note));
    document.querySelector("#" + section + " .charts").append(
      element("figure", {}, caption, element("div", { class: "canvas-box" }, canvas)));
    charts.push(new Chart(canvas, {
      type: "line",
      data: { datasets },
      plugins: options.guessing ? [guessingLine] : [],
      options: {
        layout: { padding: { right: options.guessing ? 60 : 8 } },
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: { type: "linear", title: { display: true, text: options.x }, grid: { display: false }, min: options.xMin,
            ticks: { maxTicksLimit: 8, maxRotation: 0, precision: options.wholeX ? 0 : undefined } },
          y: yScale(options),
        },
        plugins: {
          legend: { display: false },
          tooltip: { filter: (item) => !item.dataset.raw, callbacks: {
            title: (items) => (items.length ? options.x + " " + short(items[0].parsed.x) : ""),
            label: (item) => item.dataset.label + ": " + short(item.parsed.y) } },
        },
      },
    }));
  }

  function legend(section, keys) {
    document.querySelector("#" + section + " .legend").append(...keys);
  }

  // Every layer and attack that any run measured, in the runs' order.
  function layersAndAttacks() {
    const found = new Map();
    for (const run of runs) {
      for (const leak of run.leaks) found.set(JSON.stringify([leak.layer, leak.attack]), leak);
    }
    return [...found.values()].sort((a, b) => (b.layer === "cut") - (a.layer === "cut"));
  }

  function drawLeaks() {
    for (const { layer, layer_name: layerName, attack } of layersAndAttacks()) {
      const datasets = [];
      for (const run of runs) {
        // The data names the adversary's own figures first, then the label party's audit.
        const leak = run.leaks.find((candidate) => candidate.layer === layer && candidate.attack === attack && candidate.steps > 0);
        if (leak) datasets.push(...curveDatasets(leak.curve, run.label, run));
        const bound = run.solver.auc_bound;
        if (layer === "cut" && bound && bound.mean < 1) {
          datasets.push({ label: run.label + ", AUC bound", data: toPoints(bound.curve.line), borderColor: run.colour,
            backgroundColor: run.colour, borderWidth: 1.5, borderDash: [1, 3], borderCapStyle: "round", pointRadius: 0, order: 3 });
        }
      }
      const name = capital(attack) + " attack at " + layerName;
      drawChart("leak-charts", { title: name, x: "step (batch)", y: "leak AUC", min: 0.4, max: 1, guessing: true }, datasets);
    }
  }

  function drawQuality() {
    const evaluated = (field, split) => runs.flatMap((run) => {
      const data = run.evaluations.filter((row) => row.split === split && row[field] !== null)
        .map((row) => ({ x: row.epoch, y: row[field] }));
      return [{ label: run.label, data, borderColor: run.colour, backgroundColor: run.colour, borderWidth: 2.25,
        borderDash: run.dash, pointRadius: 3.5 }];
    });
    const epochs = Math.max(0, ...runs.flatMap((run) => run.evaluations.map((row) => row.epoch)));
    const axis = { x: "epochs trained", wholeX: true, xMin: epochs > 1 ? undefined : 0 };
    drawChart("quality-charts", { ...axis, title: "Test AUC", note: "higher is better", y: "AUC" }, evaluated("auc", "test"));
    drawChart("quality-charts", { ...axis, title: "Test log-loss", note: "lower is better", y: "log-loss (nats)" }, evaluated("log_loss", "test"));
    drawChart("quality-charts", { title: "Training loss", note: "mean log-loss of each batch", x: "step (batch)", y: "log-loss (nats)" },
      runs.flatMap((run) => curveDatasets(run.loss, run.label, run)));
    drawChart("quality-charts", { ...axis, title: "Calibration error on the test data", note: "lower is better", y: "calibration error" },
      evaluated("calibration_error", "test"));
  }

  const PARTS = {
    lambda1_neg: ["negatives, along the class difference", "#0067a5", []],
    lambda1_pos: ["positives, along the class difference", "#c24a00", []],
    lambda2_neg: ["negatives, across it", "#0067a5", [4, 3]],
    lambda2_pos: ["positives, across it", "#c24a00", [4, 3]],
    u: ["u: variance within the negatives", "#0067a5", []],
    v: ["v: variance within the positives", "#c24a00", []],
    g: ["g: squared distance of the class means", "#5b5b5b", [4, 3]],
  };

  // A method without noise solves nothing: only the table of means has its figures.
  const solved = runs.filter((run) => run.solver.power && run.solver.power.mean > 0);

  function drawSolver() {
    const ofRuns = (field, keep) => solved.filter((run) => run.solver[field])
      .flatMap((run) => curveDatasets(run.solver[field].curve, run.label, run, keep));
    drawChart("solver-charts", { title: "Distance of the classes after the noise", note: "sumKL: 0 hides everything; below 4 Theorem 1 binds",
      x: "step (batch)", y: "sumKL (nats)", min: 0 }, ofRuns("sum_kl"));
    drawChart("solver-charts", { title: "Noise power P", note: "expected squared norm of the noise on one gradient",
      x: "step (batch)", y: "P (gradient²)", logarithmic: true }, ofRuns("power", positive));
    for (const run of solved) {
      const parts = (fields) => fields.filter((field) => run.solver[field]).flatMap((field) => {
        const [label, colour, dash] = PARTS[field];
        return curveDatasets(run.solver[field].curve, label, { colour, dash }, positive)
          .filter((dataset) => !dataset.raw && dataset.data.length);
      });
      const chart = (title, y, fields) => {
        const datasets = parts(fields);
        if (!datasets.length) return;
        drawChart("solver-charts", { title, note: run.label + " · zeros are not drawn", x: "step (batch)", y, logarithmic: true }, datasets);
        const keys = element("div", { class: "legend" });
        keys.append(...datasets.map((dataset) => key({ colour: dataset.borderColor, dash: dataset.borderDash }, dataset.label)));
        document.querySelector("#solver-charts .charts").lastElementChild.append(keys);
      };
      chart("Variance of the noise", "variance (gradient²)", ["lambda1_neg", "lambda1_pos", "lambda2_neg", "lambda2_pos"]);
      chart("The gradients before the noise", "gradient²", ["u", "v", "g"]);
    }
  }

  // ---- Tables of the rest -------------------------------------------------------------------------------------------
  function evaluationTables() {
    const columns = [{ head: "Epochs trained" }, { head: "Split", name: "Split" },
      ...["AUC", "Log-loss", "Accuracy", "Calibration error"].map((name) => ({ head: name, name, class: "number" }))];
    for (const run of runs.filter((candidate) => candidate.evaluations.length)) {
      const rows = run.evaluations.map((row) => [short(row.epoch), row.split, fixed(row.auc, 4), fixed(row.log_loss, 4),
        fixed(row.accuracy, 4), fixed(row.calibration_error, 4)]);
      byId("evaluation-tables").append(element("details", {},
        element("summary", {}, "All evaluations of " + run.label), panel(run, table(columns, rows))));
    }
  }

  function solverTable() {
    const recorded = runs.filter((run) => Object.keys(run.solver).length);
    if (!recorded.length) return false;
    const names = { u: "u", v: "v", g: "g", p: "positives p", power: "P", sum_kl: "sumKL", auc_bound: "AUC bound" };
    const columns = [{ head: "Mean over the batches" }, ...Object.values(names).map((name) => ({ head: name, name, class: "number" }))];
    const rows = recorded.map((run) => [key(run), ...Object.keys(names).map((field) => short(run.solver[field] && run.solver[field].mean))]);
    byId("solver-table").append(element("div", { class: "panel" }, table(columns, rows)));
    return true;
  }

  function eventTables() {
    const columns = [{ head: "Time (UTC)" }, { head: "Party", name: "Party" }, { head: "Event", name: "Event" }, { head: "Detail", name: "Detail" }];
    for (const run of runs.filter((candidate) => candidate.events.length)) {
      const rows = run.events.map((event) => [event.at.replace("T", " ").replace("Z", ""), event.party, event.kind, event.detail]);
      byId("event-tables").append(panel(run, table(columns, rows)));
    }
    return runs.some((run) => run.events.length);
  }

  function factTable(run) {
    const names = [...new Set(run.parties.flatMap((party) => party.facts.map(([name]) => name)))];
    const columns = [{ head: "Run " + run.id }, ...run.parties.map((party) => ({ head: party.role, name: party.role }))];
    const rows = names.map((name) => [name, ...run.parties.map((party) => {
      const fact = party.facts.find(([candidate]) => candidate === name);
      return element("span", name.includes("SHA") ? { class: "mono" } : {}, fact ? fact[1] : "–");
    })]);
    const configs = run.parties.filter((party) => party.config).map((party) => element("details", {},
      element("summary", {}, "Configuration of the " + party.role), element("pre", { class: "mono" }, party.config)));
    return panel(run, table(columns, rows), ...configs);
  }

  // ---- Page ---------------------------------------------------------------------------------------------------------
  byId("cards").append(...runs.map(card));
  const limits = [report.thresholds.partly, report.thresholds.largely, report.thresholds.exposed].map((limit) => limit.toFixed(2));
  byId("leak-table-note").textContent = "Mean leak AUC over the batches with its 95% confidence interval, and p95: in one batch of " +
    "twenty the attack reads at least this much (an AUC below 0.5 counts as its mirror image). The words above go by p95: up to " +
    limits[0] + " close to guessing, up to " + limits[1] + " partly, up to " + limits[2] + " largely readable, above it exposed. " +
    "On the scale the dot is the mean, the tick p95.";
  const attacked = runs.filter((run) => run.leaks.length);
  byId("leak-tables").append(...attacked.map(leakTable));
  for (const section of ["leak-charts", "quality-charts"]) legend(section, runs.map((run) => key(run)));
  legend("solver-charts", solved.map((run) => key(run)));
  drawLeaks();
  drawQuality();
  drawSolver();
  evaluationTables();
  if (!attacked.length) removeSection("leak-table");
  if (!solverTable()) removeSection("solver-charts");
  if (!eventTables()) removeSection("events");
  for (const section of ["leak-charts", "quality-charts"]) {
    if (!document.querySelector("#" + section + " canvas")) removeSection(section);
  }
  byId("fact-tables").append(...runs.map(factTable));

  // Two charts beside each other on A4 or Letter paper, drawn for their printed size so that their text stays legible.
  window.addEventListener("beforeprint", () => charts.forEach((chart) => chart.resize(330, 215)));
  window.addEventListener("afterprint", () => charts.forEach((chart) => chart.resize()));

  // What a check without eyes can read from the page.
  const isBlank = (canvas) => !canvas.width || !canvas.height ||
    !canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value !== 0);
  const root = document.documentElement;
  Object.assign(root.dataset, { runs: String(runs.length), charts: String(charts.length), width: String(window.innerWidth),
    blankCharts: String(charts.filter((chart) => isBlank(chart.canvas)).length),
    overflow: String(Math.max(0, root.scrollWidth - root.clientWidth)) });
})();
