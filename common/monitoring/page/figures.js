// How the page of a running party writes its figures. Protobuf's JSON leaves out zeros, and has large integers and NaN as
// text.
const figure = (value) => (value === undefined ? 0 : Number(value));
const known = (value) => Number.isFinite(value);
const whole = (value) => figure(value).toLocaleString("en");

function duration(seconds) {
  const total = Math.round(seconds);
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60];
  const two = (value) => String(value).padStart(2, "0");
  return hours > 0 ? hours + " h " + two(minutes) + " min" : minutes > 0 ? minutes + " min " + two(total % 60) + " s" : total + " s";
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = figure(count), unit = 0;
  for (; value >= 999.5 && unit + 1 < units.length; ++unit) value /= 1000;
  return (unit === 0 ? value.toFixed(0) : value.toPrecision(3)) + " " + units[unit];
}

const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const spaced = (name) => capital(name.replaceAll("_", " "));

// As showFigures takes them.
const certificateEnds = (status) => (status.certificates || []).map(({ certificate, not_after }) =>
  [certificate + " certificate ends", new Date(1000 * figure(not_after)).toISOString().slice(0, 10)]);

// [name, value, class] as a list of figures.
function showFigures(list, entries) {
  list.replaceChildren(...entries.filter(Boolean).map(([name, value, kind]) =>
    element("div", {}, element("dt", {}, name), element("dd", { class: kind || "" }, value))));
}
