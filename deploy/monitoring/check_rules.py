#!/usr/bin/env python3
"""check_rules.py LABEL_PARTY_METRICS NONLABEL_PARTY_METRICS: holds alerts.yml and dashboard.json to what two parties
exported in a run, given as files with what /metrics answered. With promtool (Debian: prometheus) it checks rules and
exposition as Prometheus reads them, and otherwise their form. Exit 1 with a line for each thing that is wrong."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# Figures that only some runs have: how they ended, regressions; and those of label_party serve.
SOMETIMES = {"splitveil_column_drift_psi", "splitveil_score_drift_psi", "splitveil_run_ended", "splitveil_test_r_squared", "splitveil_test_rmse"}
METRIC = re.compile(r"\bsplitveil_[a-z0-9_]+")


def promtool(faults, *arguments, given=None):
    done = subprocess.run(["promtool", *arguments], input=given, text=True, capture_output=True)
    if done.returncode != 0:
        faults.append("promtool %s: %s" % (" ".join(arguments), (done.stdout + done.stderr).strip()))


def check_form(faults, rules):
    """That every rule has what Prometheus asks for, and brackets and quotes are closed."""
    alerts = re.split(r"^ +- alert: ", rules, flags=re.M)[1:]
    if not alerts:
        faults.append("alerts.yml: expected alerts, found none")
    for alert in alerts:
        name = alert.split("\n", 1)[0]
        for field in ("expr", "labels", "annotations"):
            if not re.search(r"^ +%s:" % field, alert, flags=re.M):
                faults.append("alerts.yml: %s: expected %s, found none" % (name, field))
        expression = re.search(r"^ +expr: (.*)$", alert, flags=re.M).group(1)
        for opened, closed in ("()", "{}", "[]"):
            if expression.count(opened) != expression.count(closed):
                faults.append("alerts.yml: %s: expected closed %s%s, found \"%s\"" % (name, opened, closed, expression))


def main():
    faults = []
    exported = [pathlib.Path(path).read_text() for path in sys.argv[1:]]
    names = {match for text in exported for match in re.findall(r"^# TYPE (splitveil_[a-z0-9_]+) ", text, flags=re.M)}
    if not names:
        faults.append("expected metrics, found none in %s" % " ".join(sys.argv[1:]))
    rules = (HERE / "alerts.yml").read_text()
    dashboard = json.loads((HERE / "dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions.append(dashboard["templating"]["list"][1]["query"])
    for where, used in (("alerts.yml", METRIC.findall(re.sub(r"^ *#.*$", "", rules, flags=re.M))),
                        ("dashboard.json", METRIC.findall(" ".join(expressions)))):
        for name in sorted(set(used) - names - SOMETIMES):
            faults.append("%s: expected an exported metric, found %s" % (where, name))
    check_form(faults, rules)
    if shutil.which("promtool"):
        promtool(faults, "check", "rules", str(HERE / "alerts.yml"))
        for text in exported:
            promtool(faults, "check", "metrics", given=text)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
