#!/bin/bash
# The whole of Splitveil on one machine: two processes align their ids and train one model over mutual TLS: without
# protection, with Marvell, with noised labels and, as a baseline, frozen. They measure how much of the labels leaks.
# Usage: demo.sh [--data=FILE] [--out=DIR]
#   --data=FILE  Criteo's click logs (label<TAB>I1..I13<TAB>C1..C26, plain or .gz). Default: generated data
#   --out=DIR    ledgers, logs, report.html, audit.*.html. Default: out/demo
# Prints one line `RESULT {json}` per run, except the baseline, on standard output; the rest goes to standard error.
# Fails unless exactly the run with noised labels meets deploy/demo/guarantee.textproto.
set -euo pipefail
root=$(realpath "$(dirname "$(realpath "$0")")/..")
data='' out=$root/out/demo
for argument in "$@"; do
  case $argument in
    --data=?*) data=$(realpath -m "${argument#*=}") ;;
    --out=?*) out=$(realpath -m "${argument#*=}") ;;
    --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo.sh: error: unknown argument $argument: use --data=FILE, --out=DIR or --help" >&2; exit 2 ;;
  esac
done
[ -z "$data" ] || [ -r "$data" ] || { echo "demo.sh: error: --data: no readable file $data" >&2; exit 2; }
readonly root data out
readonly bin=$root/build/bin logs=$out/logs
mkdir -p "$logs"

say() { printf '%s\n' "$@" >&2; }

children=()
# Ends this script's own children that still run: SIGTERM first, after 10 s SIGKILL.
cleanup() {
  local child
  [ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true
  for child in "${children[@]}"; do
    timeout 10 tail --pid="$child" -s 0.1 -f /dev/null || kill -KILL "$child" 2>/dev/null || true
  done
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# fail NAME CODE: shows the last lines of logs/NAME.log and exits with CODE.
fail() {
  say "" "$1 failed with exit code $2; the last lines of $logs/$1.log:"
  tail -n 15 "$logs/$1.log" | sed 's/^/    /' >&2
  exit "$2"
}

# Prints ninja's progress in steps of 10%.
tenths() {
  awk -F'[][/]' '/^\[[0-9]+\/[0-9]+\]/ { tenth = int(10 * $2 / $3)
    if (tenth > last && $3 > 20) { printf "%d%% ", 10 * tenth; fflush(); last = tenth } }' >&2
}

# quietly NAME TEXT COMMAND...: runs COMMAND with its output in logs/NAME.log; prints TEXT, then the seconds it took.
quietly() {
  local name=$1 started=$SECONDS code=0
  printf '%-44s ' "$2" >&2
  "${@:3}" </dev/null 2>&1 | tee "$logs/$name.log" | tenths || code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || fail "$name" "$code"
  say "$((SECONDS - started)) s"
}

# A free port on the loopback interface, below the range of the kernel's ephemeral ports.
free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

# start RUN PARTY: runs one party in the background.
start() {
  : >"$logs/$1.$2.log"  # Must exist before `tail` follows it.
  "$bin/$2" --agreement="$out/$1.run.textproto" --config="$out/$1.$2.textproto" \
    >"$logs/$1.$2.out" 2>"$logs/$1.$2.log" </dev/null &
  children+=($!)
}

# train RUN: runs both parties to the end and shows the label party's progress.
train() {
  local run=$1 address label follower ended code
  address=127.0.0.1:$(free_port)
  "$root/deploy/demo/write_configs.sh" "$out" "$run" "$address" "$address" 127.0.0.1:0
  rm -f "$out/$run".*.db* "$out/$run".*.checkpoint* "$logs/$run".*
  children=()
  start "$run" label_party
  label=$!
  tail -n +1 -s 0.2 -f --pid="$label" "$logs/$run.label_party.log" 2>/dev/null | sed -u 's/^/    /' >&2 &
  follower=$!
  start "$run" nonlabel_party
  # The party that fails first is the cause; the second only reports a lost peer.
  while [ ${#children[@]} -gt 0 ]; do
    code=0
    wait -n -p ended "${children[@]}" || code=$?
    if [ "$code" -ne 0 ]; then
      [ "$ended" = "$label" ] && fail "$run.label_party" "$code"
      fail "$run.nonlabel_party" "$code"
    fi
    mapfile -t children < <(printf '%s\n' "${children[@]}" | grep -vx "$ended")
  done
  wait "$follower" || true
  grep -q '^RESULT ' "$logs/$run.label_party.out" || {
    say "" "the label party printed no RESULT line: $logs/$run.label_party.out"
    exit 1
  }
}

say "Splitveil demo. Results: $out"
quietly install "Installing what is missing" "$root/deploy/install_dependencies.sh"
quietly build "Building (minutes, the first time)" "$root/deploy/build.sh" label_party nonlabel_party splitveil
quietly data "Splitting the data, making certificates" "$root/deploy/demo/prepare_data.sh" "$bin" "$out" "$data"
grep -i 'auc' "$logs/data.log" | sed 's/^/    /' >&2 || true
say "Training without protection"
train none
say "Training with the bottom model frozen at its start: no gradient is sent"
train frozen
say "Training with Marvell, s = 4"
train marvell
say "Training with noise on the labels: a proved bound of AUC 0.7"
train gaussian_label_dp
quietly report "Writing the report" "$bin/splitveil" report --ledger="$out/none.label_party.db" \
  --ledger="$out/marvell.label_party.db" --ledger="$out/gaussian_label_dp.label_party.db" \
  --ledger="$out/frozen.label_party.db" --out="$out/report.html"
# audit RUN POLICY PAGE [FLAG]: judges a run by deploy/demo/POLICY.textproto and writes PAGE; sets `verdict` to the audit's exit
# code. 10, policy not met, is a valid result here.
audit() {
  verdict=0
  "$bin/splitveil" audit --ledger="$out/$1.label_party.db" --policy="$root/deploy/demo/$2.textproto" \
    --report="$out/$3" "${@:4}" >"$logs/audit.$1.$2.log" 2>&1 || verdict=$?
  [ "$verdict" -eq 0 ] || [ "$verdict" -eq 10 ] || fail "audit.$1.$2" "$verdict"
}
audit marvell policy audit.marvell.html
say "" "The run with Marvell, judged by deploy/demo/policy.textproto (leaks: 0.5 is nothing, 1 is every label). If it fails,"
say "deploy/examples/criteo/README.md says why and what helps: \"Where the bound is exceeded\"."
sed 's/^/    /' "$logs/audit.marvell.policy.log" >&2

# said RUN KEY: the value of KEY in the run's audit log, or a dash.
said() { sed -n "s/^$2: //p" "$logs/audit.$1.guarantee.log" | grep . || echo -; }
say "" "Which run keeps a promise against everybody? All three, judged by deploy/demo/guarantee.textproto: a proved bound of"
say "AUC 0.70 on what the whole run reveals about a label, and no attack that exceeds it. Strongest: the strongest attack on"
say "the gradients, AUC. Worst case: an adversary that knows the model."
printf '    %-18s %-10s %-11s %-20s %-8s %-10s %s\n' run strongest 'worst case' verdict policy 'exit code' bound >&2
verdicts=
for run in none marvell gaussian_label_dp; do
  audit $run guarantee audit.$run.guarantee.html --verbose
  verdicts+=${verdicts:+, }$verdict
  met='not met'
  [ "$verdict" -ne 0 ] || met=met
  printf '    %-18s %-10s %-11s %-20s %-8s %-10s %s\n' $run "$(said $run 'strongest attack on gradients' | sed 's/.*AUC //')" \
    "$(said $run 'worst case measured' | sed 's/.*AUC //')" "$(said $run verdict)" "$met" "$verdict" "$(said $run bound)" >&2
done
say "Guaranteed: proved, and no attack exceeds it. Broken: an attack exceeds the bound. Nothing claimed: there is no bound."
say "Strongest and worst case are measured, so an attack exceeds a bound only if it does so by more than chance."
say "Why, criterion by criterion: $logs/audit.RUN.guarantee.log"
if [ "$verdicts" != '10, 10, 0' ]; then
  say "" "demo.sh: error: $root/deploy/demo/guarantee.textproto: only gaussian_label_dp should meet it (exit codes 10, 10, 0), but the audits ended with $verdicts"
  say "Criteria that the run with noised labels does not meet:"
  grep '^FAIL' "$logs/audit.gaussian_label_dp.guarantee.log" | sed 's/^/    /' >&2 || say "    none: a different run meets it, but should not"
  exit 1
fi
# figure RUN: its best test AUC.
figure() { sed -n 's/^RESULT .*"test_auc":\([0-9.]*\).*/\1/p' "$logs/$1.label_party.out"; }
say "" "What training the bottom model gains, in test AUC, and the share (AUC - frozen) / (none - frozen) kept; one run each:"
for run in marvell gaussian_label_dp; do
  awk -v run=$run -v auc="$(figure $run)" -v frozen="$(figure frozen)" -v none="$(figure none)" 'BEGIN {
    share = none > frozen ? sprintf("%.0f%% of the gain kept", 100 * (auc - frozen) / (none - frozen)) : "no gain to keep"
    printf "    %-18s %.4f; frozen %.4f, none %.4f: %s\n", run, auc, frozen, none, share }' >&2
done
say "" "Open $out/report.html in a browser: the three runs, in words and charts. Their figures, one line of JSON per run:"
grep -h '^RESULT ' "$logs/none.label_party.out" "$logs/marvell.label_party.out" "$logs/gaussian_label_dp.label_party.out"
