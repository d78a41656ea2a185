// Where the time of a step went: a bar a party and run, its phases one after another.
const PHASE_COLOURS = { data: "#8a6a00", forward: "#0067a5", backward: "#2b2f77", update: "#00795a", protection: "#c24a00",
  audit: "#8e3a8b", serialise: "#e0b000", wire: "#7db7dd", wait: "#c9ced4" };

function phaseKey({ name, words }) {
  const box = svg("svg", { width: 14, height: 12, "aria-hidden": "true" },
    svg("rect", { width: 14, height: 12, fill: PHASE_COLOURS[name] }));
  return element("span", { class: "key" }, box, name + ": " + words);
}

function drawTimeBars(bars, note) {
  const caption = element("figcaption", {}, "Milliseconds a step", element("span", {}, note));
  const canvas = element("canvas", { role: "img", "aria-label": "Milliseconds a step, by phase, of each party. " +
    bars.map((bar) => bar.words).join(" ") });
  byId("times").querySelector(".charts").append(element("figure", {}, caption, element("div", { class: "canvas-box" }, canvas)));
  charts.push(new Chart(canvas, {
    type: "bar",
    data: {
      labels: bars.map((bar) => bar.label),
      datasets: report.phases.map(({ name }, i) => ({ label: name, data: bars.map((bar) => bar.phases[i]),
        backgroundColor: PHASE_COLOURS[name], maxBarThickness: 38 })),
    },
    options: {
      indexAxis: "y",
      layout: { padding: { right: 8 } },
      scales: {
        x: { stacked: true, title: { display: true, text: "milliseconds a step (mean over the steps)" }, grid: { color: "#eceff2" },
          ticks: { maxTicksLimit: 8, maxRotation: 0 } },
        y: { stacked: true, grid: { display: false }, ticks: { autoSkip: false } },
      },
      plugins: {
        legend: { display: false },
        tooltip: { callbacks: { label: (item) => item.dataset.label + ": " + short(item.parsed.x) + " ms" } },
      },
    },
  }));
}

function drawTimes() {
  const timed = runs.filter((run) => run.times.length);
  const several = timed.length > 1;
  for (const run of timed) {
    byId("time-words").append(element("li", {}, (several ? capital(run.label) + ": " : "") +
      run.times.map((party) => party.words).join(" ")));
  }
  // A run's name is long: it stands above its own chart, where there are several.
  for (const run of timed) {
    drawTimeBars(run.times.map((party) => ({ label: party.role.split(" "), phases: party.phases, words: party.words })),
      several ? run.label : "both parties of the run");
  }
  return timed.length > 0;
}
