// Lays out the trade-offs. Every figure comes from the data. A colour is a family of protections, the shape tells families
// of one colour apart; frozen, which is no protection, has the grey of its dashed line.
const polygon = (corners, turn, inner = 1) => Array.from({ length: inner < 1 ? 2 * corners : corners }, (unused, i) => {
  const angle = turn + (2 * Math.PI * i) / (inner < 1 ? 2 * corners : corners) - Math.PI / 2, radius = inner < 1 && i % 2 ? inner : 1;
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
});
const box = (width, height) => [[-width, -height], [width, -height], [width, height], [-width, height]];
const plus = [[-0.36, -1], [0.36, -1], [0.36, -0.36], [1, -0.36], [1, 0.36], [0.36, 0.36], [0.36, 1], [-0.36, 1], [-0.36, 0.36],
  [-1, 0.36], [-1, -0.36], [-0.36, -0.36]];
const turned = (corners) => corners.map(([x, y]) => [(x - y) * Math.SQRT1_2, (x + y) * Math.SQRT1_2]);
// Corners around a centre, of about the area of a circle of radius 1. All can be filled; one for every family there is.
const SHAPES = [polygon(5, 0, 0.45), box(0.85, 0.85), polygon(40, 0), turned(box(0.85, 0.85)), polygon(3, 0), polygon(3, Math.PI), plus,
  turned(plus), polygon(3, Math.PI / 2), polygon(3, -Math.PI / 2), polygon(4, 0, 0.4), polygon(6, 0), box(1.05, 0.5), box(0.5, 1.05),
  polygon(5, Math.PI), [[-0.85, -0.9], [0.85, -0.9], [-0.85, 0.9], [0.85, 0.9]], polygon(8, Math.PI / 8)];
const RADIUS = 5.5;

function drawShape(ctx, shape, x, y, colour, filled) {
  ctx.beginPath();
  shape.forEach(([dx, dy], i) => ctx[i ? "lineTo" : "moveTo"](x + RADIUS * dx, y + RADIUS * dy));
  ctx.closePath();
  Object.assign(ctx, { fillStyle: filled ? colour : PANEL, strokeStyle: colour, lineWidth: 1.75, lineJoin: "round" });
  ctx.fill();
  ctx.stroke();
}

function drawRing(ctx, x, y) {
  ctx.beginPath();
  ctx.arc(x, y, RADIUS + 4, 0, 2 * Math.PI);
  Object.assign(ctx, { strokeStyle: ALARM, lineWidth: 1.75 });
  ctx.stroke();
}

for (const family of page.families) {
  Object.assign(family, styleOf(family.kind), { shape: SHAPES[family.kind % SHAPES.length] });
  if (family.frozen) family.colour = QUIET;
  if (family.variant) family.colour = VARIANT;
}

const METRICS = {
  test_quality: { y: "best test " + page.quality, note: "better: left and up" },
  test_loss: { y: "test " + page.loss + (page.loss === "log loss" ? " (nats)" : " (in the target's unit)"), note: "better: left and down" },
};

// ---- Charts ---------------------------------------------------------------------------------------------------------
// The marks: filled on the front, with a red ring where a bound is exceeded.
const marks = {
  id: "marks",
  afterDatasetsDraw(chart) {
    const { ctx } = chart;
    ctx.save();
    ctx.setLineDash([]);
    chart.data.datasets.forEach(({ family, data }, i) => {
      if (!family) return;
      chart.getDatasetMeta(i).data.forEach(({ x, y }, j) => {
        drawShape(ctx, family.shape, x, y, family.colour, data[j].onFront);
        if (data[j].point.bound === "exceeded") drawRing(ctx, x, y);
      });
    });
    ctx.restore();
  },
};

// What guessing reaches in one batch of twenty: left of it an attack tells nothing.
const known = page.points.map((point) => point.guessing.mean).filter((value) => value !== null);
const guessed = {
  id: "guessed",
  beforeDatasetsDraw(chart) {
    if (!known.length) return;
    const { ctx, chartArea: area, scales } = chart, x = scales.x.getPixelForValue(Math.max(...known));
    ctx.save();
    drawLine(ctx, [x, area.top], [x, area.bottom], INK, [2, 3]);
    ctx.textBaseline = "bottom";
    annotate(ctx, "guessing, p95", x + 4, area.bottom - 3);
    ctx.restore();
  },
};

// What the frozen bottom model reaches, where no gradient leaves: below it a protection is worse than no training.
const frozen = page.points.find((point) => point.frozen);
const floor = (metric) => ({
  id: "floor",
  beforeDatasetsDraw(chart) {
    if (!frozen || isNone(frozen[metric].mean)) return;
    chart.ctx.save();
    drawLevel(chart, frozen[metric].mean, QUIET, [6, 4]);
    chart.ctx.restore();
  },
  // Beside its line, where it covers no mark.
  afterDatasetsDraw(chart) {
    chart.floorBox = null;
    if (!frozen || isNone(frozen[metric].mean)) return;
    const { ctx, chartArea: area, scales } = chart, words = "frozen: no gradient leaves";
    const y = scales.y.getPixelForValue(frozen[metric].mean);
    ctx.save();
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.textBaseline = "top";
    const width = ctx.measureText(words).width;
    const places = [y - 15, y + 4].flatMap((top) => [area.right - 4 - width, (area.left + area.right - width) / 2, area.left + 60]
      .map((left) => ({ x: left, y: top, width, height: 11 })));
    const isFree = (place) => place.y >= area.top && place.y + 11 <= area.bottom &&
      !markBoxes(chart, RADIUS).some((mark) => isOverlapping(mark, place));
    chart.floorBox = places.find(isFree) || places[0];
    annotate(ctx, words, chart.floorBox.x, chart.floorBox.y);
    ctx.restore();
  },
});

// Each point's parameter beside it, where it covers no other; those on the front first.
const parameters = {
  id: "parameters",
  afterDatasetsDraw(chart) {
    const named = chart.data.datasets.flatMap((dataset, i) => (dataset.family ? chart.getDatasetMeta(i).data.map(({ x, y }, j) => {
      const point = dataset.data[j];
      return { x, y, gap: point.point.bound === "exceeded" ? 11 : 8, words: point.mark, colour: dataset.family.colour, onFront: point.onFront };
    }) : [])).filter(({ words }) => words);  // The gap: clear of its ring.
    named.sort((a, b) => b.onFront - a.onFront);
    nameMarks(chart, named, [...markBoxes(chart, RADIUS), ...(chart.floorBox ? [chart.floorBox] : [])]);
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
    // The marks are drawn by the plugin `marks`; these are what a pointer hits.
    return { family, colour: family.colour, label: family.label, data: points, showLine: !family.variant, borderColor: family.colour + "90", borderWidth: 1.5,
      pointStyle: "circle", pointRadius: RADIUS, pointHoverRadius: RADIUS, pointBorderColor: "transparent",
      pointBackgroundColor: "transparent", clip: false, order: 1 };
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

function describe(item) {
  const { point, xs, ys } = item.raw;
  return [seedWords(point), "leak AUC " + spreadWords(xs), item.chart.options.scales.y.title.text + " " + spreadWords(ys),
    "gain kept: " + percents(point.gain_kept), "strongest attack: " + (point.frozen ? "no gradient leaves" : point.strongest.title),
    BOUND.toLowerCase() + ": " + point.bound_words];
}

function drawTradeoff(box, spec) {
  const metric = METRICS[spec.metric], pair = spec.pair === null ? null : page.pairs[spec.pair];
  const title = pair ? pair.title : "The strongest attack on the gradients";
  const note = (pair ? pair.layer_name + " · " : "") + metric.y + " · " + metric.note;
  drawScatter(box, { title, note, described: title + ": " + metric.y + " against leak AUC; the table below has the figures." }, {
    datasets: datasetsOf(spec),
    plugins: [guessed, seedCrosses, marks, floor(spec.metric), parameters],
    x: { words: pair ? "leak AUC (p95 over batches)" : "leak AUC of the strongest attack on the gradients", min: 0.5, max: 1 },
    y: { words: metric.y, grace: "6%" },
    label: describe,
  });
}

function drawShapes() {
  const sample = (words, draw) => document.querySelector(".legend").append(sampleKey(22, words, draw));
  for (const family of page.families) sample(family.label, (ctx) => drawShape(ctx, family.shape, 11, 11, family.colour, true));
  if (page.points.some((point) => point.bound === "exceeded")) sample("red ring: a bound is exceeded", (ctx) => drawRing(ctx, 11, 11));
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
  node.append(element("span", { class: "range of" }, "of " + fixed(from.mean) + " to " + fixed(to.mean)));
  return node;
}

// A bound that is printed as 1.000 is none.
const boundCell = (spread) => (spread.mean === null || spread.mean >= 0.9995 ? "–" : cell(spread));

// What protections are ranked by; the three figures, and what they come to.
function standingTable() {
  const strongest = (point) => {
    const node = element("span", {}, ranked(point.strongest));
    const { proved_auc_bound: proved, strongest: { auc, held_against_bound: isHeld } } = point;
    if (!isNone(proved.mean) && auc.mean > proved.mean && !point.broken && !isHeld) node.append(element("span", { class: "by" }, NOT_HELD));
    return node;
  };
  const verdict = (point) => element("span", point.broken ? { class: "alarm" } : {}, point.verdict);
  const columns = [text("Protection"), text("Strongest on gradients"), text(BOUND), text("Verdict"), text("Proved"), text(WORST_CASE), text("Practical")];
  return table(columns, page.points.map((point) => [breakable(point.name), strongest(point), boundState(point), verdict(point),
    boundCell(point.proved_auc_bound), ranked(point.worst_case), ranked(point.practical)]));
}

function pointTable() {
  const apart = page.points.some((point) => point.no_gradient.auc.mean !== null);
  const columns = [text("Protection"), number("Seeds"), text("Strongest on gradients"), number("TPR at 1%, 0.1% FPR"), text(BOUND),
    text("With side inform\u00adation"), number("Guess\u00ading"), number("Bound per run"), number("Bound per step"), number("Test " + page.quality), number("Gain kept"),
    number(page.loss.charAt(0).toUpperCase() + page.loss.slice(1)),
    ...(apart ? [text("Without any gradient")] : [])];
  return table(columns, page.points.map((point) => [breakable(point.name), String(point.seeds), ranked(point.strongest),
    rates(point.strongest), boundState(point), ranked(point.with_side_information), fixed(point.guessing.mean), boundCell(point.run_auc_bound), boundCell(point.auc_bound_p95), cell(point.test_quality),
    keptCell(point), cell(point.test_loss), ...(apart ? [ranked(point.no_gradient)] : [])]));
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
