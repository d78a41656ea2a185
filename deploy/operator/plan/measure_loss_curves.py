#!/usr/bin/env python3
"""Measures loss_curves.csv: what proved bounds cost in test AUC, by rows and epochs, on generated data.

Usage: measure_loss_curves.py PROGRAMS OUT ROWS:SEEDS[:EPOCHS[:POSITIVES]]...
  PROGRAMS: the folder of splitveil and both parties; OUT: scratch folder, a sweep that was stopped there goes on;
  ROWS:SEEDS: how many rows to train and test on, with how many seeds; EPOCHS: 5 if left out; POSITIVES: their share,
  0.25 if left out; for others, rows of the more frequent label are left out of more generated ones, so that scores
  rank as well as before

For every number of rows both parties' programs train deploy/examples/criteo_deep for EPOCHS epochs, without protection,
with the bottom model frozen and under several bounds (`splitveil sweep`), with a draw of the noise in every epoch.
Learning rates are constant, so that a run's first e epochs are a run of e epochs, whose e draws have sqrt(e / EPOCHS)
of the mu of all. Between these, linear in log mu, is the test AUC under the bounds of the table; a bound that the first
e epochs of no run come near is left out. The loss is the best test AUC of `none` within e epochs less the best under the
bound, of the same seed. Batches are of 1,024 rows, or of an eightieth of all where that is less: with fewer steps an
epoch nothing is learned in five. Prints the table. Python's standard library only.
"""
import math
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys

BOUNDS = (0.55, 0.6, 0.7, 0.8, 0.9)
WEAK_BOUNDS = (0.95, 0.998)  # Of the last, a fifth of the epochs has a little more than 0.9.
WEAK_BOUNDS_ROWS = 1_000_000  # At most so many: with more these runs take long, and what they would find is small.
SHOWN_EPOCHS = (1, 2, 3, 4, 5, 10, 20, 30)
GENERATED_POSITIVES = 0.25  # About: `splitveil generate`.
DATA_SEED = 7
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "criteo_deep"


def run_bounds(rows):
    return BOUNDS + (WEAK_BOUNDS if rows <= WEAK_BOUNDS_ROWS else ())


def generate(tool, path, rows, positives):
    """Rows of which about this share is positive."""
    rare = positives < GENERATED_POSITIVES
    kept = (positives * (1 - GENERATED_POSITIVES)) / (GENERATED_POSITIVES * (1 - positives))  # Positives to negatives.
    made = rows * (1 - positives) / (1 - GENERATED_POSITIVES) if rare else rows * positives / GENERATED_POSITIVES
    subprocess.run([tool, "generate", f"--rows={math.ceil(made)}", f"--seed={DATA_SEED}", "--force", f"--out={path}"], check=True,
                   stdout=sys.stderr)
    if positives == GENERATED_POSITIVES:
        return
    draws = random.Random(DATA_SEED)
    whole = path.rename(path.with_suffix(".whole"))
    with whole.open() as lines, path.open("w") as thinned:
        for line in lines:
            if line.startswith("1" if rare else "0") and draws.random() >= (kept if rare else 1 / kept):
                continue
            thinned.write(line)
    whole.unlink()


def write_configs(folder, rows, seeds, epochs):
    """The example's, on data of its own, with one attack: the rest only take time here."""
    for name in ("run", "label_party", "nonlabel_party"):
        text = (EXAMPLE / f"{name}.textproto").read_text().replace("../../../out/criteo_deep", str(folder))
        if name == "run":
            text = text[:text.index("audit {")].replace("batch_size: 1024", f"batch_size: {min(1024, rows // 80)}")
            text = text.replace("epochs: 5", f"epochs: {epochs}")
        if name == "label_party":
            text += "label_side_audit { attacks: NORM every_batches: 1000 }\n"
        (folder / f"{name}.textproto").write_text(text)
    bounds = ", ".join(map(str, run_bounds(rows)))
    (folder / "sweep.textproto").write_text(
        'agreement_path: "run.textproto"\nlabel_config_path: "label_party.textproto"\n'
        f'nonlabel_config_path: "nonlabel_party.textproto"\ngaussian_label_dp_max_run_auc_bound: [{bounds}]\n'
        f"seeds: [{', '.join(str(seed + 1) for seed in range(seeds))}]\n")


def best_aucs(run, epochs):
    """Best test AUC within 1, 2, ... epochs, from the label party's ledger."""
    ledger = sqlite3.connect(f"file:{run / 'label_party.db'}?mode=ro", uri=True)
    aucs = [auc for auc, in ledger.execute("SELECT auc FROM evaluation WHERE split = 'test' ORDER BY step")]
    ledger.close()
    if len(aucs) != epochs:
        sys.exit(f"{run}: expected {epochs} evaluations, found {len(aucs)}")
    return [max(aucs[:epoch]) for epoch in range(1, epochs + 1)]


def log_mu(bound, share=1.0):
    """Of the first epochs, this share, of a run with this bound, up to what is the same for all."""
    return math.log(statistics.NormalDist().inv_cdf(bound)) + math.log(share) / 2


def auc_under(bound, epoch, by_run_bound):
    """Best test AUC of so many epochs that keep the bound, or None. `by_run_bound`: those of the runs, by epoch."""
    at = log_mu(bound)
    points = [(log_mu(run_bound, epoch / len(aucs)), aucs[epoch - 1]) for run_bound, aucs in by_run_bound.items()]
    for (low, low_auc), (high, high_auc) in zip(points, points[1:]):
        if low <= at <= high:
            return low_auc + (high_auc - low_auc) * (at - low) / (high - low)
    return None


def measure(programs, folder, rows, seeds, epochs, positives):
    """Lines of the table for so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    tool = str(programs / "splitveil")
    if not (folder / "certificates").exists():
        generate(tool, folder / "generated.tsv", rows, positives)
        for command in (["prepare", "--format=table", f"--schema={EXAMPLE}/schema.textproto",
                         f"--input={folder}/generated.tsv", "--seed=7", "--validation_fraction=0",
                         f"--out={folder}"],
                        ["certificates", f"--out={folder}/certificates", "--label=label-party.splitveil.example",
                         "--nonlabel=nonlabel-party.splitveil.example"]):
            subprocess.run([tool, *command], check=True, stdout=sys.stderr)
        (folder / "generated.tsv").unlink()
    write_configs(folder, rows, seeds, epochs)
    subprocess.run([tool, "sweep", f"--config={folder}/sweep.textproto", f"--out={folder}/sweep", "--jobs=1"],
                   check=True, stdout=sys.stderr)

    def aucs(protection):
        return [best_aucs(folder / f"sweep/runs/{protection}-seed{seed + 1}", epochs) for seed in range(seeds)]

    none, frozen = aucs("none"), aucs("frozen")
    bounded = {bound: aucs(f"gaussian_label_dp-{bound}") for bound in run_bounds(rows)}
    for bound in BOUNDS:
        for epoch in (shown for shown in SHOWN_EPOCHS if shown <= epochs):
            under = [auc_under(bound, epoch, {run: of[seed] for run, of in bounded.items()}) for seed in range(seeds)]
            if None in under:
                continue
            losses = [none[seed][epoch - 1] - under[seed] for seed in range(seeds)]
            means = [sum(values[seed][epoch - 1] for seed in range(seeds)) / seeds for values in (none, frozen)]
            figures = [*means, sum(losses) / seeds, min(losses), max(losses)]
            yield f"{rows},{epoch},{bound},{seeds}," + ",".join(f"{figure:.4f}" for figure in figures)


def main():
    if len(sys.argv) < 4:
        sys.exit("measure_loss_curves.py: expected PROGRAMS OUT ROWS:SEEDS[:EPOCHS[:POSITIVES]]...")
    programs, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    print("positives,0.25\nrows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max")
    for argument in sys.argv[3:]:
        rows, seeds, *rest = argument.split(":")
        epochs = int(rest[0]) if rest else 5
        positives = float(rest[1]) if len(rest) > 1 else GENERATED_POSITIVES
        folder = out / "-".join((rows, str(epochs), str(positives)))
        for line in measure(programs, folder, int(rows), int(seeds), epochs, positives):
            print(line, flush=True)


if __name__ == "__main__":
    main()
