#!/bin/sh
# files.sh ROOT: our C sources and headers, one a line, relative to ROOT; sorted.
# From the tree, not from git: a file that is not added yet is held to the same rules.
cd "${1:?usage: files.sh ROOT}" || exit 1
find sim platforms workloads strategies reports tests -name '*.[ch]' -type f 2>/dev/null | LC_ALL=C sort
