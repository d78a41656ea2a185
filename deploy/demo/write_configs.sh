#!/bin/bash
# Writes the three files of one run from the templates beside this script:
# OUT/RUN.{run,label_party,nonlabel_party}.textproto.
# Usage: write_configs.sh OUT none|frozen|marvell|gaussian_label_dp LABEL_LISTEN LABEL_ADDRESS NONLABEL_LISTEN
# Addresses: host:port. The label party's data must be in OUT already: the privacy account names its labels by them.
set -euo pipefail
templates=$(dirname "$(realpath "$0")")
out=${1:?OUT} run=${2:?RUN} label_listen=${3:?LABEL_LISTEN} label_address=${4:?LABEL_ADDRESS}
nonlabel_listen=${5:?NONLABEL_LISTEN}
more=
case $run in
  none) protection='none {}' ;;
  frozen)  # No gradient may be sent: the bottom model stays at its start.
    protection='none {}'
    more='release { max_step_auc_bound: 0.5 action: FREEZE_BOTTOM }'
    ;;
  marvell) protection='marvell { s: 4 }' ;;
  gaussian_label_dp)
    protection='gaussian_label_dp { max_run_auc_bound: 0.7 }'
    labels=$(sha256sum "$out/label_party.data" | cut -c1-16)
    more="privacy_account { path: \"labels.account.db\" label_set: \"demo, data $labels\" }"
    ;;
  *) echo "write_configs.sh: unknown run $run: use none, frozen, marvell or gaussian_label_dp" >&2; exit 2 ;;
esac
disclosure=oracle
[ "$run" != gaussian_label_dp ] || disclosure=label_side_only  # Its guarantee excludes an oracle.

# fill TEMPLATE LISTEN_ADDRESS
fill() {
  sed -e "s|@RUN@|$run|g" -e "s|@PROTECTION@|$protection|g" \
    -e "s|@MORE@|$more|g" -e "s|@LISTEN_ADDRESS@|$2|g" \
    -e "s|@PEER_ADDRESS@|$label_address|g" -e "/@DISCLOSURE@/{r $templates/disclosure.$disclosure.textproto" -e 'd}' \
    "$templates/$1.textproto" >"$out/$run.$1.textproto"
}
fill run ''
fill label_party "$label_listen"
fill nonlabel_party "$nonlabel_listen"
