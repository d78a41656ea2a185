// Lays out the trade-offs. Every figure comes from the data. A colour is a family of protections, the shape tells families
// of one colour apart; frozen, which is no protection, has the grey of its dashed line.
const SHAPES = ["star", "rectRot", "circle", "rect", "rectRounded", "triangle", "crossRot"];
for (const family of page.families) {
  Object.assign(family, styleOf(family.kind), { shape: SHAPES[family.kind % SHAPES.length] });
  if (family.frozen) family.colour = QUIET;
  if (family.variant) family.colour = VARIANT;
}

const METRICS = {
  test_quality: { y: "best test " + page.quality, note: "better: left and up" },
  test_loss: { y: "test " + page.loss + (page.loss === "log loss" ? " (nats)" : ""), note: "better: left and down" },
};

// ---- Charts ---------------------------------------------------------------------------------------------------------
// From least to largest over the seeds, along both axes.
const crosses = {
  id: "crosses",
  beforeDatasetsDraw(chart) {
    const { ctx, scales, chartArea: area } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.left, area.top, area.width, area.height);
    ctx.clip();
    ctx.lineWidth = 1;
    for (const dataset of chart.data.datasets.filter((candidate) => candidate.family)) {
      ctx.strokeStyle = dataset.family.colour + "70";
      ctx.beginPath();
      for (const { x, y, xs, ys } of dataset.data) {
        ctx.moveTo(scales.x.getPixelForValue(xs.min), scales.y.getPixelForValue(y));
        ctx.lineTo(scales.x.getPixelForValue(xs.max), scales.y.getPixelForValue(y));
        ctx.moveTo(scales.x.getPixelForValue(x), scales.y.getPixelForValue(ys.min));
        ctx.lineTo(scales.x.getPixelForValue(x), scales.y.getPixelForValue(ys.max));
      }
      ctx.stroke();
    }
    ctx.restore();
  },
};

// What guessing reaches in one batch of twenty: left of it an attack tells nothing.
const known = page.points.map((point) => point.guessing.mean).filter((value) => value !== null);
const guessed = {
  id: "guessed",
  beforeDatasetsDraw(chart) {
    if (!known.length) return;
    const { ctx, chartArea: area, scales } = chart;
    const x = scales.x.getPixelForValue(Math.max(...known));
    ctx.save();
    ctx.strokeStyle = INK;
    ctx.setLineDash([2, 3]);
    ctx.beginPath();
    ctx.moveTo(x, area.top);
    ctx.lineTo(x, area.bottom);
    ctx.stroke();
    ctx.fillStyle = QUIET;
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.textBaseline = "bottom";
    ctx.fillText("guessing, p95", x + 4, area.bottom - 3);
    ctx.restore();
  },
};

// What the frozen bottom model reaches, where no gradient leaves: below it a protection is worse than no training.
const frozen = page.points.find((point) => point.frozen);
const floor = (metric) => ({
  id: "floor",
  beforeDatasetsDraw(chart) {
    if (!frozen || isNone(frozen[metric].mean)) return;
    const { ctx, chartArea: area, scales } = chart;
    const y = scales.y.getPixelForValue(frozen[metric].mean);
    ctx.save();
    ctx.strokeStyle = QUIET;
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(area.left, y);
    ctx.lineTo(area.right, y);
    ctx.stroke();
    ctx.fillStyle = QUIET;
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.textAlign = "right";
    ctx.textBaseline = y - area.top < 18 ? "top" : "bottom";
    ctx.fillText("frozen: no gradient leaves", area.right - 4, y + (y - area.top < 18 ? 3 : -3));
    ctx.restore();
  },
});

// Each point's parameter beside it, where it covers no other; those on the front first.
const parameters = {
  id: "parameters",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area } = chart;
    const places = [], taken = [];
    chart.data.datasets.forEach((dataset, i) => {
      if (!dataset.family) return;
      chart.getDatasetMeta(i).data.forEach((mark, j) => {
        taken.push({ x: mark.x - 4, y: mark.y - 4, width: 8, height: 8 });
        if (dataset.data[j].mark) places.push({ mark, point: dataset.data[j], colour: dataset.family.colour });
      });
    });
    places.sort((a, b) => b.point.onFront - a.point.onFront);
    const overlaps = (a) => taken.some((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height);
    ctx.save();
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.textBaseline = "top";
    for (const { mark, point, colour } of places) {
      const width = ctx.measureText(point.mark).width;
      const corners = [[6, -15], [6, 4], [-6 - width, -15], [-6 - width, 4]];
      const box = corners.map(([dx, dy]) => ({ x: mark.x + dx, y: mark.y + dy, width, height: 11 })).find((candidate) =>
        candidate.x >= area.left && candidate.x + width <= area.right && candidate.y >= area.top &&
        candidate.y + 11 <= area.bottom && !overlaps(candidate));
      if (!box) continue;
      taken.push(box);
      ctx.fillStyle = colour;
      ctx.fillText(point.mark, box.x, box.y);
    }
    ctx.restore();
  },
};

function datasetsOf(spec) {
  const place = (index) => {
    const point = page.points[index];
    const measured = spec.pair === null ? point.strongest.auc : point.leaks[spec.pair].p95, ys = point[spec.metric];
    const xs = point.frozen ? { mean: 0.5, min: 0.5, max: 0.5 } : measured;
    return { x: xs.mean, y: ys.mean, xs, ys, point, mark: point.mark, onFront: spec.front[index] };
  };
  const isKnown = ({ x, y }) => x !== null && y !== null;
  const lines = page.families.map((family) => {
    const points = family.points.map(place).filter(isKnown);
    const strokeOnly = ["star", "crossRot"].includes(family.shape);
    return { family, label: family.label, data: points, showLine: !family.variant, borderColor: family.colour + "90", borderWidth: 1.5,
      pointStyle: family.shape, pointRadius: 5, pointHoverRadius: 7, pointBorderWidth: strokeOnly ? 2.5 : 1.75, clip: false, order: 1,
      pointBorderColor: points.map(({ point }) => (point.bound === "exceeded" ? ALARM : family.colour)),
      pointBackgroundColor: points.map(({ onFront }) => (onFront ? family.colour : "#ffffff")) };
  });
  const front = page.points.map((point, index) => place(index)).filter((one) => isKnown(one) && one.onFront).sort((a, b) => a.x - b.x);
  lines.push({ label: "", data: front, showLine: true, stepped: "before", borderColor: "#9aa5b1", borderWidth: 1.25,
    borderDash: [4, 3], pointRadius: 0, pointHitRadius: 0, order: 2 });
  return lines.filter((line) => line.data.length);
}

const percent = (share) => (isNone(share) ? "–" : Math.round(100 * share) + "%");
// "83%, 71% to 92%".
const percents = (spread) => percent(spread.mean) +
  (percent(spread.min) === percent(spread.max) ? "" : ", " + percent(spread.min) + " to " + percent(spread.max));

const range = (spread, digits) => (spread.min === spread.max ? "" : " (" + fixed(spread.min, digits) + "–" + fixed(spread.max, digits) + ")");

function describe(item) {
  const { point, xs, ys } = item.raw;
  return [point.name + ", " + point.seeds + (point.seeds === 1 ? " seed" : " seeds"), "leak AUC " + fixed(xs.mean) + range(xs, 3),
    item.chart.options.scales.y.title.text + " " + fixed(ys.mean, 4) + range(ys, 4), "gain kept: " + percents(point.gain_kept),
    "strongest attack: " + (point.frozen ? "no gradient leaves" : point.strongest.title), BOUND.toLowerCase() + ": " + point.bound_words];
}

function drawTradeoff(box, spec) {
  const metric = METRICS[spec.metric], pair = spec.pair === null ? null : page.pairs[spec.pair];
  const title = pair ? pair.title : "The strongest attack on the gradients";
  const note = (pair ? pair.layer_name + " · " : "") + metric.y + " · " + metric.note;
  const { canvas } = addFigure(box, title, note, title + ": " + metric.y + " against leak AUC; the table below has the figures.");
  charts.push(new Chart(canvas, {
    type: "scatter",
    data: { datasets: datasetsOf(spec) },
    plugins: [guessed, floor(spec.metric), crosses, parameters],
    options: {
      layout: { padding: { right: 14, top: 6 } },
      interaction: { mode: "nearest", intersect: false },
      scales: {
        x: { title: { display: true, text: pair ? "leak AUC (p95 over batches)" : "leak AUC of the strongest attack on the gradients" }, min: 0.5, max: 1,
          grid: { color: "#eceff2" }, ticks: { maxTicksLimit: 6, maxRotation: 0 } },
        y: { title: { display: true, text: metric.y }, grace: "6%", grid: { color: "#eceff2" }, ticks: { maxTicksLimit: 7 } },
      },
      plugins: { legend: { display: false },
        tooltip: { filter: (item) => item.dataset.family !== undefined, displayColors: false, callbacks: { title: () => "", label: describe } } },
    },
  }));
}

function drawShapes() {
  const box = document.querySelector(".legend");
  const shape = (style, colour, outline, words) => {
    const canvas = element("canvas", { width: 36, height: 36, "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = "18px";
    const ctx = canvas.getContext("2d");
    ctx.scale(2, 2);
    Object.assign(ctx, { fillStyle: colour, strokeStyle: outline, lineWidth: 2 });
    Chart.helpers.drawPoint(ctx, { pointStyle: style, radius: 6, borderWidth: 2, rotation: 0 }, 9, 9);
    box.append(element("span", { class: "key" }, canvas, words));
  };
  for (const family of page.families) shape(family.shape, family.colour, family.colour, family.label);
  if (page.points.some((point) => point.bound === "exceeded")) shape("circle", "#ffffff", ALARM, "red outline: a bound is exceeded");
}

// ---- Tables ---------------------------------------------------------------------------------------------------------
function cell(spread, digits = 3, emphasis = "span") {
  const node = element("span", {}, element(emphasis, {}, fixed(spread.mean, digits)));
  if (spread.min !== spread.max) node.append(element("span", { class: "range" }, fixed(spread.min, digits) + "–" + fixed(spread.max, digits)));
  return node;
}

// A kind of attack: its AUC over the seeds, below it which attack.
function ranked({ title, layer_name: layerName, auc }) {
  if (auc.mean === null) return "–";
  return element("span", {}, cell(auc, 3, "b"), element("span", { class: "by" }, title + ", " + layerName.replace(/^the /, "")));
}

// The true positive rates of the strongest attack: at 1% false positives, below it at 0.1%.
function rates({ tpr_1pct: wide, tpr_01pct: narrow }) {
  if (isNone(wide.mean)) return "–";
  return element("span", {}, fixed(wide.mean), element("span", { class: "range" }, fixed(narrow.mean)));
}

// The share, over the seeds, and what it is a share of.
function keptCell({ gain_kept: share, frozen_quality: from, none_quality: to }) {
  if (isNone(from.mean)) return "–";
  const node = element("span", {}, element("b", {}, percent(share.mean)));
  if (percent(share.min) !== percent(share.max)) {
    node.append(element("span", { class: "range" }, percent(share.min) + " to " + percent(share.max)));
  }
  node.append(element("span", { class: "range of" }, "of " + fixed(from.mean, 4) + " to " + fixed(to.mean, 4)));
  return node;
}

// A bound that is printed as 1.000 is none.
const boundCell = (spread) => (spread.mean === null || spread.mean >= 0.9995 ? "–" : cell(spread));

// The three figures, and what they come to.
function standingTable() {
  const verdict = (point) => element("span", point.broken ? { class: "alarm" } : {}, point.verdict);
  const columns = [text("Protection"), text("Verdict"), number("Proved"), text("Worst case measured"), text("Practical")];
  return table(columns, page.points.map((point) => [point.name, verdict(point), boundCell(point.proved_auc_bound),
    ranked(point.worst_case), ranked(point.unaided)]));
}

function pointTable() {
  const apart = page.points.some((point) => point.no_gradient.auc.mean !== null);
  const columns = [text("Protection"), number("Seeds"), text("Without side inform\u00adation"), text("With side inform\u00adation"),
    number("TPR at 1%, 0.1% FPR"), number("Guessing, p95"), text(BOUND), number("Bound per run"), number("Bound per step"), number("Test " + page.quality), number("Gain kept"),
    number(page.loss.charAt(0).toUpperCase() + page.loss.slice(1)),
    ...(apart ? [text("Without any gradient")] : [])];
  return table(columns, page.points.map((point) => [point.name, String(point.seeds), ranked(point.unaided), ranked(point.aided),
    rates(point.strongest), fixed(point.guessing.mean), boundState(point), boundCell(point.run_auc_bound), boundCell(point.auc_bound_p95), cell(point.test_quality, 4),
    keptCell(point), cell(point.test_loss, 4), ...(apart ? [ranked(point.no_gradient)] : [])]));
}

// An attack a row, a protection a column: p95, below it the mean over the batches. So many protections side by side as a
// page is wide.
const COLUMNS = 6;

function attackTables() {
  const tables = [];
  for (let first = 0; first < page.points.length; first += COLUMNS) {
    const points = page.points.slice(first, first + COLUMNS);
    const columns = [text("Attack"), text("Layer"), ...points.map((point) => number(point.name))];
    tables.push(element("div", { class: "panel long" }, table(columns, page.pairs.map((pair, i) =>
      [element("span", {}, pair.title, element("span", { class: "by mono" }, pair.attack)), pair.layer_name.replace(/^the /, ""),
        ...points.map(({ leaks }) => element("span", {}, fixed(leaks[i].p95.mean), element("span", { class: "range" }, fixed(leaks[i].mean.mean))))]))));
  }
  return tables;
}

// ---- Page -----------------------------------------------------------------------------------------------------------
byId("words").textContent = page.words;
byId("gain").textContent = page.gain;
drawShapes();
byId("standing-table").append(standingTable());
byId("point-table").append(pointTable());
const ofStrongest = page.charts.filter((spec) => spec.pair === null), ofPairs = page.charts.filter((spec) => spec.pair !== null);
ofStrongest.forEach((spec) => drawTradeoff(byId("charts"), spec));
if (!ofStrongest.length) removeSection("tradeoffs");
if (!ofPairs.length) removeSection("more");
else {
  byId("more-tables").append(...attackTables());
  whenOpen(byId("more"), () => ofPairs.forEach((spec) => drawTradeoff(byId("more-charts"), spec)));
}
drawOtherDirection();
charts.forEach((chart) => chart.resize());  // The scroll bar came after the first of them were drawn.
