#!/usr/bin/env bash
# Prints what a fleet costs beside one process, as ratios of the same run:
#
#   - cases of a sandboxed agent that sleeps 50 ms: "tally run" beside a coordinator
#     with 1, 2 and 4 workers on the same machine, in turns;
#   - how many results a second one coordinator takes of workers that answer at once,
#     and what processor time it spends on each;
#   - the same with 1,000 workers.
#
#   benchmarks/fleet.sh [CASES [ROUNDS]]        1000 cases, 3 rounds
#
# All workers share this machine's processors, so 2 and 4 of them show what spreading
# costs and not what it gains. JOBS=n drives n cases at once, over all workers (8).
# RESULTS=n takes n results in the second part (20000); SLEEP=no leaves the first out.
# On a busy machine believe the processor time.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-1000} rounds=${2:-3} jobs=${JOBS:-8}
work=$(mktemp -d)
hands=()
finish() {
	for pid in "${hands[@]}"; do kill "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap finish EXIT
export XDG_STATE_HOME="$work/state" TIMEFORMAT='%R %U %S'

CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/" ./cmd/tally ./cmd/tally-fleet
mkdir "$work/agent"
cat >"$work/agent/main.go" <<'GO'
package main

import (
	"fmt"
	"time"
)

func main() {
	time.Sleep(50 * time.Millisecond)
	fmt.Println("y")
}
GO
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/agent/main" "$work/agent/main.go"
rm "$work/agent/main.go"

"$work/tally" init "$work/ws" >/dev/null 2>&1
cd "$work/ws"
mv "$work/agent" targets/agent
for n in 1 2 3 4; do
	"$work/tally" keys new "worker$n" >/dev/null
	"$work/tally" signers add "worker$n" --roles worker --ssh ".tally/keys/worker$n.pub" >/dev/null
done
"$work/tally" signers sign --key .tally/keys/example-alice >/dev/null
"$work/tally" signers sign --key .tally/keys/example-bob >/dev/null
"$work/tally" signers apply >/dev/null
root=$(sed -n 's/^trust_root: //p' tally.yaml)
mkdir bench/slow
cat >bench/slow/registration.yaml <<'YAML'
version: 1
class: slow
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 600, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [namespace], scope: case, allow_weaker: true}
judged_scores_count: false
YAML
for i in $(seq "$cases"); do
	printf '{"id":"c%06d","input":"x","expected":"y","grade":{"kind":"exact"}}\n' "$i"
done >bench/slow/dataset.jsonl
printf 'version: 1\nkind: command\ncommand: {command: [/agent/main], files: agent}\n' >targets/sleeper.yaml

# took PROGRAM ARGUMENTS...: seconds, and seconds of processor time.
took() {
	{ time "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || { cat "$work/out" "$work/err" >&2; return 1; }
	awk '{printf "%.2f %.2f", $1, $2 + $3}' "$work/time"
}

alone() { took "$work/tally" run slow --target sleeper --jobs "$jobs"; }

# fleet WORKERS: the same of the coordinator and its workers together.
fleet() {
	local n port=$((20000 + RANDOM % 20000)) all
	for n in $(seq "$1"); do
		{ time "$work/tally-fleet" worker --join "nats://127.0.0.1:$port" --trust-root "$root" --key ".tally/keys/worker$n" \
			--jobs $(((jobs + $1 - 1) / $1)) --once >/dev/null 2>"$work/worker$n.err"; } 2>"$work/worker$n.time" &
		hands+=($!)
	done
	all=$(took "$work/tally-fleet" run slow --target sleeper --fleet embedded --listen "127.0.0.1:$port") || return 1
	wait "${hands[@]}"
	hands=()
	{ echo "x $all" | awk '{print $2, $3, 0}'; for n in $(seq "$1"); do cat "$work/worker$n.time"; done; } | awk 'NR == 1 {wall = $1} {cpu += $2 + $3} END {printf "%.2f %.2f", wall, cpu}'
}

echo "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $cases cases of 50 ms and a sandbox, $jobs at once"
if [ "${SLEEP:-yes}" = yes ]; then
	printf 'round\thow\tseconds\tof one process\tprocessor time\tof one process\n'
	for round in $(seq "$rounds"); do
		base=$(alone)
		printf '%s\tone process\t%s\t1.00\t%s\t1.00\n' "$round" $base
		for workers in 1 2 4; do
			got=$(fleet "$workers")
			echo "$base $got" | awk -v r="$round" -v w="$workers" '{printf "%s\t%d workers\t%.2f\t%.2f\t%.2f\t%.2f\n", r, w, $3, $3/$1, $4, $4/$2}'
		done
	done
	"$work/tally" ledger verify --strict >/dev/null && echo "ledger verify --strict: clean"
	echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
fi
cd - >/dev/null
RESULTS=${RESULTS:-20000} go test ./cmd/tally-fleet -count=1 -v -timeout 60m -run '^TestFigures$' -figures | grep -E 'results/s|FAIL|ok '
echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
