// What the protection solved, added and decided, and what it did to the gradients.
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
      drawChart("solver-charts", { title, note: run.label + " · zeros are not drawn", x: "step (batch)", y, logarithmic: true }, datasets,
        datasets.map((dataset) => key({ colour: dataset.borderColor, dash: dataset.borderDash }, dataset.label)));
    };
    chart("Variance of the noise", "variance (gradient²)", ["lambda1_neg", "lambda1_pos", "lambda2_neg", "lambda2_pos"]);
    chart("The gradients before the noise", "gradient²", ["u", "v", "g"]);
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

// Decisions of the release gate, epoch by epoch.
function gateTables() {
  const judged = runs.filter((run) => run.gate);
  for (const run of judged) {
    const columns = [{ head: "Epoch" }, ...run.gate.decisions.map(({ name }) => ({ head: capital(name), name: capital(name), class: "number" }))];
    const total = ["All", ...run.gate.decisions.map((decision) => element("b", {}, String(decision.total)))];
    const rows = run.gate.epochs.map((row) => row.map(String));
    const all = table(columns, [total, ...rows.slice(0, SHOWN_ROWS)]);
    byId("gate-tables").append(panel(run, all, ...(rows.length > SHOWN_ROWS ? [element("details", {},
      element("summary", {}, "All " + rows.length + " epochs"), table(columns, rows))] : [])));
  }
  return judged.length > 0;
}

// ---- Distributions --------------------------------------------------------------------------------------------------
const CLASSES = [{ label: "negatives", colour: "#0067a5", dash: [] }, { label: "positives", colour: "#c24a00", dash: [6, 3] }];

function drawDistributions() {
  for (const run of runs.filter((candidate) => candidate.distributions)) {
    const { epoch, charts: histograms } = run.distributions;
    for (const { quantity, title, classes } of histograms) {
      const datasets = classes.map((points, label) => ({ label: CLASSES[label].label, data: toPoints(points), stepped: "before",
        fill: "origin", pointRadius: 0, pointHitRadius: 4, borderWidth: 2, borderColor: CLASSES[label].colour,
        borderDash: CLASSES[label].dash, backgroundColor: CLASSES[label].colour + "30" }));
      const ends = classes.flatMap((points) => points.map(([x]) => x));
      drawChart("distributions", { title, note: run.label + " · epoch " + epoch,
        x: quantity.endsWith("norm") ? "length of an example's gradient" : "cosine with a known positive", y: "percent of the class", min: 0,
        xMin: Math.min(...ends), xMax: Math.max(...ends) }, datasets);
    }
  }
}
