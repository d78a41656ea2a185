#!/bin/bash
# check_page.sh SAMPLE_TRADEOFF: opens the trade-off pages it writes in headless Chromium, as a user would, and reads from
# the page's own account whether every chart was drawn, nothing overflows sideways and no planted script ran.
set -euo pipefail

sample_tradeoff=$1
source "$(dirname "$0")/../browser.sh"
"$sample_tradeoff" "$folder"

# What is done to a page before it is asked.
actions=

# The account a page gives of itself at a width, as name=value words. A frame, since a window has a least width.
account() {
  cat >"$folder/frame.html" <<HTML
<iframe src="$1" style="width:$2px;height:900px;border:0"></iframe>
<script>
onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  $actions
  const data = page.documentElement.dataset;
  setTimeout(() => {  // The fold's own event comes first.
    document.title = Object.entries(data).map(([name, value]) => name + "=" + value).join(" ");
  }, 100);
};
</script>
HTML
  browse --virtual-time-budget=2000 --dump-dom "file://$folder/frame.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

expect() {  # PAGE WIDTH POINTS CHARTS
  local found wanted
  found=$(account "$1" "$2")
  wanted="points=$3 charts=$4 statistic=${5:-p95} width=$2 blankCharts=0 overflow=0"
  if [ "$found" != "$wanted" ]; then fail "$1 at $2 px: expected \"$wanted\", found \"$found\""; fi
  if grep 'CONSOLE' "$folder/browser.log"; then fail "$1 at $2 px: the page complained on the console"; fi
}

for width in 1280 400; do
  # Two layers with two attacks, each against two figures; the third attack's charts wait under their fold.
  expect tradeoff.html "$width" 19 8
  expect single.html "$width" 1 0
  expect hostile.html "$width" 2 8
done
# As a reader would: opens the fold, switches to the mean.
actions='page.querySelector("#more").open = true; page.querySelector("input[value=mean]").click();'
for width in 1280 400; do expect tradeoff.html "$width" 19 12 mean; done

[ "$failures" -eq 0 ] && echo "eight pages as expected"
exit "$((failures > 0))"
