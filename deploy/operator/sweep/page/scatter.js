// What the charts of a sweep share: spreads over the seeds, lines with names, names beside marks, one scatter chart.
const isOverlapping = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

// Around each mark of the datasets that have a label (others only lead the eye), `radius` to all sides.
const markBoxes = (chart, radius) => chart.data.datasets.flatMap((dataset, i) => (dataset.label
  ? chart.getDatasetMeta(i).data.map(({ x, y }) => ({ x: x - radius, y: y - radius, width: 2 * radius, height: 2 * radius })) : []));

// From the least to the largest over the seeds: along y, and along x where a point has xs.
const seedCrosses = {
  id: "seedCrosses",
  beforeDatasetsDraw(chart) {
    const { ctx, scales, chartArea: area } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.left, area.top, area.width, area.height);
    ctx.clip();
    for (const dataset of chart.data.datasets.filter((candidate) => candidate.label)) {
      const colour = (dataset.colour || dataset.borderColor) + "80";
      for (const { x, y, xs, ys } of dataset.data) {
        const at = (a, b) => [scales.x.getPixelForValue(a), scales.y.getPixelForValue(b)];
        if (xs) drawLine(ctx, at(xs.min, y), at(xs.max, y), colour);
        drawLine(ctx, at(x, ys.min), at(x, ys.max), colour);
      }
    }
    ctx.restore();
  },
};

// Each of `marks` ({x, y, gap, words, colour}) with its words beside it, `gap` pixels away, in the order given and where
// they cover neither a mark nor what is `taken`.
function nameMarks({ ctx, chartArea: area }, marks, taken) {
  ctx.save();
  ctx.font = "11px " + Chart.defaults.font.family;
  ctx.textBaseline = "top";
  for (const { x, y, gap, words, colour } of marks) {
    const width = ctx.measureText(words).width;
    const corners = [[gap, -15], [gap, 4], [-gap - width, -15], [-gap - width, 4], [-width / 2, -11 - gap], [-width / 2, gap]];
    const place = corners.map(([dx, dy]) => ({ x: x + dx, y: y + dy, width, height: 11 })).find((candidate) =>
      candidate.x >= area.left && candidate.x + width <= area.right && candidate.y >= area.top &&
      candidate.y + 11 <= area.bottom && !taken.some((one) => isOverlapping(candidate, one)));
    if (!place) continue;
    taken.push(place);
    ctx.fillStyle = colour;
    ctx.fillText(words, place.x, place.y);
  }
  ctx.restore();
}

// A legend's entry whose sample `draw` draws on `size` by `size` pixels.
function sampleKey(size, words, draw) {
  const canvas = element("canvas", { width: 2 * size, height: 2 * size, "aria-hidden": "true" });
  canvas.style.width = canvas.style.height = size + "px";
  const ctx = canvas.getContext("2d");
  ctx.scale(2, 2);
  draw(ctx);
  return element("span", { class: "key" }, canvas, words);
}

// A mean, with the range over the seeds where they differ: "0.731 (0.720–0.744)".
const spreadWords = (spread, digits = 3) => fixed(spread.mean, digits) +
  (spread.min === spread.max ? "" : " (" + fixed(spread.min, digits) + "–" + fixed(spread.max, digits) + ")");
const seedWords = (point) => point.name + ", " + point.seeds + (point.seeds === 1 ? " seed" : " seeds");

// `x`, `y`: an axis as Chart.js takes it, with its title as `words`. `label`: the lines that a pointer on a point shows.
function drawScatter(box, caption, { datasets, plugins, x, y, label }) {
  const axis = ({ words, ...more }, ticks) => ({ title: { display: true, text: words }, grid: { color: GRID }, ticks, ...more });
  addChart(box, caption, { type: "scatter", datasets, plugins, padding: { right: 14, top: 6 },
    scales: { x: axis(x, { maxTicksLimit: 6, maxRotation: 0 }), y: axis(y, { maxTicksLimit: 7 }) },
    tooltip: { filter: (item) => Boolean(item.dataset.label), displayColors: false, callbacks: { title: () => "", label } } });
}
