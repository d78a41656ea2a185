#!/bin/bash
# Makes the README's picture, deploy/report.png: the first screen of the demo's report. Needs Chromium.
# Usage: report_picture.sh [--report=FILE] [--out=FILE]
#   --report=FILE  a report of `splitveil report`. Default: out/demo/report.html, which deploy/demo.sh writes
#   --out=FILE     the picture. Default: deploy/report.png
set -euo pipefail
root=$(realpath "$(dirname "$(realpath "$0")")/..")
report=$root/out/demo/report.html out=$root/deploy/report.png
for argument in "$@"; do
  case $argument in
    --report=?*) report=$(realpath -m "${argument#*=}") ;;
    --out=?*) out=$(realpath -m "${argument#*=}") ;;
    --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "report_picture.sh: error: $argument is not an option: use --report=FILE, --out=FILE or --help" >&2; exit 2 ;;
  esac
done
fail() { echo "report_picture.sh: error: $1" >&2; exit "$2"; }
[ -r "$report" ] || fail "$report cannot be read: run deploy/demo.sh first, or name a report with --report=FILE" 2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  fail "Chromium is not installed: apt-get install chromium" 1

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# A light page, 1280 pixels wide, as someone sees it who opens it; smaller, since a README has fewer.
"$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --user-data-dir="$profile" --blink-settings=preferredColorScheme=1 \
  --hide-scrollbars --virtual-time-budget=8000 --window-size=1280,756 --force-device-scale-factor=0.7 \
  --screenshot="$profile/report.png" "file://$report" >"$profile/log" 2>&1 || fail "Chromium failed: $(tail -n 1 "$profile/log")" 1
[ -s "$profile/report.png" ] || fail "Chromium made no picture: $(tail -n 1 "$profile/log")" 1
bytes=$(stat -c %s "$profile/report.png")
[ "$bytes" -lt 150000 ] || fail "the picture has $bytes bytes, but a README's may have at most 150000" 1
mv "$profile/report.png" "$out"
echo "$out"
