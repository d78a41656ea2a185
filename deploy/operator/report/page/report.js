// Quality, events and facts; then the page is put together.
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

// ---- Page -----------------------------------------------------------------------------------------------------------
function legend(section, keys) {
  document.querySelector("#" + section + " .legend").append(...keys);
}

function leakNote() {
  const limits = [report.thresholds.partly, report.thresholds.largely, report.thresholds.exposed].map((limit) => limit.toFixed(2));
  return "Leak AUC with 95% intervals in small print. Mean: over the batches. p95: in one batch of twenty the attack reads at " +
    "least this much (an AUC below 0.5 counts as its mirror image). Last epoch: over all its examples; attacks that remember " +
    "have seen all epochs by then. Found: the share of the positives that an attack points out while it accuses 1% or 0.1% of " +
    "the negatives wrongly; guessing finds 0.01 and 0.001. The words above go by the larger of p95 and last epoch: up to " +
    limits[0] + " close to guessing, up to " + limits[1] + " partly, up to " + limits[2] + " largely readable, above it exposed. " +
    "On the scale the dot is the mean, the tick p95.";
}

drawPolicy();
drawBanner();
byId("cards").append(...runs.map(card));
byId("leak-table-note").textContent = leakNote();
const attacked = runs.filter((run) => run.leaks.length);
byId("leak-tables").append(...attacked.map(leakTables));
if (runs.length > 1) legend("leak-charts", runs.map((run) => key(run)));
legend("quality-charts", runs.map((run) => key(run)));
legend("distributions", CLASSES.map((style) => key(style, style.label)));
legend("solver-charts", solved.map((run) => key(run)));
if (report.days && report.folded) byId("days-folded").textContent = "Of each chain the sections below show the last run; " +
  report.folded + " runs before are here alone.";
if (!drawDays()) removeSection("days");
if (runs.length === 1) drawLeaksOfOne(runs[0]);
else drawLeaksOfSeveral();
drawCumulative();
drawDistributions();
drawQuality();
drawSolver();
evaluationTables();
if (!attacked.length) removeSection("leak-table");
if (!drawGlossary()) removeSection("attacks");
if (!solverTable()) removeSection("solver-charts");
if (!gateTables()) removeSection("gate");
legend("times", report.phases.map(phaseKey));
if (!drawTimes()) removeSection("times");
if (!eventTables()) removeSection("events");
for (const section of ["leak-charts", "remembering", "distributions", "quality-charts"]) {
  if (!document.querySelector("#" + section + " canvas")) removeSection(section);
}
byId("fact-tables").append(...runs.map(factTable));
charts.forEach((chart) => chart.resize());  // The scroll bar came after the first of them were drawn.

// On paper nothing is folded away, and two charts stand beside each other on A4 or Letter, drawn for their printed size so
// that their text stays legible.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((details) => { details.open = true; });
  charts.forEach((chart) => chart.resize(318, 215));
});
window.addEventListener("afterprint", () => {
  folded.forEach((details) => { details.open = false; });
  charts.forEach((chart) => chart.resize());
});
