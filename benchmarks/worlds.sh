#!/usr/bin/env bash
# Prints what a fresh world of five tools costs for each case, in each class that starts
# here, beside the same Python process bare: started, reset, asked for its tools and its
# state, and ended. CASES is how many there are, 20. PROGRAM takes a program that was built
# before.
#
#   benchmarks/worlds.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${PROGRAM:-}" ]; then cp "$PROGRAM" "$work/tally"; else CGO_ENABLED=0 go build -ldflags='-s -w' -o "$work/tally" ./cmd/tally; fi
cat >"$work/measure.py" <<'PYTHON'
import json, os, statistics, subprocess, sys, time
work, cases = sys.argv[1], int(sys.argv[2])
WORLD = '''
import json, sys
TOOLS = [{"name": f"tool{n}", "description": "A tool.", "inputSchema": {"type": "object"}} for n in range(5)]
for line in sys.stdin:
    asked = json.loads(line)
    m, result = asked["method"], {}
    if m == "world/health": result = {"ok": True}
    if m == "initialize": result = {"protocolVersion": "2025-06-18", "capabilities": {}}
    if m == "tools/list": result = {"tools": TOOLS}
    if m == "world/state": result = {"state": {}}
    if "id" in asked: print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
'''
def bare():
    p = subprocess.Popen(["/usr/bin/env", "-i", "/usr/bin/python3", os.path.join(work, "w.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for n, m in enumerate(["world/reset", "world/health", "initialize", "tools/list", "world/state", "tools/list", "world/state"]):
        p.stdin.write((json.dumps({"jsonrpc": "2.0", "id": n, "method": m}) + "\n").encode()); p.stdin.flush()
        p.stdout.readline()
    p.kill(); p.wait()
def seconds(what):
    began = time.monotonic(); what(); return time.monotonic() - began
open(os.path.join(work, "w.py"), "w").write(WORLD)
env = {**os.environ, "HOME": work, "XDG_STATE_HOME": os.path.join(work, "state")}
tally = os.path.join(work, "tally")
subprocess.run([tally, "init", os.path.join(work, "ws")], env=env, check=True, stdout=subprocess.DEVNULL)
for name, world in ("without", False), ("with", True):
    dir = os.path.join(work, "ws", "bench", name); os.makedirs(dir)
    open(os.path.join(dir, "registration.yaml"), "w").write(f"class: {name}\ntrust: scratch\nisolation: {{classes: [gvisor], scope: case, allow_weaker: true}}\n")
    with open(os.path.join(dir, "dataset.jsonl"), "w") as out:
        for n in range(cases):
            row = {"expected": "x", "grade": {"kind": "exact"}, "id": f"c{n}", "input": "x", "model": [{"text": "x"}]}
            if world:
                row |= {"tools": [{"class": "read", "name": f"tool{t}", "source": "world"} for t in range(5)], "world": {"command": ["python3", "w.py"]}, "world_files": {"w.py": WORLD}}
            out.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")
bare()
plain = statistics.median(seconds(bare) for _ in range(cases))
print(f"bare: {plain * 1000:.0f} ms")
for kind in "gvisor", "namespace":
    def run(name):
        return seconds(lambda: subprocess.run([tally, "run", name, "--target", "default", "--sandbox", kind, "--jobs", "1", "--workspace", os.path.join(work, "ws")], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        run("with")
    except subprocess.CalledProcessError:
        print(f"{kind}: does not start here")
        continue
    each = (min(run("with") for _ in range(3)) - min(run("without") for _ in range(3))) / cases
    print(f"{kind}: {each * 1000:.0f} ms for each case, {each / plain:.1f} times the bare process")
PYTHON
python3 "$work/measure.py" "$work" "${CASES:-20}"
