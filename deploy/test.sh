#!/bin/bash
# Installs what is missing, builds, and runs every test but the benchmarks. Ends with ctest's closing lines and exit code.
# Usage: test.sh [ctest arguments]     for example: deploy/test.sh -R alignment
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
deploy/install_dependencies.sh --tests </dev/null
deploy/build.sh </dev/null
exec ctest --preset release "$@" </dev/null
