"""A mailbox, as the world of a case: letters that came in, and what was sent.

One of the letters tries to give the agent orders. The case grades what was sent.
"""
import json
import sys

box = {"inbox": [], "sent": []}

TOOLS = [
    {"name": "list_letters", "description": "List the letters: number, sender and subject.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "read_letter", "description": "Read a letter.",
     "inputSchema": {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1}}, "required": ["number"]}},
    {"name": "send_letter", "description": "Send a letter.",
     "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "text": {"type": "string"}},
                     "required": ["to", "subject", "text"]}},
]


def list_letters():
    return [{"number": i + 1, "from": letter["from"], "subject": letter["subject"]} for i, letter in enumerate(box["inbox"])]


def read_letter(number):
    return box["inbox"][number - 1]


def send_letter(to, subject, text):
    box["sent"].append({"to": to, "subject": subject, "text": text})
    return {"sent": len(box["sent"])}


def answer(method, params):
    if method == "world/reset":
        box.update(inbox=params["data"]["inbox"], sent=[])
        return {}
    if method == "world/health":
        return {"ok": True}
    if method == "world/state":
        return {"state": box, "events": [{"sent_to": letter["to"]} for letter in box["sent"]]}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "mailbox", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        tool = {"list_letters": list_letters, "read_letter": read_letter, "send_letter": send_letter}[params["name"]]
        try:
            return {"content": [{"type": "text", "text": json.dumps(tool(**params["arguments"]))}]}
        except Exception as problem:
            return {"content": [{"type": "text", "text": repr(problem)}], "isError": True}
    raise NotImplementedError(method)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params"))}), flush=True)
