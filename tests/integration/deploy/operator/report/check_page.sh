#!/bin/bash
# check_page.sh SAMPLE_REPORT: opens the reports it writes in headless Chromium, as a user would: on a wide and on a
# narrow screen, with everything folded out, and on paper. A probe put into a copy of each tells whether every chart was
# drawn, no text covers another or sticks out of its panel, no mark of an attack covers another, nothing overflows
# sideways and no planted script ran; each page prints to at most six sheets; pages are spoilt to see that the probe tells.
set -euo pipefail

sample_report=$1
source "$(dirname "$0")/../../browser.sh"
source "$(dirname "$0")/../open_page.sh"
"$sample_report" "$folder"

# Pages: charts shown, charts with every fold open.
expect_everywhere report.html 0 26
expect_everywhere audit.html 0 28
expect_everywhere audit_nonlabel.html 0 12
expect_everywhere days.html 0 50
expect_everywhere begun.html 0 0
expect_everywhere hostile.html 0 24

expect_fault audit.html overlaps 1280 open 'td.number { display: block; margin-bottom: -1.5rem; }'
expect_fault audit.html overlaps 400 screen '.legend .key { margin-right: -5rem; margin-bottom: -1rem; }'
expect_fault report.html coveredMarks 1280 screen '.scale g { transform: none; }'
expect_fault audit.html spilled 400 screen '.card p { white-space: nowrap; }'
expect_fault audit.html overflow 400 screen '.card { width: 30rem; }'
expect_fault audit.html clippedCharts 718 open '.canvas-box canvas { height: 400px !important; }'
expect_fault audit.html clippedCharts 1280 open '.canvas-box canvas { width: 120% !important; }'

[ "$failures" -eq 0 ] && echo "six pages as expected on two screens and on paper; seven faults found"
exit "$((failures > 0))"
