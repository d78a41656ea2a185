// Quality, events and facts; then the page is put together.
function qualityLines(field, split) {
  return runs.flatMap((run) => {
    const data = run.evaluations.filter((row) => row.split === split && row[field] !== null)
      .map((row) => ({ x: row.epoch, y: row[field] }));
    return [{ label: run.label, data, borderColor: run.colour, backgroundColor: run.colour, borderWidth: 2.25,
      borderDash: run.dash, pointRadius: 3.5 }];
  });
}

function qualitySection() {
  const box = document.querySelector("#quality .charts"), more = byId("quality-more");
  const epochs = Math.max(0, ...runs.flatMap((run) => run.evaluations.map((row) => row.epoch)));
  const axis = { x: "epochs trained", wholeX: true, xMin: epochs > 1 ? undefined : 0 };
  const trained = runs.some((run) => run.loss.line.length);
  if (!trained && !runs.some((run) => run.evaluations.some((row) => row.split === "test"))) return removeSection("quality");
  if (runs.length > 1) legend("quality", runs.map((run) => key(run)));
  whenOpen(byId("quality"), () => {
    drawChart(box, { ...axis, title: "Test AUC", note: "higher is better; of several classes, the mean over them", y: "AUC" }, qualityLines("auc", "test"));
    drawChart(box, { ...axis, title: "Test log loss", note: "lower is better", y: "log loss (nats)" }, qualityLines("log_loss", "test"));
    drawChart(box, { ...axis, title: "Test R²", note: "higher is better", y: "share of the variance explained" }, qualityLines("r_squared", "test"));
  });
  whenOpen(more, () => {
    drawChart(more.querySelector(".charts"), { title: "Training loss", note: "mean log loss of each batch", x: "step (batch)", y: "log loss (nats)" },
      runs.flatMap((run) => curveDatasets(run.loss, run.label, run)));
    drawChart(more.querySelector(".charts"), { ...axis, title: "Calibration error on the test data", note: "lower is better", y: "calibration error" },
      qualityLines("calibration_error", "test"));
  });
  const figures = [["AUC", "auc"], ["Log loss", "log_loss"], ["Accuracy", "accuracy"], ["Calibration error", "calibration_error"]];
  const ofRegressions = [["R²", "r_squared"], ["RMSE, in the target's unit", "rmse"]];
  for (const run of runs.filter((candidate) => candidate.evaluations.length)) {
    const shown = run.evaluations.some((row) => !isNone(row.rmse)) ? ofRegressions : figures;
    const columns = [text("Epochs trained"), text("Split"), ...shown.map(([name]) => number(name))];
    const rows = run.evaluations.map((row) => [short(row.epoch), row.split, ...shown.map(([, field]) => fixed(row[field]))]);
    more.append(panel(run, table(columns, rows)));
  }
  return undefined;
}

function eventTables() {
  const columns = [text("Time (UTC)"), text("Party"), text("Event"), text("Detail")];
  const eventful = runs.filter((run) => run.events.length);
  if (!eventful.length) return removeSection("events");
  return eventful.forEach((run) => byId("event-tables").append(panel(run, table(columns, run.events.map((event) =>
    [event.at.replace("T", " ").replace("Z", ""), event.party, event.kind, event.detail])))));
}

function factTable(run) {
  const names = [...new Set(run.parties.flatMap((party) => party.facts.map(([name]) => name)))];
  const columns = [{ head: "Run " + run.id }, ...run.parties.map((party) => text(party.role))];
  const rows = names.map((name) => [name, ...run.parties.map((party) => {
    const fact = party.facts.find(([candidate]) => candidate === name);
    return element("span", name.includes("SHA") ? { class: "mono" } : {}, fact ? fact[1] : "–");
  })]);
  const configs = run.parties.filter((party) => party.config).map((party) =>
    folded("Configuration of the " + party.role, element("pre", { class: "mono" }, party.config)));
  return panel(run, table(columns, rows), ...configs);
}

function legend(section, keys) {
  document.querySelector("#" + section + " .legend").append(...keys);
}

drawAnswers();
drawSubject();
drawFeatures();
drawDirections();
drawDays();
drawLeakCharts();
leakTables();
drawAllCumulative();
attributeSection();
qualitySection();
distributionSection();
solverSection();
gateTables();
timeSection();
eventTables();
byId("fact-tables").append(...runs.map(factTable));
drawGlossary();
charts.forEach((chart) => chart.resize());  // The scroll bar came after the first of them were drawn.
