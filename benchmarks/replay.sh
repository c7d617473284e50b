#!/usr/bin/env bash
# Prints how many replayed cases a second an attempt runs (built-in target, plain
# grader, evidence and ledger durable on disk), beside promptfoo's echo provider
# in the same run where npm can install it, and the peak memory of a long
# attempt. Wants a quiet machine.
#
#   benchmarks/replay.sh [CASES] [LONG] [PROMPTFOO_TESTS]
#
# PEER=folder keeps promptfoo there between runs: compiling its database takes
# minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-20000} long=${2:-100000} peer=${3:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/tally" ./cmd/tally
export XDG_STATE_HOME="$work/state"
"$work/tally" init "$work/ws" >/dev/null

# A class of N cases, each with its own question and answer.
make_class() {
    mkdir -p "$work/ws/bench/$1"
    cat >"$work/ws/bench/$1/registration.yaml" <<YAML
version: 1
class: $1
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
    seq 1 "$2" | awk '{printf "{\"id\":\"case-%07d\",\"input\":\"What is %d plus %d?\",\"model\":[{\"text\":\"%d\"}],\"expected\":\"%d\",\"grade\":{\"kind\":\"exact\"}}\n", $1, $1, $1, 2*$1, 2*$1}' \
        >"$work/ws/bench/$1/dataset.jsonl"
}

now() { date +%s.%N; }
# The time that other guests took from this machine, of all since it started.
stolen() { awk '/^cpu /{t=0; for(i=2;i<=9;i++)t+=$i; print $9, t}' /proc/stat; }
share() { echo "$1 $2" | awk '{if($4>$2) printf "%.0f %%", 100*($3-$1)/($4-$2); else printf "0 %%"}'; }
rate() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN{printf "%.0f", n/(b-a)}'; }

make_class replay "$cases"
before=$(stolen)
a=$(now); "$work/tally" --workspace "$work/ws" run replay --quiet --json >"$work/out.json"; b=$(now)
ours=$(rate "$cases" "$a" "$b")
echo "tally run: $cases replayed cases, $ours cases/s, start, verification and anchor included; $(share "$before" "$(stolen)") of the time was taken by other guests"

make_class long "$long"
"$work/tally" --workspace "$work/ws" run long --quiet --json >"$work/out.json" &
pid=$!
peak=0
while kill -0 $pid 2>/dev/null; do
    rss=$(awk '/VmHWM/{print $2}' "/proc/$pid/status" 2>/dev/null || true)
    [ -n "${rss:-}" ] && peak=$rss
    sleep 0.2
done
wait $pid
echo "tally run: $long cases, peak memory $((peak / 1024)) MB"

if ! command -v npm >/dev/null; then
    echo "promptfoo: npm is not here; not compared"
    exit 0
fi
peer_dir=${PEER:-$work/peer}
mkdir -p "$peer_dir" && cd "$peer_dir"
# npm runs no install scripts unasked; promptfoo needs this one, and the headers
# of the node that is here, not those of a server.
export npm_config_nodedir=${npm_config_nodedir:-$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")}
if [ ! -e node_modules/better-sqlite3/build/Release/better_sqlite3.node ] && ! {
    npm install --no-audit --no-fund --silent promptfoo@0.120.27 && npm rebuild --silent better-sqlite3
} >npm.log 2>&1; then
    echo "promptfoo: npm could not install it; not compared"
    exit 0
fi
{
    echo 'prompts: ["{{q}}"]'
    echo 'providers: [echo]'
    echo 'tests:'
    seq 1 "$peer" | awk '{printf "  - {vars: {q: \"What is %d plus %d?\"}, assert: [{type: equals, value: \"What is %d plus %d?\"}]}\n", $1, $1, $1, $1}'
} >promptfooconfig.yaml
export PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_CONFIG_DIR="$work/home"
a=$(now); npx promptfoo eval --no-table --no-progress-bar --no-cache -j 8 >eval.log 2>&1 || { tail -5 eval.log; echo "promptfoo: did not run; not compared"; exit 0; }; b=$(now)
theirs=$(rate "$peer" "$a" "$b")
echo "promptfoo echo ($(npx promptfoo --version 2>/dev/null)): $peer tests, $theirs tests/s, start included"
awk -v a="$ours" -v b="$theirs" 'BEGIN{printf "ratio: %.1f\n", a/b}'
