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
  for (const chain of chains) {
    const runNames = chain.runs.map((run, i) => i + 1 + " · " + run.id);
    const tables = [table([{ head: "Run" }, number("Test AUC"), number("Log-loss")],
      chain.runs.map((run, i) => [runNames[i], fixed(run.auc, 4), fixed(run.log_loss, 4)]))];
    let first = 0;  // Of the layer's figures in run.leaks.
    for (const { layer_name: layerName, attacks: ofLayer } of charted) {
      const begin = first;
      tables.push(element("h4", {}, capital(layerName.replace(/^the /, ""))),
        table([{ head: "Run" }, ...ofLayer.map(({ title }) => number(title))], chain.runs.map((run, i) =>
          [runNames[i], ...ofLayer.map((_, j) => fixed(run.leaks[begin + j]))])));
      first += ofLayer.length;
    }
    byId("day-tables").append(element("details", {}, element("summary", {}, "All runs of " + chain.label),
      panel(chain, ...tables)));
  }
  return true;
}
