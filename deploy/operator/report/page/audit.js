// The audit's verdict on each run: criteria that fail, then what helps, then what holds, folded.

// The figure, and below it what it is.
function found(words) {
  const [figure, ...rest] = words.split(": ");
  const node = element("span", {}, element("b", {}, breakable(figure)));
  if (rest.length) node.append(element("span", { class: "by" }, rest.join(": ")));
  return node;
}

const counted = (count, one, several) => count + " " + (count === 1 ? one : several);

function criteria(findings) {
  const columns = [text("Criterion"), { head: "Limit", name: "Limit", class: "limit" }, { head: "Found", name: "Found", class: "found" }, text("Where")];
  return element("div", { class: "criteria" }, table(columns, findings.map((finding) => [
    element("span", { class: "judged" }, pill(finding.outcome), element("span", {}, capital(finding.criterion))),
    finding.limit, found(finding.found), finding.where])));
}

// What a run's card says of the policy; nothing on a page without an audit.
function policyParts(run) {
  if (!run.policy) return [];
  const { findings, remedies } = run.policy;
  const of = (outcome) => findings.filter((finding) => finding.outcome === outcome);
  const [failed, held] = ["fail", "pass"].map(of);
  const open = of("open").filter((finding) => finding.not_given);
  const listed = [...failed, ...of("open").filter((finding) => !finding.not_given)];
  const parts = [];
  if (listed.length) parts.push(criteria(listed));
  if (remedies.length) {
    parts.push(element("h4", {}, "What helps"), element("ul", { class: "helps" }, ...remedies.map(({ words, criteria: names }) =>
      element("li", {}, words, element("span", { class: "by" }, "For: " + names.join("; ") + ".")))));
  }
  if (open.length) {
    const ledgers = [...new Set(open.map(({ ledger }) => ledger))].join(" and the ");
    parts.push(folded(counted(open.length, "criterion is", "criteria are") + " not measurable from this ledger: give the " + ledgers + " ledger, too",
      table([text("Criterion"), text("Limit")], open.map((finding) => [capital(finding.criterion), finding.limit]))));
  }
  if (held.length) parts.push(folded(counted(held.length, "criterion holds", "criteria hold"), criteria(held)));
  return [element("div", { class: "policy" }, ...(findings.length ? parts : [element("p", {}, "Held to no criterion.")]))];
}

function drawSubject() {
  if (!page.audit) return removeSection("subject");
  const { policy, judged_at: judgedAt, ledgers, data } = page.audit;
  const mono = (words) => element("span", { class: "mono" }, words);
  const entry = (name, ...values) => [element("dt", {}, name), ...values.map((value) => element("dd", {}, ...value))];
  return byId("subject").append(element("dl", { class: "subject" },
    ...entry("Policy", [policy.name, " · SHA-256 ", mono(policy.sha256)]),
    ...entry("Judged at", [judgedAt.replace("T", " ").replace("Z", " UTC")]),
    ...ledgers.flatMap(({ name, sha256, holds }) => entry("Ledger", [name + (holds.length ? " (" + holds.join("; ") + ")" : ""),
      " · SHA-256 ", mono(sha256)])),
    ...data.flatMap((facts) => entry("Data", Object.entries(facts).flatMap(([name, value], i) =>
      [(i ? " · " : "") + name + " ", name.includes("SHA") ? mono(value) : value])))));
}
