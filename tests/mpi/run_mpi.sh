#!/bin/sh
# run_mpi.sh CLUSTERSIM CLUSTERSIM_MPI: the same search on one machine and under mpirun; workers and ranks are killed.
set -u
clustersim=$1
bridge=$2
study=$(cd "$(dirname "$0")/../data/studies" && pwd)/llama3-70b-64-plain.yaml || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LC_ALL=C
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
if ! mpirun --oversubscribe -n 2 true >probe 2>&1; then
    echo "mpirun does not run here:" && cat probe
    exit 77
fi
set -- search "$study" -q --top 20 --algorithm enumerate --set strategy.mp='[4, 8]'
strip() { sed -E '/"(elapsed_s|wall_s|remembered)"/d' "$1"; }
compare() {
    strip "$1.json" >"$1.same"
    cmp one.same "$1.same" || { echo "$1: not the result of one machine"; cat "$1.txt"; exit 1; }
    echo "$1: as on one machine"
}
# The process that the bridge of rank 1 (the second child of mpirun $1) has started, or that bridge itself.
rank_1() { ps -o pid= --ppid "$1" | sort -n | sed -n 2p | tr -d ' '; }
worker_1() { ps -o pid= --ppid "$(rank_1 "$1")" | head -1 | tr -d ' '; }

"$clustersim" "$@" --json one.json >/dev/null || exit 1
strip one.json >one.same
mpirun --oversubscribe -n 3 "$bridge" "$@" --json many.json >many.txt 2>&1 || { cat many.txt; exit 1; }
compare many

# A worker dies: its strategy is tried elsewhere, another worker takes its place.
mpirun --oversubscribe -n 3 "$bridge" "$@" --json worker.json >worker.txt 2>&1 &
pid=$!
sleep 1.5
kill -9 "$(worker_1 $pid)" || echo "the search was over before its worker could be killed"
wait $pid || { cat worker.txt; exit 1; }
compare worker

# A rank dies (--enable-recovery: mpirun goes on without it). mpirun's own exit status then says so.
mpirun --enable-recovery --oversubscribe -n 3 "$bridge" "$@" --json rank.json >rank.txt 2>&1 &
pid=$!
sleep 1.5
kill -9 "$(rank_1 $pid)" || echo "the search was over before its rank could be killed"
wait $pid
compare rank
exit 0
