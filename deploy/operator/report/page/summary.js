// What stands at the top: the runs side by side, the alarm, a card a run.
const byRuns = (...rest) => [text("Run"), ...rest];

// The one figure that runs are ranked by, beside what they were trained for.
function drawGlance() {
  const columns = byRuns(text("Strongest attack"), number("Its AUC"), number("Guessing"), text("Bound"), number("Test AUC"), number("Test log-loss"));
  const rows = runs.map((run) => {
    const { title, layer_name: layerName, auc, guessing, exposure } = run.ranking;
    return [key(run), title + (layerName ? ", " + layerName : ""), element("b", { class: exposure }, fixed(auc)), fixed(guessing),
      boundState(run.ranking), fixed(run.test_auc), fixed(run.test_log_loss)];
  });
  byId("glance-table").append(table(columns, rows));
}

const EXCESSES_SHOWN = 3;  // Of a run; the table of attacks marks all.

function excessList({ excesses }) {
  const more = excesses.length - EXCESSES_SHOWN;
  const words = excesses.slice(0, EXCESSES_SHOWN);
  if (more > 0) words.push(more + (more === 1 ? " more attack exceeds its bound" : " more attacks exceed their bound") + "; the table below marks them.");
  return element("ul", {}, ...words.map((sentence) => element("li", {}, sentence)));
}

function drawBanner() {
  const beyond = runs.filter((run) => run.ranking.bound === "exceeded");
  if (!beyond.length) return removeSection("beyond-bound");
  for (const run of beyond) {
    byId("beyond-bound").append(element("p", {}, element("b", {}, run.label)),
      excessList(run.ranking),
      element("p", {}, element("b", {}, "What helps: "), run.remedy));
  }
}

function card(run) {
  const figure = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const { ranking } = run;
  const node = element("article", { class: "card" },
    element("h3", {}, key(run)),
    element("p", { class: "run-id" }, "run " + run.id + " · " + run.status),
    element("p", { class: "verdict " + ranking.exposure }, run.verdict),
    element("dl", { class: "figures" },
      figure("AUC of the strongest attack" + (isNone(ranking.guessing) ? "" : " (guessing " + fixed(ranking.guessing) + ")"), fixed(ranking.auc)),
      figure("test AUC", fixed(run.test_auc)),
      figure("test log-loss", fixed(run.test_log_loss))),
    element("p", {}, run.protection_words),
    ...(run.attack_words.length ? [element("ul", {}, ...run.attack_words.map((words) => element("li", {}, words)))] : []),
    ...[run.bound_words, run.model_words].filter(Boolean).map((words) => element("p", {}, words)),
    ...(run.remedy ? [element("p", { class: "remedy" }, element("b", {}, "What helps: "), run.remedy)] : []));
  node.style.setProperty("--run", run.colour);
  return node;
}

const CARDS_SHOWN = 2;  // The glance above has every run.

function drawCards() {
  const cards = runs.map(card);
  byId("cards").append(...cards.slice(0, CARDS_SHOWN));
  if (cards.length > CARDS_SHOWN) {
    byId("cards").after(folded((cards.length - CARDS_SHOWN) + " more runs", element("div", { class: "cards" }, ...cards.slice(CARDS_SHOWN))));
  }
}
