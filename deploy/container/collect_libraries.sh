#!/bin/bash
# Copies the shared libraries that programs load to their places below a folder, except the C library, which every image
# has. Installing their packages would take more than twice the space, because they depend on graphics, maps and video.
# Usage: collect_libraries.sh FOLDER PROGRAM...
set -euo pipefail
folder=${1:?FOLDER}
shift
for program in "$@"; do ldd "$program"; done | awk '/=> \// { print $3 }' | sort -u | grep -vxFf <(dpkg -L libc6) |
  while read -r library; do
    place=$folder$(realpath "$(dirname "$library")")
    mkdir -p "$place"
    cp -L "$library" "$place/"
  done
