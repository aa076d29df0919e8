#!/bin/sh
# selftest.sh: run_readme.sh finds, skips, runs and fails as it says.
set -u
run=$(cd "$(dirname -- "$0")" && pwd)/run_readme.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
printf '#!/bin/sh\necho "ran $*"\n[ "$1" = good ]\n' >"$work/program"
chmod +x "$work/program"

# expect STATUS OUTPUT README_TEXT
expect() {
    printf '%b\n' "$3" >"$work/README.md"
    output=$(sh "$run" "$work/README.md" "$work/program" 2>&1)
    got=$?
    case "$got $output" in
    "$1 "*"$2"*) ;;
    *) echo "selftest: gave $got, not $1 with '$2': $output"; failed=1 ;;
    esac
}
expect 0 'ran good twice' '```console\n$ build/clustersim good twice\noutput\n```'
expect 0 'ran good and more' '```console\n$ build/clustersim good \\\n    and more\n```'
expect 1 'exit status 1' '```console\n$ build/clustersim bad\n```'
expect 0 'left to .ci/run' '```console\n$ sh sim/install.sh && build/clustersim bad\n```'
expect 1 'shows no command' 'text\n```sh\n$ build/clustersim good\n```'
[ $failed -eq 0 ] && echo "5 expectations met"
exit $failed
