#!/bin/sh
# layering.sh ROOT: a room includes public headers only of rooms it may know (sim/cmake/rooms.txt), private
# headers only of its own src/, and SimGrid's headers only in sim/engine/src.
set -u
root=${1:?usage: layering.sh ROOT}
cd "$root" || exit 1
status=0
checked=0
while read -r room dir knows; do
    case $room in '' | '#'*) continue ;; esac
    [ -d "$dir/src" ] || [ -d "$dir/include" ] || continue
    files=$(find "$dir" -name '*.[ch]' -type f | LC_ALL=C sort)
    [ -n "$files" ] || continue
    checked=$((checked + 1))
    # shellcheck disable=SC2086 # no file name of ours has a space
    awk -v room="$room" -v dir="$dir" -v knows="$knows" '
        function complain(why) {
            print FILENAME ":" FNR ": error: " why ": " $0
            bad = 1
        }
        BEGIN {
            n = split(knows, list, " ")
            for (i = 1; i <= n; i++) may[list[i]] = 1
            may[room] = 1
        }
        /^[ \t]*#[ \t]*include[ \t]/ {
            path = $0
            sub(/^[^<"]*[<"]/, "", path)
            sub(/[>"].*/, "", path)
            if (path ~ /^(simgrid|xbt|smpi)\//) {
                if (FILENAME !~ /^sim\/engine\/src\//) complain("only sim/engine/src includes SimGrid")
            } else if (path ~ /^cs\//) {
                split(path, part, "/")
                if (!(part[2] in may) && !((part[2] "/" part[3]) in may))
                    complain("room " room " must not know " part[2] "/" part[3])
            } else if (path ~ /_priv\.h$/) {
                if (path ~ /\// || FILENAME ~ /\/include\//) complain("a private header leaves its folder")
            } else if ($0 ~ /"/ && FILENAME ~ /\/include\//) {
                complain("a public header includes public headers as \"cs/ROOM/FILE.h\"")
            }
        }
        END { exit bad }
    ' $files || status=1
done <sim/cmake/rooms.txt
echo "$checked rooms checked"
[ $checked -gt 0 ] || status=1
exit $status
