#!/bin/sh
# run_readme.sh README CLUSTERSIM: run the commands that the README shows, so that what it shows works.
# run_readme.sh README --list: print them.
#
# A command is a line that starts with "$ " in a fenced block marked console; a line that ends in a backslash
# goes on in the next. They run in order in a stand-in for the repository (the folders are links to the real
# ones, build/clustersim is the given program), so what they write at its top stays out of the source tree.
# Lines that run sim/install.sh build and test the program themselves: .ci/run runs those.
set -u
usage='usage: run_readme.sh README CLUSTERSIM|--list'
readme=${1:?$usage}
program=${2:?$usage}

commands=$(awk '
    /^```/ { inside = !inside && $0 ~ /^```console/; next }
    inside && (more || /^\$ /) {
        line = $0
        if (!more) sub(/^\$ /, "", line)
        sub(/^> /, "", line)
        more = sub(/\\$/, "", line)
        printf "%s%s", line, more ? "" : "\n"
    }' "$readme") || exit 1
if [ -z "$commands" ]; then
    echo "$readme shows no command (lines that start with '$ ' in a \`\`\`console block)" >&2
    exit 1
fi
if [ "$program" = --list ]; then
    printf '%s\n' "$commands"
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
root=$(cd "$(dirname -- "$readme")" && pwd) || exit 1
program=$(cd "$(dirname -- "$program")" && pwd)/$(basename -- "$program") || exit 1
printf '%s\n' "$commands" >"$work/commands"
mkdir -p "$work/repository/build"
ln -s "$program" "$work/repository/build/clustersim"
for entry in "$root"/*; do
    [ "$(basename "$entry")" = build ] || ln -s "$entry" "$work/repository/"
done
cd "$work/repository" || exit 1
while IFS= read -r command; do
    case $command in *install.sh*) echo "left to .ci/run: $command"; continue ;; esac
    echo "\$ $command"
    sh -e -c "$command" </dev/null || { echo "exit status $? from: $command"; exit 1; }
done <"$work/commands"
