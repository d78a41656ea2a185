// What the attacks reach: charts and tables, the strongest first. A line is a run, of the run's colour.
// The adversary's own figures, else the label party's audit.
function chartedLeak(run, layer, attack) {
  const found = run.leaks.filter((leak) => leak.layer === layer && leak.attack === attack && leak.curve);
  return found.find((leak) => leak.observer === "nonlabel_party") || found[0];
}

const beyondOf = (run, layer, attack) => run.leaks
  .filter((leak) => leak.layer === layer && leak.attack === attack)
  .flatMap((leak) => leak.beyond.map(([x, y]) => ({ x, y })));

const isBounded = (run) => run.solver.auc_bound && run.solver.auc_bound.mean < 0.9995 && run.solver.gaussian_auc_bound;

// "proved", "conditional", or both: no bound stands without its condition.
const kindsOf = (bounded) => [...new Set(bounded.map((run) => run.ranking.bound_kind))].join(" or ");

function drawLeak(box, { layer, layer_name: layerName, attack, title }) {
  const datasets = [], keys = [], drawnBounds = [];
  for (const run of runs) {
    const leak = chartedLeak(run, layer, attack);
    if (!leak) continue;
    datasets.push(...curveDatasets(leak.curve, run.label, run));
    // A bound on what labels add to features bounds no score that ranks by features.
    const bounded = leak.pooled ? !isNone(leak.pooled.bound) : !run.ranking.proved;
    if (layer === "cut" && isBounded(run) && bounded && leak.reads_gradients && !attack.startsWith("cumulative_")) {
      drawnBounds.push(run);
      datasets.push(boundLine(toPoints(run.solver.gaussian_auc_bound.curve.line), run.label + ", bound", run));
    }
  }
  if (drawnBounds.length) keys.push(boundKey("bound per step, " + kindsOf(drawnBounds)));
  const marks = beyondMarks(runs.flatMap((run) => beyondOf(run, layer, attack)));
  if (marks.length) keys.push(markKey("exceeds its bound over an epoch"));
  drawChart(box, { title, note: layerName, x: "step (batch)", y: "leak AUC", min: 0.5, max: 1,
    guessing: guessingOf(runs.map((run) => run.ranking), "guessing_mean", "guessing") }, [...datasets, ...marks], keys);
}

const CHARTS_SHOWN = 4;

// Charts of a section: the first `shown` when it is opened, the others when its own fold is.
function drawSome(section, all, shown, draw) {
  const rest = byId(section + "-more"), others = all.length - shown;
  whenOpen(byId(section), () => all.slice(0, shown).forEach((one) => draw(document.querySelector("#" + section + " > .charts"), one)));
  if (others <= 0) return rest.remove();
  rest.querySelector("summary").textContent = others === 1 ? "One more chart" : others + " more charts";
  return whenOpen(rest, () => all.slice(shown).forEach((one) => draw(rest.querySelector(".charts"), one)));
}

function drawLeakCharts() {
  const all = page.charted.flatMap((layer) => layer.attacks.map((attack) => ({ ...layer, ...attack })));
  if (!all.length) return removeSection("leak-charts");
  if (runs.length > 1) legend("leak-charts", runs.map((run) => key(run)));
  return drawSome("leak-charts", all, CHARTS_SHOWN, drawLeak);
}

// ---- Cumulative attacks ---------------------------------------------------------------------------------------------
function drawCumulative(box, [attack, title]) {
  const datasets = [], keys = [], marks = [], drawnBounds = [];
  const drawn = runs.filter((run) => run.cumulative && run.cumulative.attacks.some((candidate) => candidate.attack === attack));
  const epochs = Math.max(...drawn.flatMap((run) => run.cumulative.attacks.flatMap((one) => one.epochs.map(([epoch]) => epoch))));
  drawn.forEach((run, i) => {
    const { epochs: points, bounded } = run.cumulative.attacks.find((candidate) => candidate.attack === attack);
    const shift = drawn.length > 1 ? (i / (drawn.length - 1) - 0.5) * Math.min(0.16, 0.016 * epochs) : 0;
    datasets.push({ label: run.label, data: points.map(([epoch, auc]) => ({ x: epoch + shift, y: auc })),
      intervals: points.map(([, , low, high]) => [low, high]), borderColor: run.colour, backgroundColor: run.colour,
      borderWidth: 2.25, borderDash: run.dash, pointRadius: 3.5, order: 1 });
    marks.push(...points.filter((point) => point[4]).map(([epoch, auc]) => ({ x: epoch + shift, y: auc })));
    const bound = run.cumulative.gaussian.filter(([, auc]) => auc < 0.9995);
    if (bounded && bound.length) {
      drawnBounds.push(run);
      datasets.push(boundLine(toPoints(bound), run.label + ", bound", run));
    }
  });
  if (drawnBounds.length) keys.push(boundKey("bound per run, " + kindsOf(drawnBounds)));
  if (marks.length) keys.push(markKey("exceeds its bound"));
  drawChart(box, { title, x: "epochs added up", y: "leak AUC", min: 0.5, max: 1, guessing: [{ y: 0.5, name: "guessing" }], wholeX: true, xMin: 0.6,
    xMax: epochs + 0.4 }, [...datasets, ...beyondMarks(marks)], keys);
}

function drawAllCumulative() {
  const titles = new Map();
  for (const run of runs.filter((candidate) => candidate.cumulative)) {
    for (const { attack, title } of run.cumulative.attacks) titles.set(attack, title);
  }
  if (!titles.size) return removeSection("cumulative");
  if (runs.length > 1) legend("cumulative", runs.map((run) => key(run)));
  return drawSome("cumulative", [...titles], 2, drawCumulative);
}

// ---- Tables ---------------------------------------------------------------------------------------------------------
const ROWS_SHOWN = 10;  // Of a table of attacks; the rest is folded.

// A scale from guessing (left end) to fully exposed: the attack's AUC as a bar, a tick where guessing gets in one batch of
// twenty.
function scale(run, leak) {
  const to = (auc) => percent((auc - 0.5) / 0.5);
  const line = (end, attributes) => svg("line", { x1: "0%", x2: end, y1: "50%", y2: "50%", "stroke-width": 6, ...attributes });
  const parts = [line("100%", { class: "track" }), line(to(leak.auc), { stroke: run.colour })];
  const { guessing } = run.ranking;
  if (!isNone(guessing)) parts.push(svg("line", { x1: to(guessing), x2: to(guessing), y1: "12%", y2: "88%", class: "guess" }));
  return svg("svg", { class: "scale", role: "img", "aria-label": "AUC " + fixed(leak.auc) }, ...parts);
}

function attackName(leak) {
  const node = element("span", {}, leak.title, element("span", { class: "by" }, leak.needs));
  if (!leak.reads_gradients) node.append(element("span", { class: "by" }, "uses no gradient, so no bound applies"));
  if (leak.beyond.length) node.append(element("span", { class: "by alarm" }, "exceeds its bound"));
  return node;
}

const signed = (value) => (isNone(value) ? "–" : (value < 0 ? "−" : "+") + fixed(Math.abs(value)));

function leakRow(run, leak) {
  const { pooled } = leak;
  const rates = pooled ? [withInterval(pooled.auc), withInterval(pooled.tpr_1pct), withInterval(pooled.tpr_01pct)] : ["–", "–", "–"];
  return [attackName(leak), leak.layer_name.replace(/^the /, ""), element("b", { class: leak.exposure }, fixed(leak.auc)),
    signed(leak.advantage), fixed(leak.p95),
    leak.mean === null ? "–" : withInterval(leak.mean), ...rates, leak.auc === null ? "" : scale(run, leak)];
}

// All figures of one run.
function detailTables(run) {
  const ends = () => element("span", { class: "scale-ends" }, element("span", {}, "0.5 guessing"), element("span", {}, "1 exposed"));
  const columns = () => [text("Attack"), text("Layer"), number("AUC"), number("Beyond features"), number("p95 over batches"), number("Mean over batches"),
    number("Last epoch"), number("TPR at 1% FPR"), number("TPR at 0.1% FPR"), { head: ends(), class: "scale-column wide" }];
  // Ledgers without epochs leave three columns empty.
  const shown = (cells) => (run.leaks.some((leak) => leak.pooled) ? cells : cells.filter((cell, i) => i < 6 || i > 8));
  const rows = run.leaks.map((leak) => shown(leakRow(run, leak)));
  const nodes = [table(shown(columns()), rows.slice(0, ROWS_SHOWN))];
  if (rows.length > ROWS_SHOWN) {
    nodes.push(folded((rows.length - ROWS_SHOWN) + " more rows", table(shown(columns()), rows.slice(ROWS_SHOWN))));
  }
  const pooled = run.leaks.map((leak) => leak.pooled).find(Boolean);
  if (pooled) {
    nodes.unshift(element("p", { class: "note" }, "Last epoch measured: epoch " + pooled.epoch + " with " +
      pooled.examples.toLocaleString("en") + " examples, " + pooled.positives.toLocaleString("en") + " of them positive. TPR: the share " +
      "of positives found at 1% or 0.1% false positives, where guessing finds 0.01 and 0.001; an attack that finds fewer is wrong about " +
      "the examples it is surest of."));
  }
  return nodes;
}

// Several runs side by side: an attack a row, its AUC in each run; by the strongest in the protected runs, since without
// protection nearly every attack reads everything. What is left equal goes by the others.
function comparison(attacked) {
  const rows = new Map();
  for (const run of attacked) {
    for (const leak of run.leaks.filter((candidate) => candidate.auc !== null)) {
      const place = JSON.stringify([leak.layer, leak.attack]);
      if (!rows.has(place)) rows.set(place, { leak, cells: new Map(), most: 0, others: 0 });
      const row = rows.get(place);
      if (row.cells.has(run)) continue;  // The stronger of two observers comes first.
      row.cells.set(run, leak);
      const which = run.is_protected || !attacked.some((one) => one.is_protected) ? "most" : "others";
      row[which] = Math.max(row[which], leak.auc);
    }
  }
  const sorted = [...rows.values()].sort((a, b) =>
    b.leak.reads_gradients - a.leak.reads_gradients || b.most - a.most || b.others - a.others);
  const columns = () => [text("Attack"), text("Layer"), ...attacked.map((run) => ({ head: key(run), name: run.label, class: "number" }))];
  const cells = sorted.map(({ leak, cells: byRun }) => [attackName({ ...leak, beyond: [] }),
    leak.layer_name.replace(/^the /, ""), ...attacked.map((run) => {
      const found = byRun.get(run);
      if (!found) return "–";
      const node = element("span", {}, element("b", { class: found.exposure }, fixed(found.auc)));
      if (found.beyond.length) node.append(element("span", { class: "by alarm" }, "exceeds its bound"));
      return node;
    })]);
  const node = element("div", { class: "panel long" }, table(columns(), cells.slice(0, ROWS_SHOWN)));
  if (cells.length > ROWS_SHOWN) node.append(folded((cells.length - ROWS_SHOWN) + " more rows", table(columns(), cells.slice(ROWS_SHOWN))));
  return node;
}

function leakTables() {
  const attacked = runs.filter((run) => run.leaks.length);
  if (!attacked.length) return removeSection("leak-table");
  byId("leak-table-note").textContent = leakNote();
  const box = byId("leak-tables");
  if (attacked.length === 1) {
    const only = panel(attacked[0], ...detailTables(attacked[0]));
    only.classList.add("long");
    return box.append(only);
  }
  box.append(comparison(attacked));
  return attacked.forEach((run) => box.append(folded("All figures of " + run.label, panel(run, ...detailTables(run)))));
}

// "marvell(s=4): Features alone, AUC 0.610", of all runs.
function baselines() {
  const named = runs.map(({ label, ranking: { baseline } }) => [label, baseline ? baseline.title + ", AUC " + fixed(baseline.auc) : "not measured"]);
  const found = new Set(named.map(([, words]) => words));
  return found.size === 1 ? [...found][0] : named.map(([label, words]) => label + ": " + words).join("; ");
}

function leakNote() {
  const limits = [page.thresholds.partly, page.thresholds.largely, page.thresholds.exposed].map((limit) => limit.toFixed(2));
  const guessing = [...new Set(runs.filter((run) => !isNone(run.ranking.guessing))
    .map(({ ranking }) => "p95 " + fixed(ranking.guessing) + " and mean " + fixed(ranking.guessing_mean)))];
  return "Attacks are ranked by AUC: the larger of p95 and the AUC over the last epoch (cumulative attacks: the latter). p95 is reached " +
    "or exceeded in one batch of twenty. Every AUC is inverted where it is below 0.5, batch by batch, so guessing exceeds 0.5, too" +
    (guessing.length ? ": " + guessing.join(" or ") + " at these batch sizes. " : ". ") +
    "Up to AUC " + limits[0] + " is called close to guessing, up to " + limits[1] + " partly, up to " + limits[2] +
    " largely inferred, above it exposed. 'Beyond features' subtracts the AUC of an adversary that sees no gradient (" +
    baselines() + "). Small figures are 95% intervals.";
}

function drawGlossary() {
  const known = page.glossary.filter((entry) => entry.explanation);
  byId("glossary").append(element("dl", { class: "glossary" }, ...known.flatMap((entry) => [
    element("dt", {}, entry.title, element("span", { class: "mono" }, entry.attack)), element("dd", {}, entry.explanation)])));
  if (!known.length) removeSection("attacks");
}
