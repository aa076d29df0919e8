#!/bin/sh
# units.sh ROOT: units.awk over every public header.
set -u
cd "${1:?usage: units.sh ROOT}" || exit 1
headers=$(sh tests/lint/files.sh . | grep '/include/cs/')
[ -n "$headers" ] || { echo "no public headers"; exit 1; }
# shellcheck disable=SC2086 # no file name of ours has a space
awk -f tests/lint/units.awk $headers
