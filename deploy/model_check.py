#!/usr/bin/python3
"""Compares the model that `splitveil init` proposes with models on the pooled table.

For trials on one machine, by someone who has both tables: runs init at both parties, trains its proposal without protection
(`splitveil sweep`, which also trains with a bottom model frozen at its start), and, on the same training and test rows with
all columns together, scikit-learn's logistic regression (one-hot codes, standardised numbers) and HistGradientBoosting.
Prints the test AUCs and one line RESULT {json}. Both references also train on init's validation rows, which the split run
keeps for choosing its epoch. Needs python3-sklearn and python3-pandas; without them it says so and exits with 0.

Example:
  deploy/model_check.py --label_table=bank.csv --nonlabel_table=shop.csv --id=customer --label=defaulted --out=out/check
"""

import argparse
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys

try:
    import numpy as np
    import pandas as pd
    from scipy import sparse
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
except ImportError as missing:
    print(f"model_check.py: skipped, as {missing.name} is missing: apt-get install python3-sklearn python3-pandas")
    sys.exit(0)

MOST_CODES = 253  # HistGradientBoosting takes codes below 255; all rarer ones are one.


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, text in [("label_table", "the label party's CSV with a header line"), ("nonlabel_table", "the other's"),
                       ("id", "column that both share"), ("label", "column to be predicted"),
                       ("out", "folder for all that is written")]:
        parser.add_argument("--" + flag, required=True, help=text)
    parser.add_argument("--positive", default="1", help="which value of the label is the positive one")
    parser.add_argument("--categorical", action="append", default=[], help="column of codes; may be repeated")
    parser.add_argument("--test_fraction", default="0.1", help="share of the rows held out")
    parser.add_argument("--seeds", default="1,2,3", help="of the split runs and of boosting")
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "../build/bin"), help="the programs")
    return parser.parse_args()


def is_test(row_id, test_fraction):
    """The split of the agreement (common/schedule/train_test_split.cc), with an empty split_salt."""
    text = b"splitveil.v1 train test split\n" + hashlib.sha256(b"").digest() + row_id.encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") < float(test_fraction) * 2**64


def run(flags, *command):
    done = subprocess.run([os.path.join(flags.bin, "splitveil"), *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"splitveil {command[0]}: {done.stderr.strip()}")


def train_split(flags, tables):
    """The proposal of init, unchanged. Test AUCs by reference: {"none": [...], "frozen": [...]}."""
    names = {"label_party": "label.example", "nonlabel_party": "nonlabel.example"}
    for (role, own), peer, table, more in zip(
            names.items(), reversed(names.values()), [flags.label_table, flags.nonlabel_table],
            [[f"--label={flags.label}", f"--positive={flags.positive}", "--protection=none",
              f"--test_fraction={flags.test_fraction}"], [f"--proposal={flags.out}/label_party/run.textproto"]]):
        codes = [f"--categorical={name}" for name in flags.categorical if name in tables[role]]
        run(flags, "init", f"--role={role}", f"--table={table}", f"--id={flags.id}", f"--own_name={own}",
            f"--peer_name={peer}", f"--out={flags.out}/{role}", "--force", *codes, *more)
    for role, peer in zip(names, reversed(names)):
        shutil.copy(f"{flags.out}/{peer}/own.pem", f"{flags.out}/{role}/peer.pem")
    with open(os.path.join(flags.out, "sweep.textproto"), "w", encoding="utf-8") as sweep:
        sweep.write('agreement_path: "label_party/run.textproto"\nlabel_config_path: "label_party/party.textproto"\n'
                    'nonlabel_config_path: "nonlabel_party/party.textproto"\n'
                    f'protection {{ name: "none" config {{ none {{}} }} }}\nseeds: [{flags.seeds}]\n')
    run(flags, "sweep", f"--config={flags.out}/sweep.textproto", f"--out={flags.out}/sweep")
    aucs = {"none": [], "frozen": []}
    with open(os.path.join(flags.out, "sweep/sweep.csv"), encoding="utf-8") as table:
        for row in csv.DictReader(table):
            aucs[row["protection"]].append(float(row["test_auc"]))
    return aucs


def encode(pooled, categorical, train):
    """Numbers, NaN if missing, and texts, by column, fitted on the rows `train`."""
    numbers, texts = [], []
    for name in pooled:
        column = pooled[name].replace({"": None, "?": None})
        as_number = pd.to_numeric(column, errors="coerce")
        is_number = name not in categorical and as_number[column.notna()].notna().all()
        (numbers if is_number else texts).append((as_number if is_number else column.fillna("")).to_numpy())
    numbers = np.column_stack(numbers).astype(float) if numbers else np.zeros((len(pooled), 0))
    texts = np.column_stack(texts).astype(str) if texts else np.zeros((len(pooled), 0), str)
    return numbers[:, ~np.isnan(numbers[train]).all(axis=0)], texts


def logistic_auc(numbers, texts, label, train):
    missing = np.isnan(numbers)
    filled = np.where(missing, np.nanmedian(numbers[train], axis=0), numbers) if numbers.size else numbers
    parts = [sparse.csr_matrix(missing.astype(float))]
    if numbers.shape[1]:
        parts.append(sparse.csr_matrix(StandardScaler().fit(filled[train]).transform(filled)))
    if texts.shape[1]:
        parts.append(OneHotEncoder(handle_unknown="ignore").fit(texts[train]).transform(texts))
    features = sparse.hstack(parts).tocsr()
    model = LogisticRegression(max_iter=1000).fit(features[train], label[train])
    return roc_auc_score(label[~train], model.decision_function(features[~train]))


def boosting_auc(numbers, texts, label, train, seed):
    codes = []
    for column in texts.T:
        frequent = pd.Series(column[train]).value_counts().index[:MOST_CODES]
        codes.append(pd.Series(column).map({text: i + 1 for i, text in enumerate(frequent)}).fillna(0).to_numpy())
    features = np.column_stack([numbers, *codes])
    categorical = list(range(numbers.shape[1], features.shape[1])) or None
    model = HistGradientBoostingClassifier(categorical_features=categorical, random_state=seed)
    model.fit(features[train], label[train])
    return roc_auc_score(label[~train], model.decision_function(features[~train]))


def main():
    flags = parse_flags()
    tables = {role: pd.read_csv(path, dtype=str, keep_default_na=False)
              for role, path in [("label_party", flags.label_table), ("nonlabel_party", flags.nonlabel_table)]}
    aucs = train_split(flags, tables)
    pooled = tables["label_party"].merge(tables["nonlabel_party"], on=flags.id, validate="one_to_one")
    train = ~np.array([is_test(row_id, flags.test_fraction) for row_id in pooled[flags.id]])
    label = (pooled[flags.label] == flags.positive).to_numpy().astype(int)
    numbers, texts = encode(pooled.drop(columns=[flags.id, flags.label]), flags.categorical, train)
    aucs["logistic_regression"] = [logistic_auc(numbers, texts, label, train)]
    aucs["boosting"] = [boosting_auc(numbers, texts, label, train, int(seed)) for seed in flags.seeds.split(",")]
    for name, values in aucs.items():
        print(f"{name:20} test AUC {np.mean(values):.4f}  ({', '.join(f'{value:.4f}' for value in values)})")
    print("RESULT " + json.dumps({"test_rows": int((~train).sum()), **{name: float(np.mean(values))
                                                                       for name, values in aucs.items()}}))


if __name__ == "__main__":
    main()
