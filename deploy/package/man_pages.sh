#!/bin/bash
# Manual pages of all programs and commands, made of what their --help prints. Usage: man_pages.sh BIN OUT
set -euo pipefail
bin=${1:?BIN} out=${2:?OUT}

# Of roff: no backslash, dash, or dot or quote at the beginning of a line means anything but itself.
verbatim() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"; }

# page PROGRAM [COMMAND...]
page() {
  local name help summary
  name=$(IFS=-; echo "$*")
  help=$("$bin/$1" "${@:2}" --help)
  summary=$(sed '/^$/q' <<<"$help" | paste -s -d ' ' | sed 's/[. ]*$//')
  {
    printf '.TH %s 1 "" Splitveil\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "${name^^}" "$name" \
      "$(verbatim <<<"$summary")"
    sed '1,/^$/d' <<<"$help" | verbatim
    printf '.fi\n.SH SEE ALSO\n/usr/share/doc/splitveil\n'
  } | gzip -9 -n >"$out/$name.1.gz"
}

mkdir -p "$out"
page label_party
page nonlabel_party
page splitveil
"$bin/splitveil" --help | sed -nE '/^(Flags|Example):/q; s/^  ([a-z_]+( [a-z_]+)?)  .*/\1/p' | while read -r command; do
  # shellcheck disable=SC2086: a command may be two words.
  page splitveil $command
done
