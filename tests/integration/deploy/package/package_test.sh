#!/bin/bash
# The Debian package in a fresh Debian: installed, both units' commands run a training to its end, removed, purged.
# Usage: package_test.sh BUILD
# Needs root and FRESH_ROOT, a script that runs commands in a throw-away Debian: `FRESH_ROOT make DIR`, and
# `FRESH_ROOT run DIR --copy SOURCE COMMAND...` with SOURCE as /project. Its path: SPLITVEIL_FRESH_ROOT; skips (77) without.
set -euo pipefail
build=$(realpath "${1:?BUILD}")
here=$(dirname "$(realpath "$0")")
fresh_root=${SPLITVEIL_FRESH_ROOT:-}
[ -n "$fresh_root" ] || { echo "skipped: SPLITVEIL_FRESH_ROOT names no script that makes a fresh Debian"; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: a fresh Debian needs root"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000
for build_number in 1 2; do
  cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/$build_number" >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
done
package=$(basename "$work"/1/splitveil_*.deb)
cmp "$work/1/$package" "$work/2/$package"
echo "two packages of one build have the same bytes"

mkdir "$work/project"
cp "$work/1/$package" "$work/project/splitveil.deb"
cp "$here/use_package.sh" "$work/project/"
root=${SPLITVEIL_FRESH_ROOT_FOLDER:-$work/root}
"$fresh_root" make "$root"
"$fresh_root" run "$root" --copy "$work/project" bash /project/use_package.sh
