#!/bin/sh
# bless.sh CLUSTERSIM [CASE...]: rewrite the expectations of these cases (default: all) from what the program
# does now. Patterns (*.glob) are kept and checked. Read the diff before you commit it.
set -u
clustersim=${1:?usage: bless.sh CLUSTERSIM [CASE...]}
shift
here=$(dirname -- "$0")
[ $# -gt 0 ] || set -- "$here"/*/
status=0
for name in "$@"; do
    [ -d "$name" ] || name=$here/$name
    sh "$here/run_case.sh" "$clustersim" "$name" --bless || status=1
done
exit $status
