#!/bin/sh
# run_findings.sh README CLUSTERSIM: run the shipped what-if studies and compare their figures with what the README
# says of each. A finding that no longer holds is printed with the words that would be right.
set -u
usage='usage: run_findings.sh README CLUSTERSIM'
readme=${1:?$usage}
clustersim=${2:?$usage}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0

# says STUDY WORDS: the README's row of the study has these words.
says() {
    grep -F "| \`$1\` |" "$readme" | grep -qF -e "$2" && return
    echo "README.md, $1: the study's output says '$2'"
    status=1
}

# sweep STUDY PROGRAM [OPTION...]: what an awk program makes of the study's points, `now` being
# the tokens per second of a point. Swept keys are the first columns.
sweep() {
    study=$1
    program=$2
    shift 2
    "$clustersim" sweep "$study" --no-upgrades -q --csv "$work/points.csv" "$@" >/dev/null || exit 1
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "tokens_per_s") figure = i - NF; next }
        { now = $(NF + figure) }'"$program" "$work/points.csv"
}

says what-if-ratio "$(sweep what-if-ratio '
    { first = first ? first : now; last = now }
    END { printf "1:20 costs %.1f %%", 100 * (1 - last / first) }')"
says what-if-ratio "$(sweep what-if-ratio '
    { match($0, /"dp=[^"]*"/); strategy = substr($0, RSTART, RLENGTH) }
    NR > 2 && strategy != before && !at { at = $1 }
    { before = strategy }
    END { printf "from 1:%s down another one is best", at }')"
says what-if-mesh "$(sweep what-if-mesh '
    { speed[$1 $2] = now }
    function gain(g) {
        g = 100 * (speed[g "switch"] / speed[g "mesh"] - 1)
        return g < 0.5 ? "nothing" : sprintf("+%.0f %%", g)
    }
    END { print gain(2) ", " gain(4) ", " gain(8) }')"
says what-if-rail "$(sweep what-if-rail '
    { speed[$1 $2 $3] = now }
    function lost(how) { return 100 * (1 - speed[how 8] / speed[how 1]) }
    END {
        printf "rails lose %.0f %% at an oversubscription of 8:1 and a fat tree %.0f %%", \
            lost("hierarchicalrail"), lost("hierarchicalfat-tree")
    }' --over platform.oversubscription=1,8)"
says what-if-rail "$(awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "tokens_per_s") figure = i - NF; next }
    { speed[$1 $2 $3] = $(NF + figure) }
    END {
        rail = speed["meshrail8"] / speed["meshrail1"]; tree = speed["meshfat-tree8"] / speed["meshfat-tree1"]
        thirds = rail > 0.29 && rail < 0.38 && tree > 0.29 && tree < 0.38
        if (thirds) print "sent directly, both lose two thirds"
        else printf "sent directly, rails lose %.0f %%, a fat tree %.0f %%", 100 - 100 * rail, 100 - 100 * tree
    }' "$work/points.csv")"
says what-if-scale "$(sweep what-if-scale '
    { speed[$1] = now / $1 }
    END {
        printf "%.0f %% of the speed a NPU at 256, %.0f %% at 1,024, %.0f %% at 4,096", \
            100 * speed[256] / speed[64], 100 * speed[1024] / speed[64], 100 * speed[4096] / speed[64]
    }')"
says what-if-oversubscription "$(sweep what-if-oversubscription '
    { first = first ? first : now; last = now }
    END { printf "8:1 costs %.2f %%", 100 * (1 - last / first) }')"

"$clustersim" plan plan-llama3-70b -q --csv "$work/plan.csv" >"$work/plan.txt" || exit 1
says plan-llama3-70b "$(sed -n 's/^smallest *\([0-9]* nodes\) .*topology \([a-z]*\)-\([a-z]*\), oversubscription.*/\1/p' \
    "$work/plan.txt")"
says plan-llama3-70b "$(awk '$1 == 72 && !seen { printf "72 take %.0f days", $7; seen = 1 }' "$work/plan.txt")"
says plan-llama3-70b "$(sed -n 's/.*goodput \([0-9.]*\) %, simulated.*/\1/p' "$work/plan.txt" | head -n 1 |
    awk '{ printf "failures and checkpoints take %.0f %% of the time", 100 - $1 }')"
exit $status
