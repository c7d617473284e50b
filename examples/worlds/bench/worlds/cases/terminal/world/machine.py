"""A machine with a shell, as the world of a case: the agent's commands run in here, in the
world's sandbox, and never in the agent's.
"""
import json
import os
import subprocess
import sys

HOME = os.path.join(os.environ["WORK"], "machine")

TOOLS = [{"name": "shell", "description": "Run a command with sh on the machine. Its folder is the machine's home.",
          "inputSchema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}]


def shell(command):
    done = subprocess.run(["sh", "-c", command], cwd=HOME, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    return {"status": done.returncode, "output": done.stdout[-4000:].decode(errors="replace")}


def files():
    found = {}
    for folder, _, names in os.walk(HOME):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, HOME)] = open(path, errors="replace").read()
    return dict(sorted(found.items()))


def answer(method, params):
    if method == "world/reset":
        for name, text in params["data"]["files"].items():
            path = os.path.join(HOME, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        return {}
    if method == "world/health":
        return {"ok": True}
    if method == "world/state":
        found = files()
        return {"state": {"names": list(found)}, "files": found}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "machine", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(shell(**params["arguments"]))}]}
    raise NotImplementedError(method)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params"))}), flush=True)
