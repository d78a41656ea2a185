// The audit's verdict: what was judged, by what, and what helps where it fails.
const runs = page.runs;
runs.forEach((run, i) => Object.assign(run, styleOf(i)));

// The figure, and below it what it is.
function found(words) {
  const [figure, ...rest] = words.split(": ");
  const node = element("span", {}, element("b", {}, breakable(figure)));
  if (rest.length) node.append(element("span", { class: "by" }, rest.join(": ")));
  return node;
}

const OUTCOMES = { pass: "met", fail: "not met", open: "neither met nor failed" };

function policyTable(run) {
  const { outcome, findings, remedies, lines } = run.policy;
  const columns = [text("Criterion"), { head: "Limit", name: "Limit", class: "limit" }, { head: "Found", name: "Found", class: "found" }, text("Where")];
  const row = (finding) => [
    element("span", { class: "judged" }, pill(finding.outcome), element("span", {}, capital(finding.criterion))),
    finding.limit, found(finding.found), finding.where];
  const judged = findings.filter((finding) => finding.outcome !== "open");
  const open = findings.filter((finding) => finding.outcome === "open");
  const policy = findings.length ? [pill(outcome), " Policy " + OUTCOMES[outcome] + " by this run."] : ["Held to no criterion."];
  const node = panel(run, element("p", { class: "run-id" }, ...policy),
    element("ul", { class: "helps" }, ...lines.map((line) => element("li", {}, capital(line) + "."))));
  node.classList.add("long");
  if (open.length) {
    node.append(element("p", {}, "This verdict covers " + judged.length + " of " + findings.length + " criteria. The other " +
      open.length + " are not measurable from this ledger: only the " + [...new Set(open.map(({ ledger }) => ledger))].join(" and the ") + " ledger has the figures. Give that too."));
  }
  if (judged.length) node.append(element("div", { class: "criteria" }, table(columns, judged.map(row))));
  if (remedies.length) {
    node.append(element("h4", {}, "What helps"),
      element("ul", { class: "helps" }, ...remedies.map(({ words, criteria }) =>
        element("li", {}, words, element("span", { class: "by" }, "For: " + criteria.join("; ") + ".")))));
  }
  if (open.length) {
    node.append(folded("Not measurable from this ledger: " + open.length + " criteria",
      table([text("Criterion"), text("Limit")], open.map((finding) => [capital(finding.criterion), finding.limit]))));
  }
  return node;
}

function subject() {
  const { policy, judged_at: judgedAt, ledgers, data } = page.audit;
  const mono = (words) => element("span", { class: "mono" }, words);
  const entry = (name, ...values) => [element("dt", {}, name), ...values.map((value) => element("dd", {}, ...value))];
  const list = element("dl", { class: "subject" },
    ...entry("Policy", [policy.name, " · SHA-256 ", mono(policy.sha256)]),
    ...entry("Judged at", [judgedAt.replace("T", " ").replace("Z", " UTC")]),
    ...ledgers.flatMap(({ name, sha256, holds }) => entry("Ledger", [name + (holds.length ? " (" + holds.join("; ") + ")" : ""),
      " · SHA-256 ", mono(sha256)])),
    ...data.flatMap((facts) => entry("Data", Object.entries(facts).flatMap(([name, value], i) =>
      [(i ? " · " : "") + name + " ", name.includes("SHA") ? mono(value) : value]))));
  return element("div", { class: "panel" }, list);
}

function drawAudit() {
  if (!page.audit) return removeSection("audit");
  byId("lead").textContent = "Whether recorded runs meet a privacy policy: what was judged, by which policy, and what was found. " +
    "The leak report on these runs follows the verdict.";
  byId("policy-words").append(pill(page.audit.outcome), " ", capital(page.audit.words) + ".");
  byId("policy-tables").append(subject(), ...runs.map(policyTable));
}
