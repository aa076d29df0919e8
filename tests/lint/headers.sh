#!/bin/sh
# headers.sh CC ROOM_DIR INCLUDE_DIRS: every public header of the room compiles alone, twice over, with the
# include folders of its target (separated by commas) and nothing else.
set -u
cc=${1:?usage: headers.sh CC ROOM_DIR INCLUDE_DIRS}
[ -d "${2:?}/include" ] || { echo "no public headers"; exit 0; }
cd "$2/include" || exit 1
flags=
old_ifs=$IFS
IFS=,
for dir in ${3?}; do
    flags="$flags -I$dir"
done
IFS=$old_ifs
status=0
for header in $(find . -name '*.h' | LC_ALL=C sort); do
    header=${header#./}
    # shellcheck disable=SC2086 # the flags are words
    printf '#include "%s"\n#include "%s"\ntypedef int cs_not_empty;\n' "$header" "$header" |
        "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror \
            -fsyntax-only $flags -x c - || { echo "$header does not compile alone"; status=1; }
done
exit $status
