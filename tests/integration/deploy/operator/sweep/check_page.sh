#!/bin/bash
# check_page.sh SAMPLE_TRADEOFF: opens the trade-off pages it writes in headless Chromium, as a user would: on a wide and on
# a narrow screen, with everything folded out, and on paper; a probe put into a copy of each tells what is drawn wrong.
set -euo pipefail

sample_tradeoff=$1
source "$(dirname "$0")/../../browser.sh"
source "$(dirname "$0")/../open_page.sh"
"$sample_tradeoff" "$folder"

# The strongest attack against two figures; under the fold the attacks one by one.
expect_everywhere tradeoff.html 2 8
expect_everywhere single.html 0 0
expect_everywhere hostile.html 2 10

[ "$failures" -eq 0 ] && echo "three pages as expected on two screens and on paper"
exit "$((failures > 0))"
