#!/bin/bash
# Trains an example under the protections of its sweep.textproto, without protection, and with the bottom model frozen at
# its start, to say which share of the gain of training each protection keeps. With two classes it also trains the same
# model in one process for comparison. Writes OUT/sweep/{sweep.csv,tradeoff.html} and both parties' prepared data. OUT is
# out/NAME for one of these examples, and FOLDER/out for your own.
# An example is a folder with run.textproto, label_party.textproto, nonlabel_party.textproto and sweep.textproto, and with
# schema.textproto unless its name says the format. The configurations name OUT/label_party.data, OUT/nonlabel_party.data
# and OUT/certificates, which are made here.
# If the example's agreement discloses an oracle to the attacks, no guarantee is possible. A second sweep then runs without
# the oracle and with noise on the labels: OUT/sweep_guarantee. More sweeps of an example (sweep.WHAT.textproto) write to
# OUT/sweep_WHAT. multi_class and regression use generated data: SPLITVEIL_DEMO_ROWS rows, 20000 by default.
# The other direction, sensitive attributes in the activations: adult_sex and adult_relationship compare protections of the
# activations. Their attacks know the attributes of some examples by id (known.schema.textproto); Adult has no ids, so its
# rows are numbered.
# Usage: train.sh criteo|criteo_deep|avazu|adult|credit_default INPUT...     train.sh isic TABLE.csv IMAGES.bin.gz
#        train.sh adult_sex|adult_relationship INPUT...     train.sh multi_class|regression
#        train.sh FOLDER TABLE.csv... [IMAGES.bin.gz]     FOLDER: any; with a slash if an example has the same name
set -euo pipefail
usage() {
  sed -n '/^# Usage: /,/^set /{s/^# //p}' "$0" >&2
  exit 2
}
[ $# -ge 1 ] || usage
root=$(realpath "$(dirname "$(realpath "$0")")/../..")
bin=$root/build/bin name=$1
if [ "${1#*/}" = "$1" ] && [ -d "$root/deploy/examples/$1" ]; then
  here=$root/deploy/examples/$name out=$root/out/$name
elif [ -d "$1" ]; then
  here=$(realpath "$1") out=$(realpath "$1")/out
else
  usage
fi
for file in run label_party nonlabel_party sweep; do
  [ -e "$here/$file.textproto" ] || {
    echo "train.sh: $here has no $file.textproto: copy the example nearest to yours" >&2
    exit 2
  }
done
schema=$here/schema.textproto inputs=() kind=() sweep_flags=()
known=$here/known.schema.textproto # The attributes that the label party knows.
for input in "${@:2}"; do
  case $input in
    *.bin | *.bin.gz) kind+=(--images="$input") ;;
    *) inputs+=("$input") ;;
  esac
done
if [ ${#inputs[@]} -eq 0 ]; then
  case $here in "$root"/deploy/examples/multi_class | "$root"/deploy/examples/regression) ;; *) usage ;; esac
  schema=$out/schema.textproto
  sweep_flags=(--debit_account) # Generated labels belong to nobody, so the cost in the account does not matter.
fi
case $here in
  "$root"/deploy/examples/criteo | "$root"/deploy/examples/avazu) kind+=(--format="$name") ;;
  *) kind+=(--format=table --schema="$schema") ;;
esac
# Split the examples as in the agreement.
for fraction in test validation auxiliary; do
  agreed=$(sed -n "s/^ *${fraction}_fraction: *\([0-9.e-]*\).*/\1/p" "$here/run.textproto")
  kind+=(${agreed:+--${fraction}_fraction="$agreed"})
done
salt=$(sed -n 's/^ *split_salt: *"\([^"]*\)".*/\1/p' "$here/run.textproto")
kind+=(${salt:+--split_salt="$salt"})
"$root/deploy/install_dependencies.sh" >&2
"$root/deploy/build.sh" label_party nonlabel_party centralized_baseline splitveil >&2

mkdir -p "$out"
if [ -e "$known" ]; then
  mkdir -p "$out/known"
  zcat -f "${inputs[@]}" | awk 'NF { print ++row ", " $0 }' >"$out/table.csv"
  inputs=("$out/table.csv")
  "$bin/splitveil" prepare --format=table --schema="$known" --party=nonlabel_party --input="$out/table.csv" --out="$out/known"
elif [ ${#inputs[@]} -eq 0 ]; then
  inputs=("$out/table.csv")
  "$bin/splitveil" generate --force --task="$name" --rows="${SPLITVEIL_DEMO_ROWS:-20000}" --seed=7 --schema_out="$schema" --out="$out/table.csv"
fi
"$bin/splitveil" prepare "${kind[@]}" "${inputs[@]/#/--input=}" --seed=7 --out="$out"
name_in() {
  sed -n 's/^ *own_name: *"\([^"]*\)".*/\1/p' "$here/$1.textproto"
}
[ -e "$out/certificates" ] || "$bin/splitveil" certificates --out="$out/certificates" \
  --label="$(name_in label_party)" --nonlabel="$(name_in nonlabel_party)"
if [ ! -e "$known" ] && ! grep -qs 'kind: *\(CLASS_LABEL\|TARGET\)' "$schema"; then
  # Both parties in one process, from the weights of each seed of the sweep: what the split costs is measured against it.
  for seed in $(sed -n 's/^seeds: \[\(.*\)\]$/\1/p' "$here/sweep.textproto" | tr -d ,); do
    echo "training in one process, seed $seed" >&2
    "$bin/centralized_baseline" --agreement="$here/run.textproto" --label_config="$here/label_party.textproto" \
      --nonlabel_config="$here/nonlabel_party.textproto" --threads=2 --seed="$seed"
  done | tee "$out/centralized_baseline.out"
fi
# The table's columns "test AUC" (of numbers "test R^2"), "frozen", "none" and "gain kept" are the three figures and the
# share.
"$bin/splitveil" sweep --config="$here/sweep.textproto" --out="$out/sweep" "${sweep_flags[@]}"
for further in "$here"/sweep.?*.textproto; do
  what=$(basename "${further%.textproto}")
  [ ! -e "$further" ] || "$bin/splitveil" sweep --config="$further" --out="$out/${what/./_}"
done
if grep -q 'disclosure: ORACLE' "$here/run.textproto" && ! grep -q early_stopping "$here/label_party.textproto"; then
  mkdir -p "$out/guarantee"
  grep -v -e 'disclosure: ORACLE' -e '# Research: ' -e 'attacks: COSINE' "$here/run.textproto" \
    >"$out/guarantee/run.textproto"
  cat >"$out/guarantee/sweep.textproto" <<END
agreement_path: "run.textproto"
label_config_path: "$here/label_party.textproto"
nonlabel_config_path: "$here/nonlabel_party.textproto"
gaussian_label_dp_max_run_auc_bound: [0.70]
$(grep '^seeds: ' "$here/sweep.textproto")
END
  "$bin/splitveil" sweep --config="$out/guarantee/sweep.textproto" --out="$out/sweep_guarantee"
fi
