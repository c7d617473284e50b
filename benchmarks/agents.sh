#!/usr/bin/env bash
# Prints the time and the processor time of a further case of an agent on the
# official OpenAI SDK: as a bare process, in namespaces, in gVisor, preloaded in
# both, and by promptfoo's Python provider where npm can install it.
#
#   benchmarks/agents.sh [ROUNDS]
#
# A further case is what a run of 1+N cases takes more than a run of one, divided
# by N, so that starting tally, reading the environment and preloading are not in
# it. Replies come from the cases. Ratios are to a bare process of the same round;
# the last table has the medians. TALLY=PROGRAM measures that program instead of
# building one, VENV=FOLDER uses an environment that is there, PROMPTFOO=no leaves
# promptfoo out without asking npm.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} further=${FURTHER:-6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${TALLY:-}" ]; then cp "$TALLY" "$work/tally"; else CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/tally" ./cmd/tally; fi
export XDG_STATE_HOME="$work/state"
mkdir "$work/repo" && cd "$work/repo" && mkdir .git
if [ -n "${VENV:-}" ]; then
    ln -s "$VENV" .venv
elif ! { python3 -m venv .venv && .venv/bin/pip install -q openai; } >"$work/pip" 2>&1; then
    echo "skipped: pip cannot install the OpenAI SDK here: $(tail -1 "$work/pip")"
    exit 0
fi
# As an installed environment is: with its caches.
.venv/bin/python -c "import openai, compileall" && echo "openai $(.venv/bin/python -c 'import openai; print(openai.__version__)'), $(.venv/bin/python --version), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
cat >agent.py <<'PYTHON'
import sys
from openai import OpenAI

client = OpenAI()
reply = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": sys.stdin.read()}])
print(reply.choices[0].message.content)
PYTHON
# The same, with what the SDK imports when it is first used.
{ printf 'try:\n    import openai.resources.chat.completions, h11, anyio.abc, jiter, httpcore2, truststore\nexcept ImportError:\n    pass\n'; cat agent.py; } >eager.py
"$work/tally" init ws >/dev/null 2>&1
mkdir ws/bench/sdk
cat >ws/bench/sdk/registration.yaml <<'YAML'
version: 1
class: sdk
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor, namespace], scope: case, allow_weaker: false}
judged_scores_count: false
YAML
for i in $(seq 0 "$further"); do
    printf '{"id":"%s","input":"ping %d","model":[{"text":"pong %d"}],"expected":"pong %d","grade":{"kind":"exact"}}\n' "$([ "$i" = 0 ] && echo first || echo "more-$i")" "$i" "$i" "$i"
done >ws/bench/sdk/dataset.jsonl
target='version: 1\nkind: command\ncommand: {command: [python, /agent/agent.py], source: agent.py, venv: .venv'
bare='version: 1\nkind: command\ncommand: {command: [%s, %s]}\n'
printf "$target}\n" >ws/targets/cold.yaml
printf "$target, warm: python}\n" >ws/targets/warm.yaml
sed 's/agent\.py/eager.py/g' ws/targets/warm.yaml >ws/targets/eager.yaml
# Without a sandbox there is no /agent and no /venv.
printf "$bare" "$PWD/.venv/bin/python" "$PWD/agent.py" >ws/targets/bare.yaml

# Processor time of everything that a command starts, if we may make a cgroup; else
# of what it waited for, which leaves out gVisor's kernel.
cpuacct=/sys/fs/cgroup/cpuacct
[ -w "$cpuacct" ] || cpuacct=
measure() { # seconds and processor seconds of a command
    local began group=
    began=$(date +%s.%N)
    if [ -n "$cpuacct" ]; then
        group=$cpuacct/tally-benchmark-$$
        mkdir "$group"
        (echo "$BASHPID" >"$group/tasks" && "$@" >"$work/out" 2>&1) || { cat "$work/out" >&2; rmdir "$group"; return 1; }
        sleep 0.2 # gVisor's last processes
        echo "$began $(date +%s.%N) $(cat "$group/cpuacct.usage")" | awk '{print $2-$1-0.2, $3/1e9}'
        rmdir "$group" 2>/dev/null || true
    else
        "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; return 1; }
        echo "$began $(date +%s.%N)" | awk '{print $2-$1, 0}'
    fi
}
run() { "$work/tally" --workspace ws run sdk --jobs 1 "$@"; }
further_case() { # of a command that takes a selection of cases
    local one all
    one=$(measure "$@" --case first) || exit 1
    all=$(measure "$@") || exit 1
    echo "$one $all $further" | awk '{print ($3-$1)/$5, ($4-$2)/$5}'
}
promptfoo=
if [ "${PROMPTFOO:-}" = no ]; then
    echo "promptfoo is left out, as asked"
elif command -v npm >/dev/null && (cd "$work" && timeout 300 npm install --silent --no-audit --no-fund promptfoo >"$work/npm" 2>&1); then
    promptfoo=$work/node_modules/.bin/promptfoo
else
    echo "promptfoo is left out: npm cannot install it here"
fi
promptfoo_case() { # its provider keeps a Python process; the model is a server that answers at once
    cat >"$work/provider.py" <<'PYTHON'
from openai import OpenAI
import os
client = OpenAI(base_url=os.environ["MODEL_URL"], api_key="x")
def call_api(prompt, options, context):
    reply = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": prompt}])
    return {"output": reply.choices[0].message.content}
PYTHON
    cat >"$work/model.py" <<'PYTHON'
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        b = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "pong"}}]}).encode()
        self.send_response(200); self.send_header("Content-Type", "application/json"); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
print(s.server_address[1], flush=True)
s.serve_forever()
PYTHON
    python3 "$work/model.py" >"$work/port" & local server=$!
    while [ ! -s "$work/port" ]; do sleep 0.05; done
    export MODEL_URL="http://127.0.0.1:$(cat "$work/port")/v1" PROMPTFOO_PYTHON="$PWD/.venv/bin/python" PROMPTFOO_CONFIG_DIR="$work/promptfoo" \
        PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_CACHE_ENABLED=false
    local n one all
    for n in 1 $((1 + further)); do
        { echo "prompts: ['ping {{i}}']"; echo "providers: ['file://$work/provider.py']"; echo "tests:"; for i in $(seq "$n"); do echo "  - {vars: {i: '$i'}, assert: [{type: equals, value: pong}]}"; done; } >"$work/promptfoo-$n.yaml"
    done
    one=$(measure "$promptfoo" eval --no-cache --no-table -j 1 -c "$work/promptfoo-1.yaml")
    all=$(measure "$promptfoo" eval --no-cache --no-table -j 1 -c "$work/promptfoo-$((1 + further)).yaml")
    kill "$server"
    echo "$one $all $further" | awk '{print ($3-$1)/$5, ($4-$2)/$5}'
}

: >"$work/figures"
report() { # name, figures, figures of a bare process
    echo "$1|$2|$3" | awk -F'|' '{split($2, f, " "); split($3, b, " "); printf "  %-22s %7.3f s  %7.3f s cpu   %6.2f x bare  %6.2f x cpu\n", $1, f[1], f[2], f[1]/b[1], b[2] ? f[2]/b[2] : 0}'
    echo "$1|$2|$3" >>"$work/figures"
}
for round in $(seq "$rounds"); do
    echo "round $round, load $(cut -d' ' -f1 /proc/loadavg)"
    b=$(further_case run --target bare --unsafe-agent)
    report "bare process" "$b" "$b"
    report "namespaces" "$(further_case run --target cold --sandbox namespace)" "$b"
    report "gVisor" "$(further_case run --target cold --sandbox gvisor)" "$b"
    report "warm, namespaces" "$(further_case run --target warm --sandbox namespace)" "$b"
    report "warm, gVisor" "$(further_case run --target warm --sandbox gvisor)" "$b"
    report "  imports all above" "$(further_case run --target eager --sandbox gvisor)" "$b"
    if [ -n "$promptfoo" ]; then report "promptfoo, Python" "$(promptfoo_case)" "$b"; fi
done
echo "median of $rounds rounds, per further case"
awk -F'|' '
    {split($2, f, " "); split($3, b, " "); n[$1]++; wall[$1, n[$1]] = f[1]/b[1]; cpu[$1, n[$1]] = b[2] ? f[2]/b[2] : 0; if (n[$1] == 1) order[++k] = $1}
    function median(a, name, m,   i, j, t, v) {for (i = 1; i <= m; i++) v[i] = a[name, i]; for (i = 1; i < m; i++) for (j = i + 1; j <= m; j++) if (v[j] < v[i]) {t = v[i]; v[i] = v[j]; v[j] = t}; return v[int((m + 1) / 2)]}
    END {for (i = 1; i <= k; i++) printf "  %-22s %6.2f x bare   %6.2f x bare in processor time\n", order[i], median(wall, order[i], n[order[i]]), median(cpu, order[i], n[order[i]])}' "$work/figures"
