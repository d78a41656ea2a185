#!/bin/bash
# Writes each party's data and certificate. Usage: prepare_data.sh BIN OUT [CRITEO_FILE]
# Without CRITEO_FILE, data in Criteo's format are generated. Writes OUT/{label,nonlabel}_party.data and OUT/certificates/.
set -euo pipefail
bin=${1:?BIN} out=${2:?OUT} data=${3:-}
rm -rf "$out/certificates"  # From an earlier demo: `certificates` overwrites nothing.
mkdir -p "$out/certificates"
if [ -z "$data" ]; then
  data=$out/generated.tsv
  "$bin/splitveil" generate --force --rows="${SPLITVEIL_DEMO_ROWS:-70000}" --seed=7 --out="$data"
fi
"$bin/splitveil" prepare --format=criteo --input="$data" --out="$out" --seed=7
"$bin/splitveil" certificates --out="$out/certificates" \
  --label=label-party.splitveil.example --nonlabel=nonlabel-party.splitveil.example
