// The page of a running party: asks for its figures every two seconds and shows them. It asks this party alone.
const PERIOD_MILLIS = 2000, SHOWN_ATTACKS = DASHES.length;
const RUN_COLOUR = RUN_COLOURS[0];
// Charts are drawn in the colours of one scheme.
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());

const PARTIES = { label_party: "Label party", nonlabel_party: "Non-label party" };
const GRAVE = ["gate_halt", "gate_freeze_bottom", "operator_halt", "operator_raise_noise", "operator_lower_disclosure", "bound_exceeded", "claim_refuted", "frozen", "export_failed"];
const TOKEN = "splitveil-token";  // In this tab's memory alone, gone with it.
const drawn = new Map();          // Charts by the element they are in.
let timer = null;

const lineOf = (colour, dash) => ({ colour, dash });
const dataset = (label, points, style) => ({ label, data: points, borderColor: style.colour, backgroundColor: style.colour,
  borderWidth: 2, borderDash: style.dash, pointRadius: points.length === 1 ? 4 : 0, pointHitRadius: 6 });
const pointsOf = (curve) => (curve ? curve.step.map((step, i) => ({ x: figure(step), y: figure(curve.value[i]) })) : []);

// Draws what is in `box` or, where the same curves are there, moves them.
function showChart(box, options, datasets, keys) {
  const names = datasets.map((each) => each.label).join("|");
  const there = drawn.get(box);
  if (there && there.names === names) {
    there.chart.data.datasets.forEach((each, i) => {
      each.data = datasets[i].data;
      each.pointRadius = datasets[i].pointRadius;
    });
    there.chart.update("none");
    return;
  }
  if (there) {
    there.chart.destroy();
    charts.splice(charts.indexOf(there.chart), 1);
    drawn.delete(box);
  }
  const before = charts.length;
  byId(box).replaceChildren();
  drawChart(byId(box), options, datasets, keys);
  if (charts.length > before) drawn.set(box, { chart: charts[before], names });
}

function showHead(status) {
  const ended = status.ended || "";
  const party = PARTIES[status.role] || status.role;
  byId("title").textContent = party;
  document.title = party + (status.run_id ? " · " + status.run_id : "") + " · Splitveil";
  const figures = status.label_party || {};
  byId("run-words").textContent = [status.phase === "serving" ? "Answers with model " + status.run_id
    : status.run_id ? "Run " + status.run_id : "No run yet", figures.protection,
    "Splitveil " + status.version].filter(Boolean).join(" · ");
  const phase = byId("phase");
  phase.textContent = (ended || status.phase || "").toUpperCase();
  phase.className = "pill " + (ended === "completed" ? "pass" : ended === "halted" || ended === "failed" ? "fail"
    : ended || status.phase === "waiting" ? "open" : "run");
}

function showProgress(status) {
  const aligning = status.phase === "aligning";
  const [done, all] = aligning ? [figure(status.masked_ids), figure(status.ids_to_mask)]
    : [figure(status.step), figure(status.total_steps)];
  const bar = byId("progress");
  bar.max = Math.max(all, 1);
  bar.value = done;
  const left = figure(aligning ? status.alignment_seconds_left : status.seconds_left);
  const time = status.ended || left <= 0 ? "" : ", about " + duration(left) + " left";
  byId("progress-words").textContent = all === 0 ? "Nothing to count yet."
    : aligning ? whole(done) + " of " + whole(all) + " ids masked, own and the peer's" + time
    : "Step " + whole(done) + " of " + whole(all) + ", epoch " + (figure(status.epoch) + 1) + time;
  const seconds = figure(status.step_seconds);
  showFigures(byId("progress-figures"), [
    figure(status.steps_per_second) > 0 && !status.ended && ["steps per second", rate(figure(status.steps_per_second))],
    seconds > 0 && ["examples per second of a step", whole(Math.round(figure(status.examples_done) / seconds))],
    ["aligned examples", whole(status.aligned_examples)],
    ["sent", bytes(status.bytes_sent)],
    ["received", bytes(status.bytes_received)],
    ["interruptions", whole(status.interruptions)],
    ...certificateEnds(status),
  ]);
}

function boundWords(status) {
  const figures = status.label_party;
  const run = figure(figures.run_auc_bound);
  if (figures.frozen) return "The bottom model is frozen: no further gradient is released.";
  if (run === 0) return "No gradient was sent yet.";
  if (run >= 1) return figure(figures.step_auc_bound) < 1
    ? "All releases of the run together bound no attack; a single step has a bound, which is conditional."
    : "These releases bound no attack: what is shown is what attacks measured.";
  return (figures.bound_proved ? "The run's bound is proved: it holds against every adversary, beyond what both parties' features tell."
    : "The run's bound is conditional: it holds for Gaussian classes and adversaries that use class moments.") +
    " That of a step is Theorem 1's, which is looser: the run's may lie below it.";
}

function showLeak(status, curves) {
  const figures = status.label_party;
  byId("leak").hidden = !figures;
  if (!figures) return;
  const leaks = (figures.leaks || []).map((leak) => ({ ...leak, now: figure(leak.auc), epoch: figure(leak.epoch_auc),
    bound: figure(leak.epoch_bound) })).sort((a, b) => Math.max(b.now, b.epoch) - Math.max(a.now, a.epoch));
  const titles = new Map((figures.leaks || []).map(({ attack, title }) => [attack, title]));
  byId("bound-words").textContent = boundWords(status);
  const exceeded = figure(status.bound_exceeded);
  const run = figure(figures.run_auc_bound), step = figure(figures.step_auc_bound);
  showFigures(byId("leak-figures"), [
    leaks.length > 0 && ["strongest attack: " + leaks[0].title + " at " + leaks[0].layer,
      fixed(Math.max(leaks[0].now, leaks[0].epoch))],
    step > 0 && known(step) && ["bound of the latest step, by Theorem 1", boundText(step)],
    run > 0 && ["bound of the run so far, " + (figures.bound_proved ? "proved" : "of Gaussian classes, conditional"), boundText(run)],
    figure(figures.max_run_auc_bound) > 0 && ["limit of the run", fixed(figure(figures.max_run_auc_bound))],
    figure(figures.max_run_auc_bound) > 0 && ["budget left", (100 * figure(figures.budget_left)).toFixed(0) + "%"],
    ["bound exceeded", exceeded === 0 ? "never" : exceeded + "×", exceeded > 0 ? "alarm" : ""],
  ]);
  const attacks = curves.filter((curve) => curve.name.startsWith("cut ")).slice(0, SHOWN_ATTACKS)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const bound = curves.find((curve) => curve.name === "step_auc_bound");
  const sets = attacks.map((curve, i) => dataset(titles.get(curve.name.slice(4)) || spaced(curve.name.slice(4)), pointsOf(curve), lineOf(RUN_COLOUR, DASHES[i])));
  const keys = sets.map((each) => key(lineOf(RUN_COLOUR, each.borderDash), each.label));
  if (bound && pointsOf(bound).some((point) => point.y < 1)) {
    sets.push(boundLine(pointsOf(bound), "Bound of a step", { colour: INK }));
    keys.push(key({ colour: INK, dash: [1, 3] }, "Bound of a step"));
  }
  if (attacks.length) showChart("leak-chart", { title: "Leak at the cut layer", x: "step", y: "leak AUC", min: 0.5,
    note: "This party's own attacks on what is released; each point the mean of several batches" }, sets, keys);
  byId("leak-table").replaceChildren(...(leaks.length === 0 ? [] : [element("div", { class: "panel" }, table(
    [text("Attack"), text("Layer"), text("Measured by"), number("Latest batches"), number("Latest epoch"), number(BOUND)],
    leaks.slice(0, 8).map((leak) => [leak.title, leak.layer, PARTIES[leak.observer] || leak.observer,
      leak.now ? fixed(leak.now) : "–", leak.epoch ? fixed(leak.epoch) : "–", leak.bound ? fixed(leak.bound) : "–"])))]));
}

function showQuality(status, curves) {
  const loss = curves.find((curve) => curve.name === "loss");
  byId("quality").hidden = !status.label_party || !loss;
  if (byId("quality").hidden) return;
  const solid = lineOf(RUN_COLOUR, []);
  showChart("loss-chart", { title: "Training loss", x: "step", y: "loss", note: "Each point the mean of several batches" },
    [dataset("Loss", pointsOf(loss), solid)], []);
  const tests = status.label_party.tests || [];
  const auc = tests.filter((test) => known(figure(test.auc)));
  const [name, field] = auc.length > 0 ? ["AUC", "auc"] : ["R²", "r_squared"];
  const shown = tests.filter((test) => known(figure(test[field])));
  if (shown.length) showChart("test-chart", { title: "Test " + name, x: "step", y: name,
    note: "After each epoch; the latest is " + fixed(figure(shown[shown.length - 1][field]), 4) },
    [{ ...dataset(name, shown.map((test) => ({ x: figure(test.step), y: figure(test[field]) })), solid), pointRadius: shown.length > 20 ? 0 : 3 }], []);
}

function showTimes(status) {
  const phases = (status.phases || []).map(({ phase, seconds }) => [phase, figure(seconds)]).sort((a, b) => b[1] - a[1]);
  const sum = phases.reduce((total, [, seconds]) => total + seconds, 0);
  if (sum === 0) {
    byId("times").replaceChildren(element("p", {}, "No step yet."));
    return;
  }
  byId("times").replaceChildren(element("dl", { class: "times" }, ...phases.filter(([, seconds]) => seconds > 0).flatMap(([phase, seconds]) => {
    const share = seconds / sum;
    const bar = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "ground", width: 100, height: 10 }), svg("rect", { width: (100 * share).toFixed(2), height: 10 }));
    return [element("dt", {}, spaced(phase)), element("dd", { class: phase === "wait" ? "waiting" : "" }, bar),
      element("dd", {}, (100 * share).toFixed(0) + "% · " + duration(seconds))];
  })));
}

function showGate(status) {
  const counts = (status.label_party && status.label_party.gate) || [];
  byId("gate").hidden = counts.length === 0;
  showFigures(byId("gate-figures"), counts.map(({ action, steps }) =>
    [spaced(action), whole(steps), action === "halt" || action === "freeze_bottom" ? "alarm" : ""]));
}

function showEvents(status) {
  const events = [...(status.events || [])].reverse();
  const none = status.role === "label_party" && !status.label_party
    ? "Events, losses, leaks and bounds are for who has a token: set party.monitoring.token_path." : "None yet.";
  byId("events").replaceChildren(events.length === 0 ? element("p", {}, none)
    : element("ol", { class: "event-list", tabindex: "0", "aria-label": "Events, latest first" }, ...events.map(({ at, kind, detail }) =>
      element("li", { class: GRAVE.includes(kind) ? "grave" : "" }, element("time", { datetime: at }, at.slice(0, 10) + " " + at.slice(11, 19) + " UTC"),
        element("b", {}, spaced(kind)), element("span", {}, detail || "")))));
}

function showControls(status) {
  const figures = status.label_party;
  byId("controls").hidden = !figures;
  if (!figures) return;
  const underWay = Boolean(status.run_id) && !status.ended;
  byId("halt").disabled = !figures.halt_allowed || !underWay;
  byId("raise_noise").hidden = !/^(marvell|iso)/.test(figures.protection || "");  // Others cannot.
  byId("raise_noise").disabled = byId("halt").disabled || status.phase !== "training" || Boolean(figures.frozen);
  byId("lower_disclosure").hidden = !["ROUNDED", "ORACLE"].includes(figures.disclosure);
  byId("lower_disclosure").disabled = byId("halt").disabled || status.phase !== "training";
  byId("action-words").textContent = !figures.halt_allowed
    ? "Set party.monitoring.token_path to be able to act from here; SIGTERM stops the run, too."
    : underWay ? "A halt ends the run at both parties, as the release gate would: exit code 5. The ledger records what is done here."
    : "No run is under way.";
}

function show({ status, history }, metrics) {
  const curves = history.curves || [];
  byId("main").hidden = false;
  byId("token-form").hidden = true;
  showHead(status);
  if (metrics !== null) return showServing(status, metrics);
  showProgress(status);
  showLeak(status, curves);
  showQuality(status, curves);
  showTimes(status);
  showGate(status);
  showEvents(status);
  showControls(status);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: "Bearer " + token, ...more } : more;
}

function askForToken(words) {
  byId("main").hidden = true;
  byId("token-form").hidden = false;
  byId("token-words").textContent = words;
  byId("connection").textContent = "";
  byId("phase").textContent = "LOCKED";
  byId("token").focus();
}

async function ask() {
  clearTimeout(timer);
  try {
    const answer = await fetch("status.json", { headers: headers(), cache: "no-store" });
    if (answer.status === 401) {
      askForToken(sessionStorage.getItem(TOKEN) ? "That is not this party's token." : "");
      sessionStorage.removeItem(TOKEN);
      return;
    }
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    const asked = await answer.json();
    show(asked, asked.status.phase === "serving"
      ? await (await fetch("metrics", { headers: headers(), cache: "no-store" })).text() : null);
    byId("connection").textContent = "Updated " + new Date().toISOString().slice(11, 19) + " UTC";
  } catch (error) {
    byId("connection").textContent = "No answer: the party has ended, or cannot be reached. What is shown is the latest.";
  }
  if (!document.hidden) timer = setTimeout(ask, PERIOD_MILLIS);
}

// What each button does, once it is confirmed.
const DONE = { halt: "Halted: both parties end with exit code 5.", raise_noise: "Raised: see the events.",
  lower_disclosure: "Lowered: the attack module is told nothing more." };

async function act(action) {
  byId(action + "-dialog").close();
  byId(action).disabled = true;
  const words = byId("action-answer");
  try {
    const answer = await fetch(action, { method: "POST", headers: headers({ "X-Splitveil-Action": action }) });
    words.textContent = answer.ok ? DONE[action] : "Refused: " + (answer.status === 409 ? (await answer.json()).message : "HTTP " + answer.status);
  } catch (error) {
    words.textContent = "Not known whether it was done: no answer.";
  }
  ask();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, byId("token").value.trim());
  byId("token").value = "";
  ask();
});
for (const action of Object.keys(DONE)) {
  byId(action).addEventListener("click", () => byId(action + "-dialog").showModal());
  byId(action + "-no").addEventListener("click", () => byId(action + "-dialog").close());
  byId(action + "-yes").addEventListener("click", () => act(action));
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
ask();
