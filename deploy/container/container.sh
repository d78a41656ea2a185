#!/bin/bash
# What a container of docker-compose.yml does.
# Usage: container.sh prepare|label_party|nonlabel_party|serve|live
# Each party mounts a volume of its own at /demo; only `prepare`, which plays the outside world, sees both.
set -euo pipefail
role=${1:?prepare|label_party|nonlabel_party|serve|live}
demo=$(dirname "$(realpath "$0")")/demo
bin=/usr/local/bin

# `up` on a stack that exists starts this again. It then changes nothing: the volumes hold ledgers, checkpoints and the
# privacy account, and a deleted account means that nobody counts what was released.
is_prepared() {
  [ -e /demo/label_party/prepared ] && [ -e /demo/nonlabel_party/prepared ]
}

# Each run has its own port, so that a party that is done early cannot connect to the end of the first run.
prepare() {
  if is_prepared; then
    echo "container.sh: the volumes are prepared: nothing changed. \`docker-compose down --volumes\` deletes them" >&2
    return
  fi
  if compgen -G '/demo/*/*.db' >/dev/null; then
    echo "container.sh: error: the volumes hold ledgers or a privacy account of another demo: keep what you need, then run" \
      "\`docker-compose down --volumes\`" >&2
    return 1
  fi
  local out=/tmp/demo party
  local input=''
  [ ! -s /input ] || input=/input
  "$demo/prepare_data.sh" "$bin" "$out" "$input"
  "$demo/write_configs.sh" "$out" none 0.0.0.0:7443 label_party:7443 0.0.0.0:7444
  "$demo/write_configs.sh" "$out" marvell 0.0.0.0:7445 label_party:7445 0.0.0.0:7446
  "$demo/write_configs.sh" "$out" gaussian_label_dp 0.0.0.0:7447 label_party:7447 0.0.0.0:7448
  for party in label_party nonlabel_party; do
    rm -rf "/demo/$party"/*
    mkdir "/demo/$party/certificates"
    (umask 077; head -c 32 /dev/urandom | od -A n -t x1 | tr -d ' \n' >"/demo/$party/monitoring.token")
    sed -i 's|^party {|&\n  monitoring { listen_address: "0.0.0.0:9443" token_path: "monitoring.token" }|' "$out"/*."$party".textproto
    cp "$out/$party.data" "$out"/*.run.textproto "$out"/*."$party".textproto "/demo/$party/"
    cp "$out/certificates/authority.pem" "$out/certificates/$party".* "/demo/$party/certificates/"
    touch "/demo/$party/prepared"
  done
}

# Runs a program and forwards the signals that a container's first process gets.
run() {
  local code=0
  "$@" &
  trap "kill -TERM $!" TERM INT
  while true; do
    wait $! || code=$?
    kill -0 $! 2>/dev/null || return $code  # Otherwise a signal ended only the waiting.
    code=0
  done
}

train() {
  cd /demo
  local name
  for name in none marvell gaussian_label_dp; do
    ln -sfn "$name.$role.textproto" current.textproto  # For the health check.
    [ ! -e "$name.$role.done" ] || continue  # Done before this container was restarted.
    run "$bin/$role" --agreement="$name.run.textproto" --config="$name.$role.textproto"
    touch "$name.$role.done"
  done
  if [ "$role" = label_party ]; then
    "$bin/splitveil" report --ledger=none.label_party.db --ledger=marvell.label_party.db \
      --ledger=gaussian_label_dp.label_party.db --out=report.html
  fi
}

# store PARTY: once per stack; what is stored is served after every restart. Both parties' containers wait for each other.
store() {
  [ -d versions/1 ] ||
    run "$bin/splitveil" predict --agreement=marvell.run.textproto --config="marvell.$1.textproto" --store=versions
}

serve() {
  cd /demo
  store label_party
  [ -e serving.token ] || (umask 077; head -c 16 /dev/urandom | od -A n -t x1 | tr -d ' \n' >serving.token)
  cat >serving.textproto <<'END'
agreement_path: "marvell.run.textproto"
config_path: "marvell.label_party.textproto"
versions_path: "versions"
listen_address: "0.0.0.0:8001"
rest_address: "0.0.0.0:8000"
callers { name: "host" token_path: "serving.token" }
live { peer_address: "nonlabel_party_serve:7449" fallback: STORED }
END
  run "$bin/label_party" serve --config=serving.textproto
}

live() {
  cd /demo
  store nonlabel_party
  cat >live.textproto <<'END'
agreement_path: "marvell.run.textproto"
config_path: "marvell.nonlabel_party.textproto"
versions_path: "versions"
listen_address: "0.0.0.0:7449"
END
  run "$bin/nonlabel_party" serve --config=live.textproto
}

case $role in
  prepare) prepare ;;
  label_party | nonlabel_party) train ;;
  serve | live) "$role" ;;
  *) echo "container.sh: unknown role $role: use prepare, label_party, nonlabel_party, serve or live" >&2; exit 2 ;;
esac
