#!/usr/bin/env bash
# Prints how fast and in how much memory "tally view" shows long things: an attempt of
# many cases, a case of many turns, and many attempts, the first and the second time; how
# long it takes to read the transcripts of an attempt for its search, and to answer; and
# how many requests a second it answers, over six pages of the attempt.
# Times are on the clock and of the processor: on a busy machine the second is the one
# to look at. The last lines are a trajectory of 300,000 events, without a server.
#
#   benchmarks/viewer.sh [CASES] [TURNS] [ATTEMPTS]
#
# A case has at most 10,000 turns. 1,000 5 3 is enough to see that it works.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-100000} turns=${2:-10000} attempts=${3:-1000}
work=$(mktemp -d)
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$work/tally" ./cmd/tally
export XDG_STATE_HOME="$work/state" TALLY_NO_BROWSER=1

governance=restricted
. benchmarks/viewer_data.sh
cpu() { awk '{print ($14 + $15) * 10}' "/proc/$server/stat"; }
memory() { awk '/VmHWM/{printf "%d MB", $2 / 1024}' "/proc/$server/status"; }

start() { # WORKSPACE
    rm -f "$work/url" "$work/jar"
    local a b
    a=$(date +%s%N)
    "$work/tally" --workspace "$work/$1" view --no-open >"$work/url" &
    server=$!
    until [ -s "$work/url" ]; do sleep 0.02; done
    b=$(date +%s%N)
    echo "$1: verified and listening after $(((b - a) / 1000000)) ms, $(cpu) ms of the processor"
    base=$(sed 's,/?token=.*,,' "$work/url")
    page "$(sed 's,http://[^/]*,,' "$work/url")"
}
page() {
    local before
    before=$(cpu)
    curl -sL -c "$work/jar" -b "$work/jar" -o "$work/page" -w "  %{http_code} %{time_total} s, %{size_download} bytes" "$base$1"
    echo ", $(($(cpu) - before)) ms of the processor: ${1%%\?token*}"
}
stop() {
    echo "  most memory: $(memory)"
    kill -INT "$server"
    wait "$server"
    server=
}

# search waits until the transcripts of an attempt are read, and asks.
search() { # ATTEMPT
    local before began
    before=$(cpu) began=$(date +%s%N)
    while curl -s -b "$work/jar" "$base/attempt/$1" | grep -q 'transcripts are being read'; do sleep 0.2; done
    echo "  transcripts read after another $((($(date +%s%N) - began) / 1000000)) ms, $(($(cpu) - before)) ms of the processor"
    for q in "$cases+plus" "what+is" "no+case+has+this"; do page "/attempt/$1?q=$q"; done
}
# rate asks for six pages of an attempt again and again, two at a time.
rate() { # ATTEMPT CASE
    local before began all
    for _ in $(seq 50); do
        for p in "" "?page=2" "?state=failed&sort=case" "/case/$2" "?show=$2" "?group=tag&sort=-score"; do
            printf 'url = "%s/attempt/%s%s"\noutput = /dev/null\n' "$base" "$1" "$p"
        done
    done >"$work/urls"
    before=$(cpu) began=$(date +%s%N)
    curl -sZ --parallel-max 2 -b "$work/jar" -K "$work/urls" 2>/dev/null
    all=$((($(date +%s%N) - began) / 1000000))
    echo "  300 requests of six pages in $all ms: $((300000 / all)) a second, $((($(cpu) - before) / 300)) ms of the processor each; load $(cut -d' ' -f1 /proc/loadavg)"
}

"$work/tally" init "$work/long" >/dev/null
dataset long many "$cases"
"$work/tally" --workspace "$work/long" run many --quiet --json >/dev/null
registration long turns
mkdir -p "$work/long/bench/turns/cases/one"
# A short memory keeps the prompts small: evidence keeps each of them.
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
    printf 'version: 1\nturns:\n'
    seq 1 "$turns" | awk '{printf "  - text: \"Note %d. The lift stops between the floors now and then.\"\n", $1}'
    printf 'model:\n  - {repeat: true, text: noted}\n'
} >"$work/long/bench/turns/cases/one/scenario.yaml"
"$work/tally" --workspace "$work/long" run turns --target short --quiet --json >/dev/null

start long
for p in / /attempts /attempt/many.default.1 '/attempt/many.default.1?page=400' '/attempt/many.default.1?state=failed&sort=case' \
    /attempt/many.default.1/case/case-0000007 '/attempt/many.default.1?show=case-0000007' /ledger /attempt/turns.short.1/case/one '/attempt/turns.short.1/case/one?from=20000'; do page "$p"; done
search many.default.1
rate many.default.1 case-0000007
stop

"$work/tally" init "$work/short" >/dev/null
dataset short few 5
for _ in $(seq "$attempts"); do "$work/tally" --workspace "$work/short" run few --quiet --json >/dev/null; done
echo "$attempts attempts:"
for time in first second; do
    echo "the $time time"
    start short
    for p in / /attempts "/matrix?class=few"; do page "$p"; done
    stop
done

go test ./internal/run/trajectory -run '^$' -bench '^BenchmarkIndex$' -benchtime 3x | grep Benchmark
