#!/bin/sh
# format.sh ROOT [--fix]: every C file is formatted as .clang-format says. Skipped (77) without clang-format
# 14, since other major versions format differently.
set -u
root=${1:?usage: format.sh ROOT [--fix]}
for tool in clang-format-14 clang-format; do
    case $("$tool" --version 2>/dev/null) in
    *" 14."*) break ;;
    esac
    tool=
done
[ -n "$tool" ] || { echo "skipped: no clang-format 14"; exit 77; }

files=$(sh "$root/tests/lint/files.sh" "$root") || exit 1
cd "$root" || exit 1
if [ "${2-}" = --fix ]; then
    # shellcheck disable=SC2086 # no file name of ours has a space
    exec "$tool" -i $files
fi
status=0
for file in $files; do
    "$tool" "$file" | diff -u --label "$file" --label "$file (formatted)" "$file" - || status=1
done
[ $status -eq 0 ] || echo "To mend: sh tests/lint/format.sh . --fix"
exit $status
