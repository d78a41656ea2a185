#!/bin/bash
# Installs with apt what is missing to build and run Splitveil on Debian 12 or 13. Returns at once if nothing is missing.
# Usage: install_dependencies.sh [--tests]     --tests: also what only the tests need
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libtorch-dev libgloo-dev libopenblas0-pthread libabsl-dev libssl-dev libsodium-dev libsqlite3-dev zlib1g-dev liblzma-dev libzstd-dev libutf8proc-dev libre2-dev
  libjpeg-dev libzip-dev nlohmann-json3-dev
  libboost-dev libcereal-dev libcli11-dev libcpp-httplib-dev libeigen3-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libjs-chart.js
)
test_packages=(
  chromium                    # Opens a report like a reader.
  curl python3-grpcio         # Ask label_party serve like its clients.
  openssl                     # Signs certificates like the documents.
  python3-torch python3-numpy # Make model halves, and read the exported ones, like a user.
  python3 clang libclang-rt-dev clang-format clang-tidy # deploy/check.sh.
)

case ${1:-} in
  '') ;;
  --tests) packages+=("${test_packages[@]}") ;;
  *) echo "install_dependencies.sh: unknown argument $1: use --tests or nothing" >&2; exit 2 ;;
esac

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || {
  echo "install_dependencies.sh: apt is missing, so this is not Debian 12 or 13; install by hand: ${packages[*]}" >&2
  exit 2
}

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -1)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install_dependencies.sh: run it as root, or install sudo, to install: ${missing[*]}" >&2
    exit 2
  }
  as_root=(sudo)
fi
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

echo "Installing ${#missing[@]} packages: ${missing[*]}"
apt_get update
apt_get install -y --no-install-recommends "${missing[@]}"
