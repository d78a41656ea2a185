#!/bin/bash
# Trains one of the examples under the protections of its sweep.textproto; without protection and with the bottom model
# frozen at its start, to say which share of what training gains each protection keeps; and, of two classes, the same
# model in one process for comparison. Leaves out/NAME/sweep/{sweep.csv,tradeoff.html} and both parties' prepared data.
# Where the example's agreement discloses an oracle to the attacks, which no guarantee leaves room for, a second sweep goes
# without it and takes noise on the labels: out/NAME/sweep_guarantee. Further sweeps of an example (sweep.WHAT.textproto)
# go to out/NAME/sweep_WHAT. Several classes, and a number to be predicted, come from generated data: SPLITVEIL_DEMO_ROWS rows,
# 20000 by default.
# The other direction, sensitive attributes in the activations: adult_sex and adult_relationship compare protections of the
# activations. Attacks need to know whose attribute they know, so the rows of Adult, which has no ids, are numbered.
# Usage: train.sh criteo|criteo_deep|avazu|adult|credit_default INPUT...     train.sh isic TABLE.csv IMAGES.bin.gz
#        train.sh adult_sex|adult_relationship INPUT...     train.sh multi_class|regression
set -euo pipefail
usage() {
  sed -n '/^# Usage: /,/^set /{s/^# //p}' "$0" >&2
  exit 2
}
[ $# -ge 1 ] || usage
name=$1 input=${2:-}
root=$(realpath "$(dirname "$(realpath "$0")")/../..")
here=$root/deploy/examples/$name out=$root/out/$name bin=$root/build/bin
table=(--format=table --schema="$here/schema.textproto") sweep_flags=()
case $name in
  multi_class | regression)
    [ $# -eq 1 ] || usage
    inputs=("$out/table.csv") kind=(--format=table --schema="$out/schema.textproto")
    sweep_flags=(--debit_account) # Nobody's labels: what the account counts of them costs nobody.
    ;;
  *) [ $# -ge 2 ] || usage ;;&
  criteo | avazu) inputs=("${@:2}") kind=(--format="$name") ;;
  criteo_deep | adult | credit_default) inputs=("${@:2}") kind=("${table[@]}") ;;
  adult_sex | adult_relationship)
    inputs=("$out/table.csv")
    kind=("${table[@]}" --test_fraction=0.142857143 --auxiliary_fraction=0.285714286) # As in run.textproto.
    ;;
  isic)
    [ $# -eq 3 ] || usage
    inputs=("$input") kind=("${table[@]}" --images="$3" --test_fraction=0.2)
    ;;
  *) usage ;;
esac
"$root/deploy/install_dependencies.sh" >&2
"$root/deploy/build.sh" label_party nonlabel_party centralized_baseline splitveil >&2

known=$here/known.schema.textproto # What the label party knows of the attributes.
if [ -e "$known" ]; then
  mkdir -p "$out/known"
  zcat -f "${@:2}" | awk 'NF { print ++row ", " $0 }' >"$out/table.csv"
  "$bin/splitveil" prepare --format=table --schema="$known" --party=nonlabel_party "${inputs[@]/#/--input=}" --out="$out/known"
elif [ $# -eq 1 ]; then
  mkdir -p "$out"
  "$bin/splitveil" generate --task="$name" --rows="${SPLITVEIL_DEMO_ROWS:-20000}" --seed=7 --schema_out="$out/schema.textproto" --out="${inputs[0]}"
fi
"$bin/splitveil" prepare "${kind[@]}" "${inputs[@]/#/--input=}" --validation_fraction=0 --seed=7 --out="$out"
[ -e "$out/certificates" ] || "$bin/splitveil" certificates --out="$out/certificates" \
  --label=label-party.splitveil.example --nonlabel=nonlabel-party.splitveil.example
if [ $# -gt 1 ] && [ ! -e "$known" ]; then
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
