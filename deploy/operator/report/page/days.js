// The strongest attack and its AUC.
const strongestCells = ({ strongest }) => (strongest ? [strongest.title, fixed(strongest.auc)] : ["none measured", "–"]);

// Day by day: runs that continue one another, a line per chain. A chain has the colour of its last run.
function drawDays() {
  if (!page.days) return removeSection("days");
  const { charted, chains } = page.days;
  const box = document.querySelector("#days .charts");
  if (page.folded) {
    byId("days-folded").textContent = "Of each chain the sections below show the last run; " + page.folded + " runs before are here alone.";
  }
  chains.forEach((chain, i) => {
    const last = runs.find((run) => run.id === chain.runs[chain.runs.length - 1].id) || styleOf(i);
    Object.assign(chain, { colour: last.colour, dash: last.dash });
  });
  const byDay = (figure) => chains.map((chain) => ({ label: chain.label,
    data: chain.runs.map((run, i) => ({ x: i + 1, y: figure(run) })).filter(({ y }) => y !== null),
    borderColor: chain.colour, backgroundColor: chain.colour, borderWidth: 2.25, borderDash: chain.dash, pointRadius: 3.5 }));
  const axis = { x: "run", wholeX: true, xMin: 1, xMax: Math.max(...chains.map((chain) => chain.runs.length)) };
  const rankings = chains.flatMap((chain) => chain.runs.map((run) => run.ranking));
  const leakAxis = (figure) => ({ y: "leak AUC", min: 0.5, max: 1, guessing: guessingOf(rankings, figure) });
  whenOpen(byId("days"), () => {
    drawChart(box, { ...axis, title: "Test AUC", note: "of the run's examples, before they were trained on", y: "AUC" },
      byDay((run) => run.auc));
    const strongest = byDay((run) => (run.ranking.strongest ? run.ranking.strongest.auc : null));
    drawChart(box, { ...axis, ...leakAxis("guessing"), title: "Strongest attack on the gradients of each run",
      note: "in one batch of twenty, or over the last epoch" }, strongest);
  });
  const attacks = charted.flatMap((layer) => layer.attacks.map((attack) => ({ ...layer, title: attack.title })));
  const more = byId("days-more");
  if (!attacks.length) more.remove();
  else whenOpen(more, () => attacks.forEach(({ title, layer_name: layerName }, i) => {
    const lines = byDay((run) => run.leaks[i]);
    drawChart(more.querySelector(".charts"), { ...axis, ...leakAxis("guessing_mean"), title, note: layerName + ", mean over the run's batches" }, lines);
  }));
  legend("days", chains.map((chain) => key(chain)));
  for (const chain of chains) {
    const columns = [text("Run"), text("Strongest attack"), number("Its AUC"), number("Guessing, p95"), text("Bound"), text("Kind"),
      number("Test AUC"), number("Log loss")];
    byId("day-tables").append(folded("All runs of " + chain.label, panel(chain, table(columns, chain.runs.map((run, i) =>
      [i + 1 + " · " + run.id, ...strongestCells(run.ranking), fixed(run.ranking.guessing), boundState(run.ranking), run.ranking.bound_kind, fixed(run.auc), fixed(run.log_loss)])))));
  }
}
