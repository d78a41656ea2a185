#!/bin/bash
# Plants each violation in a small repository and sees that check_structure.sh finds it, and nothing else.
set -euo pipefail
check=$(dirname "$(realpath "$0")")/check_structure.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# A repository that keeps every rule.
make_repository() {
  rm -rf "$scratch/repository"
  mkdir -p "$scratch/repository"
  cd "$scratch/repository"
  mkdir -p common/crypto label_party/top nonlabel_party/bottom deploy proto tests
  local folder
  for folder in . common/crypto label_party label_party/top nonlabel_party/bottom deploy proto tests; do
    echo "what lives here" >"$folder/README.md"
  done
  echo '#include "common/crypto/key.h"' >label_party/top/head.h
  echo '#include "common/crypto/key.h"' >nonlabel_party/bottom/bottom.cc
  echo '// Both label_party/ and nonlabel_party/ use it.' >common/crypto/key.h
  seq 79 >label_party/main.cc
}

# expect EXIT_CODE PATTERN NAME: what the check says about the repository as it stands.
expect() {
  local output code=0
  output=$(bash "$check" "$scratch/repository") || code=$?
  if [ "$code" -ne "$1" ] || ! grep -qE "$2" <<<"$output" || [ "$(wc -l <<<"$output")" -ne 1 ]; then
    echo "FAILED: $3: exit $code, printed: $output"
    failures=$((failures + 1))
  fi
}

make_repository; expect 0 '^$' 'a repository without violations'
make_repository; echo '#include "nonlabel_party/bottom/bottom.h"' >>label_party/top/head.h
expect 1 'label_party must not include nonlabel_party: .*head.h:2' 'label party includes non-label party'
make_repository; echo '  #  include <label_party/top/head.h>' >>nonlabel_party/bottom/bottom.cc
expect 1 'nonlabel_party must not include label_party' 'non-label party includes label party, unusual spelling'
make_repository; echo '#include "../../label_party/top/head.h"' >>nonlabel_party/bottom/bottom.cc
expect 1 'nonlabel_party must not include label_party' 'non-label party includes label party, relative path'
make_repository; echo '#include "label_party/top/head.h"' >>common/crypto/key.h
expect 1 'common must not include label_party' 'common includes label party'
make_repository; echo '#include "nonlabel_party/bottom/bottom.h"' >>common/crypto/key.h
expect 1 'common must not include nonlabel_party' 'common includes non-label party'
make_repository; echo 80 >>label_party/main.cc
expect 1 'label_party/main.cc: expected less than 80 lines, found 80' 'long main.cc'
make_repository; rm common/crypto/README.md
expect 1 'common/crypto has sources and no README.md' 'folder without README'
make_repository; : >label_party/top/README.md
expect 1 'label_party/top has sources and no README.md' 'empty README'
make_repository; rm proto/README.md
expect 1 'proto has no README.md' 'wire format not documented'
make_repository; rm -r nonlabel_party; mkdir -p nonlabel_party; rm -r common; mkdir common
expect 0 '^$' 'folders without sources'

[ $failures -eq 0 ] && echo "all violations found"
