// The data, its formats and the elements of the page. Text enters the page through textContent only; every figure and
// sentence comes from the data.
"use strict";
const report = JSON.parse(document.getElementById("report-data").textContent);
const runs = report.runs;

// Distinct to the colour-blind (after Okabe and Ito) and dark enough on white; the dash tells lines apart in grey.
const COLOURS = ["#0067a5", "#c24a00", "#00795a", "#8e3a8b", "#5b5b5b", "#8a6a00", "#2b2f77", "#a3195b"];
const DASHES = [[], [9, 3], [4, 3], [12, 3, 3, 3]];
const styleOf = (i) => ({ colour: COLOURS[i % COLOURS.length],
  dash: DASHES[(i + Math.floor(i / COLOURS.length)) % DASHES.length] });
runs.forEach((run, i) => Object.assign(run, styleOf(i)));
const ALARM = "#b00020";

const byId = (id) => document.getElementById(id);
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const percent = (auc) => Math.round(100 * Math.max(auc, 1 - auc));
const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const short = (value) => {
  if (value === null || value === undefined) return "–";
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

function table(columns, rows, stacked = true) {
  const head = columns.map((column) => element("th", { scope: "col", class: column.class || "" }, column.head));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => {
    const attributes = { class: columns[i].class || "" };
    if (i === 0) attributes.scope = "row";
    else attributes["data-name"] = columns[i].name || "";
    return element(i === 0 ? "th" : "td", attributes, cell);
  })));
  return element("table", stacked ? { class: "stack" } : {},
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

// A line's sample and its name, for legends.
function key(run, text = run.label) {
  const line = svg("svg", { width: 30, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke: run.colour, "stroke-width": 3, "stroke-dasharray": run.dash.join(" ") }));
  return element("span", { class: "key" }, line, text);
}

const panel = (run, ...children) => element("div", { class: "panel" }, element("h3", {}, key(run)), ...children);
const removeSection = (id) => byId(id).remove();

// `value` with its interval in small print.
function withInterval([value, low, high], digits = 3, exposure = "") {
  const node = element("span", {}, exposure ? element("b", { class: exposure }, fixed(value, digits)) : fixed(value, digits));
  if (low !== null && high !== null) {
    node.append(element("span", { class: "interval" }, fixed(low, digits) + "–" + fixed(high, digits)));
  }
  return node;
}
