#!/bin/sh
# run_installed.sh CMAKE BUILD_DIR BIN_DIR DATA_DIR: install to a scratch prefix and run from there. The copy
# must read its own data, not the source tree's: a model that only the copy has shows it.
set -u
cmake=${1:?usage: run_installed.sh CMAKE BUILD_DIR BIN_DIR DATA_DIR}
prefix=$(mktemp -d) || exit 1
trap 'rm -rf "$prefix"' EXIT
unset CLUSTERSIM_DATA
"$cmake" --install "${2:?}" --prefix "$prefix" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
program=$prefix/${3:?}/clustersim
data=$prefix/${4:?}

for model in "$data"/workloads/models/*.yaml; do break; done
[ -f "$model" ] || { echo "no model was installed in $data"; exit 1; }
sed 's/^name:.*/name: only-installed/' "$model" >"$data/workloads/models/only-installed.yaml"
"$program" --version || exit 1
"$program" models >"$prefix/models" || exit 1
grep -q only-installed "$prefix/models" || { echo "reads other data than it was installed with"; exit 1; }
