#!/bin/bash
# deploy/examples/train.sh with a folder of the user's own, somewhere else. Usage: train_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source=$1 bin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# The tree as train.sh sees it; what installs and compiles has been done.
tree=$scratch/tree
mkdir -p "$tree/deploy/examples" "$tree/build"
cp "$source/deploy/examples/train.sh" "$tree/deploy/examples"
for done in install_dependencies build; do
  printf '#!/bin/bash\n' >"$tree/deploy/$done.sh"
  chmod +x "$tree/deploy/$done.sh"
done
ln -s "$bin" "$tree/build/bin"
train=$tree/deploy/examples/train.sh

# What a user would copy from an example and change: names, paths, the split, what to compare.
mine="$scratch/somewhere else/mine"
mkdir -p "$mine"
awk 'BEGIN {
  print "id,age,town,visits,spent,bought"
  for (i = 1; i <= 2000; ++i) print "c" i "," 20 + i % 50 ",t" i % 7 "," i % 11 "," i % 13 "," (i % 50 + i % 13 > 30)
}' >"$scratch/table.csv"
cat >"$mine/schema.textproto" <<END
columns { name: "id" kind: ID }
columns { name: "age" kind: NUMERIC holder: NONLABEL_PARTY }
columns { name: "town" kind: CATEGORICAL holder: NONLABEL_PARTY }
columns { name: "visits" kind: NUMERIC holder: NONLABEL_PARTY }
columns { name: "spent" kind: NUMERIC holder: LABEL_PARTY }
columns { name: "bought" kind: LABEL }
END
for party in label_party nonlabel_party; do
  sed -e 's|../../../out/adult/|out/|' -e 's/\.splitveil\.example/.mine.example/' \
    "$source/deploy/examples/adult/$party.textproto" >"$mine/$party.textproto"
done
sed -e 's/^epochs: .*/epochs: 1/' -e 's/^test_fraction: .*/test_fraction: 0.2/' \
  -e 's/^validation_fraction: .*/validation_fraction: 0.05\nsplit_salt: "of mine"/' \
  "$source/deploy/examples/adult/run.textproto" >"$mine/run.textproto"
cat >"$mine/sweep.textproto" <<END
agreement_path: "run.textproto"
label_config_path: "label_party.textproto"
nonlabel_config_path: "nonlabel_party.textproto"
protection { name: "none" config { none {} } }
seeds: [1]
END

# What is missing or wrong is said before anything is done.
refused() {
  local expected=$1 code=0
  shift
  "$train" "$@" >"$scratch/out.log" 2>"$scratch/err.log" || code=$?
  if [ "$code" -ne 2 ] || ! grep -qF -- "$expected" "$scratch/err.log"; then
    fail "train.sh $*: expected exit 2 and \"$expected\", found $code and: $(cat "$scratch/err.log")"
  fi
  [ ! -e "$mine/out" ] || fail "train.sh $*: expected nothing written, found $mine/out"
}
refused "Usage: train.sh"
refused "Usage: train.sh" no_such_example "$scratch/table.csv"
refused "Usage: train.sh" "$mine"
mv "$mine/sweep.textproto" "$scratch"
refused "$mine has no sweep.textproto" "$mine" "$scratch/table.csv"
mv "$scratch/sweep.textproto" "$mine"

# By a relative path, from another folder.
cd "$scratch/somewhere else"
"$train" mine "$scratch/table.csv" >"$scratch/out.log" 2>&1 || fail "train.sh mine: $(tail -20 "$scratch/out.log")"
for file in label_party.data nonlabel_party.data certificates/label_party.pem sweep/sweep.csv sweep/tradeoff.html \
  sweep_guarantee/sweep.csv centralized_baseline.out; do
  [ -s "$mine/out/$file" ] || fail "expected $mine/out/$file, found none"
done
[ ! -e "$tree/out" ] || fail "expected results in the user's folder alone, found $tree/out"
grep -q '^none' "$mine/out/sweep/sweep.csv" || fail "sweep.csv: expected a row of none, found: $(cat "$mine/out/sweep/sweep.csv")"
grep -q 'gaussian_label_dp' "$mine/out/sweep_guarantee/sweep.csv" ||
  fail "sweep_guarantee: expected noised labels, found: $(cat "$mine/out/sweep_guarantee/sweep.csv")"
