// What stands at the top: the runs side by side, the alarm, a card a run.
const byRuns = (...rest) => [text("Run"), ...rest];

// An attack's AUC, below it which attack.
function ranked(attack) {
  if (!attack) return "–";
  return element("span", {}, element("b", { class: attack.exposure }, fixed(attack.auc)),
    element("span", { class: "by" }, attack.title + ", " + attack.layer_name.replace(/^the /, "")));
}

// What runs are ranked by, beside what they were trained for. What reads no gradient stands apart: no bound is about it.
function drawGlance() {
  const apart = runs.some((run) => run.ranking.no_gradient);
  const columns = byRuns(text("Without side information"), text("With side information"), number("Guessing, p95"), text(BOUND),
    number("Test AUC"), number("Test log loss"), ...(apart ? [text("Without any gradient")] : []));
  const rows = runs.map(({ ranking, ...run }) => [key(run), ranked(ranking.unaided), ranked(ranking.aided), fixed(ranking.guessing),
    boundState(ranking), fixed(run.test_auc), fixed(run.test_log_loss), ...(apart ? [ranked(ranking.no_gradient)] : [])]);
  byId("glance-table").append(table(columns, rows));
}

const EXCESSES_SHOWN = 2;  // Of a run; the table of attacks marks all.

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
    byId("beyond-bound").append(element("p", {}, element("b", {}, run.label)), excessList(run.ranking));
  }
  for (const remedy of new Set(beyond.map((run) => run.remedy))) {
    byId("beyond-bound").append(element("p", {}, element("b", {}, "What helps: "), remedy));
  }
}

function card(run) {
  const figure = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const { ranking } = run;
  const node = element("article", { class: "card" },
    element("h3", {}, key(run)),
    element("p", { class: "run-id" }, "run " + run.id + " · " + run.status),
    element("p", {}, element("span", { class: "verdict " + ranking.exposure }, run.verdict),
      ...(run.verdict_without_gradient ? [" ", element("span", { class: "verdict " + ranking.no_gradient.exposure }, run.verdict_without_gradient)] : [])),
    element("dl", { class: "figures" },
      ...[["strongest, no side information", ranking.unaided], ["strongest, side information", ranking.aided]]
        .filter(([, attack]) => attack).map(([name, attack]) => figure(name, fixed(attack.auc))),
      ...(isNone(ranking.guessing) ? [] : [figure("guessing, p95", fixed(ranking.guessing))]),
      figure("test AUC", fixed(run.test_auc)),
      figure("test log loss", fixed(run.test_log_loss))),
    element("p", {}, run.protection_words),
    ...(run.attack_words.length ? [element("ul", {}, ...run.attack_words.map((words) => element("li", {}, words)))] : []),
    ...[run.bound_words, run.model_words].filter(Boolean).map((words) => element("p", {}, words)),
    ...(run.remedy ? [element("p", { class: "remedy" }, element("b", {}, "What helps: "), run.remedy)] : []));
  node.style.setProperty("--run", run.colour);
  return node;
}

const MANY_RUNS = 4, CARDS_OF_MANY = 2;  // The glance above has every run.

function drawCards() {
  const cards = runs.map(card);
  const shown = cards.length < MANY_RUNS ? cards.length : CARDS_OF_MANY;
  byId("cards").append(...cards.slice(0, shown));
  if (cards.length > shown) {
    byId("cards").after(folded((cards.length - shown) + " more runs", element("div", { class: "cards" }, ...cards.slice(shown))));
  }
}
