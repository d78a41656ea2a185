#!/bin/bash
# Five days of data in sequence: each is predicted by the model of the day before, then trained on: without protection,
# with noise to the largest norm, with isotropic noise and with Marvell (Li et al. 2021, section 5.4 and Figure 4).
# Usage: stream_demo.sh [--data=FILE] [--out=DIR]
#   --data=FILE  Criteo's click logs, cut into five days of equally many rows (plain or .gz). Default: generated data
#   --out=DIR    data, runs, stream.csv, report.html. Default: out/stream. Finished parts are not repeated
# Prints the path of the report on standard output. A day has SPLITVEIL_DEMO_ROWS generated rows, 20000 by default.
set -euo pipefail
root=$(realpath "$(dirname "$(realpath "$0")")/..")
data='' out=$root/out/stream
for argument in "$@"; do
  case $argument in
    --data=?*) data=$(realpath -m "${argument#*=}") ;;
    --out=?*) out=$(realpath -m "${argument#*=}") ;;
    --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "stream_demo.sh: error: unknown argument $argument: use --data=FILE, --out=DIR or --help" >&2; exit 2 ;;
  esac
done
[ -z "$data" ] || [ -r "$data" ] || { echo "stream_demo.sh: error: --data: no readable file $data" >&2; exit 2; }
readonly root data out days=5
readonly bin=$root/build/bin templates=$root/deploy/demo

say() { printf '%s\n' "$@" >&2; }

# rows: prints the rows of the data, unpacked if necessary.
rows() {
  case $data in
    *.gz) gzip -dc "$data" ;;
    *) cat "$data" ;;
  esac
}

# make_day DAY: writes the day's rows and both parties' prepared data, which extend those of the day before.
make_day() {
  local day=$1 folder=$out/day$1 extend=()
  [ -e "$folder/label_party.data" ] && return
  mkdir -p "$folder"
  if [ -z "$data" ]; then
    "$bin/splitveil" generate --force --rows="${SPLITVEIL_DEMO_ROWS:-20000}" --seed="$((100 + day))" --out="$folder/rows.tsv"
  else
    local all each
    all=$(rows | wc -l)
    each=$((all / days))
    rows | sed -n "$(((day - 1) * each + 1)),$((day * each))p" >"$folder/rows.tsv"
  fi
  [ "$day" -eq 1 ] || extend=(--extend="$out/day$((day - 1))")
  "$bin/splitveil" prepare --format=criteo --input="$folder/rows.tsv" --out="$folder" --seed="$day" --test_fraction=0 --validation_fraction=0 \
    "${extend[@]}"
  rm "$folder/rows.tsv"
}

mkdir -p "$out"
say "Splitveil, day by day. Results: $out"
"$root/deploy/install_dependencies.sh" >&2
"$root/deploy/build.sh" label_party nonlabel_party splitveil >&2
for ((day = 1; day <= days; ++day)); do make_day "$day" >&2; done
[ -d "$out/certificates" ] || {
  mkdir "$out/certificates"
  "$bin/splitveil" certificates --out="$out/certificates" --label=label-party.splitveil.example \
    --nonlabel=nonlabel-party.splitveil.example >&2
}
"$templates/write_configs.sh" "$out" none 127.0.0.1:0 127.0.0.1:1 127.0.0.1:0
for file in run label_party nonlabel_party; do
  # Small batches, because few days with few rows would otherwise give few steps.
  sed -e 's|^run_name: .*|run_name: "stream"|' -e 's|^epochs: .*|epochs: 1|' -e 's|^batch_size: .*|batch_size: 256|' \
    -e '/auxiliary_labels/d' "$out/none.$file.textproto" >"$out/stream.$file.textproto"
  rm "$out/none.$file.textproto"
done
cp "$templates/stream.textproto" "$out/stream.textproto"
"$bin/splitveil" stream --config="$out/stream.textproto" --out="$out"
