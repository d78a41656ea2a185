// Formats and elements of a page. Text enters the page through textContent only; every figure and sentence comes from
// the data.
"use strict";

const DARK = window.matchMedia("(prefers-color-scheme: dark)").matches;

// A colour means one thing: these a run (or a family of protections), and nothing else has them. Apart for the
// colour-blind (after Okabe and Ito, without their red and green), of enough contrast on the page's ground; the dash tells
// lines apart in grey.
const RUN_COLOURS = DARK ? ["#5cb0ea", "#f0a04b", "#d58ad2", "#9aa0ee", "#b9a685", "#8fd0f5", "#eb9fca", "#c3b2ea"]
  : ["#0067a5", "#c96a00", "#8e3a8b", "#2b2f77", "#7a6a4f", "#4d9fd6", "#d16ba5", "#a08bd0"];
const DASHES = [[], [9, 3], [4, 3], [12, 3, 3, 3]];
const styleOf = (i) => ({ colour: RUN_COLOURS[i % RUN_COLOURS.length],
  dash: DASHES[(i + Math.floor(i / RUN_COLOURS.length)) % DASHES.length] });
const ALARM = DARK ? "#ff7a85" : "#b00020";  // A failure or an alarm.
const CLASSES = [{ label: "negatives", colour: "#8b97a3", dash: [] }, { label: "positives", colour: DARK ? "#e4e9ee" : "#1c2733", dash: [6, 3] }];

const byId = (id) => document.getElementById(id);
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const isNone = (value) => value === null || value === undefined;
const fixed = (value, digits = 3) => (isNone(value) ? "–" : value.toFixed(digits));
// A bound on an AUC, rounded upwards as every text has it: less would promise too much.
const boundText = (value) => (isNone(value) ? "–" : fixed(Math.ceil(1000 * value - 0.05) / 1000));
const short = (value) => {
  if (isNone(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
};

const SVG = "http://www.w3.org/2000/svg";  // A name space: nothing is loaded from it.

function add(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) node.append(child);  // Strings become text nodes.
  return node;
}
const element = (tag, attributes = {}, ...children) => add(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => add(document.createElementNS(SVG, tag), attributes, children);

const MANY_COLUMNS = 7;  // More do not fit side by side on a middling screen.
// Words that no column breaks. Longer ones are names that somebody gave.
const LONGEST_WORD = 16;
const isOfWords = (node) => (node.nodeType === Node.TEXT_NODE ? node.data.split(/[\s\u200b]+/).every((word) => word.length <= LONGEST_WORD)
  : [...node.childNodes].every(isOfWords));

// columns: {head, name (on a narrow screen, where a row is a block of name and value), class}.
function table(columns, rows) {
  const head = columns.map((column) => element("th", { scope: "col", class: column.class || "" }, column.head));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => {
    const attributes = { class: columns[i].class || "" };
    if (i === 0) attributes.scope = "row";
    else attributes["data-name"] = columns[i].name || "";
    return element(i === 0 ? "th" : "td", attributes, cell);
  })));
  const whole = element("table", { class: columns.length > MANY_COLUMNS ? "stack many" : "stack" },
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  whole.querySelectorAll("th, td").forEach((cell) => cell.classList.toggle("words", isOfWords(cell)));
  return whole;
}
const text = (head) => ({ head, name: head });
const number = (head) => ({ head, name: head, class: "number" });

// A long name breaks there first.
const breakable = (name) => name.replace(/[,_(]/g, "$&\u200b");

// A line's sample and its name, for legends.
function key(run, name = run.label) {
  const line = svg("svg", { width: 30, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke: run.colour, "stroke-width": 3, "stroke-dasharray": run.dash.join(" ") }));
  return element("span", { class: "key" }, line, breakable(name));
}

const panel = (run, ...children) => element("div", { class: "panel" }, element("h3", {}, key(run)), ...children);
const removeSection = (id) => byId(id).remove();
const folded = (summary, ...children) => element("details", {}, element("summary", {}, summary), ...children);

// Draws what stands in a fold when it is opened first: a chart has no size before.
const whenOpen = (details, draw) => details.addEventListener("toggle", draw, { once: true });

// `value` with its interval in small print: as many digits as the interval's ends need to differ, three at least. A value
// that three digits would make nothing has them, too.
function withInterval([value, low, high]) {
  const width = isNone(low) || isNone(high) ? 0 : high - low;
  const digits = width > 0 ? Math.min(6, Math.max(3, Math.ceil(-Math.log10(width)))) : 3;
  const node = element("span", {}, fixed(value, value > 0 && value < 0.0005 ? digits : 3));
  if (width > 0) node.append(element("span", { class: "interval" }, fixed(low, digits) + "–" + fixed(high, digits)));
  return node;
}

const PILLS = { pass: "PASS", fail: "FAIL", open: "OPEN" };
const pill = (outcome) => element("span", { class: "pill " + outcome }, PILLS[outcome]);

// The bound's state: red where it is exceeded, else of no colour: no run shows that a bound holds.
const boundState = ({ bound, bound_words: words }) => element(bound === "exceeded" ? "b" : "span", { class: "bound-" + bound }, words);
const BOUND = "Bound, conditional unless proved";  // No bound stands without its condition.
const WORST_CASE = "Worst case measured, held against the bound";
const NOT_HELD = "ranks by features, too: not held against the bound";
