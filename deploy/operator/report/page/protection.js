// What the protection solved, added and decided, and what it did to the gradients.
const [NEGATIVE, POSITIVE] = CLASSES.map((one) => one.colour);
const PARTS = {
  lambda1_neg: ["negatives, along the class difference", NEGATIVE, []],
  lambda1_pos: ["positives, along the class difference", POSITIVE, []],
  lambda2_neg: ["negatives, across it", NEGATIVE, [4, 3]],
  lambda2_pos: ["positives, across it", POSITIVE, [4, 3]],
  u: ["u: variance within the negatives", NEGATIVE, []],
  v: ["v: variance within the positives", POSITIVE, []],
  g: ["g: squared distance of the class means", POSITIVE, [1, 4]],
};

// A method without noise solves nothing: only the table of means has its figures.
const solved = runs.filter((run) => run.solver.power && run.solver.power.mean > 0);

function drawSolver(box) {
  const ofRuns = (field, keep) => solved.filter((run) => run.solver[field])
    .flatMap((run) => curveDatasets(run.solver[field].curve, run.label, run, keep));
  drawChart(box, { title: "Distance of the classes after the noise", note: "sumKL: 0 hides everything; below 4 Theorem 1 binds",
    x: "step (batch)", y: "sumKL (nats)", min: 0 }, ofRuns("sum_kl"));
  drawChart(box, { title: "Noise power P", note: "expected squared norm of the noise on one gradient",
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
      drawChart(box, { title, note: run.label + " · zeros are not drawn", x: "step (batch)", y, logarithmic: true }, datasets,
        datasets.map((dataset) => key({ colour: dataset.borderColor, dash: dataset.borderDash }, dataset.label)));
    };
    chart("Variance of the noise", "variance (gradient²)", ["lambda1_neg", "lambda1_pos", "lambda2_neg", "lambda2_pos"]);
    chart("The gradients before the noise", "gradient²", ["u", "v", "g"]);
  }
}

function solverSection() {
  const recorded = runs.filter((run) => Object.keys(run.solver).length);
  if (!recorded.length) return removeSection("solver");
  const names = { u: "u", v: "v", g: "g", p: "positives p", power: "P", sum_kl: "sumKL", auc_bound: "Bound, Theorem 1" };
  const columns = [{ head: "Mean over the batches" }, ...Object.values(names).map((name) => number(name))];
  const rows = recorded.map((run) => [key(run), ...Object.keys(names).map((field) => short(run.solver[field] && run.solver[field].mean))]);
  byId("solver-table").append(element("div", { class: "panel" }, table(columns, rows)));
  if (solved.length > 1) legend("solver", solved.map((run) => key(run)));
  return whenOpen(byId("solver"), () => drawSolver(document.querySelector("#solver .charts")));
}

// Decisions of the release gate, epoch by epoch.
function gateTables() {
  const judged = runs.filter((run) => run.gate);
  if (!judged.length) return removeSection("gate");
  for (const run of judged) {
    const columns = [{ head: "Epoch" }, ...run.gate.decisions.map(({ name }) => number(capital(name)))];
    const total = ["All", ...run.gate.decisions.map((decision) => element("b", {}, String(decision.total)))];
    const rows = run.gate.epochs.map((row) => row.map(String));
    const all = table(columns, [total, ...rows.slice(0, ROWS_SHOWN)]);
    byId("gate-tables").append(panel(run, all, ...(rows.length > ROWS_SHOWN ? [folded("All " + rows.length + " epochs", table(columns, rows))] : [])));
  }
  return undefined;
}

// ---- Distributions --------------------------------------------------------------------------------------------------
function drawDistributions(box) {
  for (const run of runs.filter((candidate) => candidate.distributions)) {
    const { epoch, charts: histograms } = run.distributions;
    for (const { quantity, title, classes } of histograms) {
      const datasets = classes.map((points, label) => ({ label: CLASSES[label].label, data: toPoints(points), stepped: "before",
        fill: "origin", pointRadius: 0, pointHitRadius: 4, borderWidth: 2, borderColor: CLASSES[label].colour,
        borderDash: CLASSES[label].dash, backgroundColor: CLASSES[label].colour + (label ? "18" : "50") }));
      const ends = classes.flatMap((points) => points.map(([x]) => x));
      drawChart(box, { title, note: run.label + " · epoch " + epoch,
        x: quantity.endsWith("norm") ? "length of an example's gradient" : "cosine with a known positive", y: "percent of the class", min: 0,
        xMin: Math.min(...ends), xMax: Math.max(...ends) }, datasets);
    }
  }
}

function distributionSection() {
  if (!runs.some((run) => run.distributions)) return removeSection("distributions");
  legend("distributions", CLASSES.map((style) => key(style, style.label)));
  return whenOpen(byId("distributions"), () => drawDistributions(document.querySelector("#distributions .charts")));
}
