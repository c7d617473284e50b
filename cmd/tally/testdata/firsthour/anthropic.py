# An agent with a tool in its own process, on Anthropic's wire and nothing but Python,
# streamed.
import json, os, sys, urllib.request

ORDERS = {"7": "shipped on Monday", "12": "lost"}
TOOLS = [{"name": "lookup_order", "description": "Status of an order",
          "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}]


def ask(messages):
    body = {"model": "claude-x", "max_tokens": 500, "system": "You are the help desk of a shop.", "messages": messages, "tools": TOOLS, "stream": True}
    call = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
                                  {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01", "Content-Type": "application/json"})
    said = {}
    with urllib.request.urlopen(call) as reply:
        for line in reply:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if event["type"] == "message_start":
                assert not said, "a second beginning"
                said = event["message"]
            elif event["type"] == "content_block_start":
                said["content"].append(event["content_block"] | {"json": ""})
            elif event["type"] == "content_block_delta":
                block, delta = said["content"][event["index"]], event["delta"]
                if "text" in delta:
                    block["text"] += delta["text"]
                block["json"] += delta.get("partial_json", "")
            elif event["type"] == "content_block_stop":
                block = said["content"][event["index"]]
                arguments = block.pop("json")
                if arguments:
                    block["input"] = json.loads(arguments)
            elif event["type"] == "message_delta":
                said |= event["delta"]
    return said


messages = [{"role": "user", "content": sys.stdin.read()}]
said = ask(messages)
while said["stop_reason"] == "tool_use":
    messages.append({"role": "assistant", "content": said["content"]})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": b["id"], "content": ORDERS.get(b["input"]["id"], "unknown")}
                                                 for b in said["content"] if b["type"] == "tool_use"]})
    said = ask(messages)
answer = said["content"][0]["text"]
print(answer)
