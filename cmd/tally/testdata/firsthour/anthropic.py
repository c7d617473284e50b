# An agent with a tool in its own process, on Anthropic's wire and nothing but Python.
import json, os, sys, urllib.request

ORDERS = {"7": "shipped on Monday", "12": "lost"}
TOOLS = [{"name": "lookup_order", "description": "Status of an order",
          "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}]


def ask(messages):
    body = {"model": "claude-x", "max_tokens": 500, "system": "You are the help desk of a shop.", "messages": messages, "tools": TOOLS}
    call = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
                                  {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01", "Content-Type": "application/json"})
    with urllib.request.urlopen(call) as reply:
        return json.load(reply)


messages = [{"role": "user", "content": sys.stdin.read()}]
said = ask(messages)
while said["stop_reason"] == "tool_use":
    messages.append({"role": "assistant", "content": said["content"]})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": b["id"], "content": ORDERS.get(b["input"]["id"], "unknown")}
                                                 for b in said["content"] if b["type"] == "tool_use"]})
    said = ask(messages)
answer = said["content"][0]["text"]
print(answer)
