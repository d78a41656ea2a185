// The other direction: what attacks read of sensitive attributes, against what the model is good for; and both directions
// against the layer after which the model is cut. A colour and shape here is a method that protects activations.
const VARIANT = "#5f6b2f";  // In the charts of labels: not one of the gradients' protections alone.
const METHOD_SHAPES = ["circle", "triangle", "rect", "rectRot", "rectRounded", "star", "crossRot"];
const methodStyle = (kind) => ({ ...styleOf(kind), shape: METHOD_SHAPES[kind % METHOD_SHAPES.length] });

// Each point's name beside it, where it covers no other.
const pointNames = {
  id: "pointNames",
  afterDatasetsDraw(chart) {
    nameMarks(chart, chart.data.datasets.flatMap((dataset, i) => chart.getDatasetMeta(i).data.map(({ x, y }, j) =>
      ({ x, y, gap: 8, words: dataset.data[j].point.name, colour: dataset.borderColor }))), markBoxes(chart, 5));
  },
};

// Dashed at the floor, with its name at the right end.
const floorLine = (floor) => ({
  id: "floorLine",
  beforeDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales } = chart;
    ctx.save();
    drawLevel(chart, floor, INK, [2, 3]);
    ctx.textAlign = "right";
    ctx.textBaseline = "top";
    annotate(ctx, "floor " + fixed(floor), area.right - 3, scales.y.getPixelForValue(floor) + 3);
    ctx.restore();
  },
});

// No "-0.000".
const plainZero = (spread) => Object.fromEntries(Object.entries(spread).map(([name, value]) => [name, Math.abs(value) < 5e-4 ? 0 : value]));

// `attackOf`: the attack of a point at this attribute, or nothing.
function drawAttribute(box, attribute, title, note, attackOf) {
  const measured = page.attributes.points.filter((point) => !point.frozen && point.attributes[attribute] && attackOf(point.attributes[attribute]) &&
    !isNone(point.accuracy.mean));
  if (!measured.length) return;
  const datasets = page.attributes.methods.map(({ kind, label }) => {
    const style = methodStyle(kind), strokeOnly = ["star", "crossRot"].includes(style.shape);
    return { label, borderColor: style.colour, backgroundColor: style.colour, pointStyle: style.shape, pointRadius: 5.5, pointHoverRadius: 7,
      pointBorderWidth: strokeOnly ? 2.5 : 1.5, showLine: false, data: measured.filter((point) => point.kind === kind).map((point) => {
        const { accuracy } = attackOf(point.attributes[attribute]);
        return { x: point.accuracy.mean, y: accuracy.mean, xs: point.accuracy, ys: accuracy, point };
      }) };
  }).filter((dataset) => dataset.data.length);
  // Floors of test and training examples differ a little: of the lower one, so that what lies on it reads nothing.
  const floor = Math.min(...measured.map((point) => point.attributes[attribute].floor.mean));
  drawScatter(box, { title, note, described: title + ": attack accuracy against test accuracy; the table below has the figures." }, {
    datasets,
    plugins: [floorLine(floor), seedCrosses, pointNames],
    x: { words: "utility: test accuracy", grace: "12%" },
    y: { words: "accuracy of the attack", suggestedMin: floor - 0.01, grace: "6%" },
    label: ({ raw }) => {
      const found = raw.point.attributes[attribute], attack = attackOf(found);
      return [seedWords(raw.point), "utility " + spreadWords(raw.xs),
        attack.title + ": accuracy " + spreadWords(raw.ys) + ", floor " + fixed(found.floor.mean), raw.point.proved_words];
    },
  });
}

const attackCell = (attack) => element("span", {}, attack.title,
  element("span", { class: "by" }, attack.attack + " · " + attack.examples + " examples, " + attack.when));

function attributeTable(attribute) {
  const columns = [text("Protection"), number("Utility: test accuracy"), text("Strongest attack"), number("Accuracy"), number("Floor"),
    number("Advantage"), number("AUC"), text("Proved, any attribute"), number("Label leak AUC")];
  const rows = page.attributes.points.map((point) => {
    const found = point.attributes[attribute];
    const proved = point.proved ? element("b", {}, point.proved_words) : point.proved_words;
    const figures = found ? [attackCell(found.strongest), cell(found.strongest.accuracy, 3, "b"), fixed(found.floor.mean),
      cell(plainZero(found.strongest.advantage)), cell(found.strongest.auc)] : ["not attacked", "–", "–", "–", "–"];
    return [point.name, cell(point.accuracy), ...figures, proved, isNone(point.label_leak.mean) ? "–" : cell(point.label_leak)];
  });
  return table(columns, rows);
}

function attackTable(attribute) {
  const { points } = page.attributes;
  const attacks = new Map();
  for (const point of points) {
    for (const attack of (point.attributes[attribute] || { attacks: [] }).attacks) attacks.set(attack.attack + " " + attack.examples, attack);
  }
  const columns = [text("Protection"), ...[...attacks.values()].map(({ title, examples }) => number(title + ", " + examples))];
  return table(columns, points.map((point) => [point.name, ...[...attacks.keys()].map((key) => {
    const found = (point.attributes[attribute] || { attacks: [] }).attacks.find((attack) => attack.attack + " " + attack.examples === key);
    return found ? cell(found.accuracy) : "–";
  })]));
}

// One chart of each thing that is alike but for the cut.
function drawCut(box, { title, points }, names) {
  const all = points.map((index) => page.attributes.points[index]);
  const line = (label, colour, dash, figure) => ({ label, borderColor: colour, backgroundColor: colour, borderDash: dash, borderWidth: 2.25,
    pointRadius: 4, clip: 8, data: all.map((point) => ({ x: names.indexOf(point.cut), spread: figure(point) }))
      .filter(({ spread }) => spread && !isNone(spread.mean)).map(({ x, spread }) => ({ x, y: spread.mean, ys: spread })) });
  const datasets = [line("labels, through the gradients", RUN_COLOURS[1], DASHES[1], (point) => point.label_leak),
    ...page.attributes.names.map((name, i) => line(name + ", through the activations", RUN_COLOURS[2 + i], DASHES[2 + (i % 2)],
      (point) => point.attributes[name] && point.attributes[name].strongest.auc)),
    line("test " + page.quality + " of the model", RUN_COLOURS[0], DASHES[0], (point) => point.quality)].filter((dataset) => dataset.data.length);
  if (!datasets.length) return;
  addChart(box, { title: title === "none" ? "No protection" : capital(title), note: "labels and attributes: lower is better; the model: higher is better",
    described: title + ". AUC against the cut layer.", keys: datasets.map((dataset) => key({ colour: dataset.borderColor, dash: dataset.borderDash }, dataset.label)) }, {
    type: "line",
    datasets,
    plugins: [guessingLines([{ y: 0.5, name: "guessing" }]), seedCrosses],
    padding: { right: 70 },
    scales: {
      x: { type: "linear", min: -0.3, max: names.length - 0.7, title: { display: true, text: "cut after layer" }, grid: { display: false },
        afterBuildTicks: (axis) => { axis.ticks = names.map((name, value) => ({ value })); }, ticks: { callback: (value) => names[value] } },
      y: { title: { display: true, text: "AUC" }, min: 0.4, max: 1, grid: { color: GRID }, ticks: { maxTicksLimit: 7 } },
    },
    tooltip: { callbacks: { title: (items) => (items.length ? "cut after " + names[items[0].parsed.x] : ""),
      label: (item) => item.dataset.label + ": " + spreadWords(item.raw.ys) } },
  });
}

function methodKeys() {
  return page.attributes.methods.map(({ kind, label }) => {
    const style = methodStyle(kind);
    return sampleKey(18, label, (ctx) => {
      Object.assign(ctx, { fillStyle: style.colour, strokeStyle: style.colour, lineWidth: 2 });
      Chart.helpers.drawPoint(ctx, { pointStyle: style.shape, radius: 6, borderWidth: 2, rotation: 0 }, 9, 9);
    });
  });
}

function drawOtherDirection() {
  const direction = page.attributes;
  if (!direction || !direction.cuts) removeSection("cuts");
  else direction.cuts.charts.forEach((chart) => drawCut(document.querySelector("#cuts .charts"), chart, direction.cuts.names));
  if (!direction || !direction.names.length) return removeSection("attributes");
  document.querySelector("#attributes .legend").append(...methodKeys());
  const more = byId("attributes-more");
  for (const attribute of direction.names) {
    drawAttribute(document.querySelector("#attributes .charts"), attribute, "Attribute: " + attribute, "the strongest attack · better: right and down",
      (found) => found.strongest);
    byId("attribute-table").append(element("h3", {}, "Attribute: " + attribute), attributeTable(attribute));
    more.querySelector(".panel").append(element("h3", {}, "Accuracy of each attack: " + attribute), attackTable(attribute));
  }
  return whenOpen(more, () => direction.names.forEach((attribute) => {
    const seen = new Map();
    for (const point of direction.points) {
      for (const attack of (point.attributes[attribute] || { attacks: [] }).attacks) seen.set(attack.attack + " " + attack.examples, attack);
    }
    for (const [place, attack] of seen) {
      drawAttribute(more.querySelector(".charts"), attribute, attribute + ": " + attack.title, attack.examples + " examples, " + attack.when,
        (found) => found.attacks.find((one) => one.attack + " " + one.examples === place));
    }
  }));
}
