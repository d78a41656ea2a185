#!/bin/bash
# What continuous integration checks besides the tests: structure and format of the sources, clang-tidy, Clang's
# thread-safety analysis, libFuzzer for some seconds per target, AddressSanitizer with UndefinedBehaviorSanitizer on the
# unit and fuzz tests, ThreadSanitizer on tests with several threads. Installs what is missing. Runs every stage, prints
# its seconds, and exits with 1 if one failed. CONTRIBUTING.md says how to run them one by one.
# Usage: check.sh [stage...]     stages: structure format tidy thread-safety fuzz asan tsan; default: all
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/.."

# Most seconds for clang-tidy if few files are known to be clean. The next run continues.
readonly tidy_seconds=${SPLITVEIL_TIDY_SECONDS:-900}
# Most seconds from the start of this script until the sanitizer builds must be done; empty: no limit. The next run
# continues from the compiler cache.
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
    [ "$sanitizer_seconds" -gt "$SECONDS" ] || { echo "SKIPPED: no time to build it"; return 0; }
    limit=(timeout $((sanitizer_seconds - SECONDS)))
  fi
  "${limit[@]}" deploy/build.sh --preset="$1" </dev/null >"$log" 2>&1 || status=$?
  if [ -n "$sanitizer_seconds" ] && [ $status -eq 124 ]; then
    echo "SKIPPED: not built within $((SECONDS - start)) s; the next run continues from here"
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
    *) echo "check.sh: unknown stage $stage: use one of ${all_stages[*]}" >&2; exit 2 ;;
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
