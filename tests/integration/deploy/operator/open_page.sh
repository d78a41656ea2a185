# Sourced after browser.sh by the checks of pages. No page has a probe in it: with_probe makes a copy that has, and lets
# the page's content security policy run that script too.

probe=$(realpath "$(dirname "${BASH_SOURCE[0]}")/probe.js")

with_probe() {  # PAGE: $folder/probed.html is PAGE with the probe.
  local hash
  hash=$(openssl dgst -sha256 -binary "$probe" | base64)
  awk -v hash="$hash" -v probe="$probe" '
    !allowed && /Content-Security-Policy/ { allowed = sub(/script-src /, "script-src '\''sha256-" hash "'\'' ") }
    $0 == "</body>" {
      printf "<script>"
      while ((getline line < probe) > 0) printf "%s\n", line
      print "</script>"
    }
    { print }' "$folder/$1" >"$folder/probed.html"
}

# What the probe says of a page at a width, as name=value words. A frame, since a window has a least width. MODE: as
# probe.js has it. SPOIL: a style put in first.
account() {  # PAGE WIDTH MODE [SPOIL]
  with_probe "$1"
  cat >"$folder/frame.html" <<HTML
<iframe src="probed.html" style="width:$2px;height:900px;border:0"></iframe>
<script>
onload = async () => {
  const { contentDocument: page, contentWindow: view } = document.querySelector("iframe");
  const spoil = "${4:-}";
  if (spoil) page.styleSheets[0].insertRule(spoil, page.styleSheets[0].cssRules.length);
  document.title = await view.probe("$3");
};
</script>
HTML
  browse --virtual-time-budget=8000 --dump-dom "file://$folder/frame.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

expect() {  # PAGE WIDTH MODE CHARTS
  local found wanted
  found=$(account "$1" "$2" "$3")
  wanted="charts=$4 width=$2 planted=0 blankCharts=0 clippedCharts=0 overflow=0 overlaps=0 coveredMarks=0 spilled=0 faults="
  if [ "$found" != "$wanted" ]; then fail "$1 at $2 px, $3: expected \"$wanted\", found \"$found\""; fi
  if grep 'CONSOLE' "$folder/browser.log"; then fail "$1 at $2 px, $3: the page complained on the console"; fi
}

expect_everywhere() {  # PAGE CHARTS CHARTS_WITH_EVERY_FOLD_OPEN. 718 px: A4 at 96 dots an inch less the margins.
  local width pages
  for width in 1280 400; do
    expect "$1" "$width" screen "$2"
    expect "$1" "$width" open "$3"
  done
  expect "$1" 718 paper "$2"
  browse --no-pdf-header-footer --print-to-pdf="$folder/page.pdf" "file://$folder/$1" >/dev/null || true
  pages=$(grep -ac '/Type /Page$' "$folder/page.pdf" || true)
  if [ "$pages" -lt 1 ] || [ "$pages" -gt 6 ]; then fail "$1: expected 1 to 6 pages on paper, found $pages"; fi
  rm -f "$folder/page.pdf"
  if grep -q 'window.probe' "$folder/$1"; then fail "$1: the page has a probe in it"; fi
}

expect_fault() {  # PAGE NAME WIDTH MODE STYLE: the account of a page so spoilt must count this fault.
  local found
  found=$(account "$1" "$3" "$4" "$5")
  if ! [[ " $found " =~ \ $2=[1-9][0-9]*\  ]]; then fail "\"$5\" at $3 px, $4: expected $2 above 0, found \"$found\""; fi
}
