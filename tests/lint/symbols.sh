#!/bin/sh
# symbols.sh NM ROOM=ARCHIVE...: what the objects of a library room call. The process (exit, environment,
# standard output) belongs to sim/cli; writing to a FILE * that was handed in is fine, and so are abort (a
# bug) and _exit (a forked child). Allocation goes through base, which has the one out-of-memory handler.
set -u
nm=${1:?usage: symbols.sh NM ROOM=ARCHIVE...}
shift
process='exit|quick_exit|atexit|getenv|secure_getenv|setenv|putenv|environ'
stdout='(__)?v?printf(_chk)?|puts|putchar|putchar_unlocked|perror'
unsafe='rand|srand|random|srandom|strtok|gets|(__)?(sprintf|vsprintf|strcpy|strcat)(_chk)?|atoi|atol|atof'
memory='malloc|calloc|realloc|reallocarray|strdup|strndup'
status=0
for pair in "$@"; do
    banned="$process|$stdout|$unsafe"
    [ "${pair%%=*}" = base ] || banned="$banned|$memory"
    calls=$("$nm" -A -u "${pair#*=}") || exit 1
    found=$(printf '%s\n' "$calls" | grep -E " U ($banned)(@.*)?\$")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" | sed "s|^.*/||; s|\$|    (not in ${pair%%=*})|"
        status=1
    fi
done
exit $status
