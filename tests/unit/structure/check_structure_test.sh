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
  echo 'add_library(parts common/crypto/key.cc label_party/main.cc nonlabel_party/bottom/bottom.cc)' >CMakeLists.txt
  printf 'class Key {\n public:\n  explicit Key(int bits);\n  int bits() const;\n};\n' >>common/crypto/key.h
  printf '#include "common/crypto/key.h"\n\nKey::Key(int bits) {}\n\nint Key::bits() const { return 1; }\n' >common/crypto/key.cc
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
make_repository; echo '#include "label_party/top/loss.h"' >>common/crypto/key.h
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

make_repository; echo 'May depend on `common/crypto` and OpenSSL.' >nonlabel_party/bottom/README.md
expect 0 '^$' 'a README.md that names what its folder includes'
make_repository; echo 'May depend on `common/matrix` and OpenSSL.' >common/crypto/README.md
expect 1 'common/crypto/README.md: expected folders that are included there, found common/matrix' 'a dependency that is gone'
make_repository; echo 'May depend on OpenSSL.' >label_party/top/README.md
expect 1 'label_party/top/README.md: expected every folder that it may depend on, found none of common/crypto' 'a dependency not named'

make_repository; echo '#include "label_party/top/loss.h"' >>label_party/top/head.h
echo '#include "label_party/top/head.h"' >label_party/top/loss.h
expect 1 'label_party/top: include cycle of label_party/top/head, label_party/top/loss' 'headers that include each other'
make_repository; echo '#include "label_party/top/head.h"' >label_party/top/loss.h
printf '#include "label_party/top/head.h"\n#include "label_party/top/loss.h"\n' >label_party/top/head.cc
echo 'top/head.cc' >label_party/CMakeLists.txt
expect 1 'label_party/top: include cycle of label_party/top/head, label_party/top/loss' 'a cycle through a .cc file'
make_repository; mkdir common/matrix; echo 'rows' >common/matrix/README.md
echo '#include "common/matrix/matrix.h"' >>common/crypto/key.h
echo '#include "common/crypto/sha.h"' >common/matrix/matrix.h; echo 'int sha;' >common/crypto/sha.h
expect 1 'include cycle of the folders common/crypto, common/matrix' 'folders that include each other'

make_repository; printf '#include "common/crypto/key.h"\n\nint\nKey::bits() const { return 2; }\n' >common/crypto/bits.cc
echo 'bits.cc' >common/crypto/CMakeLists.txt
expect 1 'key.h: Key: expected one .cc, found common/crypto/bits.cc, common/crypto/key.cc' 'a class in two sources'
make_repository; echo 'namespace bottom { class Key { void Use(); }; }' >nonlabel_party/bottom/key.h
printf '#include "nonlabel_party/bottom/key.h"\nvoid Key::Use() { Other::Call(); }\n' >nonlabel_party/bottom/bottom.cc
expect 0 '^$' 'two classes of one name in two namespaces'

make_repository; printf 'namespace veil {\nstruct Row {\n  enum class Kind { kOne };\n};\n}\n' >>common/crypto/key.h
printf 'namespace veil {\nclass Row final : public Key {};\n}\n' >label_party/top/row.h
expect 1 'veil::Row: expected one definition, found common/crypto/key.h:8, label_party/top/row.h:2' 'a class defined twice'
printf 'namespace veil {\nclass Row;\nnamespace {\nclass Row {};\n}\nvoid Use() { struct Row {}; }\nstruct Other { struct Row {}; };\n}\n' \
  >label_party/top/row.h
expect 0 '^$' 'a class of one name declared, in an unnamed namespace, in a function and in a class'

interface() {  # interface METHODS
  echo 'class Model {'
  echo ' public:'
  for i in $(seq "$1"); do printf '  virtual std::map<int, int> Method%s(int a, int b)\n      const = 0;  // = 0;\n' "$i"; done
  echo '  virtual void Other() {}'
  echo '};'
}
make_repository; interface 6 >label_party/top/model.h; expect 0 '^$' 'an interface of six methods'
make_repository; interface 7 >label_party/top/model.h
expect 1 'model.h:1: Model: expected at most 6 pure virtuals, found 7' 'an interface of seven methods'

constructor() {  # constructor PARAMETERS
  echo 'class Model {'
  echo "  Model($(seq -s ', ' -f 'std::map<int, std::function<void(int, int)>> p%g' "$1"));"
  echo '};'
}
make_repository; constructor 6 >label_party/top/model.h; expect 0 '^$' 'a constructor of six parameters'
make_repository; constructor 7 >label_party/top/model.h
expect 1 'Model: expected constructors of at most 6 parameters, found 7' 'a constructor of seven parameters'

for lock in std::mutex std::shared_mutex std::condition_variable; do
  make_repository; echo "$lock lock;  // std::mutex" >>common/crypto/key.h
  expect 1 "key.h:7: expected absl::Mutex with ABSL_GUARDED_BY, found $lock" "$lock"
done
make_repository; echo '// Like a std::mutex.' >>common/crypto/key.h; expect 0 '^$' 'a lock in a comment'
for wait in 'absl::Now()' 'std::chrono::system_clock::now()' 'mutex.AwaitWithTimeout(ready, limit)' 'changed.WaitWithDeadline(&mutex, time)'; do
  make_repository; echo "auto waited = $wait;" >>common/crypto/key.h
  expect 1 'common/crypto/key.h:[0-9]+: expected the clock of common/process/steady_time.h, found ' "a wait by the wall clock, $wait"
done
make_repository; echo 'auto built = absl::Now();' >>tests/clock.h; expect 0 '^$' 'the wall clock in a test'

make_repository; echo 'int forgotten;' >common/crypto/forgotten.cc
expect 1 'common/crypto/forgotten.cc: expected in a CMakeLists.txt, found in none' 'a source that is not built'

make_repository; rm -r nonlabel_party; mkdir -p nonlabel_party; rm -r common; mkdir common
echo >label_party/top/head.h
expect 0 '^$' 'folders without sources'

[ $failures -eq 0 ] && echo "all violations found"
