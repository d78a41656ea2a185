#!/bin/bash
# In a fresh Debian, as root, with /project/splitveil.deb: see package_test.sh.
set -euo pipefail
say() { echo "== $*"; }

apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /project/splitveil.deb >/tmp/apt.log 2>&1 ||
  { tail -n 30 /tmp/apt.log; exit 1; }
say "installed"
splitveil --version
for page in splitveil splitveil-prepare label_party nonlabel_party; do
  [ -s "/usr/share/man/man1/$page.1.gz" ] || [ ! -d /usr/share/man/man1 ] || { echo "no manual page $page"; exit 1; }
done
[ "$(stat -c '%U %a' /var/lib/splitveil)" = 'splitveil 700' ]
[ "$(stat -c '%U:%G %a' /etc/splitveil/label_party.textproto)" = 'root:splitveil 640' ]
[ "$(su -s /bin/bash splitveil -c 'cat /etc/splitveil/label_party.textproto' | grep -c gaussian_label_dp)" = 1 ]

# As the operator of either party: data, certificates, and where the other party is.
as_splitveil() { su -s /bin/bash splitveil -c "cd /var/lib/splitveil && $1"; }
as_splitveil 'splitveil generate --rows=20000 --seed=3 --out=clicks.tsv'
as_splitveil 'splitveil prepare --format=criteo --input=clicks.tsv --out=. >/dev/null'
as_splitveil 'splitveil certificates --label=label-party.example --nonlabel=nonlabel-party.example --out=. >/dev/null'
echo '127.0.0.1 label-party.example nonlabel-party.example' >>/etc/hosts
sed -i 's/preset: MULTILAYER_PERCEPTRON/preset: WIDE_AND_DEEP/' /etc/splitveil/*_party.textproto
sed -i -e 's/^cut_layer.*/cut_layer: "third"/' -e 's/^cut_width.*/cut_width: 128/' /etc/splitveil/run.textproto

# The commands of the units, as their user: a fresh root has no systemd to start them.
exec_of() { sed -n "s/^$2=//p" "/lib/systemd/system/splitveil-$1.service"; }
for unit in label-party nonlabel-party; do
  as_splitveil "$(exec_of "$unit" ExecStartPre)" >/tmp/check.log 2>&1 || { cat /tmp/check.log; exit 1; }
done
say "both units' checks pass"
as_splitveil "$(exec_of label-party ExecStart)" >/tmp/label.out 2>/tmp/label.log &
label=$!
as_splitveil "$(exec_of nonlabel-party ExecStart)" >/tmp/nonlabel.out 2>/tmp/nonlabel.log || { cat /tmp/nonlabel.log /tmp/label.log; exit 1; }
wait "$label" || { cat /tmp/label.log; exit 1; }
grep '^RESULT ' /tmp/label.out | cut -c1-200
[ -s /var/lib/splitveil/model/label_party.pt ] && [ -s /var/lib/splitveil/labels.account.db ]
say "trained by the units' commands"

apt-get remove -y -q splitveil >/tmp/remove.log 2>&1
[ ! -e /usr/bin/splitveil ] && [ -s /var/lib/splitveil/label_party.db ] && [ -e /etc/splitveil/run.textproto ]
say "removed; data and configuration stay"
account=$(sha256sum </var/lib/splitveil/labels.account.db)
apt-get purge -y -q splitveil >/tmp/purge.log 2>&1
[ "$(find /var/lib/splitveil -type f)" = /var/lib/splitveil/labels.account.db ] || { find /var/lib/splitveil; exit 1; }
[ "$account" = "$(sha256sum </var/lib/splitveil/labels.account.db)" ] && [ "$(stat -c %U /var/lib/splitveil)" = root ]
grep -q 'kept privacy accounts' /tmp/purge.log && [ ! -e /etc/splitveil ] && ! getent passwd splitveil
say "purged; only the privacy account is left"
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /project/splitveil.deb >/tmp/apt.log 2>&1
[ "$(stat -c '%U %a' /var/lib/splitveil)" = 'splitveil 700' ]
[ "$(stat -c %U /var/lib/splitveil/labels.account.db)" = splitveil ]
say "installed again; the account is still there"
rm /var/lib/splitveil/labels.account.db
apt-get purge -y -q splitveil >/tmp/purge.log 2>&1
[ ! -e /var/lib/splitveil ]
say "purged without an account; nothing is left"
