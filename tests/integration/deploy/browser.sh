# Sourced by the checks of pages: finds a browser, or skips; makes $folder, gone at the end; counts failures.
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
failures=0

fail() { echo "FAILED: $1"; failures=$((failures + 1)); }

browse() {  # ARGUMENTS: headless, with all it says in browser.log
  timeout 90 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run \
    --user-data-dir="$folder/profile" --allow-file-access-from-files --enable-logging=stderr --window-size=1400,1000 \
    "$@" 2>"$folder/browser.log"
}
