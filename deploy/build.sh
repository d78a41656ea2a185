#!/bin/bash
# Builds Splitveil, Release, into build/. Usage: build.sh [--preset=NAME] [target...]
# Default: everything, or the targets of the preset in CMakePresets.json.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

# A source that includes LibTorch needs up to 1.5 GB, so the number of jobs depends on cores and memory.
jobs_for_machine() {
  local memory_kib limit jobs
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [ "$limit" != max ] && [ $((limit / 1024)) -lt "$memory_kib" ]; then
    memory_kib=$((limit / 1024))
  fi
  jobs=$((memory_kib / (1536 * 1024)))
  [ "$jobs" -le "$(nproc)" ] || jobs=$(nproc)
  [ "$jobs" -ge 1 ] || jobs=1
  echo "$jobs"
}

preset=release
case ${1:-} in --preset=*) preset=${1#--preset=}; shift ;; esac
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(jobs_for_machine)" ${1:+--target "$@"}
