#!/bin/sh
# shell.sh ROOT: sim/install.sh, .ci/run and the test scripts are shellcheck-clean. Skipped (77) without it.
set -u
cd "${1:?usage: shell.sh ROOT}" || exit 1
command -v shellcheck >/dev/null || { echo "skipped: no shellcheck"; exit 77; }
# SC2016: scripts that hold other programs (awk, made-up cases) in single quotes mean it.
shellcheck --exclude=SC2016 sim/install.sh .ci/run tests/*/*.sh
