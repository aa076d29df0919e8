#!/bin/sh
# selftest.sh: run_case.sh itself, with a stand-in program: what it must accept, refuse and bless.
set -u
run=$(cd "$(dirname -- "$0")" && pwd)/run_case.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

cat >"$work/program" <<'END'
#!/bin/sh
echo "one $DATA/x"; echo "two"; echo "three"
echo "note" >&2
echo data >left.txt
exit 2
END
chmod +x "$work/program"

# expect STATUS WHAT: run the case in $work/case.
expect() {
    output=$(sh "$run" "$work/program" "$work/case" 2>&1)
    got=$?
    if [ $got -ne "$1" ]; then
        echo "selftest: '$2' gave $got, not $1: $output"
        failed=1
    fi
}

# A correct case to start from.
fresh() {
    rm -rf "$work/case"
    mkdir "$work/case"
    echo '"$CLUSTERSIM"' >"$work/case/cmd"
    echo 2 >"$work/case/exit"
    printf 'one $DATA/x\ntwo\nthree\n' >"$work/case/stdout.exact"
    echo 'n[aeiou]te' >"$work/case/stderr.glob"
    echo 'left.*' >"$work/case/files"
}

fresh; expect 0 "a correct case"
fresh; echo 0 >"$work/case/exit"; expect 1 "another exit status"
fresh; rm "$work/case/exit"; expect 1 "exit status not 0 and no file says so"
fresh; echo four >>"$work/case/stdout.exact"; expect 1 "stdout differs"
fresh; rm "$work/case/stdout.exact"; expect 1 "stdout not empty and no file says so"
fresh; echo 'other' >"$work/case/stderr.glob"; expect 1 "stderr does not match"
fresh; : >"$work/case/stderr.glob"; expect 0 "an empty glob takes anything"
fresh; rm "$work/case/files"; expect 1 "a file left behind"
fresh; rm "$work/case/stdout.exact"; printf 'one *\n\nth*' >"$work/case/stdout.glob"; expect 0 "patterns in order"
fresh; rm "$work/case/stdout.exact"; printf 'th*\none *\n' >"$work/case/stdout.glob"; expect 1 "not in order"
fresh; echo 'echo no such tool >&2; exit 77' >"$work/case/cmd"; expect 77 "a skip"
fresh; rm "$work/case/cmd"; expect 1 "no cmd"
fresh; rm "$work"/case/exit "$work"/case/files "$work"/case/std*
sh "$run" "$work/program" "$work/case" --bless || failed=1
expect 0 "a blessed case"
[ "$(cat "$work/case/exit" "$work/case/files" "$work/case/stderr.exact")" = "2
left.txt
note" ] || { echo "selftest: bless wrote something else"; failed=1; }
[ $failed -eq 0 ] && echo "13 expectations met"
exit $failed
