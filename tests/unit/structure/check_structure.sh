#!/bin/bash
# Checks the rules that keep the parties apart, and with check_sources.py those of the sources.
# Usage: check_structure.sh REPOSITORY. Prints each violation; exit 1 if any.
set -uo pipefail
check_sources=$(dirname "$(realpath "$0")")/check_sources.py
cd "${1:?usage: check_structure.sh REPOSITORY}" || exit 2
violations=0

# violation TEXT...
violation() {
  echo "structure: $*"
  violations=$((violations + 1))
}

# forbid_includes FOLDER INCLUDED: no source under FOLDER includes a header under INCLUDED, by any spelling of the path.
forbid_includes() {
  local line
  while IFS= read -r line; do
    violation "$1 must not include $2: $line"
  done < <(grep -rnE --include='*.h' --include='*.cc' "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?$2/" "$1")
}

for folder in common label_party nonlabel_party; do
  [ -d "$folder" ] || violation "expected a folder $folder"
done
forbid_includes label_party nonlabel_party
forbid_includes nonlabel_party label_party
forbid_includes common label_party
forbid_includes common nonlabel_party

readonly max_main_lines=80
while IFS= read -r main; do
  lines=$(wc -l <"$main")
  [ "$lines" -lt $max_main_lines ] || violation "$main: expected less than $max_main_lines lines, found $lines"
done < <(find common label_party nonlabel_party deploy -name main.cc)

while IFS= read -r folder; do
  [ -s "$folder/README.md" ] || violation "$folder has sources and no README.md"
done < <(find common label_party nonlabel_party deploy \( -name '*.h' -o -name '*.cc' -o -name '*.sh' \) -printf '%h\n' | sort -u)
for folder in . proto tests; do
  [ -s "$folder/README.md" ] || violation "$folder has no README.md"
done

python3 "$check_sources" . || violations=$((violations + 1))

[ $violations -eq 0 ]
