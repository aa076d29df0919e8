#!/bin/sh
# Builds clustersim on Debian 12: installs the packages that are missing, then compiles into build/.
# Run `sh sim/install.sh --help`.
set -eu

usage() {
    cat <<'END'
usage: sh sim/install.sh [--with-tests | --test | --packages]

Installs the Debian packages that clustersim needs and this machine lacks (as root or with sudo; nothing is
asked for when nothing is missing), then builds build/clustersim.

  --with-tests  also install what the tests need, and build them
  --test        as --with-tests, build a second time with sanitizers (build/asan-ubsan), run all tests in both
  --packages    only install packages, those of the tests included
END
}

say() {
    printf '==> %s\n' "$*"
}

die() {
    printf 'install.sh: error: %s\n' "$*" >&2
    exit 1
}

# packages KIND...: the Debian packages listed for these kinds in sim/cmake/packages.txt.
packages() {
    for kind in "$@"; do
        awk -v kind="$kind" '$1 !~ /^#/ && $3 == kind { print $1 }' sim/cmake/packages.txt
    done
}

# Those of the given packages that are not installed.
missing() {
    for package in "$@"; do
        case $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) in
        *'installed '*) ;;
        *) echo "$package" ;;
        esac
    done
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: the packages are yours to install, sim/cmake/packages.txt lists them"
        return 0
    fi
    # shellcheck disable=SC2046 # package names are words
    lacking=$(missing $(packages "$@"))
    # Ninja is listed for the tests; the program alone can be built with either.
    if [ "$*" = build ] && ! command -v ninja >/dev/null && ! command -v make >/dev/null; then
        lacking="$lacking ninja-build"
    fi
    # shellcheck disable=SC2086
    set -- $lacking
    if [ $# -eq 0 ]; then
        say "all packages are there"
        return 0
    fi
    say "installing $*"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null; then
        as_root=sudo
    else
        die "root has to run: apt-get install --no-install-recommends $*"
    fi
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

# A build folder keeps the generator that it was made with; a new one gets Ninja where it is present.
build() {
    set -- -S . -B build -DCMAKE_BUILD_TYPE=Release "$@"
    if [ ! -f build/CMakeCache.txt ] && command -v ninja >/dev/null; then
        set -- -G Ninja "$@"
    fi
    cmake "$@"
    if [ "$tests" = yes ]; then
        say "building the program and the tests in build/"
        cmake --build build --parallel "$jobs"
    else
        say "building the program in build/"
        cmake --build build --parallel "$jobs" --target clustersim
    fi
}

run_tests() {
    say "building with sanitizers in build/asan-ubsan"
    cmake --preset asan-ubsan
    cmake --build build/asan-ubsan --parallel "$jobs"
    for dir in build build/asan-ubsan; do
        say "tests in $dir"
        ctest --test-dir "$dir" --output-on-failure --no-tests=error --parallel "$jobs"
    done
}

cd "$(dirname -- "$0")/.."
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
tests=no
run=no
case ${1-} in
'') ;;
--with-tests) tests=yes ;;
--test) tests=yes run=yes ;;
--packages) install_packages build test; exit 0 ;;
--help | -h) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }

if [ $tests = yes ]; then
    install_packages build test
    build -DCS_BUILD_TESTS=ON
else
    install_packages build
    build
fi
say "built $(pwd)/build/clustersim"
if [ $run = yes ]; then
    run_tests
fi
