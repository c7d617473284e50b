# shellcheck shell=bash
# Writes classes for the benchmarks of the viewer. It is sourced, not run: the caller
# has $work, the folder of the workspaces, and $governance, the mode of the classes.

registration() { # WORKSPACE CLASS
    mkdir -p "$work/$1/bench/$2"
    cat >"$work/$1/bench/$2/registration.yaml" <<YAML
version: 1
class: $2
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 3600, memory_bytes: 1073741824, turns: 10000, tokens: 2000000000, cost_microdollars: 1000000, kept_bytes: 536870912, events: 900000, read_bytes: 100000000000}
governance: $governance
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
}
dataset() { # WORKSPACE CLASS CASES: every seventh case fails
    registration "$1" "$2"
    seq 1 "$3" | awk '{printf "{\"id\":\"case-%07d\",\"input\":\"What is %d plus %d?\",\"model\":[{\"text\":\"%d\"}],\"expected\":\"%d\",\"grade\":{\"kind\":\"exact\"}}\n", $1, $1, $1, 2*$1, 2*$1+($1%7==0)}' \
        >"$work/$1/bench/$2/dataset.jsonl"
}
