#!/bin/bash
# check_page.sh SAMPLE_REPORT: opens the reports it writes in headless Chromium, as a user would: on a wide and on a
# narrow screen, with everything folded out, and on paper. Reads from the page's own account whether every chart was
# drawn, no text covers another or sticks out of its panel, nothing overflows sideways and no planted script ran; prints
# each to PDF; and spoils one page to see that the account tells.
set -euo pipefail

sample_report=$1
source "$(dirname "$0")/../browser.sh"
"$sample_report" "$folder"

# The account a page gives of itself at a width, as name=value words. A frame, since a window has a least width. MODE:
# "screen" as it opens; "open" with every fold open; "paper" under the style sheet of paper, after the event that comes
# before printing. SPOIL: a style put in first.
account() {  # PAGE WIDTH MODE [SPOIL]
  cat >"$folder/frame.html" <<HTML
<iframe src="$1" style="width:$2px;height:900px;border:0"></iframe>
<script>
onload = () => {
  const { contentDocument: page, contentWindow: view } = document.querySelector("iframe");
  const spoil = "${4:-}";
  if (spoil) page.styleSheets[0].insertRule(spoil, page.styleSheets[0].cssRules.length);
  if ("$3" === "open") page.querySelectorAll("details").forEach((details) => { details.open = true; });
  if ("$3" === "paper") {
    for (const rule of page.styleSheets[0].cssRules) {
      if (rule instanceof view.CSSMediaRule && rule.media.mediaText === "print") rule.media.mediaText = "all";
    }
    view.dispatchEvent(new Event("beforeprint"));
  }
  view.dispatchEvent(new Event("account"));
  document.title = Object.entries(page.documentElement.dataset).map(([name, value]) => name + "=" + value).join(" ");
};
</script>
HTML
  browse --dump-dom "file://$folder/frame.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

expect() {  # PAGE WIDTH MODE RUNS CHARTS
  local found wanted
  found=$(account "$1" "$2" "$3")
  wanted="runs=$4 charts=$5 width=$2 blankCharts=0 clippedCharts=0 overflow=0 overlaps=0 spilled=0 faults="
  if [ "$found" != "$wanted" ]; then fail "$1 at $2 px, $3: expected \"$wanted\", found \"$found\""; fi
  if grep 'CONSOLE' "$folder/browser.log"; then fail "$1 at $2 px, $3: the page complained on the console"; fi
}

expect_everywhere() {  # PAGE RUNS CHARTS. 718 px: A4 at 96 dots an inch less the margins.
  local width pages
  for width in 1280 400; do
    expect "$1" "$width" screen "$2" "$3"
    expect "$1" "$width" open "$2" "$3"
  done
  expect "$1" 718 paper "$2" "$3"
  browse --no-pdf-header-footer --print-to-pdf="$folder/page.pdf" "file://$folder/$1" >/dev/null || true
  pages=$(grep -ac '/Type /Page$' "$folder/page.pdf" || true)
  if [ "$pages" -lt 1 ] || [ "$pages" -gt 80 ]; then fail "$1: expected 1 to 80 pages on paper, found $pages"; fi
  rm -f "$folder/page.pdf"
}

expect_fault() {  # NAME WIDTH MODE STYLE: the account of a page so spoilt must count this fault.
  local found
  found=$(account audit.html "$2" "$3" "$4")
  if ! [[ " $found " =~ \ $1=[1-9][0-9]*\  ]]; then fail "\"$4\" at $2 px, $3: expected $1 above 0, found \"$found\""; fi
}

# Two runs: two attacks at three layers, a chart of each that remembers, four distributions each, four charts of quality,
# four of the protected run's noise, a run's times.
expect_everywhere report.html 2 26
# One run: a chart a layer.
expect_everywhere audit.html 1 17
# A run that has only begun, and one whose names are long and full of markup.
# Four chains of four runs: quality, norm and hint attack and two more at the cut, two at each other layer; of each chain one run.
expect_everywhere days.html 4 53
expect_everywhere begun.html 1 0
expect_everywhere hostile.html 1 16

expect_fault overlaps 1280 screen 'td.number { display: block; margin-bottom: -1.5rem; }'
expect_fault overlaps 400 screen '.legend .key { margin-right: -5rem; margin-bottom: -1rem; }'
expect_fault spilled 400 screen '.card p { white-space: nowrap; }'
expect_fault overflow 400 screen '.card { width: 30rem; }'
expect_fault clippedCharts 718 paper '.canvas-box canvas { height: 400px !important; }'
expect_fault clippedCharts 1280 screen '.canvas-box canvas { width: 120% !important; }'

[ "$failures" -eq 0 ] && echo "five pages as expected on two screens and on paper; six faults found"
exit "$((failures > 0))"
