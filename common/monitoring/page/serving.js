// The page of a server that answers with a trained model, from the figures that it has for Prometheus.
const WINDOW_MILLIS = 60000;
const seen = [];  // {at, figures} of the latest minute, oldest first.

// Prometheus' text format: by name, each sample's labels and value.
function readMetrics(text) {
  const figures = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) || [];
    if (!name) continue;
    const named = {};
    for (const [, label, escaped] of (labels || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      named[label] = escaped.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    if (!figures.has(name)) figures.set(name, []);
    figures.get(name).push({ labels: named, value: value === "+Inf" ? Infinity : Number(value) });
  }
  return figures;
}

const samplesOf = (figures, name) => figures.get("splitveil_" + name) || [];
const sumOf = (figures, name, wanted = () => true) => samplesOf(figures, name).filter(({ labels }) => wanted(labels))
  .reduce((sum, { value }) => sum + value, 0);
const has = (figures, name) => figures.has("splitveil_" + name);

// Observations of a histogram since `before`, by the upper end of their bucket, each with all that are smaller.
function bucketsOf(figures, name, before) {
  const earlier = new Map((before ? samplesOf(before, name + "_bucket") : []).map(({ labels, value }) => [labels.le, value]));
  return samplesOf(figures, name + "_bucket").map(({ labels, value }) =>
    ({ end: labels.le === "+Inf" ? Infinity : Number(labels.le), count: value - (earlier.get(labels.le) || 0) }));
}

// As Prometheus' histogram_quantile has it: within a bucket evenly spread. NaN of nothing.
function quantile(share, buckets) {
  const all = buckets.length > 0 ? buckets[buckets.length - 1].count : 0;
  if (all === 0) return NaN;
  const i = buckets.findIndex(({ count }) => count >= share * all);
  if (i === buckets.length - 1) return i > 0 ? buckets[i - 1].end : NaN;  // Beyond the last end nothing is known.
  const [from, below] = i > 0 ? [buckets[i - 1].end, buckets[i - 1].count] : [0, 0];
  return from + (buckets[i].end - from) * (share * all - below) / (buckets[i].count - below);
}

const millis = (seconds) => (known(seconds) ? rate(1000 * seconds) + " ms" : "–");
const utc = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ") + " UTC";

// What has come since, with the figures of a server that was started again meanwhile left out.
function remember(figures) {
  const counted = (each) => sumOf(each, "requests_total") + sumOf(each, "live_requests_total");
  if (seen.length > 0 && counted(figures) < counted(seen[seen.length - 1].figures)) seen.length = 0;
  seen.push({ at: Date.now(), figures });
  while (seen.length > 1 && seen[1].at <= Date.now() - WINDOW_MILLIS) seen.shift();
  return seen[0];
}

function showAnswers(status, figures, earliest) {
  const own = has(figures, "version_rows") ? samplesOf(figures, "version_rows") : [];
  const name = status.role === "label_party" ? "requests_total" : "live_requests_total";
  const answered = (each) => sumOf(each, name, ({ code }) => code === "OK");
  const seconds = (Date.now() - earliest.at) / 1000;
  byId("answers-words").textContent = own.length === 0
    ? "There is no version that can be used yet: splitveil predict --store adds one; the log names one that does not fit." : "";
  showFigures(byId("answers-figures"), [
    ["requests answered", whole(answered(figures))],
    ["requests refused or failed", whole(sumOf(figures, name) - answered(figures))],
    seconds > 1 && ["answered per second, latest minute", rate((answered(figures) - answered(earliest.figures)) / seconds)],
    has(figures, "batch_rows_sum") && ["rows computed", whole(sumOf(figures, "batch_rows_sum"))],
    has(figures, "batch_rows_sum") && ["rows computed together, mean",
      rate(sumOf(figures, "batch_rows_sum") / Math.max(1, sumOf(figures, "batch_rows_count")))],
    has(figures, "waiting_rows") && ["rows waiting", whole(sumOf(figures, "waiting_rows"))],
    has(figures, "live_rows_total") && ["rows answered live", whole(sumOf(figures, "live_rows_total"))],
    ...certificateEnds(status),
  ]);
}

function showCodes(figures) {
  const rows = [["requests_total", "Callers"], ["live_requests_total", "Between the parties, live"]].flatMap(([name, whose]) =>
    samplesOf(figures, name).map(({ labels, value }) => [whose, labels.code, labels.version || "–", whole(value)]));
  byId("codes").replaceChildren(rows.length === 0 ? element("p", {}, "No request yet.")
    : table([text("Requests"), text("Code"), text("Version"), number("Number")], rows));
}

function showDurations(figures, earliest) {
  const kinds = [["request_seconds", "Request, from its arrival"], ["queue_seconds", "Of that, waiting"],
    ["compute_seconds", "A batch, computed"], ["live_request_seconds", "Live request between the parties"]];
  const rows = kinds.filter(([name]) => has(figures, name + "_count")).map(([name, words]) => {
    const [latest, all] = [bucketsOf(figures, name, earliest.figures), bucketsOf(figures, name)];
    return [words, millis(quantile(0.5, latest)), millis(quantile(0.99, latest)), millis(quantile(0.5, all)),
      millis(quantile(0.99, all))];
  });
  byId("durations").replaceChildren(table([text("Time"), number("Latest minute, p50"), number("Latest minute, p99"),
    number("Since the start, p50"), number("Since the start, p99")], rows));
}

function showVersions(figures) {
  const stored = new Map(samplesOf(figures, "version_stored_timestamp_seconds").map(({ labels, value }) => [labels.version, value]));
  const rows = samplesOf(figures, "version_rows").sort((a, b) => b.labels.version - a.labels.version).map(({ labels, value }) =>
    [labels.version, breakable(labels.model), whole(value), utc(stored.get(labels.version)),
      duration(Math.max(0, Date.now() / 1000 - stored.get(labels.version)))]);
  byId("versions").replaceChildren(rows.length === 0 ? element("p", {}, "None yet.")
    : table([text("Version"), text("Model"), number("Examples"), number("Stored"), number("Age")], rows));
}

// At the label party, where it asks live.
function showFallback(figures) {
  const [state] = samplesOf(figures, "live_fallback");
  byId("fallback").hidden = !state;
  if (!state) return;
  const gone = state.value > 0;
  byId("fallback-words").textContent = !gone ? "The other party answers."
    : "The other party did not answer the latest request: " + (state.labels.fallback === "STORED"
      ? "stored activations answer meanwhile." : "requests are refused meanwhile.");
  byId("fallback-words").className = gone ? "alarm" : "";
}

const reading = (index) => fixed(index) + (index >= 0.25 ? " shifted" : index >= 0.1 ? " moved" : "");
const DAYS = ["today", "yesterday"];

// A model's columns, those that moved most first; the latest day counts.
function driftTable(figures, model) {
  const of = (name) => samplesOf(figures, name).filter(({ labels }) => labels.model === model);
  const days = DAYS.filter((day) => of("drift_rows").some(({ labels }) => labels.day === day));
  const byDay = (samples) => new Map(samples.map(({ labels, value }) => [labels.day, value]));
  const columns = [...new Set(of("column_drift_psi").map(({ labels }) => labels.column))].sort().map((column) =>
    [column, byDay(of("column_drift_psi").filter(({ labels }) => labels.column === column))]);
  const size = (of_column) => of_column.get(days.find((day) => of_column.has(day)));
  columns.sort((a, b) => size(b[1]) - size(a[1]));
  const line = (name, values, write) => [breakable(name), ...days.map((day) => (values.has(day) ? write(values.get(day)) : "–"))];
  return table([text("Column"), ...days.map((day) => number(capital(day)))], [
    line("Rows asked for and found", byDay(of("drift_rows")), whole),
    ...(has(figures, "score_drift_psi") ? [line("Predictions", byDay(of("score_drift_psi")), reading)] : []),
    ...columns.map(([column, values]) => line(column, values, reading))]);
}

function showDrift(figures) {
  const models = [...new Set(samplesOf(figures, "drift_rows").map(({ labels }) => labels.model))].sort();
  byId("drift").replaceChildren(...(models.length === 0
    ? [element("div", { class: "panel padded" }, element("p", {}, "No row was asked for yet."))]
    : models.map((model) => element("div", { class: "panel" }, element("h3", {}, breakable(model)), driftTable(figures, model)))));
}

function showServing(status, metrics) {
  document.querySelectorAll("#training, dialog").forEach((node) => node.remove());  // Nothing of these can be done here.
  byId("serving").hidden = false;
  const figures = readMetrics(metrics);
  const earliest = remember(figures);
  showAnswers(status, figures, earliest);
  showCodes(figures);
  showDurations(figures, earliest);
  showVersions(figures);
  showFallback(figures);
  showDrift(figures);
}
