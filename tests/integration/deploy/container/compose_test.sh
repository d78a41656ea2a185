#!/bin/bash
# docker-compose.yml on a real engine, twice in a row: built, healthy, trained, the report left in its volume. In the
# first round the non-label party is killed in mid-run and started again, in the second the label party is restarted.
# Usage: compose_test.sh SOURCE
# Needs root and DOCKER_ENGINE, a script that runs an engine for tests: `DOCKER_ENGINE start DIR` prints what to evaluate
# to reach it, `DOCKER_ENGINE base DIR` gives it debian:bookworm-slim, `DOCKER_ENGINE stop DIR` ends it. Its path:
# SPLITVEIL_DOCKER_ENGINE; skips (77) without. SPLITVEIL_DOCKER_FOLDER keeps the engine's folder, and its images.
set -euo pipefail
cd "${1:?SOURCE}"
engine=${SPLITVEIL_DOCKER_ENGINE:-}
[ -n "$engine" ] || { echo "skipped: SPLITVEIL_DOCKER_ENGINE names no script that runs a Docker engine"; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: an engine of its own needs root"; exit 77; }
readonly seconds_to_be_healthy=120 seconds_to_finish=900

fail() { echo "compose_test.sh: $*" >&2; exit 1; }

folder=${SPLITVEIL_DOCKER_FOLDER:-$(mktemp -d)}
compose=(docker-compose --project-name "splitveil-test-$$")
finish() {
  "${compose[@]}" down --volumes --timeout 5 >/dev/null 2>&1 || true
  [ -n "${SPLITVEIL_DOCKER_FOLDER:-}" ] || { "$engine" stop "$folder"; rm -rf --one-file-system "$folder"; }
}
trap finish EXIT
if [ -S "$folder/docker.sock" ]; then
  export DOCKER_HOST=unix://$folder/docker.sock
else
  eval "$("$engine" start "$folder" | grep '^export DOCKER_HOST=')"
fi
docker image inspect debian:bookworm-slim >/dev/null 2>&1 || "$engine" base "$folder" >/dev/null

state() { docker inspect -f "{{$2}}" "$1"; }

# wait_until SECONDS WHAT COMMAND...
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $deadline ] || fail "expected $what, found it not in time"
    sleep 0.5
  done
}

is_healthy() { [ "$(state "$1" .State.Health.Status)" = healthy ]; }
has_steps() { docker exec "$1" splitveil status --config=/demo/current.textproto 2>/dev/null | grep -q training; }
has_ended() { [ "$(state "$1" .State.Status)" = exited ]; }
is_hardened() {
  [ "$(state "$1" .HostConfig.ReadonlyRootfs)" = true ] && [ "$(state "$1" .HostConfig.CapDrop)" = '[ALL]' ] &&
    [ "$(state "$1" .Config.User)" = splitveil ] && [ "$(state "$1" .HostConfig.SecurityOpt)" = '[no-new-privileges:true]' ]
}

is_scraped() { docker exec "$1" promtool query instant http://127.0.0.1:9090 up | grep -q '=> 1 '; }

files_of() { docker cp "$1:/demo" - | tar -x --to-command='sha256sum | sed "s|-|$TAR_FILENAME|"' | grep -v -e report.html | sort; }

# up_again LABEL_PARTY NONLABEL_PARTY SERVICE...: what `up` on a finished stack must leave as it is, the account included.
up_again() {
  files_of "$1" >"$folder/before"
  grep -q 'labels.account.db$' "$folder/before" || fail "expected a privacy account in the label party's volume"
  "${compose[@]}" up -d "${@:3}"
  wait_until $seconds_to_be_healthy "the end of the label party" has_ended "$1"
  wait_until $seconds_to_be_healthy "the end of the non-label party" has_ended "$2"
  files_of "$1" | cmp - "$folder/before" || fail "expected the files of the finished run after another up"
}

# served: with the profile added, the trained model is stored and served, and served again by a new container.
served() {
  local serving
  for _ in first again; do
    "${compose[@]}" up -d --force-recreate --no-deps label_party_serve nonlabel_party_serve
    serving=$("${compose[@]}" ps -q label_party_serve)
    is_hardened "$serving" || fail "expected a container without rights, found $(state "$serving" .HostConfig)"
    wait_until $seconds_to_be_healthy "a healthy server" is_healthy "$serving"
  done
  docker exec "$serving" test -d /demo/versions/1 -a ! -e /demo/versions/2 || fail "expected one version of the model"
  wait_until $seconds_to_be_healthy "a healthy live server" is_healthy "$("${compose[@]}" ps -q nonlabel_party_serve)"
  "${compose[@]}" rm --force --stop label_party_serve nonlabel_party_serve
}

# round HOW PARTY SERVICE...: how the container of PARTY is restarted in mid-run.
round() {
  local how=$1 label_party nonlabel_party restarted container
  "${compose[@]}" up -d "${@:3}"
  label_party=$("${compose[@]}" ps -a -q label_party)
  nonlabel_party=$("${compose[@]}" ps -a -q nonlabel_party)
  for container in "$label_party" "$nonlabel_party"; do
    is_hardened "$container" || fail "expected a container without rights, found $(state "$container" .HostConfig)"
    wait_until $seconds_to_be_healthy "a healthy container" is_healthy "$container"
  done
  if [ $# -gt 2 ]; then
    wait_until $seconds_to_be_healthy "figures in Prometheus" is_scraped "$("${compose[@]}" ps -q prometheus)"
  fi
  restarted=${!2}
  wait_until $seconds_to_be_healthy "training" has_steps "$restarted"
  case $how in
    kill) docker kill "$restarted" >/dev/null && docker start "$restarted" >/dev/null ;;
    restart) docker restart "$restarted" >/dev/null ;;
  esac
  for container in "$label_party" "$nonlabel_party"; do
    wait_until $seconds_to_finish "the end of the run" has_ended "$container"
    [ "$(state "$container" .State.ExitCode)" -eq 0 ] || { docker logs --tail 30 "$container" >&2; fail "expected exit 0"; }
  done
  docker logs "$label_party" >"$folder/label_party.out" 2>"$folder/label_party.err"
  docker logs "$nonlabel_party" >"$folder/nonlabel_party.out" 2>"$folder/nonlabel_party.err"
  [ "$(grep -c '^RESULT ' "$folder/label_party.out")" -eq 3 ] || fail "expected three RESULT lines in $folder/label_party.out"
  docker cp "$label_party:/demo/report.html" "$folder/report.html"
  grep -q '</html>' "$folder/report.html" || fail "expected a whole report"
  grep -q 'INFO continues ' "$folder/$2.err" || fail "expected a run that resumes in $folder/$2.err"
  up_again "$label_party" "$nonlabel_party" "${@:3}"
  [ $# -eq 2 ] || served
  "${compose[@]}" down --volumes --timeout 5
  echo "round done: $how $2"
}

"${compose[@]}" build prepare prometheus >"$folder/build.log" 2>&1 || { tail -n 50 "$folder/build.log"; exit 1; }
size=$(docker image inspect -f '{{.Size}}' splitveil)
[ "$size" -lt 1000000000 ] || fail "expected an image below 1 GB, found $size bytes"
echo "image: $size bytes"
round kill nonlabel_party
round restart label_party label_party nonlabel_party prometheus
