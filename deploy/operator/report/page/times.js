// Where the time of a step went: a row per phase, a column per party.
function timeTable(run) {
  const columns = [text("Phase"), ...run.times.map((party) => text(capital(party.role)))];
  const rows = page.phases.map(({ name, words }, i) => [
    element("span", {}, capital(name), element("span", { class: "by" }, words)),
    ...run.times.map((party) => {
      const share = party.phases[i] / party.step;
      const bar = element("span", { class: "bar" });
      bar.style.width = (4 * share).toFixed(2) + "rem";
      return element("span", {}, bar, short(party.phases[i]) + " ms, " + Math.round(100 * share) + "%");
    })]);
  return panel(run, ...run.times.map((party) => element("p", { class: "note" }, party.words)), table(columns, rows));
}

function timeSection() {
  const timed = runs.filter((run) => run.times.length);
  if (!timed.length) return removeSection("times");
  return byId("time-tables").append(...timed.map(timeTable));
}
