#!/bin/sh
# selftest.sh CC NM AR: the house-rule checks refuse what they are there to refuse, in a made-up tree.
set -u
cc=${1:?usage: selftest.sh CC NM AR}
nm=${2:?}
ar=${3:?}
lint=$(cd "$(dirname -- "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
met=0

# expect STATUS WHAT COMMAND...
expect() {
    want=$1
    what=$2
    shift 2
    output=$("$@" 2>&1)
    got=$?
    if [ $got -eq "$want" ]; then
        met=$((met + 1))
    else
        echo "selftest: '$what' gave $got, not $want: $output"
        failed=1
    fi
}

mkdir -p "$work/sim/cmake" "$work/sim/base/include/cs/base" "$work/sim/base/src" "$work/sim/engine/src" \
    "$work/workloads/src" "$work/tests/lint"
cp "$lint/../../sim/cmake/rooms.txt" "$work/sim/cmake/"
cp "$lint/files.sh" "$lint/units.awk" "$work/tests/lint/"
header=$work/sim/base/include/cs/base/x.h
source=$work/workloads/src/x.c

# includes FILE TEXT WHAT STATUS: the layering test with one include line in one file.
includes() {
    echo "#include $2" >"$1"
    expect "$4" "$3" sh "$lint/layering.sh" "$work"
    rm "$1"
}
includes "$source" '"cs/base/err.h"' "a room above" 0
includes "$source" '"cs/workloads/model.h"' "its own header" 0
includes "$source" '"cs/platforms/chip.h"' "the one header it may know" 0
includes "$source" '"cs/platforms/platform.h"' "another header of that room" 1
includes "$source" '"cs/engine/engine.h"' "a room below" 1
includes "$source" '<simgrid/host.h>' "SimGrid outside the engine" 1
includes "$work/sim/engine/src/x.c" '<simgrid/host.h>' "SimGrid inside the engine" 0
includes "$source" '"x_priv.h"' "its own private header" 0
includes "$source" '"../../sim/base/src/x_priv.h"' "another room's private header" 1
includes "$header" '"x_priv.h"' "a private header in a public one" 1

# declares TEXT STATUS
declares() {
    printf '%b\n' "$1" >"$header"
    expect "$2" "$1" sh "$lint/units.sh" "$work"
}
declares 'double x(double time_s, double *rate_flop_per_s, const double size_bytes[3]);' 0
declares 'double x(double time);' 1
declares 'void x(int a,\n       double rate);' 1
declares 'struct x {\n    double a_s, b;\n};' 1
declares 'struct x {\n    double a; /* @unit dimensionless */\n    double b_s;\n};' 0
declares 'struct x {\n    double a; /* @unit dimensionless */\n    double b;\n};' 1
declares '/** Ratio.\n *  @unit dimensionless */\nvoid x(double a,\n       double b);\nvoid y(int a);' 0
declares '/** @unit none */\nvoid x(double a);\nvoid y(double a);' 1
declares '/* a double that stands in a comment */\nvoid x(int a);' 0

# compiles TEXT STATUS
compiles() {
    printf '%b\n' "$1" >"$header"
    expect "$2" "$1" sh "$lint/headers.sh" "$cc" "$work/sim/base" "$work/sim/base/include"
}
compiles '#ifndef X\n#define X\n#include <stddef.h>\nsize_t x(void);\n#endif' 0
compiles '#ifndef X\n#define X\nsize_t x(void);\n#endif' 1
compiles 'enum x { X };' 1
rm "$header"

# calls ROOM TEXT STATUS
calls() {
    printf '%b\n' "$2" | "$cc" -std=c11 -x c -c -o "$work/x.o" - && "$ar" rcs "$work/libx.a" "$work/x.o" &&
        expect "$3" "$1: $2" sh "$lint/symbols.sh" "$nm" "$1=$work/libx.a"
    rm -f "$work/x.o" "$work/libx.a"
}
calls engine '#include <stdio.h>\nvoid x(FILE *f);void x(FILE *f) { fprintf(f, "%d", 1); }' 0
calls engine '#include <stdio.h>\nvoid x(int i);void x(int i) { printf("%d", i); }' 1
calls engine '#include <stdlib.h>\nvoid x(void);void x(void) { exit(1); }' 1
calls engine '#include <stdlib.h>\nvoid x(void);void x(void) { abort(); }' 0
calls base '#include <stdlib.h>\nchar *x(void);char *x(void) { return getenv("X"); }' 1
calls base '#include <stdlib.h>\nvoid *x(void);void *x(void) { return malloc(1); }' 0
calls engine '#include <stdlib.h>\nvoid *x(void);void *x(void) { return malloc(1); }' 1

echo "$met expectations met"
exit $failed
