#!/usr/bin/env bash
# Prints how pages of "tally view --public" do in headless Chromium: first contentful paint, when
# the content is there, frames while scrolling, each beside a server that sends the same
# bytes from memory; the most memory of the server; how long a workspace of many attempts
# takes to open the second time; and "inspect view" on as many samples and events, through
# the same browser. The load of the machine stands beside each part.
#
#   benchmarks/viewer_browser.sh [CASES] [TURNS] [ATTEMPTS]
#
# A turn of the long case is 40 events, so 8,400 turns are over 300,000 events. Without
# arguments it takes 15 to 20 minutes on two processors; "200 20 5" takes one or two and
# shows that everything works. Every part ends after a time of its own, and what is left
# out is said, with the reason: Chromium, Python, or a registry of Python's packages may
# be missing. INSPECT names an "inspect" that is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-100000} turns=${2:-8400} attempts=${3:-1000}
inspect=$(sed -n 's/^version=//p' .ci/conformance.d/inspect | head -1)
rounds=5
[ "$cases" -ge 10000 ] || rounds=2
work=$(mktemp -d)
server=
left_out() { echo "left out: $*"; exit 0; }
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }; server=; }
trap 'stop; rm -rf "$work"' EXIT
command -v chromium >/dev/null || left_out "no chromium to look with"
load() { echo "load $(cut -d' ' -f1 /proc/loadavg)"; }
memory() { awk '/VmHWM/{printf "%d MB", $2 / 1024}' "/proc/$server/status"; }
now() { date +%s%N; }
since() { echo "$((($(now) - $1) / 1000000)) ms"; }
# wait_for ADDRESS LOG: until the server answers there, or five minutes have passed.
wait_for() {
    for _ in $(seq 15000); do
        curl -s -m 5 -o /dev/null "$1" && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.02
    done
    echo "no answer at $1:" && cat "$2"
    return 1
}
# browse SECONDS ARGUMENT...: times the pages that are listed in $work/pages.
browse() {
    local seconds=$1
    shift
    timeout "$seconds" "$work/timing" -test.run PagesInABrowser -test.timeout 0 -pages "$work/pages" "$@" | grep --line-buffered -v '^PASS' || echo "  these pages took more than $seconds s together"
}
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/tally" ./cmd/tally
go test -vet=off -c -o "$work/timing" ./benchmarks
export XDG_STATE_HOME="$work/state" HOME="$work"

governance=autonomous
. benchmarks/viewer_data.sh
run() { # WORKSPACE CLASS...: code 4 is a gate that is not met
    local name=$1
    shift
    timeout 900 "$work/tally" --workspace "$work/$name" run "$@" --quiet --json >/dev/null 2>"$work/run.log" || [ $? = 4 ] || echo "run $*: $(tail -n 1 "$work/run.log")"
}
serve() { # WORKSPACE
    local begun
    begun=$(now)
    "$work/tally" --workspace "$work/$1" view --public --listen 127.0.0.1:18417 --token-file "$work/token" >"$work/serve.log" 2>&1 &
    server=$!
    wait_for "$base/" "$work/serve.log"
    echo "  verified and listening after $(since "$begun")"
}
base=http://127.0.0.1:18417 token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "$token" >"$work/token"

# One workspace with an attempt of many cases and one with a long transcript.
"$work/tally" init "$work/long" >/dev/null
dataset long many "$cases"
registration long turns
mkdir -p "$work/long/bench/turns/cases/one"
cat >"$work/long/targets/short.yaml" <<YAML
version: 1
kind: builtin
builtin: {model: fake-1, api: openai.chat, max_output_tokens: 50, retries: 0, context: {window: 4000, budget: 900}}
YAML
cat >"$work/long/bench/turns/cases/one/case.yaml" <<YAML
schema_version: 1
case_id: one
title: "Many turns"
disposition: positive
difficulty: easy
provenance: {source: curated, source_ref: {type: synthetic, value: benchmark}, added_at: "2026-05-01T09:00:00Z", last_validated_at: "2026-05-01T09:00:00Z"}
YAML
printf 'checks:\n  - {name: noted, grade: {kind: contains, expected: ["noted"]}}\n' >"$work/long/bench/turns/cases/one/grading.yaml"
{
    printf 'version: 1\ntools:\n  - {name: look, description: Look., class: read, replies: [{result: {is: here}}]}\nturns:\n'
    seq 1 "$turns" | awk '{printf "  - text: \"Note %d. The lift stops now and then.\"\n", $1}'
    printf 'model:\n  - {repeat: true, when: {last: "Note"}, tool_calls: ['
    for i in 1 2 3 4 5 6 7; do printf '%s{name: look, args: {at: %d}}' "$([ "$i" = 1 ] || echo ', ')" "$i"; done
    printf ']}\n  - {repeat: true, text: noted}\n'
} >"$work/long/bench/turns/cases/one/scenario.yaml"
run long many
run long turns --target short # may end at a limit: its events are there all the same
events=$("$work/tally" --workspace "$work/long" show turns.short.1:one --events | wc -l)

echo "tally view --public, an attempt of $cases cases, a transcript of $events events; $(load)"
serve long
{
    printf 'overview\t%s/\tNewest attempts\n' "$base"
    printf '%s cases\t%s/attempt/many.default.1\tcase-0000007\n' "$cases" "$base"
    printf 'the last of its pages\t%s/attempt/many.default.1?page=99999\tcase-\n' "$base"
    printf '%s events\t%s/attempt/turns.short.1/case/one\tRun started\n' "$events" "$base"
    printf 'the middle of it\t%s/attempt/turns.short.1/case/one?from=%s\tNote\n' "$base" "$((events / 2))"
    printf 'one short case\t%s/attempt/many.default.1/case/case-0000007\tRun started\n' "$base"
} >"$work/pages"
browse 600 -enter "$base/?token=$token" -rounds "$rounds"
echo "  most memory of the server: $(memory); $(load)"
{
    printf 'corpus\t%s/corpus\tmany\n' "$base"
    printf 'its class\t%s/corpus/many\tRun it\n' "$base"
    printf 'promotion\t%s/promotion/many\tAsk, and record\n' "$base"
} >"$work/pages"
echo "pages that verify the class of $cases cases again; $(load)"
browse 200 -enter "$base/?token=$token" -rounds 0
echo "  most memory of the server: $(memory)"
stop

# A workspace of many attempts.
"$work/tally" init "$work/short" >/dev/null
dataset short few 5
begun=$(now)
for _ in $(seq "$attempts"); do run short few; done
echo "$attempts attempts, made in $(since "$begun"); $(load)"
printf 'overview\t%s/\tNewest attempts\nattempts\t%s/attempts\tfew.default\n' "$base" "$base" >"$work/pages"
for time in first second third; do
    echo "the $time time; $(load)"
    serve short
    browse 100 -enter "$base/?token=$token" -rounds 0
    echo "  most memory of the server: $(memory)"
    stop
done

# Inspect, with as many samples and events.
inspect_view=${INSPECT:-$work/venv/bin/inspect}
if [ -z "${INSPECT:-}" ]; then
    python3 -m venv "$work/venv" 2>"$work/pip.log" || left_out "inspect view: no Python with venv ($(tail -n 1 "$work/pip.log"))"
    timeout 300 "$work/venv/bin/pip" install -q "inspect_ai==$inspect" 2>"$work/pip.log" || left_out "inspect view: inspect_ai $inspect could not be installed within 300 s ($(tail -n 1 "$work/pip.log"))"
fi
mkdir "$work/logs"
"$work/tally" --workspace "$work/long" export many.default.1 --format inspect -o "$work/logs/many.eval" >/dev/null
# An export has no events, so the long sample is written by Inspect's own programs.
timeout 300 "$(dirname "$inspect_view")/python" - "$events" "$work/logs/events.eval" <<'PYTHON' || left_out "inspect view: its log of $events events could not be written within 300 s"
import sys
from datetime import datetime, timezone
from inspect_ai.event import ModelEvent, ToolEvent
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalResults, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelOutput

count, path = int(sys.argv[1]), sys.argv[2]
begun = datetime(2026, 5, 1, 9, tzinfo=timezone.utc)

def event(i):
    if i % 40 == 0:
        said = ChatMessageUser(content=f"Note {i // 40}. The lift stops now and then.", id=f"m{i}")
        return ModelEvent(model="fake-1", input=[said], tools=[], tool_choice="auto", config=GenerateConfig(),
                          output=ModelOutput.from_content("fake-1", "noted"), timestamp=begun, working_start=i / 1000)
    return ToolEvent(id=f"c{i}", function="look_at_lift", arguments={"at": i % 40}, result="here", timestamp=begun, working_start=i / 1000)

sample = EvalSample(id="one", epoch=1, input="Many turns", target="noted", messages=[ChatMessageUser(content="Many turns", id="m")],
                    output=ModelOutput.from_content("fake-1", "noted"), events=[event(i) for i in range(count)])
spec = EvalSpec(created=begun, task="turns", dataset=EvalDataset(name="turns", samples=1, sample_ids=["one"]), model="fake-1", config=EvalConfig())
write_eval_log(EvalLog(status="success", eval=spec, results=EvalResults(total_samples=1, completed_samples=1), samples=[sample]), path)
PYTHON
base=http://127.0.0.1:18418
"$inspect_view" view start --log-dir "$work/logs" --host 127.0.0.1 --port 18418 >"$work/view.log" 2>&1 &
server=$!
wait_for "$base/" "$work/view.log"
printf '%s samples\t%s/#/logs/many.eval/samples\tcase-0000001\n' "$cases" "$base" >"$work/pages"
printf 'one of them\t%s/#/logs/many.eval/samples/sample/case-0000007/1/transcript\tWhat is 7 plus 7\n' "$base" >>"$work/pages"
echo "inspect view $inspect, a log of $cases samples; $(load)"
browse 300 -rounds 1 -wait 120s
echo "  most memory of the server: $(memory)"
printf '%s events\t%s/#/logs/events.eval/samples/sample/one/1/transcript\tlook_at_lift\n' "$events" "$base" >"$work/pages"
echo "inspect view $inspect, a sample of $events events; $(load)"
browse 400 -rounds 1 -wait 180s
echo "  most memory of the server: $(memory)"
