#!/bin/bash
# What continuous integration checks besides running the tests: the sources' structure and format, clang-tidy, Clang's
# thread-safety analysis, libFuzzer for some seconds a target, AddressSanitizer with UndefinedBehaviorSanitizer over the
# unit and fuzz tests, ThreadSanitizer over the tests that run several threads. Installs what is missing. Runs every
# stage, prints its seconds, and exits 1 if one failed. CONTRIBUTING.md says how to run them one by one.
# Usage: check.sh [stage...]     stages: structure format tidy thread-safety fuzz asan tsan; default: all
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/.."

# What clang-tidy may take where little is known to be clean. It goes on in the next run.
readonly tidy_seconds=${SPLITVEIL_TIDY_SECONDS:-900}
# What building for sanitizers may take, both together from the start of this script; empty: as long as it takes. What
# has been compiled by then is in the compiler cache, and the next run goes on from there.
readonly sanitizer_seconds=${SPLITVEIL_SANITIZER_SECONDS:-}
readonly all_stages=(structure format tidy thread-safety fuzz asan tsan)
TIMEFORMAT='%R s, CPU %U s + %S s'
failed=()

structure() {
  bash tests/unit/structure/check_structure_test.sh && bash tests/unit/structure/check_structure.sh .
}

format() {
  git ls-files -z '*.h' '*.cc' | xargs -0 -n 100 clang-format --dry-run --Werror
}

# The generated messages, without which Clang cannot read the sources.
messages() {
  deploy/build.sh splitveil_proto >"$log" 2>&1 || { cat "$log"; return 1; }
}

tidy() {
  messages && deploy/check_clang.py tidy --seconds="$tidy_seconds"
}

thread-safety() {
  messages && deploy/check_clang.py thread-safety
}

# sanitize PRESET: builds its tests and runs them.
sanitize() {
  local start=$SECONDS status=0 limit=()
  if [ -n "$sanitizer_seconds" ]; then
    [ "$sanitizer_seconds" -gt "$SECONDS" ] || { echo "LEFT OUT: no time is left to build it"; return 0; }
    limit=(timeout $((sanitizer_seconds - SECONDS)))
  fi
  "${limit[@]}" deploy/build.sh --preset="$1" </dev/null >"$log" 2>&1 || status=$?
  if [ -n "$sanitizer_seconds" ] && [ $status -eq 124 ]; then
    echo "LEFT OUT: not built within $((SECONDS - start)) s; the next run goes on with what is compiled now"
    return 0
  fi
  [ $status -eq 0 ] || { tail -n 100 "$log"; return 1; }
  echo "built in $((SECONDS - start)) s"
  ctest --preset "$1" --parallel "$(nproc)" </dev/null >"$log" 2>&1 || { cat "$log"; return 1; }
  tail -n 15 "$log"
}

fuzz() { sanitize fuzz; }
asan() { sanitize asan; }
tsan() { sanitize tsan; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  case " ${all_stages[*]} " in
    *" $stage "*) ;;
    *) echo "check.sh: expected stages among ${all_stages[*]}, found $stage" >&2; exit 2 ;;
  esac
done
deploy/install_dependencies.sh --tests </dev/null || exit
for stage in "${stages[@]}"; do
  echo "== $stage"
  outcome=ok
  time "$stage" || outcome=FAILED
  [ $outcome = ok ] || failed+=("$stage")
  echo "== $stage: $outcome"
done
[ ${#failed[@]} -eq 0 ] || { echo "check.sh: failed: ${failed[*]}" >&2; exit 1; }
