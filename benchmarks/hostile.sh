#!/usr/bin/env bash
# Prints the peak memory of tally itself, and the time, for ten agents that send
# the worst that was found, and for three expressions that ask too much of a long
# answer, each as one attempt of two cases: the hostile one, and one that must be
# run all the same. The agents run without a sandbox, so that nothing but tally is
# measured. LIMIT is how many seconds an attempt may take before it is killed, 120;
# ONLY is a part of the names of those that are measured.
#
#   benchmarks/hostile.sh [COMMIT | PROGRAM]
#
# With a COMMIT, the program of that commit is measured beside this one, or a
# PROGRAM that was built before. AFTER=PROGRAM takes that instead of building.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${AFTER:-}" ]; then cp "$AFTER" "$work/after"; else CGO_ENABLED=0 go build -ldflags='-s -w' -o "$work/after" ./cmd/tally; fi
programs=(after)
if [ $# -gt 0 ]; then
    if [ -x "$1" ]; then
        cp "$1" "$work/before"
    else
        mkdir "$work/source"
        git archive "$1" | tar x -C "$work/source"
        (cd "$work/source" && CGO_ENABLED=0 go build -ldflags='-s -w' -o "$work/before" ./cmd/tally)
    fi
    programs=(before after)
fi

cat >"$work/agent.py" <<'PYTHON'
import http.client, json, os, sys, threading, time
question = sys.stdin.read().strip()
host, token = os.environ["TALLY_GATEWAY"].removeprefix("http://"), os.environ["TALLY_TOKEN"]
M = 1 << 20
session = {}
def post(path, body):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
    try:
        c = http.client.HTTPConnection(host, timeout=120)
        c.request("POST", path, body, headers)
        r = c.getresponse()
        if r.getheader("Mcp-Session-Id"): session["Mcp-Session-Id"] = r.getheader("Mcp-Session-Id")
        r.read()
        return r.status
    except OSError: return 0
def chat(body): return post("/v1/chat/completions", body)
def call(name, args):
    if not session:
        post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}))
    return post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": args}}))
def at_once(n, f):
    threads = [threading.Thread(target=f, args=(i,)) for i in range(n)]
    for t in threads: t.start()
    for t in threads: t.join()
def slowly(i):
    c = http.client.HTTPConnection(host, timeout=120)
    c.putrequest("POST", "/v1/chat/completions")
    for k, v in {"Authorization": "Bearer " + token, "Content-Length": str(8 * M - 100)}.items(): c.putheader(k, v)
    c.endheaders()
    try:
        for _ in range(7): c.send(b"x" * M)
        time.sleep(5)
    except OSError: pass
attacks = {
    "denied calls of 7 MiB": lambda: [call("pay", {"i": i, "a": "x" * (7 * M)}) for i in range(30)],
    "bodies of empty lists": lambda: at_once(4, lambda i: chat(b'{"model":"m","x":[' + b"[]," * 2700000 + b"[]]}")),
    "150 arguments of 8,000": lambda: [call("pay", {"a%d" % k: "y" * 8000 for k in range(150)}) for _ in range(20)],
    "no model": lambda: chat('{"model":"","messages":[]}'),
    "8 MiB deep": lambda: [chat('{"model":"m","x":' + "[" * (8 * M - 100)) for _ in range(4)],
    "3,000 small calls": lambda: [call("pay", {"i": i}) for i in range(3000)],
    "prompts of 7 MiB": lambda: [chat(json.dumps({"model": "m", "messages": [{"role": "user", "content": str(i) + "z" * (7 * M)}]})) for i in range(25)],
    "beginnings of secrets": lambda: [chat(json.dumps({"model": "m", "messages": [{"role": "user", "content": w * (7 * M // len(w))}]})) for w in ["-----BEGIN ", "sk-", "password=", "eyJ", "https://a:"]],
    "32 slow bodies": lambda: at_once(32, slowly),
    "4 MiB of errors": lambda: (sys.stderr.write(("AKI" + "AIOSFODNN7EXAMPLE ") * 190000), sys.exit(3)),
}
if question.startswith("expression: "):
    print("a" * 200000)
    sys.exit(0)
if question != "be honest":
    attacks[question]()
print("ok")
PYTHON

names=("denied calls of 7 MiB" "bodies of empty lists" "150 arguments of 8,000" "no model" "8 MiB deep" "3,000 small calls" "prompts of 7 MiB" "beginnings of secrets" "32 slow bodies" "4 MiB of errors" "expression: time" "expression: memory" "expression: nested")
# How the hostile case is graded.
declare -A expressions=(
    ["expression: time"]="!run.answer.matches('(.{0,30}){0,30}x')"
    ["expression: nested"]="[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, !run.answer.matches('(.{0,30}){0,30}x')))"
)
expressions["expression: memory"]="size([$(seq -s, 1 60)].map(a, [$(seq -s, 1 60)].map(b, run.answer + run.answer))) > 0"
# The most memory that a process had, looked at while it lives.
peak() { local most=0 now; while now=$(awk '/VmHWM/{print $2}' "/proc/$1/status" 2>/dev/null) && [ -n "$now" ]; do most=$now; sleep 0.02; done; echo "$most"; }
printf '%-8s %-24s %9s %8s  %s\n' program input "peak MB" seconds "outcomes of the two cases"
for name in "${names[@]}"; do
    [[ $name == *"${ONLY:-}"* ]] || continue
    for program in "${programs[@]}"; do
        ws="$work/$program-ws"
        rm -rf "$ws" "$work/state"
        export XDG_STATE_HOME="$work/state"
        "$work/$program" init "$ws" >/dev/null 2>&1
        mkdir -p "$ws/bench/hostile"
        cat >"$ws/bench/hostile/registration.yaml" <<'YAML'
version: 1
class: hostile
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 1000000000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
        for question in "$name" "be honest"; do
            grade='"expected":"ok","grade":{"kind":"exact"}'
            [ -z "${expressions[$question]:-}" ] || grade="\"grade\":{\"kind\":\"cel\",\"at_turn\":1,\"expression\":\"${expressions[$question]}\"}"
            printf '{"id":"%s","input":"%s","model":[{"text":"ok","repeat":true}],%s}\n' "${question//[^a-z0-9]/-}" "$question" "$grade"
        done >"$ws/bench/hostile/dataset.jsonl"
        printf 'version: 1\nkind: command\ncommand: {command: [python3, "%s"]}\n' "$work/agent.py" >"$ws/targets/hostile.yaml"
        began=$(date +%s.%N)
        "$work/$program" --workspace "$ws" run hostile --target hostile --unsafe-agent --json >"$work/out" 2>"$work/err" &
        tally=$!
        (sleep "${LIMIT:-120}" && kill -KILL "$tally") 2>/dev/null &
        watch=$!
        kilobytes=$(peak "$tally")
        wait "$tally" && status=0 || status=$?
        kill "$watch" 2>/dev/null || true
        took=$(echo "$began $(date +%s.%N)" | awk '{printf "%.1f", $2-$1}')
        outcomes=$(grep -rhao '"outcome":"[a-z]*"' "$ws/.tally/ledger" | sort | uniq -c | awk '{gsub(/.*:|"/,"",$2); printf "%s%s %s", sep, $1, $2; sep=", "}' || true)
        printf '%-8s %-24s %9d %8s  %s (exit %d)\n' "$program" "$name" $((kilobytes / 1000)) "$took" "${outcomes:-the attempt ended}" "$status"
    done
done
