// The other direction: what the label party reads of sensitive attributes in the activations, and what protects these.
const attributed = () => runs.filter((run) => run.attributes);

// Accuracy over floor of the strongest attack, below it which.
function attributeCell(figure) {
  return element("span", {}, element("b", {}, "accuracy " + fixed(figure.accuracy[0])), ", floor " + fixed(figure.floor),
    element("span", { class: "by" }, figure.title + (figure.above_floor ? "" : ": not above the floor by its interval")));
}

const provedOfActivations = ({ proved, auc_bound: bound, protected: isProtected }) => (proved
  ? element("b", { class: "whole" }, "AUC at most " + boundText(bound) + ", of this run alone")
  : isProtected ? "measured only: a heuristic" : "not protected");

const utilityOf = (run) => {
  const tests = run.evaluations.filter((row) => row.split === "test");
  return tests.length ? tests[tests.length - 1] : {};
};

// Both directions, run by run: labels through gradients, attributes through activations, and what the model is good for.
function drawDirections() {
  if (!attributed().length) return removeSection("directions");
  const names = [...new Set(attributed().flatMap((run) => run.attributes.strongest.map((figure) => figure.attribute)))];
  const columns = [text("Run"), text("Labels, through the gradients"), ...names.map((name) => text("Attribute " + name + ", through the activations")),
    text("Proved of attributes"), number("Test accuracy"), number("Test AUC")];
  const rows = attributed().map((run) => {
    const { pooled, beyond_features: beyond } = run.ranking;
    const labels = pooled ? element("span", {}, element("b", { class: pooled.exposure }, "leak AUC " + fixed(pooled.auc)),
      element("span", { class: "by" }, pooled.title + ", " + beyond)) : "no attack was measured";
    const last = utilityOf(run);
    return [key(run), labels, ...names.map((name) => {
      const figure = run.attributes.strongest.find((one) => one.attribute === name);
      return figure ? attributeCell(figure) : "not attacked";
    }), provedOfActivations(run.attributes), fixed(last.accuracy), fixed(last.auc)];
  });
  return byId("directions-table").append(table(columns, rows));
}

function attributeFigures(run) {
  const columns = [text("Attack"), text("Examples"), number("Accuracy"), number("Floor"), number("Advantage"), number("AUC"), text("When")];
  const rows = (name) => run.attributes.figures.filter((figure) => figure.attribute === name).map((figure) => [
    element("span", {}, figure.title, element("span", { class: "by mono" }, figure.attack)),
    figure.rows.toLocaleString("en") + " " + figure.examples, withInterval(figure.accuracy), fixed(figure.floor), Math.abs(figure.advantage) < 5e-4 ? "0.000" : signed(figure.advantage),
    fixed(figure.auc), figure.when]);
  const names = [...new Set(run.attributes.figures.map((figure) => figure.attribute))];
  const node = panel(run, element("p", {}, run.attributes.protection_words), element("p", {}, ...emphasised(run.attributes.proved_words)),
    ...(run.attributes.loss_words ? [element("p", {}, run.attributes.loss_words)] : []),
    ...names.flatMap((name) => [element("h4", {}, "Attribute " + name + ", strongest first"), table(columns, rows(name))]),
    ...(names.length ? [] : [element("p", { class: "note" }, "No attack on an attribute was run.")]));
  node.classList.add("long");
  return node;
}

// "Proved: ..." with its first word in bold.
function emphasised(words) {
  const at = words.indexOf(":");
  return at < 0 ? [words] : [element("b", {}, words.slice(0, at + 1)), words.slice(at + 1)];
}

// Privacy loss over the steps (Yu et al., Figure 3): dashed the threshold, dotted what no batch may pass.
function drawLoss(run, loss, box) {
  const { threshold, limit } = run.attributes;
  const datasets = curveDatasets(loss.curve, loss.attribute, run), keys = [key(run, "privacy loss, mean over a twentieth of the run")];
  const steps = loss.curve.line.map(([step]) => step);
  const level = (y, label, dash) => ({ label, data: [{ x: Math.min(...steps), y }, { x: Math.max(...steps), y }], borderColor: INK,
    backgroundColor: INK, borderWidth: 1.25, borderDash: dash, pointRadius: 0, order: 3 });
  if (!isNone(threshold)) {
    datasets.push(level(threshold, "threshold", [6, 4]), level(limit, "threshold and slack", [1, 3]));
    keys.push(key({ colour: INK, dash: [6, 4] }, "threshold " + short(threshold)), key({ colour: INK, dash: [1, 3] }, "with its slack " + short(limit)));
  }
  if (loss.marks.length) {
    datasets.push({ label: "corrected before leaving", data: toPoints(loss.marks), showLine: false, pointStyle: "triangle", pointRadius: 4,
      backgroundColor: QUIET, borderColor: PANEL, borderWidth: 1, order: 0 });
    keys.push(element("span", { class: "key" }, svg("svg", { width: 14, height: 12, "aria-hidden": "true" },
      svg("path", { d: "M7 0 L14 12 L0 12 Z", fill: QUIET })), "corrected before leaving"));
  }
  const note = isNone(threshold) ? "of the batches that left" : loss.at_front + " of " + loss.steps + " steps along the front, the others toward it; " +
    loss.corrected + " batches corrected by " + loss.corrections + " steps on it alone";
  drawChart(box, { title: "Privacy loss of " + loss.attribute + (runs.length > 1 ? ": " + run.label : ""), note, x: "step (batch)", y: "privacy loss (nats)", min: 0 },
    datasets, keys);
}

function attributeSection() {
  if (!attributed().length) return removeSection("attributes");
  const charted = attributed().flatMap((run) => run.attributes.losses.map((loss) => [run, loss]));
  const box = document.querySelector("#attributes .charts");
  whenOpen(byId("attributes"), () => charted.forEach(([run, loss]) => drawLoss(run, loss, box)));
  byId("attribute-tables").append(...attributed().map(attributeFigures));
  const known = page.attribute_glossary.filter((entry) => entry.explanation);
  if (known.length) {
    byId("attribute-tables").append(folded("What these attacks do", element("dl", { class: "glossary" }, ...known.flatMap((entry) => [
      element("dt", {}, entry.title, element("span", { class: "mono" }, entry.attack)), element("dd", {}, entry.explanation)]))));
  }
  return undefined;
}
