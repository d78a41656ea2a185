#!/usr/bin/env python3
"""monitoring_cost.py BIN_DIR [PAIRS]: what page and metrics cost a run, at both parties, as shares of a step.

One run of both programs (Criteo-like data, Wide & Deep, batches of 1,024, Marvell with three attacks at the label
party). Windows of ten seconds alternate in which both parties are watched (the page's data each second, /metrics each
five) and not; which of a pair is first alternates, too. Told are, over all pairs, the processor time of the listener's
threads by the time of the steps in watched windows, and the time of a step watched by that of one not."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

WINDOW_SECONDS, PAGE_SECONDS, SCRAPE_SECONDS = 10, 1, 5
LISTENER_NICE = "10"  # HttpListener's threads, and no others.

AGREEMENT = """run_name: "cost" cut_layer: "third" cut_width: 128 batch_size: 1024 epochs: 100000
test_fraction: 0.02 validation_fraction: 0"""
PARTY = """party {
  identity { own_name: "%(own)s.example" peer_name: "%(peer)s.example" certificate_path: "%(role)s.pem"
             private_key_path: "%(role)s.key" authority_path: "authority.pem" }
  dataset { path: "%(role)s.data" }
  optimizer { learning_rate: 1e-4 adam {} }
  ledger_path: "%(role)s.db"
  monitoring { listen_address: "127.0.0.1:0" }
}
model { preset: WIDE_AND_DEEP }
listen_address: "127.0.0.1:0"
"""
LABEL_PARTY = """protection { marvell { s: 4 } }
label_side_audit { attacks: NORM attacks: COSINE attacks: SPECTRAL }
"""


class Party:
    def __init__(self, programs, role, folder):
        self.log = folder / (role + ".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [programs / role, "--agreement=run.textproto", "--config=%s.textproto" % role], cwd=folder, stderr=log,
                stdout=subprocess.DEVNULL)
        self.port, self.role = int(self.said(r"monitoring on http port (\d+),")), role

    def said(self, pattern):
        """The first group of what its log says, once it does."""
        while True:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                sys.exit("%s: expected a run, found:\n%s" % (self.log.name, self.log.read_text()))
            time.sleep(0.05)

    def ask(self, path):
        with urllib.request.urlopen("http://127.0.0.1:%d/%s" % (self.port, path), timeout=10) as answer:
            return answer.read().decode()

    def figures(self):
        """Steps, the seconds they took, and the processor seconds of the listener's threads."""
        text = self.ask("metrics")
        of = lambda name: float(re.search(r"^splitveil_%s (\S+)$" % name, text, flags=re.M).group(1))
        listener = 0
        for task in pathlib.Path("/proc/%d/task" % self.process.pid).iterdir():
            try:
                if (task / "stat").read_text().rsplit(")", 1)[1].split()[16] == LISTENER_NICE:
                    listener += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:
                pass  # A thread that has ended.
        return of("steps_total"), of("step_seconds_total"), listener / 1e9


def window(parties, watched):
    """(steps, their seconds, the listener's seconds) of each party within it."""
    before = [party.figures() for party in parties]
    begin = time.monotonic()
    for second in range(WINDOW_SECONDS // PAGE_SECONDS):
        time.sleep(max(0, begin + second * PAGE_SECONDS - time.monotonic()))
        for party in parties if watched else ():
            party.ask("status.json")
            if second % SCRAPE_SECONDS == 0:
                party.ask("metrics")
    time.sleep(max(0, begin + WINDOW_SECONDS - time.monotonic()))
    after = [party.figures() for party in parties]
    return [[last - first for first, last in zip(*pair)] for pair in zip(before, after)]


def main():
    programs, pairs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tool = lambda *words: subprocess.run([programs / "splitveil", *words], cwd=folder, check=True,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tool("generate", "--force", "--rows=60000", "--seed=11", "--out=data.tsv")
        tool("prepare", "--format=criteo", "--input=data.tsv", "--test_fraction=0.02", "--validation_fraction=0", "--out=.")
        tool("certificates", "--out=.", "--label=label.example", "--nonlabel=nonlabel.example")
        (folder / "run.textproto").write_text(AGREEMENT)
        (folder / "label_party.textproto").write_text(
            PARTY % {"own": "label", "peer": "nonlabel", "role": "label_party"} + LABEL_PARTY)
        label = Party(programs, "label_party", folder)
        port = label.said(r"listens on port (\d+)\n")
        (folder / "nonlabel_party.textproto").write_text(
            PARTY % {"own": "nonlabel", "peer": "label", "role": "nonlabel_party"} + 'peer_address: "127.0.0.1:%s"\n' % port)
        parties = [label, Party(programs, "nonlabel_party", folder)]
        try:
            while any(party.figures()[0] < 100 for party in parties):
                time.sleep(0.5)
            found = {True: [], False: []}
            for pair in range(pairs):
                for watched in (pair % 2 == 0, pair % 2 == 1):
                    found[watched].append(window(parties, watched))
        finally:
            for party in parties:
                party.process.terminate()
                party.process.wait()
    print("%d pairs of %d s, %d processors" % (pairs, WINDOW_SECONDS, len(os.sched_getaffinity(0))))
    for number, party in enumerate(parties):
        watched = [each[number] for each in found[True]]
        steps, seconds, listener = (sum(column) for column in zip(*watched))
        per_step = [[each[number][1] / each[number][0] for each in found[kind]] for kind in (True, False)]
        ratios = [a / b for a, b in zip(*per_step)]
        print("%-14s a step %.2f ms; listener %.4f ms of it, %.3f%%; a step watched by one not: median %.3f, %.3f to %.3f" %
              (party.role, 1000 * seconds / steps, 1000 * listener / steps, 100 * listener / seconds,
               statistics.median(ratios), min(ratios), max(ratios)))


if __name__ == "__main__":
    main()
