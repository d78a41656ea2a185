#!/bin/bash
# The demo through docker-compose.yml, on any Docker engine that can be reached: builds the images, runs both parties to
# the end, prints the RESULT lines, removes the stack, exits with the run's code. Usage: compose_demo.sh [--out=DIR]
#   --out=DIR    folder for report.html. Default: out/compose_demo
set -euo pipefail
root=$(realpath "$(dirname "$(realpath "$0")")/..")
out=$root/out/compose_demo
for argument in "$@"; do
  case $argument in
    --out=?*) out=$(realpath -m "${argument#*=}") ;;
    *) echo "compose_demo.sh: error: unknown argument $argument: use --out=DIR" >&2; exit 2 ;;
  esac
done
cd "$root"

if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  echo "compose_demo.sh: error: neither docker compose nor docker-compose is installed: install one of them" >&2
  exit 2
fi
docker info >/dev/null 2>&1 || {
  echo "compose_demo.sh: error: no Docker engine at ${DOCKER_HOST:-the default socket}: start it, or set DOCKER_HOST" >&2
  exit 2
}
compose+=(--project-name "splitveil-demo-$$")

log_of() { "${compose[@]}" logs --no-color --tail="${2:-all}" "$1"; }

trap '"${compose[@]}" down --volumes --timeout 5 >&2 || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"${compose[@]}" build >&2
"${compose[@]}" up -d >&2 || { code=$?; log_of prepare 30 >&2; exit $code; }
label_party=$("${compose[@]}" ps -a -q label_party)
nonlabel_party=$("${compose[@]}" ps -a -q nonlabel_party)

docker logs -f "$label_party" 2>&1 | grep --line-buffered -v '^RESULT ' >&2 || true
code=$(docker wait "$label_party")
nonlabel_code=$(docker wait "$nonlabel_party")
if [ "$code" -eq 0 ]; then
  code=$nonlabel_code
fi
if [ "$code" -eq 0 ]; then
  mkdir -p "$out"
  docker cp "$label_party:/demo/report.html" "$out/report.html" >/dev/null && echo "Report: $out/report.html" >&2
  docker logs "$label_party" 2>/dev/null | grep '^RESULT '
else
  log_of nonlabel_party 15 >&2
fi
exit "$code"
