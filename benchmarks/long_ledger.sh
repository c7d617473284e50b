#!/usr/bin/env bash
# Prints what a run of 1,000 replayed cases costs on a long ledger, beside the same run on
# a fresh one, in turns: wall time and processor time, start and anchor included. The
# ledger is made of attempts of 100,000 cases, two entries each. Wants a quiet machine,
# and 1 GB of disk in TMPDIR for 2,000,000 entries.
#
#   benchmarks/long_ledger.sh [ENTRIES] [TURNS]
set -euo pipefail
cd "$(dirname "$0")/.."
entries=${1:-220000} turns=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$work/tally" ./cmd/tally
export XDG_STATE_HOME="$work/state"

make_class() { # WORKSPACE NAME CASES
    mkdir -p "$1/bench/$2"
    cat >"$1/bench/$2/registration.yaml" <<YAML
version: 1
class: $2
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
    seq 1 "$3" | awk '{printf "{\"id\":\"case-%07d\",\"input\":\"What is %d plus %d?\",\"model\":[{\"text\":\"%d\"}],\"expected\":\"%d\",\"grade\":{\"kind\":\"exact\"}}\n", $1, $1, $1, 2*$1, 2*$1}' \
        >"$1/bench/$2/dataset.jsonl"
}

for ws in fresh long; do
    "$work/tally" init "$work/$ws" >/dev/null
    make_class "$work/$ws" thousand 1000
done
left=$entries
while [ "$left" -gt 0 ]; do
    cases=$(((left < 200000 ? left : 200000) / 2))
    make_class "$work/long" "long$cases" "$cases"
    "$work/tally" --workspace "$work/long" run "long$cases" --quiet >/dev/null
    left=$((left - 2 * cases - 2))
done

# once WORKSPACE prints wall and processor seconds of a run.
once() {
    local TIMEFORMAT='%R %U %S'
    { time "$work/tally" --workspace "$1" run thousand --quiet >/dev/null 2>&1; } 2>&1 | awk '{print $1, $2 + $3}'
}
once "$work/fresh" >/dev/null # the first after the long one reads everything
once "$work/long" >/dev/null
for ((i = 0; i < turns; i++)); do
    # A fresh ledger is one that nothing but this run wrote to.
    rm -rf "$work/fresh"
    "$work/tally" init "$work/fresh" >/dev/null
    make_class "$work/fresh" thousand 1000
    echo "fresh $(once "$work/fresh")"
    echo "long $(once "$work/long")"
done | awk -v n="$entries" '
    { if (!($1 in wall) || $2 < wall[$1]) wall[$1] = $2; if (!($1 in cpu) || $3 < cpu[$1]) cpu[$1] = $3 }
    END { printf "1,000 cases on a ledger of %d entries: %.2f s, processor %.2f s; on a fresh one %.2f s, %.2f s; ratio %.2f, %.2f\n", n, wall["long"], cpu["long"], wall["fresh"], cpu["fresh"], wall["long"] / wall["fresh"], cpu["long"] / cpu["fresh"] }'
