#!/bin/sh
# run_case.sh CLUSTERSIM CASE_DIR [--bless]: run one command-line case and compare what it did with what its
# folder says. README.md in tests/ describes the files of a case.
set -u
usage='usage: run_case.sh CLUSTERSIM CASE_DIR [--bless]'
bin_dir=$(dirname -- "${1:?$usage}")
CLUSTERSIM=$(cd "$bin_dir" && pwd)/$(basename -- "$1")
case_dir=$(cd "${2:?$usage}" && pwd) || exit 1
bless=${3-}
DATA=$(cd "$(dirname -- "$0")/../.." && pwd)
export CLUSTERSIM DATA LC_ALL=C
unset CLUSTERSIM_DATA COLUMNS NO_COLOR CDPATH

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/scratch" "$work/got"
failed=0

complain() {
    echo "$(basename "$case_dir"): $*"
    failed=1
}

# A file holding one line: the exit status; 0 when there is none.
expected_exit() {
    if [ -f "$case_dir/exit" ]; then cat "$case_dir/exit"; else echo 0; fi
}

# check_glob STREAM: every pattern matches a line, in order; other lines may stand between them.
check_glob() {
    exec 3<"$work/got/$1"
    while IFS= read -r pattern || [ -n "$pattern" ]; do
        [ -n "$pattern" ] || continue
        found=0
        while IFS= read -r line <&3 || [ -n "$line" ]; do
            # shellcheck disable=SC2254 # the pattern is meant to be one
            case $line in $pattern) found=1; break ;; esac
        done
        if [ $found -eq 0 ]; then
            complain "$1 has no line (left) that matches: $pattern"
            sed 's/^/  | /' "$work/got/$1"
            break
        fi
    done <"$case_dir/$1.glob"
    exec 3<&-
}

# check_stream STREAM: as STREAM.exact or STREAM.glob says; with neither, the stream is empty.
check_stream() {
    if [ -f "$case_dir/$1.glob" ]; then
        check_glob "$1"
    elif [ "$bless" = --bless ]; then
        rm -f "$case_dir/$1.exact"
        [ ! -s "$work/got/$1" ] || cp "$work/got/$1" "$case_dir/$1.exact"
    elif [ -f "$case_dir/$1.exact" ]; then
        diff -u --label "$1.exact" --label "$1" "$case_dir/$1.exact" "$work/got/$1" || complain "$1 differs"
    elif [ -s "$work/got/$1" ]; then
        complain "$1 is not empty, and there is no $1.exact or $1.glob"
        sed 's/^/  | /' "$work/got/$1"
    fi
}

# Files left behind, against the patterns in `files`.
check_files() {
    if [ "$bless" = --bless ]; then
        rm -f "$case_dir/files"
        [ ! -s "$work/got/files" ] || cp "$work/got/files" "$case_dir/files"
        return
    fi
    while IFS= read -r file; do
        allowed=0
        if [ -f "$case_dir/files" ]; then
            while IFS= read -r pattern || [ -n "$pattern" ]; do
                # shellcheck disable=SC2254 # the pattern is meant to be one
                case $file in $pattern) allowed=1; break ;; esac
            done <"$case_dir/files"
        fi
        [ $allowed -eq 1 ] || complain "leaves behind '$file', which its 'files' does not list"
    done <"$work/got/files"
}

[ -f "$case_dir/cmd" ] || { echo "$case_dir has no cmd"; exit 1; }
(cd "$work/scratch" && sh "$case_dir/cmd") >"$work/stdout" 2>"$work/stderr" </dev/null
status=$?
# The same text on every machine: the two folders that differ get a name.
for stream in stdout stderr; do
    sed "s|$work/scratch|\$SCRATCH|g; s|$DATA|\$DATA|g" "$work/$stream" >"$work/got/$stream"
done
(cd "$work/scratch" && find . -type f -o -type l | sed 's|^\./||' | sort) >"$work/got/files"

if [ "$bless" = --bless ]; then
    rm -f "$case_dir/exit"
    [ $status -eq 0 ] || echo $status >"$case_dir/exit"
elif [ $status -eq 77 ]; then
    sed 's/^/skipped: /' "$work/got/stderr"
    exit 77
elif [ $status -ne "$(expected_exit)" ]; then
    complain "exit status is $status, not $(expected_exit)"
    sed 's/^/  | /' "$work/got/stderr"
fi
check_stream stdout
check_stream stderr
check_files
exit $failed
