// Puts the page of a table's profile together.
const percent = (share) => (100 * share).toFixed(1) + "%";
const formsOf = ({ forms }) => Object.entries(forms).map(([form, { rows, first_line: first, last_line: last }]) =>
  `${form} ${rows} (${first}–${last})`).join(", ");

function missingOf({ rows, missing }) {
  const words = Object.entries(missing.words), all = missing.empty + words.reduce((sum, [, count]) => sum + count, 0);
  const list = words.map(([word, count]) => `“${word}” ${count}`).join(", ");
  return percent(rows ? all / rows : 0) + (list ? ` (${list})` : "");
}

function bars({ histogram }) {
  if (!histogram) return "–";
  const most = Math.max(...histogram.shares), width = 4, height = 36;
  return svg("svg", { class: "bars", viewBox: `0 0 ${width * histogram.shares.length} ${height}`, preserveAspectRatio: "none",
    role: "img", "aria-label": `From ${short(histogram.from)} to ${short(histogram.to)}` },
  ...histogram.shares.map((share, i) => svg("rect", { x: width * i, y: height * (1 - share / most), width: width - 0.5,
    height: height * share / most })));
}

const quantile = (column, share) => (column.quantiles ? short(column.quantiles[share]) : "–");

byId("words").textContent = `${page.table}: ${page.rows} rows, ${page.columns.length} columns.`;
if (page.warnings.length) byId("warnings").querySelector("ul").append(...page.warnings.map((words) => element("li", {}, words)));
else removeSection("warnings");
byId("columns").append(table(
  [text("Column"), text("Kind"), text("Missing"), number("Distinct"), number("Least"), number("Median"), number("Greatest"), text("Bars"),
    text("Forms")],
  page.columns.map((column) => [breakable(column.name), column.kind, missingOf(column),
    (column.distinct_is_exact ? "" : "≈") + column.distinct, quantile(column, "0"), quantile(column, "0.5"), quantile(column, "1"),
    bars(column), formsOf(column)])));
