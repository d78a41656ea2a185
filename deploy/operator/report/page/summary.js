// What stands at the top: the runs side by side, the alarm, a card per run.
const byRuns = (...rest) => [text("Run"), ...rest];

// An attack's AUC, below it which attack.
function ranked(attack) {
  if (!attack) return "–";
  return element("span", {}, element("b", { class: attack.exposure }, fixed(attack.auc)),
    element("span", { class: "by" }, attack.title + ", " + attack.layer_name.replace(/^the /, "")));
}

// The bound over the whole run, below it what became of it. It stands beside its kind, on what it rests.
const runBoundCell = ({ run_auc_bound: auc, bound, bound_words: words }) => element("span", {}, element("b", {}, fixed(auc)),
  element("span", { class: "by" }, boundState({ bound, bound_words: words.replace(/^proved; /, "") })));
const verdictCell = ({ verdict, broken }) => element(broken ? "b" : "span", { class: broken ? "whole alarm" : "whole" }, capital(verdict));

// `value`, and below it the lines that say something.
const withSmallPrint = (value, ...lines) => element("span", {}, value,
  ...lines.filter(Boolean).map((line) => element("span", { class: "by" }, line)));

// Always the same attack: its name says nothing that the column's does not.
const worstCase = ({ worst_case: attack }) => (attack ? element("b", { class: attack.exposure }, fixed(attack.auc)) : "–");

// A proved bound is about what gradients add to features, by which attacks rank as well.
function besideBound(attack, { proved, broken, run_auc_bound: bound }) {
  const above = proved && !broken && attack && !isNone(bound) && attack.auc > bound && !attack.held_against_bound;
  return above ? NOT_HELD : "";
}

// What runs are ranked by; then the verdict, what was measured at worst and what a partner can do today, beside what the
// runs were trained for. What reads no gradient stands apart: no bound is about it.
function drawGlance() {
  const apart = runs.some((run) => run.ranking.no_gradient);
  const names = [...new Set(runs.filter((run) => !isNone(run.test_quality)).map((run) => run.quality_name))];
  const columns = byRuns(text("Strongest on gradients"), text("Bound"), text("Kind"), text("Verdict"), text(WORST_CASE), text("Practical"),
    text("With side information"), ...(apart ? [text("Without any gradient")] : []), number(names.length === 1 ? "Test " + names[0] : "Test quality"));
  const rows = runs.map(({ ranking, ...run }) => [
    withSmallPrint(key(run), !isNone(ranking.guessing) && "guessing: p95 " + fixed(ranking.guessing)),
    withSmallPrint(ranked(ranking.strongest), besideBound(ranking.strongest, ranking)), runBoundCell(ranking), element("span", { class: "whole" }, ranking.bound_kind), verdictCell(ranking),
    worstCase(ranking), ranked(ranking.practical), ranked(ranking.with_side_information), ...(apart ? [ranked(ranking.no_gradient)] : []),
    withSmallPrint(fixed(run.test_quality), names.length > 1 && !isNone(run.test_quality) && run.quality_name,
      !isNone(run.final_test_quality) && "last " + fixed(run.final_test_quality),
      !isNone(run.test_log_loss) && "log loss " + fixed(run.test_log_loss), !isNone(run.test_rmse) && "RMSE " + fixed(run.test_rmse))]);
  byId("glance-table").append(table(columns, rows));
  byId("task-words").textContent = [...new Set(runs.map((run) => run.task_words))].filter(Boolean).join(" ");
}

const EXCESSES_SHOWN = 2;  // Of a run; the table of attacks marks all.

function excessList({ excesses }) {
  const more = excesses.length - EXCESSES_SHOWN;
  const words = excesses.slice(0, EXCESSES_SHOWN);
  if (more > 0) words.push(more + (more === 1 ? " more attack exceeds its bound" : " more attacks exceed their bound") + "; the table below marks them.");
  return element("ul", {}, ...words.map((sentence) => element("li", {}, sentence)));
}

function drawBanner() {
  const beyond = runs.filter((run) => run.ranking.broken);
  if (!beyond.length) return removeSection("beyond-bound");
  for (const run of beyond) {
    byId("beyond-bound").append(element("p", {}, element("b", {}, run.label)), excessList(run.ranking));
    if (run.ranking.claim) byId("beyond-bound").append(element("p", {}, capital(run.ranking.claim) + "."));
  }
  for (const remedy of new Set(beyond.map((run) => run.remedy))) {
    byId("beyond-bound").append(element("p", {}, element("b", {}, "What helps: "), remedy));
  }
}

function card(run) {
  const figure = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const measured = (...attacks) => attacks.filter(([, attack]) => attack).map(([name, attack]) => figure(name, fixed(attack.auc)));
  const { ranking } = run;
  const node = element("article", { class: "card" },
    element("h3", {}, key(run)),
    element("p", { class: "run-id" }, (run.id === run.label ? "" : "run " + run.id + " · ") + run.status),
    element("p", {}, element("span", { class: "verdict" + (ranking.broken ? " exposed" : "") }, "Bound: " + ranking.verdict), " ",
      element("span", { class: "verdict " + (ranking.strongest ? ranking.strongest.exposure : "") }, run.verdict),
      ...(run.verdict_without_gradient ? [" ", element("span", { class: "verdict " + ranking.no_gradient.exposure }, run.verdict_without_gradient)] : [])),
    element("dl", { class: "figures" },
      ...measured([besideBound(ranking.strongest, ranking) ? "strongest attack, " + NOT_HELD : "strongest attack", ranking.strongest]),
      ...(isNone(ranking.run_auc_bound) ? [] : [figure("bound, " + ranking.bound_kind, fixed(ranking.run_auc_bound))]),
      ...measured([isNone(ranking.run_auc_bound) ? "worst case measured" : "worst case, held against the bound", ranking.worst_case], ["practical", ranking.practical],
        ["with side information", ranking.with_side_information]),
      ...[["test " + run.quality_name, run.test_quality], ["test log loss", run.test_log_loss], ["test RMSE, targets scaled to 0 to 1", run.test_rmse]]
        .filter(([, value]) => !isNone(value)).map(([name, value]) => figure(name, fixed(value)))),
    element("p", {}, run.protection_words),
    ...(run.attack_words.length ? [element("ul", {}, ...run.attack_words.map((words) => element("li", {}, words)))] : []),
    element("p", {}, [run.bound_words, ranking.claim && capital(ranking.claim) + ".", run.advantage_words, run.model_words].filter(Boolean).join(" ")),
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
