#!/usr/bin/env bash
# Prints how long pages of "tally serve" take in headless Chromium (first contentful
# paint, and until the content is there), beside a server that sends the same bytes from
# memory; and "inspect view" on an export of an attempt, through the same browser.
#
#   benchmarks/viewer_browser.sh [CASES] [TURNS] [SAMPLES]
#
# A turn of the long case is 36 events, so 8,400 turns are 300,000 events; "200 20 50"
# is enough to see that everything works. Every part ends after a time of its own, and
# what is left out is said, with the reason: Chromium, Python, or a registry of Python's
# packages may be missing. INSPECT names an "inspect" that is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-100000} turns=${2:-8400} samples=${3:-1000}
inspect=$(sed -n 's/^version=//p' .ci/conformance.d/inspect | head -1)
work=$(mktemp -d)
server= view=
skip() { echo "left out: $*"; exit 0; }
command -v chromium >/dev/null || skip "no chromium to look with"
# wait_for ADDRESS PROCESS LOG: until something answers there, or a minute has passed.
wait_for() {
    for _ in $(seq 600); do
        curl -s -m 5 -o /dev/null "$1" && return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    echo "no answer at $1:" && cat "$3"
    return 1
}
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; [ -n "$view" ] && kill "$view" 2>/dev/null; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$work/tally" ./cmd/tally
go test -c -o "$work/timing" ./benchmarks
export XDG_STATE_HOME="$work/state"
tally() { "$work/tally" --workspace "$work/ws" "$@"; }

registration() {
    mkdir -p "$work/ws/bench/$1"
    cat >"$work/ws/bench/$1/registration.yaml" <<YAML
version: 1
class: $1
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 3600, memory_bytes: 1073741824, turns: 10000, tokens: 2000000000, cost_microdollars: 1000000, kept_bytes: 536870912, events: 900000, read_bytes: 100000000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
}
dataset() { # CLASS CASES: every seventh case fails
    registration "$1"
    seq 1 "$2" | awk '{printf "{\"id\":\"case-%07d\",\"input\":\"What is %d plus %d?\",\"model\":[{\"text\":\"%d\"}],\"expected\":\"%d\",\"grade\":{\"kind\":\"exact\"}}\n", $1, $1, $1, 2*$1, 2*$1+($1%7==0)}' \
        >"$work/ws/bench/$1/dataset.jsonl"
}

"$work/tally" init "$work/ws" >/dev/null
dataset many "$cases"
dataset few "$samples"
registration turns
mkdir -p "$work/ws/bench/turns/cases/one"
cat >"$work/ws/targets/short.yaml" <<YAML
version: 1
kind: builtin
builtin: {model: fake-1, api: openai.chat, max_output_tokens: 50, retries: 0, context: {window: 4000, budget: 900}}
YAML
cat >"$work/ws/bench/turns/cases/one/case.yaml" <<YAML
schema_version: 1
case_id: one
title: "Many turns"
disposition: positive
difficulty: easy
provenance: {source: curated, source_ref: {type: synthetic, value: benchmark}, added_at: "2026-05-01T09:00:00Z", last_validated_at: "2026-05-01T09:00:00Z"}
YAML
printf 'checks:\n  - {name: noted, grade: {kind: contains, expected: ["noted"]}}\n' >"$work/ws/bench/turns/cases/one/grading.yaml"
{
    printf 'version: 1\ntools:\n  - {name: look, description: Look., class: read, replies: [{result: {is: here}}]}\nturns:\n'
    seq 1 "$turns" | awk '{printf "  - text: \"Note %d. The lift stops now and then.\"\n", $1}'
    printf 'model:\n  - {repeat: true, when: {last: "Note"}, tool_calls: ['
    for i in 1 2 3 4 5 6 7; do printf '%s{name: look, args: {at: %d}}' "$([ "$i" = 1 ] || echo ', ')" "$i"; done
    printf ']}\n  - {repeat: true, text: noted}\n'
} >"$work/ws/bench/turns/cases/one/scenario.yaml"
# The long case may end at a limit: its events are there all the same.
for run in many few "turns --target short"; do
    before=$SECONDS
    timeout 1800 "$work/tally" --workspace "$work/ws" run $run --quiet --json >/dev/null 2>"$work/run.log" || [ $? = 4 ] || echo "run $run: ended with another code than 0 or 4: $(tail -n 1 "$work/run.log")"
    echo "run $run: $((SECONDS - before)) s"
done

port=18417 token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "$token" >"$work/token"
"$work/tally" --workspace "$work/ws" serve --addr "127.0.0.1:$port" --token-file "$work/token" >"$work/serve.log" 2>&1 &
server=$!
wait_for "http://127.0.0.1:$port/" "$server" "$work/serve.log"
base=http://127.0.0.1:$port
{
    printf 'overview\t%s/\tNewest attempts\n' "$base"
    printf '%s cases\t%s/attempt/many.default.1\tcase-0000007\n' "$cases" "$base"
    printf 'the last of its pages\t%s/attempt/many.default.1?page=99999\tcase-\n' "$base"
    printf 'a long transcript\t%s/attempt/turns.short.1/case/one\tRun started\n' "$base"
    printf 'the middle of it\t%s/attempt/turns.short.1/case/one?from=150001\tNote\n' "$base"
    printf '%s samples\t%s/attempt/few.default.1\tcase-0000007\n' "$samples" "$base"
    printf 'one of them\t%s/attempt/few.default.1/case/case-0000007\tRun started\n' "$base"
} >"$work/pages"
echo "tally serve, $cases cases, $(tally show turns.short.1:one --events | wc -l) events; load $(cut -d' ' -f1 /proc/loadavg)"
timeout 900 "$work/timing" -test.run PagesInABrowser -pages "$work/pages" -enter "$base/?token=$token" | grep -v '^PASS' || echo "tally serve: its pages took more than 900 s"
echo "  most memory of the server: $(awk '/VmHWM/{printf "%d MB", $2 / 1024}' "/proc/$server/status")"

# Inspect, the same number of samples.
inspect_view=${INSPECT:-$work/venv/bin/inspect}
if [ -z "${INSPECT:-}" ]; then
    python3 -m venv "$work/venv" 2>"$work/pip.log" || skip "inspect view: no Python with venv ($(tail -n 1 "$work/pip.log"))"
    timeout 150 "$work/venv/bin/pip" install -q "inspect_ai==$inspect" 2>"$work/pip.log" || skip "inspect view: inspect_ai $inspect could not be installed within 150 s ($(tail -n 1 "$work/pip.log"))"
fi
mkdir "$work/logs"
tally export few.default.1 --format inspect -o "$work/logs/few.eval" >/dev/null
"$inspect_view" view start --log-dir "$work/logs" --host 127.0.0.1 --port 18418 >"$work/view.log" 2>&1 &
view=$!
wait_for http://127.0.0.1:18418/ "$view" "$work/view.log"
{
    printf 'its list of logs\thttp://127.0.0.1:18418/\tfew\n'
    printf '%s samples\thttp://127.0.0.1:18418/#/logs/few.eval/samples\tcase-0000001\n' "$samples"
    printf 'one of them\thttp://127.0.0.1:18418/#/logs/few.eval/samples/sample/case-0000007/1/transcript\tWhat is 7 plus 7\n'
} >"$work/pages"
echo "inspect view $inspect, $samples samples"
timeout 900 "$work/timing" -test.run PagesInABrowser -pages "$work/pages" | grep -v '^PASS' || echo "inspect view: its pages took more than 900 s"
