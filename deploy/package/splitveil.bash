# Completion of splitveil, label_party and nonlabel_party: what their --help lists.
_splitveil() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} words
  COMPREPLY=()
  case $word in
    --*=*) compopt -o nospace; COMPREPLY=($(compgen -f -- "${word#*=}")); return ;;
    -*)
      words=()
      [[ ${program##*/} != splitveil ]] || words=($(printf '%s\n' "${COMP_WORDS[@]:1:COMP_CWORD-1}" | grep -v '^-' | head -n 2))
      compopt -o nospace
      COMPREPLY=($(compgen -W "$("$program" "${words[@]}" --help 2>/dev/null | grep -oE '^ +--[a-z_]+=?' | tr -d ' ')" -- "$word"))
      ;;
    *)
      [[ ${program##*/} == splitveil && $COMP_CWORD == 1 ]] || return
      COMPREPLY=($(compgen -W "$("$program" --help 2>/dev/null | sed -nE 's/^  ([a-z_]+)  .*/\1/p')" -- "$word"))
      ;;
  esac
}
complete -o default -F _splitveil splitveil label_party nonlabel_party
