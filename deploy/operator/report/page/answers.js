// The first screen: per run one sentence, one picture and a few figures; then what the features reveal anyway.
const runs = page.runs;
runs.forEach((run, i) => Object.assign(run, styleOf(i)));

const percent = (part) => (100 * Math.min(1, Math.max(0, part))).toFixed(2) + "%";
// A shape at a part of the scale's width, drawn around its own zero, `down` pixels below the track.
const at = (part, shapes, down = 0) => svg("svg", { x: percent(part), y: "50%", overflow: "visible" },
  svg("g", { transform: "translate(0 " + down + ")" }, ...shapes));

// How a mark looks, on the scale and beside its words.
const MARKS = {
  guessing: (colour) => [svg("line", { y1: -11, y2: 11, stroke: colour, class: "guess" })],
  practical: (colour) => [svg("circle", { r: 5, stroke: colour, class: "hollow" })],
  worst: (colour) => [svg("path", { d: "M0 -7 L7 0 L0 7 L-7 0 Z", fill: colour, class: "worst" })],
  proved: (colour) => [svg("line", { y1: -14, y2: 14, stroke: colour, "stroke-width": 3.5 })],
  conditional: (colour) => [svg("line", { y1: -14, y2: 14, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": "4 3" })],
};

const keyOf = (shapes, words) => element("span", { class: "key" }, svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
  ...shapes.map((shape) => shape.cloneNode(true))), words);

// A horizontal scale: names at its ends, shapes on it, keys below.
function picture(title, ends, shapes, keys) {
  return element("div", { class: "picture" },
    element("div", { class: "ends" }, element("span", {}, ends[0]), element("b", {}, title), element("span", {}, ends[1])),
    svg("svg", { class: "scale", role: "img", "aria-label": title }, svg("line", { x1: "0%", x2: "100%", y1: "50%", y2: "50%", class: "track" }), ...shapes),
    ...(keys.length ? [element("div", { class: "legend" }, ...keys)] : []));
}

// Attacks are drawn above and below the track, and limits across all of it: marks of one value hide none of each other.
const LANES = { practical: -8, worst: 8 };

// From guessing to every label known. What the limit allows is thick: promised if it is proved.
function leakPicture({ answer: { marks }, colour }) {
  if (!marks.length) return [];
  const part = ({ auc }) => (auc - 0.5) / 0.5;
  const proved = marks.find(({ kind }) => kind === "proved");
  const allowed = proved ? [svg("line", { x1: "0%", x2: percent(part(proved)), y1: "50%", y2: "50%", stroke: colour, class: "allowed" })] : [];
  return [picture("certainty about a label", ["50% guessing", "100%"],
    [...allowed, ...marks.flatMap(({ interval }) => (interval ? [intervalOf(interval.map((auc) => part({ auc })), colour)] : [])),
      ...[...marks].sort((a, b) => (a.kind in LANES) - (b.kind in LANES)).map((mark) => at(part(mark), MARKS[mark.kind](colour), LANES[mark.kind]))], marks.map(({ kind, words }) => keyOf(MARKS[kind](colour), words)))];
}

// How far chance may have moved the worst attack.
const intervalOf = (ends, colour) => svg("svg", { y: LANES.worst, overflow: "visible" }, svg("line", {
  x1: percent(ends[0]), x2: percent(ends[1]), y1: "50%", y2: "50%", stroke: colour, class: "interval-line" }));

// From a model that knows nothing to one trained without protection, with room for a run beyond either.
function pricePicture({ answer: { price }, colour }) {
  if (!price) return [];
  const { start, start_words: startWords, untrained, unprotected, value, name, words } = price;
  const all = [start, untrained, unprotected, value];
  const ends = [Math.min(...all), Math.max(...all)];
  const part = (quality) => (ends[1] > ends[0] ? (quality - ends[0]) / (ends[1] - ends[0]) : 0.5);
  const MODELS = {
    untrained: [svg("line", { y1: -11, y2: 11, class: "guess" })],
    value: [svg("circle", { r: 6, fill: colour })],
  };
  return [picture(name + (words ? ": " + words : ""),
    [short(ends[0]) + (ends[0] === start ? " " + startWords : ""), (ends[1] === unprotected ? "no protection " : "") + fixed(ends[1])],
    [svg("line", { x1: "0%", x2: percent(part(value)), y1: "50%", y2: "50%", stroke: colour, class: "allowed" }),
      at(part(untrained), MODELS.untrained), at(part(value), MODELS.value)],
    [keyOf(MODELS.untrained, "untrained bottom model " + fixed(untrained)), keyOf(MODELS.value, "this run " + fixed(value))])];
}

function figures({ answer }) {
  return element("dl", { class: "figures" }, ...answer.figures.map(({ name, value, note }) => element("div", {},
    element("dt", {}, name + (note ? ", " : ""), ...(note ? [element("span", { class: "by" }, note)] : [])),
    element("dd", {}, value))));
}

const list = (kind, sentences) => element("ul", { class: kind }, ...sentences.map((words) => element("li", {}, words)));

const EXCESSES_SHOWN = 2;  // Of a run; the table of attacks marks all.

function more(run) {
  const { excesses, details, remedy } = run;
  const hidden = excesses.length - EXCESSES_SHOWN;
  const shown = excesses.slice(0, EXCESSES_SHOWN);
  if (hidden > 0) shown.push(hidden + (hidden === 1 ? " more attack exceeds its bound" : " more attacks exceed their bound") + "; the table of attacks marks them.");
  return folded(excesses.length ? "Which attacks exceed the limit, and what helps" : "Why, and what helps",
    element("p", { class: "run-id" }, (run.id === run.label ? "" : "run " + run.id + " · ") + run.status),
    ...(shown.length ? [list("alarm", shown)] : []), list("", details),
    ...(remedy ? [element("p", { class: "remedy" }, element("b", {}, "What helps: "), remedy)] : []));
}

function card(run) {
  const { answer } = run;
  const pictures = [...leakPicture(run), ...pricePicture(run)];
  const node = element("article", { class: "card answer" + (pictures.length ? "" : " plain") },
    element("div", { class: "says" }, element("h3", {}, element("span", {}, breakable(run.label)),
      element("span", { class: "pill " + answer.tone }, answer.headline)),
      element("p", { class: "sentence" }, answer.sentence), figures(run)),
    ...(pictures.length ? [element("div", { class: "pictures" }, ...pictures)] : []),
    ...policyParts(run), more(run));
  node.style.setProperty("--run", run.colour);
  return node;
}

const CARDS_SHOWN = 6;

// What may be promised comes first; a run that sent no gradient is there to be compared with: last.
const place = ({ answer }) => (answer.tone === "good" ? 0 : answer.marks.length ? 1 : 2);

function drawAnswers() {
  byId("answer-words").append(...(page.audit ? [pill(page.audit.outcome), " ", capital(page.audit.words) + ". "] : []), page.answer);
  const cards = [...runs].sort((a, b) => place(a) - place(b)).map(card);
  byId("answers").append(...cards.slice(0, CARDS_SHOWN));
  if (cards.length > CARDS_SHOWN) byId("answers").append(folded((cards.length - CARDS_SHOWN) + " more runs", ...cards.slice(CARDS_SHOWN)));
}

function drawFeatures() {
  const known = runs.filter((run) => run.features);
  if (!known.length) return removeSection("features");
  const cell = (attack) => (attack ? element("span", {}, element("b", {}, attack.certainty), element("span", { class: "by" }, attack.title)) : "–");
  const columns = [text("Run"), text("Without any gradient"), text("With the gradients, ranking by features too")];
  const shown = known.some(({ features }) => features.with_gradient) ? 3 : 2;
  return byId("features-table").append(table(columns.slice(0, shown), known.map((run) => [key(run),
    cell(run.features.without_gradient), cell(run.features.with_gradient)].slice(0, shown))));
}
