// How a chart looks: axes, curves, intervals, bounds and marks. The one chart script of all pages.
const css = getComputedStyle(document.documentElement);
const INK = css.getPropertyValue("--ink").trim(), QUIET = css.getPropertyValue("--quiet").trim();
const GRID = css.getPropertyValue("--grid").trim(), PANEL = css.getPropertyValue("--panel").trim();
Object.assign(Chart.defaults, { animation: false, responsive: true, maintainAspectRatio: false, color: QUIET,
  devicePixelRatio: Math.max(2, window.devicePixelRatio || 1) });
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
Chart.defaults.font.size = 12;
const charts = [];

// Small print on a chart, of which no curve covers a letter.
function annotate(ctx, words, x, y) {
  ctx.font = "11px " + Chart.defaults.font.family;
  ctx.strokeStyle = PANEL;
  ctx.lineWidth = 4;
  ctx.lineJoin = "round";
  ctx.setLineDash([]);
  ctx.strokeText(words, x, y);
  ctx.fillStyle = QUIET;
  ctx.fillText(words, x, y);
}

// From one point to another, [x, y] in pixels.
function drawLine(ctx, from, to, colour, dash = []) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}

// Across a chart, at a value of its y axis.
function drawLevel({ ctx, chartArea: area, scales }, value, colour, dash) {
  const y = scales.y.getPixelForValue(value);
  drawLine(ctx, [area.left, y], [area.right, y], colour, dash);
}

// Dashed lines at what guessing reaches, {y, name} in ascending order, with their names at the right end; the upper of two
// names above its line, the lower below, where there is room for it.
const guessingLines = (lines) => ({
  id: "guessingLines",
  beforeDatasetsDraw(chart) {
    chart.ctx.save();
    for (const { y: auc } of lines) drawLevel(chart, auc, INK, [2, 3]);
    chart.ctx.restore();
  },
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales } = chart;
    ctx.save();
    ctx.textAlign = "right";
    lines.forEach(({ y: auc, name }, i) => {
      const y = scales.y.getPixelForValue(auc), below = lines.length > 1 && !i;
      ctx.textBaseline = below ? "top" : "bottom";
      // Below the lower line there may be no room: then it stands further left, above it.
      if (below && y + 15 > area.bottom) {
        ctx.textBaseline = "bottom";
        annotate(ctx, name, area.right - 100, y - 2);
      } else annotate(ctx, name, area.right - 4, y + (below ? 3 : -2));
    });
    ctx.restore();
  },
});

// Of runs that differ, the largest: below it no attack tells anything. Ledgers that do not tell leave 0.5.
function guessingOf(rankings, ...figures) {
  const names = { guessing_mean: "guessing, mean", guessing: "guessing, p95" };
  const lines = figures.map((figure) => {
    const known = rankings.map((ranking) => ranking[figure]).filter((value) => !isNone(value));
    return known.length ? { y: Math.max(...known), name: names[figure] } : null;
  }).filter(Boolean);
  return lines.length ? lines : [{ y: 0.5, name: "guessing" }];
}

// The 95% intervals of datasets that have them, as bars.
const intervalBars = {
  id: "intervalBars",
  afterDatasetsDraw(chart) {
    const { ctx, scales } = chart;
    for (const dataset of chart.data.datasets.filter((candidate) => candidate.intervals)) {
      ctx.save();
      ctx.strokeStyle = dataset.borderColor;
      ctx.lineWidth = 1.5;
      dataset.intervals.forEach(([low, high], i) => {
        if (low === null || high === null) return;
        const x = scales.x.getPixelForValue(dataset.data[i].x);
        const [bottom, top] = [Math.max(low, scales.y.min), high].map((value) => scales.y.getPixelForValue(value));
        ctx.beginPath();
        ctx.moveTo(x, bottom);
        ctx.lineTo(x, top);
        for (const end of [bottom, top]) {
          ctx.moveTo(x - 3, end);
          ctx.lineTo(x + 3, end);
        }
        ctx.stroke();
      });
      ctx.restore();
    }
  },
};

const toPoints = (pairs) => pairs.map(([x, y]) => ({ x, y }));
const positive = (pairs) => pairs.filter(([, y]) => y > 0);

// The line of a curve, and under it its raw points. `keep` filters what the axis cannot show.
function curveDatasets(curve, label, style, keep = (pairs) => pairs) {
  const line = { label, data: toPoints(keep(curve.line)), borderColor: style.colour, backgroundColor: style.colour,
    borderWidth: 2.25, borderDash: style.dash, pointRadius: curve.line.length === 1 ? 4 : 0, pointHitRadius: 6, order: 1 };
  const points = { label: "", data: toPoints(keep(curve.points)), showLine: false, pointRadius: 1.3, pointHitRadius: 0,
    borderWidth: 0, backgroundColor: style.colour + "38", order: 2, raw: true };
  return points.data.length ? [line, points] : [line];
}

const superscript = (exponent) => String(exponent).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

function yScale(options) {
  const scaleOptions = { title: { display: true, text: options.y }, grid: { color: GRID }, min: options.min, max: options.max };
  if (options.logarithmic) {
    scaleOptions.type = "logarithmic";
    // Powers of ten; on an axis of less than two of them also twice and five times each.
    scaleOptions.ticks = { callback(value) {
      const exponent = Math.floor(Math.log10(value) + 1e-9);
      const leading = Math.round(value / 10 ** exponent);
      if (leading === 1) return "10" + superscript(exponent);
      return this.max / this.min < 100 && (leading === 2 || leading === 5) ? leading + "·10" + superscript(exponent) : null;
    } };
  } else {
    scaleOptions.ticks = { maxTicksLimit: 8 };
  }
  return scaleOptions;
}

// The end of the axis has a tick of its own, which would cover the one before it: a step 304 after 300.
function isCrowded(index, ticks) {
  const last = ticks.length - 1;
  return index === last && last > 1 && ticks[last].value - ticks[last - 1].value < 0.7 * (ticks[1].value - ticks[0].value);
}

function xTicks(options) {
  const ticks = { maxTicksLimit: 8, maxRotation: 0, callback(value, index, all) {
    return isCrowded(index, all) ? null : Chart.Ticks.formatters.numeric.call(this, value, index, all);
  } };
  if (options.wholeX) Object.assign(ticks, { precision: 0, callback: (value) => (Number.isInteger(value) ? String(value) : null) });
  return ticks;
}

// Red marks where an attack exceeds its bound; none without points.
const beyondMarks = (data) => (data.length ? [{ label: "exceeds its bound", data, showLine: false, pointStyle: "triangle",
  pointRadius: 7, pointHoverRadius: 8, backgroundColor: ALARM, borderColor: PANEL, borderWidth: 1.5, order: 0 }] : []);

function markKey(words) {
  const triangle = svg("svg", { width: 14, height: 12, "aria-hidden": "true" },
    svg("path", { d: "M7 0 L14 12 L0 12 Z", fill: ALARM }));
  return element("span", { class: "key alarm" }, triangle, words);
}

// A bound is dotted, of the colour of the run it is of.
const boundLine = (data, label, run) => ({ label, data, borderColor: run.colour, backgroundColor: run.colour,
  borderWidth: 1.5, borderDash: [1, 3], borderCapStyle: "round", pointRadius: 0, order: 3 });
const boundKey = (words) => key({ colour: QUIET, dash: [1, 3] }, words);

// A chart in a figure of its own in `box`; every chart is made here. `described`: for who does not see
// it. `keys`: of the chart's own legend, below it. The rest as Chart.js takes it.
function addChart(box, { title, note, described, keys = [] }, { type, datasets, plugins, padding, scales, tooltip }) {
  const canvas = element("canvas", { role: "img", "aria-label": described });
  const caption = element("figcaption", {}, title);
  if (note) caption.append(element("span", {}, note));
  const figure = element("figure", {}, caption, element("div", { class: "canvas-box" }, canvas));
  if (keys.length) figure.append(element("div", { class: "legend" }, ...keys));
  box.append(figure);
  charts.push(new Chart(canvas, { type, data: { datasets }, plugins,
    options: { layout: { padding }, interaction: { mode: "nearest", intersect: false }, scales,
      plugins: { legend: { display: false }, tooltip } } }));
}

// A line chart in the element `box`. options: title, note, x, y (axis titles with units), min, max, logarithmic, guessing
// (lines of guessingLines), wholeX, xMin, xMax. `keys`: as addChart's.
function drawChart(box, options, datasets, keys = []) {
  if (!datasets.some((dataset) => dataset.data.length)) return;
  addChart(box, { title: options.title, note: options.note, described: options.title + ". " + options.y + " against " + options.x + ".", keys }, {
    type: "line",
    datasets,
    plugins: options.guessing ? [guessingLines(options.guessing), intervalBars] : [intervalBars],
    padding: { right: 8 },
    scales: {
      x: { type: "linear", bounds: options.wholeX ? "ticks" : "data", title: { display: true, text: options.x }, grid: { display: false }, min: options.xMin,
        max: options.xMax, ticks: xTicks(options) },
      y: yScale(options),
    },
    tooltip: { filter: (item) => !item.dataset.raw, callbacks: {
      title: (items) => (items.length ? options.x + " " + short(items[0].parsed.x) : ""),
      label: (item) => item.dataset.label + ": " + short(item.parsed.y) } },
  });
}

// Paper is white: what was drawn for the dark keeps a dark ground there.
document.documentElement.classList.toggle("drawn-dark", DARK);

// On paper what is folded stays folded, and two charts stand beside each other on A4 or Letter, drawn for their printed
// size so that their text stays legible.
const printedHeight = () => parseFloat(css.getPropertyValue("--printed-chart-height"));
window.addEventListener("beforeprint", () => charts.forEach((chart) => chart.resize(330, printedHeight())));
window.addEventListener("afterprint", () => charts.forEach((chart) => chart.resize()));
