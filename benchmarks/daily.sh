#!/usr/bin/env bash
# Prints how long it takes from a save to its result in the daily loop: a class of 40
# cases that are recorded, one of them edited so that its request is new, answered by a
# model on this machine that takes a fixed time. "Beyond the model" is what is left of the
# time without that. Beside it promptfoo with its cache on the same job, in the same run,
# where npm can install it; it starts anew at each edit. The provider counts: an edit must cost one call.
#
#   benchmarks/daily.sh [EDITS] [CASES]
#
# PEER=folder keeps promptfoo there between runs. Wants a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
edits=${1:-5} cases=${2:-40} delay=0.5
work=$(mktemp -d)
pids=()
cleanup() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT
now() { date +%s.%N; }

# The model says its question again, after the delay, and notes each call.
cat >"$work/model.py" <<'PY'
import json, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
calls, lock = open(sys.argv[2], "a"), threading.Lock()
class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(float(sys.argv[1]))
        with lock:
            calls.write("call\n"); calls.flush()
        text = asked["messages"][-1]["content"]
        body = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text if isinstance(text, str) else text[0]["text"]}}], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_address[1], flush=True)
server.serve_forever()
PY
: >"$work/calls"
python3 "$work/model.py" "$delay" "$work/calls" >"$work/port" &
pids+=($!)
until [ -s "$work/port" ]; do sleep 0.05; done
url="http://127.0.0.1:$(cat "$work/port")/v1"
calls() { wc -l <"$work/calls"; }
export DAILY_KEY=sk-daily-0123456789 OPENAI_API_KEY=sk-daily-0123456789
unset CI

# Our side: a command agent on this machine's Python.
CGO_ENABLED=0 go build -o "$work/tally" ./cmd/tally
export XDG_STATE_HOME="$work/state"
tally() { "$work/tally" --workspace "$work/ws" "$@"; }
"$work/tally" init "$work/ws" >/dev/null
mkdir -p "$work/ws/bench/daily" "$work/ws/targets/agent"
cat >"$work/ws/bench/daily/registration.yaml" <<'YAML'
version: 1
class: daily
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor, namespace], scope: case, allow_weaker: true}
judged_scores_count: false
YAML
cat >"$work/ws/providers.yaml" <<YAML
version: 1
openai:
  base_url: $url
  key_env: DAILY_KEY
  prices:
    fake-1: {input: 1000000, output: 1000000}
YAML
cat >"$work/ws/targets/default.yaml" <<'YAML'
version: 1
kind: command
command: {command: [python3, /agent/agent.py], files: agent}
YAML
cat >"$work/ws/targets/agent/agent.py" <<'PY'
import json, os, sys, urllib.request
body = json.dumps({"model": "fake-1", "max_tokens": 50, "messages": [{"role": "user", "content": sys.stdin.read()}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"], end="")
PY
dataset() { # with the case that is edited saying something else
    seq 1 "$cases" | awk -v edit="$1" '{q = "Question " $1 ($1 == 7 ? edit : ""); printf "{\"id\":\"case-%02d\",\"input\":\"%s\",\"grade\":{\"kind\":\"contains\",\"expected\":[\"Question\"]}}\n", $1, q}' >"$work/ws/bench/daily/new"
    mv "$work/ws/bench/daily/new" "$work/ws/bench/daily/dataset.jsonl"
}
dataset ""
# A permission is given at a terminal, once.
python3 - "$work/tally" --workspace "$work/ws" run daily --live <<'PY' >"$work/first.log" 2>&1 || { tail -20 "$work/first.log"; exit 1; }
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    if not some:
        break
    seen += some
    if b"How many dollars a day?" in seen and b"anything else is no: " in seen:
        os.write(terminal, b"yes\n")
        seen = b""
    sys.stdout.buffer.write(some)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
recorded=$(calls)
"$work/tally" --workspace "$work/ws" run daily --watch --quiet --json >"$work/runs" 2>"$work/notes" &
pids+=($!)
lines() { wc -l <"$work/runs"; }
until [ "$(lines)" -ge 1 ]; do sleep 0.05; done
ours=()
for i in $(seq 1 "$edits"); do
    before=$(lines)
    a=$(now)
    dataset " again $i"
    until [ "$(lines)" -gt "$before" ]; do sleep 0.01; done
    ours+=("$(awk -v a="$a" -v b="$(now)" 'BEGIN{print b-a}')")
    tail -1 "$work/runs" | grep -q "\"passed\":$cases,\"failed\":0" || { echo "tally: not every case passed: $(tail -1 "$work/runs" | cut -c1-300)"; exit 1; }
    sleep 0.5
done
paid=$(($(calls) - recorded))
median() { printf '%s\n' "$@" | sort -n | awk '{x[NR]=$1} END{print x[int((NR+1)/2)]}'; }
our=$(median "${ours[@]}")
awk -v t="$our" -v d="$delay" -v n="$edits" -v p="$paid" -v r="$recorded" -v c="$cases" 'BEGIN{printf "tally run --watch: %.2f s from save to result, %.2f s beyond the model (median of %d edits of one of %d cases, command agent in a sandbox); %d calls for the class, %d for the edits\n", t, t-d, n, c, r, p}'

if ! command -v npm >/dev/null; then
    echo "promptfoo: npm is not here; not compared"
    exit 0
fi
peer_dir=${PEER:-$work/peer}
mkdir -p "$peer_dir" && cd "$peer_dir"
export npm_config_nodedir=${npm_config_nodedir:-$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")}
if [ ! -e node_modules/better-sqlite3/build/Release/better_sqlite3.node ] && ! {
    npm install --no-audit --no-fund --silent promptfoo@0.120.27 && npm rebuild --silent better-sqlite3
} >npm.log 2>&1; then
    echo "promptfoo: npm could not install it; not compared"
    exit 0
fi
export PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_CONFIG_DIR="$work/home" PROMPTFOO_CACHE_PATH="$work/cache" OPENAI_BASE_URL="$url"
config() {
    {
        echo 'prompts: ["{{q}}"]'
        echo "providers: [{id: 'openai:chat:fake-1', config: {apiBaseUrl: '$url', max_tokens: 50}}]"
        echo 'tests:'
        seq 1 "$cases" | awk -v edit="$1" '{printf "  - {vars: {q: \"Question %d%s\"}, assert: [{type: contains, value: Question}]}\n", $1, $1 == 7 ? edit : ""}'
    } >promptfooconfig.yaml
}
config ""
before=$(calls)
npx promptfoo eval --no-table --no-progress-bar -j 4 >eval.log 2>&1 || { tail -5 eval.log; echo "promptfoo: did not run; not compared"; exit 0; }
first=$(($(calls) - before))
before=$(calls)
theirs=()
for i in $(seq 1 "$edits"); do
    a=$(now)
    config " again $i"
    npx promptfoo eval --no-table --no-progress-bar -j 4 >eval.log 2>&1 || { tail -5 eval.log; echo "promptfoo: did not run; not compared"; exit 0; }
    theirs+=("$(awk -v a="$a" -v b="$(now)" 'BEGIN{print b-a}')")
done
paid=$(($(calls) - before))
their=$(median "${theirs[@]}")
awk -v t="$their" -v d="$delay" -v n="$edits" -v p="$paid" -v r="$first" -v v="$(npx promptfoo --version 2>/dev/null)" 'BEGIN{printf "promptfoo %s, with its cache: %.2f s, %.2f s beyond the model, start included (median of %d); %d calls, then %d for the edits\n", v, t, t-d, n, r, p}'
awk -v a="$our" -v b="$their" -v d="$delay" 'BEGIN{printf "ratio beyond the model: %.2f (ours by theirs)\n", (a-d)/(b-d)}'
