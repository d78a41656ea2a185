// Lays out the trade-offs. Text enters the page through textContent only; every figure comes from the data.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("tradeoff-data").textContent);
  let statistic = "p95";  // Or "mean".

  // As in the report: distinct to the colour-blind (after Okabe and Ito); the shape tells families apart in grey.
  const COLOURS = ["#2b2f77", "#8a6a00", "#0067a5", "#00795a", "#8e3a8b", "#c24a00", "#a3195b"];
  const SHAPES = ["star", "rectRot", "circle", "rect", "rectRounded", "triangle", "crossRot"];
  for (const family of data.families) {
    family.colour = COLOURS[family.kind % COLOURS.length];
    family.shape = SHAPES[family.kind % SHAPES.length];
  }

  const byId = (id) => document.getElementById(id);
  const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  const fixed = (value, digits) => (value === null ? "–" : value.toFixed(digits));
  const METRICS = {
    test_auc: { y: "best test AUC", note: "better: left and up" },
    test_log_loss: { y: "test log-loss (nats)", note: "better: left and down" },
  };

  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);  // Strings become text nodes.
    return node;
  }

  // ---- Charts -------------------------------------------------------------------------------------------------------
  const css = getComputedStyle(document.documentElement);
  const INK = css.getPropertyValue("--ink").trim(), QUIET = css.getPropertyValue("--quiet").trim();
  Object.assign(Chart.defaults, { animation: false, responsive: true, maintainAspectRatio: false, color: QUIET,
    devicePixelRatio: Math.max(2, window.devicePixelRatio || 1) });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  const charts = [];

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

  function datasetsOf(chart) {
    const place = (index) => {
      const point = data.points[index];
      const xs = point.leaks[chart.pair][statistic], ys = point[chart.metric];
      return { x: xs.mean, y: ys.mean, xs, ys, name: point.name, mark: point.mark, seeds: point.seeds,
        onFront: chart.front[statistic][index] };
    };
    const known = (point) => point.x !== null && point.y !== null;
    const lines = data.families.map((family) => {
      const points = family.points.map(place).filter(known);
      const strokeOnly = ["star", "crossRot"].includes(family.shape);
      return { family, label: family.label, data: points, showLine: true, borderColor: family.colour + "90", borderWidth: 1.5,
        pointStyle: family.shape, pointRadius: 5, pointHoverRadius: 7, pointBorderColor: family.colour,
        pointBorderWidth: strokeOnly ? 2.5 : 1.75, clip: false, order: 1,
        pointBackgroundColor: points.map((point) => (point.onFront ? family.colour : "#ffffff")) };
    });
    const front = data.points.map((point, index) => place(index)).filter((point) => known(point) && point.onFront)
      .sort((a, b) => a.x - b.x);
    lines.push({ label: "", data: front, showLine: true, stepped: "before", borderColor: "#9aa5b1", borderWidth: 1.25,
      borderDash: [4, 3], pointRadius: 0, pointHitRadius: 0, order: 2 });
    return lines.filter((line) => line.data.length);
  }

  const range = (spread, digits) => spread.min === spread.max ? "" : " (" + fixed(spread.min, digits) + "–" + fixed(spread.max, digits) + ")";

  function describe(item) {
    const { name, xs, ys, seeds } = item.raw;
    return [name + ", " + seeds + (seeds === 1 ? " seed" : " seeds"),
      "leak AUC " + fixed(xs.mean, 3) + range(xs, 3), item.chart.options.scales.y.title.text + " " + fixed(ys.mean, 4) + range(ys, 4)];
  }

  const leakAxis = () => "leak AUC (" + (statistic === "p95" ? "p95 over batches" : "mean over batches") + ")";

  function drawChart(box, spec) {
    const { layer, attack } = data.pairs[spec.pair];
    const metric = METRICS[spec.metric];
    const place = layer === "cut" ? "the cut layer" : "layer “" + layer + "”";
    const title = capital(attack) + " attack at " + place;
    const canvas = element("canvas", { role: "img", "aria-label": title + ": " + metric.y + " against leak AUC; the table below has the figures." });
    box.append(element("figure", {}, element("figcaption", {}, title, element("span", {}, metric.y + " · " + metric.note)),
      element("div", { class: "canvas-box" }, canvas)));
    return new Chart(canvas, {
      type: "scatter",
      data: { datasets: datasetsOf(spec) },
      plugins: [crosses, parameters],
      options: {
        layout: { padding: { right: 14, top: 6 } },
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: { title: { display: true, text: leakAxis() }, min: 0.5, max: 1, grid: { color: "#eceff2" }, ticks: { maxTicksLimit: 6, maxRotation: 0 } },
          y: { title: { display: true, text: metric.y }, grace: "6%", grid: { color: "#eceff2" }, ticks: { maxTicksLimit: 7 } },
        },
        plugins: { legend: { display: false },
          tooltip: { filter: (item) => item.dataset.family !== undefined, displayColors: false, callbacks: { title: () => "", label: describe } } },
      },
    });
  }

  function drawShapes() {
    const legend = document.querySelector(".legend");
    for (const family of data.families) {
      const canvas = element("canvas", { width: 36, height: 36, "aria-hidden": "true" });
      canvas.style.width = canvas.style.height = "18px";
      const ctx = canvas.getContext("2d");
      ctx.scale(2, 2);
      Object.assign(ctx, { fillStyle: family.colour, strokeStyle: family.colour, lineWidth: 2 });
      Chart.helpers.drawPoint(ctx, { pointStyle: family.shape, radius: 6, borderWidth: 2, rotation: 0 }, 9, 9);
      legend.append(element("span", { class: "key" }, canvas, family.label));
    }
  }

  // ---- Table --------------------------------------------------------------------------------------------------------
  function cell(spread, digits) {
    const node = element("span", {}, fixed(spread.mean, digits));
    if (spread.min !== spread.max) node.append(element("span", { class: "range" }, fixed(spread.min, digits) + "–" + fixed(spread.max, digits)));
    return node;
  }

  // One row a point, with the leaks of these `pairs` (indexes).
  function pointTable(pairs) {
    const number = (name, value) => ({ name, value, class: "number" });
    const columns = [{ name: "Protection", value: (point) => point.name }, number("Seeds", (point) => String(point.seeds)),
      number("Test AUC", (point) => cell(point.test_auc, 4)), number("Log-loss", (point) => cell(point.test_log_loss, 4)),
      ...pairs.map((i) => number(capital(data.pairs[i].layer) + " · " + data.pairs[i].attack + ", " + statistic,
        (point) => cell(point.leaks[i][statistic], 3))),
      number("Bound, p95", (point) => cell(point.auc_bound_p95, 3)), number("Remembered", (point) => cell(point.run_auc_bound, 3)),
      number("sumKL", (point) => cell(point.sum_kl_mean, 3))];
    const head = columns.map((column) => element("th", { scope: "col", class: column.class || "" }, column.name));
    const rows = data.points.map((point) => element("tr", {}, ...columns.map((column, i) => (i === 0
      ? element("th", { scope: "row" }, column.value(point))
      : element("td", { class: column.class, "data-name": column.name }, column.value(point))))));
    return element("table", { class: "stack" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  }

  const pairsOf = (specs) => [...new Set(specs.map((spec) => spec.pair))];

  function drawTables() {
    byId("point-table").replaceChildren(pointTable(pairsOf(first)));
    if (more.length) byId("more-table").replaceChildren(pointTable(pairsOf(more)));
  }

  // ---- Page ---------------------------------------------------------------------------------------------------------
  const first = data.charts.filter((spec) => spec.shown), more = data.charts.filter((spec) => !spec.shown);

  // What a check without eyes can read from the page. Each chart is looked at once, after it is drawn.
  const account = document.documentElement.dataset;
  let blankCharts = 0;
  const isBlank = (canvas) => !canvas.width || !canvas.height ||
    !canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value !== 0);
  function giveAccount() {
    const root = document.documentElement;
    Object.assign(account, { points: String(data.points.length), charts: String(charts.length), statistic,
      width: String(window.innerWidth), blankCharts: String(blankCharts),
      overflow: String(Math.max(0, root.scrollWidth - root.clientWidth)) });
  }

  function drawCharts(id, specs) {
    for (const spec of specs) {
      const chart = drawChart(byId(id), spec);
      charts.push({ spec, chart });
      if (isBlank(chart.canvas)) ++blankCharts;
    }
    giveAccount();
  }

  function show(chosen) {
    statistic = chosen;
    drawTables();
    for (const { spec, chart } of charts) {
      chart.data.datasets = datasetsOf(spec);
      chart.options.scales.x.title.text = leakAxis();
      chart.update();
    }
    giveAccount();
  }

  byId("words").textContent = data.words;
  drawShapes();
  drawTables();
  drawCharts("charts", first);
  if (!first.length) byId("tradeoffs").remove();
  if (!more.length) document.querySelectorAll(".more").forEach((fold) => fold.remove());
  // A chart has no size while its fold is closed.
  else byId("more").addEventListener("toggle", () => drawCharts("more-charts", more), { once: true });
  for (const input of document.querySelectorAll("input[name=statistic]")) {
    input.addEventListener("change", () => show(input.value));
  }
  window.addEventListener("beforeprint", () => charts.forEach(({ chart }) => chart.resize(330, 250)));
  window.addEventListener("afterprint", () => charts.forEach(({ chart }) => chart.resize()));
})();
