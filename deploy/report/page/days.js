// Day by day: runs that continue one another, a line a chain.
function drawDays() {
  if (!report.days) return false;
  const { charted, chains } = report.days;
  chains.forEach((chain, i) => Object.assign(chain, styleOf(i)));
  const byDay = (figure) => chains.map((chain) => ({ label: chain.label,
    data: chain.runs.map((run, i) => ({ x: i + 1, y: figure(run) })).filter(({ y }) => y !== null),
    borderColor: chain.colour, backgroundColor: chain.colour, borderWidth: 2.25, borderDash: chain.dash, pointRadius: 3.5 }));
  const axis = { x: "run", wholeX: true, xMin: 1,
    xMax: Math.max(...chains.map((chain) => chain.runs.length)) };
  drawChart("days", { ...axis, title: "Test AUC", note: "of the run's examples, before they were trained on", y: "AUC" },
    byDay((run) => run.auc));
  const attacks = charted.flatMap((layer) => layer.attacks.map((attack) => ({ ...attack, ...layer, title: attack.title })));
  attacks.forEach(({ title, layer_name: layerName }, i) => {
    const lines = byDay((run) => run.leaks[i]);
    drawChart("days", { ...axis, title, note: layerName + ", mean over the run's batches", y: "leak AUC", max: 1, guessing: true,
      min: Math.min(0.4, ...lines.flatMap((line) => line.data.map(({ y }) => y))) }, lines);
  });
  legend("days", chains.map((chain) => key(chain)));
  const number = (head) => ({ head, name: head, class: "number" });
  const columns = [{ head: "Run" }, number("Test AUC"), number("Log-loss"),
    ...attacks.map(({ title, layer_name: layerName }) => number(title + ", " + layerName))];
  for (const chain of chains) {
    const rows = chain.runs.map((run, i) => [i + 1 + " · " + run.id, fixed(run.auc, 4), fixed(run.log_loss, 4),
      ...run.leaks.map((leak) => fixed(leak))]);
    byId("day-tables").append(element("details", {}, element("summary", {}, "All runs of " + chain.label),
      panel(chain, table(columns, rows))));
  }
  return true;
}
