// What the attacks read: verdict, cards, charts and tables.

// ---- Policy and bounds ----------------------------------------------------------------------------------------------
const pill = (met) => element("span", { class: met ? "pill pass" : "pill fail" }, met ? "PASS" : "FAIL");

function policyTable(run) {
  const columns = [{ head: "Criterion" }, { head: "Limit", name: "Limit" }, { head: "Found", name: "Found" },
    { head: "Where", name: "Where" }];
  const rows = run.policy.findings.map((finding) => [
    element("span", { class: "judged" }, pill(finding.met), element("span", {}, capital(finding.criterion))),
    finding.limit, element("b", {}, finding.found), finding.where]);
  return panel(run, table(columns, rows));
}

function drawPolicy() {
  if (!report.policy) return removeSection("policy");
  byId("policy-words").append(pill(report.policy.met), " ", capital(report.policy.words) + ".");
  byId("policy-tables").append(...runs.map(policyTable));
}

function drawBanner() {
  const beyond = runs.filter((run) => run.beyond_bound.length);
  if (!beyond.length) return removeSection("beyond-bound");
  for (const run of beyond) {
    byId("beyond-bound").append(element("p", {}, element("b", {}, run.label)),
      element("ul", {}, ...run.beyond_bound.map((words) => element("li", {}, words))));
  }
}

// ---- In plain words -------------------------------------------------------------------------------------------------
function card(run) {
  const figure = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const node = element("article", { class: "card" },
    element("h3", {}, key(run)),
    element("p", { class: "run-id" }, "run " + run.id + " · " + run.status),
    element("p", { class: "verdict " + run.exposure }, run.verdict),
    element("dl", { class: "figures" },
      figure("of 100 pairs, strongest attack", run.strongest === null ? "–" : String(percent(run.strongest))),
      figure("test AUC", fixed(run.test_auc)),
      figure("test log-loss", fixed(run.test_log_loss))),
    ...(run.strongest_words ? [element("p", { class: "run-id" }, "Strongest attack: " + run.strongest_words + ".")] : []),
    element("p", {}, run.protection_words),
    element("ul", {}, ...run.attack_words.map((words) => element("li", {}, words))),
    ...[run.bound_words, run.model_words].filter(Boolean).map((words) => element("p", {}, words)));
  node.style.setProperty("--run", run.colour);
  return node;
}

// ---- Charts ---------------------------------------------------------------------------------------------------------
// The adversary's own figures, else the label party's audit.
function chartedLeak(run, layer, attack) {
  const found = run.leaks.filter((leak) => leak.layer === layer && leak.attack === attack && leak.curve);
  return found.find((leak) => leak.observer === "nonlabel_party") || found[0];
}

const beyondOf = (run, layer, attacks) => run.leaks
  .filter((leak) => leak.layer === layer && attacks.includes(leak.attack))
  .flatMap((leak) => leak.beyond.map(([x, y]) => ({ x, y })));

// The same for all layers, so that their charts compare; as close as the lines allow, since weak attacks lie close together.
function leakAxes(datasets) {
  const shown = datasets.flat().flatMap((dataset) => dataset.data.map(({ y }) => y));
  const [least, most] = [Math.min(...shown), Math.max(...shown) + 0.01];
  const near = least >= 0.45 && most <= 0.8;
  return { x: "step (batch)", y: "leak AUC", guessing: true, min: near ? 0.45 : 0.4,
    max: near ? Math.max(0.7, Math.ceil(20 * most) / 20) : Math.min(1, Math.ceil(10 * most) / 10) };
}

// What the noise allows: nearer where the classes are Gaussian, further by Theorem 1.
function addBounds(datasets, keys, gaussian, theorem1) {
  const grey = "#8793a0";
  datasets.push(boundLine(toPoints(gaussian), "what the noise allows, Gaussian classes"));
  keys.push(key({ colour: INK, dash: [1, 3] }, "what the noise allows, Gaussian classes"));
  datasets.push({ ...boundLine(toPoints(theorem1), "what the noise allows, Theorem 1", grey), borderDash: [6, 3] });
  keys.push(key({ colour: grey, dash: [6, 3] }, "what it allows by Theorem 1"));
}

// One run: a chart a layer, an attack a line.
function drawLeaksOfOne(run) {
  const drawn = [];
  const names = [...new Set(report.charted.flatMap(({ attacks }) => attacks.map(({ attack }) => attack)))];
  for (const { layer, layer_name: layerName, attacks } of report.charted) {
    const datasets = [], keys = [];
    for (const { attack, title } of attacks) {
      const style = styleOf(names.indexOf(attack));
      datasets.push(...curveDatasets(chartedLeak(run, layer, attack).curve, title, style).filter((dataset) => !dataset.raw));
      keys.push(key(style, title));
    }
    const bound = run.solver.auc_bound;
    if (layer === "cut" && bound && bound.mean < 1 && run.solver.gaussian_auc_bound) {
      addBounds(datasets, keys, run.solver.gaussian_auc_bound.curve.line, bound.curve.line);
    }
    const marks = beyondMarks(beyondOf(run, layer, attacks.map(({ attack }) => attack)));
    if (marks.length) keys.push(markKey("over an epoch, beyond what the noise allows"));
    drawn.push({ title: capital(layerName.replace(/^the /, "")), datasets: [...datasets, ...marks], keys });
  }
  const axes = leakAxes(drawn.map(({ datasets }) => datasets));
  for (const { title, datasets, keys } of drawn) drawChart("leak-charts", { title, ...axes }, datasets, keys);
}

// Several runs: a chart an attack, a run a line.
function drawLeaksOfSeveral() {
  for (const { layer, layer_name: layerName, attacks } of report.charted) {
    for (const { attack, title } of attacks) {
      const datasets = [];
      for (const run of runs) {
        const leak = chartedLeak(run, layer, attack);
        if (leak) datasets.push(...curveDatasets(leak.curve, run.label, run));
        const bound = run.solver.auc_bound;
        if (layer === "cut" && bound && bound.mean < 1) {
          datasets.push(boundLine(toPoints(bound.curve.line), run.label + ", bound of Theorem 1", run.colour));
        }
      }
      const marks = beyondMarks(runs.flatMap((run) => beyondOf(run, layer, [attack])));
      drawChart("leak-charts", { title, note: layerName, x: "step (batch)", y: "leak AUC", min: 0.4, max: 1,
        guessing: true }, [...datasets, ...marks],
        marks.length ? [markKey("over an epoch, beyond what the noise allows")] : []);
    }
  }
}

function drawCumulative() {
  for (const run of runs.filter((candidate) => candidate.remembering)) {
    const { attacks, gaussian, bound } = run.remembering;
    const epochs = Math.max(...attacks.flatMap((attack) => attack.epochs.map(([epoch]) => epoch)));
    const datasets = [], keys = [], marks = [];
    attacks.forEach((attack, i) => {
      const style = styleOf(i);
      const shift = attacks.length > 1 ? (i / (attacks.length - 1) - 0.5) * Math.min(0.16, 0.016 * epochs) : 0;
      datasets.push({ label: attack.title, data: attack.epochs.map(([epoch, auc]) => ({ x: epoch + shift, y: auc })),
        intervals: attack.epochs.map(([, , low, high]) => [low, high]), borderColor: style.colour, backgroundColor: style.colour,
        borderWidth: 2.25, borderDash: style.dash, pointRadius: 3.5, order: 1 });
      keys.push(key(style, attack.title));
      marks.push(...attack.epochs.filter((point) => point[4]).map(([epoch, auc]) => ({ x: epoch + shift, y: auc })));
    });
    if (gaussian.length) addBounds(datasets, keys, gaussian, bound);
    if (marks.length) keys.push(markKey("beyond what the noise allows"));
    drawChart("remembering", { title: run.label, x: "epochs remembered", y: "leak AUC", min: 0.4, max: 1, guessing: true,
      wholeX: true, xMin: 0.6, xMax: epochs + 0.4 }, [...datasets, ...beyondMarks(marks)], keys);
  }
}

// ---- Tables ---------------------------------------------------------------------------------------------------------
// What the scale shows: the mean over the batches, else the AUC over an epoch, each with its interval and turned upright.
function middle(leak) {
  if (leak.mean === null) return leak.pooled.auc;
  const strength = Math.max(leak.mean, 1 - leak.mean);
  return [strength, strength - leak.ci95, strength + leak.ci95];
}

// A scale from guessing (left end) to fully exposed: interval and mean as a bar and a dot, p95 as a tick.
function scale(leak, colour) {
  const at = (auc) => (100 * Math.min(1, Math.max(0, (auc - 0.5) / 0.5))).toFixed(2) + "%";
  const [value, low, high] = middle(leak);
  const far = leak.p95 === null ? high : leak.p95;
  const line = (from, to, attributes) => svg("line", { x1: from, x2: to, y1: "50%", y2: "50%", "stroke-width": 6, ...attributes });
  const parts = [line("0%", "100%", { stroke: "#dde3e9", "stroke-linecap": "round" }),
    line("0%", at(far), { stroke: colour, opacity: 0.25, "stroke-linecap": "round" }),
    line(at(low), at(high), { stroke: colour }),
    svg("circle", { cx: at(value), cy: "50%", r: 5, fill: colour, stroke: "#fff", "stroke-width": 1.5 })];
  if (leak.p95 !== null) {
    parts.push(svg("line", { x1: at(far), x2: at(far), y1: "12%", y2: "88%", stroke: colour, "stroke-width": 2.5 }));
  }
  return svg("svg", { class: "scale", role: "img",
    "aria-label": percent(value) + " of 100 pairs" + (leak.p95 === null ? "" : ", 95 percent quantile " + percent(leak.p95)) }, ...parts);
}

const SHOWN_ROWS = 8;  // Of a layer's table; the rest is folded.

function leakRow(run, leak) {
  const mean = leak.mean === null ? "–" : withInterval([leak.mean, leak.mean - leak.ci95, leak.mean + leak.ci95]);
  const pooled = leak.pooled;
  const rates = pooled ? [withInterval(pooled.auc, 3, pooled.exposure), withInterval(pooled.tpr_1pct), withInterval(pooled.tpr_01pct, 4)] : ["–", "–", "–"];
  const name = element("span", {}, leak.title, element("span", { class: "by" }, "by the " + leak.observer_name));
  if (leak.beyond.length) name.append(element("span", { class: "by alarm" }, "beyond what the noise allows"));
  return [name, mean, element("b", { class: leak.p95_exposure }, fixed(leak.p95)), ...rates,
    leak.mean === null && !pooled ? "" : scale(leak, run.colour)];
}

function layerTable(run, leaks) {
  const ends = () => element("span", { class: "scale-ends" }, element("span", {}, "50 guessing"), element("span", {}, "100 exposed"));
  const number = (head, name = head) => ({ head, name, class: "number" });
  const columns = () => [{ head: "Attack" }, number("Mean over batches"), number("p95"), number("Last epoch", "Over the last epoch"),
    number("Found at 1% false alarms"), number("Found at 0.1% false alarms"), { head: ends(), class: "scale-column wide" }];
  // Ledgers without epochs leave three columns empty.
  const shown = (cells) => (run.leaks.some((leak) => leak.pooled) ? cells : cells.filter((cell, i) => i < 3 || i > 5));
  const rows = leaks.map((leak) => shown(leakRow(run, leak)));
  const nodes = [element("h4", {}, capital(leaks[0].layer_name.replace(/^the /, ""))), table(shown(columns()), rows.slice(0, SHOWN_ROWS))];
  if (rows.length > SHOWN_ROWS) {
    const rest = rows.length - SHOWN_ROWS;
    nodes.push(element("details", {}, element("summary", {}, rest + (rest === 1 ? " more attack" : " more attacks")),
      table(shown(columns()), rows.slice(SHOWN_ROWS))));
  }
  return nodes;
}

function leakTables(run) {
  const layers = [...new Set(run.leaks.map((leak) => leak.layer))];
  const pooled = run.leaks.map((leak) => leak.pooled).find(Boolean);
  const note = pooled ? [element("p", { class: "note" }, "Last epoch measured: epoch " + pooled.epoch + " with " +
    pooled.examples.toLocaleString("en") + " examples, " + pooled.positives.toLocaleString("en") + " of them positive.")] : [];
  return panel(run, ...note, ...layers.flatMap((layer) => layerTable(run, run.leaks.filter((leak) => leak.layer === layer))));
}

function drawGlossary() {
  const known = report.glossary.filter((entry) => entry.explanation);
  byId("glossary").append(element("dl", { class: "glossary" }, ...known.flatMap((entry) => [
    element("dt", {}, entry.title, element("span", { class: "mono" }, entry.attack)), element("dd", {}, entry.explanation)])));
  return known.length > 0;
}
