#!/bin/bash
# check_page.sh SAMPLE_REPORT: opens the reports it writes in headless Chromium, as a user would, and reads from the
# page's own account whether every chart was drawn, nothing overflows sideways and no planted script ran.
set -euo pipefail

sample_report=$1
browser=
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ]; then
  echo "SKIPPED: no Chromium (Debian: apt-get install chromium)"
  exit 77
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$sample_report" "$folder"
failures=0

fail() { echo "FAILED: $1"; failures=$((failures + 1)); }

# The account a page gives of itself at a width, as name=value words. A frame, since a window has a least width.
account() {
  cat >"$folder/frame.html" <<HTML
<iframe src="$1" style="width:$2px;height:900px;border:0"></iframe>
<script>
onload = () => {
  const data = document.querySelector("iframe").contentDocument.documentElement.dataset;
  document.title = Object.entries(data).map(([name, value]) => name + "=" + value).join(" ");
};
</script>
HTML
  timeout 90 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run \
    --user-data-dir="$folder/profile" --allow-file-access-from-files --enable-logging=stderr --window-size=1400,1000 \
    --dump-dom "file://$folder/frame.html" 2>"$folder/browser.log" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

expect() {  # PAGE WIDTH RUNS CHARTS
  local found wanted
  found=$(account "$1" "$2")
  wanted="runs=$3 charts=$4 width=$2 blankCharts=0 overflow=0"
  if [ "$found" != "$wanted" ]; then fail "$1 at $2 px: expected \"$wanted\", found \"$found\""; fi
  if grep 'CONSOLE' "$folder/browser.log"; then fail "$1 at $2 px: the page complained on the console"; fi
}

# Two layers with two attacks, four charts of quality, four of the protected run's noise.
for width in 1280 400; do expect report.html "$width" 2 12; done
# A run that has only begun, and one whose names are long and full of markup.
for width in 1280 400; do expect begun.html "$width" 1 0; done
for width in 1280 400; do expect hostile.html "$width" 1 12; done

[ "$failures" -eq 0 ] && echo "six pages as expected"
exit "$((failures > 0))"
