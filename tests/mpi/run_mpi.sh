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
# A child of ours that has ended stays until it is waited for.
is_running() { ps -o stat= -p "$1" | grep -qv Z; }

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

# A rank is silent for longer than it may be, and comes back: everything ends all the same.
mpirun --enable-recovery --oversubscribe -n 3 "$bridge" "$@" --json silent.json >silent.txt 2>&1 &
pid=$!
sleep 1.5
silent=$(rank_1 $pid)
kill -STOP "$silent" || echo "the search was over before its rank could be stopped"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    [ ! -s silent.json ] || break
    sleep 1
done
sleep 1
kill -CONT "$silent" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    is_running $pid || break
    sleep 1
done
if is_running $pid; then
    kill -9 $pid
    echo "mpirun does not end after a silent rank came back"
    exit 1
fi
compare silent

# Ctrl-C: the results so far are written whole, of a search that takes minutes. mpirun passes it on as it likes, and
# kills a second later.
mpirun --oversubscribe -n 3 "$bridge" "$@" --fidelity full --set strategy.mp=auto --json stopped.json >stopped.txt 2>&1 &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -z "$(worker_1 $pid 2>/dev/null)" ] || break # a worker has a strategy at hand
    sleep 0.5
done
kill -INT $pid
wait $pid
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ ! -s stopped.json ] || break
    sleep 0.5
done
if ! grep -q '"end": "interrupted"' stopped.json || [ "$(tail -c 2 stopped.json)" != '}' ]; then
    echo 'stopped: no results'
    cat stopped.txt
    exit 1
fi
echo 'stopped: the results so far'
exit 0
